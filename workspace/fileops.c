/* SPDX-License-Identifier: MIT */
/* File operations of every door (see fileops.h): attributes and data.  Names are in
 * fileops_names.c. */
#include "workspace/fileops.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "workspace/fileops_priv.h"
#include "workspace/path.h"
#include "workspace/quota.h"

/* ---- attributes and rights ---------------------------------------------- */

int fileops_stat(const struct fileops *f, struct inode *ino, struct statx *ret)
{
	if (statx(ino->path_fd, "", AT_EMPTY_PATH | AT_STATX_SYNC_AS_STAT, FILEOPS_STATX, ret) < 0)
		return -errno;
	if (ret->stx_nlink == 0) {
		inode_forget(f->inodes, ino);
		return -ESTALE;
	}
	return 0;
}

unsigned fileops_rights(const struct fileops *f, const struct statx *stx)
{
	/* R_OK, W_OK and X_OK are 4, 2 and 1: the bits of a mode's digit */
	return (f->acts_as_owner ? stx->stx_mode >> 6 : stx->stx_mode) & 7u;
}

int fileops_need(const struct fileops *f, struct inode *ino, unsigned rights)
{
	struct statx stx;
	int rc;

	if (f->acts_as_owner)
		return 0;
	rc = fileops_stat(f, ino, &stx);
	if (rc < 0)
		return rc;
	return (fileops_rights(f, &stx) & rights) == rights ? 0 : -EACCES;
}

int fileops_check_attr(const struct fileops *f, const struct workspace *ws,
		       const struct fileops_attr *a)
{
	if ((a->set & SET_UID) != 0 && a->uid != ws->owner_uid)
		return -EPERM;
	if ((a->set & SET_GID) != 0 && a->gid != ws->owner_gid)
		return -EPERM;
	if (!f->acts_as_owner && (a->set & (SET_UID | SET_GID)) != 0)
		return -EPERM;
	return 0;
}

static int check_setattr(const struct fileops *f, struct inode *ino, const struct fileops_attr *a,
			 const struct statx *now)
{
	unsigned rights = fileops_rights(f, now);
	int rc = fileops_check_attr(f, ino->ws, a);

	if (rc < 0)
		return rc;
	if ((a->set & SET_SIZE) != 0) {
		if (!S_ISREG(ino->type))
			return -EINVAL;
		if (a->size > INT64_MAX)
			return -EFBIG;
		if (!f->acts_as_owner && (rights & W_OK) == 0)
			return -EACCES;
	}
	if ((a->set & SET_MODE) != 0 && S_ISLNK(ino->type))
		return -EINVAL;
	if (f->acts_as_owner)
		return 0;
	if ((a->set & (SET_MODE | SET_ATIME | SET_MTIME)) != 0)
		return -EPERM;
	if ((a->set & (SET_ATIME_NOW | SET_MTIME_NOW)) != 0 && (rights & W_OK) == 0)
		return -EACCES;
	return 0;
}

static int set_size(const struct fileops *f, struct inode *ino, const struct statx *now,
		    uint64_t size)
{
	struct inode_io *io;
	struct quota_op quota;
	int rc;

	if (!f->may_block && size < now->stx_size && now->stx_blocks * 512 > INLINE_FREE_MAX)
		return -EAGAIN;
	rc = inode_io_get(f->inodes, ino, true, f->may_block, &io);
	if (rc < 0)
		return rc;
	rc = quota_size_begin(&quota, ino->ws, io->fd, size, f->may_block);
	if (rc == 0) {
		do
			rc = ftruncate(io->fd, (off_t)size) < 0 ? -errno : 0;
		while (rc == -EINTR);
		quota_size_end(&quota);
	}
	inode_io_put(io);
	return rc;
}

static struct timespec time_of(unsigned set, unsigned to_value, unsigned to_now,
			       struct timespec value)
{
	if ((set & to_now) != 0)
		return (struct timespec){ .tv_nsec = UTIME_NOW };
	if ((set & to_value) != 0)
		return value;
	return (struct timespec){ .tv_nsec = UTIME_OMIT };
}

static int set_rest(const struct fileops *f, struct inode *ino, const struct fileops_attr *a)
{
	char proc[PATH_PROC_LEN];
	struct timespec ts[2] = {
		time_of(a->set, SET_ATIME, SET_ATIME_NOW, a->atime),
		time_of(a->set, SET_MTIME, SET_MTIME_NOW, a->mtime),
	};

	/* The kernel clears set-id bits at any chown, also at one to the same owner. */
	if ((a->set & (SET_UID | SET_GID)) != 0 &&
	    fchownat(ino->path_fd, "", geteuid(), getegid(), AT_EMPTY_PATH) < 0)
		return -errno;
	if ((a->set & SET_MODE) != 0) {
		if (chmod(path_proc(proc, ino->path_fd), a->mode & 07777) < 0)
			return -errno;
		if ((a->mode & 0111) != 0 && S_ISREG(ino->type))
			inode_io_forget_write(f->inodes, ino);
	}
	if ((a->set & (SET_ATIME | SET_ATIME_NOW | SET_MTIME | SET_MTIME_NOW)) != 0 &&
	    utimensat(ino->path_fd, "", ts, AT_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

int fileops_setattr(const struct fileops *f, struct inode *ino, const struct fileops_attr *a,
		    const struct timespec *guard_ctime)
{
	auto_event_op struct event_op op = event_op_begin(ino->ws, f->door);
	struct statx now;
	struct stall stall;
	int rc = fileops_stat(f, ino, &now);

	if (rc < 0)
		return rc;
	if (guard_ctime != NULL && (guard_ctime->tv_sec != now.stx_ctime.tv_sec ||
				    guard_ctime->tv_nsec != (long)now.stx_ctime.tv_nsec))
		return -EBADE;
	rc = check_setattr(f, ino, a, &now);
	if (rc < 0)
		return rc;
	if (!stall_begin(f, ino->ws, &stall))
		return -EAGAIN;
	if ((a->set & SET_SIZE) != 0)
		rc = set_size(f, ino, &now, a->size);
	if (rc == 0)
		rc = set_rest(f, ino, a);
	if (rc == 0 && (a->set & SET_SIZE) != 0)
		event_op_inode(&op, EVENT_MODIFIED, ino->path_fd, ino->type);
	if (rc == 0 && (a->set & ~(unsigned)SET_SIZE) != 0)
		event_op_inode(&op, EVENT_ATTRIBUTES, ino->path_fd, ino->type);
	stall_end(&stall);
	return rc;
}

/* ---- data --------------------------------------------------------------- */

static ssize_t pread_some(int fd, void *dst, size_t len, uint64_t offset, int flags)
{
	struct iovec iov = { .iov_base = dst, .iov_len = len };
	ssize_t n;

	do
		n = preadv2(fd, &iov, 1, (off_t)offset, flags);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t read_now(struct inode_io *io, void *dst, size_t len, uint64_t offset)
{
	ssize_t n;

	if (__atomic_load_n(&io->nowait_ok, __ATOMIC_RELAXED)) {
		n = pread_some(io->fd, dst, len, offset, RWF_NOWAIT);
		if (n != -EOPNOTSUPP)
			return n;
		__atomic_store_n(&io->nowait_ok, false, __ATOMIC_RELAXED);
	}
	/* Without NOWAIT the file's pages are its only copy (tmpfs): reading does not wait for a
	 * disk. */
	return pread_some(io->fd, dst, len, offset, 0);
}

static ssize_t read_all(struct inode_io *io, uint8_t *dst, size_t len, uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pread_some(io->fd, dst + done, len - done, offset + done, 0);
		if (n < 0)
			return done > 0 ? (ssize_t)done : n;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int check_read(const struct fileops *f, struct inode *ino)
{
	struct statx stx;
	int rc;

	if (f->acts_as_owner)
		return 0;
	rc = fileops_stat(f, ino, &stx);
	if (rc < 0)
		return rc;
	/* Whoever may execute a file may have it read to execute it. */
	return (fileops_rights(f, &stx) & (R_OK | X_OK)) != 0 ? 0 : -EACCES;
}

ssize_t fileops_read(const struct fileops *f, struct inode *ino, uint64_t offset, void *dst,
		     size_t len, struct statx *ret_stx)
{
	struct inode_io *io;
	ssize_t n = 0;
	int rc;

	rc = check_read(f, ino);
	if (rc < 0)
		return rc;
	rc = inode_io_get(f->inodes, ino, false, f->may_block, &io);
	if (rc < 0)
		return rc;
	if (offset <= INT64_MAX && len > 0) {
		len = MIN(len, (size_t)((uint64_t)INT64_MAX - offset));
		n = f->may_block ? read_all(io, dst, len, offset) : read_now(io, dst, len, offset);
	}
	inode_io_put(io);
	if (n < 0)
		return n;
	rc = fileops_stat(f, ino, ret_stx);
	if (rc < 0)
		return rc;
	if (!f->may_block && (size_t)n < len && offset + (uint64_t)n < ret_stx->stx_size)
		return -EAGAIN; /* the rest is not in memory */
	return n;
}

static ssize_t write_all(struct inode_io *io, const uint8_t *data, size_t len, uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pwrite(io->fd, data + done, len - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return done > 0 ? (ssize_t)done : -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Where the pages are the only copy fsync(2) does nothing, and need not be waited for. */
static bool may_sync(const struct fileops *f, const struct inode *ino)
{
	return f->may_block || __atomic_load_n(&ino->ws->is_in_memory, __ATOMIC_RELAXED);
}

ssize_t fileops_write(const struct fileops *f, struct inode *ino, uint64_t offset, const void *data,
		      size_t len, enum fileops_stable stable)
{
	auto_event_op struct event_op op = event_op_begin(ino->ws, f->door);
	uint64_t lost = inode_lost_flushes(ino);
	struct inode_io *io;
	struct stall stall;
	struct quota_op quota;
	ssize_t n;
	int rc;

	if (stable == FILEOPS_SYNC && !may_sync(f, ino))
		return -EAGAIN;
	if (offset > INT64_MAX || len > (uint64_t)INT64_MAX - offset)
		return -EFBIG;
	rc = fileops_need(f, ino, W_OK);
	if (rc < 0)
		return rc;
	if (!stall_begin(f, ino->ws, &stall))
		return -EAGAIN;
	rc = inode_io_get(f->inodes, ino, true, f->may_block, &io);
	if (rc < 0)
		return rc;
	rc = quota_size_begin(&quota, ino->ws, io->fd, len > 0 ? offset + len : 0, f->may_block);
	n = rc < 0 ? rc : write_all(io, data, len, offset);
	quota_size_end(&quota);
	inode_io_put(io);
	stall_end(&stall);
	if (n > 0)
		event_op_inode(&op, EVENT_MODIFIED, ino->path_fd, ino->type);
	event_op_end(&op); /* what follows may take long */
	if (n >= 0 && stable == FILEOPS_SYNC) {
		rc = inode_sync(f->inodes, ino);
		if (rc == 0 && inode_lost_flushes(ino) != lost)
			rc = -EIO; /* another caller's flush took this data, and failed */
		if (rc < 0)
			return rc;
	}
	return n;
}

int fileops_commit(const struct fileops *f, struct inode *ino)
{
	int rc;

	if (!may_sync(f, ino))
		return -EAGAIN;
	rc = inode_sync(f->inodes, ino);
	/* A client commits when it closes the file: somebody may now want to execute it. */
	if (rc == 0 && S_ISREG(ino->type))
		inode_io_forget_write(f->inodes, ino);
	return rc;
}

int fileops_statfs(const struct fileops *f, struct inode *ino, struct statvfs *ret)
{
	(void)f;
	if (fstatvfs(ino->path_fd, ret) < 0)
		return -errno;
	quota_statvfs(ino->ws, ret);
	return 0;
}
