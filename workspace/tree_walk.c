/* SPDX-License-Identifier: MIT */
/*
 * Depth-first with a stack of our own (see tree_walk.h).  A directory is read whole when it is
 * entered; the names of its directories wait in its frame.
 *
 * Descriptors stay open for the first KEEP_FDS levels and for the last KEEP_FDS, which is enough to
 * go down without looking back.  Coming up from far below, a frame's directory is opened again by
 * its names from the nearest open one above, together with the levels just above it, so that the
 * next ones are at hand.  Every opened directory must have the inode number that was seen in its
 * parent: what was exchanged meanwhile is not walked under a wrong name.
 */
#include "workspace/tree_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "workspace/path.h"

#define KEEP_FDS      64           /* at each end of the stack */
#define DEPTH_MAX     65536        /* levels: bounds the stack to some 6 MiB */
#define SUBDIRS_BYTES (256u << 20) /* of names waiting in one directory: some ten million */

struct frame {
	int fd; /* owned; -1 while it is not kept open */
	uint64_t ino;
	const char *name;   /* borrowed from the subdirs of the frame below; "" for the root */
	size_t path_len;    /* bytes of walker.path that name it */
	struct buf subdirs; /* owned; for each: 8 bytes of inode number, the name, NUL */
	size_t next;        /* bytes of subdirs already visited */
};

struct walker {
	const struct tree_walk_ops *ops; /* borrowed */
	void *arg;
	struct tree_walk_result *result;
	struct buf path; /* owned: of the top frame's directory, with a NUL behind it */
	struct timespec began;
	uint64_t mnt_id;
	struct frame *stack; /* owned */
	size_t depth, cap;   /* frames */
};

/* @name in the top frame's directory, or NULL for that itself. */
static void note_error(struct walker *w, const char *name, int rc)
{
	if (w->result->first_err == 0)
		w->result->first_err = rc;
	if (w->ops->unread != NULL && w->depth > 0)
		w->ops->unread(w->arg, (const char *)w->path.data, name, rc);
}

/* What the kernel says of a directory that is not there any more, or not a directory. */
static bool means_vanished(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP || rc == -ESTALE;
}

/* ---- opening ------------------------------------------------------------ */

/* The directory @name if it still is inode @ino; -ESTALE when it is another. */
static int open_dir(int dirfd, const char *name, uint64_t ino)
{
	auto_close int fd =
		path_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	struct statx stx;

	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO, &stx) < 0)
		return -errno;
	return stx.stx_ino == ino ? take_fd(&fd) : -ESTALE;
}

static bool is_kept(size_t level, size_t top)
{
	return level < KEEP_FDS || level + KEEP_FDS > top;
}

/* Opens the top frame's directory again, and with it the levels above it that are kept. */
static int reopen_top(struct walker *w)
{
	size_t top = w->depth - 1;
	size_t level = top;
	auto_close int passing = -1; /* the level above, when it is not kept */

	while (w->stack[level].fd < 0)
		level--; /* the root's is always open */
	while (level < top) {
		int above = passing >= 0 ? passing : w->stack[level].fd;
		struct frame *f = &w->stack[++level];
		int fd = open_dir(above, f->name, f->ino);

		if (passing >= 0)
			(void)close(take_fd(&passing));
		if (fd < 0)
			return fd;
		if (is_kept(level, top))
			f->fd = fd;
		else
			passing = fd;
	}
	return 0;
}

/* ---- reading one directory ---------------------------------------------- */

static int remember_subdir(struct frame *f, uint64_t ino, const char *name)
{
	int rc = buf_reserve(&f->subdirs, sizeof(ino) + strlen(name) + 1);

	if (rc == 0)
		rc = buf_append(&f->subdirs, &ino, sizeof(ino));
	if (rc == 0)
		rc = buf_append(&f->subdirs, name, strlen(name) + 1);
	return rc;
}

static int visit(struct walker *w, struct frame *f, const char *name)
{
	struct statx stx;
	struct tree_entry e = { .dirfd = f->fd,
				.name = name,
				.dir = (const char *)w->path.data,
				.depth = w->depth - 1,
				.parent_ino = f->ino,
				.stx = &stx };
	int rc, remembered = 0;

	if (statx(f->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_TYPE | STATX_INO | STATX_BTIME | STATX_MNT_ID | STATX_SIZE | STATX_NLINK,
		  &stx) < 0) {
		if (errno == ENOENT) /* removed, or moved to where we may have been */
			w->result->is_raced = true;
		else
			note_error(w, name, -errno);
		return 0;
	}
	if (stx.stx_mnt_id != w->mnt_id)
		return 0;
	w->result->n_entries++;
	rc = w->ops->entry(w->arg, &e);
	if (rc == 0 && S_ISDIR(stx.stx_mode))
		remembered = remember_subdir(f, stx.stx_ino, name);
	if (remembered < 0)
		note_error(w, name, remembered);
	return rc == TREE_WALK_PRUNE ? 0 : rc;
}

/* Its ctime, which nobody can set back, tells whether names came or went since the walk began. */
static void check_race(struct walker *w, const struct frame *f)
{
	struct statx stx;

	if (statx(f->fd, "", AT_EMPTY_PATH, STATX_CTIME, &stx) < 0 ||
	    stx.stx_ctime.tv_sec > w->began.tv_sec ||
	    (stx.stx_ctime.tv_sec == w->began.tv_sec &&
	     (long)stx.stx_ctime.tv_nsec >= w->began.tv_nsec))
		w->result->is_raced = true;
}

static int read_frame(struct walker *w, struct frame *f)
{
	auto_closedir DIR *d = NULL;
	int dup_fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	int rc = 0;

	if (dup_fd >= 0)
		d = fdopendir(dup_fd);
	if (d == NULL) {
		note_error(w, NULL, -errno);
		if (dup_fd >= 0)
			(void)close(dup_fd);
		return 0;
	}
	while (rc == 0) {
		struct dirent *e;

		errno = 0;
		e = readdir(d);
		if (e == NULL)
			break;
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = visit(w, f, e->d_name);
	}
	if (rc == 0 && errno != 0)
		note_error(w, NULL, -errno);
	check_race(w, f);
	return rc;
}

/* ---- the stack ---------------------------------------------------------- */

/* Makes the path that of @name in the top frame's directory. */
static int extend_path(struct walker *w, const char *name, size_t *ret_len)
{
	size_t above = w->depth > 0 ? w->stack[w->depth - 1].path_len : 0;
	int rc;

	w->path.len = above;
	rc = buf_printf(&w->path, "%s%s", above > 0 ? "/" : "", name);
	*ret_len = w->path.len;
	return rc;
}

/* Takes @fd, reads the directory, and leaves it on top of the stack. */
static int push(struct walker *w, int fd, const char *name, uint64_t ino)
{
	auto_close int owned = fd;
	struct frame *f;
	size_t path_len;

	if (w->depth == DEPTH_MAX) {
		note_error(w, name, -ENAMETOOLONG);
		return 0;
	}
	if (w->depth == w->cap) {
		size_t cap = w->cap == 0 ? 32 : w->cap * 2;
		struct frame *more = reallocarray(w->stack, cap, sizeof(*more));

		if (more == NULL) {
			note_error(w, name, -ENOMEM);
			return 0;
		}
		w->stack = more;
		w->cap = cap;
	}
	if (extend_path(w, name, &path_len) < 0) {
		note_error(w, name, -ENOMEM);
		return 0;
	}
	f = &w->stack[w->depth++];
	*f = (struct frame){ .fd = take_fd(&owned),
			     .ino = ino,
			     .name = name,
			     .path_len = path_len,
			     .subdirs.max = SUBDIRS_BYTES };
	if (w->depth > KEEP_FDS) {
		struct frame *old = &w->stack[w->depth - 1 - KEEP_FDS];

		if (!is_kept(w->depth - 1 - KEEP_FDS, w->depth - 1) && old->fd >= 0)
			(void)close(take_fd(&old->fd));
	}
	return read_frame(w, f);
}

static void pop(struct walker *w)
{
	struct frame *f = &w->stack[--w->depth];

	if (w->depth > 0) { /* the path of the one above: never longer, so it is only cut */
		w->path.len = f[-1].path_len;
		w->path.data[w->path.len] = '\0';
	}
	if (f->fd >= 0)
		(void)close(f->fd);
	buf_free(&f->subdirs);
}

/* A part of the tree that cannot be entered: vanished ones may be elsewhere now, mounts are not
 * ours. */
static void note_unopened(struct walker *w, const char *name, int rc)
{
	if (means_vanished(rc))
		w->result->is_raced = true;
	else if (rc != -EXDEV)
		note_error(w, name, rc);
}

static int enter_next_subdir(struct walker *w)
{
	struct frame *f = &w->stack[w->depth - 1];
	const char *name;
	uint64_t ino;
	int rc = 0;

	if (f->fd < 0)
		rc = reopen_top(w);
	if (rc < 0) {
		note_unopened(w, NULL, rc);
		f->next = f->subdirs.len;
		return 0;
	}
	memcpy(&ino, f->subdirs.data + f->next, sizeof(ino));
	name = (const char *)f->subdirs.data + f->next + sizeof(ino);
	f->next += sizeof(ino) + strlen(name) + 1;
	rc = open_dir(f->fd, name, ino);
	if (rc < 0) {
		note_unopened(w, name, rc);
		return 0;
	}
	return push(w, rc, name, ino);
}

static int open_root(struct walker *w, int root_fd, uint64_t *ret_ino)
{
	auto_close int fd = path_open(root_fd, "", O_RDONLY | O_DIRECTORY, 0, PATH_NOFOLLOW_ALL);
	struct statx stx;

	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &stx) < 0)
		return -errno;
	w->mnt_id = stx.stx_mnt_id;
	*ret_ino = stx.stx_ino;
	return take_fd(&fd);
}

int tree_walk_with(int root_fd, const struct tree_walk_ops *ops, void *arg,
		   struct tree_walk_result *ret)
{
	struct walker w = { .ops = ops, .arg = arg, .result = ret };
	uint64_t ino = 0;
	int fd, rc;

	*ret = (struct tree_walk_result){ 0 };
	(void)clock_gettime(CLOCK_REALTIME_COARSE,
			    &w.began); /* the clock of time stamps on files */
	fd = open_root(&w, root_fd, &ino);
	if (fd < 0)
		return fd;
	rc = push(&w, fd, "", ino);
	while (rc == 0 && w.depth > 0) {
		const struct frame *f = &w.stack[w.depth - 1];

		if (f->next == f->subdirs.len)
			pop(&w);
		else
			rc = enter_next_subdir(&w);
	}
	while (w.depth > 0)
		pop(&w);
	free(w.stack);
	buf_free(&w.path);
	return rc;
}

int tree_walk(int root_fd, int (*fn)(void *arg, const struct tree_entry *e), void *arg,
	      struct tree_walk_result *ret)
{
	const struct tree_walk_ops ops = { .entry = fn };

	return tree_walk_with(root_fd, &ops, arg, ret);
}
