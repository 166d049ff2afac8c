/* SPDX-License-Identifier: MIT */
/* Where heads end, what their lines may look like, how bodies are framed. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/http_body.h"
#include "http/http_head.h"
#include "http/http_request.h"

/* ---- heads -------------------------------------------------------------- */

static void test_head_is_found_however_the_bytes_are_cut(void **state)
{
	static const char text[] = "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nrest";
	size_t end = sizeof(text) - 1 - 4;

	(void)state;
	for (size_t cut = 0; cut < end; cut++) {
		struct http_head_scan s = { 0 };

		assert_int_equal(http_head_scan(&s, text, cut), 0);
		assert_int_equal(http_head_scan(&s, text, sizeof(text) - 1), 1);
		assert_int_equal(s.start, 4);
		assert_int_equal(s.pos, end);
		assert_int_equal(s.n_lines, 2);
	}
}

static char *repeat(char c, size_t n)
{
	char *p = malloc(n + 1);

	assert_non_null(p);
	memset(p, c, n);
	p[n] = '\0';
	return p;
}

static int scan(const char *p, size_t n)
{
	struct http_head_scan s = { 0 };

	return http_head_scan(&s, p, n);
}

static void test_head_that_is_too_long_is_refused_while_it_arrives(void **state)
{
	auto_free char *line = repeat('a', HTTP_LINE_MAX + 1);
	auto_free char *headers = repeat('b', HTTP_HEADERS_MAX + 64);
	char start[] = "GET / HTTP/1.1\r\nX: ";

	(void)state;
	assert_int_equal(scan(line, HTTP_LINE_MAX), 0);
	assert_int_equal(scan(line, HTTP_LINE_MAX + 1), -414);
	memcpy(headers, start, sizeof(start) - 1);
	assert_int_equal(scan(headers, HTTP_HEADERS_MAX), 0);
	assert_int_equal(scan(headers, HTTP_HEADERS_MAX + 64), -431);
}

static void test_head_has_at_most_200_header_lines(void **state)
{
	char text[4096] = "GET / HTTP/1.1\r\n";
	size_t n = strlen(text);

	(void)state;
	for (int i = 0; i < HTTP_HEADER_LINES_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "a: b\r\n");
	memcpy(text + n, "\r\n", 2);
	assert_int_equal(scan(text, n + 2), 1);
	memcpy(text + n, "a: b\r\n\r\n", 8);
	assert_int_equal(scan(text, n + 8), -431);
}

static void test_head_needs_cr_lf(void **state)
{
	(void)state;
	assert_int_equal(scan("GET / HTTP/1.1\n", 15), -400);
	assert_int_equal(scan("\n", 1), -400);
	assert_int_equal(scan("GET / HTTP/1.1\r\nA: b\n\r\n", 23), -400);
}

static void test_head_lines_beyond_doubt(void **state)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{ "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0 },
		{ "GET / HTTP/1.0\r\n\r\n", 0 },
		{ "G!T /a?b=c#d HTTP/1.1\r\nA:\r\nB: \t\xff\r\n\r\n", 0 },
		{ "GET / HTTP/2.0\r\n\r\n", -505 },
		{ "GET / HTTP/1.2\r\n\r\n", -505 },
		{ "GET / HTTP/0.9\r\n\r\n", -505 },
		{ "GET / HTTP/1.1 \r\n\r\n", -400 },
		{ "GET / HTTP/11\r\n\r\n", -400 },
		{ "GET / http/1.1\r\n\r\n", -400 },
		{ "GET  / HTTP/1.1\r\n\r\n", -400 },
		{ "GET /  HTTP/1.1\r\n\r\n", -400 },
		{ "GET\t/ HTTP/1.1\r\n\r\n", -400 },
		{ " GET / HTTP/1.1\r\n\r\n", -400 },
		{ "GET /\r\n\r\n", -400 },
		{ "GET \r\n\r\n", -400 },
		{ "GET /\x01 HTTP/1.1\r\n\r\n", -400 },
		{ "GET /\xc3\xa9 HTTP/1.1\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\nA : b\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\n A: b\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\n: b\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\nA\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\nA: b\x7f\r\n\r\n", -400 },
		{ "GET / HTTP/1.1\r\nA: b\r\n", -400 },
	};
	const char *why;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (http_head_check(cases[i].text, strlen(cases[i].text), &why) != cases[i].want)
			fail_msg("case %zu: %s", i, cases[i].text);
	assert_int_equal(http_head_check("GET / HTTP/1.1\r\nA: \0\r\n\r\n", 23, &why), -400);
}

/* ---- bodies ------------------------------------------------------------- */

/* Feeds @text in pieces of @step bytes.  Return: the last result; the data are in @ret. */
static int decode(enum http_body_kind kind, uint64_t length, const char *text, size_t step,
		  struct buf *ret, size_t *ret_used)
{
	struct http_body b;
	size_t n = strlen(text), pos = 0;
	int rc = HTTP_BODY_MORE;

	http_body_init(&b, kind, length);
	while (rc != HTTP_BODY_END && rc >= 0 && pos <= n) {
		size_t used, data_len, have = MIN(step, n - pos);
		const char *data;

		rc = http_body_next(&b, text + pos, have, &used, &data, &data_len);
		if (rc == HTTP_BODY_DATA)
			assert_int_equal(buf_append(ret, data, data_len), 0);
		pos += used;
		if (rc == HTTP_BODY_MORE && pos == n)
			break;
	}
	*ret_used = pos;
	return rc;
}

static void test_body_by_length_ends_where_it_says(void **state)
{
	struct buf got = { 0 };
	size_t used;

	(void)state;
	assert_int_equal(decode(HTTP_BODY_LENGTH, 5, "hellorest", 2, &got, &used), HTTP_BODY_END);
	assert_int_equal(used, 5);
	assert_int_equal(got.len, 5);
	assert_memory_equal(got.data, "hello", 5);
	buf_free(&got);
	assert_int_equal(decode(HTTP_BODY_NONE, 0, "rest", 4, &got, &used), HTTP_BODY_END);
	assert_int_equal(used, 0);
}

static void test_chunked_body_may_arrive_cut_anywhere(void **state)
{
	static const char text[] =
		"5;ext=\"x\"\r\nhello\r\n00b\r\n, you there\r\n0\r\nT: v\r\nU:\r\n\r\nNEXT";

	(void)state;
	for (size_t step = 1; step < sizeof(text); step++) {
		struct buf got = { 0 };
		size_t used;

		assert_int_equal(decode(HTTP_BODY_CHUNKED, 0, text, step, &got, &used),
				 HTTP_BODY_END);
		assert_string_equal(text + used, "NEXT");
		assert_string_equal(buf_cstr(&got), "hello, you there");
		buf_free(&got);
	}
}

static void test_chunked_body_that_is_not_clean_is_refused(void **state)
{
	static const char *const bad[] = {
		"5\nhello\r\n0\r\n\r\n",
		"5\r\nhello\n0\r\n\r\n",
		"5\r\nhelloXX0\r\n\r\n",
		" 5\r\nhello\r\n0\r\n\r\n",
		"5 \r\nhello\r\n0\r\n\r\n",
		"+5\r\nhello\r\n0\r\n\r\n",
		"-1\r\nhello\r\n0\r\n\r\n",
		"0x5\r\nhello\r\n0\r\n\r\n",
		"\r\nhello\r\n0\r\n\r\n",
		";a\r\nhello\r\n0\r\n\r\n",
		"5;a\rb\r\nhello\r\n",
		"5;a\nb\r\nhello\r\n",
		"10000000000000000\r\nhello",
		"0000000000000000\r\n",
		"5\r\nhello\r\n0\r\n\n",
		"5\r\nhello\r\n0\n\r\n",
		"0\r\nA : b\r\n\r\n",
		"0\r\nA: b\r\n c\r\n\r\n",
		"0\r\nA: b\n\r\n",
		"0\r\nA\r\n\r\n",
		"0\r\nA: b\rc\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct buf got = { 0 };
		size_t used;

		if (decode(HTTP_BODY_CHUNKED, 0, bad[i], strlen(bad[i]), &got, &used) != -EBADMSG)
			fail_msg("case %zu: %s", i, bad[i]);
		buf_free(&got);
	}
}

static void test_chunk_extensions_and_trailers_are_bounded(void **state)
{
	auto_free char *pad = repeat('a', HTTP_TRAILERS_MAX + 1);
	struct buf text = { 0 }, got = { 0 };
	size_t used;

	(void)state;
	assert_int_equal(buf_printf(&text, "5;%.*s\r\nhello", HTTP_CHUNK_EXT_MAX + 1, pad), 0);
	assert_int_equal(decode(HTTP_BODY_CHUNKED, 0, buf_cstr(&text), text.len, &got, &used),
			 -EBADMSG);
	buf_reset(&text);
	assert_int_equal(buf_printf(&text, "0\r\nA: %s\r\n\r\n", pad), 0);
	assert_int_equal(decode(HTTP_BODY_CHUNKED, 0, buf_cstr(&text), text.len, &got, &used),
			 -EBADMSG);
	buf_free(&text);
	buf_free(&got);
}

/* ---- headers ------------------------------------------------------------ */

#define HEADERS_MAX 8

struct fixture {
	struct http_request req;
	struct http_header headers[HEADERS_MAX];
};

/* "Name: value" lines, separated by '\n', as a parsed request's headers */
static void set_headers(struct fixture *f, const char *lines)
{
	f->req.headers = f->headers;
	f->req.n_headers = 0;
	while (*lines != '\0') {
		size_t len = strcspn(lines, "\n"), name = strcspn(lines, ":");

		assert_true(f->req.n_headers < HEADERS_MAX);
		f->headers[f->req.n_headers++] = (struct http_header){
			.name = lines,
			.name_len = (uint32_t)name,
			.value = lines + name + 2,
			.value_len = (uint32_t)(len - name - 2),
		};
		lines += len + (lines[len] == '\n');
	}
}

static void test_framing_that_two_readers_may_see_differently_is_refused(void **state)
{
	static const struct {
		const char *headers;
		bool is_http10;
		int want;
	} cases[] = {
		{ "Host: a", false, 0 },
		{ "Host: a\nContent-Length: 5", false, 0 },
		{ "Host: a\nTransfer-Encoding: Chunked", false, 0 },
		{ "", true, 0 },
		{ "", false, -400 },
		{ "Host: a\nHost: a", false, -400 },
		{ "Host: a\nContent-Length: 5\nTransfer-Encoding: chunked", false, -400 },
		{ "Host: a\nTransfer-Encoding: chunked\nContent-Length: 5", false, -400 },
		{ "Host: a\nContent-Length: 5\nContent-Length: 5", false, -400 },
		{ "Host: a\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked", false, -400 },
		{ "Host: a\nTransfer-Encoding: chunked, chunked", false, -400 },
		{ "Host: a\nTransfer-Encoding: gzip, chunked", false, -400 },
		{ "Host: a\nTransfer-Encoding: identity", false, -400 },
		{ "Host: a\nTransfer-Encoding: ", false, -400 },
		{ "Transfer-Encoding: chunked", true, -400 },
		{ "Host: a\nContent-Length: +5", false, -400 },
		{ "Host: a\nContent-Length: 5, 5", false, -400 },
		{ "Host: a\nContent-Length: 0x5", false, -400 },
		{ "Host: a\nContent-Length: -1", false, -400 },
		{ "Host: a\nContent-Length: ", false, -400 },
		{ "Host: a\nContent-Length: 99999999999999999999", false, -400 },
		{ "Host: a\nAuthorization: a\nAuthorization: b", false, -400 },
		{ "Host: a\nOrigin: a\nOrigin: b", false, -400 },
		{ "Host: a\nExpect: 100-Continue", false, 0 },
		{ "Host: a\nExpect: tea", false, -417 },
		{ "Expect: tea", true, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f = { 0 };
		const char *why;

		f.req.is_http10 = cases[i].is_http10;
		set_headers(&f, cases[i].headers);
		if (http_request_frame(&f.req, &why) != cases[i].want)
			fail_msg("case %zu: %s", i, cases[i].headers);
		arena_free(&f.req.arena);
	}
}

static void test_connection_header_decides_about_keeping_alive(void **state)
{
	static const struct {
		const char *headers;
		bool is_http10, closes;
	} cases[] = {
		{ "Host: a", false, false },
		{ "Host: a\nConnection: close", false, true },
		{ "Host: a\nConnection: foo , CLOSE", false, true },
		{ "Host: a\nConnection: closed", false, false },
		{ "Host: a\nConnection: keep-alive\nConnection: close", false, true },
		{ "Host: a", true, true },
		{ "Host: a\nConnection: Keep-Alive", true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f = { 0 };
		const char *why;

		f.req.is_http10 = cases[i].is_http10;
		set_headers(&f, cases[i].headers);
		assert_int_equal(http_request_frame(&f.req, &why), 0);
		if (f.req.wants_close != cases[i].closes)
			fail_msg("case %zu: %s", i, cases[i].headers);
	}
}

/* ---- target and query --------------------------------------------------- */

static void test_target_forms(void **state)
{
	static const struct {
		const char *target, *path, *query; /* path NULL: refused */
	} cases[] = {
		{ "/a/b", "/a/b", "" },
		{ "/a?b=c?d", "/a", "b=c?d" },
		{ "/?", "/", "" },
		{ "http://Example:80/x?y", "/x", "y" },
		{ "http://example:80", "/", "" },
		{ "http://example:80?q", "/", "q" },
		{ "http://other/x", NULL, NULL },
		{ "http://example:80@evil/x", NULL, NULL },
		{ "*", NULL, NULL },
		{ "a/b", NULL, NULL },
		{ "/a#b", NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f = { 0 };
		const char *why;
		int rc;

		set_headers(&f, "Host: example:80");
		rc = http_request_target(&f.req, cases[i].target, strlen(cases[i].target), &why);
		if ((rc == 0) != (cases[i].path != NULL))
			fail_msg("case %zu: %s", i, cases[i].target);
		if (rc == 0) {
			assert_string_equal(f.req.path, cases[i].path);
			assert_int_equal(f.req.path_len, strlen(cases[i].path));
			assert_string_equal(f.req.query, cases[i].query);
		}
		arena_free(&f.req.arena);
	}
}

static void test_query_is_decoded_with_plus_as_space(void **state)
{
	struct fixture f = { .req.query = "a=1&path=%2Fx+y%2b&empty&a=2&bad=%4&nul=%00&na%6De=v" };
	const char *got;

	(void)state;
	assert_int_equal(http_request_query(&f.req, "a", &got), 1);
	assert_string_equal(got, "1");
	assert_int_equal(http_request_query(&f.req, "path", &got), 1);
	assert_string_equal(got, "/x y+");
	assert_int_equal(http_request_query(&f.req, "empty", &got), 1);
	assert_string_equal(got, "");
	assert_int_equal(http_request_query(&f.req, "name", &got), 1);
	assert_string_equal(got, "v");
	assert_int_equal(http_request_query(&f.req, "none", &got), 0);
	assert_int_equal(http_request_query(&f.req, "bad", &got), -EINVAL);
	assert_int_equal(http_request_query(&f.req, "nul", &got), -EILSEQ);
	arena_free(&f.req.arena);
}

static void test_request_id_is_echoed_only_when_harmless(void **state)
{
	struct fixture f = { 0 };
	char line[256];

	(void)state;
	set_headers(&f, "X-Request-ID: Ab9._-");
	http_request_take_id(&f.req, "made");
	assert_string_equal(f.req.id, "Ab9._-");
	set_headers(&f, "X-Request-ID: a b");
	http_request_take_id(&f.req, "made");
	assert_string_equal(f.req.id, "made");
	set_headers(&f, "X-Request-ID: ");
	http_request_take_id(&f.req, "made");
	assert_string_equal(f.req.id, "made");
	(void)snprintf(line, sizeof(line), "X-Request-ID: %0128d", 0);
	set_headers(&f, line);
	http_request_take_id(&f.req, "made");
	assert_int_equal(strlen(f.req.id), 128);
	(void)snprintf(line, sizeof(line), "X-Request-ID: %0129d", 0);
	set_headers(&f, line);
	http_request_take_id(&f.req, "made");
	assert_string_equal(f.req.id, "made");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head_is_found_however_the_bytes_are_cut),
		cmocka_unit_test(test_head_that_is_too_long_is_refused_while_it_arrives),
		cmocka_unit_test(test_head_has_at_most_200_header_lines),
		cmocka_unit_test(test_head_needs_cr_lf),
		cmocka_unit_test(test_head_lines_beyond_doubt),
		cmocka_unit_test(test_body_by_length_ends_where_it_says),
		cmocka_unit_test(test_chunked_body_may_arrive_cut_anywhere),
		cmocka_unit_test(test_chunked_body_that_is_not_clean_is_refused),
		cmocka_unit_test(test_chunk_extensions_and_trailers_are_bounded),
		cmocka_unit_test(test_framing_that_two_readers_may_see_differently_is_refused),
		cmocka_unit_test(test_connection_header_decides_about_keeping_alive),
		cmocka_unit_test(test_target_forms),
		cmocka_unit_test(test_query_is_decoded_with_plus_as_space),
		cmocka_unit_test(test_request_id_is_echoed_only_when_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
