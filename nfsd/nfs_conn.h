/* SPDX-License-Identifier: MIT */
/* One client connection: see nfs_conn.c.  All but nfs_conn_new() run on the connection's loop. */
#ifndef NFSD_NFS_CONN_H
#define NFSD_NFS_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "nfsd/nfs_loop.h"
#include "nfsd/nfs_out.h"
#include "nfsd/nfs_server.h"
#include "proto/rpc_record.h"

struct nfs_conn {
	struct nfs_loop *loop; /* borrowed */
	struct list link;      /* loop->arrivals, then loop->conns */
	struct list ready;     /* loop->ready */
	struct list touched;   /* while finished jobs are handed out */
	struct list done;      /* finished jobs whose replies are not yet queued */
	uv_poll_t poll;
	int fd;     /* owned */
	int events; /* what poll watches */
	struct nfs_peer peer;

	struct rpc_record rec;
	uint8_t *stash; /* owned: received bytes that wait until there is room to work on them; or
			   NULL */
	size_t stash_at, stash_len;
	struct nfs_unsent unsent;

	struct nfs_pool_source src[NFS_N_POOLS];
	unsigned n_jobs;     /* pooled or parked, not back yet */
	size_t jobs_bytes;   /* what they hold */
	unsigned n_answered; /* in this turn */
	size_t held;         /* what of this is counted in nfsd->held */
	size_t partial;      /* what of rec is counted in nfsd->partial */

	uint64_t begin_ns; /* accepted */
	uint64_t used_ns;  /* last bytes in or out */
	uint64_t part_ns;  /* when the unfinished record last made progress */
	uint64_t sent_ns;  /* when unsent replies last made progress */
	size_t part_bytes; /* received since part_ns */

	bool has_handle;   /* poll is initialised */
	bool has_called;   /* at least one call was understood */
	bool is_pool_full; /* no new calls until the pooled ones are done */
	bool is_ending;    /* no more reading: close when all is answered and sent */
	bool is_broken;    /* of no more use: close when the turn is over */
	bool is_closing;
};

/* nfs_conn_new() - takes @fd, a connected non-blocking socket.  NULL: out of memory, @fd is closed.
 */
struct nfs_conn *nfs_conn_new(int fd, const struct nfs_peer *peer);
void nfs_conn_discard(struct nfs_conn *c); /* one that was never started */

void nfs_conn_start(struct nfs_conn *c, struct nfs_loop *loop);
void nfs_conn_go_on(
	struct nfs_conn *c);           /* finished jobs are in c->done, or it was in loop->ready */
void nfs_conn_end(struct nfs_conn *c); /* read no more, answer what was taken, then close */
void nfs_conn_close(struct nfs_conn *c); /* at once; may be called twice */
void nfs_conn_check_deadlines(struct nfs_conn *c);

#endif
