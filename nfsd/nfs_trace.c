/* SPDX-License-Identifier: MIT */
/* One line for each NFS call in words: what, by whom, on what, how it ended, how long it took and
 * where. */
#include "nfsd/nfs_trace.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/peer.h"
#include "proto/status.h"

/* "NFS" is the rule, so only the other program is named. */
static void format_proc(char *dst, size_t n, const struct nfs_job *job)
{
	if (job->call.proc != NULL)
		(void)snprintf(dst, n, "%s%s", job->rpc.prog == RPC_PROG_MOUNT ? "MOUNT:" : "",
			       job->call.proc->name);
	else
		(void)snprintf(dst, n, "%u.%u.%u", job->rpc.prog, job->rpc.vers, job->rpc.proc);
}

/* mountstat3 has the numbers of nfsstat3 for all that it has. */
static const char *outcome(const struct nfs_job *job)
{
	if (job->has_status)
		return status_nfs_name((nfsstat3)job->status);
	return job->is_failed ? "REFUSED" : "OK";
}

static const char *where(const struct nfs_job *job)
{
	if (job->is_replay)
		return "replay";
	return job->is_pooled ? "pool" : "inline";
}

void nfs_trace_write(const struct nfs_job *job, uint64_t duration_ns)
{
	char proc[40], peer[PEER_TEXT];

	format_proc(proc, sizeof(proc), job);
	peer_format(peer, sizeof(peer), &job->call.peer->addr, job->call.peer->port);
	log_debug(LOG_RPC,
		  "%s xid=%08x peer=%s ws=%016" PRIx64 " ino=%" PRIu64 " status=%s payload=%zu"
		  " us=%" PRIu64 " %s",
		  proc, job->rpc.xid, peer, job->call.trace_ws, job->call.trace_ino, outcome(job),
		  job->call.payload_len, duration_ns / 1000, where(job));
}
