/* SPDX-License-Identifier: MIT */
/*
 * A call with all that the transport keeps for it: the record its arguments point into, memory for
 * arguments and result, the encoded reply, and where that goes.  Jobs are recycled by their loop,
 * so that a call which runs inline allocates nothing here.
 *
 * A job is touched by one thread at a time: its loop; then, when it may wait, a pool thread; then
 * its loop again.  A repeat that is parked on the running first call (drc.c) belongs to whoever
 * finishes that.
 */
#ifndef NFSD_NFS_JOB_H
#define NFSD_NFS_JOB_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "nfsd/nfs_call.h"

#define NFS_JOB_SMALL 512 /* bytes: any reply without payload but READLINK, and MOUNT's lists */

struct drc_entry;
struct nfs_loop;
struct nfs_payloads;

struct nfs_job {
	struct nfs_call call;
	struct rpc_call_header rpc;
	struct nfs_conn *conn; /* borrowed; lives as long as it has jobs */
	struct nfs_loop *loop; /* borrowed; where the job began and ends */
	struct list link; /* in a pool's queue, among parked repeats, or in a list of its loop's */
	struct nfs_payloads *payloads; /* borrowed */
	unsigned row;                  /* of nfs_stats; NFS_STATS_ROWS: no procedure of ours */
	uint64_t begin_ns;
	struct drc_entry *drc; /* owned until drc_finish() */

	uint8_t *record; /* owned, or NULL: the arguments point into bytes that outlive the call */
	size_t charge;   /* bytes that the connection counts for this job while it is in a pool */
	size_t payload_cap;

	/* The reply: record mark, header, result.  The payload follows it on the wire. */
	uint8_t *reply; /* borrowed, or @small, or @heap */
	size_t reply_len;
	uint8_t *heap;   /* owned */
	uint32_t status; /* first word of the result */
	bool has_status;
	bool is_failed; /* not accepted, or a status other than OK */
	bool is_pooled;
	bool is_replay; /* the stored reply of an earlier run */

	void *args, *res; /* in @storage */
	uint8_t small[NFS_JOB_SMALL];
	alignas(16) uint8_t storage[];
};

#endif
