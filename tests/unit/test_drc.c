/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "nfsd/drc.h"

struct fixture {
	struct drc *d;
	struct drc_entry *e;
	uint8_t *reply;
	size_t len;
	struct list waiter, waiters;
};

static struct drc *make(size_t max_entries, size_t max_bytes)
{
	struct drc *d;

	assert_int_equal(drc_new(&(struct drc_options){ max_entries, max_bytes }, &d), 0);
	return d;
}

static struct drc_key key_of(struct drc *d, uint32_t xid, const char *args)
{
	struct in6_addr addr = IN6ADDR_LOOPBACK_INIT;
	struct rpc_call_header h = {
		.xid = xid,
		.prog = RPC_PROG_NFS,
		.vers = 3,
		.proc = 8,
		.args = (const uint8_t *)args,
		.args_len = strlen(args),
	};
	struct drc_key k;

	drc_key_of(d, &addr, &h, &k);
	return k;
}

static enum drc_verdict begin(struct fixture *f, const struct drc_key *k, uint64_t now_ns)
{
	f->e = NULL;
	f->reply = NULL;
	list_init(&f->waiter);
	return drc_begin(f->d, k, now_ns, &f->waiter, &f->e, &f->reply, &f->len);
}

static void finish(struct fixture *f, struct drc_entry *e, const char *reply, uint64_t now_ns)
{
	list_init(&f->waiters);
	drc_finish(f->d, e, (const uint8_t *)reply, reply ? strlen(reply) : 0, now_ns, &f->waiters);
}

static void assert_replay(struct fixture *f, const struct drc_key *k, const char *reply)
{
	assert_int_equal(begin(f, k, 10), DRC_REPLAY);
	assert_int_equal(f->len, strlen(reply));
	assert_memory_equal(f->reply, reply, f->len);
	free(f->reply);
}

static void test_repeat_of_a_done_call_gets_its_reply(void **state)
{
	struct fixture f = { .d = make(0, 0) };
	struct drc_key k = key_of(f.d, 1, "args");

	assert_int_equal(begin(&f, &k, 1), DRC_RUN);
	assert_non_null(f.e);
	finish(&f, f.e, "reply", 2);
	assert_replay(&f, &k, "reply");
	assert_replay(&f, &k, "reply");
	drc_free(f.d);
}

static void test_another_call_with_the_same_xid_is_new(void **state)
{
	struct fixture f = { .d = make(0, 0) };
	struct drc_key k = key_of(f.d, 1, "remove a");
	struct drc_key others[] = { key_of(f.d, 1, "remove b"), key_of(f.d, 2, "remove a"), k, k,
				    k };

	others[2].proc = 9;
	others[3].addr.s6_addr[0] = 0xfd;
	others[4].prog = RPC_PROG_MOUNT;
	assert_int_equal(begin(&f, &k, 1), DRC_RUN);
	finish(&f, f.e, "reply", 2);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(begin(&f, &others[i], 3), DRC_RUN);
		finish(&f, f.e, "other", 4);
	}
	drc_free(f.d);
}

static void test_credential_is_part_of_the_key(void **state)
{
	struct fixture f = { .d = make(0, 0) };
	struct in6_addr addr = IN6ADDR_LOOPBACK_INIT;
	struct rpc_call_header h = { .xid = 1, .cred = { .flavor = RPC_AUTH_SYS, .uid = 1 } };
	struct drc_key a, b, c;

	h.args = (const uint8_t *)"";
	drc_key_of(f.d, &addr, &h, &a);
	drc_key_of(f.d, &addr, &h, &b);
	h.cred.uid = 2;
	drc_key_of(f.d, &addr, &h, &c);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_memory_not_equal(&a, &c, sizeof(a));
	drc_free(f.d);
}

static void test_length_of_long_arguments_counts(void **state)
{
	static char long_args[1000];
	struct drc *d = make(0, 0);
	struct drc_key a, b;

	memset(long_args, 'x', sizeof(long_args) - 1);
	a = key_of(d, 1, long_args);
	b = key_of(d, 1, long_args + 1);
	assert_memory_not_equal(&a, &b, sizeof(a));
	drc_free(d);
}

static void test_repeats_of_a_running_call_wait_up_to_a_limit(void **state)
{
	struct fixture f = { .d = make(0, 0) };
	struct drc_key k = key_of(f.d, 1, "args");
	struct list w[DRC_MAX_PARKED + 1];
	struct drc_entry *first, *none;
	uint8_t *reply;
	size_t len, n = 0;
	struct list *pos;

	assert_int_equal(begin(&f, &k, 1), DRC_RUN);
	first = f.e;
	for (size_t i = 0; i <= DRC_MAX_PARKED; i++) {
		enum drc_verdict v = drc_begin(f.d, &k, 2, &w[i], &none, &reply, &len);

		assert_int_equal(v, i < DRC_MAX_PARKED ? DRC_PARKED : DRC_DROP);
	}
	finish(&f, first, "reply", 3);
	list_for_each (pos, &f.waiters)
		n++;
	assert_int_equal(n, DRC_MAX_PARKED);
	assert_replay(&f, &k, "reply");
	drc_free(f.d);
}

static void test_a_call_without_a_reply_is_forgotten(void **state)
{
	struct fixture f = { .d = make(0, 0) };
	struct drc_key k = key_of(f.d, 1, "args");
	struct drc_stats st;

	assert_int_equal(begin(&f, &k, 1), DRC_RUN);
	finish(&f, f.e, NULL, 2);
	drc_stats(f.d, &st);
	assert_int_equal(st.n_entries, 0);
	assert_int_equal(st.n_bytes, 0);
	assert_int_equal(begin(&f, &k, 1), DRC_RUN);
	finish(&f, f.e, NULL, 2);
	drc_free(f.d);
}

static void test_oldest_done_goes_first_and_running_ones_stay(void **state)
{
	struct fixture f = { .d = make(4, 0) };
	struct drc_key running = key_of(f.d, 0, "running");
	struct drc_entry *e;
	struct drc_stats st;

	assert_int_equal(begin(&f, &running, 1), DRC_RUN);
	e = f.e;
	for (uint32_t xid = 1; xid <= 100; xid++) {
		struct drc_key k = key_of(f.d, xid, "args");

		assert_int_equal(begin(&f, &k, 1), DRC_RUN);
		finish(&f, f.e, "reply", 2);
		drc_stats(f.d, &st);
		assert_true(st.n_entries <= 4);
	}
	assert_int_equal(begin(&f, &running, 1), DRC_PARKED);
	finish(&f, e, "reply", 3);
	drc_free(f.d);
}

static void test_full_of_running_calls_runs_without_it(void **state)
{
	struct fixture f = { .d = make(2, 0) };
	struct drc_key k[3] = { key_of(f.d, 1, ""), key_of(f.d, 2, ""), key_of(f.d, 3, "") };
	struct drc_entry *e[2];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(begin(&f, &k[i], 1), DRC_RUN);
		e[i] = f.e;
	}
	assert_int_equal(begin(&f, &k[2], 1), DRC_RUN);
	assert_null(f.e);
	finish(&f, NULL, "reply", 2);
	finish(&f, e[0], "reply", 2);
	finish(&f, e[1], "reply", 2);
	drc_free(f.d);
}

static void test_bytes_are_bounded(void **state)
{
	static char reply[1001];
	struct fixture f = { .d = make(0, 20000) };
	struct drc_stats st;

	memset(reply, 'r', sizeof(reply) - 1);
	for (uint32_t xid = 1; xid <= 200; xid++) {
		struct drc_key k = key_of(f.d, xid, "args");

		assert_int_equal(begin(&f, &k, 1), DRC_RUN);
		finish(&f, f.e, reply, 2);
		drc_stats(f.d, &st);
		assert_true(st.n_bytes <= 20000);
	}
	assert_true(st.n_entries > 5);
	drc_free(f.d);
}

static void test_a_repeat_seen_before_the_end_by_another_clock_reading_is_a_repeat(void **state)
{
	struct fixture f = { .d = make(0, 0) };
	struct drc_key k = key_of(f.d, 1, "");

	assert_int_equal(begin(&f, &k, 1), DRC_RUN);
	finish(&f, f.e, "reply", 1000);
	assert_replay(&f, &k, "reply"); /* at 10 */
	drc_free(f.d);
}

static void test_old_replies_go(void **state)
{
	struct fixture f = { .d = make(0, 0) };
	struct drc_key a = key_of(f.d, 1, ""), b = key_of(f.d, 2, "");
	struct drc_stats st;

	assert_int_equal(begin(&f, &a, 1), DRC_RUN);
	finish(&f, f.e, "reply", 1);
	assert_int_equal(begin(&f, &b, 1), DRC_RUN);
	finish(&f, f.e, "reply", 1000);
	assert_int_equal(begin(&f, &a, 2 + DRC_MAX_AGE_NS), DRC_RUN);
	finish(&f, f.e, "reply", 2 + DRC_MAX_AGE_NS);
	drc_expire(f.d, 1001 + DRC_MAX_AGE_NS);
	drc_stats(f.d, &st);
	assert_int_equal(st.n_entries, 1);
	drc_free(f.d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repeat_of_a_done_call_gets_its_reply),
		cmocka_unit_test(test_another_call_with_the_same_xid_is_new),
		cmocka_unit_test(test_credential_is_part_of_the_key),
		cmocka_unit_test(test_length_of_long_arguments_counts),
		cmocka_unit_test(test_repeats_of_a_running_call_wait_up_to_a_limit),
		cmocka_unit_test(test_a_call_without_a_reply_is_forgotten),
		cmocka_unit_test(test_oldest_done_goes_first_and_running_ones_stay),
		cmocka_unit_test(test_full_of_running_calls_runs_without_it),
		cmocka_unit_test(test_bytes_are_bounded),
		cmocka_unit_test(
			test_a_repeat_seen_before_the_end_by_another_clock_reading_is_a_repeat),
		cmocka_unit_test(test_old_replies_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
