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

/* ---- limits of a head; what is longer is refused before it is stored ------------------------- */
#define HTTP_LINE_MAX                                                                              \
	(128u << 10) /* bytes of the request line: arguments of streams travel in it */
#define HTTP_HEADERS_MAX      (64u << 10) /* bytes of all header lines */
#define HTTP_HEADER_LINES_MAX 200
#define HTTP_TRAILERS_MAX     8192 /* bytes behind the last chunk; read and dropped */
#define HTTP_CHUNK_EXT_MAX    256  /* bytes of extensions of one chunk; read and dropped */
#define HTTP_PARAMS_MAX       4    /* {names} in one route */
#define HTTP_REQUEST_ID_MAX   128

/* ---- where a head ends ----------------------------------------------------------------------- */

struct http_head_scan {
	size_t start; /* of the request line: blank lines before it are skipped (RFC 9112 2.2) */
	size_t pos;   /* bytes looked at */
	size_t line_start; /* of the line that @pos is in */
	size_t first_end;  /* behind the request line; 0 while it is not whole */
	unsigned n_lines;  /* whole lines, the request line included */
};

/**
 * http_head_scan() - look for the blank line
 * @p, @n:	all bytes of this request that have arrived, from the first on
 *
 * Called again with the same bytes and more behind them; looks at each byte once.  On success the
 * head is p[s->start .. s->pos), the blank line included. Return: 1 whole, 0 more is needed, or the
 * negative HTTP status it is to be refused with.
 */
int http_head_scan(struct http_head_scan *s, const char *p, size_t n);

/**
 * http_head_check() - is every line of a whole head beyond doubt?
 * @ret_why:	set on refusal: a sentence with static storage
 *
 * One space between the parts of the request line, HTTP/1.0 or 1.1, names of tokens with the colon
 * right behind, no continued lines, no control characters.  Return: 0 or a negative HTTP status.
 */
int http_head_check(const char *p, size_t n, const char **ret_why);

/* ---- the body -------------------------------------------------------------------------------- */

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_body {
	enum http_body_kind kind;
	int state;         /* of the chunked coding */
	uint64_t left;     /* bytes still to come: of the body, or of this chunk */
	uint32_t n_digits; /* of this chunk's size */
	uint32_t n_extra;  /* bytes of extensions or trailers */
};

enum http_body_result { HTTP_BODY_MORE, HTTP_BODY_DATA, HTTP_BODY_END };

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t length);

/**
 * http_body_next() - take bytes of a body
 * @ret_used:	bytes of @p taken
 * @ret_data:	HTTP_BODY_DATA only: a run of the body; borrowed, into @p
 *
 * Call until HTTP_BODY_MORE (all bytes taken) or HTTP_BODY_END (the rest belongs to the next
 * request). Return: enum http_body_result, or -EBADMSG.
 */
int http_body_next(struct http_body *b, const char *p, size_t n, size_t *ret_used,
		   const char **ret_data, size_t *ret_data_len);

/* ---- the request ----------------------------------------------------------------------------- */

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
	/* The client is gone; the request is freed right after. */
	void (*on_abort)(struct http_request *req);
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
	const char *cors_origin;             /* NULL, or the allowed origin to name in the answer */

	struct buf body; /* collected, unless the route streams */
	struct http_request_hooks hooks;
	void *user; /* the streaming handler's */
	struct http_response res;

	char id[HTTP_REQUEST_ID_MAX + 1];
	uint64_t begin_ns; /* clock_mono_ns() at the end of the head */

	/* the core's */
	uv_work_t work;
	bool in_pool;
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
 * Return: 1, 0 absent, -EINVAL (bad escape or a NUL byte).
 */
int http_request_query(struct http_request *req, const char *name, const char **ret);

/* http_request_unescape() - %XX decoded into the arena; -EINVAL on a bad escape, -ENOMEM */
int http_request_unescape(struct http_request *req, const char *p, size_t n, bool plus_is_space,
			  char **ret, size_t *ret_len);

/* http_request_take_id() - the client's X-Request-ID if it is 1-128 of [A-Za-z0-9._-], else @made
 */
void http_request_take_id(struct http_request *req, const char *made);

#endif
