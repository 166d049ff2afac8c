/* SPDX-License-Identifier: MIT */
/* Threads for calls that wait: see nfs_pool.c. */
#ifndef NFSD_NFS_POOL_H
#define NFSD_NFS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

/* Where jobs come from, one for each connection and pool; embedded, borrowed while it has jobs. */
struct nfs_pool_source {
	struct list ready; /* in the pool's list: has a job that may start; the rest is the pool's
			      too */
	struct list jobs;
	unsigned n_running;
};

void nfs_pool_source_init(struct nfs_pool_source *src);

struct nfs_pool_options {
	const char *name; /* of its threads; at most 15 bytes, static */
	unsigned max_threads;
	unsigned max_per_source; /* jobs of one source that run at the same time */
	unsigned full_at;        /* queued jobs at which nfs_pool_submit() says that it is enough */
	void (*run)(struct list *job); /* pool thread; may wait */
	void (*done)(
		struct list *job); /* pool thread; the pool is done with the job and its source */
};

struct nfs_pool;

/* nfs_pool_new() - one thread now, others when jobs wait */
int nfs_pool_new(const struct nfs_pool_options *o, struct nfs_pool **ret, struct err *err);

/**
 * nfs_pool_submit() - queue a job; any thread
 * @job:	a list node of the caller's; the pool's until done() is called with it
 *
 * Sources take turns.  Return: true, or false when the job was taken but the queue is full: the
 * caller must not submit more for this source until all its jobs are done.
 */
bool nfs_pool_submit(struct nfs_pool *p, struct nfs_pool_source *src, struct list *job);

unsigned nfs_pool_queued(struct nfs_pool *p); /* waiting, not running; any thread */

/**
 * nfs_pool_stop() - let the threads end and free the pool
 * @deadline_ns:	CLOCK_MONOTONIC: how long to wait for jobs that run
 *
 * Jobs that have not started are forgotten.  Return: false when a thread still waits in a system
 * call at the deadline; it may yet call done(), so nothing that it touches may be freed.
 */
bool nfs_pool_stop(struct nfs_pool *p, uint64_t deadline_ns);

#endif
