/* SPDX-License-Identifier: MIT */
/*
 * From a record to its reply: header, row, duplicate request cache, arguments, procedure, result.
 *
 * A call is first attempted on its loop.  A procedure that would wait says so (-EAGAIN) and the
 * call becomes a pooled one: its record gets memory of its own, since the loop's buffer is about to
 * be overwritten, and the arguments, which may point into the record, are decoded once more from
 * there.
 *
 * Replies are written with their record mark where the transport wants them, so that a small one is
 * never copied.  A result too large for that place gets memory by its exact size.
 */
#include "nfsd/nfs_dispatch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/mount3.h"
#include "proto/rpc_record.h"

#define MARK_LEN 4u
#define HEAD_LEN (MARK_LEN + RPC_REPLY_HEADER_LEN)

/* ---- jobs --------------------------------------------------------------- */

static size_t align16(size_t n)
{
	return (n + 15) & ~(size_t)15;
}

static void widen(struct nfs_dispatch *d, const struct nfs_proc *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		d->args_max = MAX(d->args_max, align16(rows[i].args_size));
		d->res_max = MAX(d->res_max, align16(rows[i].res_size));
	}
}

void nfs_dispatch_init(struct nfs_dispatch *d, const struct nfs_programs *programs)
{
	*d = (struct nfs_dispatch){ .programs = *programs };
	widen(d, programs->nfs, NFS_STATS_MOUNT);
	widen(d, programs->mount, NFS_STATS_ROWS - NFS_STATS_MOUNT);
}

/* What a fresh job has; the big arrays are not cleared, args and res are when they are used. */
static void init_job(const struct nfs_dispatch *d, struct nfs_job *job)
{
	memset(job, 0, offsetof(struct nfs_job, small));
	job->call.nfsd = d->nfsd;
	job->call.rpc = &job->rpc;
	job->payloads = d->payloads;
	job->row = NFS_STATS_ROWS;
	job->args = job->storage;
	job->res = job->storage + d->args_max;
	list_init(&job->link);
}

struct nfs_job *nfs_job_new(const struct nfs_dispatch *d)
{
	struct nfs_job *job = aligned_alloc(alignof(struct nfs_job),
					    align16(sizeof(*job) + d->args_max + d->res_max));

	if (job != NULL)
		init_job(d, job);
	return job;
}

static void release(const struct nfs_dispatch *d, struct nfs_job *job)
{
	assert(job->drc == NULL);
	nfs_payloads_put(d->payloads, job->call.payload, job->payload_cap);
	free(job->record);
	free(job->heap);
}

void nfs_job_reset(const struct nfs_dispatch *d, struct nfs_job *job)
{
	release(d, job);
	init_job(d, job);
}

void nfs_job_free(const struct nfs_dispatch *d, struct nfs_job *job)
{
	if (job == NULL)
		return;
	release(d, job);
	free(job);
}

/* ---- replies ------------------------------------------------------------ */

static size_t padded(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

/* A reply that is a header and no more: refused, or not accepted. */
static void reply_refusal(struct nfs_job *job, uint8_t *dst, size_t len)
{
	job->call.payload_len = 0;
	rpc_record_mark(dst, (uint32_t)len);
	job->reply = dst;
	job->reply_len = MARK_LEN + len;
	job->is_failed = true;
}

static void reply_accept_stat(struct nfs_job *job, uint8_t *dst, enum rpc_accept stat)
{
	reply_refusal(job, dst, rpc_reply_accepted(dst + MARK_LEN, job->rpc.xid, stat, 0, 0));
}

/* The result, its room being known to be enough for the head.  False: it does not fit, or is not
 * valid. */
static bool encode_at(struct nfs_job *job, uint8_t *dst, size_t room)
{
	const struct nfs_proc *row = job->call.proc;
	size_t body = 0;
	XDR x;

	if (row->xdr_res != NULL) {
		xdrmem_create(&x, (char *)dst + HEAD_LEN, (u_int)(room - HEAD_LEN), XDR_ENCODE);
		if (!row->xdr_res(&x, job->res))
			return false;
		body = xdr_getpos(&x);
	}
	(void)rpc_reply_accepted(dst + MARK_LEN, job->rpc.xid, RPC_ACCEPT_OK, 0, 0);
	rpc_record_mark(dst,
			(uint32_t)(RPC_REPLY_HEADER_LEN + body + padded(job->call.payload_len)));
	job->reply = dst;
	job->reply_len = HEAD_LEN + body;
	return true;
}

/* The rare large result (MOUNT's lists): measured first, then written to memory of its own. */
static bool encode_on_heap(struct nfs_job *job)
{
	size_t size = xdr_sizeof((xdrproc_t)job->call.proc->xdr_res, job->res);

	if (size == 0 || size > RPC_RECORD_MAX)
		return false;
	job->heap = malloc(HEAD_LEN + size);
	return job->heap != NULL && encode_at(job, job->heap, HEAD_LEN + size);
}

static bool result_has_status(const struct nfs_job *job)
{
	return job->rpc.prog == RPC_PROG_NFS ? job->rpc.proc != NFSPROC3_NULL
					     : job->rpc.proc == MOUNTPROC3_MNT;
}

static void note_status(struct nfs_job *job)
{
	const uint8_t *p = job->reply + HEAD_LEN;

	if (!result_has_status(job) || job->reply_len < HEAD_LEN + 4)
		return;
	job->has_status = true;
	job->status = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	job->is_failed = job->status != 0;
}

static void pad_payload(struct nfs_call *call)
{
	size_t pad = padded(call->payload_len) - call->payload_len;

	if (call->payload_len > 0)
		memset(call->payload + call->payload_len, 0, pad);
}

static void encode_result(struct nfs_job *job, uint8_t *dst, size_t room)
{
	assert(job->call.payload_len <= job->payload_cap);
	pad_payload(&job->call);
	if (!encode_at(job, dst, room) && !encode_on_heap(job)) {
		log_error(LOG_NFS, "proc=%s the result cannot be encoded", job->call.proc->name);
		reply_accept_stat(job, dst, RPC_SYSTEM_ERR);
		return;
	}
	note_status(job);
}

/* ---- running ------------------------------------------------------------ */

/* By the routine that rpcgen made, and strictly: bytes left over are garbage too. */
static bool decode_xdr(struct nfs_job *job)
{
	const struct rpc_call_header *h = &job->rpc;
	XDR x;

	/* XDR wants to write where it might encode; decoding only reads. */
	xdrmem_create(&x, (char *)(uintptr_t)h->args, (u_int)h->args_len, XDR_DECODE);
	return job->call.proc->xdr_args(&x, job->args) && xdr_getpos(&x) == h->args_len;
}

static bool decode_args(struct nfs_job *job)
{
	const struct nfs_proc *row = job->call.proc;

	memset(job->args, 0, row->args_size);
	if (row->decode != NULL)
		return row->decode(job->rpc.args, job->rpc.args_len, job->args);
	if (row->xdr_args != NULL)
		return decode_xdr(job);
	return job->rpc.args_len == 0;
}

static void free_args(struct nfs_job *job)
{
	const struct nfs_proc *row = job->call.proc;

	if (row->xdr_args != NULL)
		xdr_free((xdrproc_t)row->xdr_args, job->args);
}

/* Decodes, runs and encodes.  False: the procedure would have to wait, and nothing has changed. */
static bool attempt(struct nfs_job *job, uint8_t *dst, size_t room)
{
	const struct nfs_proc *row = job->call.proc;
	int rc;

	if (!decode_args(job)) {
		free_args(job);
		reply_accept_stat(job, dst, RPC_GARBAGE_ARGS);
		return true;
	}
	memset(job->res, 0, row->res_size);
	job->call.payload_len = 0;
	rc = row->run(&job->call, job->args, job->res);
	if (rc == 0)
		encode_result(job, dst, room);
	else if (rc != -EAGAIN || job->call.may_block)
		reply_accept_stat(job, dst, RPC_SYSTEM_ERR);
	free_args(job);
	return rc != -EAGAIN || job->call.may_block;
}

/* ---- which procedure ---------------------------------------------------- */

static bool is_nfs(const struct rpc_call_header *h)
{
	return h->prog == RPC_PROG_NFS;
}

/* Old umount programs end a version 3 mount with UMNT of version 1, after a NULL; both are the same
 * there. */
static bool version_is_ours(const struct rpc_call_header *h)
{
	if (h->vers == 3)
		return true;
	return !is_nfs(h) && h->vers == 1 &&
	       (h->proc == MOUNTPROC3_NULL || h->proc == MOUNTPROC3_UMNT);
}

static enum rpc_accept find_row(const struct nfs_dispatch *d, struct nfs_job *job)
{
	const struct rpc_call_header *h = &job->rpc;
	unsigned n_rows = is_nfs(h) ? NFS_STATS_MOUNT : NFS_STATS_ROWS - NFS_STATS_MOUNT;

	if (!is_nfs(h) && h->prog != RPC_PROG_MOUNT)
		return RPC_PROG_UNAVAIL;
	if (!version_is_ours(h))
		return RPC_PROG_MISMATCH;
	if (h->proc >= n_rows)
		return RPC_PROC_UNAVAIL;
	job->call.proc = is_nfs(h) ? &d->programs.nfs[h->proc] : &d->programs.mount[h->proc];
	job->row = h->proc + (is_nfs(h) ? 0 : NFS_STATS_MOUNT);
	return RPC_ACCEPT_OK;
}

/* Header and row.  False: job->reply says why not, or the step is NFS_STEP_CLOSE. */
static bool parse(const struct nfs_dispatch *d, struct nfs_job *job, const uint8_t *p, size_t n,
		  uint8_t *dst, enum nfs_step *ret_step)
{
	enum rpc_parse rc = rpc_parse_call(p, n, &job->rpc);
	enum rpc_accept stat;

	*ret_step = rc == RPC_IGNORE ? NFS_STEP_CLOSE : NFS_STEP_REPLY;
	if (rc == RPC_IGNORE)
		return false;
	if (rc != RPC_CALL_OK) {
		reply_refusal(job, dst, rpc_reply_rejected(dst + MARK_LEN, job->rpc.xid, rc));
		return false;
	}
	stat = find_row(d, job);
	if (stat == RPC_ACCEPT_OK)
		return true;
	reply_refusal(job, dst, rpc_reply_accepted(dst + MARK_LEN, job->rpc.xid, stat, 3, 3));
	return false;
}

/* ---- repeats ------------------------------------------------------------ */

/* False: a repeat; *@ret_step says what becomes of it. */
static bool begin_once(const struct nfs_dispatch *d, struct nfs_job *job, enum nfs_step *ret_step)
{
	struct drc_key key;

	drc_key_of(d->drc, &job->call.peer->addr, &job->rpc, &key);
	switch (drc_begin(d->drc, &key, job->begin_ns, &job->link, &job->drc, &job->heap,
			  &job->reply_len)) {
	case DRC_RUN:
		return true;
	case DRC_REPLAY:
		job->reply = job->heap;
		job->is_replay = true;
		note_status(job);
		*ret_step = NFS_STEP_REPLY;
		return false;
	case DRC_PARKED: /* another thread may have finished the job by now: not to be touched here
			  */
		*ret_step = NFS_STEP_PARKED;
		return false;
	case DRC_DROP:
		break;
	}
	*ret_step = NFS_STEP_SILENT;
	return false;
}

/* A waiter without a reply (out of memory) goes unanswered, and its client asks again. */
static void answer_waiter(struct nfs_job *waiter, const struct nfs_job *first)
{
	waiter->heap = malloc(first->reply_len);
	if (waiter->heap == NULL)
		return;
	memcpy(waiter->heap, first->reply, first->reply_len);
	waiter->reply = waiter->heap;
	waiter->reply_len = first->reply_len;
	waiter->status = first->status;
	waiter->has_status = first->has_status;
	waiter->is_failed = first->is_failed;
}

static void finish_once(const struct nfs_dispatch *d, struct nfs_job *job, bool remember,
			struct list *ret_waiters)
{
	bool has_payload = job->call.payload_len > 0;
	struct list *pos;

	if (job->drc == NULL)
		return;
	drc_finish(d->drc, job->drc, remember && !has_payload ? job->reply : NULL, job->reply_len,
		   clock_mono_ns(), ret_waiters);
	job->drc = NULL;
	list_for_each (pos, ret_waiters) {
		if (!has_payload)
			answer_waiter(list_entry(pos, struct nfs_job, link), job);
	}
}

/* ---- public ------------------------------------------------------------- */

enum nfs_step nfs_dispatch_begin(const struct nfs_dispatch *d, struct nfs_job *job,
				 const uint8_t *p, size_t n, uint8_t *dst, size_t room,
				 struct list *ret_waiters)
{
	enum nfs_step step;

	assert(room >= NFS_JOB_SMALL);
	if (!parse(d, job, p, n, dst, &step))
		return step;
	if ((job->call.proc->flags & P_REPLAY) && !begin_once(d, job, &step))
		return step;
	if (job->call.proc->flags & P_POOL)
		return NFS_STEP_POOL;
	if (!attempt(job, dst, room))
		return NFS_STEP_POOL;
	finish_once(d, job, true, ret_waiters);
	return NFS_STEP_REPLY;
}

int nfs_dispatch_keep(struct nfs_job *job, const uint8_t *p, size_t n, uint8_t *own)
{
	size_t args_at = (size_t)(job->rpc.args - p);

	job->is_pooled = true;
	job->record = own != NULL ? own : malloc(n);
	if (job->record == NULL)
		return -ENOMEM;
	if (own == NULL)
		memcpy(job->record, p, n);
	job->rpc.args = job->record + args_at;
	return 0;
}

void nfs_dispatch_wait(const struct nfs_dispatch *d, struct nfs_job *job, struct list *ret_waiters)
{
	job->call.may_block = true;
	(void)attempt(job, job->small, sizeof(job->small));
	free(take_ptr(job->record));
	finish_once(d, job, true, ret_waiters);
}

void nfs_dispatch_system_err(const struct nfs_dispatch *d, struct nfs_job *job,
			     struct list *ret_waiters)
{
	reply_accept_stat(job, job->small, RPC_SYSTEM_ERR);
	finish_once(d, job, false, ret_waiters);
}

uint8_t *nfs_call_payload(struct nfs_call *call, size_t size)
{
	struct nfs_job *job = container_of(call, struct nfs_job, call);
	struct nfs_payloads *payloads = job->payloads;

	if (call->payload != NULL && job->payload_cap >= size)
		return call->payload;
	nfs_payloads_put(payloads, call->payload, job->payload_cap);
	job->payload_cap = 0;
	call->payload = nfs_payloads_get(payloads, size, &job->payload_cap);
	return call->payload;
}
