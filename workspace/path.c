/* SPDX-License-Identifier: MIT */
/*
 * The path door (see path.h).  The kernel does the resolving: checking a path here and opening it
 * after would be a race that a sandbox could win.
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
#include "base/io.h"

/* The kernel answers EAGAIN when any rename or mount happened during the walk; under a rename storm
 * a handful of tries does not do. */
#define PATH_RETRIES 128

/* Levels: names of one byte in a path of PATH_MAX give 2048; deeper trees can be made step by step.
 */
#define PATH_DEPTH_MAX 65536

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

int path_open_parent(int dirfd, uint64_t root_ino, uint32_t dev_major, uint32_t dev_minor)
{
	auto_close int parent = openat(dirfd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_close int up = -1;
	struct statx here;
	uint64_t below = 0;

	if (parent < 0)
		return -errno;
	up = fcntl(parent, F_DUPFD_CLOEXEC, 0);
	for (int depth = 0; depth < PATH_DEPTH_MAX && up >= 0; depth++) {
		int next;

		if (statx(up, "", AT_EMPTY_PATH, STATX_INO, &here) < 0)
			return -errno;
		if (here.stx_ino == root_ino && here.stx_dev_major == dev_major &&
		    here.stx_dev_minor == dev_minor)
			return take_fd(&parent);
		if (here.stx_ino == below) /* the root of the file system is its own parent */
			break;
		below = here.stx_ino;
		next = openat(up, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)close(up);
		up = next;
	}
	return up < 0 ? -errno : -ESTALE;
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

/* ---- removing a tree ---------------------------------------------------- */

/*
 * Depth-first with one open directory for each level would run out of descriptors in a tree that
 * somebody made deep on purpose.  So a directory found inside another is first moved up beside the
 * tree's top under a name of ours, and emptied there: never more than two directories are open, and
 * path lengths do not matter.
 */
struct remover {
	int top;            /* borrowed: where the tree hangs */
	const char *prefix; /* of the names that parked directories get */
	unsigned long n_parked, n_done;
};

/* A directory whose owner took the permission bits away from himself gets them back first: emptying
 * needs them, and so does moving it, since that changes its "..".  Returns an O_PATH descriptor. */
static int open_up_dir(int dirfd, const char *name)
{
	char proc[PATH_PROC_LEN];
	auto_close int path = -1;
	struct stat st;

	path = path_open(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	if (path < 0)
		return path;
	if (fstat(path, &st) < 0)
		return -errno;
	if ((st.st_mode & 0700) != 0700 && chmod(path_proc(proc, path), 0700) < 0)
		return -errno;
	return take_fd(&path);
}

static int open_dir_to_empty(int dirfd, const char *name)
{
	auto_close int path = open_up_dir(dirfd, name);

	if (path < 0)
		return path;
	return path_open(path, ".", O_RDONLY | O_DIRECTORY, 0, PATH_NOFOLLOW_ALL);
}

static int park_directory(struct remover *r, int dirfd, const char *name)
{
	char parked[NAME_MAX + 1];
	auto_close int path = open_up_dir(dirfd, name);

	if (path < 0)
		return path;
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
	/* Somebody may still be adding names; three passes, then it is an error that the caller
	 * sees. */
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

/* A crash leaves parked directories behind: the numbering begins after those, and all of them go.
 */
static int find_parked(struct remover *r)
{
	size_t prefix_len = strlen(r->prefix);
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	uint64_t n;
	int fd = path_open(r->top, ".", O_RDONLY | O_DIRECTORY, 0, 0);

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (d == NULL) {
		(void)close(fd);
		return -ENOMEM;
	}
	while ((e = readdir(d)) != NULL)
		if (strncmp(e->d_name, r->prefix, prefix_len) == 0 &&
		    e->d_name[prefix_len] == '.' &&
		    io_parse_u64(e->d_name + prefix_len + 1, 0, ULONG_MAX - 1, &n) == 0 &&
		    n >= r->n_parked)
			r->n_parked = n + 1;
	return 0;
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
	(void)snprintf(prefix, sizeof(prefix), ".removing-%s", name);
	rc = find_parked(&r);
	if (rc < 0)
		return err_set(err, rc, "remove '%s': %s", name, strerror(-rc));
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
