/* SPDX-License-Identifier: MIT */
/* Limits on one client: rate, concurrency, who counts as one, and a table that stays small. */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/clock.h"
#include "http/http_limit.h"

static struct http_peer peer_at(const char *text)
{
	struct http_peer p = { 0 };

	assert_int_equal(inet_pton(AF_INET6, text, &p.addr), 1);
	return p;
}

static void test_a_second_s_worth_at_once_and_no_more(void **state)
{
	const struct http_peer p = peer_at("::ffff:10.0.0.1");
	uint64_t now = 5 * NSEC_PER_SEC;
	struct http_client *c;
	struct http_limit *l;

	(void)state;
	assert_int_equal(http_limit_new(10, 0, &l), 0);
	for (int i = 0; i < 10; i++) {
		assert_true(http_limit_begin(l, &p, now, &c));
		http_limit_end(l, c);
	}
	assert_false(http_limit_begin(l, &p, now, &c));
	assert_null(c);
	assert_false(http_limit_begin(l, &p, now + NSEC_PER_SEC / 10 - 1, &c));
	now += NSEC_PER_SEC / 10;
	assert_true(http_limit_begin(l, &p, now, &c));
	http_limit_end(l, c);
	assert_false(http_limit_begin(l, &p, now, &c));
	http_limit_free(l);
}

static void test_what_runs_is_counted_until_it_ends(void **state)
{
	const struct http_peer p = peer_at("::ffff:10.0.0.1"), q = peer_at("::ffff:10.0.0.2");
	struct http_client *c[3];
	struct http_limit *l;

	(void)state;
	assert_int_equal(http_limit_new(0, 2, &l), 0);
	assert_true(http_limit_begin(l, &p, 1, &c[0]));
	assert_true(http_limit_begin(l, &p, 1, &c[1]));
	assert_false(http_limit_begin(l, &p, 1, &c[2]));
	assert_true(http_limit_begin(l, &q, 1, &c[2])); /* another client */
	http_limit_end(l, c[2]);
	http_limit_end(l, c[0]);
	assert_true(http_limit_begin(l, &p, 1, &c[0]));
	http_limit_end(l, c[0]);
	http_limit_end(l, c[1]);
	http_limit_free(l);
}

static void test_one_machine_s_network_is_one_client(void **state)
{
	const struct http_peer p = peer_at("2001:db8::1"), q = peer_at("2001:db8::2:3"),
			       other = peer_at("2001:db8:0:1::1");
	struct http_client *c[2];
	struct http_limit *l;

	(void)state;
	assert_int_equal(http_limit_new(0, 1, &l), 0);
	assert_true(http_limit_begin(l, &p, 1, &c[0]));
	assert_false(http_limit_begin(l, &q, 1, &c[1]));
	assert_true(http_limit_begin(l, &other, 1, &c[1]));
	http_limit_end(l, c[0]);
	http_limit_end(l, c[1]);
	http_limit_free(l);
}

static void test_no_limit_counts_nobody(void **state)
{
	const struct http_peer p = peer_at("::1");
	struct http_client *c;
	struct http_limit *l;

	(void)state;
	assert_int_equal(http_limit_new(0, 0, &l), 0);
	for (int i = 0; i < 1000; i++) {
		assert_true(http_limit_begin(l, &p, 1, &c));
		assert_null(c);
	}
	http_limit_free(l);
}

static void test_many_clients_leave_no_more_than_a_table_of_them(void **state)
{
	struct http_peer p = peer_at("::ffff:10.0.0.0");
	struct http_client *c, *held;
	struct http_limit *l;

	(void)state;
	assert_int_equal(http_limit_new(1, 1, &l), 0);
	assert_true(http_limit_begin(l, &p, NSEC_PER_SEC, &held));
	for (uint32_t i = 1; i < 100000; i++) {
		uint32_t addr = htonl(0x0a000000 + i);

		memcpy(&p.addr.s6_addr[12], &addr, sizeof(addr));
		assert_true(http_limit_begin(l, &p, NSEC_PER_SEC, &c));
		http_limit_end(l, c);
	}
	p = peer_at("::ffff:10.0.0.0");
	assert_false(http_limit_begin(l, &p, 9 * NSEC_PER_SEC, &c)); /* still held */
	http_limit_end(l, held);
	http_limit_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_second_s_worth_at_once_and_no_more),
		cmocka_unit_test(test_what_runs_is_counted_until_it_ends),
		cmocka_unit_test(test_one_machine_s_network_is_one_client),
		cmocka_unit_test(test_no_limit_counts_nobody),
		cmocka_unit_test(test_many_clients_leave_no_more_than_a_table_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
