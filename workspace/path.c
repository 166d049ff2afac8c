/* SPDX-License-Identifier: MIT */
/*
 * The path door (see path.h).  The kernel does the resolving: checking a path here and opening it after
 * would be a race that a sandbox could win.
 */
#include "workspace/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The kernel answers EAGAIN when any rename or mount happened during the walk; under a rename storm a
 * handful of tries does not do. */
#define PATH_RETRIES 128

static int openat2_once(int dirfd, const char *path, struct open_how *how)
{
	long fd = syscall(SYS_openat2, dirfd, path, how, sizeof(*how));

	return fd < 0 ? -errno : (int)fd;
}

int path_open(int dirfd, const char *path, int flags, mode_t mode, unsigned how)
{
	struct open_how oh = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOCTTY),
		.mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	int fd = -EAGAIN;

	if ((flags & O_PATH) != 0) /* O_PATH allows few others (openat2(2)) */
		oh.flags &= O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;
	if ((how & PATH_NOFOLLOW_ALL) != 0)
		oh.resolve |= RESOLVE_NO_SYMLINKS;
	if ((how & PATH_CACHED) != 0) {
		oh.resolve |= RESOLVE_CACHED;
		return openat2_once(dirfd, path[0] == '\0' ? "." : path, &oh);
	}
	for (int i = 0; i < PATH_RETRIES && fd == -EAGAIN; i++)
		fd = openat2_once(dirfd, path[0] == '\0' ? "." : path, &oh);
	return fd;
}

const char *path_proc(char *dst, int fd)
{
	(void)snprintf(dst, PATH_PROC_LEN, "/proc/self/fd/%d", fd);
	return dst;
}

int path_reopen(int path_fd, int flags)
{
	char proc[PATH_PROC_LEN];
	int fd = open(path_proc(proc, path_fd), flags | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : fd;
}

int path_name_check(const char *name, size_t len)
{
	if (len == 0)
		return -ENOENT;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	if (memchr(name, '/', len) != NULL || memchr(name, '\0', len) != NULL)
		return -EINVAL;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return -EEXIST;
	return 0;
}

/* ---- removing a tree ------------------------------------------------------------------------------ */

/*
 * Depth-first with one open directory for each level would run out of descriptors in a tree that somebody
 * made deep on purpose.  So a directory found inside another is first moved up beside the tree's top under
 * a name of ours, and emptied there: never more than two directories are open, and path lengths do not
 * matter.
 */
struct remover {
	int top;	    /* borrowed: where the tree hangs */
	const char *prefix; /* of the names that parked directories get */
	unsigned long n_parked, n_done;
};

/* Opens up a directory whose owner took the permission bits away from himself. */
static int open_dir_to_empty(int dirfd, const char *name)
{
	char proc[PATH_PROC_LEN];
	auto_close int path = -1;
	struct stat st;
	int fd;

	path = path_open(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	if (path < 0)
		return path;
	if (fstat(path, &st) < 0)
		return -errno;
	if ((st.st_mode & 0700) != 0700 && chmod(path_proc(proc, path), 0700) < 0)
		return -errno;
	fd = path_open(path, ".", O_RDONLY | O_DIRECTORY, 0, PATH_NOFOLLOW_ALL);
	return fd;
}

static int park_directory(struct remover *r, int dirfd, const char *name)
{
	char parked[NAME_MAX + 1];
	char proc[PATH_PROC_LEN];
	auto_close int path = -1;
	struct stat st;

	/* Moving a directory changes its "..", which asks for write permission on the directory itself. */
	path = path_open(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	if (path < 0)
		return path;
	if (fstat(path, &st) < 0)
		return -errno;
	if ((st.st_mode & 0700) != 0700 && chmod(path_proc(proc, path), 0700) < 0)
		return -errno;
	(void)snprintf(parked, sizeof(parked), "%s.%lu", r->prefix, r->n_parked);
	if (renameat(dirfd, name, r->top, parked) < 0)
		return -errno;
	r->n_parked++;
	return 0;
}

static int empty_directory(struct remover *r, int dirfd)
{
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	int dup_fd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	int rc = 0;

	if (dup_fd < 0)
		return -errno;
	d = fdopendir(dup_fd);
	if (d == NULL) {
		rc = -errno;
		(void)close(dup_fd);
		return rc;
	}
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd, e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return -errno;
		if (unlinkat(dirfd, e->d_name, AT_REMOVEDIR) == 0)
			continue;
		rc = park_directory(r, dirfd, e->d_name);
		if (rc < 0 && rc != -ENOENT)
			return rc;
	}
	return 0;
}

static int empty_and_remove(struct remover *r, const char *name)
{
	auto_close int fd = -1;
	int rc;

	fd = open_dir_to_empty(r->top, name);
	if (fd < 0)
		return fd;
	/* Somebody may still be adding names; three passes, then it is an error that the caller sees. */
	for (int pass = 0; pass < 3; pass++) {
		rc = empty_directory(r, fd);
		if (rc < 0)
			return rc;
		if (unlinkat(r->top, name, AT_REMOVEDIR) == 0)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
	}
	return -ENOTEMPTY;
}

int path_remove_tree(int dirfd, const char *name, struct err *err)
{
	char prefix[NAME_MAX / 2];
	char parked[NAME_MAX + 1];
	struct remover r = { .top = dirfd, .prefix = prefix };
	int rc;

	if (path_name_check(name, strlen(name)) < 0 || strlen(name) > NAME_MAX / 3)
		return err_set(err, -EINVAL, "remove '%s': not a name", name);
	if (unlinkat(dirfd, name, 0) == 0)
		return 0;
	/* A crash leaves parked directories behind: the numbering begins after those, and all go. */
	(void)snprintf(prefix, sizeof(prefix), ".removing-%s", name);
	for (;; r.n_parked++) {
		struct stat st;

		(void)snprintf(parked, sizeof(parked), "%s.%lu", prefix, r.n_parked);
		if (fstatat(dirfd, parked, &st, AT_SYMLINK_NOFOLLOW) < 0)
			break;
	}
	rc = empty_and_remove(&r, name);
	if (rc < 0 && rc != -ENOENT)
		return err_set(err, rc, "remove '%s': %s", name, strerror(-rc));
	for (; r.n_done < r.n_parked; r.n_done++) {
		(void)snprintf(parked, sizeof(parked), "%s.%lu", prefix, r.n_done);
		rc = empty_and_remove(&r, parked);
		if (rc < 0 && rc != -ENOENT)
			return err_set(err, rc, "remove '%s': %s", name, strerror(-rc));
	}
	return 0;
}
