/* SPDX-License-Identifier: MIT */
/* Export rules: text, JSON, and who passes. */
#include "workspace/export_rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/jsonx.h"
#include "tests/unit/unit.h"

static struct in6_addr addr(const char *text)
{
	struct in6_addr a;
	char mapped[64];

	if (strchr(text, ':') == NULL) {
		(void)snprintf(mapped, sizeof(mapped), "::ffff:%s", text);
		text = mapped;
	}
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static struct export_rules parse(const char *text)
{
	struct export_rules r;
	struct err err = { 0 };

	if (export_rules_parse(text, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

static void test_a_network_is_written_as_it_is_read(void **state)
{
	static const struct {
		const char *text, *again;
		unsigned prefix;
	} cases[] = {
		{ "*", "*", 0 },
		{ "10.0.0.0/8", "10.0.0.0/8", 104 },
		{ "192.168.1.7", "192.168.1.7", 128 },
		{ "192.168.1.7/32", "192.168.1.7", 128 },
		{ "0.0.0.0/0", "0.0.0.0/0", 96 },
		{ "172.16.0.0/12", "172.16.0.0/12", 108 },
		{ "fd00::/8", "fd00::/8", 8 },
		{ "::1", "::1", 128 },
		{ "2001:DB8::/32", "2001:db8::/32", 32 },
		{ "::/0", "*", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct export_net net;
		char text[EXPORT_NET_TEXT];

		assert_int_equal(export_net_parse(cases[i].text, &net, NULL), 0);
		assert_int_equal(net.prefix, cases[i].prefix);
		assert_false(net.read_only);
		assert_string_equal(export_net_format(text, sizeof(text), &net), cases[i].again);
	}
}

static void test_networks_that_are_mistakes_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"10.0.0.1/8",
		"10.0.0.0/33",
		"10.0.0.0/",
		"10.0.0.0/-1",
		"10.0.0",
		"10.0.0.0/8/8",
		"fd00::1/8",
		"fd00::/129",
		"host.example",
		"10.0.0.0/ 8",
		"**",
		"10.0.0.0/+8",
		"256.0.0.1",
		"[::1]",
		"111111111111111111111111111111111111111111111111111111111111111111111111111111111",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct export_net net;
		struct err err = { 0 };

		assert_int_equal(export_net_parse(bad[i], &net, &err), -EINVAL);
		assert_non_null(strstr(err.msg, "ADDRESS/BITS"));
	}
}

static void test_words_make_rules(void **state)
{
	struct export_rules r = parse("  10.0.0.0/8(ro)\t192.168.1.5(rw) fd00::/8 mode=match\n");

	(void)state;
	assert_int_equal(r.mode, EXPORT_MATCH);
	assert_false(r.read_only);
	assert_int_equal(r.n_nets, 3);
	assert_true(r.nets[0].read_only);
	assert_false(r.nets[1].read_only);
	assert_false(r.nets[2].read_only);
	r = parse("");
	assert_int_equal(r.mode, EXPORT_SQUASH);
	assert_int_equal(r.n_nets, 0);
	assert_true(parse("ro *").read_only);
	assert_int_equal(parse("mode=match mode=squash").mode, EXPORT_SQUASH);
}

static void test_words_that_mean_nothing_are_named(void **state)
{
	static const struct {
		const char *text, *named;
	} bad[] = {
		{ "10.0.0.0/8(rx)", "(rx)" }, { "10.0.0.0/8(ro", "(ro" },
		{ "mode=root", "root" },      { "10.0.0.0/8,10.1.0.0/16", "10.0.0.0/8,10.1" },
		{ "* insecure", "insecure" }, { "(ro)", "network ''" },
	};
	char many[EXPORT_NETS_MAX * 16 + 32] = "";
	struct export_rules r = { .n_nets = 99 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };

		assert_int_equal(export_rules_parse(bad[i].text, &r, &err), -EINVAL);
		assert_non_null(strstr(err.msg, bad[i].named));
	}
	for (int i = 0; i < EXPORT_NETS_MAX; i++)
		(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "10.0.0.%d ", i);
	assert_int_equal(parse(many).n_nets, EXPORT_NETS_MAX);
	strcat(many, "10.9.9.9");
	assert_int_equal(export_rules_parse(many, &r, NULL), -EINVAL);
	assert_int_equal(r.n_nets, 99); /* an error leaves the result as it was */
}

static void test_the_longest_network_decides(void **state)
{
	static const struct {
		const char *rules, *from;
		bool passes, read_only;
	} cases[] = {
		{ "", "127.0.0.1", true, false },
		{ "", "127.3.2.1", true, false },
		{ "", "::1", true, false },
		{ "", "10.0.0.1", false, false },
		{ "ro", "127.0.0.1", true, true },
		{ "10.0.0.0/8", "10.255.0.1", true, false },
		{ "10.0.0.0/8", "11.0.0.1", false, false },
		{ "10.0.0.0/8", "127.0.0.1", false, false },
		{ "10.0.0.0/8(ro) 10.1.0.0/16(rw)", "10.1.2.3", true, false },
		{ "10.0.0.0/8(ro) 10.1.0.0/16(rw)", "10.2.2.3", true, true },
		{ "10.1.0.0/16(rw) 10.0.0.0/8(ro)", "10.1.2.3", true, false },
		{ "10.0.0.0/8(rw) 10.1.2.3(ro)", "10.1.2.3", true, true },
		{ "10.0.0.0/8(rw) 10.0.0.0/8(ro)", "10.1.2.3", true, true },
		{ "10.0.0.0/8(ro) 10.0.0.0/8(rw)", "10.1.2.3", true, true },
		{ "ro 10.0.0.0/8(rw)", "10.1.2.3", true, true },
		{ "172.16.0.0/12", "172.31.255.255", true, false },
		{ "172.16.0.0/12", "172.32.0.0", false, false },
		{ "fd00::/8", "fd12::1", true, false },
		{ "fd00::/8", "fe80::1", false, false },
		{ "*", "8.8.8.8", true, false },
		{ "*", "2001:db8::1", true, false },
		{ "*(ro) 8.8.8.8(rw)", "8.8.8.8", true, false },
		{ "0.0.0.0/0", "2001:db8::1", false, false },
		{ "0.0.0.0/0", "8.8.8.8", true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct export_rules r = parse(cases[i].rules);
		struct in6_addr a = addr(cases[i].from);
		bool read_only = !cases[i].read_only;

		if (export_rules_match(&r, &a, &read_only) != cases[i].passes)
			fail_msg("'%s' from %s", cases[i].rules, cases[i].from);
		if (cases[i].passes && read_only != cases[i].read_only)
			fail_msg("'%s' from %s: read only", cases[i].rules, cases[i].from);
	}
}

static int from_json(const char *text, struct export_rules *r, struct err *err)
{
	auto_json json_t *o = NULL;

	assert_int_equal(jsonx_parse_object(text, strlen(text), &o, NULL), 0);
	return export_rules_from_json(o, r, err);
}

static void test_json_gives_back_what_it_was_made_of(void **state)
{
	struct export_rules r = parse("10.0.0.0/8(ro) fd00::/8 * mode=match ro");
	struct export_rules again;
	auto_json json_t *o = export_rules_to_json(&r);

	(void)state;
	assert_int_equal(export_rules_from_json(o, &again, NULL), 0);
	assert_int_equal(again.mode, r.mode);
	assert_int_equal(again.read_only, r.read_only);
	assert_int_equal(again.n_nets, r.n_nets);
	for (unsigned i = 0; i < r.n_nets; i++) {
		assert_memory_equal(&again.nets[i].addr, &r.nets[i].addr, sizeof(struct in6_addr));
		assert_int_equal(again.nets[i].prefix, r.nets[i].prefix);
		assert_int_equal(again.nets[i].read_only, r.nets[i].read_only);
	}
}

static void test_json_may_leave_out_and_shorten(void **state)
{
	struct export_rules r;

	(void)state;
	assert_int_equal(from_json("{}", &r, NULL), 0);
	assert_int_equal(r.mode, EXPORT_SQUASH);
	assert_int_equal(r.n_nets, 0);
	assert_int_equal(from_json("{\"clients\":[\"10.0.0.0/8\",{\"network\":\"*\","
				   "\"read_only\":true}]}",
				   &r, NULL),
			 0);
	assert_int_equal(r.n_nets, 2);
	assert_false(r.nets[0].read_only);
	assert_true(r.nets[1].read_only);
}

static void test_json_that_is_wrong_is_refused(void **state)
{
	static const char *const bad[] = {
		"{\"mode\":\"none\"}",
		"{\"mode\":1}",
		"{\"read_only\":\"yes\"}",
		"{\"clients\":\"10.0.0.0/8\"}",
		"{\"clients\":[7]}",
		"{\"clients\":[{}]}",
		"{\"clients\":[{\"network\":\"10.0.0.1/8\"}]}",
		"{\"clients\":[{\"network\":\"*\",\"read_only\":1}]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct export_rules r;
		struct err err = { 0 };

		if (from_json(bad[i], &r, &err) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
		assert_true(err.msg[0] != '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_network_is_written_as_it_is_read),
		cmocka_unit_test(test_networks_that_are_mistakes_are_refused),
		cmocka_unit_test(test_words_make_rules),
		cmocka_unit_test(test_words_that_mean_nothing_are_named),
		cmocka_unit_test(test_the_longest_network_decides),
		cmocka_unit_test(test_json_gives_back_what_it_was_made_of),
		cmocka_unit_test(test_json_may_leave_out_and_shorten),
		cmocka_unit_test(test_json_that_is_wrong_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
