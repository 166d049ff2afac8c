/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "tests/unit/ws_fixture.h"

static mode_t mode_of(struct ws_fixture *f, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(f->files, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static int create(struct ws_fixture *f, const char *name, enum fileops_create_how how, mode_t mode,
		  const char *verf)
{
	struct fileops_attr a = { .set = SET_MODE, .mode = mode };
	struct inode *ino;
	int rc = fileops_create(&f->owner, f->root, name, how, &a, (const uint8_t *)verf, &ino);

	if (rc == 0)
		inode_unref(f->inodes, ino);
	return rc;
}

static void test_modes_are_as_asked_whatever_the_umask(void **state)
{
	static const mode_t modes[] = { 0, 0200, 0444, 0644, 0755, 01777, 04755, 02755 };
	struct ws_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "m%o", modes[i]);
		assert_int_equal(create(f, name, CREATE_GUARDED, modes[i], NULL), 0);
		assert_int_equal(mode_of(f, name), modes[i]);
	}
}

static void test_guarded_and_unchecked(void **state)
{
	struct ws_fixture *f = *state;
	struct fileops_attr cut = { .set = SET_SIZE, .size = 0 };
	struct inode *ino;
	struct stat st;

	fixture_local_file(f, "a", "text", 0644);
	assert_int_equal(mkdirat(f->files, "d", 0755), 0);
	assert_int_equal(create(f, "a", CREATE_GUARDED, 0644, NULL), -EEXIST);
	assert_int_equal(create(f, "a", CREATE_UNCHECKED, 0600, NULL), 0);
	assert_int_equal(mode_of(f, "a"), 0644); /* an existing file keeps its mode */
	assert_int_equal(create(f, "d", CREATE_UNCHECKED, 0600, NULL), -EEXIST);
	assert_int_equal(
		fileops_create(&f->owner, f->root, "a", CREATE_UNCHECKED, &cut, NULL, &ino), 0);
	inode_unref(f->inodes, ino);
	assert_int_equal(fstatat(f->files, "a", &st, 0), 0);
	assert_int_equal(st.st_size, 0);
}

static void test_the_exclusive_verifier_is_kept_whole(void **state)
{
	static const struct {
		const char *verf, *other;
	} cases[] = {
		{ "\0\0\0\0\0\0\0\0", "\0\0\0\0\0\0\0\1" },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff", "\x7f\xff\xff\xff\xff\xff\xff\xff" },
		{ "\x80\0\0\0\0\0\0\0", "\0\0\0\0\x80\0\0\0" },
		{ "abcdefgh", "abcdefgi" },
		{ "abcdefgh", "\xe1"
			      "bcdefgh" },
	};
	struct ws_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "v%zu", i);
		assert_int_equal(create(f, name, CREATE_EXCLUSIVE, 0, cases[i].verf), 0);
		assert_int_equal(create(f, name, CREATE_EXCLUSIVE, 0, cases[i].verf), 0);
		assert_int_equal(create(f, name, CREATE_EXCLUSIVE, 0, cases[i].other), -EEXIST);
		fixture_close_cache(f); /* also after a restart */
		fixture_open_cache(f, 1000);
		assert_int_equal(create(f, name, CREATE_EXCLUSIVE, 0, cases[i].verf), 0);
	}
}

static void test_setattr_does_all_or_nothing(void **state)
{
	struct ws_fixture *f = *state;
	struct fileops_attr a = { .set = SET_SIZE | SET_MODE, .size = 1, .mode = 0600 };
	struct fileops_attr chown_other = { .set = SET_SIZE | SET_UID, .size = 1, .uid = 4711 };
	struct fileops_attr chown_owner = { .set = SET_UID | SET_GID, .uid = 1000, .gid = 1000 };
	struct inode *ino;
	struct stat st;

	fixture_local_file(f, "a", "text", 06777);
	ino = fixture_lookup(f, "a");
	/* "other" may cut the file, but not change its mode: neither happens */
	assert_int_equal(fileops_setattr(&f->other, ino, &a, NULL), -EPERM);
	assert_int_equal(fileops_setattr(&f->owner, ino, &chown_other, NULL), -EPERM);
	assert_int_equal(fstatat(f->files, "a", &st, 0), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(st.st_mode & 07777, 06777);
	/* to the owner that is shown: fine, and clears set-id bits as any chown does */
	assert_int_equal(fileops_setattr(&f->owner, ino, &chown_owner, NULL), 0);
	assert_int_equal(mode_of(f, "a"), 0777);
	assert_int_equal(fileops_setattr(&f->owner, ino, &a, NULL), 0);
	assert_int_equal(mode_of(f, "a"), 0600);
	inode_unref(f->inodes, ino);
}

static void test_sizes_at_the_edge(void **state)
{
	static const struct {
		uint64_t size;
		int want;
	} cases[] = {
		{ 0, 0 },
		{ 5ull << 30, 0 },
		{ (uint64_t)INT64_MAX + 1, -EFBIG },
		{ UINT64_MAX, -EFBIG },
	};
	struct ws_fixture *f = *state;
	struct inode *ino;

	fixture_local_file(f, "a", "text", 0644);
	ino = fixture_lookup(f, "a");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fileops_attr a = { .set = SET_SIZE, .size = cases[i].size };

		assert_int_equal(fileops_setattr(&f->owner, ino, &a, NULL), cases[i].want);
	}
	assert_int_equal(fileops_write(&f->owner, ino, INT64_MAX, "x", 1, FILEOPS_UNSTABLE),
			 -EFBIG);
	assert_int_equal(fileops_write(&f->owner, ino, UINT64_MAX, "x", 1, FILEOPS_UNSTABLE),
			 -EFBIG);
	inode_unref(f->inodes, ino);
}

static void test_a_wrong_guard_changes_nothing(void **state)
{
	struct ws_fixture *f = *state;
	struct fileops_attr a = { .set = SET_MODE, .mode = 0600 };
	struct timespec guard;
	struct inode *ino;
	struct statx stx;

	fixture_local_file(f, "a", "text", 0644);
	ino = fixture_lookup(f, "a");
	assert_int_equal(fileops_stat(&f->owner, ino, &stx), 0);
	guard = (struct timespec){ .tv_sec = stx.stx_ctime.tv_sec,
				   .tv_nsec = stx.stx_ctime.tv_nsec + 1 };
	assert_int_equal(fileops_setattr(&f->owner, ino, &a, &guard), -EBADE);
	assert_int_equal(mode_of(f, "a"), 0644);
	guard.tv_nsec--;
	assert_int_equal(fileops_setattr(&f->owner, ino, &a, &guard), 0);
	assert_int_equal(mode_of(f, "a"), 0600);
	inode_unref(f->inodes, ino);
}

static void test_reads_at_and_past_the_end(void **state)
{
	static const struct {
		uint64_t offset;
		size_t len;
		ssize_t want;
	} cases[] = {
		{ 0, 4, 4 },           { 0, 100, 4 },         { 3, 2, 1 }, { 4, 1, 0 },
		{ 1ull << 40, 10, 0 }, { UINT64_MAX, 10, 0 }, { 0, 0, 0 }, { INT64_MAX, 10, 0 },
	};
	struct ws_fixture *f = *state;
	struct fileops now = f->owner;
	struct inode *ino;
	struct statx stx;
	char text[128];

	now.may_block = false;
	fixture_local_file(f, "a", "text", 0644);
	ino = fixture_lookup(f, "a");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(
			fileops_read(&f->owner, ino, cases[i].offset, text, cases[i].len, &stx),
			cases[i].want);
		assert_int_equal(fileops_read(&now, ino, cases[i].offset, text, cases[i].len, &stx),
				 cases[i].want);
	}
	assert_int_equal(fileops_read(&f->owner, f->root, 0, text, 1, &stx), -EISDIR);
	inode_unref(f->inodes, ino);
}

static void test_other_is_held_to_the_last_three_bits(void **state)
{
	struct ws_fixture *f = *state;
	struct fileops_attr none = { 0 };
	struct inode *ino, *dir, *made;
	struct statx stx;
	bool eof;
	char c;

	fixture_local_file(f, "private", "x", 0640);
	fixture_local_file(f, "open", "x", 0646);
	fixture_local_file(f, "run", "x", 0711);
	ino = fixture_lookup(f, "private");
	assert_int_equal(fileops_read(&f->other, ino, 0, &c, 1, &stx), -EACCES);
	assert_int_equal(fileops_write(&f->other, ino, 0, "y", 1, FILEOPS_UNSTABLE), -EACCES);
	inode_unref(f->inodes, ino);
	ino = fixture_lookup(f, "open");
	assert_int_equal(fileops_read(&f->other, ino, 0, &c, 1, &stx), 1);
	assert_int_equal(fileops_write(&f->other, ino, 0, "y", 1, FILEOPS_UNSTABLE), 1);
	inode_unref(f->inodes, ino);
	ino = fixture_lookup(f, "run"); /* who may execute may have it read to execute it */
	assert_int_equal(fileops_read(&f->other, ino, 0, &c, 1, &stx), 1);
	inode_unref(f->inodes, ino);

	assert_int_equal(mkdirat(f->files, "shut", 0700), 0);
	assert_int_equal(mkdirat(f->files, "tmp", 0777), 0);
	assert_int_equal(fchmodat(f->files, "tmp", 01777, 0), 0);
	fixture_local_file(f, "tmp/a", "x", 0666);
	dir = fixture_lookup(f, "shut");
	assert_int_equal(fileops_lookup(&f->other, dir, "x", &made), -EACCES);
	assert_int_equal(fileops_create(&f->other, dir, "x", CREATE_GUARDED, &none, NULL, &made),
			 -EACCES);
	assert_int_equal(fileops_readdir(&f->other, dir, 0, NULL, NULL, &eof), -EACCES);
	inode_unref(f->inodes, dir);
	dir = fixture_lookup(f, "tmp"); /* sticky: everything here is the owner's */
	assert_int_equal(fileops_create(&f->other, dir, "x", CREATE_GUARDED, &none, NULL, &made),
			 0);
	inode_unref(f->inodes, made);
	assert_int_equal(fileops_remove(&f->other, dir, "a"), -EACCES);
	assert_int_equal(fileops_rename(&f->other, dir, "a", dir, "b"), -EACCES);
	assert_int_equal(fileops_remove(&f->owner, dir, "a"), 0);
	inode_unref(f->inodes, dir);
}

static void test_removing_with_the_wrong_call(void **state)
{
	struct ws_fixture *f = *state;

	fixture_local_file(f, "file", "x", 0644);
	assert_int_equal(mkdirat(f->files, "full", 0755), 0);
	fixture_local_file(f, "full/file", "x", 0644);
	assert_int_equal(symlinkat("full", f->files, "link"), 0);
	assert_int_equal(fileops_remove(&f->owner, f->root, "full"), -EISDIR);
	assert_int_equal(fileops_rmdir(&f->owner, f->root, "full"), -ENOTEMPTY);
	assert_int_equal(fileops_rmdir(&f->owner, f->root, "file"), -ENOTDIR);
	assert_int_equal(fileops_rmdir(&f->owner, f->root, "link"), -ENOTDIR);
	assert_int_equal(fileops_remove(&f->owner, f->root, "link"), 0);
	assert_int_equal(fileops_remove(&f->owner, f->root, "missing"), -ENOENT);
	assert_int_equal(faccessat(f->files, "full/file", F_OK, 0), 0);
}

static void test_rename_says_what_the_rfc_says(void **state)
{
	static const struct {
		const char *from, *to;
		int want;
	} cases[] = {
		{ "file", "dir", -EEXIST },    { "dir", "file", -EEXIST },
		{ "dir", "full", -ENOTEMPTY }, { "dir", "dir", 0 },
		{ "file", "link", 0 },         { "missing", "x", -ENOENT },
		{ "full", "dir", 0 },          { "one", "two", 0 },
		{ "two", "new", 0 },
	};
	struct ws_fixture *f = *state;
	struct inode *dir;

	fixture_local_file(f, "file", "x", 0644);
	fixture_local_file(f, "one", "x", 0644);
	assert_int_equal(linkat(f->files, "one", f->files, "two", 0), 0);
	assert_int_equal(linkat(f->files, "file", f->files, "link", 0), 0);
	assert_int_equal(mkdirat(f->files, "dir", 0755), 0);
	assert_int_equal(mkdirat(f->files, "full", 0755), 0);
	fixture_local_file(f, "full/file", "x", 0644);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int rc = fileops_rename(&f->owner, f->root, cases[i].from, f->root, cases[i].to);

		if (rc != cases[i].want)
			fail_msg("%s to %s: %d", cases[i].from, cases[i].to, rc);
	}
	/* two links of one file: nothing happens, both stay */
	assert_int_equal(faccessat(f->files, "file", F_OK, 0), 0);
	assert_int_equal(faccessat(f->files, "link", F_OK, 0), 0);
	dir = fixture_lookup(f, "dir"); /* it was "full" */
	assert_int_equal(fileops_rename(&f->owner, f->root, "dir", dir, "below"), -EINVAL);
	inode_unref(f->inodes, dir);
}

struct names {
	char text[4096];
	size_t stop_after;
	uint64_t last_cookie;
	size_t n;
};

static bool take_name(void *arg, const struct fileops_dirent *e)
{
	struct names *n = arg;

	if (n->n == n->stop_after)
		return false;
	n->n++;
	n->last_cookie = e->cookie;
	(void)strncat(n->text, e->name, sizeof(n->text) - strlen(n->text) - 2);
	(void)strcat(n->text, " ");
	return true;
}

static void test_listing_goes_on_while_entries_go(void **state)
{
	struct ws_fixture *f = *state;
	struct names got = { .stop_after = 10 };
	uint64_t cookie = 0;
	bool eof = false;
	char name[16];

	for (int i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof(name), "f%03d", i);
		fixture_local_file(f, name, "", 0644);
	}
	/* ten at a time, removing what was seen: no name is missed */
	while (!eof) {
		char *save = NULL;

		got.n = 0;
		got.text[0] = '\0';
		assert_int_equal(fileops_readdir(&f->owner, f->root, cookie, take_name, &got, &eof),
				 0);
		cookie = got.last_cookie;
		for (char *w = strtok_r(got.text, " ", &save); w != NULL;
		     w = strtok_r(NULL, " ", &save))
			if (w[0] == 'f')
				assert_int_equal(unlinkat(f->files, w, 0), 0);
	}
	got = (struct names){ .stop_after = 1000 };
	assert_int_equal(fileops_readdir(&f->owner, f->root, 0, take_name, &got, &eof), 0);
	assert_true(eof);
	assert_int_equal(got.n, 2); /* only "." and ".." are left */
}

static void test_links_and_nodes(void **state)
{
	struct ws_fixture *f = *state;
	struct fileops_attr mode = { .set = SET_MODE, .mode = 0640 };
	struct fileops_attr open_mode = { .set = SET_MODE, .mode = 0755 };
	struct inode *ino, *dir;
	char text[64];

	assert_int_equal(fileops_symlink(&f->owner, f->root, "l", "../../etc/passwd", &mode, &ino),
			 0);
	assert_int_equal(fileops_readlink(&f->owner, ino, text, sizeof(text)), 16);
	assert_memory_equal(text, "../../etc/passwd", 16);
	assert_int_equal(fileops_setattr(&f->owner, ino, &mode, NULL),
			 -EINVAL); /* links have none */
	inode_unref(f->inodes, ino);
	assert_int_equal(fileops_mknod(&f->owner, f->root, "fifo", S_IFIFO, &mode, &ino), 0);
	assert_int_equal(mode_of(f, "fifo"), 0640);
	assert_int_equal(fileops_readlink(&f->owner, ino, text, sizeof(text)), -EINVAL);
	assert_int_equal(fileops_write(&f->owner, ino, 0, "x", 1, FILEOPS_UNSTABLE),
			 -EINVAL); /* never opened */
	inode_unref(f->inodes, ino);
	assert_int_equal(fileops_mknod(&f->owner, f->root, "dev", S_IFCHR, &mode, &ino), -EPERM);
	assert_int_equal(fileops_mkdir(&f->owner, f->root, "d", &open_mode, &dir), 0);
	assert_int_equal(fileops_mkdir(&f->owner, f->root, "d", &mode, &ino), -EEXIST);
	assert_int_equal(fileops_link(&f->owner, dir, f->root, "hard"), -EISDIR);
	assert_int_equal(unlinkat(f->files, "d", AT_REMOVEDIR), 0);
	assert_int_equal(fileops_mkdir(&f->owner, dir, "x", &mode, &ino), -ESTALE);
	inode_unref(f->inodes, dir);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		T(test_modes_are_as_asked_whatever_the_umask),
		T(test_guarded_and_unchecked),
		T(test_the_exclusive_verifier_is_kept_whole),
		T(test_setattr_does_all_or_nothing),
		T(test_sizes_at_the_edge),
		T(test_a_wrong_guard_changes_nothing),
		T(test_reads_at_and_past_the_end),
		T(test_other_is_held_to_the_last_three_bits),
		T(test_removing_with_the_wrong_call),
		T(test_rename_says_what_the_rfc_says),
		T(test_listing_goes_on_while_entries_go),
		T(test_links_and_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
