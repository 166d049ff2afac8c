/* SPDX-License-Identifier: MIT */
/* From the bytes of a record to the bytes of its reply: see nfs_dispatch.c.  No sockets here. */
#ifndef NFSD_NFS_DISPATCH_H
#define NFSD_NFS_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

#include "nfsd/drc.h"
#include "nfsd/nfs_job.h"
#include "nfsd/nfs_payload.h"
#include "nfsd/nfs_stats.h"

/* The tables in force; tests give their own. */
struct nfs_programs {
	const struct nfs_proc *nfs;   /* 22 rows */
	const struct nfs_proc *mount; /* 6 rows */
};

/* One for each server; immutable once the loops run. */
struct nfs_dispatch {
	struct nfsd *nfsd; /* for procedures; may be NULL in tests */
	struct nfs_programs programs;
	struct drc *drc;               /* borrowed */
	struct nfs_payloads *payloads; /* borrowed */
	size_t args_max, res_max;      /* bytes: the largest of the tables' */
};

void nfs_dispatch_init(struct nfs_dispatch *d, const struct nfs_programs *programs);

/* nfs_job_new() - owned; NULL when out of memory.  nfs_job_reset() makes it ready for the next
 * call. */
struct nfs_job *nfs_job_new(const struct nfs_dispatch *d);
void nfs_job_reset(const struct nfs_dispatch *d, struct nfs_job *job);
void nfs_job_free(const struct nfs_dispatch *d, struct nfs_job *job);

enum nfs_step {
	NFS_STEP_REPLY,  /* job->reply, and job->call.payload behind it, may go out */
	NFS_STEP_POOL,   /* would wait: nfs_dispatch_keep(), then nfs_dispatch_wait() in a pool */
	NFS_STEP_PARKED, /* repeat of a running call: comes back when that is done */
	NFS_STEP_SILENT, /* not to be answered */
	NFS_STEP_CLOSE,  /* not RPC: end the connection */
};

/**
 * nfs_dispatch_begin() - parse a record and run it, if that needs no waiting
 * @job:	fresh, with call.peer, conn, loop and begin_ns set
 * @p, @n:	the record; borrowed until return
 * @dst, @room:	where the reply is written if it fits; at least NFS_JOB_SMALL bytes
 *
 * Its loop.
 */
enum nfs_step nfs_dispatch_begin(const struct nfs_dispatch *d, struct nfs_job *job,
				 const uint8_t *p, size_t n, uint8_t *dst, size_t room,
				 struct list *ret_waiters);

/**
 * nfs_dispatch_keep() - give the job a record of its own, after NFS_STEP_POOL
 * @p, @n:	what nfs_dispatch_begin() was given
 * @own:	NULL: copy it; else the same bytes in memory of malloc(3), taken
 *
 * Return: 0 or -ENOMEM.
 */
int nfs_dispatch_keep(struct nfs_job *job, const uint8_t *p, size_t n, uint8_t *own);

/**
 * nfs_dispatch_wait() - run a kept job to its end; blocks
 * @ret_waiters:	an empty list; the parked repeats of this call, each with its reply
 *
 * Pool.  Then job->reply is ready as after NFS_STEP_REPLY.
 */
void nfs_dispatch_wait(const struct nfs_dispatch *d, struct nfs_job *job, struct list *ret_waiters);

/* nfs_dispatch_system_err() - the reply of a job that cannot be run (no memory) */
void nfs_dispatch_system_err(const struct nfs_dispatch *d, struct nfs_job *job,
			     struct list *ret_waiters);

/* Does job's procedure wait for fsync rather than for reads? */
static inline bool nfs_job_is_sync(const struct nfs_job *job)
{
	return (job->call.proc->flags & P_SYNC) != 0;
}

#endif
