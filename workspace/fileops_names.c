/* SPDX-License-Identifier: MIT */
/* File operations of every door (see fileops.h): names, and listing them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workspace/fileops.h"
#include "workspace/fileops_priv.h"
#include "workspace/path.h"
#include "workspace/quota.h"

/* Times that a name may come and go between two looks at it before the client is asked to wait. */
#define CREATE_TRIES 16

/* Inline too, unless the workspace has just been slow: then only what the kernel has in its caches.
 */
static int lookup_name(const struct fileops *f, struct inode *dir, const char *name,
		       struct inode **ret)
{
	struct stall stall;
	int rc;

	if (!stall_begin(f, dir->ws, &stall))
		return inode_lookup(f->inodes, dir, name, false, ret);
	rc = inode_lookup(f->inodes, dir, name, true, ret);
	stall_end(&stall);
	return rc;
}

int fileops_lookup(const struct fileops *f, struct inode *dir, const char *name, struct inode **ret)
{
	int rc;

	if (!S_ISDIR(dir->type))
		return -ENOTDIR;
	rc = fileops_need(f, dir, X_OK);
	if (rc < 0)
		return rc;
	if (strcmp(name, ".") == 0) {
		inode_ref(dir);
		*ret = dir;
		return 0;
	}
	if (strcmp(name, "..") == 0) {
		if (!f->may_block && dir->ino != dir->ws->root_ino)
			return -EAGAIN; /* a walk to the root */
		return inode_parent(f->inodes, dir, ret);
	}
	return lookup_name(f, dir, name, ret);
}

/* To remove or replace a name: in a sticky directory only the owner may (everything here is his).
 */
static int need_for_removal(const struct fileops *f, struct inode *dir)
{
	struct statx stx;
	int rc;

	if (f->acts_as_owner)
		return 0;
	rc = fileops_stat(f, dir, &stx);
	if (rc < 0)
		return rc;
	if ((fileops_rights(f, &stx) & (W_OK | X_OK)) != (W_OK | X_OK) ||
	    (stx.stx_mode & S_ISVTX) != 0)
		return -EACCES;
	return 0;
}

static int begin_change(const struct fileops *f, struct inode *dir, struct stall *stall)
{
	*stall = (struct stall){ 0 };
	if (!S_ISDIR(dir->type))
		return -ENOTDIR;
	return stall_begin(f, dir->ws, stall) ? 0 : -EAGAIN;
}

/* A name that is taken is told as such also when nothing new may be made: 0, -EEXIST, -EDQUOT. */
static int new_begin(struct quota_op *quota, const struct inode *dir, const char *name)
{
	struct stat st;
	int rc = quota_file_begin(quota, dir->ws);

	if (rc == -EDQUOT && fstatat(dir->path_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return rc;
}

static int new_end(struct quota_op *quota, int rc)
{
	quota_file_end(quota, rc >= 0);
	return rc;
}

/* What is left of a create's attributes once the object exists; a failure takes the object away
 * again. */
static int finish_create(const struct fileops *f, struct inode *dir, const char *name,
			 const struct fileops_attr *a, unsigned done, bool is_dir,
			 struct inode *ino)
{
	struct fileops all = *f;
	struct fileops_attr rest = *a;
	struct quota_victim victim;
	int rc;

	rest.set &= ~(done | SET_UID | SET_GID);
	if (rest.set == 0)
		return 0;
	all.acts_as_owner = true; /* whoever may create may say what it is to look like */
	all.may_block = true;     /* the object is there: this cannot be begun again */
	all.door = DOOR_NONE;     /* it is told as a creation */
	rc = fileops_setattr(&all, ino, &rest, NULL);
	if (rc < 0) {
		quota_look(&victim, dir->ws, dir->path_fd, name);
		if (unlinkat(dir->path_fd, name, is_dir ? AT_REMOVEDIR : 0) == 0)
			quota_victim_gone(dir->ws, &victim);
		inode_forget(f->inodes, ino);
		inode_unref(f->inodes, ino);
	}
	return rc;
}

/*
 * The verifier of an exclusive create is kept in the new file's times until the client sets them
 * (RFC 1813 section 3.3.8): 31 bits in each time's seconds, the top bit in its nanoseconds, so that
 * all 64 bits are kept where seconds are signed 32-bit numbers.
 */
static void verf_to_times(const uint8_t verf[8], struct timespec ts[2])
{
	for (int i = 0; i < 2; i++) {
		const uint8_t *p = verf + 4 * i;
		uint32_t v =
			(uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];

		ts[i].tv_sec = v & 0x7fffffffu;
		ts[i].tv_nsec = 1000 + (v >> 31);
	}
}

static bool has_verf(const struct statx *stx, const uint8_t verf[8])
{
	struct timespec ts[2];

	verf_to_times(verf, ts);
	return S_ISREG(stx->stx_mode) && stx->stx_size == 0 &&
	       stx->stx_atime.tv_sec == ts[0].tv_sec &&
	       (long)stx->stx_atime.tv_nsec == ts[0].tv_nsec &&
	       stx->stx_mtime.tv_sec == ts[1].tv_sec &&
	       (long)stx->stx_mtime.tv_nsec == ts[1].tv_nsec;
}

/* The name is taken: what does @how make of that? */
static int create_existing(const struct fileops *f, struct inode *dir, const char *name,
			   enum fileops_create_how how, const struct fileops_attr *a,
			   const uint8_t verf[8], struct inode **ret)
{
	struct fileops_attr size_only = { .set = a->set & SET_SIZE, .size = a->size };
	struct inode *ino;
	struct statx stx;
	int rc;

	if (how == CREATE_GUARDED)
		return -EEXIST;
	rc = lookup_name(f, dir, name, &ino);
	if (rc < 0)
		return rc == -EXDEV ? -EEXIST : rc;
	rc = fileops_stat(f, ino, &stx);
	if (rc == 0 && how == CREATE_EXCLUSIVE && !has_verf(&stx, verf))
		rc = -EEXIST;
	if (rc == 0 && !S_ISREG(ino->type))
		rc = -EEXIST;
	if (rc == 0 && how == CREATE_UNCHECKED && size_only.set != 0) {
		/* the owner's own mode bits count here: this is an open(2) with O_TRUNC */
		rc = (fileops_rights(f, &stx) & W_OK) != 0
			     ? fileops_setattr(f, ino, &size_only, NULL)
			     : -EACCES;
	}
	if (rc < 0) {
		inode_unref(f->inodes, ino);
		return rc;
	}
	*ret = ino;
	return 0;
}

/* An O_PATH descriptor and the inode for a file that was just created and is open as @fd (taken).
 */
static int adopt_created(const struct fileops *f, struct inode *dir, const char *name, int fd,
			 struct inode **ret)
{
	int path_fd = path_reopen(fd, O_PATH);
	int rc;

	if (path_fd < 0) {
		(void)close(fd);
		return path_fd;
	}
	rc = inode_adopt(f->inodes, dir, name, path_fd, ret);
	if (rc < 0) {
		(void)close(fd);
		return rc;
	}
	inode_io_adopt(f->inodes, *ret, fd);
	return 0;
}

static int create_file(const struct fileops *f, struct inode *dir, const char *name,
		       enum fileops_create_how how, const struct fileops_attr *a,
		       const uint8_t verf[8], struct inode **ret)
{
	auto_event_op struct event_op op = event_op_begin(dir->ws, f->door);
	/* A file made exclusively has no attributes yet: private until the client sets them. */
	mode_t mode = how == CREATE_EXCLUSIVE    ? 0600
		      : (a->set & SET_MODE) != 0 ? a->mode & 07777
						 : 0644;
	struct timespec ts[2];
	struct quota_op quota;
	int fd, rc;

	fd = new_begin(&quota, dir, name);
	if (fd == 0)
		fd = new_end(&quota,
			     path_open(dir->path_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW,
				       mode & 0777, PATH_NOFOLLOW_ALL));
	if (fd == -EEXIST)
		return create_existing(f, dir, name, how, a, verf, ret);
	if (fd < 0)
		return fd;
	if (how == CREATE_EXCLUSIVE) {
		verf_to_times(verf, ts);
		if (futimens(fd, ts) < 0) {
			rc = -errno;
			(void)close(fd);
			return rc;
		}
		event_op_name(&op, EVENT_CREATED, dir->path_fd, name);
		return adopt_created(f, dir, name, fd, ret);
	}
	event_op_name(&op, EVENT_CREATED, dir->path_fd, name);
	rc = adopt_created(f, dir, name, fd, ret);
	if (rc < 0)
		return rc;
	/* a new file has size 0; set-id bits are not taken from open(2) */
	return finish_create(f, dir, name, a,
			     ((mode & 07000) == 0 ? SET_MODE : 0) | (a->size == 0 ? SET_SIZE : 0),
			     false, *ret);
}

static int create_once(const struct fileops *f, struct inode *dir, const char *name,
		       enum fileops_create_how how, const struct fileops_attr *a,
		       const uint8_t verf[8], struct inode **ret)
{
	int rc = fileops_need(f, dir, W_OK | X_OK);

	if (rc == 0)
		rc = create_file(f, dir, name, how, a, verf, ret);
	/* An existing file may be opened in a directory that cannot be written. */
	if (rc == -EACCES && how == CREATE_UNCHECKED && fileops_need(f, dir, X_OK) == 0) {
		rc = create_existing(f, dir, name, how, a, verf, ret);
		if (rc == -ENOENT)
			rc = -EACCES;
	}
	return rc;
}

int fileops_create(const struct fileops *f, struct inode *dir, const char *name,
		   enum fileops_create_how how, const struct fileops_attr *a, const uint8_t verf[8],
		   struct inode **ret)
{
	struct statx stx;
	struct stall stall;
	int rc = begin_change(f, dir, &stall);

	if (rc == 0)
		rc = fileops_check_attr(f, dir->ws, a);
	if (rc < 0)
		return rc;
	/* ENOENT: the directory was removed, or an existing name went while we looked at it: then
	 * once more. */
	for (int i = 0; i < CREATE_TRIES; i++) {
		rc = create_once(f, dir, name, how, a, verf, ret);
		if (rc != -ENOENT)
			break;
		rc = fileops_stat(f, dir, &stx);
		if (rc < 0)
			break;
		rc = -EINPROGRESS;
	}
	stall_end(&stall);
	return rc;
}

/* After mkdirat and its like: the inode, and the attributes that the call could not give. */
static int finish_made(const struct fileops *f, struct inode *dir, const char *name,
		       const struct fileops_attr *a, unsigned done, bool is_dir, struct inode **ret)
{
	int rc = inode_lookup(f->inodes, dir, name, true, ret);

	if (rc < 0)
		return rc;
	return finish_create(f, dir, name, a, done | SET_SIZE, is_dir, *ret);
}

static int begin_make(const struct fileops *f, struct inode *dir, const struct fileops_attr *a,
		      struct stall *stall)
{
	int rc = begin_change(f, dir, stall);

	if (rc == 0)
		rc = fileops_check_attr(f, dir->ws, a);
	if (rc == 0)
		rc = fileops_need(f, dir, W_OK | X_OK);
	return rc;
}

static int made(int rc)
{
	if (rc == 0)
		return 0;
	return errno == ENOENT ? -ESTALE : -errno; /* a name cannot be missing: the directory is */
}

int fileops_mkdir(const struct fileops *f, struct inode *dir, const char *name,
		  const struct fileops_attr *a, struct inode **ret)
{
	mode_t mode = (a->set & SET_MODE) != 0 ? a->mode & 07777 : 0755;
	auto_event_op struct event_op op = event_op_begin(dir->ws, f->door);
	struct stall stall;
	struct quota_op quota;
	int rc = begin_make(f, dir, a, &stall);

	if (rc < 0)
		return rc;
	rc = new_begin(&quota, dir, name);
	if (rc == 0)
		rc = new_end(&quota, made(mkdirat(dir->path_fd, name, mode & 01777)));
	if (rc == 0)
		event_op_name(&op, EVENT_CREATED, dir->path_fd, name);
	if (rc == 0)
		rc = finish_made(f, dir, name, a, (mode & 06000) == 0 ? SET_MODE : 0, true, ret);
	stall_end(&stall);
	return rc;
}

int fileops_symlink(const struct fileops *f, struct inode *dir, const char *name,
		    const char *target, const struct fileops_attr *a, struct inode **ret)
{
	auto_event_op struct event_op op = event_op_begin(dir->ws, f->door);
	struct stall stall;
	struct quota_op quota;
	int rc = begin_make(f, dir, a, &stall);

	if (rc < 0)
		return rc;
	rc = new_begin(&quota, dir, name);
	if (rc == 0)
		rc = new_end(&quota, made(symlinkat(target, dir->path_fd, name)));
	if (rc == 0)
		event_op_name(&op, EVENT_CREATED, dir->path_fd, name);
	if (rc == 0)
		rc = finish_made(f, dir, name, a, SET_MODE, false, ret); /* links have no mode */
	stall_end(&stall);
	return rc;
}

int fileops_mknod(const struct fileops *f, struct inode *dir, const char *name, mode_t type,
		  const struct fileops_attr *a, struct inode **ret)
{
	mode_t mode = (a->set & SET_MODE) != 0 ? a->mode & 07777 : 0644;
	auto_event_op struct event_op op = event_op_begin(dir->ws, f->door);
	struct stall stall;
	struct quota_op quota;
	int rc;

	if (type != S_IFIFO && type != S_IFSOCK)
		return -EPERM;
	rc = begin_make(f, dir, a, &stall);
	if (rc < 0)
		return rc;
	rc = new_begin(&quota, dir, name);
	if (rc == 0)
		rc = new_end(&quota, made(mknodat(dir->path_fd, name, type | (mode & 0777), 0)));
	if (rc == 0)
		event_op_name(&op, EVENT_CREATED, dir->path_fd, name);
	if (rc == 0)
		rc = finish_made(f, dir, name, a, (mode & 07000) == 0 ? SET_MODE : 0, false, ret);
	stall_end(&stall);
	return rc;
}

/* What a name is before it goes: so that the last link's descriptors are closed, and to see what it
 * costs. */
struct victim {
	bool has_key;
	struct inode_key key;
	struct quota_victim quota;
};

static int look_at_victim(const struct fileops *f, struct inode *dir, const char *name,
			  struct victim *v)
{
	struct statx stx;

	v->has_key = false;
	quota_look(&v->quota, dir->ws, dir->path_fd, name);
	if (!f->may_block) {
		if (statx(dir->path_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
			  STATX_BASIC_STATS, &stx) < 0)
			return errno == ENOENT ? 0 : -errno;
		if (stx.stx_nlink == 1 && stx.stx_blocks * 512 > INLINE_FREE_MAX)
			return -EAGAIN; /* freeing that many blocks takes a while */
	}
	v->has_key = inode_key_at(f->inodes, dir, name, &v->key) == 0;
	return 0;
}

static void victim_is_gone(const struct fileops *f, const struct inode *dir, const struct victim *v)
{
	quota_victim_gone(dir->ws, &v->quota);
	if (v->has_key)
		inode_forget_key(f->inodes, &v->key);
}

static int remove_name(const struct fileops *f, struct inode *dir, const char *name, int flags)
{
	auto_event_op struct event_op op = event_op_begin(dir->ws, f->door);
	struct victim v;
	struct stall stall;
	int rc = begin_change(f, dir, &stall);

	if (rc == 0)
		rc = need_for_removal(f, dir);
	if (rc == 0)
		rc = look_at_victim(f, dir, name, &v);
	if (rc < 0)
		return rc;
	event_op_look(&op, dir->path_fd, name);
	if (unlinkat(dir->path_fd, name, flags) < 0)
		rc = -errno;
	else
		victim_is_gone(f, dir, &v);
	if (rc == 0)
		event_op_name(&op, EVENT_REMOVED, dir->path_fd, name);
	stall_end(&stall);
	return rc == -EBUSY ? -EXDEV : rc; /* a mount point of the server */
}

int fileops_remove(const struct fileops *f, struct inode *dir, const char *name)
{
	return remove_name(f, dir, name, 0);
}

int fileops_rmdir(const struct fileops *f, struct inode *dir, const char *name)
{
	int rc = remove_name(f, dir, name, AT_REMOVEDIR);

	return rc == -EEXIST ? -ENOTEMPTY : rc;
}

int fileops_rename(const struct fileops *f, struct inode *from_dir, const char *from,
		   struct inode *to_dir, const char *to)
{
	auto_event_op struct event_op op = event_op_begin(from_dir->ws, f->door);
	struct victim v;
	struct stall stall;
	int rc;

	if (from_dir->ws != to_dir->ws)
		return -EXDEV;
	rc = begin_change(f, from_dir, &stall);
	if (rc == 0 && !S_ISDIR(to_dir->type))
		rc = -ENOTDIR;
	if (rc == 0)
		rc = need_for_removal(f, from_dir);
	if (rc == 0)
		rc = need_for_removal(f, to_dir);
	if (rc == 0)
		rc = look_at_victim(f, to_dir, to, &v);
	if (rc < 0)
		return rc;
	if (renameat(from_dir->path_fd, from, to_dir->path_fd, to) < 0)
		rc = -errno;
	else
		victim_is_gone(f, to_dir, &v);
	if (rc == 0)
		event_op_rename(&op, from_dir->path_fd, from, to_dir->path_fd, to);
	stall_end(&stall);
	if (rc == -EISDIR || rc == -ENOTDIR)
		return -EEXIST; /* a directory onto another kind of thing, or the reverse */
	if (rc == -EEXIST)
		return -ENOTEMPTY;
	return rc == -EBUSY ? -EXDEV : rc;
}

int fileops_link(const struct fileops *f, struct inode *ino, struct inode *dir, const char *name)
{
	auto_event_op struct event_op op = event_op_begin(dir->ws, f->door);
	char proc[PATH_PROC_LEN];
	struct stall stall;
	int rc;

	if (ino->ws != dir->ws)
		return -EXDEV;
	rc = begin_change(f, dir, &stall);
	if (rc == 0)
		rc = fileops_need(f, dir, W_OK | X_OK);
	if (rc < 0)
		return rc;
	if (S_ISDIR(ino->type))
		return -EISDIR;
	if (linkat(AT_FDCWD, path_proc(proc, ino->path_fd), dir->path_fd, name, AT_SYMLINK_FOLLOW) <
	    0)
		rc = errno == ENOENT ? -ESTALE : -errno; /* file or directory has been removed */
	if (rc == 0)
		event_op_name(&op, EVENT_CREATED, dir->path_fd, name);
	stall_end(&stall);
	return rc;
}

ssize_t fileops_readlink(const struct fileops *f, struct inode *ino, char *dst, size_t len)
{
	ssize_t n;

	(void)f;
	if (!S_ISLNK(ino->type))
		return -EINVAL;
	n = readlinkat(ino->path_fd, "", dst, len);
	return n < 0 ? -errno : n;
}

/* ---- listing ------------------------------------------------------------ */

/* bytes: about what one READDIRPLUS reply of 64 KiB takes; more would be read twice */
#define DENTS_BYTES (8u << 10)

struct linux_dirent {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

/* True: go on. */
static bool deliver(struct inode *dir, const struct linux_dirent *e,
		    bool (*fn)(void *arg, const struct fileops_dirent *e), void *arg)
{
	struct fileops_dirent out = {
		.ino = e->ino,
		.cookie = (uint64_t)e->off,
		.name = e->name,
		.name_len = strlen(e->name),
		.type = e->type,
	};

	if (dir->ino == dir->ws->root_ino && strcmp(e->name, "..") == 0)
		out.ino = dir->ino;
	return fn(arg, &out);
}

int fileops_readdir(const struct fileops *f, struct inode *dir, uint64_t cookie,
		    bool (*fn)(void *arg, const struct fileops_dirent *e), void *arg, bool *ret_eof)
{
	_Alignas(struct linux_dirent) char dents[DENTS_BYTES];
	auto_close int fd = -1;
	long n;
	int rc;

	*ret_eof = false;
	if (!S_ISDIR(dir->type))
		return -ENOTDIR;
	if (!f->may_block)
		return -EAGAIN;
	rc = fileops_need(f, dir, R_OK);
	if (rc < 0)
		return rc;
	if (cookie > INT64_MAX)
		return -EBADR;
	fd = path_open(dir->path_fd, ".", O_RDONLY | O_DIRECTORY, 0, 0);
	if (fd < 0)
		return fd;
	if (cookie != 0 && lseek(fd, (off_t)cookie, SEEK_SET) < 0)
		return -EBADR;
	for (;;) {
		n = syscall(SYS_getdents64, fd, dents, sizeof(dents));
		if (n < 0)
			return errno == ENOENT ? -ESTALE : -errno;
		if (n == 0)
			break;
		for (long at = 0; at < n;) {
			const struct linux_dirent *e = (const struct linux_dirent *)(dents + at);

			if (!deliver(dir, e, fn, arg))
				return 0;
			at += e->reclen;
		}
	}
	*ret_eof = true;
	return 0;
}
