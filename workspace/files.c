/* SPDX-License-Identifier: MIT */
/* Files by path (see files.h): paths, what is there, reading. */
#include "workspace/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/events.h"
#include "workspace/files_priv.h"
#include "workspace/path.h"
#include "workspace/quota.h"

#define LINKS_MAX  40 /* of a last component that is a link to a link ...; as in the kernel */
#define READ_TRIES 4  /* of a file that changes while it is read */

/* ---- paths -------------------------------------------------------------- */

/* take_last_away() - the effect of ".." on the @len bytes of @dst: the new length, or -EXDEV at the
 * root */
static int take_last_away(const char *dst, size_t len)
{
	const char *slash;

	if (len == 0)
		return -EXDEV;
	slash = memrchr(dst, '/', len);
	return slash != NULL ? (int)(slash - dst) : 0;
}

int files_path_parse(const char *text, size_t len, char dst[FILES_PATH_MAX + 1])
{
	const char *end = text + len;
	size_t n = 0;

	if (memchr(text, '\0', len) != NULL)
		return -EINVAL;
	for (const char *p = text; p < end;) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t part = (size_t)((slash != NULL ? slash : end) - p);

		if (part == 2 && p[0] == '.' && p[1] == '.') {
			int rest = take_last_away(dst, n);

			if (rest < 0)
				return rest;
			n = (size_t)rest;
		} else if (part > 0 && !(part == 1 && p[0] == '.')) {
			if (part > NAME_MAX || n + 1 + part > FILES_PATH_MAX)
				return -ENAMETOOLONG;
			if (n > 0)
				dst[n++] = '/';
			memcpy(dst + n, p, part);
			n += part;
		}
		p += part + (slash != NULL);
	}
	dst[n] = '\0';
	return 0;
}

/* ---- places ------------------------------------------------------------- */

void files_place_fini(struct files_place *p)
{
	if (p->dirfd >= 0)
		(void)close(take_fd(&p->dirfd));
}

static int open_dir_path(struct workspace *ws, const char *dir)
{
	return path_open(ws->root_fd, dir, O_PATH | O_DIRECTORY, 0, 0);
}

int files_make_dir(struct workspace *ws, int dirfd, const char *name, mode_t mode)
{
	auto_event_op struct event_op op = event_op_begin(ws, DOOR_HTTP);
	struct quota_op quota;
	struct stat st;
	int rc = quota_file_begin(&quota, ws);

	if (rc < 0) /* one that is there needs no room */
		return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? -EEXIST : rc;
	rc = mkdirat(dirfd, name, mode) < 0 ? -errno : 0;
	quota_file_end(&quota, rc == 0);
	if (rc == 0)
		event_op_name(&op, EVENT_CREATED, dirfd, name);
	return rc;
}

int files_make_dirs(struct workspace *ws, const char *dir)
{
	auto_close int above = open_dir_path(ws, "");
	char path[FILES_PATH_MAX + 1];
	size_t done = 0, len = strlen(dir);

	if (len > FILES_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path, dir, len + 1);
	while (done < len && above >= 0) {
		size_t next = done + strcspn(path + done, "/");
		int fd, rc;

		/* each prefix from the root, since a link on the way may lead up again */
		path[next] = '\0';
		fd = open_dir_path(ws, path);
		if (fd == -ENOENT) {
			rc = files_make_dir(ws, above, path + done, FILES_DIR_MODE);
			if (rc < 0 && rc != -EEXIST)
				return rc;
			fd = open_dir_path(ws, path);
		}
		if (fd < 0)
			return fd;
		(void)close(above);
		above = fd;
		path[next] = dir[next];
		done = next + (next < len);
	}
	return take_fd(&above);
}

/* split() - "a/b" into directory and name; -EISDIR when there is no name to put something under */
static int split(const char *path, char dir[FILES_PATH_MAX + 1], char name[NAME_MAX + 1])
{
	const char *slash = strrchr(path, '/');
	const char *last = slash != NULL ? slash + 1 : path;
	size_t dir_len = slash != NULL ? (size_t)(slash - path) : 0;
	size_t n = strlen(last);
	int rc = path_name_check(last, n);

	if (rc < 0)
		return rc == -ENAMETOOLONG ? rc : -EISDIR;
	memcpy(dir, path, dir_len);
	dir[dir_len] = '\0';
	memcpy(name, last, n + 1);
	return 0;
}

static int open_place_dir(struct workspace *ws, const char *dir, unsigned flags)
{
	int fd = open_dir_path(ws, dir);

	return fd == -ENOENT && (flags & PLACE_PARENTS) != 0 ? files_make_dirs(ws, dir) : fd;
}

/* follow() - when @p is a link: the path it leads to, in @path.  1, 0 when it is none, or -errno.
 */
static int follow(const struct files_place *p, const char *dir, char path[FILES_PATH_MAX + 1])
{
	char target[FILES_PATH_MAX + 1];
	size_t dir_len = strlen(dir);
	ssize_t n = readlinkat(p->dirfd, p->name, target, sizeof(target));

	if (n < 0)
		return errno == EINVAL || errno == ENOENT ? 0 : -errno;
	if (target[0] == '/')
		return -EXDEV;
	if (dir_len + 1 + (size_t)n > FILES_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path, dir, dir_len);
	path[dir_len] = '/';
	memcpy(path + dir_len + (dir_len > 0), target, (size_t)n);
	path[dir_len + (dir_len > 0) + (size_t)n] = '\0';
	return 1;
}

int files_place_find(struct workspace *ws, const char *rel, unsigned flags, struct files_place *ret)
{
	char path[FILES_PATH_MAX + 1], dir[FILES_PATH_MAX + 1];
	size_t len = strlen(rel);

	if (len > FILES_PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(path, rel, len + 1);
	for (int i = 0; i < LINKS_MAX; i++) {
		auto_place struct files_place p = FILES_PLACE_NONE;
		int rc = split(path, dir, p.name);

		if (rc < 0)
			return rc;
		p.dirfd = open_place_dir(ws, dir, flags);
		if (p.dirfd < 0)
			return p.dirfd;
		rc = (flags & PLACE_FOLLOW) != 0 ? follow(&p, dir, path) : 0;
		if (rc < 0)
			return rc;
		if (rc == 0) {
			*ret = p;
			p.dirfd = -1;
			return 0;
		}
	}
	return -ELOOP;
}

/* ---- what is there ------------------------------------------------------ */

#define INFO_MASK STATX_BASIC_STATS

static void fill_info(const struct statx *stx, struct files_info *ret)
{
	*ret = (struct files_info){
		.mode = stx->stx_mode,
		.size = stx->stx_size,
		.ino = stx->stx_ino,
		.dev = makedev(stx->stx_dev_major, stx->stx_dev_minor),
		.nlink = stx->stx_nlink,
		.mtime = { .tv_sec = stx->stx_mtime.tv_sec, .tv_nsec = stx->stx_mtime.tv_nsec },
		.ctime = { .tv_sec = stx->stx_ctime.tv_sec, .tv_nsec = stx->stx_ctime.tv_nsec },
	};
}

int files_info_fd(int fd, struct files_info *ret)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, INFO_MASK, &stx) < 0)
		return -errno;
	fill_info(&stx, ret);
	return 0;
}

int files_info_at(int dirfd, const char *name, struct files_info *ret)
{
	struct statx stx;

	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, INFO_MASK, &stx) < 0)
		return -errno;
	fill_info(&stx, ret);
	return 0;
}

int files_stat(struct workspace *ws, const char *rel, struct files_info *ret)
{
	auto_close int fd = path_open(ws->root_fd, rel, O_PATH | O_NOFOLLOW, 0, 0);

	return fd < 0 ? fd : files_info_fd(fd, ret);
}

int files_open_dir(struct workspace *ws, const char *rel)
{
	return path_open(ws->root_fd, rel, O_RDONLY | O_DIRECTORY, 0, 0);
}

int files_open_at(const struct files_place *p, struct files_info *ret)
{
	auto_close int fd = path_open(p->dirfd, p->name, O_PATH | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	int rc;

	if (fd < 0)
		return fd;
	rc = files_info_fd(fd, ret);
	return rc < 0 ? rc : take_fd(&fd);
}

/* reopen_regular() - for reading, of an O_PATH descriptor, once it is known not to be a FIFO or
 * worse */
static int reopen_regular(int path_fd, const struct files_info *info)
{
	if (S_ISDIR(info->mode))
		return -EISDIR;
	if (S_ISLNK(info->mode))
		return -ELOOP;
	if (!S_ISREG(info->mode))
		return -ENXIO;
	return path_reopen(path_fd, O_RDONLY);
}

int files_open_read(struct workspace *ws, const char *rel, struct files_info *ret)
{
	auto_close int path_fd = path_open(ws->root_fd, rel, O_PATH, 0, 0);
	struct files_info info;
	int rc;

	if (path_fd < 0)
		return path_fd;
	rc = files_info_fd(path_fd, &info);
	if (rc == 0)
		rc = reopen_regular(path_fd, &info);
	if (rc >= 0 && ret != NULL)
		*ret = info;
	return rc;
}

/* ---- reading whole ------------------------------------------------------ */

static bool is_same_version(const struct files_info *a, const struct files_info *b)
{
	return a->size == b->size && a->ctime.tv_sec == b->ctime.tv_sec &&
	       a->ctime.tv_nsec == b->ctime.tv_nsec;
}

/* read_once() - what is in the file up to its present end; @size_hint <= @max */
static int read_once(int fd, size_t max, size_t size_hint, struct buf *ret)
{
	off_t off = 0;

	buf_reset(ret);
	ret->max = max + 1; /* one more byte tells a file that is too large */
	for (;;) {
		size_t want = ret->len <= size_hint ? size_hint + 1 - ret->len : FILES_IO_SIZE;
		ssize_t n;

		want = MIN(want, max + 1 - ret->len);
		if (want == 0)
			return -EFBIG;
		if (buf_reserve(ret, want) < 0)
			return -ENOMEM;
		n = io_pread_full(fd, ret->data + ret->len, want, off);
		if (n < 0)
			return (int)n;
		ret->len += (size_t)n;
		off += n;
		if ((size_t)n < want)
			return ret->len > max ? -EFBIG : 0;
	}
}

int files_read_whole(struct workspace *ws, const char *rel, size_t max, struct buf *ret, char *etag,
		     struct files_info *ret_info)
{
	struct files_info before, after;
	auto_close int fd = files_open_read(ws, rel, &before);
	int rc;

	if (fd < 0)
		return fd;
	for (int i = 0; i < READ_TRIES; i++) {
		if (before.size > max)
			return -EFBIG;
		rc = read_once(fd, max, before.size, ret);
		if (rc == 0)
			rc = files_info_fd(fd, &after);
		if (rc < 0)
			return rc;
		if (is_same_version(&before, &after))
			break;
		before = after;
	}
	if (etag != NULL) {
		if (ret->len <= FILES_ETAG_CONTENT_MAX)
			(void)files_etag_of_content(etag, ret->data, ret->len);
		else
			(void)files_etag_of_meta(etag, &after);
	}
	if (ret_info != NULL)
		*ret_info = after;
	return 0;
}

/* pread_now() - like pread(2), but -EAGAIN where the disk would be waited for */
static ssize_t pread_now(int fd, void *dst, size_t n)
{
	struct iovec iov = { .iov_base = dst, .iov_len = n };
	ssize_t got = preadv2(fd, &iov, 1, 0, RWF_NOWAIT);

	/* A file system without NOWAIT has the file in memory only (tmpfs). */
	if (got < 0 && errno == EOPNOTSUPP)
		got = pread(fd, dst, n, 0);
	return got < 0 ? -errno : got;
}

int files_read_cached(struct workspace *ws, const char *rel, void *dst, size_t max, size_t *ret_n)
{
	auto_close int path_fd = path_open(ws->root_fd, rel, O_PATH, 0, PATH_CACHED);
	auto_close int fd = -1;
	struct files_info info;
	ssize_t n;
	int rc;

	if (path_fd < 0)
		return path_fd;
	rc = files_info_fd(path_fd, &info);
	if (rc < 0)
		return rc;
	if (!S_ISREG(info.mode) || info.size > max)
		return -EAGAIN;
	fd = path_reopen(path_fd, O_RDONLY);
	if (fd < 0)
		return fd;
	n = pread_now(fd, dst, (size_t)info.size);
	if (n < 0)
		return (int)n;
	if ((size_t)n != info.size) /* changed meanwhile, or only a part is in memory */
		return -EAGAIN;
	*ret_n = (size_t)n;
	return 0;
}

/* ---- conditions on what is there ---------------------------------------- */

static bool is_condition(const struct files_condition *c)
{
	return c != NULL && (c->if_match != NULL || c->if_none_match != NULL);
}

/* needs_tag() - "*" asks only whether something is there */
static bool needs_tag(const struct files_condition *c)
{
	return (c->if_match != NULL && strchr(c->if_match, '"') != NULL) ||
	       (c->if_none_match != NULL && strchr(c->if_none_match, '"') != NULL);
}

int files_check_place(const struct files_place *p, const struct files_condition *c)
{
	auto_close int path_fd = -1;
	auto_close int fd = -1;
	char etag[FILES_ETAG_LEN] = "\"\"";
	struct files_info info;
	int rc;

	if (!is_condition(c))
		return 0;
	path_fd = files_open_at(p, &info);
	if (path_fd == -ENOENT)
		return files_condition_check(c, NULL, NULL);
	if (path_fd < 0)
		return path_fd;
	if (needs_tag(c) && S_ISREG(info.mode)) {
		fd = reopen_regular(path_fd, &info);
		rc = fd < 0 ? fd : files_etag_fd(fd, &info, etag);
		if (rc < 0)
			return rc;
	}
	return files_condition_check(c, etag, NULL);
}

int files_check(struct workspace *ws, const char *rel, const struct files_condition *c)
{
	auto_place struct files_place p = FILES_PLACE_NONE;
	int rc;

	if (!is_condition(c))
		return 0;
	rc = files_place_find(ws, rel, PLACE_FOLLOW, &p);
	if (rc == -ENOENT)
		return files_condition_check(c, NULL, NULL);
	return rc < 0 ? rc : files_check_place(&p, c);
}
