/* SPDX-License-Identifier: MIT */
/* The table of failures: the numbers that each door promised. */
#include "proto/status.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit.h"

static void test_each_errno_has_the_status_of_the_rfc_and_the_contract(void **state)
{
	static const struct {
		int err;
		nfsstat3 nfs;
		mountstat3 mount;
		int http, api_code;
	} cases[] = {
		{ EPERM, NFS3ERR_PERM, MNT3ERR_PERM, 403, 3003 },
		{ ENOENT, NFS3ERR_NOENT, MNT3ERR_NOENT, 404, 3001 },
		{ EIO, NFS3ERR_IO, MNT3ERR_IO, 500, 1003 },
		{ ENXIO, NFS3ERR_NXIO, MNT3ERR_IO, 400, 3004 },
		{ EACCES, NFS3ERR_ACCES, MNT3ERR_ACCES, 403, 3003 },
		{ EEXIST, NFS3ERR_EXIST, MNT3ERR_SERVERFAULT, 409, 3002 },
		{ EXDEV, NFS3ERR_XDEV, MNT3ERR_ACCES, 403, 7003 },
		{ ENODEV, NFS3ERR_NODEV, MNT3ERR_IO, 400, 3004 },
		{ ENOTDIR, NFS3ERR_NOTDIR, MNT3ERR_NOTDIR, 400, 3005 },
		{ EISDIR, NFS3ERR_ISDIR, MNT3ERR_SERVERFAULT, 400, 3005 },
		{ EINVAL, NFS3ERR_INVAL, MNT3ERR_INVAL, 400, 3004 },
		{ EFBIG, NFS3ERR_FBIG, MNT3ERR_SERVERFAULT, 413, 1006 },
		{ ENOSPC, NFS3ERR_NOSPC, MNT3ERR_IO, 507, 3007 },
		{ EROFS, NFS3ERR_ROFS, MNT3ERR_ACCES, 403, 3003 },
		{ EMLINK, NFS3ERR_MLINK, MNT3ERR_SERVERFAULT, 507, 3007 },
		{ ENAMETOOLONG, NFS3ERR_NAMETOOLONG, MNT3ERR_NAMETOOLONG, 400, 3004 },
		{ ENOTEMPTY, NFS3ERR_NOTEMPTY, MNT3ERR_SERVERFAULT, 400, 3006 },
		{ EDQUOT, NFS3ERR_DQUOT, MNT3ERR_IO, 507, 3007 },
		{ ESTALE, NFS3ERR_STALE, MNT3ERR_NOENT, 404, 3001 },
		{ EBADMSG, NFS3ERR_BADHANDLE, MNT3ERR_SERVERFAULT, 500, 1003 },
		{ EBADE, NFS3ERR_NOT_SYNC, MNT3ERR_SERVERFAULT, 412, 3008 },
		{ EBADR, NFS3ERR_BAD_COOKIE, MNT3ERR_SERVERFAULT, 400, 1002 },
		{ EOPNOTSUPP, NFS3ERR_NOTSUPP, MNT3ERR_NOTSUPP, 501, 1004 },
		{ ENOTSUP, NFS3ERR_NOTSUPP, MNT3ERR_NOTSUPP, 501, 1004 },
		{ EMSGSIZE, NFS3ERR_TOOSMALL, MNT3ERR_SERVERFAULT, 413, 1006 },
		{ EBADRQC, NFS3ERR_BADTYPE, MNT3ERR_NOTSUPP, 400, 1002 },
		{ EINPROGRESS, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT, 429, 1008 },
		{ EPROTO, NFS3ERR_SERVERFAULT, MNT3ERR_SERVERFAULT, 500, 1003 },
		{ ENOMEM, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT, 500, 1003 },
		{ EMFILE, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT, 500, 1003 },
		{ ENFILE, NFS3ERR_JUKEBOX, MNT3ERR_SERVERFAULT, 500, 1003 },
		{ ELOOP, NFS3ERR_INVAL, MNT3ERR_INVAL, 400, 3004 },
		{ EBUSY, NFS3ERR_ACCES, MNT3ERR_ACCES, 403, 3003 },
		{ ETXTBSY, NFS3ERR_ACCES, MNT3ERR_ACCES, 403, 3003 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct status_row *row = status_of(-cases[i].err);

		assert_int_equal(row->err, cases[i].err);
		assert_int_equal(row->nfs, cases[i].nfs);
		assert_int_equal(row->mount, cases[i].mount);
		assert_int_equal(row->http, cases[i].http);
		assert_int_equal(row->api_code, cases[i].api_code);
		assert_int_equal(status_nfs(-cases[i].err), cases[i].nfs);
		assert_int_equal(status_mount(-cases[i].err), cases[i].mount);
	}
}

static void test_success_is_success_and_unknown_errors_are_io(void **state)
{
	static const int unknown[] = { -100000, INT_MIN, -134, -EDEADLK, 1, INT_MAX };

	(void)state;
	assert_int_equal(status_nfs(0), NFS3_OK);
	assert_int_equal(status_mount(0), MNT3_OK);
	assert_int_equal(status_errno(NFS3_OK), 0);
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
		assert_int_equal(status_of(unknown[i])->err, EIO);
}

/* Every status of RFC 1813 section 2.6, each with an errno that leads back to it. */
static void test_every_nfs_status_goes_to_an_errno_and_back(void **state)
{
	static const int numbers[] = { 0,     1,     2,     5,     6,    13,    17,    18,
				       19,    20,    21,    22,    27,   28,    30,    31,
				       63,    66,    69,    70,    71,   10001, 10002, 10003,
				       10004, 10005, 10006, 10007, 10008 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		nfsstat3 st = (nfsstat3)numbers[i];

		assert_int_equal(status_nfs(status_errno(st)), st);
		assert_int_equal(strncmp(status_nfs_name(st), "NFS3", 4), 0);
		assert_string_not_equal(status_nfs_name(st), "NFS3ERR_?");
	}
}

static void test_names_are_those_of_the_rfc(void **state)
{
	(void)state;
	assert_string_equal(status_nfs_name(NFS3_OK), "NFS3_OK");
	assert_string_equal(status_nfs_name(NFS3ERR_NOENT), "NFS3ERR_NOENT");
	assert_string_equal(status_nfs_name(NFS3ERR_JUKEBOX), "NFS3ERR_JUKEBOX");
	assert_string_equal(status_nfs_name((nfsstat3)4), "NFS3ERR_?");
	assert_int_equal(status_errno((nfsstat3)4), -EIO);
}

/* Clients of the HTTP interface strip these beginnings to get at the subject. */
static void test_texts_keep_the_beginnings_that_clients_strip(void **state)
{
	(void)state;
	assert_string_equal(status_of(-ENOENT)->text, "File not found: %s");
	assert_string_equal(status_of(-EACCES)->text, "Permission denied: %s");
	assert_string_equal(status_of(-EXDEV)->text, "Path not allowed: %s");
	assert_string_equal(status_of(-EEXIST)->text, "File already exists: %s");
}

static void test_every_text_has_one_place_for_the_subject(void **state)
{
	(void)state;
	for (int e = 1; e < 4096; e++) {
		const char *text = status_of(-e)->text;
		const char *percent = strchr(text, '%');

		assert_non_null(percent);
		assert_int_equal(percent[1], 's');
		assert_null(strchr(percent + 1, '%'));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_errno_has_the_status_of_the_rfc_and_the_contract),
		cmocka_unit_test(test_success_is_success_and_unknown_errors_are_io),
		cmocka_unit_test(test_every_nfs_status_goes_to_an_errno_and_back),
		cmocka_unit_test(test_names_are_those_of_the_rfc),
		cmocka_unit_test(test_texts_keep_the_beginnings_that_clients_strip),
		cmocka_unit_test(test_every_text_has_one_place_for_the_subject),
	};

	return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
