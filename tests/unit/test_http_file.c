/* SPDX-License-Identifier: MIT */
/* What files need of a connection: answers from a descriptor, and handlers that work in steps. */
#include "tests/unit/unit.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/http_memory.h"

#define HOST       "Host: localhost\r\n"
#define FILE_BYTES 200000

static struct {
	unsigned n_prepared, n_ended, n_cleaned;
	uint64_t promised;
	bool refuses;
	struct buf body;
} seen;

static void file(struct http_request *req)
{
	static char text[FILE_BYTES];
	int fd = memfd_create("file", MFD_CLOEXEC);

	memset(text, 'x', sizeof(text));
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	http_response_file(req, 200, "application/octet-stream", fd, 0, seen.promised);
}

static void hello(struct http_request *req)
{
	struct json_out o = http_response_json(req);

	json_out_str(&o, "hello");
	http_response_json_end(req, 200, &o);
}

static void prepare(struct http_request *req)
{
	seen.n_prepared++;
	if (seen.refuses)
		http_response_error(req, HTTP_CODE_PARAMETER, "%s", "no");
}

static void prepared(struct http_request *req)
{
	if (req->res.status != 0)
		http_conn_answer(req);
	else if (req->has_body)
		http_conn_resume_body(req);
	else
		req->hooks.on_body_end(req);
}

static int on_body(struct http_request *req, const char *p, size_t n)
{
	(void)req;
	assert_int_equal(buf_append(&seen.body, p, n), 0);
	return 0;
}

static void on_body_end(struct http_request *req)
{
	seen.n_ended++;
	(void)http_conn_run_step(req, hello, http_conn_answer);
}

static void cleanup(struct http_request *req)
{
	(void)req;
	seen.n_cleaned++;
}

static void upload(struct http_request *req)
{
	req->hooks = (struct http_request_hooks){ .on_body = on_body,
						  .on_body_end = on_body_end,
						  .cleanup = cleanup };
	(void)http_conn_run_step(req, prepare, prepared);
}

static void collect(struct http_request *req)
{
	req->collects = true;
	req->hooks = (struct http_request_hooks){ .on_body_end = on_body_end, .cleanup = cleanup };
	(void)http_conn_run_step(req, prepare, prepared);
}

/* Has to wait when the test says so. */
static void try_it(struct http_request *req)
{
	seen.n_prepared++;
	if (req->is_trial && seen.refuses)
		req->wants_pool = true;
	else
		hello(req);
}

static const struct http_route rows[] = {
	{ HTTP_M_GET, "/try", try_it, R_POOL | R_TRY },
	{ HTTP_M_GET, "/file", file, 0 },
	{ HTTP_M_GET, "/hello", hello, 0 },
	{ HTTP_M_PUT, "/upload", upload, R_STREAM },
	{ HTTP_M_PUT, "/collect", collect, R_STREAM },
};
static const struct http_routes routes = { rows, ARRAY_LEN(rows) };
static const struct http_server_options options = { .host = "127.0.0.1",
						    .limits = { .max_json_body = 1000 } };
static struct http_memory m;

/* The pool takes what it is given, and runs the eldest when the test says so. */
static struct http_request *queue[4];
static size_t n_queued;

static int setup(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	n_queued = 0;
	seen.promised = FILE_BYTES;
	return http_memory_init(&m, &options, &routes);
}

static int teardown(void **state)
{
	(void)state;
	http_memory_fini(&m);
	buf_free(&seen.body);
	return 0;
}

static bool enqueue(struct http_core *core, struct http_request *req)
{
	(void)core;
	assert_true(n_queued < ARRAY_LEN(queue));
	queue[n_queued++] = req;
	return true;
}

static void run_pool(void)
{
	struct http_request *req = queue[0];

	assert_true(n_queued > 0);
	memmove(queue, queue + 1, --n_queued * sizeof(*queue));
	http_conn_pool_run(req);
	http_conn_handler_done(&m.core, req);
}

/* ---- answers from a descriptor ------------------------------------------ */

static size_t n_x(void)
{
	size_t n = 0;

	for (size_t i = 0; i < m.sent.len; i++)
		n += m.sent.data[i] == 'x';
	return n;
}

static void test_a_file_is_sent_whole_and_the_next_request_answered(void **state)
{
	(void)state;
	http_memory_feed(&m,
			 "GET /file HTTP/1.1\r\n" HOST "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 OK"), 2);
	assert_int_equal(n_x(), FILE_BYTES);
	assert_non_null(strstr(http_memory_text(&m), "Content-Length: 200000\r\n"));
	assert_int_equal(http_memory_count(&m, "\"hello\""), 1);
	assert_false(m.is_closed);
}

static void test_head_of_a_file_has_its_length_and_no_body(void **state)
{
	(void)state;
	http_memory_feed(&m, "HEAD /file HTTP/1.1\r\n" HOST "\r\n");
	assert_non_null(strstr(http_memory_text(&m), "Content-Length: 200000\r\n"));
	assert_int_equal(n_x(), 0);
	assert_false(m.is_closed);
}

static void test_a_file_shorter_than_promised_ends_the_connection(void **state)
{
	(void)state;
	seen.promised = FILE_BYTES + 1;
	http_memory_feed(&m,
			 "GET /file HTTP/1.1\r\n" HOST "\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(n_x(), FILE_BYTES);
	assert_true(m.is_closed);
	assert_int_equal(http_memory_count(&m, "hello"), 0);
}

static void test_a_slow_reader_gets_a_file_bit_by_bit(void **state)
{
	(void)state;
	m.room = 1000;
	http_memory_feed(&m, "GET /file HTTP/1.1\r\n" HOST "\r\n");
	for (unsigned turns = 0; n_x() < FILE_BYTES; turns++) {
		assert_true(turns < 1000 && m.is_writable);
		m.room = 1000;
		http_conn_writable(&m.conn);
	}
	assert_false(m.is_writable);
	http_memory_feed(&m, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
}

static void test_a_client_may_leave_in_the_middle_of_a_file(void **state)
{
	(void)state;
	m.room = 1000;
	http_memory_feed(&m, "GET /file HTTP/1.1\r\n" HOST "\r\n");
	m.send_fails = true;
	http_conn_writable(&m.conn);
	assert_true(m.is_closed);
}

/* ---- steps -------------------------------------------------------------- */

#define PUT(path, more) "PUT " path " HTTP/1.1\r\n" HOST more "\r\n"

static void test_the_body_is_asked_for_after_the_first_step(void **state)
{
	(void)state;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, PUT("/upload", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
	assert_int_equal(m.sent.len, 0);
	run_pool();
	assert_string_equal(http_memory_text(&m), "HTTP/1.1 100 Continue\r\n\r\n");
	http_memory_feed(&m, "12345");
	assert_int_equal(seen.n_ended, 1);
	run_pool();
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 OK"), 1);
	assert_int_equal(seen.body.len, 5);
	run_pool(); /* the cleanup */
	assert_int_equal(seen.n_cleaned, 1);
}

static void test_a_refusal_in_the_first_step_comes_instead_of_continue(void **state)
{
	(void)state;
	seen.refuses = true;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, PUT("/upload", "Content-Length: 5\r\nExpect: 100-continue\r\n"));
	run_pool();
	assert_int_equal(http_memory_status(&m), 400);
	assert_int_equal(http_memory_count(&m, "100 Continue"), 0);
	run_pool();
	assert_int_equal(seen.n_cleaned, 1);
}

static void test_a_body_that_came_early_waits_for_the_step(void **state)
{
	(void)state;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, PUT("/upload", "Content-Length: 5\r\n") "12345" PUT(
				     "/upload", "Content-Length: 0\r\n"));
	http_conn_eof(&m.conn); /* the client sends no more, and wants its answers */
	assert_int_equal(seen.body.len, 0);
	while (n_queued > 0)
		run_pool();
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 200 OK"), 2);
	assert_int_equal(seen.n_ended, 2);
	assert_true(m.is_closed);
}

static void test_a_client_that_leaves_during_a_step_is_cleaned_up_after(void **state)
{
	(void)state;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, PUT("/upload", "Content-Length: 5\r\n"));
	http_conn_abort(&m.conn);
	assert_true(m.is_closed);
	run_pool();
	assert_int_equal(seen.n_cleaned, 0);
	run_pool();
	assert_int_equal(seen.n_cleaned, 1);
	assert_int_equal(n_queued, 0);
}

static void test_a_client_that_leaves_between_steps_is_cleaned_up(void **state)
{
	(void)state;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, PUT("/upload", "Content-Length: 5\r\n") "12");
	run_pool();
	http_conn_eof(&m.conn);
	assert_true(m.is_closed);
	run_pool();
	assert_int_equal(seen.n_cleaned, 1);
	assert_int_equal(seen.n_ended, 0);
}

static void test_a_step_without_a_pool_runs_at_once(void **state)
{
	(void)state;
	http_memory_feed(&m, PUT("/upload", "Content-Length: 5\r\n") "12345");
	assert_int_equal(http_memory_status(&m), 200);
	assert_int_equal(seen.n_cleaned, 1);
}

static void test_a_collected_body_has_the_limit_of_json(void **state)
{
	char big[2000];

	(void)state;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, PUT("/collect", "Transfer-Encoding: chunked\r\n"));
	run_pool();
	memset(big, 'x', sizeof(big));
	http_memory_feed(&m, "7d0\r\n");
	http_conn_feed(&m.conn, big, sizeof(big));
	assert_int_equal(http_memory_status(&m), 413);
	assert_int_equal(seen.n_ended, 0);
	run_pool();
	assert_int_equal(seen.n_cleaned, 1);
}

static void test_what_need_not_wait_is_answered_at_once(void **state)
{
	(void)state;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, "GET /try HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(http_memory_status(&m), 200);
	assert_int_equal(n_queued, 0);
}

static void test_what_would_wait_is_run_again_in_the_pool(void **state)
{
	(void)state;
	seen.refuses = true;
	m.core.run_in_pool = enqueue;
	http_memory_feed(&m, "GET /try HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(m.sent.len, 0);
	run_pool();
	assert_int_equal(http_memory_status(&m), 200);
	assert_int_equal(seen.n_prepared, 2);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_a_file_is_sent_whole_and_the_next_request_answered),
		T(test_head_of_a_file_has_its_length_and_no_body),
		T(test_a_file_shorter_than_promised_ends_the_connection),
		T(test_a_slow_reader_gets_a_file_bit_by_bit),
		T(test_a_client_may_leave_in_the_middle_of_a_file),
		T(test_the_body_is_asked_for_after_the_first_step),
		T(test_a_refusal_in_the_first_step_comes_instead_of_continue),
		T(test_a_body_that_came_early_waits_for_the_step),
		T(test_a_client_that_leaves_during_a_step_is_cleaned_up_after),
		T(test_a_client_that_leaves_between_steps_is_cleaned_up),
		T(test_a_step_without_a_pool_runs_at_once),
		T(test_a_collected_body_has_the_limit_of_json),
		T(test_what_need_not_wait_is_answered_at_once),
		T(test_what_would_wait_is_run_again_in_the_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
