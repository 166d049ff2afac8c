/* SPDX-License-Identifier: MIT */
/*
 * New content on its way to a name (see files.h).
 *
 * It is staged in a file without a name (O_TMPFILE), so that nothing has to be cleaned up when an
 * upload breaks off or the daemon is killed.  To replace something it needs a name for an instant:
 * linkat(2) cannot replace, renameat(2) can.  That name is in the workspace's staging folder, on
 * the same file system, which no door shows and which is emptied at every start.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/events.h"
#include "workspace/files_priv.h"
#include "workspace/path.h"
#include "workspace/quota.h"

#define STAGE_NAME_LEN 32
#define XATTRS_MAX     (64u << 10) /* bytes of names, and of one value: the kernel's own limits */

struct files_staged {
	crypto_generichash_state
		hash;              /* of all that passed by files_stage_write(); first: aligned */
	int fd;                    /* owned */
	int dirfd;                 /* owned: the staging folder */
	char name[STAGE_NAME_LEN]; /* "" while it has none */
	uint64_t n_hashed;         /* bytes */
	struct workspace *ws;      /* borrowed: outlives the stage */
	int64_t charged;           /* bytes of the quota held for it */
};

/* ---- staging ------------------------------------------------------------ */

static void make_name(char name[STAGE_NAME_LEN])
{
	uint64_t r;

	io_random(&r, sizeof(r));
	(void)snprintf(name, STAGE_NAME_LEN, "new-%016llx", (unsigned long long)r);
}

static int open_unnamed(struct files_staged *s)
{
	s->fd = path_open(s->dirfd, ".", O_TMPFILE | O_RDWR, FILES_STAGE_MODE, 0);
	if (s->fd != -EOPNOTSUPP && s->fd != -EISDIR)
		return s->fd;
	/* a file system without O_TMPFILE: a name from the start, removed with the stage */
	make_name(s->name);
	s->fd = path_open(s->dirfd, s->name, O_CREAT | O_EXCL | O_RDWR, FILES_STAGE_MODE,
			  PATH_NOFOLLOW_ALL);
	return s->fd;
}

int files_stage_open(struct workspace *ws, struct files_staged **ret)
{
	size_t size = sizeof(struct files_staged);
	size_t align = __alignof__(struct files_staged);
	struct files_staged *s = aligned_alloc(align, (size + align - 1) / align * align);
	int rc;

	if (s == NULL)
		return -ENOMEM;
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->ws = ws;
	(void)crypto_generichash_init(&s->hash, NULL, 0, FILES_HASH_BYTES);
	s->dirfd = workspace_open_staging(ws);
	rc = s->dirfd < 0 ? s->dirfd : open_unnamed(s);
	if (rc < 0) {
		files_stage_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int files_stage_charge(struct files_staged *s, uint64_t size)
{
	int64_t more = quota_blocks(size) - s->charged;
	int rc;

	if (more < 0) {
		quota_credit(s->ws, -more);
		s->charged += more;
		return 0;
	}
	rc = quota_charge(s->ws, more);
	if (rc == 0)
		s->charged += more;
	return rc;
}

int files_stage_write(struct files_staged *s, const void *p, size_t n)
{
	ssize_t done = files_stage_charge(s, s->n_hashed + n);

	if (done == 0)
		done = io_write_full(s->fd, p, n);
	if (done < 0)
		return (int)done;
	if (s->n_hashed <= FILES_ETAG_CONTENT_MAX)
		(void)crypto_generichash_update(&s->hash, p, n);
	s->n_hashed += n;
	return 0;
}

int files_stage_fd(struct files_staged *s)
{
	return s->fd;
}

void files_stage_free(struct files_staged *s)
{
	if (s == NULL)
		return;
	if (s->name[0] != '\0')
		(void)unlinkat(s->dirfd, s->name, 0);
	quota_credit(s->ws, s->charged);
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->dirfd >= 0)
		(void)close(s->dirfd);
	free(s);
}

/* give_name() - link it into the staging folder */
static int give_name(struct files_staged *s)
{
	char proc[PATH_PROC_LEN];

	if (s->name[0] != '\0')
		return 0;
	make_name(s->name);
	if (linkat(AT_FDCWD, path_proc(proc, s->fd), s->dirfd, s->name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	s->name[0] = '\0';
	return -errno;
}

/* ---- attributes of the file that is replaced ---------------------------- */

/* What may be taken over: users' own, and the ACL, which may be what lets a sandbox in. */
static bool is_kept_xattr(const char *name)
{
	return strncmp(name, "user.", 5) == 0 || strcmp(name, "system.posix_acl_access") == 0;
}

/* keep_xattrs() - as far as it goes: a file system without them has none to lose */
static void keep_xattrs(int old_path_fd, int fd)
{
	char proc[PATH_PROC_LEN];
	auto_free char *names = malloc(XATTRS_MAX);
	auto_free char *value = NULL;
	ssize_t n;

	if (names == NULL)
		return;
	n = listxattr(path_proc(proc, old_path_fd), names, XATTRS_MAX);
	for (const char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
		ssize_t len;

		if (!is_kept_xattr(p))
			continue;
		if (value == NULL)
			value = malloc(XATTRS_MAX);
		len = value != NULL ? getxattr(proc, p, value, XATTRS_MAX) : -1;
		if (len >= 0)
			(void)fsetxattr(fd, p, value, (size_t)len, 0);
	}
}

/* take_attributes() - from what is at @p, or those of a new file; *@ret_is_new tells */
static int take_attributes(struct files_staged *s, const struct files_place *p, unsigned flags,
			   mode_t mode, bool *ret_is_new)
{
	struct files_info info;
	auto_close int old = files_open_at(p, &info);

	*ret_is_new = old == -ENOENT;
	if (old < 0 && old != -ENOENT)
		return old;
	if (old >= 0) {
		if (S_ISDIR(info.mode))
			return -EISDIR;
		if (!S_ISREG(info.mode) && !S_ISLNK(info.mode))
			return -ENXIO;
		if (S_ISREG(info.mode) && (flags & PUT_MODE) == 0) {
			mode = info.mode;
			keep_xattrs(old, s->fd);
		}
	}
	return fchmod(s->fd, mode & 07777) < 0 ? -errno : 0;
}

/* ---- putting in place --------------------------------------------------- */

static int fill_result(struct files_staged *s, bool is_new, struct files_result *ret)
{
	int rc = files_info_fd(s->fd, &ret->info);

	ret->is_new = is_new;
	if (rc < 0)
		return rc;
	if (s->n_hashed != ret->info.size || s->n_hashed > FILES_ETAG_CONTENT_MAX)
		return files_etag_fd(s->fd, &ret->info, ret->etag);
	files_etag_final(&s->hash, ret->etag);
	return 0;
}

/* charge_whole() - what it has really become, whoever wrote it */
static int charge_whole(struct files_staged *s)
{
	struct files_info info;
	int rc = files_info_fd(s->fd, &info);

	return rc < 0 ? rc : files_stage_charge(s, info.size);
}

/* move_there() - give up the staged name for that at @p, and with it what it was charged */
static int move_there(struct files_staged *s, const struct files_place *p)
{
	struct quota_victim old;
	struct quota_op quota = { 0 };
	int rc = 0;

	quota_look(&old, s->ws, p->dirfd, p->name);
	if (old.amount.files > 0)
		old.amount.files = 0; /* one for the other */
	else
		rc = quota_file_begin(&quota, s->ws);
	if (rc < 0)
		return rc;
	rc = renameat(s->dirfd, s->name, p->dirfd, p->name) < 0 ? -errno : 0;
	quota_file_end(&quota, rc == 0);
	if (rc < 0)
		return rc;
	quota_victim_gone(s->ws, &old);
	s->name[0] = '\0';
	s->charged = 0;
	return 0;
}

int files_put_at(struct files_staged *s, const struct files_place *p, unsigned flags, mode_t mode,
		 struct files_result *ret)
{
	auto_event_op struct event_op op = event_op_begin(s->ws, DOOR_HTTP);
	bool is_new;
	int rc = take_attributes(s, p, flags, mode, &is_new);

	if (rc == 0)
		rc = charge_whole(s);
	if (rc == 0 && (flags & PUT_SYNC) != 0 && fsync(s->fd) < 0)
		rc = -errno;
	if (rc == 0)
		rc = give_name(s);
	if (rc == 0)
		rc = move_there(s, p);
	if (rc < 0)
		return rc;
	event_op_name(&op, is_new ? EVENT_CREATED : EVENT_MODIFIED, p->dirfd, p->name);
	return ret != NULL ? fill_result(s, is_new, ret) : 0;
}

/* ---- appending ---------------------------------------------------------- */

static int append_bytes(int from, int to)
{
	auto_free char *p = malloc(FILES_IO_SIZE);
	off_t off = 0;

	if (p == NULL)
		return -ENOMEM;
	for (;;) {
		ssize_t n = io_pread_full(from, p, FILES_IO_SIZE, off);

		if (n > 0) {
			off += n;
			n = io_write_full(to, p, (size_t)n);
		}
		if (n <= 0)
			return (int)n;
	}
}

/* append_at() - all of the staged bytes behind those of @path_fd, or none */
static int append_at(struct files_staged *s, int path_fd, struct files_result *ret)
{
	auto_event_op struct event_op op = event_op_begin(s->ws, DOOR_HTTP);
	auto_close int fd = path_reopen(path_fd, O_RDWR | O_APPEND);
	struct files_info before;
	struct quota_op quota;
	int rc;

	if (fd < 0)
		return fd;
	rc = files_info_fd(fd, &before);
	if (rc < 0)
		return rc;
	rc = quota_size_begin(&quota, s->ws, fd, before.size + s->n_hashed, true);
	if (rc < 0)
		return rc;
	rc = append_bytes(s->fd, fd);
	quota_size_end(&quota);
	if (rc == 0 && fdatasync(fd) < 0)
		rc = -errno;
	if (rc < 0)
		return ftruncate(fd, (off_t)before.size) < 0 ? -EIO : rc;
	event_op_inode(&op, EVENT_MODIFIED, fd, S_IFREG);
	ret->is_new = false;
	rc = files_info_fd(fd, &ret->info);
	return rc < 0 ? rc : files_etag_fd(fd, &ret->info, ret->etag);
}

/* ---- the whole ---------------------------------------------------------- */

static int put_locked(struct files_staged *s, const struct files_place *p,
		      const struct files_condition *c, unsigned flags, struct files_result *ret)
{
	auto_close int old = -1;
	struct files_info info;
	int rc = files_check_place(p, c);

	if (rc < 0)
		return rc;
	if ((flags & (FILES_APPEND | FILES_EXISTING)) != 0) {
		old = files_open_at(p, &info);
		if (old < 0 && (old != -ENOENT || (flags & FILES_EXISTING) != 0))
			return old;
	}
	if (old >= 0 && (flags & FILES_APPEND) != 0) {
		if (!S_ISREG(info.mode))
			return S_ISDIR(info.mode) ? -EISDIR : -ENXIO;
		return append_at(s, old, ret);
	}
	return files_put_at(s, p, PUT_SYNC, FILES_FILE_MODE, ret);
}

/* find_place() - parents are made only when the condition allows something new there */
static int find_place(struct workspace *ws, const char *rel, const struct files_condition *c,
		      unsigned flags, struct files_place *ret)
{
	int rc = files_place_find(ws, rel, PLACE_FOLLOW, ret);

	if (rc != -ENOENT)
		return rc;
	rc = files_condition_check(c, NULL, NULL);
	if (rc < 0)
		return rc;
	if ((flags & FILES_EXISTING) != 0)
		return -ENOENT;
	return files_place_find(ws, rel, PLACE_FOLLOW | PLACE_PARENTS, ret);
}

int files_replace(struct workspace *ws, const char *rel, struct files_staged *s,
		  const struct files_condition *c, unsigned flags, struct files_result *ret)
{
	auto_place struct files_place p = FILES_PLACE_NONE;
	struct files_lock *lock;
	int rc = find_place(ws, rel, c, flags, &p);

	if (rc < 0)
		return rc;
	rc = files_lock_take(&p, &lock);
	if (rc < 0)
		return rc;
	rc = put_locked(s, &p, c, flags, ret);
	files_lock_release(lock);
	return rc;
}

int files_write_whole(struct workspace *ws, const char *rel, const void *p, size_t n,
		      const struct files_condition *c, unsigned flags, struct files_result *ret)
{
	struct files_staged *s;
	int rc = files_stage_open(ws, &s);

	if (rc < 0)
		return rc;
	rc = files_stage_write(s, p, n);
	if (rc == 0)
		rc = files_replace(ws, rel, s, c, flags, ret);
	files_stage_free(s);
	return rc;
}
