/* SPDX-License-Identifier: MIT */
/*
 * NFSv3 and MOUNT calls by procedure number: arguments in, results out, both as the types of
 * proto/nfs3.x.  Belongs to the thread of the loop.
 */
#ifndef FUSE_CLIENT_NFS_CLIENT_H
#define FUSE_CLIENT_NFS_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "fuse-client/rpc_client.h"
#include "proto/mount3.h"
#include "proto/nfs3.h"
#include "proto/nfs3_bulk.h"

#define NFS_N_PROCS 22

struct nfs_client;

union nfs_res {
	nfsstat3 status; /* every result begins with it */
	GETATTR3res getattr;
	SETATTR3res setattr;
	LOOKUP3res lookup;
	ACCESS3res access;
	READLINK3res readlink;
	READ3res read;
	WRITE3res write;
	CREATE3res create; /* and MKDIR, SYMLINK, MKNOD, which are alike */
	REMOVE3res remove; /* and RMDIR */
	RENAME3res rename;
	LINK3res link;
	READDIR3res readdir; /* and READDIRPLUS */
	FSSTAT3res fsstat;
	FSINFO3res fsinfo;
	PATHCONF3res pathconf;
	COMMIT3res commit;
	mountres3 mount;
};

struct nfs_result {
	int err;                  /* 0, or -errno: of the call, or of the status in *res */
	const union nfs_res *res; /* NULL when there is no result at all */
	const uint8_t *bulk;      /* what follows the result: data of READ, entries of READDIR* */
	size_t bulk_len;
	uint64_t sent_seq; /* nfs_client_seq() when the call was sent */
};

/* Everything in @r is borrowed until the function returns. */
typedef void (*nfs_done)(void *arg, const struct nfs_result *r);

struct nfs_client_options {
	struct rpc_client_options rpc;
	struct rpc_cred cred;
};

int nfs_client_new(uv_loop_t *loop, const struct nfs_client_options *o, struct nfs_client **ret);
struct rpc_client *nfs_client_rpc(struct nfs_client *c);

/**
 * nfs_send() - make a call
 * @proc:	NFSPROC3_*, but neither NULL nor WRITE
 * @args:	the procedure's arguments; encoded before this returns
 *
 * done() may be called before this returns (no memory, client closed), so let it be the last thing
 * that is done with @arg.  A server that says JUKEBOX is asked again after a while.
 */
void nfs_send(struct nfs_client *c, uint32_t proc, const void *args, nfs_done done, void *arg);

/* nfs_send_write() - WRITE; @a->data is borrowed until done() */
void nfs_send_write(struct nfs_client *c, const struct nfs3_write_args *a, nfs_done done,
		    void *arg);

/* nfs_send_mnt() - MNT of the MOUNT program; the path is @path's bytes */
void nfs_send_mnt(struct nfs_client *c, const char *path, nfs_done done, void *arg);

/*
 * One number that grows with every event worth ordering.  Attributes that come with a call which
 * was sent before event n may be older than what n did.
 */
uint64_t nfs_client_seq(const struct nfs_client *c);
uint64_t nfs_client_next_seq(struct nfs_client *c);

uint64_t nfs_client_count(const struct nfs_client *c, uint32_t proc); /* calls made */
const char *nfs_proc_name(uint32_t proc);

void nfs_client_close(struct nfs_client *c); /* as rpc_client_close() */

#endif
