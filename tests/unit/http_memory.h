/* SPDX-License-Identifier: MIT */
/*
 * An HTTP connection without sockets: what the server sends is gathered in a buffer.  For the unit
 * tests of http/ and its fuzzer.  A test brings its own table of routes.
 */
#ifndef TESTS_HTTP_MEMORY_H
#define TESTS_HTTP_MEMORY_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/http_conn.h"
#include "http/http_core.h"

struct http_memory {
	struct http_conn conn;
	struct http_core core;
	struct http_server_options options;
	struct buf sent;
	size_t room; /* bytes that send takes before it says -EAGAIN; SIZE_MAX: all */
	bool send_fails, is_readable, is_writable, is_shut, is_closed;
	unsigned n_sends;
	struct http_request *pooled; /* given to the "pool" by run_in_pool */
};

static inline ssize_t http_memory_send(struct http_conn *c, const void *p, size_t n)
{
	struct http_memory *m = container_of(c, struct http_memory, conn);

	if (m->send_fails)
		return -EPIPE;
	if (m->room == 0)
		return -EAGAIN;
	n = MIN(n, m->room);
	m->room -= m->room == SIZE_MAX ? 0 : n;
	m->n_sends++;
	if (buf_append(&m->sent, p, n) < 0)
		return -ENOMEM;
	return (ssize_t)n;
}

static inline void http_memory_watch(struct http_conn *c, bool readable, bool writable)
{
	struct http_memory *m = container_of(c, struct http_memory, conn);

	m->is_readable = readable;
	m->is_writable = writable;
}

static inline void http_memory_shutdown(struct http_conn *c)
{
	container_of(c, struct http_memory, conn)->is_shut = true;
}

static inline void http_memory_close(struct http_conn *c)
{
	container_of(c, struct http_memory, conn)->is_closed = true;
}

static const struct http_conn_ops http_memory_ops = {
	.send = http_memory_send,
	.watch = http_memory_watch,
	.shutdown = http_memory_shutdown,
	.close = http_memory_close,
};

static inline bool http_memory_pool(struct http_core *core, struct http_request *req)
{
	container_of(core, struct http_memory, core)->pooled = req;
	return true;
}

/* A new connection on the same core, as the next client's. */
static inline void http_memory_connect(struct http_memory *m)
{
	const struct http_peer peer = { .text = "127.0.0.1:1",
					.is_loopback = true,
					.uid_ok = true };

	buf_reset(&m->sent);
	m->room = SIZE_MAX;
	m->send_fails = m->is_shut = m->is_closed = false;
	m->n_sends = 0;
	http_conn_init(&m->conn, &m->core, &http_memory_ops, &peer);
}

static inline int http_memory_init(struct http_memory *m, const struct http_server_options *o,
				   const struct http_routes *routes)
{
	int rc;

	*m = (struct http_memory){ .options = *o };
	rc = http_core_init(&m->core, &m->options, routes, NULL);
	if (rc == 0)
		http_memory_connect(m);
	return rc;
}

static inline void http_memory_disconnect(struct http_memory *m)
{
	if (!m->is_closed)
		http_conn_abort(&m->conn);
	http_conn_fini(&m->conn);
}

static inline void http_memory_fini(struct http_memory *m)
{
	http_memory_disconnect(m);
	http_core_fini(&m->core);
	buf_free(&m->sent);
}

static inline void http_memory_feed(struct http_memory *m, const char *text)
{
	http_conn_feed(&m->conn, text, strlen(text));
}

/* What was sent so far, NUL-terminated. */
static inline const char *http_memory_text(struct http_memory *m)
{
	const char *s = buf_cstr(&m->sent);

	return s != NULL ? s : "";
}

/* How often @word occurs in what was sent. */
static inline unsigned http_memory_count(struct http_memory *m, const char *word)
{
	unsigned n = 0;

	for (const char *p = http_memory_text(m); (p = strstr(p, word)) != NULL; p += strlen(word))
		n++;
	return n;
}

/* Status of the first answer sent, 0 when there is none. */
static inline int http_memory_status(struct http_memory *m)
{
	const char *p = http_memory_text(m);

	return strncmp(p, "HTTP/1.1 ", 9) == 0 ? atoi(p + 9) : 0;
}

#endif
