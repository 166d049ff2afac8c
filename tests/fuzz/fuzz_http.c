/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as an HTTP connection: head, body framing, routing and policy, with handlers that only
 * look. The first byte says in how many pieces the rest arrives.  However it is cut, the answers
 * must be the same; the connection must never hold more than its limits, and must be able to end at
 * any moment.
 */
#include "base/log.h"
#include "fuzz.h"
#include "tests/unit/http_memory.h"

/* Touches everything that a handler may look at. */
static void look(struct http_request *req)
{
	struct json_out o;
	const char *value;

	(void)http_request_query(req, "path", &value);
	MUST(req->path[0] == '/' && strlen(req->path) == req->path_len);
	MUST(req->id[0] != '\0');
	o = http_response_json(req);
	json_out_open(&o, '[');
	for (size_t i = 0; i < HTTP_PARAMS_MAX; i++)
		json_out_str(&o, req->params[i]);
	json_out_strn(&o, (const char *)req->body.data, req->body.len);
	json_out_close(&o, ']');
	http_response_json_end(req, 200, &o);
}

static int take(struct http_request *req, const char *p, size_t n)
{
	(void)req;
	MUST(n > 0 && p != NULL);
	return 0;
}

static void echo_end(struct http_request *req)
{
	MUST(http_conn_stream_begin(req, 200, "text/plain", -1) == 0);
	(void)http_conn_stream_write(req, "done", 4);
	http_conn_stream_end(req);
}

static void stream(struct http_request *req)
{
	req->hooks.on_body = take;
	req->hooks.on_body_end = echo_end;
	if (!req->has_body)
		echo_end(req);
}

static const struct http_route rows[] = {
	{ HTTP_M_GET, "/api/v1/health", look, R_NO_AUTH },
	{ HTTP_M_POST, "/api/v1/workspaces", look, R_CHANGES },
	{ HTTP_M_GET, "/api/v1/workspaces/{id}", look, 0 },
	{ HTTP_M_DELETE, "/api/v1/workspaces/{id}", look, R_CHANGES | R_POOL },
	{ HTTP_M_PUT, "/s/{a}/{b}", stream, R_CHANGES | R_STREAM },
};
static const struct http_routes routes = { rows, ARRAY_LEN(rows) };

static const char *const origins[] = { "https://console.example" };
static const struct http_server_options options = {
	.host = "127.0.0.1",
	.allowed_origins = origins,
	.n_allowed_origins = 1,
	.limits = { .max_json_body = 4096, .max_unsent = 1u << 20 },
};

/* Status of every final answer: what must not depend on how the bytes were cut ("100 Continue"
 * may). */
static void statuses(struct http_memory *m, struct buf *ret)
{
	const char *p = http_memory_text(m);

	for (; (p = strstr(p, "HTTP/1.1 ")) != NULL; p += 9)
		if (p[9] != '1')
			MUST(buf_append(ret, p + 9, MIN(strlen(p + 9), (size_t)3)) == 0);
}

static void run(struct http_memory *m, const char *p, size_t n, size_t n_pieces, struct buf *ret)
{
	size_t step = n / n_pieces + 1;

	http_memory_connect(m);
	for (size_t pos = 0; pos < n && !m->is_closed; pos += step) {
		http_conn_feed(&m->conn, p + pos, MIN(step, n - pos));
		MUST(m->conn.in.len <= HTTP_LINE_MAX + HTTP_HEADERS_MAX + step);
	}
	statuses(m, ret);
	http_memory_disconnect(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = { 0 }, cut = { 0 };
	struct http_memory m;

	if (size == 0)
		return 0;
	MUST(log_configure("error", NULL) == 0);
	MUST(http_memory_init(&m, &options, &routes) == 0);
	http_memory_disconnect(&m);
	run(&m, (const char *)data + 1, size - 1, 1, &whole);
	run(&m, (const char *)data + 1, size - 1, (size_t)data[0] + 1, &cut);
	MUST(whole.len == cut.len &&
	     (whole.len == 0 || memcmp(whole.data, cut.data, cut.len) == 0));
	MUST(m.core.bodies_bytes == 0);
	http_core_fini(&m.core);
	buf_free(&m.sent);
	buf_free(&whole);
	buf_free(&cut);
	return 0;
}
