/* SPDX-License-Identifier: MIT */
/* See http_core.h. */
#include "http/http_core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "http/http_conn.h"

#define SPARE_REQUESTS  64          /* kept for the next ones; about 2 KiB each */
#define SPARE_BYTES_MAX (64u << 10) /* a larger buffer goes back to the system */

static void fill_limits(struct http_limits *l)
{
	const struct http_limits d = {
		.header_ms = 15000,
		.body_ms = 30000,
		.idle_ms = 75000,
		.write_ms = 30000,
		.max_conns = 1024,
		.max_json_body = BUF_MAX_DEFAULT,
		.max_unsent = 256u << 10,
	};

	l->header_ms = l->header_ms != 0 ? l->header_ms : d.header_ms;
	l->body_ms = l->body_ms != 0 ? l->body_ms : d.body_ms;
	l->idle_ms = l->idle_ms != 0 ? l->idle_ms : d.idle_ms;
	l->write_ms = l->write_ms != 0 ? l->write_ms : d.write_ms;
	l->max_conns = l->max_conns != 0 ? l->max_conns : d.max_conns;
	l->max_json_body = l->max_json_body != 0 ? l->max_json_body : d.max_json_body;
	l->max_unsent = l->max_unsent != 0 ? l->max_unsent : d.max_unsent;
}

static void init_deadlines(struct http_core *core)
{
	const struct http_limits *l = &core->limits;
	const unsigned ms[HTTP_DL_COUNT] = {
		[HTTP_DL_HEADER] = l->header_ms,   [HTTP_DL_BODY] = l->body_ms,
		[HTTP_DL_IDLE] = l->idle_ms,       [HTTP_DL_WRITE] = l->write_ms,
		[HTTP_DL_LINGER] = HTTP_LINGER_MS,
	};

	for (size_t i = 0; i < HTTP_DL_COUNT; i++) {
		list_init(&core->deadlines[i]);
		core->duration_ns[i] = ms[i] * NSEC_PER_MS;
	}
}

int http_core_init(struct http_core *core, const struct http_server_options *options,
		   const struct http_routes *routes, struct err *err)
{
	uint32_t prefix;
	int rc;

	*core = (struct http_core){ .options = options,
				    .routes = routes,
				    .limits = options->limits };
	fill_limits(&core->limits);
	init_deadlines(core);
	list_init(&core->spare_requests);
	io_random(&prefix, sizeof(prefix));
	(void)snprintf(core->id_prefix, sizeof(core->id_prefix), "%08x", prefix);
	rc = http_auth_new(options, &core->auth, err);
	if (rc < 0)
		return rc;
	rc = http_stats_new(routes, &core->stats);
	if (rc == 0)
		rc = http_limit_new(core->limits.client_rate, core->limits.client_active,
				    &core->limit);
	if (rc < 0) {
		http_stats_free(core->stats);
		http_auth_free(core->auth);
		return err_set(err, rc, "out of memory");
	}
	return 0;
}

static void close_file(struct http_request *req)
{
	if (req->res.has_file)
		(void)close(req->res.file_fd);
	req->res.has_file = false;
}

static void request_destroy(struct http_request *req)
{
	arena_free(&req->arena);
	buf_free(&req->body);
	buf_free(&req->res.body);
	free(req);
}

void http_core_fini(struct http_core *core)
{
	while (!list_is_empty(&core->spare_requests)) {
		struct http_request *req =
			list_entry(core->spare_requests.next, struct http_request, link);

		list_del(&req->link);
		request_destroy(req);
	}
	while (core->n_spare_bufs > 0)
		buf_free(&core->spare_bufs[--core->n_spare_bufs]);
	http_limit_free(core->limit);
	http_stats_free(core->stats);
	http_auth_free(core->auth);
}

void http_core_tick(struct http_core *core, uint64_t now_ns)
{
	for (size_t i = HTTP_DL_NONE + 1; i < HTTP_DL_COUNT; i++) {
		struct list *head = &core->deadlines[i];

		while (!list_is_empty(head)) {
			struct http_conn *c =
				list_entry(head->next, struct http_conn, deadline_link);

			if (now_ns - c->deadline_since < core->duration_ns[i])
				break;
			http_conn_expire(c);
		}
	}
}

struct http_request *http_core_request_new(struct http_core *core)
{
	struct http_request *req;

	if (list_is_empty(&core->spare_requests)) {
		req = calloc(1, sizeof(*req));
		if (req == NULL)
			return NULL;
		list_init(&req->link);
	} else {
		req = list_entry(core->spare_requests.next, struct http_request, link);
		list_del(&req->link);
		core->n_spare_requests--;
	}
	req->core = core;
	return req;
}

/* recycle() - everything as new, but for memory that the next request can use */
static void recycle(struct http_request *req)
{
	struct arena arena = req->arena;
	struct buf body = req->body, answer = req->res.body;

	arena_reset(&arena);
	buf_reset(&body);
	buf_reset(&answer);
	*req = (struct http_request){ .arena = arena, .body = body, .res.body = answer };
	list_init(&req->link);
}

void http_core_request_free(struct http_core *core, struct http_request *req)
{
	if (req == NULL)
		return;
	core->bodies_bytes -= req->body.len;
	close_file(req);
	http_limit_end(core->limit, req->client);
	if (req->arena.total > SPARE_BYTES_MAX)
		arena_free(&req->arena);
	if (req->body.cap > SPARE_BYTES_MAX)
		buf_free(&req->body);
	if (req->res.body.cap > SPARE_BYTES_MAX)
		buf_free(&req->res.body);
	if (core->n_spare_requests == SPARE_REQUESTS) {
		request_destroy(req);
		return;
	}
	recycle(req);
	list_add_head(&core->spare_requests, &req->link);
	core->n_spare_requests++;
}

struct buf http_core_take_buf(struct http_core *core)
{
	if (core->n_spare_bufs > 0)
		return core->spare_bufs[--core->n_spare_bufs];
	return (struct buf){ 0 };
}

void http_core_give_buf(struct http_core *core, struct buf *b)
{
	if (b->data == NULL)
		return;
	if (b->cap > SPARE_BYTES_MAX ||
	    core->n_spare_bufs == sizeof(core->spare_bufs) / sizeof(*b)) {
		buf_free(b);
		return;
	}
	buf_reset(b);
	b->max = 0;
	core->spare_bufs[core->n_spare_bufs++] = *b;
	*b = (struct buf){ 0 };
}

const char *http_core_date(struct http_core *core)
{
	struct timespec ts;
	struct tm tm;

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	if (ts.tv_sec != core->date_s) {
		time_t t = ts.tv_sec;

		(void)gmtime_r(&t, &tm);
		/* the daemon runs in the C locale: English names */
		(void)strftime(core->date, sizeof(core->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		core->date_s = ts.tv_sec;
	}
	return core->date;
}

void http_core_make_id(struct http_core *core, char *dst, size_t dst_len)
{
	(void)snprintf(dst, dst_len, "%s-%llx", core->id_prefix, (unsigned long long)++core->n_ids);
}
