/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "nfs_fake.h"

#define XID 0xabcd0001u

struct fixture {
	struct nfs_dispatch d;
	struct nfs_peer peer;
	struct nfs_job *job;
	struct list waiters;
	uint8_t call[2048];
	size_t call_len;
	uint8_t room[4096];
};

static void setup(struct fixture *f)
{
	fake_reset();
	*f = (struct fixture){ 0 };
	nfs_dispatch_init(&f->d, &fake_programs);
	assert_int_equal(nfs_payloads_new(&f->d.payloads), 0);
	assert_int_equal(drc_new(&(struct drc_options){ 0 }, &f->d.drc), 0);
	f->peer.addr = in6addr_loopback;
	f->job = nfs_job_new(&f->d);
	list_init(&f->waiters);
}

static void teardown(struct fixture *f)
{
	nfs_job_free(&f->d, f->job);
	drc_free(f->d.drc);
	nfs_payloads_free(f->d.payloads);
}

/* The record without its mark. */
static enum nfs_step begin(struct fixture *f)
{
	nfs_job_reset(&f->d, f->job);
	f->job->call.peer = &f->peer;
	return nfs_dispatch_begin(&f->d, f->job, f->call + 4, f->call_len - 4, f->room,
				  sizeof(f->room), &f->waiters);
}

static void make_call(struct fixture *f, uint32_t prog, uint32_t vers, uint32_t proc, uint32_t v)
{
	f->call_len = fake_call_of(f->call, sizeof(f->call), prog, vers, proc, XID, v, NULL, 0);
}

static uint32_t word(const struct fixture *f, size_t i)
{
	assert_true((i + 1) * 4 <= f->job->reply_len);
	return fake_be32(f->job->reply + 4 * i);
}

/* Words: 0 mark, 1 xid, 2 REPLY, 3 accepted or denied, 4..5 verifier, 6 accept_stat, 7.. result */
static void assert_accepted(const struct fixture *f, uint32_t stat, size_t result_len)
{
	assert_int_equal(f->job->reply_len, 28 + result_len);
	assert_int_equal(word(f, 0),
			 0x80000000u | (f->job->reply_len - 4 + f->job->call.payload_len));
	assert_int_equal(word(f, 1), XID);
	assert_int_equal(word(f, 2), 1);
	assert_int_equal(word(f, 3), 0);
	assert_int_equal(word(f, 6), stat);
}

static void test_a_call_is_run_inline_and_answered(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_NFS, 3, FAKE_ECHO, 77);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_accepted(&f, RPC_ACCEPT_OK, 8);
	assert_int_equal(word(&f, 7), 0);
	assert_int_equal(word(&f, 8), 77);
	assert_ptr_equal(f.job->reply, f.room);
	assert_false(f.job->is_failed);
	teardown(&f);
}

static const struct {
	uint32_t prog, vers, proc;
	uint32_t stat, low, high;
} refusals[] = {
	{ RPC_PROG_NFS, 4, 0, RPC_PROG_MISMATCH, 3, 3 },
	{ RPC_PROG_NFS, 2, 1, RPC_PROG_MISMATCH, 3, 3 },
	{ RPC_PROG_NFS, 1, 0, RPC_PROG_MISMATCH, 3, 3 },
	{ RPC_PROG_MOUNT, 1, 1, RPC_PROG_MISMATCH, 3, 3 },
	{ RPC_PROG_MOUNT, 2, 3, RPC_PROG_MISMATCH, 3, 3 },
	{ RPC_PROG_MOUNT, 4, 0, RPC_PROG_MISMATCH, 3, 3 },
	{ 100227, 3, 0, RPC_PROG_UNAVAIL, 0, 0 },
	{ 100021, 4, 0, RPC_PROG_UNAVAIL, 0, 0 },
	{ 100000, 2, 3, RPC_PROG_UNAVAIL, 0, 0 },
	{ RPC_PROG_NFS, 3, 22, RPC_PROC_UNAVAIL, 0, 0 },
	{ RPC_PROG_NFS, 3, 0xffffffff, RPC_PROC_UNAVAIL, 0, 0 },
	{ RPC_PROG_MOUNT, 3, 6, RPC_PROC_UNAVAIL, 0, 0 },
};

static void test_wrong_program_version_and_procedure_are_told_apart(void **state)
{
	struct fixture f;

	setup(&f);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		bool mismatch = refusals[i].stat == RPC_PROG_MISMATCH;

		make_call(&f, refusals[i].prog, refusals[i].vers, refusals[i].proc, 0);
		assert_int_equal(begin(&f), NFS_STEP_REPLY);
		assert_accepted(&f, refusals[i].stat, mismatch ? 8 : 0);
		if (mismatch) {
			assert_int_equal(word(&f, 7), refusals[i].low);
			assert_int_equal(word(&f, 8), refusals[i].high);
		}
		assert_true(f.job->is_failed);
		assert_int_equal(f.job->row, NFS_STATS_ROWS);
	}
	teardown(&f);
}

static void test_umnt_of_mount_version_1_is_tolerated(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_MOUNT, 1, 3, 5);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_accepted(&f, RPC_ACCEPT_OK, 0);
	make_call(&f, RPC_PROG_MOUNT, 1, 0, 0);
	f.call_len = fake_call_of(f.call, sizeof(f.call), RPC_PROG_MOUNT, 1, 0, XID, 0, NULL, 0);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_accepted(&f, RPC_ACCEPT_OK, 0);
	teardown(&f);
}

static void test_rpc_version_other_than_2_is_denied(void **state)
{
	static const uint8_t versions[][4] = { { 0, 0, 0, 1 },
					       { 0, 0, 0, 3 },
					       { 255, 255, 255, 255 } };
	struct fixture f;

	setup(&f);
	for (size_t i = 0; i < 3; i++) {
		make_call(&f, RPC_PROG_NFS, 3, FAKE_ECHO, 0);
		memcpy(f.call + 12, versions[i], 4);
		assert_int_equal(begin(&f), NFS_STEP_REPLY);
		assert_int_equal(f.job->reply_len, 4 + 24);
		assert_int_equal(word(&f, 3), 1); /* MSG_DENIED */
		assert_int_equal(word(&f, 4), 0); /* RPC_MISMATCH */
		assert_int_equal(word(&f, 5), 2);
		assert_int_equal(word(&f, 6), 2);
	}
	teardown(&f);
}

static void test_what_is_no_call_closes(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_NFS, 3, FAKE_ECHO, 0);
	f.call[11] = 1; /* a REPLY */
	assert_int_equal(begin(&f), NFS_STEP_CLOSE);
	f.call_len = 4;
	assert_int_equal(begin(&f), NFS_STEP_CLOSE);
	teardown(&f);
}

static void test_arguments_too_short_or_too_long_are_garbage(void **state)
{
	static const uint32_t procs[] = { FAKE_ECHO, FAKE_STATUS, FAKE_NULL };
	static const uint8_t more[4];
	struct fixture f;

	setup(&f);
	for (size_t i = 0; i < 3; i++) {
		f.call_len = fake_call_of(f.call, sizeof(f.call), RPC_PROG_NFS, 3, procs[i], XID, 0,
					  more, sizeof(more));
		assert_int_equal(begin(&f), NFS_STEP_REPLY);
		assert_accepted(&f, RPC_GARBAGE_ARGS, 0);
		if (procs[i] == FAKE_NULL)
			continue;
		f.call_len -= 8;
		assert_int_equal(begin(&f), NFS_STEP_REPLY);
		assert_accepted(&f, RPC_GARBAGE_ARGS, 0);
	}
	teardown(&f);
}

static void test_status_of_the_result_is_noted(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_NFS, 3, FAKE_STATUS, 70);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_true(f.job->has_status);
	assert_int_equal(f.job->status, 70);
	assert_true(f.job->is_failed);
	make_call(&f, RPC_PROG_MOUNT, 3, FAKE_MOUNT_LIST, 4);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_false(f.job->has_status);
	assert_false(f.job->is_failed);
	teardown(&f);
}

static void test_a_procedure_without_result_is_a_system_error(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_NFS, 3, FAKE_BROKEN, 0);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_accepted(&f, RPC_SYSTEM_ERR, 0);
	teardown(&f);
}

static void test_payload_follows_and_is_padded_with_zeros(void **state)
{
	struct fixture f;

	setup(&f);
	for (uint32_t n = 0; n < 9; n++) {
		make_call(&f, RPC_PROG_NFS, 3, FAKE_READ, n);
		assert_int_equal(begin(&f), NFS_STEP_REPLY);
		assert_int_equal(f.job->call.payload_len, n);
		assert_int_equal(word(&f, 0), 0x80000000u | (24 + 8 + (n + 3) / 4 * 4));
		for (uint32_t i = n; i % 4 != 0; i++)
			assert_int_equal(f.job->call.payload[i], 0);
	}
	teardown(&f);
}

static void test_a_result_larger_than_the_room_gets_memory_of_its_own(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_MOUNT, 3, FAKE_MOUNT_LIST, 200000);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_accepted(&f, RPC_ACCEPT_OK, 200004);
	assert_ptr_equal(f.job->reply, f.job->heap);
	assert_int_equal(word(&f, 7), 200000);
	teardown(&f);
}

static void test_what_would_wait_runs_again_from_its_own_record(void **state)
{
	static const char data[] = "0123456789abcde";
	struct fixture f;
	uint32_t sum;

	setup(&f);
	f.call_len =
		fake_call_of(f.call, sizeof(f.call), RPC_PROG_NFS, 3, FAKE_WRITE, XID, 2, data, 16);
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	sum = word(&f, 8);
	f.call_len =
		fake_call_of(f.call, sizeof(f.call), RPC_PROG_NFS, 3, FAKE_WRITE, XID, 1, data, 16);
	assert_int_equal(begin(&f), NFS_STEP_POOL);
	assert_int_equal(nfs_dispatch_keep(f.job, f.call + 4, f.call_len - 4, NULL), 0);
	memset(f.call, 0xee, sizeof(f.call)); /* the loop's buffer is used again */
	nfs_dispatch_wait(&f.d, f.job, &f.waiters);
	assert_accepted(&f, RPC_ACCEPT_OK, 8);
	assert_int_equal(word(&f, 8), sum);
	assert_null(f.job->record);
	teardown(&f);
}

static void test_garbage_for_a_pooled_row_is_garbage_too(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_NFS, 3, FAKE_GATED, 0);
	f.call_len -= 4;
	assert_int_equal(begin(&f), NFS_STEP_POOL);
	assert_int_equal(nfs_dispatch_keep(f.job, f.call + 4, f.call_len - 4, NULL), 0);
	nfs_dispatch_wait(&f.d, f.job, &f.waiters);
	assert_accepted(&f, RPC_GARBAGE_ARGS, 0);
	teardown(&f);
}

static void test_a_repeat_gets_the_stored_reply_and_does_not_run(void **state)
{
	struct fixture f;

	setup(&f);
	make_call(&f, RPC_PROG_NFS, 3, FAKE_ONCE, 5);
	for (int i = 0; i < 3; i++) {
		f.peer.port = (in_port_t)(1000 + i); /* on a new connection each time */
		assert_int_equal(begin(&f), NFS_STEP_REPLY);
		assert_accepted(&f, RPC_ACCEPT_OK, 8);
		assert_int_equal(word(&f, 8), 1);
	}
	make_call(&f, RPC_PROG_NFS, 3, FAKE_ONCE, 6); /* the same xid, another call */
	assert_int_equal(begin(&f), NFS_STEP_REPLY);
	assert_int_equal(word(&f, 8), 2);
	teardown(&f);
}

static void test_a_repeat_of_a_running_call_is_answered_with_it(void **state)
{
	struct fixture f;
	struct nfs_job *first, *second;

	setup(&f);
	make_call(&f, RPC_PROG_NFS, 3, FAKE_GATED_ONCE, 5);
	first = f.job;
	assert_int_equal(begin(&f), NFS_STEP_POOL);
	second = f.job = nfs_job_new(&f.d);
	assert_int_equal(begin(&f), NFS_STEP_PARKED);
	assert_int_equal(nfs_dispatch_keep(first, f.call + 4, f.call_len - 4, NULL), 0);
	nfs_dispatch_wait(&f.d, first, &f.waiters);
	assert_ptr_equal(f.waiters.next, &second->link);
	assert_int_equal(second->reply_len, first->reply_len);
	assert_memory_equal(second->reply, first->reply, first->reply_len);
	list_del(&second->link);
	nfs_job_free(&f.d, first);
	teardown(&f);
}

static void test_payload_memory_is_the_same_after_a_second_run(void **state)
{
	struct fixture f;
	uint8_t *p;

	setup(&f);
	p = nfs_call_payload(&f.job->call, 1000);
	assert_non_null(p);
	assert_ptr_equal(nfs_call_payload(&f.job->call, 1000), p);
	assert_ptr_equal(f.job->call.payload, p);
	assert_non_null(nfs_call_payload(&f.job->call, NFSD_IO_MAX + 4096));
	memset(f.job->call.payload, 1, NFSD_IO_MAX + 4096);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_call_is_run_inline_and_answered),
		cmocka_unit_test(test_wrong_program_version_and_procedure_are_told_apart),
		cmocka_unit_test(test_umnt_of_mount_version_1_is_tolerated),
		cmocka_unit_test(test_rpc_version_other_than_2_is_denied),
		cmocka_unit_test(test_what_is_no_call_closes),
		cmocka_unit_test(test_arguments_too_short_or_too_long_are_garbage),
		cmocka_unit_test(test_status_of_the_result_is_noted),
		cmocka_unit_test(test_a_procedure_without_result_is_a_system_error),
		cmocka_unit_test(test_payload_follows_and_is_padded_with_zeros),
		cmocka_unit_test(test_a_result_larger_than_the_room_gets_memory_of_its_own),
		cmocka_unit_test(test_what_would_wait_runs_again_from_its_own_record),
		cmocka_unit_test(test_garbage_for_a_pooled_row_is_garbage_too),
		cmocka_unit_test(test_a_repeat_gets_the_stored_reply_and_does_not_run),
		cmocka_unit_test(test_a_repeat_of_a_running_call_is_answered_with_it),
		cmocka_unit_test(test_payload_memory_is_the_same_after_a_second_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
