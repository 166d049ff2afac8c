/* SPDX-License-Identifier: MIT */
/* The connection as a machine over bytes: order, framing, refusals, deadlines, streams,
 * backpressure. */
#include "tests/unit/unit.h"

#include "base/clock.h"
#include "tests/unit/http_memory.h"

#define HOST "Host: localhost\r\n"
#define GET  "GET /hello HTTP/1.1\r\n" HOST "\r\n"

/* ---- routes ------------------------------------------------------------- */

static void hello(struct http_request *req)
{
	struct json_out o = http_response_json(req);

	json_out_str(&o, "hello");
	http_response_json_end(req, 200, &o);
}

static void echo(struct http_request *req)
{
	struct json_out o = http_response_json(req);

	json_out_strn(&o, req->body.data != NULL ? (const char *)req->body.data : "",
		      req->body.len);
	http_response_json_end(req, 200, &o);
}

static void big(struct http_request *req)
{
	struct json_out o = http_response_json(req);
	static char text[10000];

	memset(text, 'x', sizeof(text));
	json_out_strn(&o, text, sizeof(text));
	http_response_json_end(req, 200, &o);
}

/* What the streaming routes saw. */
static struct {
	struct http_request *req;
	struct buf body;
	unsigned n_ended, n_drained, n_aborted;
	bool pauses;
} seen;

static int on_body(struct http_request *req, const char *p, size_t n)
{
	(void)req;
	assert_int_equal(buf_append(&seen.body, p, n), 0);
	return seen.pauses ? -EAGAIN : 0;
}

static void on_body_end(struct http_request *req)
{
	seen.n_ended++;
	hello(req);
	http_conn_answer(req);
}

static void on_drain(struct http_request *req)
{
	(void)req;
	seen.n_drained++;
}

static void on_abort(struct http_request *req)
{
	(void)req;
	seen.n_aborted++;
}

static void upload(struct http_request *req)
{
	req->hooks = (struct http_request_hooks){ .on_body = on_body,
						  .on_body_end = on_body_end,
						  .on_abort = on_abort };
	seen.req = req;
}

static void refuse_upload(struct http_request *req)
{
	http_response_error(req, HTTP_CODE_NO_WORKSPACE, "x");
	http_conn_answer(req);
}

static void download(struct http_request *req)
{
	req->hooks = (struct http_request_hooks){ .on_drain = on_drain, .on_abort = on_abort };
	seen.req = req;
	assert_int_equal(http_conn_stream_begin(req, 200, "text/plain", -1), 0);
}

static const struct http_route rows[] = {
	{ HTTP_M_GET, "/hello", hello, 0 },
	{ HTTP_M_POST, "/echo", echo, 0 },
	{ HTTP_M_GET, "/big", big, 0 },
	{ HTTP_M_GET, "/pool", hello, R_POOL },
	{ HTTP_M_PUT, "/upload", upload, R_STREAM },
	{ HTTP_M_PUT, "/refuse", refuse_upload, R_STREAM },
	{ HTTP_M_GET, "/download", download, R_STREAM },
};
static const struct http_routes routes = { rows, ARRAY_LEN(rows) };

static const struct http_server_options options = {
	.host = "127.0.0.1",
	.limits = { .max_json_body = 100000, .max_unsent = 16384 },
};

static struct http_memory m;

static int setup(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	return http_memory_init(&m, &options, &routes);
}

static int teardown(void **state)
{
	(void)state;
	http_memory_fini(&m);
	buf_free(&seen.body);
	return 0;
}

static bool says(const char *word)
{
	return strstr(http_memory_text(&m), word) != NULL;
}

/* ---- whole requests ----------------------------------------------------- */

static void test_a_request_is_answered_and_the_connection_kept(void **state)
{
	(void)state;
	http_memory_feed(&m, GET);
	assert_int_equal(http_memory_status(&m), 200);
	assert_true(says("\r\nContent-Type: application/json\r\n"));
	assert_true(says("\r\nContent-Length: 8\r\n"));
	assert_true(says("\r\nX-Request-ID: "));
	assert_true(says("\r\nDate: "));
	assert_true(says("\r\n\r\n\"hello\""));
	assert_false(m.is_closed);
	http_memory_feed(&m, GET);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 OK"), 2);
}

static void test_a_request_may_arrive_cut_anywhere(void **state)
{
	static const char text[] =
		"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
		"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" GET;

	(void)state;
	for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
		http_memory_disconnect(&m);
		http_memory_connect(&m);
		http_conn_feed(&m.conn, text, cut);
		http_conn_feed(&m.conn, text + cut, sizeof(text) - 1 - cut);
		assert_int_equal(http_memory_count(&m, "\"abcde\""), 1);
		assert_int_equal(http_memory_count(&m, "\"hello\""), 1);
	}
}

static void test_pipelined_requests_are_answered_in_order_in_one_send(void **state)
{
	(void)state;
	http_memory_feed(&m, GET "GET /nothing HTTP/1.1\r\n" HOST "\r\n" GET);
	assert_int_equal(m.n_sends, 1);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 "), 2);
	assert_true(strstr(http_memory_text(&m), " 404 ") > strstr(http_memory_text(&m), " 200 "));
}

static void test_what_waits_behind_the_pool_is_answered_after_it(void **state)
{
	(void)state;
	m.core.run_in_pool = http_memory_pool;
	http_memory_feed(&m, "GET /pool HTTP/1.1\r\n" HOST "X-Request-ID: first\r\n\r\n" GET);
	http_memory_feed(&m, "GET /nothing HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(m.sent.len, 0);
	assert_true(m.is_readable);
	router_run(m.pooled);
	http_conn_handler_done(&m.core, m.pooled);
	assert_true(says("X-Request-ID: first\r\n"));
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 "), 2);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 404 "), 1);
}

static void test_not_much_may_wait_behind_the_pool(void **state)
{
	static char flood[HTTP_READ_SIZE];

	(void)state;
	memset(flood, 'a', sizeof(flood));
	m.core.run_in_pool = http_memory_pool;
	http_memory_feed(&m, "GET /pool HTTP/1.1\r\n" HOST "\r\n");
	http_conn_feed(&m.conn, flood, sizeof(flood));
	assert_false(m.is_readable);
	router_run(m.pooled);
	http_conn_handler_done(&m.core, m.pooled);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 "), 1);
	assert_true(m.is_readable);
}

static void test_a_client_that_vanishes_while_the_pool_works_is_no_harm(void **state)
{
	(void)state;
	m.core.run_in_pool = http_memory_pool;
	http_memory_feed(&m, "GET /pool HTTP/1.1\r\n" HOST "\r\n");
	http_conn_abort(&m.conn);
	assert_true(m.is_closed);
	router_run(m.pooled);
	http_conn_handler_done(&m.core, m.pooled);
	assert_int_equal(m.sent.len, 0);
}

static void test_a_client_that_sends_no_more_still_gets_its_answers(void **state)
{
	(void)state;
	m.core.run_in_pool = http_memory_pool;
	http_memory_feed(&m, "GET /pool HTTP/1.1\r\n" HOST "\r\n" GET);
	http_conn_eof(&m.conn);
	assert_false(m.is_closed);
	router_run(m.pooled);
	http_conn_handler_done(&m.core, m.pooled);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 "), 2);
	assert_true(m.is_closed);
}

static void test_closing_is_announced_and_done(void **state)
{
	(void)state;
	http_memory_feed(&m, "GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n" GET);
	assert_true(says("\r\nConnection: close\r\n"));
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 "), 1);
	assert_true(m.is_closed);
	http_conn_fini(&m.conn);
	http_memory_connect(&m);
	http_memory_feed(&m, "GET /hello HTTP/1.0\r\n\r\n");
	assert_int_equal(http_memory_status(&m), 200);
	assert_true(m.is_closed);
	http_conn_fini(&m.conn);
	http_memory_connect(&m);
	http_memory_feed(&m, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	assert_true(says("\r\nConnection: keep-alive\r\n"));
	assert_false(m.is_closed);
}

/* ---- refusals ----------------------------------------------------------- */

static void test_what_cannot_be_framed_gets_one_answer_and_an_end(void **state)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{ "GET /hello HTTP/1.1\n" HOST "\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\n" HOST HOST "\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400 },
		{ "GET /hello HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400 },
		{ "GET /hello HTTP/3.0\r\n" HOST "\r\n", 505 },
		{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
		{ "CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 400 },
		{ "POST /echo HTTP/1.1\r\n" HOST
		  "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\n" HOST
		  "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\n" HOST
		  "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\n" HOST
		  "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		  400 },
		{ "POST /echo HTTP/1.1\r\n" HOST
		  "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
		  400 },
		{ "POST /echo HTTP/1.1\r\n" HOST "Expect: tea\r\nContent-Length: 1\r\n\r\n", 417 },
		{ "\x16\x03\x01\x02\n", 400 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		http_memory_disconnect(&m);
		http_memory_connect(&m);
		http_memory_feed(&m, cases[i].text);
		http_memory_feed(&m, GET); /* the smuggled one */
		if (http_memory_status(&m) != cases[i].want)
			fail_msg("case %zu: %s -> %s", i, cases[i].text, http_memory_text(&m));
		assert_int_equal(http_memory_count(&m, "\r\nDate: "), 1);
		assert_int_equal(http_memory_count(&m, "\r\nConnection: close\r\n"), 1);
		assert_true(says("{\"code\":1"));
		assert_true(m.is_shut); /* and read on for a moment, so that the answer arrives */
		assert_false(m.is_closed);
		http_conn_eof(&m.conn);
		assert_true(m.is_closed);
	}
}

static void test_a_refused_body_is_dropped_when_short_and_ends_the_connection_when_not(void **state)
{
	(void)state;
	http_memory_feed(&m, "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc" GET);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 404 "), 1);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 "), 1);
	http_memory_disconnect(&m);
	http_memory_connect(&m);
	http_memory_feed(&m, "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 99000\r\n\r\nabc");
	assert_true(says("\r\nConnection: close\r\n"));
	assert_true(m.is_shut);
}

static void test_a_chunked_body_that_grows_too_large_is_413(void **state)
{
	static char chunk[60000];

	(void)state;
	memset(chunk, 'a', sizeof(chunk));
	http_memory_feed(&m, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 2; i++) {
		http_memory_feed(&m, "ea60\r\n");
		http_conn_feed(&m.conn, chunk, sizeof(chunk));
		http_memory_feed(&m, "\r\n");
	}
	assert_int_equal(http_memory_status(&m), 413);
	assert_true(says("\"code\":1006"));
	assert_true(m.is_shut);
	assert_int_equal(m.core.bodies_bytes, 0);
}

/* ---- 100-continue ------------------------------------------------------- */

static void test_continue_is_said_when_the_body_is_wanted(void **state)
{
	(void)state;
	http_memory_feed(&m, "POST /echo HTTP/1.1\r\n" HOST
			     "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	assert_string_equal(http_memory_text(&m), "HTTP/1.1 100 Continue\r\n\r\n");
	http_memory_feed(&m, "ab");
	assert_true(says("\r\n\r\n\"ab\""));
}

static void test_a_refusal_comes_without_continue(void **state)
{
	static const char *const heads[] = {
		"POST /nothing HTTP/1.1\r\n" HOST
		"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
		"POST /echo HTTP/1.1\r\n" HOST
		"Content-Length: 100001\r\nExpect: 100-continue\r\n\r\n",
		"PUT /refuse HTTP/1.1\r\n" HOST
		"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		http_memory_disconnect(&m);
		http_memory_connect(&m);
		http_memory_feed(&m, heads[i]);
		assert_int_equal(http_memory_status(&m) / 100, 4);
		assert_true(says("\r\nConnection: close\r\n"));
	}
}

static void test_continue_is_not_said_when_the_body_is_there_or_the_version_is_old(void **state)
{
	(void)state;
	http_memory_feed(&m, "POST /echo HTTP/1.1\r\n" HOST
			     "Content-Length: 2\r\nExpect: 100-continue\r\n\r\nab");
	assert_int_equal(http_memory_status(&m), 200);
	http_memory_disconnect(&m);
	http_memory_connect(&m);
	http_memory_feed(
		&m, "POST /echo HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	assert_int_equal(m.sent.len, 0);
	http_memory_feed(&m, "ab");
	assert_int_equal(http_memory_status(&m), 200);
}

/* ---- deadlines ---------------------------------------------------------- */

/* The time at which the present deadline is over; the tick is told, nobody waits. */
static void let_pass(enum http_deadline d)
{
	assert_int_equal(m.conn.deadline, d);
	http_core_tick(&m.core, m.conn.deadline_since + m.core.duration_ns[d] - 1);
	assert_false(m.is_closed || m.is_shut);
	http_core_tick(&m.core, m.conn.deadline_since + m.core.duration_ns[d]);
}

static void test_deadlines(void **state)
{
	(void)state;
	/* nothing was ever sent */
	let_pass(HTTP_DL_HEADER);
	assert_true(m.is_closed);
	assert_int_equal(m.sent.len, 0);
	/* between two requests */
	http_conn_fini(&m.conn);
	http_memory_connect(&m);
	http_memory_feed(&m, GET);
	buf_reset(&m.sent);
	let_pass(HTTP_DL_IDLE);
	assert_true(m.is_closed);
	assert_int_equal(m.sent.len, 0);
	/* half a head; more of it does not buy time */
	http_conn_fini(&m.conn);
	http_memory_connect(&m);
	http_memory_feed(&m, "GET /hel");
	m.conn.deadline_since -= 5;
	uint64_t since = m.conn.deadline_since;
	http_memory_feed(&m, "lo HTTP");
	assert_true(m.conn.deadline_since == since);
	let_pass(HTTP_DL_HEADER);
	assert_int_equal(http_memory_status(&m), 408);
	assert_true(says("\"code\":1001"));
	http_core_tick(&m.core, m.conn.deadline_since + m.core.duration_ns[HTTP_DL_LINGER]);
	assert_true(m.is_closed);
	/* half a body */
	http_conn_fini(&m.conn);
	http_memory_connect(&m);
	http_memory_feed(&m, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc");
	let_pass(HTTP_DL_BODY);
	assert_int_equal(http_memory_status(&m), 408);
}

static void test_an_answer_that_is_not_taken_ends_the_connection(void **state)
{
	(void)state;
	m.room = 100;
	http_memory_feed(&m, "GET /big HTTP/1.1\r\n" HOST "\r\n");
	assert_true(m.is_writable);
	let_pass(HTTP_DL_WRITE);
	assert_true(m.is_closed);
}

static void test_a_body_that_goes_on_buys_time(void **state)
{
	static char run[20000];
	uint64_t since;

	(void)state;
	memset(run, 'a', sizeof(run));
	http_memory_feed(&m, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 90000\r\n\r\n");
	m.conn.deadline_since -= 5;
	since = m.conn.deadline_since;
	http_memory_feed(&m, "a");
	assert_true(m.conn.deadline_since == since);
	http_conn_feed(&m.conn, run, sizeof(run));
	assert_true(m.conn.deadline_since > since);
}

/* ---- backpressure ------------------------------------------------------- */

static void test_nothing_more_is_read_while_answers_are_not_taken(void **state)
{
	(void)state;
	m.room = 0;
	for (int i = 0; i < 5; i++)
		http_memory_feed(&m, "GET /big HTTP/1.1\r\n" HOST "\r\n");
	assert_false(m.is_readable);
	assert_true(m.is_writable);
	assert_true(m.conn.out.len <
		    3 * 11000); /* two answers reach the limit of 16 KiB; the rest waits */
	m.room = SIZE_MAX;
	http_conn_writable(&m.conn);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 "), 5);
	assert_true(m.is_readable);
	assert_false(m.is_writable);
	assert_null(m.conn.out.data);
	assert_null(m.conn.in.data);
}

static void test_a_failed_send_closes(void **state)
{
	(void)state;
	m.send_fails = true;
	http_memory_feed(&m, GET GET);
	assert_true(m.is_closed);
}

/* ---- streams ------------------------------------------------------------ */

static void test_a_streaming_consumer_gets_the_body_in_runs(void **state)
{
	(void)state;
	http_memory_feed(&m, "PUT /upload HTTP/1.1\r\n" HOST
			     "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
	assert_string_equal(http_memory_text(&m), "HTTP/1.1 100 Continue\r\n\r\n");
	buf_reset(&m.sent);
	http_memory_feed(&m, "3\r\nabc\r\n");
	assert_int_equal(seen.body.len, 3);
	http_memory_feed(&m, "3\r\ndef\r\n0\r\n\r\n");
	assert_string_equal(buf_cstr(&seen.body), "abcdef");
	assert_int_equal(seen.n_ended, 1);
	assert_int_equal(http_memory_status(&m), 200);
	http_memory_feed(&m, GET);
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 "), 2);
}

static void test_a_streaming_consumer_may_pause(void **state)
{
	(void)state;
	seen.pauses = true;
	http_memory_feed(&m, "PUT /upload HTTP/1.1\r\n" HOST
			     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	assert_false(m.is_readable);
	assert_int_equal(m.conn.deadline, HTTP_DL_NONE);
	http_memory_feed(&m, "3\r\ndef\r\n0\r\n\r\n"); /* was on its way */
	assert_int_equal(seen.body.len, 3);
	seen.pauses = false;
	http_conn_resume_body(seen.req);
	assert_int_equal(seen.body.len, 6);
	assert_int_equal(http_memory_status(&m), 200);
}

static void test_a_client_that_vanishes_is_told_to_the_streaming_handler(void **state)
{
	(void)state;
	http_memory_feed(&m, "PUT /upload HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nab");
	http_conn_eof(&m.conn);
	assert_int_equal(seen.n_aborted, 1);
	assert_int_equal(seen.n_ended, 0);
	assert_true(m.is_closed);
}

static void test_a_stream_is_sent_in_chunks_as_it_comes(void **state)
{
	const char *body;

	(void)state;
	http_memory_feed(&m, "GET /download HTTP/1.1\r\n" HOST "\r\n" GET);
	assert_true(says("\r\nTransfer-Encoding: chunked\r\n"));
	assert_false(says("Content-Length"));
	assert_int_equal(http_conn_stream_write(seen.req, "abc", 3), 0);
	assert_int_equal(http_conn_stream_write(seen.req, "", 0), 0);
	body = strstr(http_memory_text(&m), "\r\n\r\n") + 4;
	assert_string_equal(body, "3\r\nabc\r\n");
	http_conn_stream_end(seen.req);
	assert_true(says("3\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"));
}

static void test_a_stream_to_an_old_client_ends_with_the_connection(void **state)
{
	(void)state;
	http_memory_feed(&m, "GET /download HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	assert_int_equal(http_conn_stream_write(seen.req, "abc", 3), 0);
	http_conn_stream_end(seen.req);
	assert_true(says("\r\nConnection: close\r\n"));
	assert_string_equal(strstr(http_memory_text(&m), "\r\n\r\n"), "\r\n\r\nabc");
	assert_true(m.is_closed);
}

static void test_a_stream_waits_for_a_slow_reader(void **state)
{
	static char run[20000];

	(void)state;
	m.room = 1000;
	http_memory_feed(&m, "GET /download HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(http_conn_stream_write(seen.req, run, sizeof(run)), -EAGAIN);
	assert_int_equal(seen.n_drained, 0);
	m.room = SIZE_MAX;
	http_conn_writable(&m.conn);
	assert_int_equal(seen.n_drained, 1);
	m.send_fails = true;
	assert_int_equal(http_conn_stream_write(seen.req, run, 1), -EPIPE);
	assert_int_equal(seen.n_aborted, 0); /* not while the handler is on the stack */
	assert_true(m.is_writable);
	http_conn_writable(&m.conn);
	assert_int_equal(seen.n_aborted, 1);
	assert_true(m.is_closed);
}

/* ---- stopping, recycling ------------------------------------------------ */

static void test_draining_closes_idle_ones_and_finishes_the_others(void **state)
{
	(void)state;
	m.core.run_in_pool = http_memory_pool;
	http_memory_feed(&m, "GET /pool HTTP/1.1\r\n" HOST "\r\n");
	m.core.is_stopping = true;
	http_conn_drain(&m.conn);
	assert_false(m.is_closed);
	router_run(m.pooled);
	http_conn_handler_done(&m.core, m.pooled);
	assert_true(says("\r\nConnection: close\r\n"));
	assert_true(m.is_closed);
	http_conn_fini(&m.conn);
	http_memory_connect(&m);
	http_conn_drain(&m.conn);
	assert_true(m.is_closed);
}

static void test_an_idle_connection_holds_no_buffers(void **state)
{
	(void)state;
	http_memory_feed(&m, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\na");
	http_memory_feed(&m, "bc");
	assert_null(m.conn.req);
	assert_null(m.conn.in.data);
	assert_null(m.conn.out.data);
	assert_true(sizeof(m.conn) < 1024);
}

static void test_requests_are_counted_by_route_and_class(void **state)
{
	struct buf out = { 0 };

	(void)state;
	http_memory_feed(&m, GET GET "GET /nothing HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(http_stats_metrics(m.core.stats, &out), 0);
	assert_non_null(strstr(buf_cstr(&out),
			       "workspaced_http_requests_total{method=\"GET\",route="
			       "\"/hello\",status=\"2xx\"} 2\n"));
	assert_non_null(strstr(buf_cstr(&out), "workspaced_http_requests_total{method=\"other\","
					       "route=\"other\",status=\"4xx\"} 1\n"));
	assert_non_null(
		strstr(buf_cstr(&out), "_bucket{method=\"GET\",route=\"/hello\",le=\"+Inf\"} 2\n"));
	buf_free(&out);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_request_is_answered_and_the_connection_kept),
		T(test_a_request_may_arrive_cut_anywhere),
		T(test_pipelined_requests_are_answered_in_order_in_one_send),
		T(test_what_waits_behind_the_pool_is_answered_after_it),
		T(test_not_much_may_wait_behind_the_pool),
		T(test_a_client_that_vanishes_while_the_pool_works_is_no_harm),
		T(test_a_client_that_sends_no_more_still_gets_its_answers),
		T(test_closing_is_announced_and_done),
		T(test_what_cannot_be_framed_gets_one_answer_and_an_end),
		T(test_a_refused_body_is_dropped_when_short_and_ends_the_connection_when_not),
		T(test_a_chunked_body_that_grows_too_large_is_413),
		T(test_continue_is_said_when_the_body_is_wanted),
		T(test_a_refusal_comes_without_continue),
		T(test_continue_is_not_said_when_the_body_is_there_or_the_version_is_old),
		T(test_deadlines),
		T(test_an_answer_that_is_not_taken_ends_the_connection),
		T(test_a_body_that_goes_on_buys_time),
		T(test_nothing_more_is_read_while_answers_are_not_taken),
		T(test_a_failed_send_closes),
		T(test_a_streaming_consumer_gets_the_body_in_runs),
		T(test_a_streaming_consumer_may_pause),
		T(test_a_client_that_vanishes_is_told_to_the_streaming_handler),
		T(test_a_stream_is_sent_in_chunks_as_it_comes),
		T(test_a_stream_to_an_old_client_ends_with_the_connection),
		T(test_a_stream_waits_for_a_slow_reader),
		T(test_draining_closes_idle_ones_and_finishes_the_others),
		T(test_an_idle_connection_holds_no_buffers),
		T(test_requests_are_counted_by_route_and_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
