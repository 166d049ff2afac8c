/* SPDX-License-Identifier: MIT */
/* One thread that serves connections: see nfs_loop.c. */
#ifndef NFSD_NFS_LOOP_H
#define NFSD_NFS_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "nfsd/nfs_job.h"
#include "nfsd/nfs_out.h"
#include "nfsd/nfs_stats.h"

/* bytes: some thousand small calls at once; only what is received into is ever resident */
#define NFS_RX_BYTES (256u << 10)

struct nfs_loop {
	struct nfsd *d; /* borrowed */
	unsigned index;
	pthread_t thread;
	unsigned n_conns; /* atomic: handed over and not yet closed */
	struct nfs_stats stats;

	pthread_mutex_t mutex;
	struct list arrivals;      /* protected by mutex: connections to start */
	struct list done;          /* protected by mutex: jobs back from a pool or another loop */
	uint64_t stop_deadline_ns; /* protected by mutex: 0 until asked to stop */
	bool is_sealed; /* protected by mutex: the thread has ended, or will not look again */

	/* the rest is the loop's own */
	uv_loop_t uv;
	uv_async_t wake;
	uv_timer_t tick;
	uv_idle_t awake;  /* active for a moment after a busy turn */
	uint64_t busy_ns; /* when the last busy turn ended */
	uv_timer_t sweep; /* loop 0 only */
	uv_work_t sweep_work;
	uv_idle_t again; /* active while @ready is not empty */
	uint8_t *rx;     /* owned; NFS_RX_BYTES */
	struct nfs_turn turn;
	uint64_t now_ns; /* of the last event or finished call: good for durations within a turn */
	uint64_t turn_end_ns; /* when the connection that is being worked on must let others go */
	struct list conns;    /* started and not closing */
	struct list ready;    /* those with received calls that they had no time for */
	unsigned n_alive; /* not yet freed: conns, and closing ones that still have jobs or a handle
			   */
	struct list free_jobs;
	unsigned n_free_jobs;
	uint64_t quiet_bytes; /* loop 0: received by the server when it was last looked at */
	unsigned n_quiet;     /* loop 0: ticks since that number has changed */
	bool is_draining;
	bool is_abandoned; /* calls were still running at the deadline: nothing may be freed */
};

int nfs_loop_start(struct nfsd *d, unsigned index, struct nfs_loop **ret, struct err *err);

/* nfs_loop_add_conn() - hand a new connection over; control loop */
void nfs_loop_add_conn(struct nfs_loop *l, struct nfs_conn *c);

/* nfs_loop_post() - a job's reply is ready; any thread */
void nfs_loop_post(struct nfs_job *job);
void nfs_loop_post_all(struct list *jobs); /* each to its own loop; empties the list */

void nfs_loop_ask_stop(struct nfs_loop *l, uint64_t deadline_ns); /* any thread */

/* nfs_loop_join() - wait for the thread.  Return: false when it had to leave running calls behind.
 */
bool nfs_loop_join(struct nfs_loop *l);
void nfs_loop_free(struct nfs_loop *l); /* after a join that returned true; NULL is fine */

/* ---- for nfs_conn.c: its loop only -------------------------------------- */

struct nfs_job *nfs_loop_take_job(struct nfs_loop *l); /* NULL when out of memory */
void nfs_loop_recycle(struct nfs_loop *l, struct nfs_job *job);
/* nfs_loop_stay_awake() - after a turn of several calls: look for more for a moment instead of sleeping */
void nfs_loop_stay_awake(struct nfs_loop *l);
void nfs_loop_again(struct nfs_loop *l,
		    struct list *ready); /* work on this connection in the next round */
void nfs_loop_conn_freed(struct nfs_loop *l);

#endif
