/* SPDX-License-Identifier: MIT */
/* Inside the inode cache: for inode.c and inode_io.c alone. */
#ifndef WORKSPACE_INODE_PRIV_H
#define WORKSPACE_INODE_PRIV_H

#include <pthread.h>
#include <unistd.h>

#include "workspace/inode.h"

#define N_SHARDS 64 /* the top six bits of a hash choose one */
struct shard {
	pthread_mutex_t mutex;
	struct map map;      /* struct inode.node */
	struct list clock;   /* struct inode.clock; the hand is at the head */
	struct list writers; /* struct inode.wr_list */
	uint64_t hits, misses, evictions;
};

struct inode_cache {
	struct inode_cache_options o;
	struct shard shards[N_SHARDS];
	size_t n_fds;      /* atomic: descriptors held */
	unsigned evict_at; /* atomic: next shard to take from */
	unsigned sweep_at; /* the sweeper's own */
	uint64_t n_lost;   /* atomic: flushes that failed */
};

struct inode_sync {
	pthread_mutex_t mutex;
	pthread_cond_t done_cond;
	uint64_t n_asked;     /* tickets given out */
	uint64_t done;        /* tickets up to this one are answered */
	uint64_t failed_upto; /* tickets up to this one met @failed_rc, unless an earlier run
				 answered them */
	uint64_t n_lost;      /* atomic: flushes that failed */
	int failed_rc;
	bool is_running;
};

static inline struct shard *inode_shard(struct inode_cache *c, uint64_t hash)
{
	return &c->shards[hash >> 58];
}

static inline void inode_count_fds(struct inode_cache *c, long n)
{
	__atomic_add_fetch(&c->n_fds, (size_t)n, __ATOMIC_RELAXED);
}

/* Takes the entry's own reference to a data descriptor; called under the shard's mutex (or when
 * nobody else can see the entry) and given back, by inode_io_put(), outside it. */
static inline struct inode_io *inode_detach_io(struct inode_cache *c, struct inode_io **slot)
{
	struct inode_io *io = *slot;

	if (io != NULL)
		inode_count_fds(c, -1);
	*slot = NULL;
	return io;
}

void inode_sync_free(struct inode_sync *s); /* NULL is fine */

/* Entries that nobody uses leave the cache until it holds no more descriptors than it may.  Not
 * with a shard's mutex held; called by whoever has added one. */
void inode_evict_down(struct inode_cache *c);

#endif
