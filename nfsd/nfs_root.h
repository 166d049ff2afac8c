/* SPDX-License-Identifier: MIT */
/* "/": a read-only directory that lists the workspaces which this client may mount, by id. */
#ifndef NFSD_NFS_ROOT_H
#define NFSD_NFS_ROOT_H

#include <stdbool.h>

#include "nfsd/nfs_call.h"
#include "workspace/fileops.h"

void nfs_root_attr(struct nfs_call *call, fattr3 *ret);

/* nfs_root_lookup() - the root directory of workspace @name, owned; -ENOENT also for one it may not
 * mount */
int nfs_root_lookup(struct nfs_call *call, const char *name, struct inode **ret,
		    struct fileops *ret_ops);

/* nfs_root_readdir() - as fileops_readdir(); cookies are creation numbers, so they stay valid */
int nfs_root_readdir(struct nfs_call *call, uint64_t cookie,
		     bool (*fn)(void *arg, const struct fileops_dirent *e), void *arg,
		     bool *ret_eof);

/* nfs_root_is_visible() - may this peer mount "/": from loopback always, else if it may mount
 * anything */
bool nfs_root_is_visible(struct nfs_call *call);

#endif
