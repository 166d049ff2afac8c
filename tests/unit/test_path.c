/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>

#include "tests/unit/ws_fixture.h"

static void test_nothing_leads_out(void **state)
{
	struct ws_fixture *f = *state;
	static const struct {
		const char *link, *target; /* planted when link is not NULL */
		const char *path;
		int want;
	} cases[] = {
		{ NULL, NULL, "..", -EXDEV },
		{ NULL, NULL, "d/../..", -EXDEV },
		{ NULL, NULL, "/etc/passwd", -EXDEV },
		{ "abs", "/etc/passwd", "abs", -EXDEV },
		{ "up", "../../workspace.db", "up", -EXDEV },
		{ "updir", "../..", "updir/workspace.db", -EXDEV },
		{ "magic", "/proc/self/root", "magic/etc/passwd", -EXDEV },
		{ "loop", "loop", "loop", -ELOOP },
		{ NULL, NULL, "missing", -ENOENT },
	};

	assert_int_equal(mkdirat(f->files, "d", 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int fd;

		if (cases[i].link != NULL)
			assert_int_equal(symlinkat(cases[i].target, f->files, cases[i].link), 0);
		fd = path_open(f->ws->root_fd, cases[i].path, O_RDONLY, 0, 0);
		if (fd >= 0)
			fail_msg("%s was opened", cases[i].path);
		assert_int_equal(fd, cases[i].want);
	}
}

static void test_links_that_stay_inside_work(void **state)
{
	struct ws_fixture *f = *state;
	int fd;

	assert_int_equal(mkdirat(f->files, "d", 0755), 0);
	fixture_local_file(f, "d/x", "inside", 0644);
	assert_int_equal(symlinkat("d/../d/x", f->files, "in"), 0);
	fd = path_open(f->ws->root_fd, "in", O_RDONLY, 0, 0);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(path_open(f->ws->root_fd, "in", O_RDONLY, 0, PATH_NOFOLLOW_ALL), -ELOOP);
}

struct swapper {
	int dir;
	bool stop; /* atomic */
};

/* A directory and a link to the host's root take turns under one name. */
static void *swap_loop(void *arg)
{
	struct swapper *s = arg;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		(void)renameat2(s->dir, "a", s->dir, "b", RENAME_EXCHANGE);
	}
	return NULL;
}

static void test_a_swapped_directory_never_leads_out(void **state)
{
	struct ws_fixture *f = *state;
	struct swapper s = { .dir = f->files };
	pthread_t t;
	int inside = 0;

	assert_int_equal(mkdirat(f->files, "a", 0755), 0);
	fixture_local_file(f, "a/passwd", "mine", 0644);
	assert_int_equal(symlinkat("/etc", f->files, "b"), 0);
	assert_int_equal(pthread_create(&t, NULL, swap_loop, &s), 0);
	for (int i = 0; i < 20000; i++) {
		char text[8] = "";
		int fd = path_open(f->ws->root_fd, "a/passwd", O_RDONLY, 0, 0);

		if (fd < 0)
			continue;
		assert_true(read(fd, text, sizeof(text) - 1) >= 0);
		(void)close(fd);
		assert_string_equal(text, "mine");
		inside++;
	}
	__atomic_store_n(&s.stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	assert_true(inside > 0);
}

static void test_a_tree_of_any_depth_is_removed(void **state)
{
	struct ws_fixture *f = *state;
	int at, next;

	/* deeper than PATH_MAX and than the number of descriptors a process usually has */
	assert_int_equal(mkdirat(f->files, "deep", 0700), 0);
	at = openat(f->files, "deep", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(mkdirat(at, "dd", 0700), 0);
		next = openat(at, "dd", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	/* directories that their owner closed, links, a FIFO */
	assert_int_equal(mkdirat(f->files, "deep/shut", 0700), 0);
	fixture_local_file(f, "deep/shut/file", "x", 0);
	assert_int_equal(symlinkat("/etc", f->files, "deep/shut/link"), 0);
	assert_int_equal(mknodat(f->files, "deep/fifo", S_IFIFO | 0600, 0), 0);
	assert_int_equal(fchmodat(f->files, "deep/shut", 0, 0), 0);
	assert_int_equal(path_remove_tree(f->files, "deep", NULL), 0);
	assert_int_equal(faccessat(f->files, "deep", F_OK, AT_SYMLINK_NOFOLLOW), -1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	assert_int_equal(path_remove_tree(f->files, "deep", NULL), 0); /* absent is fine */
}

static void test_leftovers_of_an_interrupted_removal_go_too(void **state)
{
	struct ws_fixture *f = *state;

	assert_int_equal(mkdirat(f->files, "t", 0700), 0);
	assert_int_equal(mkdirat(f->files, "t/sub", 0700), 0);
	fixture_local_file(f, "t/sub/file", "x", 0600);
	assert_int_equal(mkdirat(f->files, ".removing-t.7", 0700), 0);
	fixture_local_file(f, ".removing-t.7/file", "x", 0600);
	assert_int_equal(path_remove_tree(f->files, "t", NULL), 0);
	assert_int_equal(faccessat(f->files, ".removing-t.7", F_OK, 0), -1);
	assert_int_equal(faccessat(f->files, ".removing-t.8", F_OK, 0), -1);
	assert_int_equal(faccessat(f->files, "t", F_OK, 0), -1);
}

static void test_names_are_checked(void **state)
{
	char longest[257];

	(void)state;
	memset(longest, 'n', sizeof(longest));
	assert_int_equal(path_name_check("", 0), -ENOENT);
	assert_int_equal(path_name_check(".", 1), -EEXIST);
	assert_int_equal(path_name_check("..", 2), -EEXIST);
	assert_int_equal(path_name_check("...", 3), 0);
	assert_int_equal(path_name_check("a/b", 3), -EINVAL);
	assert_int_equal(path_name_check("a\0b", 3), -EINVAL);
	assert_int_equal(path_name_check(longest, 255), 0);
	assert_int_equal(path_name_check(longest, 256), -ENAMETOOLONG);
	assert_int_equal(path_name_check("\xff\x80", 2), 0);
}

static void test_the_parent_of_what_was_moved_out_is_stale(void **state)
{
	struct ws_fixture *f = *state;
	struct workspace *ws = f->ws;
	char outside[80];
	int fd, up;
	struct stat st;

	assert_int_equal(mkdirat(f->files, "p", 0755), 0);
	assert_int_equal(mkdirat(f->files, "p/q", 0755), 0);
	fd = openat(f->files, "p/q", O_PATH | O_DIRECTORY);
	up = path_open_parent(fd, ws->root_ino, ws->root_dev_major, ws->root_dev_minor);
	assert_true(up >= 0);
	assert_int_equal(fstat(up, &st), 0);
	(void)close(up);
	(void)snprintf(outside, sizeof(outside), "%s/moved", f->dir);
	assert_int_equal(renameat(f->files, "p", AT_FDCWD, outside), 0);
	assert_int_equal(path_open_parent(fd, ws->root_ino, ws->root_dev_major, ws->root_dev_minor),
			 -ESTALE);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_leads_out, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_links_that_stay_inside_work, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_swapped_directory_never_leads_out,
						fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_a_tree_of_any_depth_is_removed, fixture_setup,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(test_leftovers_of_an_interrupted_removal_go_too,
						fixture_setup, fixture_teardown),
		cmocka_unit_test(test_names_are_checked),
		cmocka_unit_test_setup_teardown(test_the_parent_of_what_was_moved_out_is_stale,
						fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
