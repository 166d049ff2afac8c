/* SPDX-License-Identifier: MIT */
/* Call and reply headers, held against libtirpc's idea of them and against what RFC 5531 refuses.
 */
#include "proto/rpc_header.h"

#include <rpc/rpc.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/wire.h"
#include "unit.h"

static const struct rpc_call_header sample = {
	.xid = 0x01020304,
	.prog = RPC_PROG_NFS,
	.vers = 3,
	.proc = 6,
	.cred = { .flavor = RPC_AUTH_SYS,
		  .uid = 1000,
		  .gid = 100,
		  .n_gids = 3,
		  .gids = { 7, 8, 9 } },
};

/* Offsets in a call with an AUTH_SYS credential for a machine of 4 letters and 3 groups. */
enum {
	AT_DIR = 4,
	AT_VERS = 8,
	AT_FLAVOR = 24,
	AT_CRED_LEN = 28,
	AT_NAME_LEN = 36,
	AT_N_GIDS = 52
};
enum { AT_VERF_LEN = 72, CALL_LEN = 76 };

static size_t sample_call(uint8_t *dst, size_t room)
{
	size_t n = rpc_write_call(dst, room, &sample, "mach");

	assert_int_equal(n, CALL_LEN);
	return n;
}

static void expect_sample(const struct rpc_call_header *h)
{
	assert_int_equal(h->xid, sample.xid);
	assert_int_equal(h->prog, sample.prog);
	assert_int_equal(h->vers, sample.vers);
	assert_int_equal(h->proc, sample.proc);
	assert_int_equal(h->cred.flavor, RPC_AUTH_SYS);
	assert_int_equal(h->cred.uid, 1000);
	assert_int_equal(h->cred.gid, 100);
	assert_int_equal(h->cred.n_gids, 3);
	assert_memory_equal(h->cred.gids, sample.cred.gids, 3 * sizeof(uint32_t));
}

static void test_written_call_is_read_back_with_its_arguments(void **state)
{
	uint8_t bytes[256];
	struct rpc_call_header h;
	size_t n = sample_call(bytes, sizeof(bytes));

	(void)state;
	memcpy(bytes + n, "args", 4);
	assert_int_equal(rpc_parse_call(bytes, n + 4, &h), RPC_CALL_OK);
	expect_sample(&h);
	assert_ptr_equal(h.args, bytes + n);
	assert_int_equal(h.args_len, 4);
}

/* The call as libtirpc writes it: @cred and @verf are the opaque bodies. */
static size_t tirpc_call(char *dst, size_t room, uint32_t flavor, char *cred, u_int cred_len,
			 char *verf, u_int verf_len)
{
	struct rpc_msg msg = { .rm_xid = sample.xid, .rm_direction = CALL };
	XDR x;
	size_t n;

	msg.rm_call.cb_rpcvers = 2;
	msg.rm_call.cb_prog = sample.prog;
	msg.rm_call.cb_vers = sample.vers;
	msg.rm_call.cb_proc = sample.proc;
	msg.rm_call.cb_cred = (struct opaque_auth){ (enum_t)flavor, cred, cred_len };
	msg.rm_call.cb_verf = (struct opaque_auth){ AUTH_NONE, verf, verf_len };
	xdrmem_create(&x, dst, (u_int)room, XDR_ENCODE);
	assert_true(xdr_callmsg(&x, &msg));
	n = xdr_getpos(&x);
	xdr_destroy(&x);
	return n;
}

static size_t tirpc_cred(char *dst, size_t room, const char *machine, u_int n_gids)
{
	gid_t gids[16] = { 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22 };
	struct authunix_parms a = { .aup_machname = (char *)(uintptr_t)machine,
				    .aup_uid = 1000,
				    .aup_gid = 100,
				    .aup_len = n_gids,
				    .aup_gids = gids };
	XDR x;
	size_t n;

	xdrmem_create(&x, dst, (u_int)room, XDR_ENCODE);
	assert_true(xdr_authunix_parms(&x, &a));
	n = xdr_getpos(&x);
	xdr_destroy(&x);
	return n;
}

static void test_our_call_is_byte_for_byte_that_of_libtirpc(void **state)
{
	char cred[400], theirs[600];
	uint8_t ours[600];
	size_t cred_len = tirpc_cred(cred, sizeof(cred), "mach", 3);
	size_t n;

	(void)state;
	n = tirpc_call(theirs, sizeof(theirs), AUTH_SYS, cred, (u_int)cred_len, NULL, 0);
	assert_int_equal(sample_call(ours, sizeof(ours)), n);
	assert_memory_equal(ours, theirs, n);
}

static void test_calls_of_libtirpc_are_read_for_every_name_and_group_count(void **state)
{
	char machine[256] = "", cred[600], bytes[1200], verf[] = "abcdefgh";

	(void)state;
	for (u_int i = 0; i <= 255; i++) {
		u_int n_gids = i % 17;
		size_t cred_len, n;
		struct rpc_call_header h;

		memset(machine, 'm', i);
		cred_len = tirpc_cred(cred, sizeof(cred), machine, n_gids);
		n = tirpc_call(bytes, sizeof(bytes), AUTH_SYS, cred, (u_int)cred_len, verf, i % 9);
		assert_int_equal(rpc_parse_call((uint8_t *)bytes, n, &h), RPC_CALL_OK);
		assert_int_equal(h.cred.uid, 1000);
		assert_int_equal(h.cred.n_gids, n_gids);
		for (u_int g = 0; g < n_gids; g++)
			assert_int_equal(h.cred.gids[g], 7 + g);
		assert_int_equal(h.args_len, 0);
	}
}

static void test_auth_none_carries_no_identity(void **state)
{
	struct rpc_call_header none = sample, h;
	uint8_t bytes[64];

	(void)state;
	none.cred.flavor = RPC_AUTH_NONE;
	assert_int_equal(rpc_write_call(bytes, sizeof(bytes), &none, "mach"), 40);
	assert_int_equal(rpc_parse_call(bytes, 40, &h), RPC_CALL_OK);
	assert_int_equal(h.cred.flavor, RPC_AUTH_NONE);
	assert_int_equal(h.cred.n_gids, 0);
	assert_int_equal(h.args_len, 0);
}

static void test_every_cut_call_is_refused_or_ignored(void **state)
{
	uint8_t bytes[256];
	size_t n = sample_call(bytes, sizeof(bytes));

	(void)state;
	for (size_t cut = 0; cut < n; cut++) {
		uint8_t *copy = malloc(cut > 0 ? cut : 1); /* so that a read beyond it is seen */
		struct rpc_call_header h;
		enum rpc_parse rc;

		assert_non_null(copy);
		memcpy(copy, bytes, cut);
		rc = rpc_parse_call(copy, cut, &h);
		if (cut < 32)
			assert_int_equal(rc, RPC_IGNORE);
		else if (cut < AT_VERF_LEN - 4)
			assert_int_equal(rc, RPC_REJECT_CRED);
		else
			assert_int_equal(rc, RPC_REJECT_VERF);
		free(copy);
	}
}

static void test_each_wrong_word_has_its_answer(void **state)
{
	static const struct {
		size_t at;
		uint32_t word;
		enum rpc_parse want;
	} cases[] = {
		{ AT_DIR, 1, RPC_IGNORE }, /* a reply */
		{ AT_DIR, 0xffffffff, RPC_IGNORE },
		{ AT_VERS, 1, RPC_REJECT_VERS },
		{ AT_VERS, 3, RPC_REJECT_VERS },
		{ AT_FLAVOR, 6, RPC_REJECT_FLAVOR }, /* RPCSEC_GSS */
		{ AT_FLAVOR, 7, RPC_REJECT_FLAVOR }, /* AUTH_TLS */
		{ AT_CRED_LEN, 401, RPC_REJECT_CRED },
		{ AT_CRED_LEN, 0xffffffff, RPC_REJECT_CRED },
		{ AT_CRED_LEN, 16, RPC_REJECT_CRED }, /* cut inside the credential */
		{ AT_NAME_LEN, 256, RPC_REJECT_CRED },
		{ AT_NAME_LEN, 5, RPC_REJECT_CRED },
		{ AT_NAME_LEN, 0, RPC_REJECT_CRED },
		{ AT_NAME_LEN, 0xffffffff, RPC_REJECT_CRED },
		{ AT_NAME_LEN, 0xfffffffd, RPC_REJECT_CRED },
		{ AT_N_GIDS, 2, RPC_REJECT_CRED }, /* something is left over */
		{ AT_N_GIDS, 4, RPC_REJECT_CRED },
		{ AT_N_GIDS, 17, RPC_REJECT_CRED },
		{ AT_N_GIDS, 0x40000003, RPC_REJECT_CRED }, /* times four wraps to 3 */
		{ AT_VERF_LEN, 4, RPC_REJECT_VERF },
		{ AT_VERF_LEN, 0xffffffff, RPC_REJECT_VERF },
		{ AT_VERF_LEN, 0, RPC_CALL_OK },
	};
	uint8_t bytes[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rpc_call_header h = { 0 };
		size_t n = sample_call(bytes, sizeof(bytes));

		(void)wire_put32(bytes + cases[i].at, cases[i].word);
		assert_int_equal(rpc_parse_call(bytes, n, &h), cases[i].want);
		if (cases[i].want != RPC_IGNORE)
			assert_int_equal(h.xid, sample.xid);
	}
}

static void test_wrong_version_is_told_even_when_nothing_else_came(void **state)
{
	static const uint8_t bytes[] = { 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 9 };
	struct rpc_call_header h;

	(void)state;
	assert_int_equal(rpc_parse_call(bytes, sizeof(bytes), &h), RPC_REJECT_VERS);
	assert_int_equal(h.xid, 0x01020304);
}

/* libtirpc's reading of a reply of ours. */
static void read_reply(uint8_t *bytes, size_t n, struct rpc_msg *msg)
{
	XDR x;

	*msg = (struct rpc_msg){ 0 };
	msg->acpted_rply.ar_results.proc = (xdrproc_t)(void (*)(void))xdr_void;
	xdrmem_create(&x, (char *)bytes, (u_int)n, XDR_DECODE);
	assert_true(xdr_replymsg(&x, msg));
	assert_int_equal(xdr_getpos(&x), n);
	xdr_destroy(&x);
	assert_int_equal(msg->rm_xid, 0x0a0b0c0d);
	assert_int_equal(msg->rm_direction, REPLY);
}

static void test_accepted_replies_are_understood_by_libtirpc(void **state)
{
	static const enum rpc_accept stats[] = { RPC_ACCEPT_OK,     RPC_PROG_UNAVAIL,
						 RPC_PROG_MISMATCH, RPC_PROC_UNAVAIL,
						 RPC_GARBAGE_ARGS,  RPC_SYSTEM_ERR };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(stats); i++) {
		uint8_t bytes[RPC_REPLY_MAX];
		size_t n = rpc_reply_accepted(bytes, 0x0a0b0c0d, stats[i], 3, 4);
		struct rpc_msg msg;

		read_reply(bytes, n, &msg);
		assert_int_equal(n, RPC_REPLY_HEADER_LEN + (stats[i] == RPC_PROG_MISMATCH ? 8 : 0));
		assert_int_equal(msg.rm_reply.rp_stat, MSG_ACCEPTED);
		assert_int_equal(msg.acpted_rply.ar_stat, stats[i]);
		if (stats[i] == RPC_PROG_MISMATCH) {
			assert_int_equal(msg.acpted_rply.ar_vers.low, 3);
			assert_int_equal(msg.acpted_rply.ar_vers.high, 4);
		}
	}
}

static void test_rejections_are_understood_by_libtirpc(void **state)
{
	static const struct {
		enum rpc_parse why;
		enum reject_stat stat;
		enum auth_stat auth;
	} cases[] = {
		{ RPC_REJECT_VERS, RPC_MISMATCH, AUTH_OK },
		{ RPC_REJECT_CRED, AUTH_ERROR, AUTH_BADCRED },
		{ RPC_REJECT_VERF, AUTH_ERROR, AUTH_BADVERF },
		{ RPC_REJECT_FLAVOR, AUTH_ERROR, AUTH_TOOWEAK },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t bytes[RPC_REPLY_MAX];
		struct rpc_msg msg;

		read_reply(bytes, rpc_reply_rejected(bytes, 0x0a0b0c0d, cases[i].why), &msg);
		assert_int_equal(msg.rm_reply.rp_stat, MSG_DENIED);
		assert_int_equal(msg.rjcted_rply.rj_stat, cases[i].stat);
		if (cases[i].stat == AUTH_ERROR) {
			assert_int_equal(msg.rjcted_rply.rj_why, cases[i].auth);
		} else {
			assert_int_equal(msg.rjcted_rply.rj_vers.low, 2);
			assert_int_equal(msg.rjcted_rply.rj_vers.high, 2);
		}
	}
}

static void test_call_is_not_written_where_it_does_not_fit(void **state)
{
	uint8_t bytes[CALL_LEN];

	(void)state;
	for (size_t room = 0; room < CALL_LEN; room++)
		assert_int_equal(rpc_write_call(bytes, room, &sample, "mach"), 0);
	assert_int_equal(rpc_write_call(bytes, CALL_LEN, &sample, "mach"), CALL_LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_call_is_read_back_with_its_arguments),
		cmocka_unit_test(test_our_call_is_byte_for_byte_that_of_libtirpc),
		cmocka_unit_test(test_calls_of_libtirpc_are_read_for_every_name_and_group_count),
		cmocka_unit_test(test_auth_none_carries_no_identity),
		cmocka_unit_test(test_every_cut_call_is_refused_or_ignored),
		cmocka_unit_test(test_each_wrong_word_has_its_answer),
		cmocka_unit_test(test_wrong_version_is_told_even_when_nothing_else_came),
		cmocka_unit_test(test_accepted_replies_are_understood_by_libtirpc),
		cmocka_unit_test(test_rejections_are_understood_by_libtirpc),
		cmocka_unit_test(test_call_is_not_written_where_it_does_not_fit),
	};

	return cmocka_run_group_tests_name("rpc_header", tests, NULL, NULL);
}
