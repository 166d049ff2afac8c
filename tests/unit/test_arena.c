/* SPDX-License-Identifier: MIT */
/* The arena: pieces do not overlap, the maximum holds, and little is kept between requests. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "unit.h"

#define N_PIECES 500

static void test_pieces_are_aligned_and_apart(void **state)
{
	struct arena a = { 0 };
	unsigned char *piece[N_PIECES];

	(void)state;
	for (size_t i = 0; i < N_PIECES; i++) {
		piece[i] = arena_alloc(&a, i);
		assert_non_null(piece[i]);
		assert_int_equal((uintptr_t)piece[i] % 16, 0);
		memset(piece[i], (int)(i & 0xff), i);
	}
	for (size_t i = 0; i < N_PIECES; i++) {
		for (size_t k = 0; k < i; k++)
			assert_int_equal(piece[i][k], i & 0xff);
	}
	arena_free(&a);
}

static void test_empty_pieces_have_addresses_of_their_own(void **state)
{
	struct arena a = { 0 };
	void *p = arena_alloc(&a, 0), *q = arena_alloc(&a, 0);

	(void)state;
	assert_non_null(p);
	assert_non_null(q);
	assert_ptr_not_equal(p, q);
	arena_free(&a);
}

static void test_zalloc_clears_memory_that_was_used_before(void **state)
{
	static const unsigned char zeros[100];
	struct arena a = { 0 };
	void *p = arena_alloc(&a, 100), *q;

	(void)state;
	memset(p, 0xff, 100);
	arena_reset(&a);
	q = arena_zalloc(&a, 100);
	assert_ptr_equal(p, q);
	assert_memory_equal(q, zeros, 100);
	arena_free(&a);
}

static void test_maximum_holds_however_it_is_asked(void **state)
{
	static const size_t sizes[] = { 1, 16, 100, 4000, 5000, 60000 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct arena a = { .max = 100000 };
		size_t got = 0;

		while (arena_alloc(&a, sizes[i]) != NULL)
			got += sizes[i];
		assert_true(got > 0 && got <= 100000);
		assert_true(a.total <= 100000);
		arena_free(&a);
	}
}

static void test_sizes_that_would_wrap_are_refused(void **state)
{
	struct arena a = { .max = SIZE_MAX };

	(void)state;
	assert_null(arena_alloc(&(struct arena){ 0 }, SIZE_MAX));
	assert_null(arena_strndup(&a, "x", SIZE_MAX));
	assert_null(arena_alloc(&a, SIZE_MAX - 4));
	assert_null(arena_alloc(&a, SIZE_MAX - 64));
	arena_free(&a);
}

static void test_strings_are_copied_and_ended(void **state)
{
	struct arena a = { 0 };

	(void)state;
	assert_string_equal(arena_strdup(&a, "hello"), "hello");
	assert_string_equal(arena_strndup(&a, "hello", 3), "hel");
	assert_string_equal(arena_strndup(&a, "", 0), "");
	assert_string_equal(arena_printf(&a, "%s-%05d", "n", 42), "n-00042");
	arena_free(&a);
}

static void test_reset_keeps_one_small_chunk(void **state)
{
	struct arena a = { 0 };
	void *first = arena_alloc(&a, 10);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_non_null(arena_alloc(&a, 10000));
	arena_reset(&a);
	assert_true(a.total <= 4096);
	assert_ptr_equal(arena_alloc(&a, 10), first);
	arena_free(&a);
}

static void test_reset_gives_a_large_first_chunk_back(void **state)
{
	struct arena a = { 0 };

	(void)state;
	assert_non_null(arena_alloc(&a, 1 << 20));
	arena_reset(&a);
	assert_int_equal(a.total, 0);
	assert_non_null(arena_alloc(&a, 10));
	arena_free(&a);
	arena_reset(&a);
	arena_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_are_aligned_and_apart),
		cmocka_unit_test(test_empty_pieces_have_addresses_of_their_own),
		cmocka_unit_test(test_zalloc_clears_memory_that_was_used_before),
		cmocka_unit_test(test_maximum_holds_however_it_is_asked),
		cmocka_unit_test(test_sizes_that_would_wrap_are_refused),
		cmocka_unit_test(test_strings_are_copied_and_ended),
		cmocka_unit_test(test_reset_keeps_one_small_chunk),
		cmocka_unit_test(test_reset_gives_a_large_first_chunk_back),
	};

	return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
