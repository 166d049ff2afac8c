/* SPDX-License-Identifier: MIT */
/*
 * The NFS server: listener, loops and pools.  nfsd_start() is called on the control loop, which
 * accepts connections and hands each to the NFS loop that has the fewest.
 */
#ifndef NFSD_NFSD_H
#define NFSD_NFSD_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/peer.h"
#include "workspace/inode.h"
#include "workspace/workspace.h"

struct nfsd;

struct nfsd_options {
	const char *bind;   /* numeric IPv4 or IPv6 address; "::" listens on both */
	uint16_t port;      /* 0: any free one; nfsd_port() tells */
	unsigned n_loops;   /* 0: one per core */
	unsigned max_conns; /* 0: 4096; a further connection is closed at once */
	struct peer_uids local_uids;
	bool metadata_sync;
	struct ws_registry *registry; /* borrowed */
	struct inode_cache *inodes;   /* borrowed */
	const uint8_t *handle_key;    /* 32 bytes, borrowed for the call */
	/* Deadlines in ms, 0 for the defaults; set by tests. */
	unsigned hello_ms;    /* 30 s: a new connection must have sent one whole call */
	unsigned progress_ms; /* 30 s: a record that has begun must go on arriving */
	unsigned unsent_ms;   /* 60 s: a reply must go on being taken */
};

int nfsd_start(uv_loop_t *control, const struct nfsd_options *o, struct nfsd **ret,
	       struct err *err);
uint16_t nfsd_port(const struct nfsd *d);

/**
 * nfsd_stop() - stop accepting and reading, finish what runs, send it, close, join
 * @d:		may be NULL
 * @deadline_ms: for all of it; then what is left is closed, half a second later at the latest
 *
 * Control loop; blocks.  Return: false when a call was still stuck in the kernel: it goes on using
 * the inode cache and the registry, so the process must end without taking them apart.
 */
bool nfsd_stop(struct nfsd *d, unsigned deadline_ms);

/* nfsd_metrics() - append Prometheus text: calls and latency by procedure, bytes, connections, DRC,
 * pools */
int nfsd_metrics(struct nfsd *d, struct buf *out);

struct nfsd_summary {
	unsigned n_conns, n_loops;
	uint64_t n_calls;
};
void nfsd_summary(struct nfsd *d, struct nfsd_summary *ret);

#endif
