/* SPDX-License-Identifier: MIT */
/* Routes and their policy, through a connection in memory. */
#include "tests/unit/unit.h"

#include "tests/unit/http_memory.h"

static void echo_params(struct http_request *req)
{
	struct json_out o = http_response_json(req);

	json_out_open(&o, '[');
	for (size_t i = 0; i < HTTP_PARAMS_MAX && req->params[i] != NULL; i++)
		json_out_str(&o, req->params[i]);
	json_out_close(&o, ']');
	http_response_json_end(req, 200, &o);
}

static void tell_authorized(struct http_request *req)
{
	struct json_out o = http_response_json(req);

	json_out_bool(&o, req->is_authorized);
	http_response_json_end(req, 200, &o);
}

static void answer_nothing(struct http_request *req)
{
	(void)req;
}

static const struct http_route rows[] = {
	{ HTTP_M_GET, "/open", tell_authorized, R_NO_AUTH },
	{ HTTP_M_GET, "/things", echo_params, 0 },
	{ HTTP_M_POST, "/things", echo_params, R_CHANGES },
	{ HTTP_M_GET, "/things/{id}", echo_params, 0 },
	{ HTTP_M_DELETE, "/things/{id}", echo_params, R_CHANGES },
	{ HTTP_M_GET, "/things/{id}/parts/{part}", echo_params, 0 },
	{ HTTP_M_GET, "/broken", answer_nothing, 0 },
};
static const struct http_routes routes = { rows, ARRAY_LEN(rows) };

static const char *const allowed[] = { "https://console.example" };
static const struct http_server_options options = {
	.host = "127.0.0.1",
	.allowed_origins = allowed,
	.n_allowed_origins = 1,
	.limits.max_json_body = 100,
};

static struct http_memory m;

static int setup(void **state)
{
	(void)state;
	return http_memory_init(&m, &options, &routes);
}

static int teardown(void **state)
{
	(void)state;
	http_memory_fini(&m);
	return 0;
}

/* ask() - one request on a connection of its own; the status */
static int ask(const char *line, const char *headers)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", line,
		       headers);
	http_memory_disconnect(&m);
	http_memory_connect(&m);
	http_memory_feed(&m, text);
	return http_memory_status(&m);
}

static bool says(const char *word)
{
	return strstr(http_memory_text(&m), word) != NULL;
}

static void test_parameters_are_decoded_segments(void **state)
{
	(void)state;
	assert_int_equal(ask("GET /things/a%2Fb%20c+d", ""), 200);
	assert_true(says("\r\n\r\n[\"a/b c+d\"]"));
	assert_int_equal(ask("GET /things/x/parts/y?q=1", ""), 200);
	assert_true(says("[\"x\",\"y\"]"));
	assert_int_equal(ask("GET /things/a%00b", ""), 200);
	assert_true(says("[\"\"]"));
	assert_int_equal(ask("GET /things/%ff", ""), 200);
	assert_true(says("[\"\xef\xbf\xbd\"]"));
	assert_int_equal(ask("GET /things/a%4", ""), 400);
	assert_true(says("\"code\":1002"));
}

static void test_unknown_paths_are_404_and_wrong_methods_405_with_allow(void **state)
{
	static const char *const unknown[] = {
		"GET /",          "GET /thing",           "GET /things/",
		"GET /things/a/", "GET /things//parts/b", "GET /open/x",
		"POST /nothing",  "GET /things/a/parts",  "GET //open"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
		if (ask(unknown[i], "") != 404)
			fail_msg("%s", unknown[i]);
	assert_true(says("{\"code\":1001,\"message\":\"Invalid request: no such route: //open\"}"));
	assert_int_equal(ask("PUT /things/a", ""), 405);
	assert_true(says("\r\nAllow: GET, HEAD, DELETE, OPTIONS\r\n"));
	assert_int_equal(ask("TRACE /things", ""), 405);
	assert_int_equal(ask("FOO /things", ""), 501);
	assert_true(says("\"code\":1004"));
}

static void test_head_answers_like_get_without_the_body(void **state)
{
	(void)state;
	assert_int_equal(ask("HEAD /things/abc", ""), 200);
	assert_true(says("\r\nContent-Length: 8\r\n"));
	assert_string_equal(strstr(http_memory_text(&m), "\r\n\r\n"), "\r\n\r\n");
	assert_int_equal(ask("HEAD /nothing", ""), 404);
	assert_string_equal(strstr(http_memory_text(&m), "\r\n\r\n"), "\r\n\r\n");
}

static void test_a_caller_who_is_not_let_in_gets_401_but_for_open_routes(void **state)
{
	struct http_peer stranger = { .text = "10.0.0.1:1" };

	(void)state;
	http_memory_disconnect(&m);
	http_memory_connect(&m);
	m.conn.peer = stranger;
	http_memory_feed(&m, "GET /things HTTP/1.1\r\nHost: localhost\r\n\r\n"
			     "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
			     "OPTIONS /things HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_int_equal(http_memory_count(&m, "HTTP/1.1 401 "), 3);
	assert_int_equal(http_memory_count(&m, "\r\nWWW-Authenticate: Bearer\r\n"), 3);
	assert_int_equal(http_memory_count(&m, "{\"code\":1005,\"message\":\"Unauthorized\"}"), 3);
	buf_reset(&m.sent);
	http_memory_feed(&m, "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_int_equal(http_memory_status(&m), 200);
	assert_true(says("\r\n\r\nfalse"));
	assert_int_equal(ask("GET /open", ""), 200);
	assert_true(says("\r\n\r\ntrue"));
}

static void test_pages_of_other_origins_change_nothing(void **state)
{
	(void)state;
	assert_int_equal(ask("POST /things", "Origin: https://evil.example\r\n"), 403);
	assert_true(
		says("{\"code\":1007,\"message\":\"Origin not allowed: https://evil.example\"}"));
	assert_false(says("Access-Control"));
	assert_int_equal(ask("DELETE /things/a", "Sec-Fetch-Site: cross-site\r\n"), 403);
	assert_int_equal(ask("GET /things", "Origin: https://evil.example\r\n"), 200);
	assert_false(says("Access-Control"));
	assert_int_equal(ask("POST /things", ""), 200);
	assert_int_equal(ask("POST /things", "Origin: http://localhost\r\n"), 200);
}

static void test_allowed_origins_get_cors_and_preflight(void **state)
{
	(void)state;
	assert_int_equal(ask("POST /things",
			     "Origin: https://console.example\r\nSec-Fetch-Site: cross-site\r\n"),
			 200);
	assert_true(says("\r\nAccess-Control-Allow-Origin: https://console.example\r\n"));
	assert_true(says("\r\nVary: Origin\r\n"));
	assert_int_equal(ask("OPTIONS /things/a", "Origin: https://console.example\r\n"
						  "Access-Control-Request-Method: DELETE\r\n"),
			 200);
	assert_true(says("\r\nAccess-Control-Allow-Methods: GET, HEAD, DELETE, OPTIONS\r\n"));
	assert_true(says("\r\nAccess-Control-Allow-Headers: Authorization"));
	assert_int_equal(ask("OPTIONS /things/a", "Origin: https://evil.example\r\n"
						  "Access-Control-Request-Method: DELETE\r\n"),
			 403);
	assert_int_equal(ask("OPTIONS *", ""), 200);
	assert_int_equal(ask("OPTIONS /nothing", ""), 404);
}

static void test_a_host_that_is_not_ours_is_refused_everywhere(void **state)
{
	(void)state;
	http_memory_disconnect(&m);
	http_memory_connect(&m);
	http_memory_feed(&m, "GET /open HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	assert_int_equal(http_memory_status(&m), 403);
	assert_true(says("\"code\":1007"));
}

static void test_a_body_must_be_json_and_fit(void **state)
{
	(void)state;
	assert_int_equal(ask("POST /things", "Content-Length: 101\r\n"), 413);
	assert_true(says("{\"code\":1006,\"message\":\"Payload too large\"}"));
	assert_int_equal(ask("POST /things", "Content-Type: text/plain\r\nContent-Length: 0\r\n"),
			 200);
	assert_int_equal(
		ask("POST /things", "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"),
		415);
	assert_int_equal(
		ask("POST /things", "Content-Type: a/b+JSON\r\nContent-Length: 2\r\n\r\n{}"), 200);
	assert_int_equal(ask("POST /things", "Content-Length: 2\r\n\r\n{}"), 200);
}

static void test_a_handler_that_answers_nothing_is_our_mistake(void **state)
{
	(void)state;
	assert_int_equal(ask("GET /broken", ""), 500);
	assert_true(says("\"code\":1003"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parameters_are_decoded_segments),
		cmocka_unit_test(test_unknown_paths_are_404_and_wrong_methods_405_with_allow),
		cmocka_unit_test(test_head_answers_like_get_without_the_body),
		cmocka_unit_test(test_a_caller_who_is_not_let_in_gets_401_but_for_open_routes),
		cmocka_unit_test(test_pages_of_other_origins_change_nothing),
		cmocka_unit_test(test_allowed_origins_get_cors_and_preflight),
		cmocka_unit_test(test_a_host_that_is_not_ours_is_refused_everywhere),
		cmocka_unit_test(test_a_body_must_be_json_and_fit),
		cmocka_unit_test(test_a_handler_that_answers_nothing_is_our_mistake),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
