/* SPDX-License-Identifier: MIT */
/* Times as people and SDKs read them. */
#include "base/clock.h"

#include "base/cleanup.h"
#include "unit.h"

static void test_rfc3339_of_known_moments(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} cases[] = {
		{ 0, "1970-01-01T00:00:00.000000+00:00" },
		{ 1768553101123456789ull, "2026-01-16T08:45:01.123456+00:00" },
		{ 951827696999999999ull, "2000-02-29T12:34:56.999999+00:00" },
		{ UINT64_MAX, "2554-07-21T23:34:33.709551+00:00" },
	};
	char text[CLOCK_RFC3339_LEN];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(clock_rfc3339(text, sizeof(text), cases[i].ns), cases[i].want);
}

static void test_monotonic_never_goes_back(void **state)
{
	uint64_t last = clock_mono_ns();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_mono_ns();

		assert_true(now >= last);
		last = now;
	}
}

static void test_real_is_of_this_century(void **state)
{
	(void)state;
	assert_true(clock_real_ns() > 1577836800ull * NSEC_PER_SEC); /* 2020 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rfc3339_of_known_moments),
		cmocka_unit_test(test_monotonic_never_goes_back),
		cmocka_unit_test(test_real_is_of_this_century),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
