/* SPDX-License-Identifier: MIT */
/*
 * File operations as every door uses them: permission as the caller acts, containment, and what
 * must be on disk before we answer.  On disk everything belongs to the service user, so a caller
 * who acts as the owner is checked by the kernel itself; one who acts as "other" is checked here by
 * the mode's last three bits.
 *
 * Any thread.  With @may_block false, what would wait returns -EAGAIN and has changed nothing.
 * Names are one component each (path_name_check() passed) and NUL-terminated.
 */
#ifndef WORKSPACE_FILEOPS_H
#define WORKSPACE_FILEOPS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "workspace/events.h"
#include "workspace/inode.h"

struct fileops {
	struct inode_cache *inodes; /* borrowed */
	bool acts_as_owner;         /* else as "other" */
	bool may_block;
	enum event_door door; /* what the change is told to come by */
};

#define FILEOPS_STATX (STATX_BASIC_STATS | STATX_MNT_ID)

/* fileops_stat() - attributes; -ESTALE when the last link is gone (the entry is then forgotten) */
int fileops_stat(const struct fileops *f, struct inode *ino, struct statx *ret);

/* fileops_rights() - of R_OK, W_OK and X_OK those that the caller has by mode bits.  Pure. */
unsigned fileops_rights(const struct fileops *f, const struct statx *stx);

enum fileops_set {
	SET_MODE = 1u << 0,
	SET_UID = 1u << 1,
	SET_GID = 1u << 2,
	SET_SIZE = 1u << 3,
	SET_ATIME = 1u << 4,
	SET_ATIME_NOW = 1u << 5,
	SET_MTIME = 1u << 6,
	SET_MTIME_NOW = 1u << 7,
};

struct fileops_attr {
	unsigned set; /* enum fileops_set */
	mode_t mode;  /* permission bits */
	uid_t uid;
	gid_t gid;
	uint64_t size; /* bytes */
	struct timespec atime, mtime;
};

/**
 * fileops_setattr() - change attributes: all that is asked, or nothing and an error
 * @guard_ctime:	NULL, or the change time the caller has seen: another one is -EBADE
 * (NOT_SYNC)
 *
 * The owner may be "changed" to the one that is shown, which does nothing but clear set-id bits;
 * any other is -EPERM.  Everything that can be refused is checked before the first change. Return:
 * 0, -EPERM, -EACCES, -EINVAL, -EFBIG, -EBADE, -EAGAIN, -errno.
 */
int fileops_setattr(const struct fileops *f, struct inode *ino, const struct fileops_attr *a,
		    const struct timespec *guard_ctime);

/* fileops_check_attr() - would the owner fields of a create be refused?  0 or -EPERM. */
int fileops_check_attr(const struct fileops *f, const struct workspace *ws,
		       const struct fileops_attr *a);

/**
 * fileops_read() - bytes of a regular file
 * @ret_stx:	attributes after the read; the caller knows the end of file from its size
 *
 * The owner may read a file whose mode says he may not: whoever opened it before its mode changed
 * goes on reading (RFC 1813 section 4.4).  Serves READ. Return: bytes read (fewer only at the end
 * of the file), -EAGAIN, -EACCES, -EISDIR, -EINVAL, -errno.
 */
ssize_t fileops_read(const struct fileops *f, struct inode *ino, uint64_t offset, void *dst,
		     size_t len, struct statx *ret_stx);

enum fileops_stable { FILEOPS_UNSTABLE, FILEOPS_SYNC };

/**
 * fileops_write() - bytes into a regular file
 *
 * FILEOPS_SYNC: on disk, with the attributes, before it returns; calls for one file share an fsync.
 * Set-id bits are cleared by the kernel, as for any writer without privilege.
 * Return: bytes written (may be fewer), -EAGAIN, -EACCES, -EFBIG, -ENOSPC, -EDQUOT, -EIO, -errno.
 */
ssize_t fileops_write(const struct fileops *f, struct inode *ino, uint64_t offset, const void *data,
		      size_t len, enum fileops_stable stable);

/* fileops_commit() - what was written is on disk; also closes the writing descriptor.  -EAGAIN
 * unless may_block. */
int fileops_commit(const struct fileops *f, struct inode *ino);

/* fileops_lookup() - needs X_OK on the directory; "." and ".." included (the root's ".." is the
 * root) */
int fileops_lookup(const struct fileops *f, struct inode *dir, const char *name,
		   struct inode **ret);

enum fileops_create_how {
	CREATE_UNCHECKED, /* an existing regular file is fine; only @a->size is applied to it */
	CREATE_GUARDED,   /* an existing name is -EEXIST */
	CREATE_EXCLUSIVE, /* as guarded, but the same @verf again gives the file made before */
};

int fileops_create(const struct fileops *f, struct inode *dir, const char *name,
		   enum fileops_create_how how, const struct fileops_attr *a, const uint8_t verf[8],
		   struct inode **ret);
int fileops_mkdir(const struct fileops *f, struct inode *dir, const char *name,
		  const struct fileops_attr *a, struct inode **ret);
/* @target: NUL-terminated, not empty */
int fileops_symlink(const struct fileops *f, struct inode *dir, const char *name,
		    const char *target, const struct fileops_attr *a, struct inode **ret);
/* @type: S_IFIFO or S_IFSOCK; device nodes are -EPERM */
int fileops_mknod(const struct fileops *f, struct inode *dir, const char *name, mode_t type,
		  const struct fileops_attr *a, struct inode **ret);
int fileops_remove(const struct fileops *f, struct inode *dir,
		   const char *name); /* -EISDIR for directories */
int fileops_rmdir(const struct fileops *f, struct inode *dir, const char *name);
/* -EXDEV between workspaces; -EEXIST for a target of another kind (RFC 1813 section 3.3.14) */
int fileops_rename(const struct fileops *f, struct inode *from_dir, const char *from,
		   struct inode *to_dir, const char *to);
int fileops_link(const struct fileops *f, struct inode *ino, struct inode *dir, const char *name);
ssize_t fileops_readlink(const struct fileops *f, struct inode *ino, char *dst,
			 size_t len); /* bytes, not NUL-terminated */

struct fileops_dirent {
	uint64_t ino;
	uint64_t cookie; /* the kernel's d_off: continue after this entry */
	const char *name;
	size_t name_len;
	unsigned char type; /* DT_... */
};

/**
 * fileops_readdir() - entries after @cookie (0: from the start)
 * @fn:		called for each; false: this entry did not fit, stop before it
 * @ret_eof:	the last entry was delivered
 *
 * Cookies are the file system's own, which stay valid while other entries come and go.  ".." of the
 * root is shown with the root's number.  Blocks.  Return: 0, -EACCES, -EBADR (a cookie the file
 * system refuses), -errno.
 */
int fileops_readdir(const struct fileops *f, struct inode *dir, uint64_t cookie,
		    bool (*fn)(void *arg, const struct fileops_dirent *e), void *arg,
		    bool *ret_eof);

int fileops_statfs(const struct fileops *f, struct inode *ino, struct statvfs *ret);

#endif
