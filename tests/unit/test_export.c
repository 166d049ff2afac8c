/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "nfsd/export.h"

/* rules, peer -> allowed, read-only */
static const struct {
	const char *rules, *addr;
	bool uid_ok;
	bool allowed, read_only;
} cases[] = {
	/* without networks: loopback alone, and there the uid decides */
	{ "", "127.0.0.1", true, true, false },
	{ "", "::1", true, true, false },
	{ "", "127.0.0.1", false, false, false },
	{ "", "10.0.0.1", true, false, false },
	{ "", "10.0.0.1", false, false, false },
	{ "ro", "127.0.0.1", true, true, true },
	/* with networks: one must match, on loopback too */
	{ "10.0.0.0/8", "10.1.2.3", false, true, false },
	{ "10.0.0.0/8", "11.1.2.3", false, false, false },
	{ "10.0.0.0/8", "127.0.0.1", true, false, false },
	{ "10.0.0.0/8 127.0.0.0/8", "127.0.0.1", true, true, false },
	{ "10.0.0.0/8 127.0.0.0/8", "127.0.0.1", false, false, false },
	{ "*", "127.0.0.1", false, false, false },
	{ "*", "192.168.7.7", false, true, false },
	{ "10.0.0.0/8(ro) 10.0.0.5(rw)", "10.0.0.4", false, true, true },
	{ "10.0.0.0/8(ro) 10.0.0.5(rw)", "10.0.0.5", false, true, false },
	{ "ro 10.0.0.0/8(rw)", "10.0.0.5", false, true, true },
	{ "fd00::/8", "fd00::1", false, true, false },
	{ "fd00::/8", "fe80::1", false, false, false },
};

static struct nfs_peer peer_of(const char *addr, bool uid_ok)
{
	struct nfs_peer p = { .local_uid_ok = uid_ok, .has_local_uid = true };
	char mapped[64];

	if (strchr(addr, ':') == NULL) {
		(void)snprintf(mapped, sizeof(mapped), "::ffff:%s", addr);
		addr = mapped;
	}
	assert_int_equal(inet_pton(AF_INET6, addr, &p.addr), 1);
	p.is_loopback = strstr(addr, "127.") != NULL || strcmp(addr, "::1") == 0;
	return p;
}

static void test_who_may_use_an_export(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nfs_peer p = peer_of(cases[i].addr, cases[i].uid_ok);
		struct export_rules rules = { 0 };
		struct workspace ws = { .exports = &rules };
		struct export_verdict v;

		if (cases[i].rules[0] != '\0')
			assert_int_equal(export_rules_parse(cases[i].rules, &rules, NULL), 0);
		export_check(NULL, &ws, &p, &v);
		if (v.allowed != cases[i].allowed ||
		    (v.allowed && v.read_only != cases[i].read_only))
			fail_msg("'%s' for %s: allowed=%d read_only=%d", cases[i].rules,
				 cases[i].addr, v.allowed, v.read_only);
	}
}

static void test_the_mode_is_told(void **state)
{
	struct nfs_peer p = peer_of("127.0.0.1", true);
	struct export_rules rules = { .mode = EXPORT_MATCH };
	struct workspace ws = { .exports = &rules };
	struct export_verdict v;

	export_check(NULL, &ws, &p, &v);
	assert_int_equal(v.mode, EXPORT_MATCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_may_use_an_export),
		cmocka_unit_test(test_the_mode_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
