/* SPDX-License-Identifier: MIT */
/* Attributes between NFS and stat(2), and what counts as another version of a file. */
#include "fuse-client/fuse_attr.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "tests/unit/unit.h"

static const struct fuse_attr_map mapped = { .is_on = true, .uid = 7, .gid = 8, .umask = 022 };
static const struct fuse_attr_map plain = { .is_on = false };

static const fattr3 sample = {
	.type = NF3REG,
	.mode = 0666,
	.nlink = 2,
	.uid = 1000,
	.gid = 1001,
	.size = 5ull << 32,
	.used = 4097,
	.rdev = { 3, 4 },
	.fileid = 99,
	.mtime = { 1, 2 },
	.ctime = { 3, 4 },
};

static void test_the_mounting_user_is_shown_as_owner(void **state)
{
	struct stat st;

	(void)state;
	fuse_attr_to_stat(&sample, &mapped, &st);
	assert_true(st.st_uid == 7 && st.st_gid == 8);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(st.st_size, 5ll << 32);
	assert_int_equal(st.st_blocks, 9);
	assert_int_equal(st.st_ino, 99);
	assert_true(st.st_mtim.tv_sec == 1 && st.st_mtim.tv_nsec == 2);
	fuse_attr_to_stat(&sample, &plain, &st);
	assert_true(st.st_uid == 1000 && st.st_gid == 1001);
	assert_int_equal(st.st_mode, S_IFREG | 0666);
	assert_int_equal(st.st_rdev, makedev(3, 4));
}

static void test_every_type_has_its_bits(void **state)
{
	static const mode_t want[] = { S_IFREG, S_IFDIR,  S_IFBLK, S_IFCHR,
				       S_IFLNK, S_IFSOCK, S_IFIFO };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_int_equal(fuse_attr_type((ftype3)(i + NF3REG)), want[i]);
	assert_int_equal(fuse_attr_type((ftype3)99), 0);
}

static void test_a_file_may_be_given_to_its_shown_owner_only(void **state)
{
	struct stat st = { .st_uid = 7, .st_gid = 8 };
	sattr3 s;

	(void)state;
	assert_int_equal(
		fuse_attr_from_setattr(&st, FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID, &mapped, &s), 0);
	assert_false(s.uid.set_it || s.gid.set_it);
	st.st_uid = 1000;
	assert_int_equal(fuse_attr_from_setattr(&st, FUSE_SET_ATTR_UID, &mapped, &s), -EPERM);
	assert_int_equal(fuse_attr_from_setattr(&st, FUSE_SET_ATTR_UID, &plain, &s), 0);
	assert_true(s.uid.set_it && s.uid.set_uid3_u.uid == 1000);
}

static void test_times_and_size_are_passed_on(void **state)
{
	const struct stat st = { .st_mode = S_IFREG | 04755,
				 .st_size = 42,
				 .st_mtim = { .tv_sec = 5, .tv_nsec = 6 },
				 .st_atim = { .tv_sec = -1 } };
	sattr3 s;

	(void)state;
	assert_int_equal(fuse_attr_from_setattr(&st,
						FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_SIZE |
							FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME,
						&mapped, &s),
			 0);
	assert_int_equal(s.mode.set_mode3_u.mode, 04755);
	assert_int_equal(s.size.set_size3_u.size, 42);
	assert_int_equal(s.mtime.set_it, SET_TO_CLIENT_TIME);
	assert_true(s.mtime.set_mtime_u.mtime.seconds == 5 &&
		    s.mtime.set_mtime_u.mtime.nseconds == 6);
	assert_int_equal(s.atime.set_atime_u.atime.seconds, 0); /* NFS has no time before 1970 */
	assert_int_equal(fuse_attr_from_setattr(&st, FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW,
						&mapped, &s),
			 0);
	assert_int_equal(s.mtime.set_it, SET_TO_SERVER_TIME);
	assert_int_equal(s.atime.set_it, DONT_CHANGE);
}

static wcc_data change(const fattr3 *before, const fattr3 *after)
{
	wcc_data w = { .before.attributes_follow = TRUE, .after.attributes_follow = TRUE };

	w.before.pre_op_attr_u.attributes =
		(wcc_attr){ .size = before->size, .mtime = before->mtime, .ctime = before->ctime };
	w.after.post_op_attr_u.attributes = *after;
	return w;
}

static void test_a_version_follows_our_changes_and_no_others(void **state)
{
	fattr3 second = sample, third = sample;
	struct fuse_version v;
	wcc_data w;

	(void)state;
	second.mtime.nseconds = 100;
	third.ctime.nseconds = 200;
	fuse_version_of(&sample, &v);
	assert_true(fuse_version_is(&v, &sample));
	w = change(&sample, &second);
	fuse_version_follow(&v, &w);
	assert_true(fuse_version_is(&v, &second));
	/* Somebody else came between. */
	w = change(&third, &sample);
	fuse_version_follow(&v, &w);
	assert_false(fuse_version_is(&v, &sample));
	assert_false(v.is_known);
	/* And a server that does not tell. */
	fuse_version_of(&sample, &v);
	w.before.attributes_follow = FALSE;
	fuse_version_follow(&v, &w);
	assert_false(v.is_known);
}

static void test_each_part_of_a_version_counts(void **state)
{
	struct fuse_version v;
	fattr3 a;

	(void)state;
	fuse_version_of(&sample, &v);
	a = sample;
	a.size++;
	assert_false(fuse_version_is(&v, &a));
	a = sample;
	a.mtime.nseconds++;
	assert_false(fuse_version_is(&v, &a));
	a = sample;
	a.ctime.seconds++;
	assert_false(fuse_version_is(&v, &a));
}

static void test_our_own_errors_become_ones_that_programs_know(void **state)
{
	(void)state;
	assert_int_equal(fuse_attr_errno(0), 0);
	assert_int_equal(fuse_attr_errno(-ENOENT), ENOENT);
	assert_int_equal(fuse_attr_errno(-EBADMSG), ESTALE);
	assert_int_equal(fuse_attr_errno(-EPROTO), EIO);
	assert_int_equal(fuse_attr_errno(-ESHUTDOWN), ENOTCONN);
	assert_int_equal(fuse_attr_errno(-ETIMEDOUT), ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_mounting_user_is_shown_as_owner),
		cmocka_unit_test(test_every_type_has_its_bits),
		cmocka_unit_test(test_a_file_may_be_given_to_its_shown_owner_only),
		cmocka_unit_test(test_times_and_size_are_passed_on),
		cmocka_unit_test(test_a_version_follows_our_changes_and_no_others),
		cmocka_unit_test(test_each_part_of_a_version_counts),
		cmocka_unit_test(test_our_own_errors_become_ones_that_programs_know),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
