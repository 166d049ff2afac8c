/* SPDX-License-Identifier: MIT */
/*
 * One HTTP/1.1 connection as a machine over bytes: what arrived is fed in, answers go out by an
 * operation of the owner.  Requests of a connection are handled one after the other, so that
 * pipelined ones are answered in order; while one is at work in the pool, what arrives behind it
 * waits, bounded.
 *
 * Memory: an idle connection holds this struct and nothing else.  Bytes are read into one buffer of
 * the loop; what of it is not consumed at once is copied.  Send buffers and requests are recycled
 * by the core.
 *
 * Control loop only.
 */
#ifndef HTTP_HTTP_CONN_H
#define HTTP_HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/list.h"
#include "http/http_auth.h"
#include "http/http_body.h"
#include "http/http_core.h"
#include "http/http_head.h"
#include "http/http_request.h"

struct http_conn;

/* What the owner of the bytes' other side offers. */
struct http_conn_ops {
	ssize_t (*send)(struct http_conn *c, const void *p,
			size_t n); /* bytes, -EAGAIN, or -errno */
	void (*watch)(struct http_conn *c, bool readable, bool writable);
	void (*shutdown)(struct http_conn *c); /* nothing more will be sent */
	/* Send some of the request's file: bytes, 0 (the file ends before), -EAGAIN, -errno, or
	 * -EINPROGRESS: http_conn_file_sent() will tell.  NULL: the file is read and sent inline.
	 */
	ssize_t (*send_file)(struct http_conn *c, struct http_request *req);
	void (*close)(
		struct http_conn *c); /* c is done with; its memory must live until the caller of
				       * http_conn_*() has returned, then http_conn_fini() */
};

enum http_conn_state {
	CONN_HEAD,    /* between requests, or in the middle of a head */
	CONN_BODY,    /* reading the body of c->req */
	CONN_DISCARD, /* answered already; the rest of a short body is dropped */
	CONN_BUSY,    /* the handler of c->req is at work */
	CONN_FILE,    /* the head is queued, the file of c->req's answer is being sent */
	CONN_ENDING,  /* the last answer is being sent; input is dropped */
	CONN_CLOSED,
};

/* Embedded by the owner; the fields are http_conn.c's, but for deadline_link and deadline_since
 * (the core's). */
struct http_conn {
	struct http_core *core;
	const struct http_conn_ops *ops;
	struct http_peer peer;
	struct http_request *req; /* owned; NULL between requests */
	struct buf in;            /* arrived, not yet consumed */
	struct buf out;           /* to be sent from out_pos on */
	size_t out_pos;
	struct http_head_scan scan;
	struct http_body body;
	enum http_conn_state state;
	bool is_eof;         /* the client sends no more */
	bool is_dead;        /* sending failed */
	bool is_corked;      /* a function of ours is on the stack and will settle */
	bool is_body_paused; /* the streaming handler wants no more for now */
	bool wants_drain;    /* the streaming handler was told -EAGAIN */
	bool is_full;        /* the socket took no more of a file */
	bool lingers;        /* unread input: closing at once could destroy the answer on its way */
	bool is_shut;
	bool watch_read, watch_write;
	bool had_request;
	enum http_deadline deadline;
	uint64_t deadline_since; /* clock_mono_ns() */
	size_t progress;         /* bytes since then */
	struct list deadline_link;
};

void http_conn_init(struct http_conn *c, struct http_core *core, const struct http_conn_ops *ops,
		    const struct http_peer *peer);
void http_conn_fini(struct http_conn *c); /* after ops->close */

void http_conn_feed(struct http_conn *c, const char *p, size_t n); /* n bytes arrived; borrowed */
void http_conn_eof(struct http_conn *c);      /* the client will send no more */
void http_conn_writable(struct http_conn *c); /* send may succeed again */
void http_conn_expire(struct http_conn *c);   /* its deadline has passed */
void http_conn_abort(struct http_conn *c);    /* close now, whatever it is doing */
void http_conn_drain(
	struct http_conn *c); /* the server stops: close when the present request is answered */

const struct http_peer *http_conn_peer(const struct http_conn *c);

/* http_conn_pool_run() - what the pool does for a request: router_run(), or its present step. Pool.
 */
void http_conn_pool_run(struct http_request *req);
/* http_conn_handler_done() - the pool has run it; the request's client may be gone */
void http_conn_handler_done(struct http_core *core, struct http_request *req);

/* http_conn_begin_step() - as http_conn_run_step(), but false only says that too many wait */
bool http_conn_begin_step(struct http_request *req, void (*run)(struct http_request *req),
			  void (*done)(struct http_request *req));
/* http_conn_file_sent() - after -EINPROGRESS of send_file, from the step's done function: as its
 * results */
void http_conn_file_sent(struct http_request *req, ssize_t n);

/* ---- for streaming handlers (R_STREAM) ---------------------------------- */

/**
 * http_conn_run_step() - @run(req) in the pool, then @done(req) on the loop unless the client has
 * gone
 *
 * Meanwhile no hook is called but at the very end cleanup; on_body must return -EAGAIN when this
 * returned true, and a handler that wants the body later calls http_conn_resume_body().
 * Return: true: it runs; false: it is over (run inline, or refused), and the request may be gone.
 */
bool http_conn_run_step(struct http_request *req, void (*run)(struct http_request *req),
			void (*done)(struct http_request *req));

/* http_conn_answer() - res is filled in as a whole: send it.  The request is freed. */
void http_conn_answer(struct http_request *req);

/**
 * http_conn_stream_begin() - send status and headers now, the body by and by
 * @length:	bytes of the body, or -1 when not known
 */
int http_conn_stream_begin(struct http_request *req, int status, const char *type, int64_t length);

/* http_conn_stream_write() - @p is copied.  0; -EAGAIN: taken, but wait for on_drain before more;
 * -EPIPE: the client is gone and on_abort follows from the loop. */
int http_conn_stream_write(struct http_request *req, const void *p, size_t n);
void http_conn_stream_end(struct http_request *req); /* the request is freed */

/* http_conn_resume_body() - after on_body said -EAGAIN; may call on_body before it returns */
void http_conn_resume_body(struct http_request *req);

#endif
