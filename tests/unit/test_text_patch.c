/* SPDX-License-Identifier: MIT */
/* Unified diffs: which are read, where hunks land, and why they do not. */
#include "workspace/text_patch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit.h"

#define N_MAX 4 /* hunks in these tables */

struct applied {
	struct buf text;
	struct text_patch_outcome out[N_MAX];
	size_t n_hunks, n_landed;
};

static void apply(const char *text, const char *diff, struct applied *ret)
{
	struct text_patch patch;
	struct err err = { 0 };

	*ret = (struct applied){ 0 };
	if (text_patch_parse(diff, strlen(diff), &patch, &err) != 0)
		fail_msg("%s\n%s", err.msg, diff);
	assert_in_range(patch.n_hunks, 1, N_MAX);
	ret->n_hunks = patch.n_hunks;
	assert_int_equal(
		text_patch_apply(&patch, text, strlen(text), &ret->text, ret->out, &ret->n_landed),
		0);
	text_patch_fini(&patch);
}

static void test_hunks_land_where_they_say(void **state)
{
	static const struct {
		const char *text, *diff, *want;
		size_t line; /* of the last hunk, in the new text */
	} cases[] = {
		{ "a\nb\nc\n", "@@ -2 +2 @@\n-b\n+B\n", "a\nB\nc\n", 2 },
		{ "a\nb\nc\n", "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ func\n a\n-b\n+B\n c\n",
		  "a\nB\nc\n", 1 },
		{ "a\nb\nc\n",
		  "From 12 Mon\nSubject: x\n\ndiff --git a/x b/x\nindex 1..2 100644\n"
		  "--- a/x\t2020-01-01\n+++ b/x\n@@ -2,1 +2,1 @@\n-b\n+B\n-- \n2.39.2\n\n",
		  "a\nB\nc\n", 2 },
		/* what was added before moves the second hunk */
		{ "a\nb\nc\nd\n", "@@ -1 +1,3 @@\n a\n+x\n+y\n@@ -4 +6 @@\n-d\n+D\n",
		  "a\nx\ny\nb\nc\nD\n", 6 },
		{ "a\nb\nc\nd\n", "@@ -1,2 +0,0 @@\n-a\n-b\n@@ -4 +2 @@\n-d\n+D\n", "c\nD\n", 2 },
		{ "", "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n", 1 },
		{ "a\nb\n", "@@ -1,2 +0,0 @@\n-a\n-b\n", "", 1 },
		{ "a\nb\n", "@@ -1,0 +2 @@\n+x\n", "a\nx\nb\n", 2 },
		{ "a\nb\n", "@@ -0,0 +1 @@\n+x\n", "x\na\nb\n", 1 },
		{ "a\nb\n", "@@ -2,0 +3 @@\n+x\n", "a\nb\nx\n", 3 },
		/* line ends: with and without, and with CR */
		{ "a\nb", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+B\n", "a\nB\n", 2 },
		{ "a\nb\n", "@@ -2 +2 @@\n-b\n+B\n\\ No newline at end of file\n", "a\nB", 2 },
		{ "a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", "A\nb",
		  1 },
		{ "a\r\nb\r\n", "@@ -2 +2 @@\n-b\r\n+B\r\n", "a\r\nB\r\n", 2 },
		{ "a\r\nb\r\n", "--- a/x\r\n+++ b/x\r\n@@ -1,2 +1,2 @@\r\n a\r\n-b\r\n+B\r\n",
		  "a\r\nB\r\n", 1 },
		/* an empty line of context whose blank was cut; the patch without its last LF */
		{ "a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", "a\n\nB\n", 1 },
		{ "a\r\n\r\nb\r\n", "@@ -1,3 +1,3 @@\n a\r\n\r\n-b\r\n+B\r\n", "a\r\n\r\nB\r\n",
		  1 },
		{ "a\nb\n", "@@ -2 +2 @@\n-b\n+B", "a\nB\n", 2 },
		/* bytes are bytes, and marks may stand in them */
		{ "\xff\n--x\n", "@@ -1,2 +1,2 @@\n-\xff\n+\xfe\n --x\n", "\xfe\n--x\n", 1 },
		{ "-- a\n", "@@ -1 +1 @@\n--- a\n+++ b\n", "++ b\n", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct applied a;

		apply(cases[i].text, cases[i].diff, &a);
		if (a.n_landed != a.n_hunks)
			fail_msg("case %zu: %s%s", i, a.out[0].reason, a.out[1].reason);
		assert_string_equal(buf_cstr(&a.text), cases[i].want);
		assert_int_equal(a.out[a.n_hunks - 1].line, cases[i].line);
		buf_free(&a.text);
	}
}

static void test_rejected_hunks_say_where_and_change_nothing(void **state)
{
	static const struct {
		const char *text, *diff, *says;
	} cases[] = {
		{ "a\nb\nc\n", "@@ -2 +2 @@\n-x\n+B\n", "line 2 of the file is not what" },
		{ "a\nb\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n x\n",
		  "line 3 of the file is not what" },
		{ "x\na\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "its lines are at line 2" },
		{ "a\n", "@@ -7 +7 @@\n-b\n+B\n", "has only 1 lines" },
		{ "b\na\n", "@@ -7 +7 @@\n-b\n+B\n", "its lines are at line 1" },
		{ "a\nb\n", "@@ -2,2 +2,2 @@\n b\n-c\n+C\n", "ends before line 3" },
		{ "a\nb\r\n", "@@ -2 +2 @@\n-b\n+B\n",
		  "line 2 of the file differs in its line end" },
		{ "a\nb", "@@ -2 +2 @@\n-b\n+B\n", "differs in its line end" },
		{ "b\n", "@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+B\n",
		  "differs in its line end" },
		{ "a\nb\n", "@@ -1 +1 @@\n-a\n+A\n\\ No newline at end of file\n",
		  "only the last line" },
		{ "a", "@@ -1,0 +2 @@\n+b\n", "no line end behind it" },
		{ "ab\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+B\n",
		  "line 1 of the file is not what" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct applied a;

		apply(cases[i].text, cases[i].diff, &a);
		assert_int_equal(a.n_landed, 0);
		if (strstr(a.out[0].reason, cases[i].says) == NULL)
			fail_msg("case %zu: %s", i, a.out[0].reason);
		assert_string_equal(buf_cstr(&a.text), cases[i].text);
		buf_free(&a.text);
	}
}

/* The position counts what landed before, not what should have. */
static void test_other_hunks_land_beside_a_rejected_one(void **state)
{
	struct applied a;

	(void)state;
	apply("a\nb\nc\nd\n",
	      "@@ -1 +1,2 @@\n+x\n a\n@@ -2 +3,3 @@\n-WRONG\n+1\n+2\n+3\n@@ -4 +7 @@\n-d\n+D\n",
	      &a);
	assert_int_equal(a.n_landed, 2);
	assert_true(a.out[0].has_landed && !a.out[1].has_landed && a.out[2].has_landed);
	assert_string_equal(buf_cstr(&a.text), "x\na\nb\nc\nD\n");
	assert_int_equal(a.out[1].line, 2);
	assert_int_equal(a.out[2].line, 5);
	buf_free(&a.text);
}

static void test_what_is_no_patch_of_one_file_is_refused(void **state)
{
	static const struct {
		const char *diff, *says;
	} cases[] = {
		{ "", "has no hunk" },
		{ "hello\nworld\n", "has no hunk" },
		{ "--- a\n+++ b\n", "has no hunk" },
		{ "@@ -x +1 @@\n", "line 1 of the patch: a hunk's header is" },
		{ "@@ -1 +1\n-a\n+b\n", "a hunk's header is" },
		{ "@@ -1,1 +99999999999 @@\n", "a hunk's header is" },
		{ "@@ -0,1 +1 @@\n-a\n+b\n", "lines count from 1" },
		{ "@@ -1,0 +1,0 @@\n", "is empty" },
		{ "@@ -1,2 +1 @@\n-a\n+b\n", "fewer lines than its header says" },
		{ "@@ -1 +1 @@\n", "fewer lines than its header says" },
		{ "@@ -1 +1 @@\n-a\n-b\n+c\n", "line 3 of the patch: hunk 1 has more lines" },
		{ "@@ -1 +1 @@\n-a\n+b\n+c\n", "line 4 of the patch: hunk 1 has more lines" },
		{ "@@ -1 +1 @@\n-a\n+b\n c\n", "hunk 1 has more lines" },
		{ "@@ -1 +1 @@\n-a\n+b\nrubbish\n", "line 4 of the patch: not a part" },
		{ "@@ -1 +1 @@\n-a\nrubbish\n+b\n", "fewer lines" },
		{ "@@ -5 +5 @@\n-a\n+b\n@@ -4 +4 @@\n-a\n+b\n", "hunk 2 begins before the end" },
		{ "@@ -4,2 +4,2 @@\n-a\n+b\n c\n@@ -5 +5 @@\n-a\n+b\n", "begins before the end" },
		{ "@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", "second file" },
		{ "@@ -1 +1 @@\n-a\n+b\ndiff --git a/y b/y\n", "second file" },
		{ "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "would remove the file" },
		{ "GIT binary patch\nliteral 3\n", "binary patches" },
		{ "diff --git a/x b/y\nrename from x\nrename to y\n", "move" },
		{ "@@ -1,2 +1 @@\n-a\n\\ No newline at end of file\n-b\n+c\n", "goes on behind" },
		{ "@@ -1 +1,2 @@\n-a\n+b\n\\ No newline at end of file\n+c\n", "goes on behind" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct text_patch patch;
		struct err err = { 0 };

		if (text_patch_parse(cases[i].diff, strlen(cases[i].diff), &patch, &err) != -EINVAL)
			fail_msg("case %zu was taken", i);
		if (strstr(err.msg, cases[i].says) == NULL)
			fail_msg("case %zu: %s", i, err.msg);
	}
}

static void test_the_number_of_hunks_is_bounded(void **state)
{
	struct buf diff = { 0 };
	struct text_patch patch;
	struct err err = { 0 };

	(void)state;
	for (int i = 1; i <= TEXT_PATCH_HUNKS_MAX; i++)
		assert_int_equal(buf_printf(&diff, "@@ -%d +%d @@\n-a\n+b\n", i, i), 0);
	assert_int_equal(text_patch_parse((char *)diff.data, diff.len, &patch, &err), 0);
	assert_int_equal(patch.n_hunks, TEXT_PATCH_HUNKS_MAX);
	text_patch_fini(&patch);
	assert_int_equal(buf_puts(&diff, "@@ -2000 +2000 @@\n-a\n+b\n"), 0);
	assert_int_equal(text_patch_parse((char *)diff.data, diff.len, &patch, &err), -EMSGSIZE);
	buf_free(&diff);
}

static void test_a_result_beyond_the_maximum_is_refused(void **state)
{
	static const char diff[] = "@@ -1 +1 @@\n-a\n+abcdef\n";
	struct text_patch patch;
	struct text_patch_outcome out[1];
	struct buf ret = { .max = 6 };
	struct err err = { 0 };
	size_t n;

	(void)state;
	assert_int_equal(text_patch_parse(diff, strlen(diff), &patch, &err), 0);
	assert_int_equal(text_patch_apply(&patch, "a\n", 2, &ret, out, &n), -EMSGSIZE);
	assert_int_equal(ret.len, 0);
	text_patch_fini(&patch);
	buf_free(&ret);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hunks_land_where_they_say),
		cmocka_unit_test(test_rejected_hunks_say_where_and_change_nothing),
		cmocka_unit_test(test_other_hunks_land_beside_a_rejected_one),
		cmocka_unit_test(test_what_is_no_patch_of_one_file_is_refused),
		cmocka_unit_test(test_the_number_of_hunks_is_bounded),
		cmocka_unit_test(test_a_result_beyond_the_maximum_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
