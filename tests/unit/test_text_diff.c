/* SPDX-License-Identifier: MIT */
/*
 * Unified diffs: exact texts for small ones, and for any: what text_patch.h makes of the old text
 * and the diff is the new text.
 */
#include "workspace/text_diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit.h"
#include "workspace/text_patch.h"

static void test_small_diffs_are_written_exactly(void **state)
{
	static const struct {
		const char *a, *b, *want;
	} cases[] = {
		{ "a\nb\nc\n", "a\nb\nc\n", "" },
		{ "", "", "" },
		{ "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n" },
		{ "", "a\n", "@@ -0,0 +1 @@\n+a\n" },
		{ "a\n", "", "@@ -1 +0,0 @@\n-a\n" },
		{ "a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n" },
		{ "a\nb", "a\nc",
		  "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"
		  "\\ No newline at end of file\n" },
		{ "x\nb", "y\nb", "@@ -1,2 +1,2 @@\n-x\n+y\n b\n\\ No newline at end of file\n" },
		{ "a\r\nb\r\n", "a\nb\r\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n" },
		/* inserted behind many lines: context on both sides, the rest is left out */
		{ "1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n",
		  "@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n" },
		/* six equal lines between changes: one hunk; seven: two */
		{ "a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
		  "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n" },
		{ "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
		  "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n" },
		{ "a\na\n", "a\na\na\n", "@@ -1,2 +1,3 @@\n a\n a\n+a\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		static const char head[] = "--- a/f\n+++ b/f\n";
		struct buf out = { 0 };
		const char *text;

		assert_int_equal(text_diff(cases[i].a, strlen(cases[i].a), cases[i].b,
					   strlen(cases[i].b), "f", &out),
				 0);
		text = buf_cstr(&out);
		if (cases[i].want[0] != '\0') {
			assert_memory_equal(text, head, sizeof(head) - 1);
			text += sizeof(head) - 1;
		}
		assert_string_equal(text, cases[i].want);
		buf_free(&out);
	}
}

static void test_names_are_quoted_when_they_must(void **state)
{
	static const struct {
		const char *name, *want;
	} cases[] = {
		{ "dir/f", "--- a/dir/f\n" },      { "a b", "--- a/a b\t\n" },
		{ "a\nb", "--- \"a/a\\012b\"\n" }, { "q\"\\", "--- \"a/q\\\"\\\\\"\n" },
		{ "\xff", "--- a/\xff\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buf out = { 0 };

		assert_int_equal(text_diff("", 0, "x\n", 2, cases[i].name, &out), 0);
		assert_memory_equal(out.data, cases[i].want, strlen(cases[i].want));
		buf_free(&out);
	}
}

static void check_round_trip(const struct buf *a, const struct buf *b)
{
	struct buf diff = { 0 }, back = { 0 };
	struct text_patch patch;
	struct err err = { 0 };
	struct text_patch_outcome *outcomes;
	size_t n;

	assert_int_equal(text_diff((char *)a->data, a->len, (char *)b->data, b->len, "f", &diff),
			 0);
	if (diff.len == 0) {
		assert_int_equal(a->len, b->len);
		return;
	}
	if (text_patch_parse((char *)diff.data, diff.len, &patch, &err) != 0)
		fail_msg("%s\n%.*s", err.msg, (int)diff.len, (char *)diff.data);
	outcomes = calloc(patch.n_hunks, sizeof(*outcomes));
	assert_int_equal(text_patch_apply(&patch, (char *)a->data, a->len, &back, outcomes, &n), 0);
	if (n != patch.n_hunks || back.len != b->len ||
	    (b->len > 0 && memcmp(back.data, b->data, b->len) != 0))
		fail_msg("%zu of %zu landed: %s\n%.*s", n, patch.n_hunks, outcomes[0].reason,
			 (int)diff.len, (char *)diff.data);
	free(outcomes);
	text_patch_fini(&patch);
	buf_free(&back);
	buf_free(&diff);
}

static void fill(struct buf *b, unsigned *seed, size_t n_lines)
{
	static const char *const words[] = { "a\n",         "b\n", "\n",   "\r\n",
					     "long line\n", "-\n", "a\r\n" };

	buf_reset(b);
	assert_int_equal(buf_reserve(b, 1), 0);
	for (size_t i = 0; i < n_lines; i++)
		assert_int_equal(buf_puts(b, words[(unsigned)rand_r(seed) % ARRAY_LEN(words)]), 0);
	if (rand_r(seed) % 3 == 0)
		assert_int_equal(buf_puts(b, "no end"), 0);
}

/* A text with a few lines of another exchanged, inserted and left out. */
static void disturb(struct buf *b, const struct buf *a, unsigned *seed)
{
	buf_reset(b);
	assert_int_equal(buf_reserve(b, 1), 0);
	for (size_t at = 0; at < a->len;) {
		const char *p = (const char *)a->data + at;
		const char *lf = memchr(p, '\n', a->len - at);
		size_t n = lf != NULL ? (size_t)(lf - p) + 1 : a->len - at;
		int what = rand_r(seed) % 12;

		if (what == 0)
			assert_int_equal(buf_puts(b, "new\n"), 0);
		if (what != 1)
			assert_int_equal(buf_append(b, p, n), 0);
		at += n;
	}
}

static void test_a_diff_leads_from_the_old_text_to_the_new(void **state)
{
	struct buf a = { 0 }, b = { 0 };
	unsigned seed = 1;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		size_t n = (size_t)rand_r(&seed) % 40;

		fill(&a, &seed, n);
		if (i % 2 == 0)
			disturb(&b, &a, &seed);
		else
			fill(&b, &seed, n);
		check_round_trip(&a, &b);
	}
	buf_free(&a);
	buf_free(&b);
}

/* Beyond the bounds on work the diff is longer, but as true. */
static void test_texts_that_share_nothing_and_texts_of_many_lines(void **state)
{
	struct buf a = { 0 }, b = { 0 }, out = { 0 };
	unsigned seed = 2;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		assert_int_equal(buf_printf(&a, "%d\n", rand_r(&seed) % 50), 0);
		assert_int_equal(buf_printf(&b, "%d\n", rand_r(&seed) % 50), 0);
	}
	check_round_trip(&a, &b);
	for (int i = 0; i < 600000; i++) {
		assert_int_equal(buf_append(&a, "\n", 1), 0);
		assert_int_equal(buf_append(&b, "\r\n", 2), 0);
	}
	assert_int_equal(text_diff((char *)a.data, a.len, (char *)b.data, b.len, "f", &out),
			 -EMSGSIZE);
	assert_int_equal(out.len, 0);
	buf_free(&a);
	buf_free(&b);
	buf_free(&out);
}

static void test_a_diff_beyond_the_buffer_is_refused_whole(void **state)
{
	struct buf out = { .max = 40 };

	(void)state;
	assert_int_equal(buf_puts(&out, "kept"), 0);
	assert_int_equal(text_diff("a\n", 2, "0123456789012345678901\n", 23, "f", &out), -EMSGSIZE);
	assert_int_equal(out.len, 4);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_diffs_are_written_exactly),
		cmocka_unit_test(test_names_are_quoted_when_they_must),
		cmocka_unit_test(test_a_diff_leads_from_the_old_text_to_the_new),
		cmocka_unit_test(test_texts_that_share_nothing_and_texts_of_many_lines),
		cmocka_unit_test(test_a_diff_beyond_the_buffer_is_refused_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
