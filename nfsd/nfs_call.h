/* SPDX-License-Identifier: MIT */
/*
 * One RPC on its way through the server, and the table row that says how to treat it.
 *
 * A procedure is one synchronous function.  It is first run on the connection's loop with may_block
 * false; when it would have to wait it returns -EAGAIN, having changed nothing, and is run again from
 * the start in a pool with may_block true.  Rows that are known to wait go to a pool at once.
 */
#ifndef NFSD_NFS_CALL_H
#define NFSD_NFS_CALL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/nfs3.h"
#include "proto/rpc_header.h"
#include "workspace/inode.h"
#include "workspace/workspace.h"

struct nfsd;
struct nfs_conn;

/* Who is calling, as far as the connection tells; immutable once the connection is accepted. */
struct nfs_peer {
	struct in6_addr addr; /* IPv4-mapped */
	in_port_t port;
	bool is_loopback;
	bool has_local_uid; /* loopback: the kernel named the uid that owns the other end */
	bool local_uid_ok;  /* ... and it is one that is let in */
	uid_t local_uid;
};

enum nfs_proc_flags {
	P_WRITES = 1u << 0, /* changes something: ROFS on a read-only export */
	P_REPLAY = 1u << 1, /* not idempotent: goes through the duplicate request cache */
	P_POOL = 1u << 2,   /* always runs in the pool for scans and cold files */
	P_SYNC = 1u << 3,   /* when it goes to a pool: the one for fsync, many at a time */
	P_NULL = 1u << 4,   /* no credential is looked at */
	P_NAMES =
		1u
		<< 5, /* changes names or attributes: waits for the disk when metadata_sync is on */
};

struct nfs_call;

struct nfs_proc {
	const char *name;
	/* 0: res is filled.  -EAGAIN: would wait, nothing was changed (only when !call->may_block). */
	int (*run)(struct nfs_call *call, void *args, void *res);
	/* xdrproc_t of args and res; NULL for void.  Memory in args is freed by xdr_free() after the reply. */
	bool (*decode)(const uint8_t *p, size_t n,
		       void *args); /* strict: the whole record is used up */
	bool_t (*xdr_args)(XDR *, void *);
	size_t args_size;
	bool_t (*xdr_res)(XDR *, void *);
	size_t res_size;
	unsigned flags;
};

extern const struct nfs_proc nfs3_procs[22];  /* nfs_procs.c */
extern const struct nfs_proc mount3_procs[6]; /* mount_procs.c */

struct nfs_call {
	struct nfsd *nfsd;
	const struct nfs_peer *peer;       /* borrowed; outlives the call */
	const struct rpc_call_header *rpc; /* xid, prog, vers, proc, credential; borrowed */
	const struct nfs_proc *proc;
	bool may_block;

	/* Bytes that follow the encoded result on the wire: file data or directory entries. */
	uint8_t *payload;   /* owned by the call; from nfs_call_payload() */
	size_t payload_len; /* bytes to send; memory with length 0 may serve the result itself */

	uint8_t fh_room[2][NFS3_FHSIZE]; /* for file handles in the result */

	/* Set by nfs_enter(), for the trace line. */
	uint64_t trace_ws, trace_ino;
};

/**
 * nfs_call_payload() - memory for a bulk reply
 * @size:	bytes, at most NFSD_IO_MAX + 4096
 *
 * Recycled per loop.  The transport sends call->payload_len bytes of it (and zero bytes to a multiple of
 * four) after the encoded result and takes it back.  May be called again after -EAGAIN: the same memory.
 * Return: the memory (also in call->payload), NULL when out of memory.
 */
uint8_t *nfs_call_payload(struct nfs_call *call, size_t size);

/* What every procedure needs of the server; set once before the loops start. */
struct nfsd_shared {
	struct ws_registry *registry;
	struct inode_cache *inodes;
	struct fh_codec *fh;
	struct mount_table *mounts; /* who has mounted what, for DUMP */
	uint32_t started_s;         /* CLOCK_REALTIME at start: times of "/" */
	uint64_t write_verf;        /* new at each start; flushes that failed are added to it */
	bool metadata_sync; /* WORKSPACE_NFS_METADATA_SYNC: fsync the folder before answering name changes */
};
struct nfsd_shared *nfsd_shared(struct nfsd *d);

#define NFSD_IO_MAX (1u << 20) /* bytes: rtmax and wtmax */

#endif
