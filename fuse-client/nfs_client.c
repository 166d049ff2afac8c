/* SPDX-License-Identifier: MIT */
/*
 * Between the file system's operations and RPC: a table says how each procedure's arguments and
 * results are encoded, and one function sends any of them.
 *
 * Results are decoded by rpcgen's routines into a union on the stack, given to the caller, and
 * freed.  What carries bulk (READ, READDIR) ends where the bulk begins; the rest of the record is
 * handed on as it lies, so a megabyte of data is not copied here.
 *
 * NFS3ERR_JUKEBOX means "come back later": the call is sent again, as a new one, after a pause.
 */
#include "fuse-client/nfs_client.h"

#include <assert.h>
#include <errno.h>
#include <rpc/rpc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/status.h"

#define HEADER_MAX     (RPC_CALL_MARK + 40 + RPC_CRED_MAX) /* bytes in front of the arguments */
#define ARGS_MAX       (2 * (NFS3_WIRE_MAX + NFS3_FHSIZE) + 256) /* RENAME has two of each */
#define JUKEBOX_MIN_MS 100
#define JUKEBOX_MAX_MS 5000

struct nfs_client {
	uv_loop_t *loop;
	struct rpc_client *rpc;
	struct rpc_cred cred;
	char machine[64];
	uint64_t seq;
	uint64_t n_calls[NFS_N_PROCS];
	struct list sleeping; /* calls that wait for a server that said JUKEBOX */
	bool is_closing;
	unsigned n_timers; /* of sleeping calls, until closed; the last frees a closed client */
};

struct proc_row {
	const char *name;
	xdrproc_t args, res;
};

struct nfs_call {
	struct rpc_call rpc;
	struct nfs_client *client;
	const struct proc_row *row;
	uint32_t proc;
	nfs_done done;
	void *arg;
	uint64_t sent_seq;
	struct list link; /* in client->sleeping */
	uv_timer_t timer;
	unsigned n_sleeps;
	bool has_timer;
};

/* clang-format off */
#define ROW(NAME) [NFSPROC3_##NAME] = { #NAME, (xdrproc_t)xdr_##NAME##3args, (xdrproc_t)xdr_##NAME##3res }
static const struct proc_row nfs_rows[NFS_N_PROCS] = {
	[NFSPROC3_NULL]  = { "NULL", NULL, NULL },
	ROW(GETATTR), ROW(SETATTR), ROW(LOOKUP), ROW(ACCESS), ROW(READLINK), ROW(READ),
	[NFSPROC3_WRITE] = { "WRITE", NULL, (xdrproc_t)xdr_WRITE3res },
	ROW(CREATE), ROW(MKDIR), ROW(SYMLINK), ROW(MKNOD), ROW(REMOVE), ROW(RMDIR), ROW(RENAME),
	ROW(LINK), ROW(READDIR), ROW(READDIRPLUS), ROW(FSSTAT), ROW(FSINFO), ROW(PATHCONF), ROW(COMMIT),
};
/* clang-format on */

static const struct proc_row mnt_row = { "MNT", (xdrproc_t)xdr_dirpath, (xdrproc_t)xdr_mountres3 };

const char *nfs_proc_name(uint32_t proc)
{
	return proc < NFS_N_PROCS ? nfs_rows[proc].name : "?";
}

/* ---- an answer ---------------------------------------------------------- */

static void client_maybe_free(struct nfs_client *c)
{
	if (c->is_closing && c->n_timers == 0)
		free(c);
}

static void on_timer_closed(uv_handle_t *h)
{
	struct nfs_call *call = container_of(h, struct nfs_call, timer);
	struct nfs_client *c = call->client;

	free(call);
	c->n_timers--;
	client_maybe_free(c);
}

static void call_free(struct nfs_call *call)
{
	free(call->rpc.head);
	if (call->has_timer)
		uv_close((uv_handle_t *)&call->timer, on_timer_closed);
	else
		free(call);
}

static void finish(struct nfs_call *call, const struct nfs_result *r)
{
	if (log_is_on(LOG_DEBUG, LOG_RPC))
		log_debug(LOG_RPC, "rpc %s xid=%08x -> %s us=%llu", call->row->name, call->rpc.xid,
			  r->res != NULL ? status_nfs_name(r->res->status) : strerror(-r->err),
			  (unsigned long long)(clock_mono_ns() - call->rpc.start_ns) / 1000);
	call->done(call->arg, r);
	call_free(call);
}

static void fail(struct nfs_call *call, int err)
{
	const struct nfs_result r = { .err = err, .sent_seq = call->sent_seq };

	finish(call, &r);
}

static void on_reply(struct rpc_call *rpc, int err, const uint8_t *body, size_t len);

static void send_again(uv_timer_t *t)
{
	struct nfs_call *call = container_of(t, struct nfs_call, timer);
	struct nfs_client *c = call->client;
	uint32_t xid = rpc_client_next_xid(c->rpc);

	list_del(&call->link);
	/* A new call: with the old xid it would be answered from the server's replay cache. */
	xid = htobe32(xid);
	memcpy(call->rpc.head + RPC_CALL_MARK, &xid, sizeof(xid));
	rpc_client_send(c->rpc, &call->rpc, be32toh(xid));
}

static void sleep_and_repeat(struct nfs_call *call)
{
	struct nfs_client *c = call->client;
	uint64_t ms = JUKEBOX_MIN_MS << MIN(call->n_sleeps, 6u);

	if (!call->has_timer) {
		uv_timer_init(c->loop, &call->timer);
		call->has_timer = true;
		c->n_timers++;
	}
	call->n_sleeps++;
	list_add_tail(&c->sleeping, &call->link);
	uv_timer_start(&call->timer, send_again, MIN(ms, (uint64_t)JUKEBOX_MAX_MS), 0);
}

/* What is decoded into the union must be freed whatever became of it. */
static void deliver(struct nfs_call *call, const uint8_t *body, size_t len)
{
	union nfs_res res;
	struct nfs_result r = { .res = &res, .sent_seq = call->sent_seq };
	xdrproc_t decode = call->row->res; /* the call is gone when the result is freed */
	XDR xdrs;

	memset(&res, 0, sizeof(res));
	xdrmem_create(&xdrs, (char *)(uintptr_t)body, (u_int)len, XDR_DECODE);
	if (!((bool_t(*)(XDR *, void *))decode)(&xdrs, &res)) {
		r.err = -EPROTO;
		r.res = NULL;
	} else if (call->row == &mnt_row) {
		r.err = status_errno((nfsstat3)res.mount.fhs_status);
	} else {
		r.err = status_errno(res.status);
		r.bulk = body + xdr_getpos(&xdrs);
		r.bulk_len = len - xdr_getpos(&xdrs);
	}
	if (r.res != NULL && res.status == NFS3ERR_JUKEBOX && !call->client->is_closing)
		sleep_and_repeat(call);
	else
		finish(call, &r);
	xdr_free(decode, (char *)&res);
}

static void on_reply(struct rpc_call *rpc, int err, const uint8_t *body, size_t len)
{
	struct nfs_call *call = container_of(rpc, struct nfs_call, rpc);

	if (err < 0)
		fail(call, err);
	else
		deliver(call, body, len);
}

/* ---- a call ------------------------------------------------------------- */

static struct nfs_call *call_new(struct nfs_client *c, const struct proc_row *row, uint32_t proc,
				 nfs_done done, void *arg)
{
	struct nfs_call *call = calloc(1, sizeof(*call));

	if (call == NULL) {
		const struct nfs_result r = { .err = -ENOMEM, .sent_seq = c->seq };

		done(arg, &r);
		return NULL;
	}
	call->client = c;
	call->row = row;
	call->proc = proc;
	call->done = done;
	call->arg = arg;
	call->sent_seq = c->seq;
	call->rpc.done = on_reply;
	list_init(&call->link);
	return call;
}

static size_t write_header(struct nfs_client *c, uint8_t *dst, size_t room, uint32_t xid,
			   uint32_t prog, uint32_t proc)
{
	const struct rpc_call_header h = {
		.xid = xid, .prog = prog, .vers = NFS_V3, .proc = proc, .cred = c->cred
	};

	_Static_assert(NFS_V3 == MOUNT_V3, "one version number serves both programs");
	return RPC_CALL_MARK +
	       rpc_write_call(dst + RPC_CALL_MARK, room - RPC_CALL_MARK, &h, c->machine);
}

/* Takes @call.  @buf holds the head of @len bytes; 0 means that it could not be encoded. */
static void dispatch(struct nfs_call *call, const uint8_t *buf, size_t len, uint32_t xid)
{
	struct nfs_client *c = call->client;

	if (len == 0) {
		fail(call, -ENAMETOOLONG);
		return;
	}
	if (c->is_closing) {
		fail(call, -ESHUTDOWN);
		return;
	}
	call->rpc.head = malloc(len);
	if (call->rpc.head == NULL) {
		fail(call, -ENOMEM);
		return;
	}
	memcpy(call->rpc.head, buf, len);
	call->rpc.head_len = len;
	rpc_client_send(c->rpc, &call->rpc, xid);
}

static void send_xdr(struct nfs_call *call, uint32_t prog, const void *args)
{
	uint8_t buf[HEADER_MAX + ARGS_MAX];
	uint32_t xid = rpc_client_next_xid(call->client->rpc);
	size_t len = write_header(call->client, buf, sizeof(buf), xid, prog, call->proc);
	XDR xdrs;

	xdrmem_create(&xdrs, (char *)buf + len, (u_int)(sizeof(buf) - len), XDR_ENCODE);
	if (!((bool_t(*)(XDR *, void *))call->row->args)(&xdrs, (void *)(uintptr_t)args))
		len = 0;
	else
		len += xdr_getpos(&xdrs);
	dispatch(call, buf, len, xid);
}

void nfs_send(struct nfs_client *c, uint32_t proc, const void *args, nfs_done done, void *arg)
{
	struct nfs_call *call;

	assert(proc < NFS_N_PROCS && nfs_rows[proc].args != NULL);
	call = call_new(c, &nfs_rows[proc], proc, done, arg);
	if (call == NULL)
		return;
	c->n_calls[proc]++;
	send_xdr(call, RPC_PROG_NFS, args);
}

void nfs_send_mnt(struct nfs_client *c, const char *path, nfs_done done, void *arg)
{
	struct nfs_call *call = call_new(c, &mnt_row, MOUNTPROC3_MNT, done, arg);
	const dirpath p = { .dirpath_val = (char *)(uintptr_t)path,
			    .dirpath_len = (u_int)strlen(path) };

	if (call != NULL)
		send_xdr(call, RPC_PROG_MOUNT, &p);
}

void nfs_send_write(struct nfs_client *c, const struct nfs3_write_args *a, nfs_done done, void *arg)
{
	struct nfs_call *call = call_new(c, &nfs_rows[NFSPROC3_WRITE], NFSPROC3_WRITE, done, arg);
	uint8_t buf[HEADER_MAX + NFS3_FHSIZE + 64];
	uint32_t xid;
	size_t len;

	if (call == NULL)
		return;
	c->n_calls[NFSPROC3_WRITE]++;
	xid = rpc_client_next_xid(c->rpc);
	len = write_header(c, buf, sizeof(buf), xid, RPC_PROG_NFS, NFSPROC3_WRITE);
	len += nfs3_bulk_encode_write(buf + len, sizeof(buf) - len, a);
	call->rpc.payload = a->data;
	call->rpc.payload_len = a->data_len;
	dispatch(call, buf, len, xid);
}

/* ---- the client --------------------------------------------------------- */

int nfs_client_new(uv_loop_t *loop, const struct nfs_client_options *o, struct nfs_client **ret)
{
	struct nfs_client *c = calloc(1, sizeof(*c));
	int rc;

	if (c == NULL)
		return -ENOMEM;
	c->loop = loop;
	c->cred = o->cred;
	list_init(&c->sleeping);
	if (gethostname(c->machine, sizeof(c->machine) - 1) < 0)
		c->machine[0] = '\0';
	rc = rpc_client_new(loop, &o->rpc, &c->rpc);
	if (rc < 0) {
		free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

struct rpc_client *nfs_client_rpc(struct nfs_client *c)
{
	return c->rpc;
}

uint64_t nfs_client_seq(const struct nfs_client *c)
{
	return c->seq;
}

uint64_t nfs_client_next_seq(struct nfs_client *c)
{
	return ++c->seq;
}

uint64_t nfs_client_count(const struct nfs_client *c, uint32_t proc)
{
	return c->n_calls[proc];
}

void nfs_client_close(struct nfs_client *c)
{
	if (c == NULL)
		return;
	c->is_closing = true;
	rpc_client_close(c->rpc);
	while (!list_is_empty(&c->sleeping)) {
		struct nfs_call *call = list_entry(c->sleeping.next, struct nfs_call, link);

		list_del(&call->link);
		uv_timer_stop(&call->timer);
		fail(call, -ESHUTDOWN);
	}
	client_maybe_free(c);
}
