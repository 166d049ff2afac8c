/* SPDX-License-Identifier: MIT */
#ifndef NFSD_NFS_TRACE_H
#define NFSD_NFS_TRACE_H

#include <stdint.h>

#include "base/log.h"
#include "nfsd/nfs_job.h"

void nfs_trace_write(const struct nfs_job *job, uint64_t duration_ns);

/* nfs_trace() - one line about an answered call, when topic rpc is on; its loop */
static inline void nfs_trace(const struct nfs_job *job, uint64_t duration_ns)
{
	if (__builtin_expect(log_is_on(LOG_DEBUG, LOG_RPC), 0))
		nfs_trace_write(job, duration_ns);
}

#endif
