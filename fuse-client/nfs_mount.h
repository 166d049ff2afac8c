/* SPDX-License-Identifier: MIT */
/* The calls before a file system can be shown: MNT, FSINFO, GETATTR of the root. */
#ifndef FUSE_CLIENT_NFS_MOUNT_H
#define FUSE_CLIENT_NFS_MOUNT_H

#include <uv.h>

#include "base/err.h"
#include "fuse-client/fuse_options.h"
#include "fuse-client/nfs_client.h"

struct nfs_mount {
	struct nfs_client *nfs; /* owned */
	uint8_t fh[NFS3_FHSIZE];
	u_int fh_len;
	fattr3 root;
	uint32_t rsize, wsize, dtsize; /* bytes */
};

/**
 * nfs_mount_ask() - connect and ask for the root
 *
 * Runs the loop until the server has answered or cannot be expected to.
 * Return: 0; -errno with a sentence that says what to do about it.
 */
int nfs_mount_ask(uv_loop_t *loop, const struct fuse_options *o, struct nfs_mount *ret,
		  struct err *err);

#endif
