/* SPDX-License-Identifier: MIT */
/*
 * See http_conn.h.  Every public function corks the connection, does its work, and settles: sends
 * what there is in one go, continues with what had to wait, and brings the watch and the deadline
 * in line with the state.  All answers of one turn leave in one send.
 */
#include "http/http_conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "http/http_head.h"

#define DISCARD_MAX  (64u << 10)    /* bytes: a refused body that is shorter is read and dropped */
#define WAITING_MAX  HTTP_READ_SIZE /* bytes that may wait behind a request at work */
#define PROGRESS_MIN (16u << 10)    /* bytes within a deadline that count as going on */
#define OUT_MAX      (1u << 30)     /* bytes of one answer; a guard against our own mistakes */

/* ---- deadlines ---------------------------------------------------------- */

static size_t unsent(const struct http_conn *c)
{
	return c->out.len - c->out_pos;
}

static enum http_deadline wanted_deadline(const struct http_conn *c)
{
	if (c->state == CONN_CLOSED)
		return HTTP_DL_NONE;
	if (unsent(c) > 0 || c->state == CONN_FILE)
		return HTTP_DL_WRITE;
	switch (c->state) {
	case CONN_HEAD:
		return c->in.len > 0 || !c->had_request ? HTTP_DL_HEADER : HTTP_DL_IDLE;
	case CONN_BODY:
	case CONN_DISCARD:
		return c->is_body_paused ? HTTP_DL_NONE : HTTP_DL_BODY;
	case CONN_ENDING:
		return HTTP_DL_LINGER;
	default:
		return HTTP_DL_NONE;
	}
}

static void arm(struct http_conn *c, enum http_deadline d)
{
	list_del(&c->deadline_link);
	c->deadline = d;
	c->progress = 0;
	if (d == HTTP_DL_NONE)
		return;
	c->deadline_since = clock_mono_ns();
	list_add_tail(&c->core->deadlines[d], &c->deadline_link);
}

/* update_deadline() - a deadline runs on while its reason lasts, unless enough bytes show that it
 * goes on */
static void update_deadline(struct http_conn *c)
{
	enum http_deadline d = wanted_deadline(c);
	bool goes_on = (d == HTTP_DL_BODY || d == HTTP_DL_WRITE) && c->progress >= PROGRESS_MIN;

	if (d != c->deadline || goes_on)
		arm(c, d);
}

/* ---- closing ------------------------------------------------------------ */

#define ID_SHOWN                                                                                   \
	8 /* characters of an id in the log: an id may be all it takes to mount a workspace */

/* log_path() - the path for the log, escaped; parameters of its route are cut */
static const char *log_path(char *dst, size_t dst_len, const struct http_request *req)
{
	const char *pattern = req->route != NULL ? req->route->pattern : "";
	char path[512];
	size_t n = 0;

	if (req->path == NULL)
		return "-";
	if (strchr(pattern, '{') == NULL)
		return log_escape(dst, dst_len, req->path, req->path_len);
	for (size_t i = 0; *pattern != '\0' && n < sizeof(path) - 1;) {
		if (*pattern != '{') {
			path[n++] = *pattern++;
			continue;
		}
		n += (size_t)snprintf(path + n, sizeof(path) - n, "%.*s", ID_SHOWN,
				      req->params[i] != NULL ? req->params[i] : "");
		pattern = strchr(pattern, '}') + 1;
		i++;
	}
	return log_escape(dst, dst_len, path, MIN(n, sizeof(path) - 1));
}

/* log_request() - the access log: never the query, which may hold secrets; @status 0: nobody waited
 */
static void log_request(const struct http_request *req, int status, uint64_t bytes,
			uint64_t duration_ns)
{
	char path[512];

	if (!log_is_on(LOG_INFO, LOG_HTTP))
		return;
	log_info(LOG_HTTP, "request method=%s path=%s status=%d us=%llu bytes=%llu id=%s peer=%s",
		 req->method_text != NULL ? req->method_text : "-",
		 log_path(path, sizeof(path), req), status,
		 (unsigned long long)(duration_ns / 1000), (unsigned long long)bytes, req->id,
		 req->conn->peer.text);
}

/* give_to_pool() - false: too many wait already */
static bool give_to_pool(struct http_core *core, struct http_request *req)
{
	req->in_pool = true;
	if (!core->run_in_pool(core, req))
		req->in_pool = false;
	return req->in_pool;
}

/* release() - free a request that no connection has any more, after its cleanup in the pool */
static void release(struct http_core *core, struct http_request *req)
{
	req->conn = NULL;
	if (req->hooks.cleanup != NULL) {
		req->step_run = req->hooks.cleanup;
		req->step_done = NULL;
		req->hooks.cleanup = NULL;
		if (core->run_in_pool != NULL && give_to_pool(core, req))
			return;
		req->step_run(req);
	}
	http_core_request_free(core, req);
}

static void drop_request(struct http_conn *c)
{
	struct http_request *req = c->req;

	if (req == NULL)
		return;
	/* the answer is the pool's while a handler runs there */
	log_request(req, 0, req->in_pool ? 0 : req->res.bytes, clock_mono_ns() - req->begin_ns);
	c->req = NULL;
	req->conn = NULL;
	if (req->in_pool) { /* http_conn_handler_done() frees it */
		__atomic_store_n(&req->is_gone, true, __ATOMIC_RELAXED);
		return;
	}
	if (req->hooks.on_abort != NULL)
		req->hooks.on_abort(req);
	release(c->core, req);
}

static void close_now(struct http_conn *c)
{
	if (c->state == CONN_CLOSED)
		return;
	c->state = CONN_CLOSED;
	drop_request(c);
	arm(c, HTTP_DL_NONE);
	c->ops->close(c);
}

/* ---- sending ------------------------------------------------------------ */

static void begin_out(struct http_conn *c)
{
	if (c->out.data != NULL)
		return;
	c->out = http_core_take_buf(c->core);
	c->out.max = OUT_MAX;
}

static void flush(struct http_conn *c)
{
	while (unsent(c) > 0 && !c->is_dead) {
		ssize_t n = c->ops->send(c, c->out.data + c->out_pos, unsent(c));

		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			c->is_dead = true;
			break;
		}
		c->out_pos += (size_t)n;
		c->progress += c->deadline == HTTP_DL_WRITE ? (size_t)n : 0;
	}
	if (unsent(c) > 0 && !c->is_dead)
		return;
	buf_reset(&c->out);
	c->out_pos = 0;
	http_core_give_buf(c->core, &c->out);
}

/* fail() - an answer could not be put together (out of memory): nothing sensible can be sent */
static void fail(struct http_conn *c)
{
	c->is_dead = true;
}

/* ---- answers ------------------------------------------------------------ */

/* finish() - the answer is queued whole: count it, free the request, go on to the next */
static void finish(struct http_conn *c)
{
	struct http_request *req = c->req;
	bool ends = req->res.must_close || c->core->is_stopping, has_rest = c->state == CONN_BODY;
	uint64_t duration_ns = clock_mono_ns() - req->begin_ns;

	http_stats_count(c->core->stats, req->route, req->res.status, duration_ns, req->res.bytes);
	log_request(req, req->res.status, req->res.bytes, duration_ns);
	c->req = NULL;
	release(c->core, req);
	c->had_request = true;
	c->is_body_paused = c->wants_drain = c->is_full = false;
	c->scan = (struct http_head_scan){ 0 };
	c->state = ends ? CONN_ENDING : has_rest ? CONN_DISCARD : CONN_HEAD;
	arm(c, HTTP_DL_NONE);
}

/* rest_is_short() - may what is left of the body be read and dropped, to keep the connection? */
static bool rest_is_short(const struct http_conn *c)
{
	return c->body.kind == HTTP_BODY_LENGTH && c->body.left <= DISCARD_MAX &&
	       !c->req->expects_continue;
}

static void decide_close(struct http_conn *c)
{
	struct http_response *res = &c->req->res;

	if (c->state == CONN_BODY && !rest_is_short(c))
		res->must_close = c->lingers = true;
	if (c->req->wants_close || c->core->is_stopping)
		res->must_close = true;
}

/* answer() - queue c->req's whole answer */
static void answer(struct http_conn *c)
{
	struct http_request *req = c->req;
	bool has_file = req->res.has_file;
	int rc;

	decide_close(c);
	begin_out(c);
	rc = http_response_head(req, &c->out,
				(int64_t)(has_file ? req->res.file_left : req->res.body.len),
				http_core_date(c->core));
	if (rc == 0 && req->method != HTTP_M_HEAD && has_file && req->res.file_left > 0) {
		req->res.head_sent = true;
		c->state = CONN_FILE; /* settle() sends it */
		return;
	}
	if (rc == 0 && req->method != HTTP_M_HEAD && !has_file) {
		rc = buf_append(&c->out, req->res.body.data, req->res.body.len);
		req->res.bytes = req->res.body.len;
	}
	if (rc < 0)
		fail(c);
	else
		finish(c);
}

/* refuse() - answer what could not even be read as a request, and end the connection */
static void refuse(struct http_conn *c, int status, const char *why)
{
	char id[32];

	if (c->req == NULL) {
		c->req = http_core_request_new(c->core);
		if (c->req == NULL) {
			fail(c);
			return;
		}
		c->req->conn = c;
		c->req->begin_ns = clock_mono_ns();
	}
	if (c->req->id[0] == '\0') {
		http_core_make_id(c->core, id, sizeof(id));
		http_request_take_id(c->req, id);
	}
	http_response_refuse(c->req, status,
			     status == 413   ? HTTP_CODE_TOO_LARGE
			     : status == 501 ? HTTP_CODE_NOT_IMPLEMENTED
					     : HTTP_CODE_REQUEST,
			     "%s", status == 413 ? "" : why);
	c->req->res.must_close = c->lingers = true;
	if (c->req->hooks.on_abort != NULL) /* its handler waits for a body that will not come */
		c->req->hooks.on_abort(c->req);
	answer(c);
}

/* ---- requests ----------------------------------------------------------- */

/* try_inline() - what needs not wait saves two turns of threads; false: it is for the pool */
static bool try_inline(struct http_request *req)
{
	req->is_trial = true;
	router_run(req);
	req->is_trial = false;
	if (!req->wants_pool)
		return true;
	req->wants_pool = false;
	return false;
}

static void run_handler(struct http_conn *c)
{
	struct http_request *req = c->req;

	c->state = CONN_BUSY;
	if (req->route->flags & R_TRY && try_inline(req)) {
		answer(c);
		return;
	}
	if (req->route->flags & R_POOL && c->core->run_in_pool != NULL) {
		req->step_run = NULL;
		if (give_to_pool(c->core, req))
			return;
		http_response_error(req, HTTP_CODE_BUSY, "%s", "");
	} else {
		router_run(req);
	}
	answer(c);
}

/* want_body() - a body follows: tell a client that waits for a word to go on */
static void want_body(struct http_conn *c, bool has_arrived)
{
	if (!c->req->expects_continue || has_arrived)
		return;
	begin_out(c);
	if (buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n") < 0)
		fail(c);
	c->req->expects_continue = false;
}

/* wants_body() - of a streaming handler */
static bool wants_body(const struct http_request *req)
{
	return (req->hooks.on_body != NULL || req->collects) && !req->res.head_sent;
}

static void begin_stream(struct http_conn *c, bool has_arrived)
{
	struct http_request *req = c->req;

	router_run(req);
	if (c->req == req && c->state == CONN_BODY && wants_body(req) && !c->is_body_paused)
		want_body(c, has_arrived);
}

static void begin_request(struct http_conn *c, const char *head, size_t n, unsigned n_lines,
			  bool has_more)
{
	struct http_request *req = http_core_request_new(c->core);
	const char *why = "";
	char id[32];
	int rc;

	if (req == NULL) {
		fail(c);
		return;
	}
	c->req = req;
	req->conn = c;
	req->begin_ns = clock_mono_ns();
	rc = http_head_parse(req, head, n, n_lines, &why);
	http_core_make_id(c->core, id, sizeof(id));
	http_request_take_id(req, id);
	if (rc < 0) {
		refuse(c, -rc, why);
		return;
	}
	http_body_init(&c->body,
		       !req->has_body    ? HTTP_BODY_NONE
		       : req->has_length ? HTTP_BODY_LENGTH
					 : HTTP_BODY_CHUNKED,
		       req->content_length);
	c->state = req->has_body ? CONN_BODY : CONN_BUSY;
	switch (router_dispatch(req)) {
	case ROUTER_ANSWERED:
		answer(c);
		break;
	case ROUTER_STREAM:
		begin_stream(c, has_more);
		break;
	case ROUTER_COLLECT:
		if (req->has_body)
			want_body(c, has_more);
		else
			run_handler(c);
	}
}

/* take_body() - a run of c->req's body */
static void take_body(struct http_conn *c, const char *p, size_t n)
{
	struct http_request *req = c->req;
	struct http_core *core = c->core;
	int rc;

	if (req->route->flags & R_STREAM && !req->collects) {
		rc = req->hooks.on_body != NULL ? req->hooks.on_body(req, p, n) : 0;
		c->is_body_paused = rc == -EAGAIN;
		if (rc < 0 && rc != -EAGAIN && c->req == req)
			fail(c); /* the handler gave up without an answer */
		return;
	}
	/* It has no meaning there (RFC 9110 section 9.3.1), and GET is what strangers may ask. */
	if (req->method == HTTP_M_GET || req->method == HTTP_M_HEAD)
		return;
	if (n > core->limits.max_json_body - req->body.len) {
		refuse(c, 413, "");
		return;
	}
	if (n > HTTP_BODIES_MAX - core->bodies_bytes) {
		req->res.must_close = true;
		http_response_error(req, HTTP_CODE_BUSY, "%s", "");
		answer(c);
		return;
	}
	req->body.max = core->limits.max_json_body;
	rc = buf_append(&req->body, p, n);
	if (rc < 0)
		fail(c);
	else
		core->bodies_bytes += n;
}

static void end_body(struct http_conn *c)
{
	if (c->state == CONN_DISCARD) {
		c->state = CONN_HEAD;
		return;
	}
	c->state = CONN_BUSY;
	if (!(c->req->route->flags & R_STREAM))
		run_handler(c);
	else if (c->req->hooks.on_body_end != NULL)
		c->req->hooks.on_body_end(c->req);
}

/* ---- input -------------------------------------------------------------- */

static bool takes_input(const struct http_conn *c)
{
	if (c->is_dead || unsent(c) > c->core->limits.max_unsent)
		return false;
	return c->state == CONN_HEAD || c->state == CONN_DISCARD ||
	       (c->state == CONN_BODY && !c->is_body_paused);
}

/* step_head() - bytes consumed; 0 when the head is not whole yet */
static size_t step_head(struct http_conn *c, const char *p, size_t n)
{
	int rc = http_head_scan(&c->scan, p, n);
	struct http_head_scan s = c->scan;

	if (rc == 0)
		return 0;
	if (rc < 0) {
		refuse(c, -rc, rc == -400 ? "lines must end with CR LF" : "the head is too large");
		return n;
	}
	c->scan = (struct http_head_scan){ 0 };
	begin_request(c, p + s.start, s.pos - s.start, s.n_lines, s.pos < n);
	return s.pos;
}

static size_t step_body(struct http_conn *c, const char *p, size_t n)
{
	const char *data;
	size_t used, len;
	int rc = http_body_next(&c->body, p, n, &used, &data, &len);

	if (rc == HTTP_BODY_DATA && c->state == CONN_BODY)
		take_body(c, data, len);
	else if (rc == HTTP_BODY_END)
		end_body(c);
	else if (rc < 0 && c->state == CONN_BODY && !c->req->res.head_sent)
		refuse(c, 400, "malformed chunk");
	else if (rc < 0)
		fail(c);
	return used;
}

/* process() - consume what can be consumed now; the rest must be kept by the caller */
static size_t process(struct http_conn *c, const char *p, size_t n)
{
	size_t used = 0;

	while (takes_input(c)) {
		enum http_conn_state before = c->state;
		size_t step;

		if (before == CONN_HEAD && used == n)
			break;
		step = before == CONN_HEAD ? step_head(c, p + used, n - used)
					   : step_body(c, p + used, n - used);
		used += step;
		if (step == 0 && c->state == before)
			break;
	}
	return used;
}

/* ---- settling ----------------------------------------------------------- */

/* has_whole_body() - nothing is missing but to say so, which a pause has put off */
static bool has_whole_body(const struct http_conn *c)
{
	return c->state == CONN_BODY && c->body.kind == HTTP_BODY_LENGTH && c->body.left == 0;
}

static void process_waiting(struct http_conn *c)
{
	while ((c->in.len > 0 || has_whole_body(c)) && takes_input(c)) {
		size_t used = process(c, (const char *)c->in.data, c->in.len);

		buf_consume(&c->in, used);
		flush(c);
		if (used == 0)
			return;
	}
}

/* ---- files as answers --------------------------------------------------- */

#define INLINE_READ (64u << 10) /* bytes of a file read at once where nobody sends files for us */

/* send_inline() - what ops->send_file does elsewhere, by way of the send buffer */
static ssize_t send_inline(struct http_conn *c, struct http_response *res)
{
	size_t want = (size_t)MIN(res->file_left, INLINE_READ);
	ssize_t n;

	begin_out(c);
	if (buf_reserve(&c->out, want) < 0)
		return -ENOMEM;
	n = io_pread_full(res->file_fd, c->out.data + c->out.len, want, (off_t)res->file_off);
	if (n > 0)
		c->out.len += (size_t)n;
	return n;
}

/* take_sent() - account for @n bytes of the file, or act on why there are none */
static void take_sent(struct http_conn *c, ssize_t n)
{
	struct http_response *res = &c->req->res;

	if (n == -EAGAIN) {
		c->is_full = true;
	} else if (n <= 0) {
		/* Shorter than promised: only the end of the connection can say so. */
		fail(c);
	} else {
		res->file_off += (uint64_t)n;
		res->file_left -= (uint64_t)n;
		res->bytes += (uint64_t)n;
		c->progress += (size_t)n;
		if (res->file_left == 0)
			finish(c);
	}
}

/* send_file() - true when an answer is complete with it, so that the next request may be looked at
 */
static bool send_file(struct http_conn *c)
{
	bool was_file = c->state == CONN_FILE;

	while (c->state == CONN_FILE && !c->is_dead && !c->is_full && !c->req->in_pool &&
	       unsent(c) == 0) {
		ssize_t n = c->ops->send_file != NULL ? c->ops->send_file(c, c->req)
						      : send_inline(c, &c->req->res);

		if (n == -EINPROGRESS)
			return false;
		take_sent(c, n);
		flush(c);
	}
	return was_file && c->state != CONN_FILE;
}

void http_conn_file_sent(struct http_request *req, ssize_t n)
{
	take_sent(req->conn, n);
}

/* is_over() - nothing left to do */
static bool is_over(const struct http_conn *c)
{
	if (c->is_dead)
		return true;
	if (unsent(c) > 0)
		return false;
	if (c->state == CONN_ENDING)
		return c->is_eof || !c->lingers;
	/* an unfinished request of a client that sends no more will never be whole */
	return c->is_eof && (c->state == CONN_HEAD || c->state == CONN_DISCARD ||
			     (c->state == CONN_BODY && !c->is_body_paused));
}

static void tell_drained(struct http_conn *c)
{
	if (!c->wants_drain || unsent(c) > c->core->limits.max_unsent / 2 || c->req == NULL)
		return;
	c->wants_drain = false;
	if (c->req->hooks.on_drain != NULL)
		c->req->hooks.on_drain(c->req);
}

static void update_watch(struct http_conn *c)
{
	bool readable = !c->is_eof &&
			(takes_input(c) || c->state == CONN_ENDING ||
			 ((c->state == CONN_BUSY || c->state == CONN_FILE) &&
			  c->in.len < WAITING_MAX && unsent(c) <= c->core->limits.max_unsent));
	/* what a handler wrote when it was told to go on may be gone by now: it is told again */
	bool writable = unsent(c) > 0 || c->is_full || c->wants_drain;

	if (readable == c->watch_read && writable == c->watch_write)
		return;
	c->watch_read = readable;
	c->watch_write = writable;
	c->ops->watch(c, readable, writable);
}

static void settle(struct http_conn *c)
{
	flush(c);
	tell_drained(c);
	(void)send_file(c);
	do {
		process_waiting(c);
		flush(c);
	} while (send_file(c));
	if (c->in.len == 0)
		http_core_give_buf(c->core, &c->in);
	if (is_over(c)) {
		close_now(c);
		return;
	}
	if (c->state == CONN_ENDING && unsent(c) == 0 && !c->is_shut) {
		c->is_shut = true;
		c->ops->shutdown(c);
	}
	update_watch(c);
	update_deadline(c);
}

static bool cork(struct http_conn *c)
{
	bool is_first = !c->is_corked && c->state != CONN_CLOSED;

	c->is_corked = true;
	return is_first;
}

static void uncork(struct http_conn *c)
{
	settle(c);
	c->is_corked = false;
}

/* ---- the owner's side --------------------------------------------------- */

void http_conn_init(struct http_conn *c, struct http_core *core, const struct http_conn_ops *ops,
		    const struct http_peer *peer)
{
	*c = (struct http_conn){ .core = core, .ops = ops, .peer = *peer };
	list_init(&c->deadline_link);
	update_watch(c);
	update_deadline(c);
}

void http_conn_fini(struct http_conn *c)
{
	list_del(&c->deadline_link);
	buf_free(&c->in);
	buf_free(&c->out);
}

const struct http_peer *http_conn_peer(const struct http_conn *c)
{
	return &c->peer;
}

static void keep(struct http_conn *c, const char *p, size_t n)
{
	if (c->state == CONN_ENDING || c->state == CONN_CLOSED || n == 0)
		return;
	if (c->in.data == NULL)
		c->in = http_core_take_buf(c->core);
	if (buf_append(&c->in, p, n) < 0)
		fail(c);
}

void http_conn_feed(struct http_conn *c, const char *p, size_t n)
{
	size_t used;

	if (!cork(c))
		return;
	c->progress += c->deadline == HTTP_DL_BODY ? n : 0;
	if (c->in.len == 0) {
		used = process(c, p, n);
		keep(c, p + used, n - used);
	} else {
		keep(c, p, n);
	}
	uncork(c);
}

static void tell_eof(struct http_conn *c)
{
	if (c->req != NULL && !c->req->in_pool && c->req->hooks.on_eof != NULL)
		c->req->hooks.on_eof(c->req);
}

void http_conn_eof(struct http_conn *c)
{
	if (!cork(c))
		return;
	c->is_eof = true;
	tell_eof(c);
	uncork(c);
}

void http_conn_writable(struct http_conn *c)
{
	if (!cork(c))
		return;
	c->is_full = false;
	uncork(c);
}

void http_conn_expire(struct http_conn *c)
{
	bool is_late =
		c->deadline == HTTP_DL_BODY || (c->deadline == HTTP_DL_HEADER && c->in.len > 0);

	if (!cork(c))
		return;
	if (is_late && c->state != CONN_DISCARD && (c->req == NULL || !c->req->res.head_sent))
		refuse(c, 408, "the request did not arrive in time");
	else
		fail(c);
	uncork(c);
}

void http_conn_abort(struct http_conn *c)
{
	close_now(c);
}

void http_conn_drain(struct http_conn *c)
{
	if (!cork(c))
		return;
	tell_eof(c);
	if (c->state == CONN_HEAD && c->in.len == 0) {
		c->state = CONN_ENDING;
		arm(c, HTTP_DL_NONE);
	}
	uncork(c);
}

void http_conn_handler_done(struct http_core *core, struct http_request *req)
{
	struct http_conn *c = req->conn;

	req->in_pool = false;
	if (c == NULL) {
		release(core, req);
		return;
	}
	if (!cork(c))
		return;
	if (req->step_run == NULL)
		answer(c);
	else if (req->step_done != NULL)
		req->step_done(req);
	uncork(c);
}

void http_conn_pool_run(struct http_request *req)
{
	if (req->step_run != NULL)
		req->step_run(req);
	else
		router_run(req);
}

/* ---- streams ------------------------------------------------------------ */

bool http_conn_begin_step(struct http_request *req, void (*run)(struct http_request *req),
			  void (*done)(struct http_request *req))
{
	struct http_conn *c = req->conn;

	req->step_run = run;
	req->step_done = done;
	if (!give_to_pool(c->core, req))
		return false;
	c->is_body_paused = c->state == CONN_BODY;
	return true;
}

bool http_conn_run_step(struct http_request *req, void (*run)(struct http_request *req),
			void (*done)(struct http_request *req))
{
	if (req->core->run_in_pool == NULL) {
		run(req);
		done(req);
		return false;
	}
	if (http_conn_begin_step(req, run, done))
		return true;
	http_response_error(req, HTTP_CODE_BUSY, "%s", "");
	http_conn_answer(req);
	return false;
}

void http_conn_answer(struct http_request *req)
{
	struct http_conn *c = req->conn;
	bool is_first = cork(c);

	answer(c);
	if (is_first)
		uncork(c);
}

/* send_soon() - outside of our own functions: send now, and leave any ending to the loop, so that
 * the request never disappears under the handler that is writing */
static void send_soon(struct http_conn *c)
{
	if (c->is_corked)
		return;
	flush(c);
	update_watch(c);
	update_deadline(c);
	if (c->is_dead)
		c->ops->watch(c, true, true); /* an error is always ready to be reported */
}

int http_conn_stream_begin(struct http_request *req, int status, const char *type, int64_t length)
{
	struct http_conn *c = req->conn;
	struct http_response *res = &req->res;
	int rc;

	res->status = status;
	res->type = type;
	res->is_stream = res->head_sent = true;
	res->is_chunked = length < 0 && !req->is_http10;
	res->must_close = length < 0 && req->is_http10;
	decide_close(c);
	begin_out(c);
	rc = http_response_head(req, &c->out,
				length >= 0       ? length
				: res->is_chunked ? -1
						  : -2,
				http_core_date(c->core));
	if (rc < 0)
		fail(c);
	send_soon(c);
	return rc;
}

static int put_chunk(struct buf *out, const void *p, size_t n)
{
	int rc = buf_printf(out, "%zx\r\n", n);

	if (rc == 0)
		rc = buf_append(out, p, n);
	return rc == 0 ? buf_puts(out, "\r\n") : rc;
}

int http_conn_stream_write(struct http_request *req, const void *p, size_t n)
{
	struct http_conn *c = req->conn;
	int rc;

	if (c == NULL || c->is_dead)
		return -EPIPE;
	if (n == 0 || req->method == HTTP_M_HEAD)
		return 0;
	begin_out(c);
	rc = req->res.is_chunked ? put_chunk(&c->out, p, n) : buf_append(&c->out, p, n);
	if (rc < 0)
		fail(c);
	req->res.bytes += n;
	send_soon(c);
	if (c->is_dead)
		return -EPIPE;
	c->wants_drain = unsent(c) > c->core->limits.max_unsent;
	return c->wants_drain ? -EAGAIN : 0;
}

void http_conn_stream_end(struct http_request *req)
{
	struct http_conn *c = req->conn;
	bool is_first = cork(c);

	if (req->res.is_chunked && req->method != HTTP_M_HEAD) {
		begin_out(c);
		if (buf_puts(&c->out, "0\r\n\r\n") < 0)
			fail(c);
	}
	finish(c);
	if (is_first)
		uncork(c);
}

void http_conn_resume_body(struct http_request *req)
{
	struct http_conn *c = req->conn;
	bool is_first = cork(c);

	c->is_body_paused = false;
	if (c->state == CONN_BODY && wants_body(req))
		want_body(c, c->in.len > 0 || req->body.len > 0);
	if (is_first)
		uncork(c);
}
