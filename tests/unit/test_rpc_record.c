/* SPDX-License-Identifier: MIT */
/* Record marking: whatever way the bytes are cut, the same records come out, and memory stays
 * bounded. */
#include "proto/rpc_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit.h"

/* "hello" in two fragments with an empty one between, "world" in one, an empty record, "!" in one.
 */
static const uint8_t stream[] = { 0,   0,   0,    2,   'h', 'e',  0,    0, 0, 0,   0x80, 0,
				  0,   3,   'l',  'l', 'o', 0x80, 0,    0, 5, 'w', 'o',  'r',
				  'l', 'd', 0x80, 0,   0,   0,    0x80, 0, 0, 1,   '!' };
static const char *const records[] = { "hello", "world", "", "!" };

struct reading {
	struct rpc_record r;
	size_t n_got;
};

static void expect_record(struct reading *t, const uint8_t *rec, size_t len)
{
	assert_true(t->n_got < ARRAY_LEN(records));
	assert_int_equal(len, strlen(records[t->n_got]));
	if (len > 0)
		assert_memory_equal(rec, records[t->n_got], len);
	t->n_got++;
	assert_false(rpc_record_is_partial(&t->r));
}

/* The bytes are copied to memory of exactly their size, so that a read beyond them is seen. */
static void feed(struct reading *t, const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);
	size_t pos = 0;

	assert_non_null(copy);
	memcpy(copy, p, n);
	for (;;) {
		const uint8_t *rec;
		size_t len, used;
		int rc = rpc_record_next(&t->r, copy + pos, n - pos, &used, &rec, &len);

		pos += used;
		if (rc == RPC_RECORD_NONE)
			break;
		assert_int_equal(rc, RPC_RECORD_READY);
		expect_record(t, rec, len);
	}
	assert_int_equal(pos, n);
	free(copy);
}

static void expect_all_read(struct reading *t)
{
	assert_int_equal(t->n_got, ARRAY_LEN(records));
	assert_false(rpc_record_is_partial(&t->r));
	rpc_record_reset(&t->r);
}

static void test_records_may_arrive_cut_at_any_two_places(void **state)
{
	(void)state;
	for (size_t a = 0; a <= sizeof(stream); a++) {
		for (size_t b = a; b <= sizeof(stream); b++) {
			struct reading t = { 0 };

			feed(&t, stream, a);
			feed(&t, stream + a, b - a);
			feed(&t, stream + b, sizeof(stream) - b);
			expect_all_read(&t);
		}
	}
}

static void test_records_may_arrive_byte_by_byte(void **state)
{
	struct reading t = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(stream); i++)
		feed(&t, stream + i, 1);
	expect_all_read(&t);
}

static void test_rest_of_a_fragment_may_be_received_in_place(void **state)
{
	(void)state;
	for (size_t cut = 0; cut <= sizeof(stream); cut++) {
		struct reading t = { 0 };
		size_t pos = cut, room, len;
		const uint8_t *rec;
		uint8_t *dst;

		feed(&t, stream, cut);
		dst = rpc_record_want(&t.r, &room);
		assert_int_equal(dst != NULL, t.r.in_frag);
		/* One byte, then the rest of the fragment: as recv(2) may give it. */
		while (dst != NULL) {
			size_t n = pos == cut ? 1 : room;

			memcpy(dst, stream + pos, n);
			pos += n;
			if (rpc_record_filled(&t.r, n, &rec, &len) == RPC_RECORD_READY)
				expect_record(&t, rec, len);
			dst = rpc_record_want(&t.r, &room);
		}
		feed(&t, stream + pos, sizeof(stream) - pos);
		expect_all_read(&t);
	}
}

static void test_whole_record_is_given_in_place_without_a_copy(void **state)
{
	static const uint8_t bytes[] = { 0x80, 0, 0, 4, 'a', 'b', 'c', 'd', 0x80, 0 };
	struct rpc_record r = { 0 };
	const uint8_t *rec;
	size_t used, len;

	(void)state;
	assert_int_equal(rpc_record_next(&r, bytes, sizeof(bytes), &used, &rec, &len),
			 RPC_RECORD_READY);
	assert_ptr_equal(rec, bytes + 4);
	assert_int_equal(len, 4);
	assert_int_equal(used, 8);
	assert_null(r.buf);
	assert_int_equal(rpc_record_next(&r, bytes + 8, 2, &used, &rec, &len), RPC_RECORD_NONE);
	assert_true(rpc_record_is_partial(&r));
	rpc_record_reset(&r);
	assert_false(rpc_record_is_partial(&r));
}

static void test_gathered_record_may_be_taken_over(void **state)
{
	struct rpc_record r = { 0 };
	const uint8_t *rec;
	size_t used, len;
	uint8_t *mine;

	(void)state;
	assert_int_equal(rpc_record_next(&r, stream, sizeof(stream), &used, &rec, &len),
			 RPC_RECORD_READY);
	assert_ptr_equal(rec, r.buf);
	mine = rpc_record_steal(&r);
	assert_ptr_equal(mine, rec);
	assert_int_equal(
		rpc_record_next(&r, stream + used, sizeof(stream) - used, &used, &rec, &len),
		RPC_RECORD_READY);
	assert_memory_equal(rec, "world", 5);
	assert_memory_equal(mine, "hello", 5);
	free(mine);
	rpc_record_reset(&r);
}

static void test_record_of_the_maximum_is_taken_and_one_byte_more_is_not(void **state)
{
	const uint32_t max = RPC_RECORD_MAX;
	uint8_t *bytes = calloc(1, 4 + max + 1);
	struct rpc_record r = { 0 };
	const uint8_t *rec;
	size_t used, len;

	(void)state;
	assert_non_null(bytes);
	for (size_t first = 1; first <= 4 + max; first += max) { /* cut, and whole */
		rpc_record_mark(bytes, max);
		(void)rpc_record_next(&r, bytes, first, &used, &rec, &len);
		if (first < 4 + max)
			assert_int_equal(rpc_record_next(&r, bytes + first, 4 + max - first, &used,
							 &rec, &len),
					 RPC_RECORD_READY);
		assert_int_equal(len, max);
	}
	rpc_record_mark(bytes, max + 1);
	assert_int_equal(rpc_record_next(&r, bytes, 4, &used, &rec, &len), RPC_RECORD_BAD);
	assert_int_equal(rpc_record_next(&r, bytes, 0, &used, &rec, &len), RPC_RECORD_BAD);
	rpc_record_reset(&r);
	assert_int_equal(rpc_record_next(&r, bytes, 4 + max + 1, &used, &rec, &len),
			 RPC_RECORD_BAD);
	assert_null(r.buf);
	rpc_record_reset(&r);
	free(bytes);
}

static void test_fragments_that_sum_to_too_much_are_bad(void **state)
{
	static const uint8_t mark[] = { 0x00, 0x08, 0x00, 0x00 }; /* 512 KiB, more follows */
	static const uint8_t big[512 << 10];
	struct rpc_record r = { 0 };
	const uint8_t *rec;
	size_t used, len;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rpc_record_next(&r, mark, 4, &used, &rec, &len), RPC_RECORD_NONE);
		assert_int_equal(rpc_record_next(&r, big, sizeof(big), &used, &rec, &len),
				 RPC_RECORD_NONE);
	}
	assert_true(r.cap <= RPC_RECORD_MAX);
	assert_int_equal(rpc_record_next(&r, mark, 4, &used, &rec, &len), RPC_RECORD_BAD);
	assert_true(r.cap <= RPC_RECORD_MAX);
	rpc_record_reset(&r);
}

static void test_endless_fragments_are_bad_empty_or_not(void **state)
{
	static const uint8_t one[] = { 0, 0, 0, 1, 'x' };
	static const uint8_t none[] = { 0, 0, 0, 0 };

	(void)state;
	for (int empty = 0; empty < 2; empty++) {
		struct rpc_record r = { 0 };
		const uint8_t *rec;
		size_t used, len;
		int rc = RPC_RECORD_NONE;
		int n = 0;

		while (rc == RPC_RECORD_NONE && n < 10 * RPC_RECORD_FRAGMENTS_MAX) {
			rc = rpc_record_next(&r, empty ? none : one,
					     empty ? sizeof(none) : sizeof(one), &used, &rec, &len);
			n++;
		}
		assert_int_equal(rc, RPC_RECORD_BAD);
		assert_int_equal(n, RPC_RECORD_FRAGMENTS_MAX + 1);
		rpc_record_reset(&r);
	}
}

static void test_many_fragments_up_to_the_limit_make_one_record(void **state)
{
	struct rpc_record r = { 0 };
	const uint8_t *rec;
	size_t used, len;

	(void)state;
	for (int i = 0; i < RPC_RECORD_FRAGMENTS_MAX; i++) {
		bool last = i == RPC_RECORD_FRAGMENTS_MAX - 1;
		uint8_t frag[] = { last ? 0x80 : 0, 0, 0, 1, (uint8_t)i };

		assert_int_equal(rpc_record_next(&r, frag, sizeof(frag), &used, &rec, &len),
				 last ? RPC_RECORD_READY : RPC_RECORD_NONE);
	}
	assert_int_equal(len, RPC_RECORD_FRAGMENTS_MAX);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(rec[i], (uint8_t)i);
	rpc_record_reset(&r);
}

static void test_mark_is_what_the_reader_reads(void **state)
{
	uint8_t bytes[4 + 300] = { 0 };
	struct rpc_record r = { 0 };
	const uint8_t *rec;
	size_t used, len;

	(void)state;
	for (uint32_t n = 0; n <= 300; n += 100) {
		rpc_record_mark(bytes, n);
		assert_int_equal(rpc_record_next(&r, bytes, sizeof(bytes), &used, &rec, &len),
				 RPC_RECORD_READY);
		assert_int_equal(len, n);
	}
	rpc_record_reset(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records_may_arrive_cut_at_any_two_places),
		cmocka_unit_test(test_records_may_arrive_byte_by_byte),
		cmocka_unit_test(test_rest_of_a_fragment_may_be_received_in_place),
		cmocka_unit_test(test_whole_record_is_given_in_place_without_a_copy),
		cmocka_unit_test(test_gathered_record_may_be_taken_over),
		cmocka_unit_test(test_record_of_the_maximum_is_taken_and_one_byte_more_is_not),
		cmocka_unit_test(test_fragments_that_sum_to_too_much_are_bad),
		cmocka_unit_test(test_endless_fragments_are_bad_empty_or_not),
		cmocka_unit_test(test_many_fragments_up_to_the_limit_make_one_record),
		cmocka_unit_test(test_mark_is_what_the_reader_reads),
	};

	return cmocka_run_group_tests_name("rpc_record", tests, NULL, NULL);
}
