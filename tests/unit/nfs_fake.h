/* SPDX-License-Identifier: MIT */
/*
 * Small procedures in place of the real ones, for tests of the transport: each does one thing that
 * the transport must cope with.  Arguments are one number, and for some a run of bytes behind it.
 */
#ifndef TESTS_UNIT_NFS_FAKE_H
#define TESTS_UNIT_NFS_FAKE_H

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nfsd/nfs_dispatch.h"
#include "proto/rpc_record.h"

enum fake_proc {
	FAKE_NULL = 0,
	FAKE_ECHO = 1,       /* answers its number, inline */
	FAKE_WAITS = 3,      /* -EAGAIN inline, then as ECHO from a pool */
	FAKE_READ = 6,       /* as many bytes of payload as its number says, inline */
	FAKE_WRITE = 7,      /* sum of the bytes behind the number; an odd number goes to a pool */
	FAKE_ONCE = 8,       /* replay-protected: answers how often it has run */
	FAKE_GATED_ONCE = 9, /* the same in a pool, when the gate is open */
	FAKE_STATUS = 10,    /* answers its number as status */
	FAKE_BROKEN = 11,    /* fails without a result */
	FAKE_GATED = 21,     /* in the pool for fsync: waits for the gate */
};
#define FAKE_MOUNT_LIST 5 /* as many bytes of result as its number says: encoded, not payload */

struct fake_args {
	uint32_t v;
	const uint8_t *data; /* borrowed: into the record */
	size_t len;
};

struct fake_res {
	uint32_t status, v;
};

struct fake_list {
	u_int len;
	char *bytes;
};

/* The gate is closed with fake_gate(false); pooled procedures wait for it to open. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool is_open;
	unsigned n_waiting;
	unsigned n_runs; /* of ONCE and GATED_ONCE */
} fake = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, true, 0, 0 };

static inline void fake_gate(bool open)
{
	pthread_mutex_lock(&fake.mutex);
	fake.is_open = open;
	pthread_cond_broadcast(&fake.cond);
	pthread_mutex_unlock(&fake.mutex);
}

static inline void fake_reset(void)
{
	pthread_mutex_lock(&fake.mutex);
	fake.is_open = true;
	fake.n_runs = 0;
	pthread_mutex_unlock(&fake.mutex);
}

static inline unsigned fake_waiting(void)
{
	unsigned n;

	pthread_mutex_lock(&fake.mutex);
	n = fake.n_waiting;
	pthread_mutex_unlock(&fake.mutex);
	return n;
}

static void fake_pass_gate(void)
{
	pthread_mutex_lock(&fake.mutex);
	fake.n_waiting++;
	while (!fake.is_open)
		pthread_cond_wait(&fake.cond, &fake.mutex);
	fake.n_waiting--;
	pthread_mutex_unlock(&fake.mutex);
}

static bool fake_decode(const uint8_t *p, size_t n, void *args)
{
	struct fake_args *a = args;

	if (n < 4 || n % 4 != 0)
		return false;
	a->v = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	a->data = p + 4;
	a->len = n - 4;
	return true;
}

static bool fake_decode_number(const uint8_t *p, size_t n, void *args)
{
	return n == 4 && fake_decode(p, n, args);
}

/* For the row that has no decoder of its own. */
static bool_t fake_xdr_args(XDR *x, void *p)
{
	return xdr_uint32_t(x, &((struct fake_args *)p)->v);
}

static bool_t fake_xdr_res(XDR *x, void *p)
{
	struct fake_res *r = p;

	return xdr_uint32_t(x, &r->status) && xdr_uint32_t(x, &r->v);
}

static bool_t fake_xdr_list(XDR *x, void *p)
{
	struct fake_list *l = p;

	return xdr_bytes(x, &l->bytes, &l->len, 1u << 20);
}

static int fake_null(struct nfs_call *call, void *args, void *res)
{
	return 0;
}

static int fake_echo(struct nfs_call *call, void *args, void *res)
{
	((struct fake_res *)res)->v = ((struct fake_args *)args)->v;
	return 0;
}

static int fake_waits(struct nfs_call *call, void *args, void *res)
{
	return call->may_block ? fake_echo(call, args, res) : -EAGAIN;
}

static uint8_t fake_byte(uint32_t seed, size_t i)
{
	return (uint8_t)(seed * 31u + i * 7u + (i >> 8));
}

static int fake_read(struct nfs_call *call, void *args, void *res)
{
	uint32_t n = ((struct fake_args *)args)->v;
	uint8_t *p = nfs_call_payload(call, n);

	if (p == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		p[i] = fake_byte(n, i);
	call->payload_len = n;
	((struct fake_res *)res)->v = n;
	return 0;
}

static int fake_write(struct nfs_call *call, void *args, void *res)
{
	const struct fake_args *a = args;
	uint32_t sum = 0;

	if ((a->v & 1) && !call->may_block)
		return -EAGAIN;
	for (size_t i = 0; i < a->len; i++)
		sum = sum * 33 + a->data[i];
	((struct fake_res *)res)->v = sum;
	return 0;
}

static int fake_once(struct nfs_call *call, void *args, void *res)
{
	((struct fake_res *)res)->v = __atomic_add_fetch(&fake.n_runs, 1, __ATOMIC_RELAXED);
	return 0;
}

static int fake_gated_once(struct nfs_call *call, void *args, void *res)
{
	fake_pass_gate();
	return fake_once(call, args, res);
}

static int fake_status(struct nfs_call *call, void *args, void *res)
{
	((struct fake_res *)res)->status = ((struct fake_args *)args)->v;
	return 0;
}

static int fake_broken(struct nfs_call *call, void *args, void *res)
{
	return -EIO;
}

static int fake_gated(struct nfs_call *call, void *args, void *res)
{
	fake_pass_gate();
	return fake_echo(call, args, res);
}

static int fake_list(struct nfs_call *call, void *args, void *res)
{
	static char bytes[300000];
	struct fake_list *l = res;

	l->len = ((struct fake_args *)args)->v;
	l->bytes = bytes;
	return 0;
}

/* clang-format off */
#define FAKE_ROW(name, run, decode, flags) \
	{ name, run, decode, NULL, sizeof(struct fake_args), fake_xdr_res, sizeof(struct fake_res), flags }

static const struct nfs_proc fake_nfs[22] = {
	[FAKE_NULL]	  = { "NULL", fake_null, NULL, NULL, 0, NULL, 0, P_NULL },
	[FAKE_ECHO]	  = FAKE_ROW("ECHO", fake_echo, fake_decode_number, 0),
	[FAKE_WAITS]	  = FAKE_ROW("WAITS", fake_waits, fake_decode_number, 0),
	[FAKE_READ]	  = FAKE_ROW("READ", fake_read, fake_decode_number, 0),
	[FAKE_WRITE]	  = FAKE_ROW("WRITE", fake_write, fake_decode, 0),
	[FAKE_ONCE]	  = FAKE_ROW("ONCE", fake_once, fake_decode_number, P_REPLAY),
	[FAKE_GATED_ONCE] = FAKE_ROW("GATED_ONCE", fake_gated_once, fake_decode_number, P_REPLAY | P_POOL),
	[FAKE_STATUS]	  = { "STATUS", fake_status, NULL, fake_xdr_args, sizeof(struct fake_args),
			      fake_xdr_res, sizeof(struct fake_res), 0 },
	[FAKE_BROKEN]	  = FAKE_ROW("BROKEN", fake_broken, fake_decode_number, 0),
	[FAKE_GATED]	  = FAKE_ROW("GATED", fake_gated, fake_decode_number, P_POOL | P_SYNC),
};

static const struct nfs_proc fake_mount[6] = {
	[0] = { "NULL", fake_null, NULL, NULL, 0, NULL, 0, P_NULL },
	[1] = FAKE_ROW("MNT", fake_status, fake_decode_number, 0),
	[3] = { "UMNT", fake_null, fake_decode_number, NULL, sizeof(struct fake_args), NULL, 0, 0 },
	[FAKE_MOUNT_LIST] = { "EXPORT", fake_list, fake_decode_number, NULL, sizeof(struct fake_args),
			      fake_xdr_list, sizeof(struct fake_list), 0 },
};
/* clang-format on */

static const struct nfs_programs fake_programs = { fake_nfs, fake_mount };

/* Writes a call with record mark: the number, then @len bytes at @data (a multiple of four). */
static inline size_t fake_call_of(uint8_t *dst, size_t room, uint32_t prog, uint32_t vers,
				  uint32_t proc, uint32_t xid, uint32_t v, const void *data,
				  size_t len)
{
	struct rpc_call_header h = {
		.xid = xid,
		.prog = prog,
		.vers = vers,
		.proc = proc,
		.cred = { .flavor = RPC_AUTH_SYS, .uid = 1000, .gid = 1000 },
	};
	size_t n = rpc_write_call(dst + 4, room - 4, &h, "test");
	uint32_t be = htonl(v);

	if (n == 0 || n + 8 + len > room)
		abort();
	if (proc != FAKE_NULL) {
		memcpy(dst + 4 + n, &be, 4);
		n += 4;
	}
	if (len > 0)
		memcpy(dst + 4 + n, data, len);
	n += len;
	rpc_record_mark(dst, (uint32_t)n);
	return n + 4;
}

static inline size_t fake_call(uint8_t *dst, size_t room, uint32_t proc, uint32_t xid, uint32_t v)
{
	return fake_call_of(dst, room, RPC_PROG_NFS, 3, proc, xid, v, NULL, 0);
}

static inline uint32_t fake_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

#endif
