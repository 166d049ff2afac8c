/* SPDX-License-Identifier: MIT */
/* Wrappers over system calls: whole transfers, replacement of files, descriptors, numbers. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit.h"

/* Each test has a folder of its own; what is left in it goes with it. */
static char folder[] = "/tmp/test_io.XXXXXX";
static int dirfd_;

static int make_folder(void **state)
{
	(void)state;
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	if (mkdtemp(folder) == NULL)
		return -1;
	dirfd_ = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd_ < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
	static const char *const left[] = { "f", "link", "a/b/c", "a/b", "a" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(left); i++) {
		if (unlinkat(dirfd_, left[i], 0) < 0)
			(void)unlinkat(dirfd_, left[i], AT_REMOVEDIR);
	}
	close(dirfd_);
	return rmdir(
		folder); /* fails, and so fails the test, when a temporary file was left behind */
}

static void test_full_transfers_go_on_until_the_end(void **state)
{
	char in[1000], out[2000];
	int p[2];

	(void)state;
	memset(in, 'q', sizeof(in));
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(io_write_full(p[1], in, sizeof(in)), sizeof(in));
	assert_int_equal(io_write_full(p[1], in, 10), 10);
	close(p[1]);
	assert_int_equal(io_read_full(p[0], out, 3), 3);
	assert_int_equal(io_read_full(p[0], out, sizeof(out)), sizeof(in) + 7);
	assert_int_equal(io_read_full(p[0], out, sizeof(out)), 0);
	close(p[0]);
	assert_int_equal(io_read_full(-1, out, 1), -EBADF);
	assert_int_equal(io_write_full(-1, out, 1), -EBADF);
}

static void test_positioned_transfers_leave_the_offset_alone(void **state)
{
	auto_close int fd = openat(dirfd_, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char out[8];

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(io_pwrite_full(fd, "hello", 5, 3), 5);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	assert_int_equal(io_pread_full(fd, out, sizeof(out), 2), 6);
	assert_memory_equal(out, "\0hello", 6);
	assert_int_equal(io_pread_full(fd, out, sizeof(out), 100), 0);
}

static void test_read_file_bounds_and_ends_what_it_reads(void **state)
{
	auto_free char *data = NULL;
	struct err e = { 0 };
	size_t n;

	(void)state;
	assert_int_equal(io_write_file_atomic(dirfd_, "f", "12345", 5, 0600, &e), 0);
	assert_int_equal(io_read_file(dirfd_, "f", 4, &data, &n, &e), -EFBIG);
	assert_null(data);
	assert_int_equal(io_read_file(dirfd_, "f", 5, &data, &n, &e), 0);
	assert_int_equal(n, 5);
	assert_string_equal(data, "12345");
}

static void test_read_file_reads_files_that_tell_no_size(void **state)
{
	auto_free char *data = NULL;
	size_t n;

	(void)state;
	assert_int_equal(io_read_file(AT_FDCWD, "/proc/self/stat", 4096, &data, &n, NULL), 0);
	assert_true(n > 0);
	assert_int_equal(strlen(data), n);
	free(take_ptr(data));
	assert_int_equal(io_read_file(AT_FDCWD, "/proc/self/stat", 4, &data, &n, NULL), -EFBIG);
}

static void test_errors_name_the_file_but_not_its_folder(void **state)
{
	char path[PATH_MAX];
	struct err e = { 0 };
	char *data;
	size_t n;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/missing", folder);
	assert_int_equal(io_read_file(AT_FDCWD, path, 10, &data, &n, &e), -ENOENT);
	assert_string_equal(e.msg, "open 'missing': No such file or directory");
}

static void test_write_file_replaces_whole_and_leaves_nothing_else(void **state)
{
	auto_free char *data = NULL;
	char path[PATH_MAX];
	struct stat st;
	size_t n;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/f", folder);
	assert_int_equal(io_write_file_atomic(dirfd_, "f", "old and long", 12, 0600, NULL), 0);
	assert_int_equal(io_write_file_atomic(AT_FDCWD, path, "new", 3, 0600, NULL), 0);
	assert_int_equal(io_read_file(dirfd_, "f", 100, &data, &n, NULL), 0);
	assert_string_equal(data, "new");
	assert_int_equal(fstatat(dirfd_, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(io_write_file_atomic(dirfd_, "no/f", "x", 1, 0600, NULL), -ENOENT);
	/* A folder of that name cannot be replaced: the temporary file must go (see remove_folder).
	 */
	assert_int_equal(mkdirat(dirfd_, "a", 0700), 0);
	assert_int_equal(io_write_file_atomic(dirfd_, "a", "x", 1, 0600, NULL), -EISDIR);
}

static void test_mkdir_p_makes_what_is_missing(void **state)
{
	char path[PATH_MAX];
	struct err e = { 0 };
	struct stat st;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s//a/b/c/", folder);
	assert_int_equal(io_mkdir_p(path, 0700, &e), 0);
	assert_int_equal(io_mkdir_p(path, 0755, &e), 0);
	assert_int_equal(fstatat(dirfd_, "a/b/c", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(io_write_file_atomic(dirfd_, "f", "", 0, 0600, &e), 0);
	(void)snprintf(path, sizeof(path), "%s/f/x", folder);
	assert_int_equal(io_mkdir_p(path, 0700, &e), -ENOTDIR);
	assert_int_equal(io_mkdir_p("/", 0700, &e), 0);
}

static void test_nonblock_goes_on_and_off(void **state)
{
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(io_set_nonblock(p[0], true), 0);
	assert_true(fcntl(p[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(io_set_nonblock(p[0], false), 0);
	assert_false(fcntl(p[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(io_set_nonblock(-1, true), -EBADF);
	close(p[0]);
	close(p[1]);
}

static int n_open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_descriptors_arrive_close_on_exec_and_surplus_is_closed(void **state)
{
	int sv[2], got[IO_FDS_MAX], p[2];
	int send[3];
	char text[8];
	size_t n;
	int before;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	send[0] = send[1] = send[2] = p[1];
	before = n_open_fds();

	assert_int_equal(io_send_fds(sv[0], "hey", 3, send, 3), 3);
	n = 1;
	assert_int_equal(io_recv_fds(sv[1], text, sizeof(text), got, &n), 3);
	assert_int_equal(n, 1);
	assert_int_equal(n_open_fds(), before + 1);
	assert_true(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(got[0], "z", 1), 1);
	close(got[0]);

	assert_int_equal(io_send_fds(sv[0], "0123456789", 10, send, 2), 10);
	n = IO_FDS_MAX;
	assert_int_equal(io_recv_fds(sv[1], text, sizeof(text), got, &n), -EMSGSIZE);
	assert_int_equal(n, 0);
	assert_int_equal(n_open_fds(), before);

	close(sv[0]);
	n = IO_FDS_MAX;
	assert_int_equal(io_recv_fds(sv[1], text, sizeof(text), got, &n), 0);
	assert_int_equal(io_send_fds(sv[1], "x", 1, NULL, 0), -EPIPE); /* and no SIGPIPE */
	close(sv[1]);
	close(p[0]);
	close(p[1]);
}

static void test_numbers_are_the_whole_string_and_in_range(void **state)
{
	static const struct {
		const char *s;
		uint64_t min, max;
		int rc;
		uint64_t want;
	} cases[] = {
		{ "0", 0, 10, 0, 0 },
		{ "10", 0, 10, 0, 10 },
		{ "007", 0, 10, 0, 7 },
		{ "11", 0, 10, -ERANGE, 0 },
		{ "1", 2, 10, -ERANGE, 0 },
		{ "18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX },
		{ "18446744073709551616", 0, UINT64_MAX, -ERANGE, 0 },
		{ "99999999999999999999999999", 0, UINT64_MAX, -ERANGE, 0 },
		{ "9999999999999999999999999x", 0, UINT64_MAX, -EINVAL, 0 },
		{ "", 0, 10, -EINVAL, 0 },
		{ " 1", 0, 10, -EINVAL, 0 },
		{ "1 ", 0, 10, -EINVAL, 0 },
		{ "+1", 0, 10, -EINVAL, 0 },
		{ "-1", 0, UINT64_MAX, -EINVAL, 0 },
		{ "0x1", 0, 10, -EINVAL, 0 },
		{ "1e1", 0, 10, -EINVAL, 0 },
		{ "\xb2", 0, 10, -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t got = 12345;

		assert_int_equal(io_parse_u64(cases[i].s, cases[i].min, cases[i].max, &got),
				 cases[i].rc);
		assert_true(got == (cases[i].rc == 0 ? cases[i].want : 12345));
	}
}

static void test_random_bytes_differ(void **state)
{
	uint8_t a[32] = { 0 }, b[32] = { 0 };

	(void)state;
	io_random(a, sizeof(a));
	io_random(b, sizeof(b));
	assert_memory_not_equal(a, b, sizeof(a));
}

#define IN_FOLDER(fn) cmocka_unit_test_setup_teardown(fn, make_folder, remove_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_full_transfers_go_on_until_the_end),
		IN_FOLDER(test_positioned_transfers_leave_the_offset_alone),
		IN_FOLDER(test_read_file_bounds_and_ends_what_it_reads),
		cmocka_unit_test(test_read_file_reads_files_that_tell_no_size),
		IN_FOLDER(test_errors_name_the_file_but_not_its_folder),
		IN_FOLDER(test_write_file_replaces_whole_and_leaves_nothing_else),
		IN_FOLDER(test_mkdir_p_makes_what_is_missing),
		cmocka_unit_test(test_nonblock_goes_on_and_off),
		cmocka_unit_test(test_descriptors_arrive_close_on_exec_and_surplus_is_closed),
		cmocka_unit_test(test_numbers_are_the_whole_string_and_in_range),
		cmocka_unit_test(test_random_bytes_differ),
	};

	return cmocka_run_group_tests_name("io", tests, NULL, NULL);
}
