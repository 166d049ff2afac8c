/* SPDX-License-Identifier: MIT */
/* The server from the inside: what nfsd.c, nfs_loop.c and nfs_conn.c share. */
#ifndef NFSD_NFS_SERVER_H
#define NFSD_NFS_SERVER_H

#include <stdint.h>

#include "nfsd/nfs_call.h"
#include "nfsd/nfs_dispatch.h"
#include "nfsd/nfs_loop.h"
#include "nfsd/nfs_pool.h"
#include "nfsd/nfsd.h"

enum nfs_pool_kind {
	NFS_POOL_SCAN, /* cold reads and lookups, directories */
	NFS_POOL_SYNC, /* fsync: many threads, because those that wait together share a journal
			  commit */
	NFS_N_POOLS
};

struct nfs_limits { /* ns */
	uint64_t hello_ns, progress_ns, unsent_ns, idle_ns;
};

struct nfsd_listener;

struct nfsd {
	struct nfsd_shared shared; /* immutable, as all below unless said otherwise */
	struct nfs_dispatch dispatch;
	struct nfs_payloads *payloads;
	struct drc *drc;
	struct nfs_pool *pools[NFS_N_POOLS];
	struct nfs_limits limits;
	struct nfs_loop **loops;
	unsigned n_loops; /* atomic while they are started */
	unsigned max_conns;
	struct peer_uids local_uids;
	struct nfsd_listener *listener; /* control loop */
	uint16_t port;
	uint64_t partial; /* atomic: bytes that unfinished records of all connections take */
	uint64_t held;    /* atomic: bytes of pooled calls and unsent replies of all connections */
};

/* nfsd_start_with() - nfsd_start() with tables of the caller's, for tests */
int nfsd_start_with(uv_loop_t *control, const struct nfsd_options *o,
		    const struct nfs_programs *programs, struct nfsd **ret, struct err *err);

#endif
