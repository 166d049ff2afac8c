/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "tests/unit/ws_fixture.h"

static void test_a_key_finds_the_file_after_rename_and_restart(void **state)
{
	struct ws_fixture *f = *state;
	struct inode_key key;
	struct inode *ino;

	fixture_local_file(f, "a", "text", 0644);
	ino = fixture_lookup(f, "a");
	key = ino->key;
	inode_unref(f->inodes, ino);

	assert_int_equal(mkdirat(f->files, "d", 0755), 0);
	assert_int_equal(renameat(f->files, "a", f->files, "d/b"), 0);
	fixture_close_cache(f);
	fixture_open_cache(f, 1000);

	assert_int_equal(inode_from_key(f->inodes, &key, false, &ino), -EAGAIN);
	assert_int_equal(inode_from_key(f->inodes, &key, true, &ino), 0);
	assert_true(S_ISREG(ino->type));
	inode_unref(f->inodes, ino);
	/* now it is known, and found without waiting */
	assert_int_equal(inode_from_key(f->inodes, &key, false, &ino), 0);
	inode_unref(f->inodes, ino);
}

static void test_a_removed_file_is_stale_and_no_other(void **state)
{
	struct ws_fixture *f = *state;
	struct inode_key key;
	struct inode *ino;
	struct statx stx;

	fixture_local_file(f, "a", "text", 0644);
	ino = fixture_lookup(f, "a");
	key = ino->key;
	assert_int_equal(unlinkat(f->files, "a", 0), 0);
	assert_int_equal(fileops_stat(&f->owner, ino, &stx), -ESTALE);
	inode_unref(f->inodes, ino);
	/* its number may be given to the next file, which must not answer to the old key */
	for (int i = 0; i < 50; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "n%d", i);
		fixture_local_file(f, name, "other", 0644);
	}
	assert_int_equal(inode_from_key(f->inodes, &key, true, &ino), -ESTALE);
	assert_int_equal(fileops_stat(&f->owner, f->root, &stx),
			 0); /* the directory is what it was */
}

static void test_keys_of_another_file_system_or_workspace_are_stale(void **state)
{
	struct ws_fixture *f = *state;
	struct inode_key key = f->root->key;
	struct inode *ino;

	key.fs ^= 2;
	assert_int_equal(inode_from_key(f->inodes, &key, true, &ino), -ESTALE);
	key = f->root->key;
	key.ws++;
	assert_int_equal(inode_from_key(f->inodes, &key, true, &ino), -ESTALE);
}

static void test_hard_links_are_one_inode(void **state)
{
	struct ws_fixture *f = *state;
	struct inode *a, *b;

	fixture_local_file(f, "a", "text", 0644);
	assert_int_equal(linkat(f->files, "a", f->files, "b", 0), 0);
	a = fixture_lookup(f, "a");
	b = fixture_lookup(f, "b");
	assert_ptr_equal(a, b);
	inode_unref(f->inodes, a);
	inode_unref(f->inodes, b);
}

static void test_the_cache_keeps_to_its_descriptors(void **state)
{
	struct ws_fixture *f = *state;
	struct inode_cache_stats st;

	fixture_close_cache(f);
	fixture_open_cache(f, 100);
	for (int i = 0; i < 1000; i++) {
		struct inode_io *io;
		struct inode *ino;
		char name[16];

		(void)snprintf(name, sizeof(name), "n%d", i);
		fixture_local_file(f, name, "text", 0644);
		ino = fixture_lookup(f, name);
		assert_int_equal(inode_io_get(f->inodes, ino, i % 2 == 0, true, &io), 0);
		inode_io_put(io);
		inode_unref(f->inodes, ino);
	}
	inode_cache_stats(f->inodes, &st);
	assert_true(st.n_fds <= 103); /* what one more call may hold on top */
	assert_true(st.evictions >= 400);
}

static void test_idle_writers_are_closed_and_executables_keep_none(void **state)
{
	struct ws_fixture *f = *state;
	struct inode_cache_stats before, after;
	struct inode_io *io, *again;
	struct inode *ino;

	fixture_local_file(f, "data", "x", 0644);
	fixture_local_file(f, "prog", "x", 0755);
	ino = fixture_lookup(f, "data");
	assert_int_equal(inode_io_get(f->inodes, ino, true, true, &io), 0);
	inode_io_put(io);
	assert_int_equal(inode_io_get(f->inodes, ino, true, true, &again), 0);
	assert_ptr_equal(io, again);
	inode_cache_stats(f->inodes, &before);
	inode_cache_sweep(f->inodes, 0);
	inode_cache_stats(f->inodes, &after);
	assert_int_equal(after.n_fds, before.n_fds - 1);
	assert_true(fcntl(again->fd, F_GETFD) >= 0); /* still open for the one who uses it */
	inode_io_put(again);
	inode_unref(f->inodes, ino);

	ino = fixture_lookup(f, "prog");
	inode_cache_stats(f->inodes, &before);
	assert_int_equal(inode_io_get(f->inodes, ino, true, true, &io), 0);
	inode_cache_stats(f->inodes, &after);
	assert_int_equal(after.n_fds, before.n_fds);
	inode_io_put(io);
	inode_unref(f->inodes, ino);
}

static void test_the_sweep_lets_go_of_files_that_others_removed(void **state)
{
	struct ws_fixture *f = *state;
	struct inode_cache_stats st;

	fixture_local_file(f, "a", "text", 0644);
	inode_unref(f->inodes, fixture_lookup(f, "a"));
	inode_cache_stats(f->inodes, &st);
	assert_int_equal(st.n_inodes, 2); /* the root and the file */
	assert_int_equal(unlinkat(f->files, "a", 0), 0);
	for (int i = 0; i < 64; i++)
		inode_cache_sweep(f->inodes, NSEC_PER_SEC);
	inode_cache_stats(f->inodes, &st);
	assert_int_equal(st.n_inodes, 1);
}

struct syncer {
	struct ws_fixture *f;
	struct inode *ino;
	int failures;
};

static void *sync_loop(void *arg)
{
	struct syncer *s = arg;

	for (int i = 0; i < 200; i++)
		if (inode_sync(s->f->inodes, s->ino) != 0)
			s->failures++;
	return NULL;
}

static void test_many_may_sync_one_file(void **state)
{
	struct ws_fixture *f = *state;
	struct syncer s[8];
	pthread_t t[8];
	struct inode *ino;

	fixture_local_file(f, "a", "text", 0644);
	ino = fixture_lookup(f, "a");
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		s[i] = (struct syncer){ .f = f, .ino = ino };
		assert_int_equal(pthread_create(&t[i], NULL, sync_loop, &s[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(s[i].failures, 0);
	}
	inode_unref(f->inodes, ino);
}

static void *lookup_loop(void *arg)
{
	struct ws_fixture *f = arg;

	for (int i = 0; i < 3000; i++) {
		struct inode *ino;
		struct statx stx;
		char name[16];

		(void)snprintf(name, sizeof(name), "n%d", i % 40);
		if (fileops_lookup(&f->owner, f->root, name, &ino) < 0)
			continue;
		(void)fileops_stat(&f->owner, ino, &stx);
		inode_unref(f->inodes, ino);
	}
	return NULL;
}

static void *churn_loop(void *arg)
{
	struct ws_fixture *f = arg;

	for (int i = 0; i < 1000; i++) {
		struct fileops_attr a = { 0 };
		struct inode *ino;
		char name[16];

		(void)snprintf(name, sizeof(name), "n%d", i % 40);
		if (fileops_create(&f->owner, f->root, name, CREATE_UNCHECKED, &a, NULL, &ino) == 0)
			inode_unref(f->inodes, ino);
		(void)fileops_remove(&f->owner, f->root, name);
		if (i % 50 == 0)
			inode_cache_sweep(f->inodes, 0);
	}
	return NULL;
}

static void test_lookups_removals_and_evictions_may_race(void **state)
{
	struct ws_fixture *f = *state;
	pthread_t t[6];

	fixture_close_cache(f);
	fixture_open_cache(f, 20);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(
			pthread_create(&t[i], NULL, i % 2 == 0 ? lookup_loop : churn_loop, f), 0);
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
}

static void test_links_are_shown_and_never_followed(void **state)
{
	struct ws_fixture *f = *state;
	struct inode *ino;

	assert_int_equal(symlinkat("/proc", f->files, "p"), 0);
	ino = fixture_lookup(f, "p");
	assert_true(S_ISLNK(ino->type));
	inode_unref(f->inodes, ino);
}

static void test_a_deleted_workspace_is_stale(void **state)
{
	struct ws_fixture *f = *state;
	struct inode_key key = f->root->key;
	struct inode *ino;

	assert_int_equal(ws_delete(f->registry, f->ws->id, NULL), 0);
	assert_int_equal(inode_from_key(f->inodes, &key, true, &ino), -ESTALE);
	inode_cache_drop_workspace(f->inodes, f->ws);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_key_finds_the_file_after_rename_and_restart),
		T(test_a_removed_file_is_stale_and_no_other),
		T(test_keys_of_another_file_system_or_workspace_are_stale),
		T(test_hard_links_are_one_inode),
		T(test_the_cache_keeps_to_its_descriptors),
		T(test_idle_writers_are_closed_and_executables_keep_none),
		T(test_the_sweep_lets_go_of_files_that_others_removed),
		T(test_many_may_sync_one_file),
		T(test_lookups_removals_and_evictions_may_race),
		T(test_links_are_shown_and_never_followed),
		T(test_a_deleted_workspace_is_stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
