/* SPDX-License-Identifier: MIT */
/*
 * The two sides differ in little: NFS has no blocks but bytes, no block size, and its device
 * numbers in two words.  What matters is the owner.  A workspace belongs to one user on the server,
 * whose number means nothing here; the mounting user is shown instead, so that the kernel's
 * permission checks and the user's tools see what is true in practice: these files are mine.
 */
#include "fuse-client/fuse_attr.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

#define BLOCK_SIZE                                                                                 \
	(1u                                                                                        \
	 << 20) /* bytes: what st_blksize tells programs to read and write at once              \
		    */

mode_t fuse_attr_type(ftype3 type)
{
	static const mode_t types[] = {
		[NF3REG] = S_IFREG, [NF3DIR] = S_IFDIR,   [NF3BLK] = S_IFBLK,  [NF3CHR] = S_IFCHR,
		[NF3LNK] = S_IFLNK, [NF3SOCK] = S_IFSOCK, [NF3FIFO] = S_IFIFO,
	};

	return (size_t)type < ARRAY_LEN(types) ? types[type] : 0;
}

static struct timespec to_timespec(const nfstime3 *t)
{
	/* Seconds are 32 bits on the wire; what a server means by the upper half is the future. */
	return (struct timespec){ .tv_sec = t->seconds, .tv_nsec = t->nseconds % 1000000000u };
}

void fuse_attr_to_stat(const fattr3 *a, const struct fuse_attr_map *map, struct stat *ret)
{
	mode_t type = fuse_attr_type(a->type);
	mode_t hidden = type == S_IFLNK ? 0 : map->umask;

	*ret = (struct stat){
		.st_ino = a->fileid,
		.st_mode = type | (a->mode & 07777 & ~hidden),
		.st_nlink = a->nlink,
		.st_uid = map->is_on ? map->uid : a->uid,
		.st_gid = map->is_on ? map->gid : a->gid,
		.st_rdev = makedev(a->rdev.specdata1, a->rdev.specdata2),
		.st_size = (off_t)a->size,
		.st_blksize = BLOCK_SIZE,
		.st_blocks = (blkcnt_t)((a->used + 511) / 512),
		.st_atim = to_timespec(&a->atime),
		.st_mtim = to_timespec(&a->mtime),
		.st_ctim = to_timespec(&a->ctime),
	};
}

/* ---- changes ------------------------------------------------------------ */

static nfstime3 from_timespec(const struct timespec *t)
{
	time_t s = t->tv_sec < 0 ? 0 : t->tv_sec > UINT32_MAX ? UINT32_MAX : t->tv_sec;

	return (nfstime3){ .seconds = (uint32)s, .nseconds = (uint32)t->tv_nsec };
}

static int set_owner(const struct stat *st, int to_set, const struct fuse_attr_map *map,
		     sattr3 *ret)
{
	if (map->is_on) {
		bool uid_ok = !(to_set & FUSE_SET_ATTR_UID) || st->st_uid == map->uid;
		bool gid_ok = !(to_set & FUSE_SET_ATTR_GID) || st->st_gid == map->gid;

		return uid_ok && gid_ok ? 0 : -EPERM;
	}
	if (to_set & FUSE_SET_ATTR_UID) {
		ret->uid.set_it = TRUE;
		ret->uid.set_uid3_u.uid = st->st_uid;
	}
	if (to_set & FUSE_SET_ATTR_GID) {
		ret->gid.set_it = TRUE;
		ret->gid.set_gid3_u.gid = st->st_gid;
	}
	return 0;
}

static void set_times(const struct stat *st, int to_set, sattr3 *ret)
{
	if (to_set & FUSE_SET_ATTR_ATIME_NOW) {
		ret->atime.set_it = SET_TO_SERVER_TIME;
	} else if (to_set & FUSE_SET_ATTR_ATIME) {
		ret->atime.set_it = SET_TO_CLIENT_TIME;
		ret->atime.set_atime_u.atime = from_timespec(&st->st_atim);
	}
	if (to_set & FUSE_SET_ATTR_MTIME_NOW) {
		ret->mtime.set_it = SET_TO_SERVER_TIME;
	} else if (to_set & FUSE_SET_ATTR_MTIME) {
		ret->mtime.set_it = SET_TO_CLIENT_TIME;
		ret->mtime.set_mtime_u.mtime = from_timespec(&st->st_mtim);
	}
}

int fuse_attr_from_setattr(const struct stat *st, int to_set, const struct fuse_attr_map *map,
			   sattr3 *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (to_set & FUSE_SET_ATTR_MODE) {
		ret->mode.set_it = TRUE;
		ret->mode.set_mode3_u.mode = st->st_mode & 07777;
	}
	if (to_set & FUSE_SET_ATTR_SIZE) {
		ret->size.set_it = TRUE;
		ret->size.set_size3_u.size = (size3)st->st_size;
	}
	set_times(st, to_set, ret);
	return set_owner(st, to_set, map, ret);
}

void fuse_attr_new(mode_t mode, sattr3 *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->mode.set_it = TRUE;
	ret->mode.set_mode3_u.mode = mode & 07777;
}

/* ---- versions ----------------------------------------------------------- */

static bool time_is(const nfstime3 *a, const nfstime3 *b)
{
	return a->seconds == b->seconds && a->nseconds == b->nseconds;
}

void fuse_version_of(const fattr3 *a, struct fuse_version *ret)
{
	*ret = (struct fuse_version){
		.is_known = true, .size = a->size, .mtime = a->mtime, .ctime = a->ctime
	};
}

bool fuse_version_is(const struct fuse_version *v, const fattr3 *a)
{
	return v->is_known && v->size == a->size && time_is(&v->mtime, &a->mtime) &&
	       time_is(&v->ctime, &a->ctime);
}

void fuse_version_follow(struct fuse_version *v, const wcc_data *wcc)
{
	const wcc_attr *b = &wcc->before.pre_op_attr_u.attributes;

	if (v->is_known && wcc->before.attributes_follow && wcc->after.attributes_follow &&
	    b->size == v->size && time_is(&b->mtime, &v->mtime) && time_is(&b->ctime, &v->ctime))
		fuse_version_of(&wcc->after.post_op_attr_u.attributes, v);
	else
		v->is_known = false;
}

/* ---- errors ------------------------------------------------------------- */

int fuse_attr_errno(int err)
{
	switch (err) {
	case -EBADMSG: /* not a handle of the server's, or not any more */
		return ESTALE;
	case -EBADRQC:
		return EINVAL;
	case -EBADE:
	case -EBADR:
	case -EMSGSIZE:
	case -EPROTO:
		return EIO;
	case -ESHUTDOWN:
		return ENOTCONN;
	default:
		return -err;
	}
}
