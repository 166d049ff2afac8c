/* SPDX-License-Identifier: MIT */
/* Errors with a sentence: what a reader sees of a chain, and that nothing is needed to carry it. */
#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "unit.h"

static void test_set_gives_back_the_code_and_fills_the_sentence(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(err_set(&e, -ENOENT, "open '%s': %s", "x", "gone"), -ENOENT);
	assert_int_equal(e.code, -ENOENT);
	assert_string_equal(e.msg, "open 'x': gone");
	assert_non_null(strstr(e.at, "test_err.c:"));
}

static void test_wrap_puts_the_outer_context_first_and_keeps_the_place(void **state)
{
	struct err e = { 0 };
	const char *at;

	(void)state;
	(void)err_set(&e, -ENOENT, "open 'x': gone");
	at = e.at;
	assert_int_equal(err_wrap(&e, -ENOENT, "workspace '%d'", 7), -ENOENT);
	assert_string_equal(e.msg, "workspace '7': open 'x': gone");
	assert_ptr_equal(e.at, at);
}

static void test_wrap_of_nothing_uses_the_text_of_errno(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(err_wrap(&e, -ENOSPC, "store"), -ENOSPC);
	assert_string_equal(e.msg, "store: No space left on device");
}

static void test_null_is_allowed_everywhere(void **state)
{
	(void)state;
	assert_int_equal(err_set(NULL, -EIO, "x"), -EIO);
	assert_int_equal(err_wrap(NULL, -EIO, "x"), -EIO);
}

static void test_a_long_chain_is_cut_and_stays_a_string(void **state)
{
	struct err e = { 0 };
	char longer[1000];

	(void)state;
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	(void)err_set(&e, -EIO, "%s", longer);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
	for (int i = 0; i < 5; i++)
		(void)err_wrap(&e, -EIO, "layer %d of %s", i, longer);
	assert_true(strlen(e.msg) < sizeof(e.msg));
	assert_int_equal(strncmp(e.msg, "layer 4 of aaa", 14), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_gives_back_the_code_and_fills_the_sentence),
		cmocka_unit_test(test_wrap_puts_the_outer_context_first_and_keeps_the_place),
		cmocka_unit_test(test_wrap_of_nothing_uses_the_text_of_errno),
		cmocka_unit_test(test_null_is_allowed_everywhere),
		cmocka_unit_test(test_a_long_chain_is_cut_and_stays_a_string),
	};

	return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
