/* SPDX-License-Identifier: MIT */
/* JSON from outside: what is refused, and in which words. */
#include "proto/jsonx.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "unit.h"

static json_t *parse(const char *text)
{
	struct err e = { 0 };
	json_t *j = NULL;

	if (jsonx_parse_object(text, strlen(text), &j, &e) < 0)
		fail_msg("%s: %s", text, e.msg);
	return j;
}

static void test_objects_are_accepted(void **state)
{
	static const char *const texts[] = { "{}",        " {} ",
					     "{\"a\":1}", "{\"\":{\"a\":[]}}",
					     "",          "{\"a\":\"\\u00e9 \xc3\xa9\"}" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		json_decref(parse(texts[i]));
}

static void test_what_is_no_object_is_refused_with_a_reason(void **state)
{
#define T(s) (s), sizeof(s) - 1
	static const struct {
		const char *text;
		size_t n;
		const char *reason;
	} cases[] = {
		{ T("[]"), "must be an object" },
		{ T("{"), "ends too early" },
		{ T("{\"a\":1"), "ends too early" },
		{ T("{} x"), "follows behind the end" },
		{ T("{}{}"), "follows behind the end" },
		{ T("{a:1}"), "syntax error" },
		{ T("{\"a\":1,}"), "syntax error" },
		{ T("{'a':1}"), "syntax error" },
		{ T("nul"), "syntax error" },
		{ T(" "), "ends too early" },
		{ T("{\"a\":1,\"a\":2}"), "a key occurs twice" },
		{ T("{\"b\":{\"a\":1,\"\\u0061\":2}}"), "a key occurs twice" },
		{ T("{\"a\":\"\\u0000\"}"), "NUL" },
		{ T("{\"a\\u0000\":1}"), "NUL" },
		{ T("{\"a\":\"x\0y\"}"), NULL },
		{ T("{}\0"), NULL },
		{ T("{\"a\":\"\xff\"}"), "UTF-8" },
		{ T("{\"a\":\"\xed\xa0\x80\"}"), "UTF-8" },
		{ T("{\"a\":\"\\ud800\"}"), NULL },
		{ T("{\"a\":123456789012345678901234567890}"), "too large" },
		{ T("{\"a\":1e999}"), "too large" },
		{ T("{\"a\":NaN}"), "syntax error" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		json_t *j = NULL;

		assert_int_equal(jsonx_parse_object(cases[i].text, cases[i].n, &j, &e), -EINVAL);
		assert_null(j);
		assert_int_equal(strncmp(e.msg, "JSON", 4), 0);
		if (cases[i].reason != NULL && strstr(e.msg, cases[i].reason) == NULL)
			fail_msg("%s: %s", cases[i].text, e.msg);
	}
#undef T
}

static int parse_nested(size_t depth, char open, char close)
{
	struct buf b = { 0 };
	json_t *j = NULL;
	int rc;

	assert_int_equal(buf_puts(&b, "{\"a\":"), 0);
	for (size_t i = 1; i < depth; i++)
		assert_int_equal(buf_append(&b, open == '[' ? "[" : "{\"a\":", open == '[' ? 1 : 5),
				 0);
	assert_int_equal(buf_puts(&b, "1"), 0);
	for (size_t i = 1; i < depth; i++)
		assert_int_equal(buf_append(&b, &close, 1), 0);
	assert_int_equal(buf_puts(&b, "}"), 0);
	rc = jsonx_parse_object((const char *)b.data, b.len, &j, NULL);
	json_decref(j);
	buf_free(&b);
	return rc;
}

static void test_nesting_is_allowed_up_to_the_limit(void **state)
{
	(void)state;
	assert_int_equal(parse_nested(JSONX_DEPTH_MAX, '[', ']'), 0);
	assert_int_equal(parse_nested(JSONX_DEPTH_MAX, '{', '}'), 0);
	assert_int_equal(parse_nested(JSONX_DEPTH_MAX + 1, '[', ']'), -EINVAL);
	assert_int_equal(parse_nested(JSONX_DEPTH_MAX + 1, '{', '}'), -EINVAL);
	assert_int_equal(parse_nested(100000, '[', ']'), -EINVAL);
}

static void test_brackets_inside_strings_do_not_nest(void **state)
{
	struct buf b = { 0 };
	json_t *j = NULL;

	(void)state;
	assert_int_equal(buf_puts(&b, "{\"a\":\"\\\\\\\""), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf_puts(&b, "[{"), 0);
	assert_int_equal(buf_puts(&b, "\",\"b\":["), 0);
	for (int i = 0; i < 1000; i++) /* side by side, not inside each other */
		assert_int_equal(buf_puts(&b, "[],"), 0);
	assert_int_equal(buf_puts(&b, "1]}"), 0);
	assert_int_equal(jsonx_parse_object((const char *)b.data, b.len, &j, NULL), 0);
	json_decref(j);
	buf_free(&b);
}

static void test_getters_find_what_is_there(void **state)
{
	auto_json json_t *j =
		parse("{\"s\":\"abc\",\"t\":true,\"i\":-5,\"o\":{\"x\":1},\"a\":[1]}");
	json_t *v = NULL;
	const char *s = NULL;
	bool b = false;
	int64_t i = 0;

	(void)state;
	assert_int_equal(jsonx_get_string(j, "s", 3, &s, NULL), 1);
	assert_string_equal(s, "abc");
	assert_int_equal(jsonx_get_bool(j, "t", &b, NULL), 1);
	assert_true(b);
	assert_int_equal(jsonx_get_int(j, "i", -5, 5, &i, NULL), 1);
	assert_int_equal(i, -5);
	assert_int_equal(jsonx_get_object(j, "o", &v, NULL), 1);
	assert_int_equal(json_object_size(v), 1);
	assert_int_equal(jsonx_get_array(j, "a", 1, &v, NULL), 1);
	assert_int_equal(json_array_size(v), 1);
}

static void test_absent_and_null_are_the_same_and_set_nothing(void **state)
{
	static const char *const keys[] = { "absent", "null" };
	auto_json json_t *j = parse("{\"null\":null}");
	json_t *v = NULL;
	const char *s = "default";
	bool b = true;
	int64_t n = 7;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		assert_int_equal(jsonx_get_string(j, keys[i], 3, &s, NULL), 0);
		assert_int_equal(jsonx_get_bool(j, keys[i], &b, NULL), 0);
		assert_int_equal(jsonx_get_int(j, keys[i], 0, 1, &n, NULL), 0);
		assert_int_equal(jsonx_get_object(j, keys[i], &v, NULL), 0);
		assert_int_equal(jsonx_get_array(j, keys[i], 1, &v, NULL), 0);
	}
	assert_string_equal(s, "default");
	assert_true(b && n == 7 && v == NULL);
}

static void test_wrong_types_and_ranges_are_named(void **state)
{
	auto_json json_t *j = parse("{\"s\":\"abcd\",\"i\":6,\"r\":1.0,\"a\":[1,2],\"n\":\"5\"}");
	struct err e = { 0 };
	json_t *v;
	const char *s;
	bool b;
	int64_t i;

	(void)state;
	assert_int_equal(jsonx_get_string(j, "s", 3, &s, &e), -EINVAL);
	assert_string_equal(e.msg, "'s' must be a string of at most 3 bytes");
	assert_int_equal(jsonx_get_string(j, "i", 3, &s, &e), -EINVAL);
	assert_int_equal(jsonx_get_bool(j, "i", &b, &e), -EINVAL);
	assert_string_equal(e.msg, "'i' must be true or false");
	assert_int_equal(jsonx_get_int(j, "i", -5, 5, &i, &e), -EINVAL);
	assert_string_equal(e.msg, "'i' must be a whole number from -5 to 5");
	assert_int_equal(jsonx_get_int(j, "i", 7, 9, &i, &e), -EINVAL);
	assert_int_equal(jsonx_get_int(j, "r", 0, 9, &i, &e), -EINVAL);
	assert_int_equal(jsonx_get_int(j, "n", 0, 9, &i, &e), -EINVAL);
	assert_int_equal(jsonx_get_object(j, "a", &v, &e), -EINVAL);
	assert_string_equal(e.msg, "'a' must be an object");
	assert_int_equal(jsonx_get_array(j, "a", 1, &v, &e), -EINVAL);
	assert_string_equal(e.msg, "'a' must be an array of at most 1 items");
	assert_int_equal(jsonx_get_array(j, "s", 9, &v, &e), -EINVAL);
}

static void test_only_known_keys_pass(void **state)
{
	static const struct {
		const char *json;
		int want;
	} cases[] = {
		{ "{}", 0 },
		{ "{\"mode\":1,\"clients\":2}", 0 },
		{ "{\"client\":1}", -EINVAL },
		{ "{\"clients \":1}", -EINVAL },
		{ "{\"\":1}", -EINVAL },
		{ "{\"mode clients\":1}", -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = { 0 };
		auto_json json_t *o = NULL;

		assert_int_equal(jsonx_parse_object(cases[i].json, strlen(cases[i].json), &o, &err),
				 0);
		assert_int_equal(jsonx_only(o, "mode clients", &err), cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects_are_accepted),
		cmocka_unit_test(test_what_is_no_object_is_refused_with_a_reason),
		cmocka_unit_test(test_nesting_is_allowed_up_to_the_limit),
		cmocka_unit_test(test_brackets_inside_strings_do_not_nest),
		cmocka_unit_test(test_getters_find_what_is_there),
		cmocka_unit_test(test_absent_and_null_are_the_same_and_set_nothing),
		cmocka_unit_test(test_wrong_types_and_ranges_are_named),
		cmocka_unit_test(test_only_known_keys_pass),
	};

	return cmocka_run_group_tests_name("jsonx", tests, NULL, NULL);
}
