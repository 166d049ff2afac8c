/* SPDX-License-Identifier: MIT */
/* UTF-8: characters, and bytes that are none. */
#include "base/utf8.h"

#include "base/cleanup.h"
#include "unit.h"

#define T(s) (s), sizeof(s) - 1

static void test_characters_and_raw_bytes(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		uint32_t c;
		size_t len;
	} cases[] = {
		{ T("a"), 'a', 1 },
		{ T("\0"), 0, 1 },
		{ T("\xc3\xa9"), 0xe9, 2 },
		{ T("\xe2\x82\xacx"), 0x20ac, 3 },
		{ T("\xf0\x9f\x98\x80"), 0x1f600, 4 },
		{ T("\xf4\x8f\xbf\xbf"), 0x10ffff, 4 },
		{ T("\xff"), UTF8_RAW + 0xff, 1 },
		{ T("\x80"), UTF8_RAW + 0x80, 1 },
		{ T("\xc3"), UTF8_RAW + 0xc3, 1 },             /* cut */
		{ T("\xc3x"), UTF8_RAW + 0xc3, 1 },            /* no continuation */
		{ T("\xc0\xaf"), UTF8_RAW + 0xc0, 1 },         /* overlong '/' */
		{ T("\xe0\x80\xaf"), UTF8_RAW + 0xe0, 1 },     /* the same in three */
		{ T("\xf0\x80\x80\xaf"), UTF8_RAW + 0xf0, 1 }, /* and in four */
		{ T("\xed\xa0\x80"), UTF8_RAW + 0xed, 1 },     /* a surrogate */
		{ T("\xf4\x90\x80\x80"), UTF8_RAW + 0xf4, 1 }, /* above U+10FFFF */
		{ T("\xf5\x80\x80\x80"), UTF8_RAW + 0xf5, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = 0;

		assert_int_equal(utf8_take(cases[i].p, cases[i].n, &len), cases[i].c);
		assert_int_equal(len, cases[i].len);
	}
}

static void test_texts_are_valid_or_not_wherever_the_fault_is(void **state)
{
	char text[] = "eight byte words, and \xc3\xa9 in between, and a tail";

	(void)state;
	assert_true(utf8_is_valid("", 0));
	assert_true(utf8_is_valid(text, sizeof(text) - 1));
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		char kept = text[i];

		text[i] = '\xff';
		assert_false(utf8_is_valid(text, sizeof(text) - 1));
		text[i] = kept;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_characters_and_raw_bytes),
		cmocka_unit_test(test_texts_are_valid_or_not_wherever_the_fault_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
