/* SPDX-License-Identifier: MIT */
/*
 * Copies of files and trees (see files.h).
 *
 * Directories wait in a list of paths below the two tops and are opened again when their turn
 * comes: depth and width of a tree cost memory and no descriptors.  What is deeper than a path can
 * say is -ENAMETOOLONG; no client could name it either.
 *
 * The tree may be changed while it is copied.  Every name is looked at without following it, and a
 * name that is something else when it is opened is left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/events.h"
#include "workspace/files_priv.h"
#include "workspace/path.h"
#include "workspace/quota.h"

#define PENDING_MAX (256u << 20) /* bytes of paths that wait: some millions of directories */

/* ---- bytes -------------------------------------------------------------- */

static int copy_by_hand(int from, int to, off_t off, off_t end)
{
	auto_free char *p = malloc(FILES_IO_SIZE);

	if (p == NULL)
		return -ENOMEM;
	while (off < end) {
		ssize_t n =
			io_pread_full(from, p, (size_t)MIN((off_t)FILES_IO_SIZE, end - off), off);

		if (n > 0)
			n = io_pwrite_full(to, p, (size_t)n, off);
		if (n <= 0)
			return (int)n;
		off += n;
	}
	return 0;
}

static int copy_range(int from, int to, off_t off, off_t end)
{
	off_t in = off, out = off;

	while (in < end) {
		ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - in), 0);

		if (n == 0) /* it shrank */
			return 0;
		if (n < 0 &&
		    (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS))
			return copy_by_hand(from, to, in, end);
		if (n < 0 && errno != EINTR)
			return -errno;
	}
	return 0;
}

int files_copy_bytes(int from, int to)
{
	struct files_info info;
	off_t end = 0, data, hole;
	int rc = files_info_fd(from, &info);

	if (rc == 0 && ftruncate(to, (off_t)info.size) < 0)
		rc = -errno;
	/* holes stay holes: a sparse file may be larger than the disk */
	while (rc == 0 && end < (off_t)info.size) {
		data = lseek(from, end, SEEK_DATA);
		if (data < 0)
			return errno == ENXIO ? 0 : copy_range(from, to, end, (off_t)info.size);
		hole = lseek(from, data, SEEK_HOLE);
		end = MIN(hole < 0 ? (off_t)info.size : hole, (off_t)info.size);
		rc = copy_range(from, to, data, end);
	}
	return rc;
}

/* ---- one entry ---------------------------------------------------------- */

struct copier {
	struct workspace *ws;
	int from, to;       /* owned: the tops of the two trees; O_PATH */
	struct buf pending; /* owned: paths below the tops, each with a NUL; the last is next */
	struct buf closed; /* owned: paths of directories that get their mode at the end, with it */
	unsigned put_flags;
	uint64_t top_ino, top_dev; /* of @to: never copied into itself */
};

static int copy_file(struct copier *k, const struct files_place *from, const struct files_place *to)
{
	struct files_info info;
	auto_close int path_fd = files_open_at(from, &info);
	auto_close int fd = -1;
	struct files_staged *s;
	int rc;

	if (path_fd < 0)
		return path_fd;
	if (!S_ISREG(info.mode)) /* exchanged since it was looked at */
		return -ESTALE;
	fd = path_reopen(path_fd, O_RDONLY);
	if (fd < 0)
		return fd;
	rc = files_stage_open(k->ws, &s);
	if (rc < 0)
		return rc;
	rc = files_stage_charge(s, info.size);
	if (rc == 0)
		rc = files_copy_bytes(fd, files_stage_fd(s));
	if (rc == 0)
		rc = files_put_at(s, to, k->put_flags | PUT_MODE, info.mode, NULL);
	files_stage_free(s);
	return rc;
}

static int link_at(const char *target, const struct files_place *to)
{
	if (symlinkat(target, to->dirfd, to->name) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (unlinkat(to->dirfd, to->name, 0) < 0)
		return -errno;
	return symlinkat(target, to->dirfd, to->name) < 0 ? -errno : 0;
}

static int copy_link(struct copier *k, const struct files_place *from, const struct files_place *to)
{
	auto_event_op struct event_op op = event_op_begin(k->ws, DOOR_HTTP);
	char target[FILES_PATH_MAX + 2];
	struct quota_op quota;
	ssize_t n = readlinkat(from->dirfd, from->name, target, sizeof(target) - 1);
	int rc;

	if (n < 0)
		return -errno;
	target[n] = '\0';
	rc = quota_file_begin(&quota, k->ws);
	if (rc < 0)
		return rc;
	rc = link_at(target, to);
	quota_file_end(&quota, rc == 0);
	if (rc == 0)
		event_op_name(&op, EVENT_CREATED, to->dirfd, to->name);
	return rc;
}

static int copy_node(struct copier *k, const struct files_place *to, mode_t mode)
{
	auto_event_op struct event_op op = event_op_begin(k->ws, DOOR_HTTP);
	struct files_info there;
	struct quota_op quota;
	int rc = quota_file_begin(&quota, k->ws);

	if (rc < 0)
		return rc;
	rc = mknodat(to->dirfd, to->name, mode, 0) < 0 ? -errno : 0;
	quota_file_end(&quota, rc == 0);
	if (rc == 0)
		event_op_name(&op, EVENT_CREATED, to->dirfd, to->name);
	if (rc != -EEXIST)
		return rc;
	return files_info_at(to->dirfd, to->name, &there) == 0 &&
			       ((there.mode ^ mode) & S_IFMT) == 0
		       ? 0
		       : -EEXIST;
}

/* copy_leaf() - anything but a directory */
static int copy_leaf(struct copier *k, const struct files_place *from, const struct files_place *to,
		     const struct files_info *info)
{
	switch (info->mode & S_IFMT) {
	case S_IFREG:
		return copy_file(k, from, to);
	case S_IFLNK:
		return copy_link(k, from, to);
	case S_IFIFO:
	case S_IFSOCK:
		return copy_node(k, to, info->mode & (S_IFMT | 07777));
	default: /* a device: nobody here may make one */
		return 0;
	}
}

/* ---- directories -------------------------------------------------------- */

/* A directory that is to be closed to us: its mode, its path, and the length of both, read from the
 * end. */
static int note_mode(struct copier *k, const char *path, mode_t mode)
{
	uint32_t len = (uint32_t)(sizeof(mode) + strlen(path) + 1);
	int rc = buf_reserve(&k->closed, len + sizeof(len));

	if (rc == 0)
		rc = buf_append(&k->closed, &mode, sizeof(mode));
	if (rc == 0)
		rc = buf_append(&k->closed, path, strlen(path) + 1);
	return rc == 0 ? buf_append(&k->closed, &len, sizeof(len)) : rc;
}

/* make_dir() - the directory at @to, open to us until it is filled */
static int make_dir(struct copier *k, const struct files_place *to, const char *path, mode_t mode)
{
	char proc[PATH_PROC_LEN];
	auto_close int fd = -1;
	int rc;

	mode &= 07777;
	rc = files_make_dir(k->ws, to->dirfd, to->name, mode | 0700);
	if (rc < 0) {
		if (rc != -EEXIST)
			return rc;
		fd = path_open(to->dirfd, to->name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
			       PATH_NOFOLLOW_ALL);
		return fd < 0 ? fd : 0;
	}
	fd = path_open(to->dirfd, to->name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
		       PATH_NOFOLLOW_ALL);
	if (fd < 0)
		return fd;
	if (chmod(path_proc(proc, fd), mode | 0700) < 0)
		return -errno;
	return (mode & 0700) != 0700 ? note_mode(k, path, mode) : 0;
}

/* copy_entry() - the entry @name of the directory at @path */
static int copy_entry(struct copier *k, const char *path, int from_dir, int to_dir,
		      const char *name)
{
	struct files_place from = { .dirfd = from_dir }, to = { .dirfd = to_dir };
	char below[FILES_PATH_MAX + 1];
	struct files_info info;
	int n, rc;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	(void)snprintf(from.name, sizeof(from.name), "%s", name);
	(void)snprintf(to.name, sizeof(to.name), "%s", name);
	rc = files_info_at(from_dir, name, &info);
	if (rc == -ENOENT || (rc == 0 && info.ino == k->top_ino && info.dev == k->top_dev))
		return 0;
	if (rc < 0)
		return rc;
	if (!S_ISDIR(info.mode)) {
		rc = copy_leaf(k, &from, &to, &info);
		return rc == -ENOENT || rc == -ESTALE ? 0 : rc;
	}
	n = snprintf(below, sizeof(below), "%s%s%s", path, path[0] != '\0' ? "/" : "", name);
	if (n < 0 || (size_t)n >= sizeof(below))
		return -ENAMETOOLONG;
	rc = make_dir(k, &to, below, info.mode);
	return rc == 0 ? buf_append(&k->pending, below, (size_t)n + 1) : rc;
}

static DIR *open_stream(int fd)
{
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (d == NULL && fd >= 0)
		(void)close(fd);
	return d;
}

/* copy_dir() - what is in the directory @path below the tops */
static int copy_dir(struct copier *k, const char *path)
{
	int from = path_open(k->from, path, O_RDONLY | O_DIRECTORY, 0, PATH_NOFOLLOW_ALL);
	auto_close int to = -1;
	auto_closedir DIR *d = open_stream(from);
	struct dirent *e;
	int rc = 0;

	if (from == -EXDEV || from == -ENOENT || from == -ENOTDIR || from == -ELOOP)
		return 0; /* another mount, or gone meanwhile */
	if (d == NULL)
		return from < 0 ? from : -ENOMEM;
	to = path_open(k->to, path, O_PATH | O_DIRECTORY, 0, PATH_NOFOLLOW_ALL);
	if (to < 0)
		return to;
	while (rc == 0 && (e = readdir(d)) != NULL)
		rc = copy_entry(k, path, dirfd(d), to, e->d_name);
	return rc;
}

/* pop() - the last of the paths that wait; false when none is left */
static bool pop(struct buf *pending, char path[FILES_PATH_MAX + 1])
{
	const uint8_t *nul;
	size_t start, n = pending->len;

	if (n == 0)
		return false;
	nul = n > 1 ? memrchr(pending->data, '\0', n - 1) : NULL;
	start = nul != NULL ? (size_t)(nul - pending->data) + 1 : 0;
	memcpy(path, pending->data + start, n - start);
	pending->len = start;
	return true;
}

/* close_dirs() - the modes that would have kept us out, the deepest first */
static void close_dirs(struct copier *k)
{
	char proc[PATH_PROC_LEN];
	struct buf *b = &k->closed;

	while (b->len > 0) {
		const uint8_t *record;
		uint32_t len;
		mode_t mode;
		int fd;

		memcpy(&len, b->data + b->len - sizeof(len), sizeof(len));
		b->len -= sizeof(len) + len;
		record = b->data + b->len;
		memcpy(&mode, record, sizeof(mode));
		fd = path_open(k->to, (const char *)record + sizeof(mode), O_PATH | O_DIRECTORY, 0,
			       PATH_NOFOLLOW_ALL);
		if (fd < 0)
			continue;
		(void)chmod(path_proc(proc, fd), mode);
		(void)close(fd);
	}
}

static int copy_tree(struct copier *k)
{
	char path[FILES_PATH_MAX + 1];
	int rc = buf_append(&k->pending, "", 1);

	while (rc == 0 && pop(&k->pending, path))
		rc = __atomic_load_n(&k->ws->is_gone, __ATOMIC_ACQUIRE) ? -ESTALE
									: copy_dir(k, path);
	close_dirs(k);
	return rc;
}

/* ---- the whole ---------------------------------------------------------- */

/* is_inside() - is the directory @dirfd the one with @info, or below it? */
static int is_inside(struct workspace *ws, int dirfd, const struct files_info *info)
{
	auto_close int at = path_open(dirfd, "", O_PATH | O_DIRECTORY, 0, 0);
	struct files_info here;

	for (;;) {
		int up, rc = at < 0 ? at : files_info_fd(at, &here);

		if (rc < 0)
			return rc;
		if (here.ino == info->ino && here.dev == info->dev)
			return 1;
		if (here.ino == ws->root_ino)
			return 0;
		up = path_open_parent(at, ws->root_ino, ws->root_dev_major, ws->root_dev_minor);
		(void)close(at);
		at = up;
	}
}

static int copy_directory(struct copier *k, const struct files_place *from,
			  const struct files_place *to, const struct files_info *info,
			  const struct files_condition *c)
{
	struct files_info top;
	int rc = is_inside(k->ws, to->dirfd, info);

	if (rc != 0)
		return rc < 0 ? rc : -EINVAL;
	rc = files_check_place(to, c);
	if (rc < 0)
		return rc;
	rc = make_dir(k, to, "", info->mode);
	if (rc < 0)
		return rc;
	k->from = path_open(from->dirfd, from->name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
			    PATH_NOFOLLOW_ALL);
	k->to = path_open(to->dirfd, to->name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
			  PATH_NOFOLLOW_ALL);
	if (k->from < 0 || k->to < 0)
		return k->from < 0 ? k->from : k->to;
	rc = files_info_fd(k->to, &top);
	if (rc < 0)
		return rc;
	k->top_ino = top.ino;
	k->top_dev = top.dev;
	return copy_tree(k);
}

/* copy_locked() - one file, link or node: the name at @to is ours meanwhile */
static int copy_locked(struct copier *k, const struct files_place *from,
		       const struct files_place *to, const struct files_info *info,
		       const struct files_condition *c)
{
	struct files_lock *lock;
	struct files_info there;
	int rc = files_lock_take(to, &lock);

	if (rc < 0)
		return rc;
	rc = files_check_place(to, c);
	if (rc == 0 && files_info_at(to->dirfd, to->name, &there) == 0) {
		if (S_ISDIR(there.mode))
			rc = -EISDIR;
		else if (there.ino == info->ino && there.dev == info->dev)
			rc = -EINVAL;
		else if (!S_ISREG(info->mode) && !S_ISLNK(info->mode))
			rc = -EEXIST;
	}
	if (rc == 0)
		rc = copy_leaf(k, from, to, info);
	files_lock_release(lock);
	return rc;
}

int files_copy(struct workspace *ws, const char *from, const char *to,
	       const struct files_condition *c, bool *ret_is_from)
{
	auto_place struct files_place p_from = FILES_PLACE_NONE;
	auto_place struct files_place p_to = FILES_PLACE_NONE;
	struct copier k = { .ws = ws, .from = -1, .to = -1, .pending.max = PENDING_MAX };
	struct files_info info;
	int rc = from[0] != '\0' ? files_place_find(ws, from, 0, &p_from) : -EINVAL;

	if (rc == 0)
		rc = files_info_at(p_from.dirfd, p_from.name, &info);
	*ret_is_from = rc < 0;
	if (rc < 0)
		return rc;
	rc = strcmp(from, to) != 0 ? files_place_find(ws, to, PLACE_PARENTS, &p_to) : -EINVAL;
	if (rc < 0)
		return rc;
	k.put_flags =
		S_ISDIR(info.mode) ? 0 : PUT_SYNC; /* a sync for each file of a tree is too slow */
	rc = S_ISDIR(info.mode) ? copy_directory(&k, &p_from, &p_to, &info, c)
				: copy_locked(&k, &p_from, &p_to, &info, c);
	buf_free(&k.pending);
	buf_free(&k.closed);
	if (k.from >= 0)
		(void)close(k.from);
	if (k.to >= 0)
		(void)close(k.to);
	return rc;
}
