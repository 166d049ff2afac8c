/* SPDX-License-Identifier: MIT */
/* Exact replacement: what is changed, and above all what is not. */
#include "workspace/text_edit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit.h"

#define T(s) (s), sizeof(s) - 1

struct edit_case {
	const char *text;
	size_t text_len;
	const char *old_text;
	size_t old_len;
	const char *new_text;
	size_t new_len;
	bool all;
	const char *want;
	size_t want_len;
	size_t n;
};

static const struct edit_case good[] = {
	{ T("one two three"), T("two"), T("2"), false, T("one 2 three"), 1 },
	{ T("a\r\nword\r\nb\r\n"), T("word"), T("other"), false, T("a\r\nother\r\nb\r\n"), 1 },
	{ T("a\nword\r\nb\rc"), T("word"), T("x"), false, T("a\nx\r\nb\rc"), 1 },
	{ T("a\rword\rb"), T("word\r"), T(""), false, T("a\rb"), 1 },
	{ T("\xef\xbb\xbfword\n"), T("word"), T("x"), false, T("\xef\xbb\xbfx\n"), 1 },
	{ T("caf\xe9 word \xff"), T("word"), T("w\xe9"), false, T("caf\xe9 w\xe9 \xff"), 1 },
	{ T("w\0o\0r\0d\0"), T("o\0"), T("u\0"), false, T("w\0u\0r\0d\0"), 1 },
	{ T("a\0b\0a"), T("b\0"), T(""), false, T("a\0a"), 1 },
	{ T("no final newline"), T("newline"), T("line"), false, T("no final line"), 1 },
	{ T("x"), T("x"), T(""), false, T(""), 1 },
	{ T("x\r\ny\r\n"), T("x\r\ny"), T("z"), false, T("z\r\n"), 1 },
	{ T("aaa"), T("aa"), T("b"), true, T("ba"), 1 },
	{ T("aaaa"), T("aa"), T("aaa"), true, T("aaaaaa"), 2 },
	{ T("abab"), T("ab"), T(""), true, T(""), 2 },
	{ T("one"), T("one"), T("two"), true, T("two"), 1 },
};

static void test_only_the_bytes_of_the_match_change(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		const struct edit_case *c = &good[i];
		struct text_edit e = { c->old_text, c->new_text, c->old_len, c->new_len, c->all };
		struct buf out = { 0 };
		struct err err = { 0 };
		size_t n = 0;

		if (text_edit_apply(c->text, c->text_len, &e, &out, &n, &err) != 0)
			fail_msg("case %zu: %s", i, err.msg);
		assert_int_equal(n, c->n);
		assert_int_equal(out.len, c->want_len);
		assert_memory_equal(out.data, c->want, c->want_len);
		buf_free(&out);
	}
}

static void test_refusals_say_what_and_where(void **state)
{
	static const struct {
		const char *text;
		size_t text_len;
		const char *old_text;
		size_t old_len;
		const char *new_text;
		size_t new_len;
		int rc;
		const char *says;
	} cases[] = {
		{ T("abc"), T(""), T("x"), -EINVAL, "must not be empty" },
		{ T(""), T(""), T(""), -EINVAL, "must not be empty" },
		{ T("abc"), T("b"), T("b"), -EINVAL, "are the same" },
		{ T("aaa"), T("aa"), T("b"), -ENOTUNIQ, "occurs 2 times, at lines 1, 1" },
		{ T("x\ny\nx\n\nx"), T("x"), T("z"), -ENOTUNIQ,
		  "occurs 3 times, at lines 1, 3, 5" },
		{ T("aaaaaaaaaaaaaaaaaaaa"), T("a"), T("b"), -ENOTUNIQ, "more than 16 times" },
		{ T("abc"), T("x"), T("b"), -ENOMSG, "does not occur" },
		{ T(""), T("x"), T("b"), -ENOMSG, "does not occur" },
		{ T("0\r\na\r\nb\r\n"), T("a\nb\n"), T("c"), -ENOMSG,
		  "at line 2 it differs only in line ends" },
		{ T("a\nb\n"), T("a\r\nb\r\n"), T("c"), -ENOMSG, "differs only in line ends" },
		{ T("a\rb\r"), T("a\nb"), T("c"), -ENOMSG, "differs only in line ends" },
		{ T("a\n\tif (x)\n"), T("    if (x)"), T("c"), -ENOMSG,
		  "at line 2 it differs only in blanks" },
		{ T("Hello"), T("hello"), T("c"), -ENOMSG, "upper and lower case" },
		{ T("abc"), T("  "), T("c"), -ENOMSG, "does not occur" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct text_edit e = { cases[i].old_text, cases[i].new_text, cases[i].old_len,
				       cases[i].new_len, false };
		struct buf out = { 0 };
		struct err err = { 0 };
		size_t n = 77;

		assert_int_equal(
			text_edit_apply(cases[i].text, cases[i].text_len, &e, &out, &n, &err),
			cases[i].rc);
		if (strstr(err.msg, cases[i].says) == NULL)
			fail_msg("case %zu: %s", i, err.msg);
		assert_int_equal(n, 77);
		assert_int_equal(out.len, 0);
		buf_free(&out);
	}
}

static void test_a_result_beyond_the_maximum_is_refused(void **state)
{
	struct text_edit e = { "a", "bbbb", 1, 4, true };
	struct buf out = { .max = 6 };
	struct err err = { 0 };
	size_t n;

	(void)state;
	assert_int_equal(text_edit_apply("axa", 3, &e, &out, &n, &err), -EMSGSIZE);
	assert_int_equal(out.len, 0);
	assert_int_equal(text_edit_apply("axx", 3, &e, &out, &n, &err), 0);
	assert_int_equal(out.len, 6);
	buf_free(&out);
}

/* Each overlapping match restarts the search: all of them would be 2^46 steps here. */
static void test_a_text_of_one_letter_takes_no_square_time(void **state)
{
	size_t n = 16u << 20, half = n / 2, replaced;
	char *text = malloc(n);
	struct text_edit e = { text, "b", half, 1, false };
	struct buf out = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_non_null(text);
	memset(text, 'a', n);
	assert_int_equal(text_edit_apply(text, n, &e, &out, &replaced, &err), -ENOTUNIQ);
	e.replace_all = true;
	assert_int_equal(text_edit_apply(text, n, &e, &out, &replaced, &err), 0);
	assert_int_equal(replaced, 2);
	assert_int_equal(out.len, 2);
	buf_free(&out);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_the_bytes_of_the_match_change),
		cmocka_unit_test(test_refusals_say_what_and_where),
		cmocka_unit_test(test_a_result_beyond_the_maximum_is_refused),
		cmocka_unit_test(test_a_text_of_one_letter_takes_no_square_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
