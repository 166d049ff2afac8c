/* SPDX-License-Identifier: MIT */
/*
 * Written by hand rather than with libtirpc's xdr_callmsg(): that allocates for the credential,
 * wants an XDR stream for what are a dozen words at fixed places, and this runs once for every
 * call.
 *
 * Call (RFC 5531 section 9, all words big-endian):
 *   xid, CALL = 0, rpcvers = 2, prog, vers, proc, cred flavor, cred length, cred body,
 *   verf flavor, verf length, verf body, arguments
 */
#include "proto/rpc_header.h"

#include <assert.h>
#include <string.h>

#include "proto/wire.h"

enum { MSG_CALL = 0, MSG_REPLY = 1 };
enum { MSG_ACCEPTED = 0, MSG_DENIED = 1 };
enum { REJECT_RPC_MISMATCH = 0, REJECT_AUTH_ERROR = 1 };
enum { STAT_BADCRED = 1, STAT_BADVERF = 3, STAT_TOOWEAK = 5 }; /* auth_stat */

#define RPC_VERSION    2u
#define CALL_FIXED_LEN 32 /* bytes: xid to the length of the credential */
#define VERF_FIXED_LEN 8
#define ANSWERABLE_LEN 12 /* bytes: xid, direction and rpcvers, enough to answer RPC_MISMATCH */
#define SYS_FIXED_LEN                                                                              \
	20 /* bytes of AUTH_SYS without name and groups: stamp to number of groups                 \
	    */

/* The body of an AUTH_SYS credential: stamp, machine name, uid, gid, further groups; nothing behind
 * it. */
static bool parse_sys(const uint8_t *p, size_t n, struct rpc_cred *c)
{
	size_t name_len, n_gids;

	if (n < SYS_FIXED_LEN)
		return false;
	name_len = wire_get32(p + 4);
	if (name_len > RPC_SYS_NAME || wire_padded(name_len) > n - SYS_FIXED_LEN)
		return false;
	p += 8 + wire_padded(name_len);
	n -= SYS_FIXED_LEN + wire_padded(name_len);
	c->uid = wire_get32(p);
	c->gid = wire_get32(p + 4);
	n_gids = wire_get32(p + 8);
	if (n_gids > RPC_SYS_GIDS || n != 4 * n_gids)
		return false;
	p += 12;
	for (size_t i = 0; i < n_gids; i++)
		c->gids[i] = wire_get32(p + 4 * i);
	c->n_gids = (uint32_t)n_gids;
	return true;
}

static enum rpc_parse parse_cred(const uint8_t *p, size_t n, struct rpc_cred *c)
{
	switch (c->flavor) {
	case RPC_AUTH_NONE:
		return RPC_CALL_OK; /* the body is nobody's business, though it should be empty */
	case RPC_AUTH_SYS:
		return parse_sys(p, n, c) ? RPC_CALL_OK : RPC_REJECT_CRED;
	default:
		return RPC_REJECT_FLAVOR;
	}
}

enum rpc_parse rpc_parse_call(const uint8_t *p, size_t n, struct rpc_call_header *ret)
{
	size_t cred_len, verf_len;
	const uint8_t *cred;

	if (n < ANSWERABLE_LEN || wire_get32(p + 4) != MSG_CALL)
		return RPC_IGNORE;
	ret->xid = wire_get32(p);
	ret->cred.n_gids = 0;
	if (wire_get32(p + 8) != RPC_VERSION)
		return RPC_REJECT_VERS;
	if (n < CALL_FIXED_LEN)
		return RPC_IGNORE;
	ret->prog = wire_get32(p + 12);
	ret->vers = wire_get32(p + 16);
	ret->proc = wire_get32(p + 20);
	ret->cred.flavor = wire_get32(p + 24);
	ret->cred.uid = 0;
	ret->cred.gid = 0;

	cred_len = wire_get32(p + 28);
	cred = p + CALL_FIXED_LEN;
	n -= CALL_FIXED_LEN;
	if (cred_len > RPC_CRED_MAX || wire_padded(cred_len) > n)
		return RPC_REJECT_CRED;
	p = cred + wire_padded(cred_len);
	n -= wire_padded(cred_len);

	if (n < VERF_FIXED_LEN)
		return RPC_REJECT_VERF;
	verf_len = wire_get32(p + 4);
	n -= VERF_FIXED_LEN;
	if (verf_len > RPC_CRED_MAX || wire_padded(verf_len) > n)
		return RPC_REJECT_VERF;
	ret->args = p + VERF_FIXED_LEN + wire_padded(verf_len);
	ret->args_len = n - wire_padded(verf_len);
	return parse_cred(cred, cred_len, &ret->cred);
}

static size_t put_words(uint8_t *dst, const uint32_t *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		dst = wire_put32(dst, w[i]);
	return 4 * n;
}

size_t rpc_reply_accepted(uint8_t *dst, uint32_t xid, enum rpc_accept stat, uint32_t low,
			  uint32_t high)
{
	const uint32_t words[] = { xid, MSG_REPLY,      MSG_ACCEPTED, RPC_AUTH_NONE,
				   0,   (uint32_t)stat, low,          high };
	/* Only PROG_MISMATCH has the two versions behind it. */
	return put_words(dst, words, stat == RPC_PROG_MISMATCH ? 8 : 6);
}

size_t rpc_reply_rejected(uint8_t *dst, uint32_t xid, enum rpc_parse why)
{
	const uint32_t mismatch[] = { xid,         MSG_REPLY,  MSG_DENIED, REJECT_RPC_MISMATCH,
				      RPC_VERSION, RPC_VERSION };
	uint32_t auth[] = { xid, MSG_REPLY, MSG_DENIED, REJECT_AUTH_ERROR, 0 };

	switch (why) {
	case RPC_REJECT_VERS:
		return put_words(dst, mismatch, 6);
	case RPC_REJECT_CRED:
		auth[4] = STAT_BADCRED;
		break;
	case RPC_REJECT_VERF:
		auth[4] = STAT_BADVERF;
		break;
	case RPC_REJECT_FLAVOR:
		auth[4] = STAT_TOOWEAK;
		break;
	case RPC_CALL_OK:
	case RPC_IGNORE:
		assert(!"not a rejection");
		break;
	}
	return put_words(dst, auth, 5);
}

/* The body of the credential; 0 bytes for AUTH_NONE. */
static size_t sys_len(const struct rpc_cred *c, size_t name_len)
{
	if (c->flavor != RPC_AUTH_SYS)
		return 0;
	return SYS_FIXED_LEN + wire_padded(name_len) + 4 * (size_t)c->n_gids;
}

static uint8_t *put_sys(uint8_t *p, const struct rpc_cred *c, const char *name, size_t name_len)
{
	p = wire_put32(
		p, 0); /* stamp: any value; ours is fixed, so that a call's bytes are predictable */
	p = wire_put32(p, (uint32_t)name_len);
	p = wire_put_bytes(p, name, name_len);
	p = wire_put32(p, c->uid);
	p = wire_put32(p, c->gid);
	p = wire_put32(p, c->n_gids);
	for (uint32_t i = 0; i < c->n_gids; i++)
		p = wire_put32(p, c->gids[i]);
	return p;
}

size_t rpc_write_call(uint8_t *dst, size_t dst_len, const struct rpc_call_header *h,
		      const char *machine)
{
	size_t name_len = strnlen(machine, RPC_SYS_NAME);
	size_t cred_len = sys_len(&h->cred, name_len);
	uint8_t *p = dst;

	assert(h->cred.n_gids <= RPC_SYS_GIDS);
	if (dst_len < CALL_FIXED_LEN + cred_len + VERF_FIXED_LEN)
		return 0;
	p = wire_put32(p, h->xid);
	p = wire_put32(p, MSG_CALL);
	p = wire_put32(p, RPC_VERSION);
	p = wire_put32(p, h->prog);
	p = wire_put32(p, h->vers);
	p = wire_put32(p, h->proc);
	p = wire_put32(p, h->cred.flavor);
	p = wire_put32(p, (uint32_t)cred_len);
	if (cred_len > 0)
		p = put_sys(p, &h->cred, machine, name_len);
	p = wire_put32(p, RPC_AUTH_NONE);
	p = wire_put32(p, 0);
	return (size_t)(p - dst);
}
