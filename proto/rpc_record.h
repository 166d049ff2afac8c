/* SPDX-License-Identifier: MIT */
/*
 * Record marking on a TCP stream (RFC 5531 section 11): a record is one or more fragments, each
 * behind a 4-byte header with the "last" bit and 31 bits of length.
 *
 * Almost every record is one fragment and lies whole in what one recv(2) brought: rpc_record_next()
 * then gives a pointer into the caller's bytes, and nothing is copied.  Only a record that is cut
 * by the end of the bytes, or is made of several fragments, is gathered in memory of the reader's
 * own, sized by the record.  Pure: no sockets, no logging.
 */
#ifndef PROTO_RPC_RECORD_H
#define PROTO_RPC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes: wtmax 1 MiB and its headers, with room; bounds the memory one peer can make us hold */
#define RPC_RECORD_MAX           ((1u << 20) + 8192)
#define RPC_RECORD_FRAGMENTS_MAX 1024 /* fragments of one record: more only costs time */

struct rpc_record {
	uint8_t *buf;    /* owned: what of an unfinished record has arrived; NULL between records */
	size_t len, cap; /* bytes gathered, allocated */
	uint8_t head[4]; /* of a fragment header that was cut */
	unsigned head_len;
	uint32_t frag_left; /* bytes of the current fragment still to come */
	bool frag_last;
	bool in_frag;
	unsigned n_frags; /* of this record so far */
};

enum rpc_record_result {
	RPC_RECORD_NONE = 0, /* all bytes taken, no whole record yet */
	RPC_RECORD_READY = 1,
	RPC_RECORD_BAD = -1, /* too long, or endless fragments: close the connection */
	RPC_RECORD_NOMEM = -2,
};

/**
 * rpc_record_next() - take bytes until one record is whole
 * @used:	bytes of @p taken; call again with the rest
 * @ret, @ret_len: RPC_RECORD_READY only: the record; borrowed: into @p, or into r->buf until the
 *next call on @r (then *ret == r->buf, and rpc_record_steal() may take it over).  An empty record
 *		   is READY too, with length 0.
 */
int rpc_record_next(struct rpc_record *r, const uint8_t *p, size_t n, size_t *used,
		    const uint8_t **ret, size_t *ret_len);

/**
 * rpc_record_want() - where the next bytes of an unfinished record may be received directly
 * @ret_n:	bytes still missing of the current fragment that fit there
 *
 * For recv(2) without a copy: receive up to *@ret_n bytes there, then call rpc_record_filled().
 * Return: NULL when nothing is being gathered (receive into a buffer of your own and use
 * rpc_record_next()).
 */
uint8_t *rpc_record_want(struct rpc_record *r, size_t *ret_n);
/* rpc_record_filled() - @n bytes arrived at rpc_record_want(): READY (record in r->buf), NONE or
 * BAD */
int rpc_record_filled(struct rpc_record *r, size_t n, const uint8_t **ret, size_t *ret_len);

/* rpc_record_steal() - take over the memory of a record that was just returned from r->buf; free()
 * it */
uint8_t *rpc_record_steal(struct rpc_record *r);
bool rpc_record_is_partial(const struct rpc_record *r); /* something of a record has arrived */
void rpc_record_reset(struct rpc_record *r);            /* frees */

static inline void rpc_record_mark(uint8_t dst[4],
				   uint32_t len) /* header of a single last fragment */
{
	len |= 0x80000000u;
	dst[0] = (uint8_t)(len >> 24);
	dst[1] = (uint8_t)(len >> 16);
	dst[2] = (uint8_t)(len >> 8);
	dst[3] = (uint8_t)len;
}

#endif
