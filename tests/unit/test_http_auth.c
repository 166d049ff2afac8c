/* SPDX-License-Identifier: MIT */
/* Callers and pages: who is let in, and from where. */
#include "tests/unit/unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "http/http_auth.h"

static struct http_auth *make(const struct http_server_options *o)
{
	struct http_auth *a = NULL;

	assert_int_equal(http_auth_new(o, &a, NULL), 0);
	return a;
}

static const struct http_peer local_ok = { .is_loopback = true, .uid_ok = true };
static const struct http_peer local_other = { .is_loopback = true };
static const struct http_peer remote = { .is_loopback = false, .uid_ok = true };

static void test_without_keys_only_allowed_loopback_uids_are_let_in(void **state)
{
	struct http_auth *a = make(&(struct http_server_options){ .host = "127.0.0.1" });

	(void)state;
	assert_true(http_auth_caller(a, &local_ok, NULL));
	assert_true(http_auth_caller(a, &local_ok, "Bearer whatever"));
	assert_false(http_auth_caller(a, &local_other, NULL));
	assert_false(http_auth_caller(a, &local_other, "Bearer whatever"));
	assert_false(http_auth_caller(a, &remote, NULL));
	http_auth_free(a);
}

static void test_everybody_only_when_the_operator_says_so(void **state)
{
	struct http_auth *a = make(
		&(struct http_server_options){ .host = "0.0.0.0", .allow_unauthenticated = true });

	(void)state;
	assert_true(http_auth_caller(a, &remote, NULL));
	assert_true(http_auth_caller(a, &local_other, NULL));
	http_auth_free(a);
}

static void test_with_keys_everybody_needs_one(void **state)
{
	const struct http_api_key keys[] = { { "a", "first" }, { "b", "second key" } };
	struct http_auth *a = make(&(struct http_server_options){
		.host = "127.0.0.1", .keys = keys, .n_keys = 2, .allow_unauthenticated = true });
	static const char *const good[] = { "Bearer first", "bearer  first", "Bearer second key" };
	static const char *const bad[] = { "",
					   "Bearer",
					   "Bearer ",
					   "Bearer firs",
					   "Bearer firstx",
					   "Bearer FIRST",
					   "Basic first",
					   "first",
					   "Bearer first " };

	(void)state;
	assert_false(http_auth_caller(a, &local_ok, NULL));
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(http_auth_caller(a, &remote, good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (http_auth_caller(a, &local_ok, bad[i]))
			fail_msg("let in: '%s'", bad[i]);
	http_auth_free(a);
}

static void test_unusable_settings_are_refused(void **state)
{
	const struct http_api_key empty = { "a", "" };
	const char *const origins[] = { "null" };
	struct http_auth *a;
	struct err err = { 0 };

	(void)state;
	assert_true(http_auth_new(&(struct http_server_options){ .keys = &empty, .n_keys = 1 }, &a,
				  &err) < 0);
	assert_true(http_auth_new(&(struct http_server_options){ .allowed_origins = origins,
								 .n_allowed_origins = 1 },
				  &a, &err) < 0);
	assert_non_null(strstr(err.msg, "http(s)://"));
}

#define OK     HTTP_PAGE_OK
#define HOST   HTTP_PAGE_BAD_HOST
#define ORIGIN HTTP_PAGE_BAD_ORIGIN

static const struct page_case {
	const char *host, *origin, *site;
	enum http_page_verdict want;
	bool cors;
} loopback_cases[] = {
	/* programs */
	{ "127.0.0.1:8080", NULL, NULL, OK, false },
	{ NULL, NULL, NULL, OK, false },
	/* hosts */
	{ "localhost", NULL, NULL, OK, false },
	{ "LocalHost.:8080", NULL, NULL, OK, false },
	{ "127.1.2.3:9", NULL, NULL, OK, false },
	{ "[::1]:8080", NULL, NULL, OK, false },
	{ "[::1]", NULL, NULL, OK, false },
	{ "console.example", NULL, NULL, OK, false },
	{ "evil.example", NULL, NULL, HOST, false },
	{ "localhost.evil.example:8080", NULL, NULL, HOST, false },
	{ "127.0.0.1.evil.example", NULL, NULL, HOST, false },
	{ "10.0.0.1:8080", NULL, NULL, HOST, false },
	{ "[fe80::1]", NULL, NULL, HOST, false },
	{ "[::1", NULL, NULL, HOST, false },
	{ "::1", NULL, NULL, HOST, false },
	{ "localhost:0", NULL, NULL, HOST, false },
	{ "localhost:99999", NULL, NULL, HOST, false },
	{ "localhost:80x", NULL, NULL, HOST, false },
	{ "user@localhost", NULL, NULL, HOST, false },
	{ "localhost/x", NULL, NULL, HOST, false },
	{ "", NULL, NULL, HOST, false },
	/* our own pages */
	{ "127.0.0.1:8080", "http://127.0.0.1:8080", "same-origin", OK, false },
	{ "localhost:8080", "http://LOCALHOST:8080", NULL, OK, false },
	{ "localhost", "http://localhost", NULL, OK, false },
	{ "[::1]:8080", "http://[::1]:8080", "none", OK, false },
	/* others' */
	{ "127.0.0.1:8080", "https://evil.example", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "null", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "http://127.0.0.1:3000", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "http://localhost:8080", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "http://localhost.evil.example:8080", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "http://127.0.0.1:8080", "cross-site", ORIGIN, false },
	{ "127.0.0.1:8080", NULL, "cross-site", ORIGIN, false },
	{ "127.0.0.1:8080", NULL, "Same-Site", ORIGIN, false },
	{ "127.0.0.1:8080", NULL, "none", OK, false },
	/* the configured one */
	{ "127.0.0.1:8080", "https://Console.Example", "cross-site", OK, true },
	{ "127.0.0.1:8080", "https://console.example:443", NULL, OK, true },
	{ "127.0.0.1:8080", "http://console.example", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "https://console.example:444", NULL, ORIGIN, false },
	{ "127.0.0.1:8080", "https://console.example.evil.example", NULL, ORIGIN, false },
};

static void run_cases(const struct http_auth *a, const struct page_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct http_page page = { cases[i].host, cases[i].origin, cases[i].site };
		bool cors;

		if (http_auth_page(a, &page, &cors) != cases[i].want || cors != cases[i].cors)
			fail_msg("case %zu: host %s origin %s site %s", i, page.host, page.origin,
				 page.sec_fetch_site);
	}
}

static void test_pages_while_bound_to_loopback(void **state)
{
	const char *const origins[] = { "https://console.example" };
	struct http_auth *a = make(&(struct http_server_options){
		.host = "127.0.0.1", .allowed_origins = origins, .n_allowed_origins = 1 });

	(void)state;
	run_cases(a, loopback_cases, ARRAY_LEN(loopback_cases));
	http_auth_free(a);
}

/* A name can be made to point at us (DNS rebinding): only addresses are trusted to be ours. */
static void test_pages_while_bound_elsewhere(void **state)
{
	static const struct page_case cases[] = {
		{ "files.example:8080", NULL, NULL, OK, false },
		{ "10.0.0.5:8080", "http://10.0.0.5:8080", NULL, OK, false },
		{ "evil.example:8080", "http://evil.example:8080", NULL, ORIGIN, false },
	};
	struct http_auth *a = make(&(struct http_server_options){ .host = "0.0.0.0" });

	(void)state;
	run_cases(a, cases, ARRAY_LEN(cases));
	http_auth_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_keys_only_allowed_loopback_uids_are_let_in),
		cmocka_unit_test(test_everybody_only_when_the_operator_says_so),
		cmocka_unit_test(test_with_keys_everybody_needs_one),
		cmocka_unit_test(test_unusable_settings_are_refused),
		cmocka_unit_test(test_pages_while_bound_to_loopback),
		cmocka_unit_test(test_pages_while_bound_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
