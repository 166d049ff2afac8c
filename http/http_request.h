/* SPDX-License-Identifier: MIT */
/*
 * A request: what was asked, by whom, and the answer that is being made for it.
 *
 * Also the strict reading of HTTP/1.1 messages that does not need a connection: where the head
 * ends, what its lines may look like, how the body is framed.  All of that is pure functions over
 * bytes.  llhttp is lenient where older servers were (bare LF, obs-fold, a space before the colon,
 * whatever stands after a chunk), and how lenient depends on how a distribution built it; a request
 * that two parsers may read differently is refused here before llhttp sees it.
 */
#ifndef HTTP_HTTP_REQUEST_H
#define HTTP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "http/http_response.h"

#define HTTP_PARAMS_MAX     4 /* {names} in one route */
#define HTTP_REQUEST_ID_MAX 128

enum http_method {
	HTTP_M_GET,
	HTTP_M_HEAD,
	HTTP_M_POST,
	HTTP_M_PUT,
	HTTP_M_DELETE,
	HTTP_M_PATCH,
	HTTP_M_OPTIONS,
	HTTP_M_OTHER, /* known to HTTP, not to us */
};

const char *http_method_text(enum http_method m);

struct http_header {
	const char *name,
		*value; /* into the head; not NUL-terminated; value without outer blanks */
	uint32_t name_len, value_len;
};

struct http_client;
struct http_conn;
struct http_core;
struct http_route;
struct http_request;

/* What a streaming handler wants to hear of; called on the control loop.  Any may be NULL. */
struct http_request_hooks {
	/* A run of the body.  0; -EAGAIN: taken, but wait for http_conn_resume_body(); other: give
	 * up. */
	int (*on_body)(struct http_request *req, const char *p, size_t n);
	void (*on_body_end)(struct http_request *req);
	/* What http_stream_write() said -EAGAIN about has been sent. */
	void (*on_drain)(struct http_request *req);
	/* The client sends no more, or the server stops: an answer without an end should end now.
	 */
	void (*on_eof)(struct http_request *req);
	/* The client is gone, or its body was malformed or late and the connection answers that;
	 * the request is freed right after. */
	void (*on_abort)(struct http_request *req);
	/* However the request ends: called in the pool, before the request is freed, to give back
	 * what may take time (a large file without a name). */
	void (*cleanup)(struct http_request *req);
};

struct http_request {
	struct http_core *core; /* borrowed */
	struct http_conn *conn; /* borrowed; NULL once the client is gone.  Control loop only. */
	struct arena arena;     /* dies with the request */

	enum http_method method;
	const char *method_text; /* static */
	bool is_http10, wants_close, expects_continue, has_body, has_length;
	uint64_t content_length;
	const char *path, *query; /* NUL-terminated, as sent; query "" when there is none */
	size_t path_len;
	const struct http_header *headers;
	size_t n_headers;

	const struct http_route *route;      /* NULL: none */
	const char *params[HTTP_PARAMS_MAX]; /* decoded, in the order of the pattern */
	bool is_authorized;                  /* the caller may see details */
	struct http_client *client;          /* counted there until the request is freed */
	const char *cors_origin;             /* NULL, or the allowed origin to name in the answer */

	struct buf body; /* collected, unless the route streams */
	struct http_request_hooks hooks;
	void *user;    /* the streaming handler's */
	bool collects; /* a streaming handler that wants the body gathered in @body all the same */
	struct http_response res;

	char id[HTTP_REQUEST_ID_MAX + 1];
	uint64_t begin_ns; /* clock_mono_ns() at the end of the head */

	/* the core's */
	uv_work_t work;
	void (*step_run)(struct http_request *req); /* instead of the handler; see
						       http_conn_run_step() */
	void (*step_done)(struct http_request *req);
	int file_sock;       /* while the pool sends the answer's file: to where, doubled */
	ssize_t file_result; /* what came of it: as http_conn_file_sent() takes it */
	bool is_trial;       /* the handler runs on the loop and must not wait */
	bool wants_pool;     /* set by it then: it would have to, and has made no answer */
	bool in_pool;
	bool is_gone; /* atomic: the client left while the pool works on it */
	bool is_slow; /* counts among the few that may take long */
	struct list link;
};

/* http_request_header() - value of the first header @name (any case), NUL-terminated in the arena;
 * NULL */
const char *http_request_header(struct http_request *req, const char *name);
unsigned http_request_count(const struct http_request *req, const char *name);

/**
 * http_request_frame() - decide from the headers how the body is framed, and what else must be
 * single
 *
 * Refuses everything that two readers might see differently: Transfer-Encoding beside
 * Content-Length, either of them twice, codings other than "chunked", lengths that are not plain
 * digits, HTTP/1.0 with Transfer-Encoding; a missing or second Host, a second Authorization or
 * Origin. Return: 0 (has_body, has_length, content_length, wants_close, expects_continue are set)
 * or a negative HTTP status.
 */
int http_request_frame(struct http_request *req, const char **ret_why);

/* http_request_target() - origin-form and absolute-form into path and query; negative HTTP status
 */
int http_request_target(struct http_request *req, const char *p, size_t n, const char **ret_why);

/**
 * http_request_query() - a parameter of the query, decoded (%XX, and + as space), in the arena
 * Return: 1, 0 absent, -EINVAL (bad escape), -EILSEQ (a NUL byte).
 */
int http_request_query(struct http_request *req, const char *name, const char **ret);

/* http_request_unescape() - %XX decoded into the arena; -EINVAL on a bad escape, -ENOMEM */
int http_request_unescape(struct http_request *req, const char *p, size_t n, bool plus_is_space,
			  char **ret, size_t *ret_len);

/* http_request_take_id() - the client's X-Request-ID if it is 1-128 of [A-Za-z0-9._-], else @made
 */
void http_request_take_id(struct http_request *req, const char *made);

#endif
