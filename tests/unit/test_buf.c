/* SPDX-License-Identifier: MIT */
/* The growing buffer: what went in comes out, and its maximum holds. */
#include "base/buf.h"

#include <errno.h>
#include <string.h>

#include "unit.h"

static void test_appended_bytes_stay_in_order(void **state)
{
	struct buf b = { 0 };

	(void)state;
	for (int i = 0; i < 10000; i++) {
		uint8_t byte = (uint8_t)i;

		assert_int_equal(buf_append(&b, &byte, 1), 0);
	}
	assert_int_equal(b.len, 10000);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(b.data[i], (uint8_t)i);
	buf_free(&b);
	assert_null(b.data);
}

static void test_maximum_is_reached_exactly_and_not_passed(void **state)
{
	struct buf b = { .max = 10 };

	(void)state;
	assert_int_equal(buf_puts(&b, "0123456"), 0);
	assert_int_equal(buf_puts(&b, "7890"), -EMSGSIZE);
	assert_int_equal(b.len, 7);
	assert_int_equal(buf_printf(&b, "%s", "abcd"), -EMSGSIZE);
	assert_int_equal(b.len, 7);
	assert_int_equal(buf_puts(&b, "789"), 0);
	assert_int_equal(buf_append(&b, "x", 1), -EMSGSIZE);
	assert_string_equal(buf_cstr(&b), "0123456789");
	buf_free(&b);
}

static void test_sizes_that_would_wrap_are_refused(void **state)
{
	struct buf b = { .max = SIZE_MAX };

	(void)state;
	assert_int_equal(buf_puts(&b, "abc"), 0);
	assert_int_equal(buf_reserve(&b, SIZE_MAX), -EMSGSIZE);
	assert_int_equal(buf_reserve(&b, SIZE_MAX - 2), -EMSGSIZE);
	assert_string_equal(buf_cstr(&b), "abc");
	buf_free(&b);
}

static void test_printf_works_at_every_fill(void **state)
{
	(void)state;
	for (size_t fill = 0; fill < 600; fill++) {
		struct buf b = { 0 };

		for (size_t i = 0; i < fill; i++)
			assert_int_equal(buf_puts(&b, "x"), 0);
		assert_int_equal(buf_printf(&b, "%s=%d", "key", 42), 0);
		assert_int_equal(b.len, fill + 6);
		assert_memory_equal(b.data + fill, "key=42", 6);
		buf_free(&b);
	}
}

static void test_printf_of_nothing_on_an_empty_buffer(void **state)
{
	struct buf b = { 0 };

	(void)state;
	assert_int_equal(buf_printf(&b, "%s", ""), 0);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_cstr(&b), "");
	buf_free(&b);
}

static void test_consume_drops_from_the_front(void **state)
{
	struct buf b = { 0 };

	(void)state;
	assert_int_equal(buf_puts(&b, "hello world"), 0);
	buf_consume(&b, 6);
	assert_string_equal(buf_cstr(&b), "world");
	buf_consume(&b, 0);
	buf_consume(&b, 5);
	assert_int_equal(b.len, 0);
	assert_int_equal(buf_puts(&b, "again"), 0);
	assert_string_equal(buf_cstr(&b), "again");
	buf_free(&b);
}

static void test_reset_keeps_the_memory(void **state)
{
	struct buf b = { 0 };
	uint8_t *before;

	(void)state;
	assert_int_equal(buf_puts(&b, "abc"), 0);
	before = b.data;
	buf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_int_equal(buf_puts(&b, "def"), 0);
	assert_ptr_equal(b.data, before);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_appended_bytes_stay_in_order),
		cmocka_unit_test(test_maximum_is_reached_exactly_and_not_passed),
		cmocka_unit_test(test_sizes_that_would_wrap_are_refused),
		cmocka_unit_test(test_printf_works_at_every_fill),
		cmocka_unit_test(test_printf_of_nothing_on_an_empty_buffer),
		cmocka_unit_test(test_consume_drops_from_the_front),
		cmocka_unit_test(test_reset_keeps_the_memory),
	};

	return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
