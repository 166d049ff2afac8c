/* SPDX-License-Identifier: MIT */
/* The Range header against files of several sizes. */
#include "tests/unit/unit.h"

#include <stdbool.h>

#include "base/cleanup.h"
#include "http/http_range.h"

static const struct {
	const char *value;
	uint64_t size;
	enum http_range_result want;
	uint64_t off, len;
} cases[] = {
	{ NULL, 10, HTTP_RANGE_ALL, 0, 0 },
	{ "", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=-", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=abc", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=1", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=5-2", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=0--1", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=0-0,2-3", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=0-0x", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "lines=0-0", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=0-0", 10, HTTP_RANGE_PART, 0, 1 },
	{ "BYTES= 0-0 \t", 10, HTTP_RANGE_PART, 0, 1 },
	{ "bytes=0-", 10, HTTP_RANGE_PART, 0, 10 },
	{ "bytes=9-", 10, HTTP_RANGE_PART, 9, 1 },
	{ "bytes=9-100", 10, HTTP_RANGE_PART, 9, 1 },
	{ "bytes=10-", 10, HTTP_RANGE_NONE, 0, 0 },
	{ "bytes=10-5", 10, HTTP_RANGE_ALL, 0, 0 },
	{ "bytes=-1", 10, HTTP_RANGE_PART, 9, 1 },
	{ "bytes=-5000", 10, HTTP_RANGE_PART, 0, 10 },
	{ "bytes=-0", 10, HTTP_RANGE_NONE, 0, 0 },
	{ "bytes=-1", 0, HTTP_RANGE_NONE, 0, 0 },
	{ "bytes=0-", 0, HTTP_RANGE_NONE, 0, 0 },
	{ "bytes=18446744073709551615-", 10, HTTP_RANGE_NONE, 0, 0 },
	{ "bytes=0-18446744073709551615", 10, HTTP_RANGE_PART, 0, 10 },
	{ "bytes=18446744073709551616-99999999999999999999999", 10, HTTP_RANGE_NONE, 0, 0 },
	{ "bytes=-99999999999999999999999", 10, HTTP_RANGE_PART, 0, 10 },
	{ "bytes=6442450943-", 6442450944, HTTP_RANGE_PART, 6442450943, 1 },
};

static void test_ranges_are_as_rfc_9110_has_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t off = 0, len = 0;

		assert_int_equal(http_range_parse(cases[i].value, cases[i].size, &off, &len),
				 cases[i].want);
		assert_int_equal(off, cases[i].off);
		assert_int_equal(len, cases[i].len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_are_as_rfc_9110_has_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
