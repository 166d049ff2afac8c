/* SPDX-License-Identifier: MIT */
/*
 * Calls over a handful of TCP connections that may break at any time: see rpc_client.c.  Everything
 * here belongs to the thread of the loop.
 */
#ifndef FUSE_CLIENT_RPC_CLIENT_H
#define FUSE_CLIENT_RPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/map.h"
#include "proto/rpc_header.h"

#define RPC_CLIENT_CONNS_MAX 16

struct rpc_client;
struct rpc_conn;
struct rpc_call;

/**
 * rpc_done - a call has ended
 * @err:	0, or -ETIMEDOUT (soft), -ECONNREFUSED and the like (before the first success),
 *		-EPROTO (the server did not understand the call), -EACCES (it refused the
 *		credential), -ESHUTDOWN (rpc_client_close())
 * @body:	the result behind the reply header; borrowed until the function returns
 *
 * The call belongs to the caller again.
 */
typedef void (*rpc_done)(struct rpc_call *call, int err, const uint8_t *body, size_t len);

/* Embedded by callers; all fields but the first five are the client's. */
struct rpc_call {
	uint8_t *head; /* owned by the caller: RPC_CALL_MARK bytes of room, header, arguments */
	size_t head_len;
	const uint8_t *payload; /* borrowed until done: bytes behind the head; NULL for none */
	size_t payload_len;
	rpc_done done;

	struct list link; /* conn->unsent or conn->sent */
	struct map_node node;
	struct rpc_conn *conn;
	uint32_t xid;
	uint64_t start_ns; /* CLOCK_MONOTONIC, when it was given to us */
};

#define RPC_CALL_MARK 4 /* bytes: the record mark */

struct rpc_client_options {
	const char *host; /* copied; resolved anew for every attempt, since a name may move */
	uint16_t port;
	unsigned n_conns;    /* 1..RPC_CLIENT_CONNS_MAX */
	uint64_t timeout_ms; /* soft: a call older than this fails; 0: hard, wait for ever */
};

struct rpc_client_stats {
	unsigned n_conns, n_up;
	uint64_t n_connects, n_resent, n_calls, n_pending;
	uint64_t bytes_sent, bytes_received;
};

/**
 * rpc_client_new() - begin to connect
 *
 * The client starts impatient: as soon as every address of the host has failed, its calls fail too,
 * so that a mount of a server that is not there ends with a message.
 * Return: 0, -ENOMEM.
 */
int rpc_client_new(uv_loop_t *loop, const struct rpc_client_options *o, struct rpc_client **ret);

/* rpc_client_be_patient() - from now on calls outlive connections, but for @timeout_ms (0: ever) */
void rpc_client_be_patient(struct rpc_client *c, uint64_t timeout_ms);

uint32_t rpc_client_next_xid(struct rpc_client *c);

/**
 * rpc_client_send() - queue a call
 * @call:	borrowed until its done(); head has the xid of @xid in its header
 *
 * Bytes leave when the loop next waits, so that calls of one turn share a segment.  done() is never
 * called from here.  A call whose connection breaks is sent again, with its xid, on the next one.
 */
void rpc_client_send(struct rpc_client *c, struct rpc_call *call, uint32_t xid);

bool rpc_client_is_up(const struct rpc_client *c); /* at least one connection stands */
/* What went wrong last, as a sentence; "" when nothing did.  Borrowed. */
const char *rpc_client_last_error(const struct rpc_client *c);
void rpc_client_stats(const struct rpc_client *c, struct rpc_client_stats *ret);

/* rpc_client_close() - end all calls with -ESHUTDOWN; freed when the loop has closed its handles.
 * Not to be called from a done(), whose bytes it would free. */
void rpc_client_close(struct rpc_client *c);

#endif
