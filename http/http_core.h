/* SPDX-License-Identifier: MIT */
/*
 * What all connections share: policy, limits, the deadlines, counters, and recycled memory.  It
 * knows no sockets: the server drives it with real ones, tests and the fuzzer with buffers in
 * memory.
 *
 * Deadlines: a connection stands in at most one list, that of its present deadline.  All entries of
 * a list have the same duration, so each list is ordered by itself and a tick looks at its heads
 * only.
 *
 * Control loop only, unless a line says otherwise.
 */
#ifndef HTTP_HTTP_CORE_H
#define HTTP_HTTP_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "http/http_auth.h"
#include "http/http_limit.h"
#include "http/http_server.h"
#include "http/http_stats.h"
#include "http/router.h"

enum http_deadline {
	HTTP_DL_NONE, /* a handler is at work */
	HTTP_DL_HEADER,
	HTTP_DL_BODY,
	HTTP_DL_IDLE,
	HTTP_DL_WRITE,
	HTTP_DL_LINGER,
	HTTP_DL_COUNT,
};

#define HTTP_READ_SIZE  (64u << 10) /* bytes of the read buffer that all connections share */
#define HTTP_LINGER_MS  2000 /* an answer that ends the connection may still be read for so long */
#define HTTP_BODIES_MAX (256u << 20) /* bytes of all JSON bodies being collected; beyond it 429 */

struct http_core {
	const struct http_server_options *options; /* borrowed */
	const struct http_routes *routes;          /* borrowed */
	struct http_limits limits;                 /* without zeros */
	struct http_auth *auth;                    /* owned */
	struct http_limit *limit;                  /* owned */
	struct http_stats *stats;                  /* owned; counters may be read by any thread */

	/* Calls router_run() in the pool, and later http_conn_handler_done() on the loop; false:
	 * too many wait already.  NULL: handlers run inline (tests). */
	bool (*run_in_pool)(struct http_core *core, struct http_request *req);
	uv_loop_t *loop; /* borrowed; of handlers that wait for something; NULL: none (tests) */

	bool is_stopping; /* answers end their connection */
	struct list deadlines[HTTP_DL_COUNT];
	uint64_t duration_ns[HTTP_DL_COUNT];

	size_t bodies_bytes;        /* held by bodies being collected */
	struct list spare_requests; /* recycled, with their first arena chunk */
	unsigned n_spare_requests;
	struct buf
		spare_bufs[16]; /* owned; send buffers of connections that have nothing to send */
	unsigned n_spare_bufs;

	char id_prefix[9]; /* of the request ids of this process */
	uint64_t n_ids;
	char date[32]; /* value of the Date header for the second date_s */
	int64_t date_s;
};

/* http_core_init() - @options and @routes are borrowed until http_core_fini(); 0 or -errno */
int http_core_init(struct http_core *core, const struct http_server_options *options,
		   const struct http_routes *routes, struct err *err);
void http_core_fini(struct http_core *core);

/* http_core_tick() - expire what is over at @now_ns (clock_mono_ns) */
void http_core_tick(struct http_core *core, uint64_t now_ns);

struct http_request *http_core_request_new(struct http_core *core); /* NULL: out of memory */
void http_core_request_free(struct http_core *core, struct http_request *req);

struct buf http_core_take_buf(struct http_core *core);
void http_core_give_buf(struct http_core *core, struct buf *b);

const char *http_core_date(struct http_core *core);
/* http_core_make_id() - a new request id; @dst >= 32 bytes */
void http_core_make_id(struct http_core *core, char *dst, size_t dst_len);

#endif
