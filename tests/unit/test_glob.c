/* SPDX-License-Identifier: MIT */
/* Patterns over paths: what they match, what is refused, and that none is slow. */
#include "workspace/glob.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit.h"

static bool matches(const char *pattern, const char *path)
{
	struct glob *g;
	struct err err = { 0 };
	bool is_match;

	if (glob_new(pattern, strlen(pattern), &g, &err) != 0)
		fail_msg("%s: %s", pattern, err.msg);
	is_match = glob_match(g, path, strlen(path));
	glob_free(g);
	return is_match;
}

static void test_patterns_and_paths(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool is_match;
	} cases[] = {
		/* without '/': the last component, at any depth */
		{ "a", "a", true },
		{ "a", "b", false },
		{ "a", "aa", false },
		{ "a", "x/a", true },
		{ "a", "a/x", false },
		{ "*.c", "a.c", true },
		{ "*.c", "x/y/a.c", true },
		{ "*.c", ".c", true },
		{ "*.c", "a.cc", false },
		{ "*", "x/y", true },
		{ "*", "", true },
		/* with '/': the whole path */
		{ "/a", "a", true },
		{ "/a", "x/a", false },
		{ "x/*.c", "x/a.c", true },
		{ "x/*.c", "y/x/a.c", false },
		{ "x/*", "x/a/b", false },
		{ "*/a", "x/a", true },
		{ "*/a", "x/y/a", false },
		{ "a/", "a", true },
		{ "a/", "x/a", true },
		{ "x/a/", "x/a", true },
		/* ? */
		{ "?", "a", true },
		{ "?", "", false },
		{ "?", "ab", false },
		{ "a?c", "abc", true },
		{ "x?y/", "x/y", false },
		{ "/x?y", "x/y", false },
		{ "?", "\xc3\xa9", true },
		{ "?", "\xff", true },
		{ "??", "\xc3\xa9", false },
		{ "??", "\xc3\xc3", true },
		/* ** */
		{ "**", "a", true },
		{ "**", "a/b", true },
		{ "**/a", "a", true },
		{ "**/a", "x/y/a", true },
		{ "**/a", "x/ya", false },
		{ "x/**", "x/a", true },
		{ "x/**", "x/a/b", true },
		{ "x/**", "x", false },
		{ "x/**", "xa", false },
		{ "x/**/a", "x/a", true },
		{ "x/**/a", "x/y/z/a", true },
		{ "x/**/a", "xa", false },
		{ "**/x/**", "a/x/b/c", true },
		{ "a**b", "axxb", true },
		{ "/a**b", "ax/xb", false },
		{ "**/**/a", "a", true },
		{ "**/", "a/b", true },
		/* classes */
		{ "[abc]", "b", true },
		{ "[abc]", "d", false },
		{ "[a-c]x", "bx", true },
		{ "[!a-c]", "d", true },
		{ "[^a-c]", "b", false },
		{ "[]]", "]", true },
		{ "[!]]", "]", false },
		{ "[!]]", "x", true },
		{ "[a-]", "-", true },
		{ "[\\]]", "]", true },
		{ "[*]", "*", true },
		{ "[*]", "a", false },
		{ "[\xc3\xa0-\xc3\xa9]", "\xc3\xa5", true },
		{ "/a[/]b", "a/b", false },
		{ "/a[!x]b", "a/b", false },
		{ "[\xff]", "\xff", true },
		{ "[!a]", "\xfe", true },
		/* braces */
		{ "{a,b}", "a", true },
		{ "{a,b}", "b", true },
		{ "{a,b}", "ab", false },
		{ "*.{c,h}", "x.h", true },
		{ "*.{c,h}", "x.cc", false },
		{ "a{,b}", "a", true },
		{ "a{,b}", "ab", true },
		{ "{a}", "a", true },
		{ "{a,{b,c}d}e", "cde", true },
		{ "{a,{b,c}d}e", "ce", false },
		{ "{x/**,y}/a", "x/1/2/a", true },
		{ "{x/*,y}/a", "y/a", true },
		{ "a,b", "a,b", true },
		{ "a}", "a}", true },
		{ "{*.c,t[!a]}", "tb", true },
		{ "{*.c,t[!a]}", "ta", false },
		/* escapes */
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "\\{a,b}", "{a,b}", true },
		{ "{a\\,b,c}", "a,b", true },
		{ "\\\\", "\\", true },
		{ "-e", "-e", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (matches(cases[i].pattern, cases[i].path) != cases[i].is_match)
			fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].path);
	}
}

static void test_refusals_say_why(void **state)
{
	static const struct {
		const char *pattern, *says;
	} cases[] = {
		{ "", "is empty" },
		{ "[", "'[' that is not closed" },
		{ "[a", "'[' that is not closed" },
		{ "[]", "'[' that is not closed" },
		{ "[!]", "'[' that is not closed" },
		{ "[a-", "'[' that is not closed" },
		{ "[\\", "'[' that is not closed" },
		{ "{a", "'{' that is not closed" },
		{ "{a,", "'{' that is not closed" },
		{ "{a,{b}", "'{' that is not closed" },
		{ "a\\", "ends with a '\\'" },
		{ "[z-a]", "ends before it begins" },
		{ "{{{{{{{{{a}}}}}}}}}", "nests more than 8" },
	};
	char text[GLOB_PATTERN_MAX + 1];
	struct glob *g;
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *p = cases[i].pattern;

		assert_int_equal(glob_new(p, strlen(p), &g, &err), -EINVAL);
		if (strstr(err.msg, cases[i].says) == NULL)
			fail_msg("%s: %s", p, err.msg);
	}
	memset(text, 'a', sizeof(text));
	assert_int_equal(glob_new(text, sizeof(text), &g, &err), -EINVAL);
	assert_int_equal(glob_new(text, sizeof(text) - 1, &g, &err), 0);
	glob_free(g);
}

/* With backtracking this would take longer than the machine lasts. */
static void test_no_pattern_is_slow(void **state)
{
	static const char *const units[] = { "*a", "{a,a}", "{a,}", "*", "{*a,*}", "**/" };
	char path[4096], pattern[GLOB_PATTERN_MAX];

	(void)state;
	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		size_t unit = strlen(units[i]), n = 0;
		struct glob *g;

		while (n + unit + 1 < sizeof(pattern)) {
			memcpy(pattern + n, units[i], unit);
			n += unit;
		}
		pattern[n++] = 'b';
		assert_int_equal(glob_new(pattern, n, &g, NULL), 0);
		assert_false(glob_match(g, path, sizeof(path)));
		glob_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns_and_paths),
		cmocka_unit_test(test_refusals_say_why),
		cmocka_unit_test(test_no_pattern_is_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
