/* SPDX-License-Identifier: MIT */
/*
 * LD_PRELOAD library that makes a disk fail its flushes on command: while the first byte of the
 * file named by FAILSYNC_FLAG is not 0, fsync(2) and its relatives fail: with 1 by EIO, with 2 they
 * first wait until it is another number, and any other number is the errno.  The file is mapped
 * before main() runs, so that it works behind a seccomp filter.  Built by the tests that use it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAIT 2

static const volatile char *flag = "";

__attribute__((constructor)) static void map_flag(void)
{
	const char *path = getenv("FAILSYNC_FLAG");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED)
		flag = p;
	close(fd);
}

static int fail(void)
{
	while (*flag == WAIT)
		sched_yield();
	errno = *flag > WAIT ? *flag : EIO;
	return -1;
}

int fsync(int fd)
{
	return *flag ? fail() : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return *flag ? fail() : (int)syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
	return *flag ? fail() : (int)syscall(SYS_syncfs, fd);
}

int sync_file_range(int fd, off_t off, off_t n, unsigned int flags)
{
	return *flag ? fail() : (int)syscall(SYS_sync_file_range, fd, off, n, flags);
}
