/* SPDX-License-Identifier: MIT */
/* JSON writing: commas, escapes, bytes that are no UTF-8, failures that stick. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/json_out.h"

static void test_commas_stand_where_they_must(void **state)
{
	struct buf b = { 0 };
	struct json_out o = JSON_OUT(&b);

	(void)state;
	json_out_open(&o, '{');
	json_out_key_str(&o, "a", "x");
	json_out_key(&o, "b");
	json_out_open(&o, '[');
	json_out_close(&o, ']');
	json_out_key(&o, "c");
	json_out_open(&o, '[');
	json_out_u64(&o, UINT64_MAX);
	json_out_bool(&o, true);
	json_out_null(&o);
	json_out_open(&o, '{');
	json_out_close(&o, '}');
	json_out_raw(&o, "[1]", 3);
	json_out_close(&o, ']');
	json_out_key_str(&o, "d", NULL);
	json_out_key_u64(&o, "e", 0);
	json_out_key_bool(&o, "f", false);
	json_out_close(&o, '}');
	assert_int_equal(o.rc, 0);
	assert_string_equal(buf_cstr(&b),
			    "{\"a\":\"x\",\"b\":[],\"c\":[18446744073709551615,true,null,{},[1]],"
			    "\"d\":null,\"e\":0,\"f\":false}");
	buf_free(&b);
}

static void assert_text(const char *bytes, size_t n, const char *want)
{
	struct buf b = { 0 };
	struct json_out o = JSON_OUT(&b);

	json_out_strn(&o, bytes, n);
	assert_int_equal(o.rc, 0);
	assert_string_equal(buf_cstr(&b), want);
	buf_free(&b);
}

static void test_what_is_no_utf8_is_replaced_and_what_is_is_kept(void **state)
{
	static const struct {
		const char *bytes, *want;
	} cases[] = {
		{ "", "\"\"" },
		{ "a\"b\\c/\n\t\x01\x1f\x7f", "\"a\\\"b\\\\c/\\n\\t\\u0001\\u001f\\u007f\"" },
		{ "\xc3\xa9\xe2\x98\xba\xf0\x9f\x98\x80",
		  "\"\xc3\xa9\xe2\x98\xba\xf0\x9f\x98\x80\"" },
		{ "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80",
		  "\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\"" },
		{ "x\xff", "\"x\xef\xbf\xbd\"" },
		{ "\xc3", "\"\xef\xbf\xbd\"" },
		{ "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xe0\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_text(cases[i].bytes, strlen(cases[i].bytes), cases[i].want);
	assert_text("a\0b", 3, "\"a\\u0000b\"");
	assert_text(NULL, 0, "\"\"");
}

/* Every pair of bytes must come out as something a strict parser takes. */
static void test_any_bytes_give_json_that_parses(void **state)
{
	(void)state;
	for (unsigned v = 0; v < 65536; v++) {
		const char bytes[3] = { (char)(v >> 8), (char)v, 'x' };
		struct buf b = { 0 };
		struct json_out o = JSON_OUT(&b);
		json_t *j;

		json_out_strn(&o, bytes, sizeof(bytes));
		j = json_loadb((const char *)b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		if (j == NULL)
			fail_msg("%04x does not parse", v);
		json_decref(j);
		buf_free(&b);
	}
}

static void test_a_failure_sticks(void **state)
{
	struct buf b = { .max = 4 };
	struct json_out o = JSON_OUT(&b);

	(void)state;
	json_out_str(&o, "abcdef");
	json_out_str(&o, "");
	assert_int_equal(o.rc, -EMSGSIZE);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commas_stand_where_they_must),
		cmocka_unit_test(test_what_is_no_utf8_is_replaced_and_what_is_is_kept),
		cmocka_unit_test(test_any_bytes_give_json_that_parses),
		cmocka_unit_test(test_a_failure_sticks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
