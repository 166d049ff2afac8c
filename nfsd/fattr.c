/* SPDX-License-Identifier: MIT */
#include "nfsd/fattr.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

ftype3 fattr_type(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return NF3DIR;
	case S_IFLNK:
		return NF3LNK;
	case S_IFIFO:
		return NF3FIFO;
	case S_IFSOCK:
		return NF3SOCK;
	case S_IFCHR:
		return NF3CHR;
	case S_IFBLK:
		return NF3BLK;
	default:
		return NF3REG;
	}
}

static nfstime3 time_from(const struct statx_timestamp *t)
{
	/* 32 unsigned bits on the wire: times before 1970 and after 2106 wrap, as in every NFSv3
	 * server */
	return (nfstime3){ .seconds = (uint32_t)t->tv_sec, .nseconds = t->tv_nsec };
}

void fattr_from_statx(const struct workspace *ws, const struct statx *stx, fattr3 *ret)
{
	ret->type = fattr_type(stx->stx_mode);
	ret->mode = stx->stx_mode & 07777u;
	ret->nlink = stx->stx_nlink;
	ret->uid = ws->owner_uid;
	ret->gid = ws->owner_gid;
	ret->size = stx->stx_size;
	ret->used = stx->stx_blocks * 512;
	ret->rdev.specdata1 = stx->stx_rdev_major;
	ret->rdev.specdata2 = stx->stx_rdev_minor;
	ret->fsid = ws->fsid;
	ret->fileid = stx->stx_ino;
	ret->atime = time_from(&stx->stx_atime);
	ret->mtime = time_from(&stx->stx_mtime);
	ret->ctime = time_from(&stx->stx_ctime);
}

static int time_to(time_how how, const nfstime3 *t, unsigned value_bit, unsigned now_bit,
		   unsigned *set, struct timespec *ret)
{
	if (how == SET_TO_SERVER_TIME)
		*set |= now_bit;
	if (how != SET_TO_CLIENT_TIME)
		return 0;
	if (t->nseconds >= NSEC_PER_SEC)
		return -EINVAL;
	*set |= value_bit;
	ret->tv_sec = t->seconds;
	ret->tv_nsec = t->nseconds;
	return 0;
}

int fattr_to_fileops(const sattr3 *a, struct fileops_attr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (a->mode.set_it) {
		ret->set |= SET_MODE;
		ret->mode = a->mode.set_mode3_u.mode & 07777u;
	}
	if (a->uid.set_it) {
		ret->set |= SET_UID;
		ret->uid = a->uid.set_uid3_u.uid;
	}
	if (a->gid.set_it) {
		ret->set |= SET_GID;
		ret->gid = a->gid.set_gid3_u.gid;
	}
	if (a->size.set_it) {
		ret->set |= SET_SIZE;
		ret->size = a->size.set_size3_u.size;
	}
	if (time_to(a->atime.set_it, &a->atime.set_atime_u.atime, SET_ATIME, SET_ATIME_NOW,
		    &ret->set, &ret->atime) < 0)
		return -EINVAL;
	return time_to(a->mtime.set_it, &a->mtime.set_mtime_u.mtime, SET_MTIME, SET_MTIME_NOW,
		       &ret->set, &ret->mtime);
}
