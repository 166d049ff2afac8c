/* SPDX-License-Identifier: MIT */
/* The NFSv3 procedures, one function each (RFC 1813 section 3.3); the table is in nfs_procs.c. */
#ifndef NFSD_NFS_PROCS_H
#define NFSD_NFS_PROCS_H

#include "nfsd/nfs_call.h"

/* Arguments and results are those of proto/nfs3.x; WRITE takes struct nfs3_write_args. */
int nfs3_null(struct nfs_call *call, void *args, void *res);
int nfs3_getattr(struct nfs_call *call, void *args, void *res);
int nfs3_setattr(struct nfs_call *call, void *args, void *res);
int nfs3_access(struct nfs_call *call, void *args, void *res);
int nfs3_lookup(struct nfs_call *call, void *args, void *res);
int nfs3_readlink(struct nfs_call *call, void *args, void *res);
int nfs3_read(struct nfs_call *call, void *args, void *res);
int nfs3_write(struct nfs_call *call, void *args, void *res);
int nfs3_commit(struct nfs_call *call, void *args, void *res);
int nfs3_create(struct nfs_call *call, void *args, void *res);
int nfs3_mkdir(struct nfs_call *call, void *args, void *res);
int nfs3_symlink(struct nfs_call *call, void *args, void *res);
int nfs3_mknod(struct nfs_call *call, void *args, void *res);
int nfs3_remove(struct nfs_call *call, void *args, void *res);
int nfs3_rmdir(struct nfs_call *call, void *args, void *res);
int nfs3_rename(struct nfs_call *call, void *args, void *res);
int nfs3_link(struct nfs_call *call, void *args, void *res);
int nfs3_readdir(struct nfs_call *call, void *args, void *res);
int nfs3_readdirplus(struct nfs_call *call, void *args, void *res);
int nfs3_fsstat(struct nfs_call *call, void *args, void *res);
int nfs3_fsinfo(struct nfs_call *call, void *args, void *res);
int nfs3_pathconf(struct nfs_call *call, void *args, void *res);

#endif
