/* SPDX-License-Identifier: MIT */
/*
 * What every caller of read(2) and its family would write again: the loop over short counts and
 * EINTR, the careful order of a replacement that survives a crash, and the control message that
 * carries descriptors.
 */
#include "base/io.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

ssize_t io_read_full(int fd, void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = read(fd, (char *)p + done, n - done);

		if (got == 0)
			break;
		if (got > 0)
			done += (size_t)got;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)done;
}

ssize_t io_write_full(int fd, const void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t put = write(fd, (const char *)p + done, n - done);

		if (put >= 0)
			done += (size_t)put;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)done;
}

ssize_t io_pread_full(int fd, void *p, size_t n, off_t off)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = pread(fd, (char *)p + done, n - done, off + (off_t)done);

		if (got == 0)
			break;
		if (got > 0)
			done += (size_t)got;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)done;
}

ssize_t io_pwrite_full(int fd, const void *p, size_t n, off_t off)
{
	size_t done = 0;

	while (done < n) {
		ssize_t put = pwrite(fd, (const char *)p + done, n - done, off + (off_t)done);

		if (put >= 0)
			done += (size_t)put;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)done;
}

/* Messages name the file, not its folder: a host path is not for everybody who may read an error.
 */
static const char *leaf_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

int io_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
		 struct err *err)
{
	auto_close int fd = -1;
	auto_free char *data = NULL;
	struct stat st;
	size_t cap;
	ssize_t n;

	fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "open '%s': %s", leaf_of(path), strerror(errno));
	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "stat '%s': %s", leaf_of(path), strerror(errno));
	if (st.st_size > 0 && (uint64_t)st.st_size > max)
		return err_set(err, -EFBIG, "'%s' is larger than %zu bytes", leaf_of(path), max);
	/* Files of /proc and /sys tell no size: for them the maximum must serve. */
	cap = st.st_size > 0 ? (size_t)st.st_size : max;
	if (cap > SIZE_MAX - 2)
		return err_set(err, -ENOMEM, "read '%s': out of memory", leaf_of(path));
	data = malloc(cap + 2); /* one byte to see that there is more, one for the NUL */
	if (data == NULL)
		return err_set(err, -ENOMEM, "read '%s': out of memory", leaf_of(path));
	n = io_read_full(fd, data, cap + 1);
	if (n < 0)
		return err_set(err, (int)n, "read '%s': %s", leaf_of(path), strerror((int)-n));
	if ((size_t)n > cap)
		return err_set(err, -EFBIG, "'%s' is larger than %zu bytes", leaf_of(path), cap);
	data[n] = '\0';
	*ret = take_ptr(data);
	*ret_len = (size_t)n;
	return 0;
}

static int fsync_folder_of(int dirfd, const char *path)
{
	const char *slash = strrchr(path, '/');
	auto_free char *folder = NULL;
	auto_close int fd = -1;

	if (slash == NULL)
		folder = strdup(".");
	else
		folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	if (folder == NULL)
		return -ENOMEM;
	fd = openat(dirfd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

/* Whole and on disk, or an error. */
static int fill_new_file(int dirfd, const char *path, const void *p, size_t n, mode_t mode)
{
	auto_close int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	ssize_t rc;

	if (fd < 0)
		return -errno;
	rc = io_write_full(fd, p, n);
	if (rc < 0)
		return (int)rc;
	if (fsync(fd) < 0)
		return -errno;
	return close(take_fd(&fd)) < 0 ? -errno : 0;
}

int io_write_file_atomic(int dirfd, const char *path, const void *p, size_t n, mode_t mode,
			 struct err *err)
{
	char tmp[PATH_MAX];
	uint64_t nonce;
	int len, rc;

	io_random(&nonce, sizeof(nonce));
	len = snprintf(tmp, sizeof(tmp), "%s.%016llx.tmp", path, (unsigned long long)nonce);
	if (len < 0 || (size_t)len >= sizeof(tmp))
		return err_set(err, -ENAMETOOLONG, "write '%s': name too long", leaf_of(path));
	rc = fill_new_file(dirfd, tmp, p, n, mode);
	if (rc == 0 && renameat(dirfd, tmp, dirfd, path) < 0)
		rc = -errno;
	if (rc < 0) {
		(void)unlinkat(dirfd, tmp, 0); /* the first error is the one worth telling */
		return err_set(err, rc, "write '%s': %s", leaf_of(path), strerror(-rc));
	}
	rc = fsync_folder_of(dirfd, path);
	if (rc < 0)
		return err_set(err, rc, "write '%s': sync folder: %s", leaf_of(path),
			       strerror(-rc));
	return 0;
}

static int mkdir_one(const char *path, mode_t mode)
{
	struct stat st;
	int saved;

	if (mkdir(path, mode) == 0)
		return 0;
	saved = errno; /* EROFS or EACCES too where the folder exists: what counts is whether it
			  does */
	if (stat(path, &st) < 0)
		return -saved;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int io_mkdir_p(const char *path, mode_t mode, struct err *err)
{
	auto_free char *copy = strdup(path);
	char *p;
	int rc;

	if (copy == NULL)
		return err_set(err, -ENOMEM, "create folder: out of memory");
	for (p = copy + strspn(copy, "/"); *p != '\0'; p += strspn(p, "/")) {
		char kept;

		p += strcspn(p, "/");
		kept = *p;
		*p = '\0';
		rc = mkdir_one(copy, mode);
		if (rc < 0)
			return err_set(err, rc, "create folder '%s': %s", leaf_of(copy),
				       strerror(-rc));
		*p = kept;
	}
	return 0;
}

int io_open_dir(int dirfd, const char *path)
{
	int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

ssize_t io_count_entries(const char *path)
{
	auto_closedir DIR *dir = opendir(path);
	const struct dirent *de;
	ssize_t n = 0;

	if (dir == NULL)
		return -errno;
	while ((de = readdir(dir)) != NULL)
		n += strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0;
	return n;
}

int io_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

union fds_control {
	char bytes[CMSG_SPACE(IO_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

ssize_t io_send_fds(int sock, const void *p, size_t n, const int *fds, size_t n_fds)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = n };
	union fds_control control = { 0 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t rc;

	assert(n_fds <= IO_FDS_MAX);
	if (n_fds > 0) {
		struct cmsghdr *c = &control.align;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do {
		rc = sendmsg(sock, &msg, MSG_NOSIGNAL);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : rc;
}

/* Descriptors of one control message to @fds; those for which there is no room are closed. */
static void collect_fds(struct cmsghdr *c, int *fds, size_t room, size_t *n)
{
	size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
		if (*n < room)
			fds[(*n)++] = fd;
		else
			(void)close(fd);
	}
}

ssize_t io_recv_fds(int sock, void *p, size_t n, int *fds, size_t *n_fds)
{
	struct iovec iov = { .iov_base = p, .iov_len = n };
	union fds_control control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	size_t room = *n_fds;
	ssize_t rc;

	*n_fds = 0;
	do {
		rc = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			collect_fds(c, fds, room, n_fds);
	}
	if ((msg.msg_flags & MSG_TRUNC) == 0)
		return rc;
	while (*n_fds > 0)
		(void)close(fds[--*n_fds]);
	return -EMSGSIZE;
}

int io_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	bool too_big = false;

	if (*s == '\0')
		return -EINVAL;
	for (; *s != '\0'; s++) {
		unsigned digit = (unsigned)*s - '0';

		if (digit > 9)
			return -EINVAL;
		if (v > (UINT64_MAX - digit) / 10)
			too_big = true; /* go on: "99…9x" is no number at all */
		else
			v = v * 10 + digit;
	}
	if (too_big || v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

void io_random(void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = getrandom((char *)p + done, n - done, 0);

		if (got > 0)
			done += (size_t)got;
		else if (errno != EINTR)
			abort(); /* keys made of anything else would be worse than not starting */
	}
}
