/* SPDX-License-Identifier: MIT */
/* Attributes of NFS and of stat(2), each from the other.  Pure. */
#ifndef FUSE_CLIENT_FUSE_ATTR_H
#define FUSE_CLIENT_FUSE_ATTR_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proto/nfs3.h"

/* What stands between the server's idea of an owner and the one that is shown. */
struct fuse_attr_map {
	bool is_on; /* false: ids as the server has them */
	uid_t uid;
	gid_t gid;
	mode_t umask; /* bits that are not shown */
};

void fuse_attr_to_stat(const fattr3 *a, const struct fuse_attr_map *map, struct stat *ret);
mode_t fuse_attr_type(ftype3 type); /* S_IFREG and the like */

/**
 * fuse_attr_from_setattr() - what a SETATTR of the kernel asks for
 * @to_set:	FUSE_SET_ATTR_* bits
 *
 * With the map on, the owner that is shown may be "given" the file, which changes nothing.
 * Return: 0, or -EPERM for any other owner.
 */
int fuse_attr_from_setattr(const struct stat *st, int to_set, const struct fuse_attr_map *map,
			   sattr3 *ret);

void fuse_attr_new(mode_t mode, sattr3 *ret); /* attributes of a new object: its mode alone */

/* What tells one state of a file's contents from another. */
struct fuse_version {
	bool is_known;
	size3 size;
	nfstime3 mtime, ctime;
};

void fuse_version_of(const fattr3 *a, struct fuse_version *ret);
bool fuse_version_is(const struct fuse_version *v, const fattr3 *a);

/**
 * fuse_version_follow() - a change of our own has been made
 *
 * When the attributes before it are those that we knew, those after it are what we know now;
 * else somebody else has changed the file too, and nothing is known.
 */
void fuse_version_follow(struct fuse_version *v, const wcc_data *wcc);

int fuse_attr_errno(int err); /* from our negative errnos to one that programs know; positive */

#endif
