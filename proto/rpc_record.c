/* SPDX-License-Identifier: MIT */
/*
 * The reader of record marks is a small state machine: between records, inside a fragment header
 * that was cut, inside a fragment, and "done" while the caller looks at a record that was gathered
 * here.  A record that lies whole in the given bytes never touches the state at all.
 *
 * A fragment's memory is asked for when its header arrives.  The peer pays for it by sending:
 * memory that malloc(3) has just got from the kernel is not resident before something is written to
 * it.
 */
#include "proto/rpc_record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"

#define LAST_FRAGMENT 0x80000000u
#define MARK_LEN      4

/* The last record was gathered and given to the caller, who has now come back. */
static bool is_done(const struct rpc_record *r)
{
	return r->frag_last && !r->in_frag;
}

static bool is_between_records(const struct rpc_record *r)
{
	return r->n_frags == 0 && r->head_len == 0;
}

/* Doubling, so that many small fragments do not make us copy the same bytes again and again. */
static bool reserve(struct rpc_record *r, size_t more)
{
	size_t need = r->len + more;
	size_t cap = 2 * r->cap;
	uint8_t *p;

	if (need <= r->cap)
		return true;
	if (cap > RPC_RECORD_MAX)
		cap = RPC_RECORD_MAX;
	if (cap < need)
		cap = need;
	p = realloc(r->buf, cap);
	if (p == NULL)
		return false;
	r->buf = p;
	r->cap = cap;
	return true;
}

/* Changes nothing unless it succeeds: asked again, it gives the same answer. */
static int begin_fragment(struct rpc_record *r, uint32_t mark)
{
	uint32_t len = mark & ~LAST_FRAGMENT;

	if (r->n_frags >= RPC_RECORD_FRAGMENTS_MAX || len > RPC_RECORD_MAX - r->len)
		return RPC_RECORD_BAD;
	if (!reserve(r, len))
		return RPC_RECORD_NOMEM;
	r->n_frags++;
	r->frag_left = len;
	r->frag_last = (mark & LAST_FRAGMENT) != 0;
	r->in_frag = true;
	r->head_len = 0;
	return RPC_RECORD_NONE;
}

static int advance(struct rpc_record *r, size_t n, const uint8_t **ret, size_t *ret_len)
{
	r->len += n;
	r->frag_left -= (uint32_t)n;
	if (r->frag_left > 0)
		return RPC_RECORD_NONE;
	r->in_frag = false;
	if (!r->frag_last)
		return RPC_RECORD_NONE;
	*ret = r->buf;
	*ret_len = r->len;
	return RPC_RECORD_READY;
}

/* The slow way: bytes of @p to r->buf, fragment by fragment, until a record is whole. */
static int gather(struct rpc_record *r, const uint8_t *p, size_t n, size_t *used,
		  const uint8_t **ret, size_t *ret_len)
{
	const uint8_t *start = p, *end = p + n;
	int rc = RPC_RECORD_NONE;

	while (rc == RPC_RECORD_NONE) {
		size_t take;

		if (!r->in_frag) {
			while (r->head_len < MARK_LEN && p < end)
				r->head[r->head_len++] = *p++;
			if (r->head_len < MARK_LEN)
				break;
			rc = begin_fragment(r, wire_get32(r->head));
			if (rc < 0)
				break;
		}
		take = (size_t)(end - p);
		if (take > r->frag_left)
			take = r->frag_left;
		if (take > 0)
			memcpy(r->buf + r->len, p, take);
		p += take;
		rc = advance(r, take, ret, ret_len);
		if (p == end && r->in_frag)
			break;
	}
	*used = (size_t)(p - start);
	return rc;
}

int rpc_record_next(struct rpc_record *r, const uint8_t *p, size_t n, size_t *used,
		    const uint8_t **ret, size_t *ret_len)
{
	if (is_done(r))
		rpc_record_reset(r);
	if (n >= MARK_LEN && is_between_records(r)) {
		uint32_t mark = wire_get32(p);
		uint32_t len = mark & ~LAST_FRAGMENT;

		if ((mark & LAST_FRAGMENT) != 0 && len <= n - MARK_LEN && len <= RPC_RECORD_MAX) {
			*used = MARK_LEN + len;
			*ret = p + MARK_LEN;
			*ret_len = len;
			return RPC_RECORD_READY;
		}
	}
	return gather(r, p, n, used, ret, ret_len);
}

uint8_t *rpc_record_want(struct rpc_record *r, size_t *ret_n)
{
	if (!r->in_frag)
		return NULL;
	*ret_n = r->frag_left;
	return r->buf + r->len;
}

int rpc_record_filled(struct rpc_record *r, size_t n, const uint8_t **ret, size_t *ret_len)
{
	assert(r->in_frag && n <= r->frag_left);
	return advance(r, n, ret, ret_len);
}

uint8_t *rpc_record_steal(struct rpc_record *r)
{
	uint8_t *p = r->buf;

	assert(is_done(r));
	r->buf = NULL;
	rpc_record_reset(r);
	return p;
}

bool rpc_record_is_partial(const struct rpc_record *r)
{
	return !is_done(r) && !is_between_records(r);
}

void rpc_record_reset(struct rpc_record *r)
{
	free(r->buf);
	*r = (struct rpc_record){ 0 };
}
