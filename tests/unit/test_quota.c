/* SPDX-License-Identifier: MIT */
/* The account of a workspace: charges, credits, and the count that corrects it. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "tests/unit/ws_fixture.h"
#include "workspace/quota.h"

#define DEADLINE_NS (20 * NSEC_PER_SEC)

struct quota_fixture {
	struct ws_fixture f;
	struct quota_service *service;
};

static int setup(void **state)
{
	struct quota_fixture *q = calloc(1, sizeof(*q));

	fixture_open(&q->f);
	assert_int_equal(quota_open(q->f.store, q->f.registry, &q->service, NULL), 0);
	*state = q;
	return 0;
}

static int teardown(void **state)
{
	struct quota_fixture *q = *state;

	quota_close(q->service);
	fixture_close(&q->f);
	free(q);
	return 0;
}

static void set(struct quota_fixture *q, uint64_t bytes, uint64_t files)
{
	const struct quota_limits limits = { bytes, files };

	assert_int_equal(quota_set(q->service, q->f.ws, &limits, NULL), 0);
}

static struct quota_amount used(struct quota_fixture *q)
{
	struct quota_usage u;

	assert_int_equal(quota_usage(q->f.ws, &u), 0);
	return u.used;
}

static void assert_used(struct quota_fixture *q, int64_t bytes, int64_t files)
{
	assert_int_equal(used(q).bytes, bytes);
	assert_int_equal(used(q).files, files);
}

/* Waits until a count has found it. */
static void await_used(struct quota_fixture *q, int64_t bytes, int64_t files)
{
	uint64_t end = clock_mono_ns() + DEADLINE_NS;

	quota_tree_changed(q->f.ws);
	while ((used(q).bytes != bytes || used(q).files != files) && clock_mono_ns() < end)
		(void)poll(NULL, 0, 5);
	assert_used(q, bytes, files);
}

static void test_sizes_are_rounded_up(void **state)
{
	static const struct {
		uint64_t size;
		int64_t blocks;
	} cases[] = {
		{ 0, 0 },       { 1, 4096 },          { 4096, 4096 },
		{ 4097, 8192 }, { 1 << 20, 1 << 20 }, { UINT64_MAX, (int64_t)QUOTA_MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(quota_blocks(cases[i].size), cases[i].blocks);
}

static void test_what_was_not_used_is_given_back(void **state)
{
	struct quota_fixture *q = *state;
	struct quota_op op;
	int fd;

	set(q, 100000, 10);
	fixture_local_file(&q->f, "f", "text", 0600);
	await_used(q, 4096, 1);
	fd = openat(q->f.files, "f", O_RDWR | O_CLOEXEC);
	/* announced 50000 bytes, written to 5000 */
	assert_int_equal(quota_size_begin(&op, q->f.ws, fd, 50000, true), 0);
	assert_int_equal(used(q).bytes, 53248);
	assert_int_equal(pwrite(fd, "x", 1, 4999), 1);
	quota_size_end(&op);
	assert_used(q, 8192, 1);
	/* refused: nothing is charged, and the file is free for the next */
	assert_int_equal(quota_size_begin(&op, q->f.ws, fd, 200000, true), -EDQUOT);
	quota_size_end(&op);
	assert_used(q, 8192, 1);
	/* cut */
	assert_int_equal(quota_size_begin(&op, q->f.ws, fd, 0, true), 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	quota_size_end(&op);
	assert_used(q, 0, 1);
	(void)close(fd);
}

static void test_a_loop_does_not_wait_for_another_ones_write(void **state)
{
	struct quota_fixture *q = *state;
	struct quota_op a, b;
	int fd;

	set(q, 100000, 10);
	fixture_local_file(&q->f, "f", "", 0600);
	fd = openat(q->f.files, "f", O_RDWR | O_CLOEXEC);
	assert_int_equal(quota_size_begin(&a, q->f.ws, fd, 10, false), 0);
	assert_int_equal(quota_size_begin(&b, q->f.ws, fd, 10, false), -EAGAIN);
	quota_size_end(&a);
	assert_int_equal(quota_size_begin(&b, q->f.ws, fd, 10, false), 0);
	quota_size_end(&b);
	(void)close(fd);
}

static void test_only_the_last_link_credits(void **state)
{
	struct quota_fixture *q = *state;

	fixture_local_file(&q->f, "a", "text", 0600);
	assert_int_equal(linkat(q->f.files, "a", q->f.files, "b", 0), 0);
	set(q, 100000, 10);
	assert_used(q, 4096, 1);
	assert_int_equal(fileops_remove(&q->f.owner, q->f.root, "a"), 0);
	assert_used(q, 4096, 1);
	assert_int_equal(fileops_remove(&q->f.owner, q->f.root, "b"), 0);
	assert_used(q, 0, 0);
}

static void test_a_failed_creation_is_not_charged(void **state)
{
	struct quota_fixture *q = *state;
	struct fileops_attr large = { .set = SET_SIZE, .size = 200000 };
	struct inode *ino;

	set(q, 100000, 2);
	assert_int_equal(
		fileops_create(&q->f.owner, q->f.root, "f", CREATE_GUARDED, &large, NULL, &ino),
		-EDQUOT);
	assert_used(q, 0, 0);
	assert_int_equal(faccessat(q->f.files, "f", F_OK, 0), -1);
}

static void test_local_changes_are_found_by_counting(void **state)
{
	struct quota_fixture *q = *state;

	set(q, 100000, 10);
	fixture_local_file(&q->f, "a", "text", 0600);
	assert_int_equal(mkdirat(q->f.files, "d", 0755), 0);
	fixture_local_file(&q->f, "d/b", "text", 0600);
	assert_used(q, 0, 0);
	await_used(q, 8192, 3);
	assert_int_equal(unlinkat(q->f.files, "d/b", 0), 0);
	await_used(q, 4096, 2);
}

/* Makes and removes files, and grows and cuts one, until told to stop. */
struct worker {
	struct quota_fixture *q;
	pthread_t thread;
	char name[8];
	bool stop; /* atomic */
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct ws_fixture *f = &w->q->f;
	static const uint8_t data[5000];

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		struct fileops_attr a = { .set = SET_MODE, .mode = 0600 };
		struct inode *ino;

		if (fileops_create(&f->owner, f->root, w->name, CREATE_GUARDED, &a, NULL, &ino) < 0)
			break;
		for (uint64_t i = 0; i < 5; i++)
			(void)fileops_write(&f->owner, ino, i * 5000, data, sizeof(data),
					    FILEOPS_UNSTABLE);
		inode_unref(f->inodes, ino);
		(void)fileops_remove(&f->owner, f->root, w->name);
	}
	return NULL;
}

/* A count sees part of what our doors do meanwhile: it must not take that for others' doing. */
static void test_counting_beside_busy_doors_invents_nothing(void **state)
{
	struct quota_fixture *q = *state;
	struct worker w[3] = { 0 };
	uint64_t end = clock_mono_ns() + 3 * NSEC_PER_SEC;

	set(q, 1 << 20, 100);
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		w[i].q = q;
		(void)snprintf(w[i].name, sizeof(w[i].name), "w%zu", i);
		assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	}
	while (clock_mono_ns() < end) { /* each asks for a count */
		quota_tree_changed(q->f.ws);
		(void)poll(NULL, 0, 20);
	}
	for (size_t i = 0; i < ARRAY_LEN(w); i++) {
		__atomic_store_n(&w[i].stop, true, __ATOMIC_RELAXED);
		(void)pthread_join(w[i].thread, NULL);
	}
	assert_used(q, 0, 0);
}

static void test_a_quota_may_go_and_come_back(void **state)
{
	struct quota_fixture *q = *state;

	set(q, 8192, 10);
	fixture_local_file(&q->f, "a", "text", 0600);
	set(q, QUOTA_UNLIMITED, QUOTA_UNLIMITED);
	assert_null(quota_of(q->f.ws));
	assert_used(q, 4096, 1); /* counted for the asking */
	set(q, QUOTA_UNLIMITED, 5);
	assert_used(q, 4096, 1);
	assert_int_equal(quota_charge(q->f.ws, 1 << 30), 0);
	quota_credit(q->f.ws, 1 << 30);
	assert_used(q, 4096, 1);
}

static void test_it_is_remembered(void **state)
{
	struct quota_fixture *q = *state;
	struct quota_usage u;

	set(q, 12345, QUOTA_UNLIMITED);
	fixture_local_file(&q->f, "a", "text", 0600);
	await_used(q, 4096, 1);
	quota_close(q->service);
	__atomic_store_n(&q->f.ws->quota, NULL, __ATOMIC_RELEASE);
	assert_int_equal(quota_load(q->f.store, q->f.ws, NULL), 0);
	assert_int_equal(quota_open(q->f.store, q->f.registry, &q->service, NULL), 0);
	assert_int_equal(quota_usage(q->f.ws, &u), 0);
	assert_int_equal(u.limits.bytes, 12345);
	assert_true(u.limits.files == QUOTA_UNLIMITED);
	assert_int_equal(u.used.bytes, 4096); /* before any count */
}

static void test_the_file_system_shows_the_quota(void **state)
{
	struct quota_fixture *q = *state;
	struct statvfs st = { 0 }, plain;

	assert_int_equal(fileops_statfs(&q->f.owner, q->f.root, &plain), 0);
	set(q, 1 << 20, 7);
	fixture_local_file(&q->f, "a", "text", 0600);
	await_used(q, 4096, 1);
	assert_int_equal(fileops_statfs(&q->f.owner, q->f.root, &st), 0);
	assert_int_equal(st.f_blocks * st.f_frsize, 1 << 20);
	assert_int_equal(st.f_bavail * st.f_frsize, (1 << 20) - 4096);
	assert_int_equal(st.f_files, 7);
	assert_int_equal(st.f_favail, 6);
	set(q, 1 << 20, 0);
	assert_int_equal(fileops_statfs(&q->f.owner, q->f.root, &st), 0);
	assert_int_equal(st.f_favail, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_sizes_are_rounded_up),
		T(test_what_was_not_used_is_given_back),
		T(test_a_loop_does_not_wait_for_another_ones_write),
		T(test_only_the_last_link_credits),
		T(test_a_failed_creation_is_not_charged),
		T(test_local_changes_are_found_by_counting),
		T(test_counting_beside_busy_doors_invents_nothing),
		T(test_a_quota_may_go_and_come_back),
		T(test_it_is_remembered),
		T(test_the_file_system_shows_the_quota),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
