/* SPDX-License-Identifier: MIT */
/*
 * What the NFS server counts.  Each loop has a block of its own and is its only writer, pooled
 * calls included, since they end on their loop; readers on other threads add the blocks up.
 * Counters are relaxed atomics, so a reader sees each one whole but not all of one moment.
 */
#ifndef NFSD_NFS_STATS_H
#define NFSD_NFS_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define NFS_STATS_ROWS  28 /* 22 procedures of NFS, then 6 of MOUNT */
#define NFS_STATS_MOUNT 22 /* first row of MOUNT */
#define NFS_STATS_BUCKETS                                                                          \
	24 /* bucket i: up to 2^i microseconds; the last one: all longer than 4.2 s */

struct nfs_stats {
	uint64_t calls[NFS_STATS_ROWS];
	uint64_t errors[NFS_STATS_ROWS]; /* answered with a status other than OK, or not accepted */
	uint64_t sum_ns[NFS_STATS_ROWS];
	uint64_t bucket[NFS_STATS_ROWS][NFS_STATS_BUCKETS];
	uint64_t rejected; /* headers that name no procedure of ours, or are not RPC version 2 */
	uint64_t bytes_in, bytes_out;
	uint64_t pooled; /* calls that went to a pool */
	uint64_t drc_replays, drc_parked, drc_dropped;
	uint64_t conns_opened, conns_closed, conns_timed_out;
};

static inline void nfs_stats_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* nfs_stats_call() - one answered call; its own loop only */
void nfs_stats_call(struct nfs_stats *s, unsigned row, uint64_t duration_ns, bool failed);

/* nfs_stats_collect() - add @from (of another thread) to @sum (the caller's) */
void nfs_stats_collect(struct nfs_stats *sum, const struct nfs_stats *from);

/* nfs_stats_format() - Prometheus text of a sum; 0, -ENOMEM or -EMSGSIZE */
int nfs_stats_format(const struct nfs_stats *s, const char *const names[NFS_STATS_ROWS],
		     struct buf *out);

#endif
