/* SPDX-License-Identifier: MIT */
/*
 * Server-sent events of what changes in a workspace: GET /workspaces/{id}/events.
 *
 * The answer begins when the watch over the workspace stands, so that a client who has the head of
 * it misses nothing from then on.  A stream is a position in the workspace's ring; a client that
 * reads slowly is written nothing more than the connection may hold, and falls behind in the ring.
 *
 * Control loop, but for on_wake().
 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/utf8.h"
#include "http/api.h"
#include "http/http_conn.h"
#include "http/http_core.h"
#include "http/json_out.h"
#include "workspace/events.h"
#include "workspace/workspace.h"

#define TICK_MS         1000
#define HEARTBEAT_TICKS 15 /* of silence; proxies cut connections that are silent for longer */
#define READY_TICKS     10 /* a large tree may take longer to watch: the answer then begins anyway */
#define BATCH_BYTES     (32u << 10) /* written at once */
#define SEQ_MAX         (1ull << 53)

struct stream {
	struct http_request *req; /* borrowed; NULL once it has ended */
	struct events_sub *sub;   /* owned */
	uv_async_t wake;
	uv_timer_t tick;
	unsigned open_handles;
	unsigned n_ticks;  /* since the request */
	unsigned n_silent; /* ticks */
	bool has_begun, is_late, is_blocked;
	struct buf out; /* owned; a batch being put together */
};

/* ---- the text of an event ----------------------------------------------- */

static const char *const type_names[EVENT_N_TYPES] = {
	[EVENT_CREATED] = "created",   [EVENT_MODIFIED] = "modified",
	[EVENT_REMOVED] = "removed",   [EVENT_RENAMED] = "renamed",
	[EVENT_OVERFLOW] = "overflow", [EVENT_ATTRIBUTES] = "attributes",
};

static const char *const door_names[] = {
	[DOOR_NONE] = "unknown",
	[DOOR_NFS] = "nfs",
	[DOOR_HTTP] = "http",
	[DOOR_LOCAL] = "local",
};

static const char *kind_name(mode_t kind)
{
	switch (kind) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	default:
		return "other";
	}
}

/* Names are bytes: what is no UTF-8 is given as base64 too. */
static void put_path(struct json_out *o, const char *key, const char *raw_key, const char *path)
{
	char text[4 * EVENTS_PATH_MAX / 3 + 8];

	json_out_key_str(o, key, path);
	if (utf8_is_valid(path, strlen(path)))
		return;
	(void)sodium_bin2base64(text, sizeof(text), (const unsigned char *)path, strlen(path),
				sodium_base64_VARIANT_ORIGINAL);
	json_out_key_str(o, raw_key, text);
}

static int put_event(struct buf *out, const struct event *e)
{
	struct json_out o = JSON_OUT(out);
	int rc = buf_printf(out, "id: %llu\ndata: ", (unsigned long long)e->seq);

	json_out_open(&o, '{');
	json_out_key_u64(&o, "seq", e->seq);
	json_out_key_str(&o, "type", type_names[e->type]);
	if (e->type == EVENT_OVERFLOW) {
		json_out_key_str(&o, "reason", e->reason);
	} else {
		put_path(&o, "path", "path_base64", e->path);
		if (e->to != NULL)
			put_path(&o, "to", "to_base64", e->to);
		json_out_key_str(&o, "kind", kind_name(e->kind));
		json_out_key_str(&o, "door", door_names[e->door]);
	}
	json_out_close(&o, '}');
	if (rc == 0)
		rc = o.rc;
	return rc == 0 ? buf_puts(out, "\n\n") : rc;
}

/* ---- life --------------------------------------------------------------- */

static void on_closed(uv_handle_t *h)
{
	struct stream *s = h->data;

	if (--s->open_handles > 0)
		return;
	buf_free(&s->out);
	free(s);
}

/* The request is no longer ours. */
static void let_go(struct stream *s)
{
	if (s->req == NULL)
		return;
	s->req = NULL;
	events_unsubscribe(s->sub);
	uv_close((uv_handle_t *)&s->wake, on_closed);
	uv_close((uv_handle_t *)&s->tick, on_closed);
}

static void end(struct stream *s)
{
	struct http_request *req = s->req;

	let_go(s);
	if (!req->res.head_sent)
		(void)http_conn_stream_begin(req, 200, "text/event-stream", -1);
	http_conn_stream_end(req);
}

/* ---- writing ------------------------------------------------------------ */

/* Sends the batch; false: no more for now. */
static bool send_batch(struct stream *s)
{
	int rc = http_conn_stream_write(s->req, s->out.data, s->out.len);

	buf_reset(&s->out);
	s->n_silent = 0;
	s->is_blocked = rc == -EAGAIN;
	return rc == 0; /* -EPIPE: on_abort follows */
}

/* The last event before those to come: where a client that is cut off at once goes on from. */
static void begin(struct stream *s)
{
	s->has_begun = true;
	http_response_header(s->req, "X-Accel-Buffering", "no"); /* or nginx would collect it */
	if (http_conn_stream_begin(s->req, 200, "text/event-stream", -1) == 0)
		(void)buf_printf(&s->out, "retry: 1000\nid: %llu\n\n",
				 (unsigned long long)events_seq(s->sub));
}

static void tell_late(struct stream *s)
{
	const struct event e = {
		.seq = events_seq(s->sub),
		.type = EVENT_OVERFLOW,
		.reason = "the watch was not up yet",
	};

	s->is_late = false;
	(void)put_event(&s->out, &e);
}

/* One more event into the batch: 1, 0 none, -errno. */
static int take_event(struct stream *s)
{
	struct event e;
	int rc = events_next(s->sub, &e);

	if (rc <= 0)
		return rc;
	rc = put_event(&s->out, &e);
	event_fini(&e);
	return rc < 0 ? rc : 1;
}

static void pump(struct stream *s)
{
	bool is_ready = events_is_ready(s->sub);
	int rc = 1;

	if (!s->has_begun) {
		if (!is_ready && s->n_ticks < READY_TICKS)
			return;
		s->is_late = !is_ready;
		begin(s);
	}
	if (s->is_late && is_ready)
		tell_late(s);
	while (rc == 1 && !s->is_blocked) {
		while (s->out.len < BATCH_BYTES && (rc = take_event(s)) == 1)
			;
		if (s->out.len > 0 && !send_batch(s))
			break;
	}
	if (rc < 0)
		end(s);
}

/* ---- what happens ------------------------------------------------------- */

static void on_wake(void *arg) /* any thread */
{
	struct stream *s = arg;

	(void)uv_async_send(&s->wake);
}

static void on_async(uv_async_t *h)
{
	struct stream *s = h->data;

	if (s->req != NULL)
		pump(s);
}

static void on_tick(uv_timer_t *t)
{
	struct stream *s = t->data;

	s->n_ticks++;
	if (!s->has_begun) {
		pump(s);
		return;
	}
	if (++s->n_silent >= HEARTBEAT_TICKS && !s->is_blocked &&
	    buf_puts(&s->out, ": heartbeat\n\n") == 0)
		(void)send_batch(s);
}

static void on_drain(struct http_request *req)
{
	struct stream *s = req->user;

	s->is_blocked = false;
	pump(s);
}

static void on_eof(struct http_request *req)
{
	end(req->user);
}

static void on_abort(struct http_request *req)
{
	let_go(req->user);
}

static struct stream *stream_new(struct http_request *req)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	if (uv_async_init(req->core->loop, &s->wake, on_async) < 0) {
		free(s);
		return NULL;
	}
	(void)uv_timer_init(req->core->loop, &s->tick);
	s->wake.data = s->tick.data = s;
	s->open_handles = 2;
	s->req = req;
	return s;
}

/* From which event on?  0, or -EINVAL. */
static int parse_from(struct http_request *req, struct events_from *ret)
{
	const char *text = http_request_header(req, "Last-Event-ID");
	int rc = text == NULL ? http_request_query(req, "last_event_id", &text) : 1;

	*ret = (struct events_from){ 0 };
	if (rc < 0 || text == NULL)
		return rc;
	ret->is_resumed = true;
	return io_parse_u64(text, 0, SEQ_MAX, &ret->after) < 0 ? -EINVAL : 0;
}

static void refuse(struct http_request *req, int rc, const struct err *err)
{
	if (rc == -EBUSY)
		http_response_error(req, HTTP_CODE_BUSY, ": %s", err->msg);
	else if (rc == -ENOENT)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", req->params[0]);
	else
		http_response_errno(req, rc, err);
	http_conn_answer(req);
}

static void start(struct http_request *req, struct workspace *ws, const struct events_from *from)
{
	struct stream *s = stream_new(req);
	struct err err = { 0 };
	int rc;

	if (s == NULL) {
		refuse(req, -ENOMEM, &err);
		return;
	}
	rc = events_subscribe(ws, from, on_wake, s, &s->sub, &err);
	if (rc < 0) {
		let_go(s);
		refuse(req, rc, &err);
		return;
	}
	req->user = s;
	req->hooks = (struct http_request_hooks){
		.on_drain = on_drain,
		.on_eof = on_eof,
		.on_abort = on_abort,
	};
	(void)uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
	pump(s);
}

void api_events(struct http_request *req)
{
	struct workspace *ws = ws_find(req->core->options->registry, req->params[0]);
	struct events_from from;

	if (ws == NULL) {
		refuse(req, -ENOENT, NULL);
	} else if (parse_from(req, &from) < 0) {
		http_response_error(req, HTTP_CODE_PARAMETER,
				    "the id of the last event must be a number");
		http_conn_answer(req);
	} else if (req->core->loop == NULL) {
		http_response_error(req, HTTP_CODE_NOT_IMPLEMENTED, "events without a loop");
		http_conn_answer(req);
	} else if (req->method == HTTP_M_HEAD) {
		(void)http_conn_stream_begin(req, 200, "text/event-stream", -1);
		http_conn_stream_end(req);
	} else {
		start(req, ws, &from);
	}
	workspace_unref(ws);
}
