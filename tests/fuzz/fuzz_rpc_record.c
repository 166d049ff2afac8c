/* SPDX-License-Identifier: MIT */
/*
 * The same stream is read twice: whole, and cut as the input's first bytes say, in part received in
 * place. Both must give the same records, and end in the same way; memory must stay within the
 * limit.
 *
 * Input: the number of cuts n, n bytes that each are the length of the next piece, then the stream.
 */
#include <string.h>

#include "fuzz.h"
#include "proto/rpc_record.h"

/* What was read: a checksum over the records and their ends, and how it ended. */
struct outcome {
	uint64_t sum;
	size_t n_records;
	int last;
};

static void note(struct outcome *o, const uint8_t *rec, size_t len)
{
	for (size_t i = 0; i < len; i++)
		o->sum = o->sum * 31 + rec[i];
	o->sum = o->sum * 131 + len;
	o->n_records++;
}

/* Bytes of @p until all are taken or the stream is bad.  False when it is bad. */
static bool feed(struct rpc_record *r, const uint8_t *p, size_t n, struct outcome *o)
{
	const uint8_t *rec;
	size_t pos = 0, used, len;

	for (;;) {
		o->last = rpc_record_next(r, p + pos, n - pos, &used, &rec, &len);
		MUST(used <= n - pos);
		MUST(r->len <= r->cap && r->cap <= RPC_RECORD_MAX);
		pos += used;
		if (o->last == RPC_RECORD_READY) {
			MUST(!rpc_record_is_partial(r));
			MUST(rec == r->buf || (rec >= p && rec + len <= p + n));
			note(o, rec, len);
			continue;
		}
		MUST(o->last != RPC_RECORD_NONE || pos == n);
		return o->last == RPC_RECORD_NONE;
	}
}

/* As recv(2) into the reader's own memory would do it.  Return: bytes taken. */
static size_t fill(struct rpc_record *r, const uint8_t *p, size_t n, struct outcome *o)
{
	const uint8_t *rec;
	size_t room = 0, len;
	uint8_t *dst = rpc_record_want(r, &room);

	if (dst == NULL || n == 0)
		return 0;
	if (n > room)
		n = room;
	memcpy(dst, p, n);
	o->last = rpc_record_filled(r, n, &rec, &len);
	if (o->last == RPC_RECORD_READY) {
		note(o, rec, len);
		free(rpc_record_steal(r));
	}
	return n;
}

static void read_cut(const uint8_t *cuts, size_t n_cuts, const uint8_t *p, size_t n,
		     struct outcome *o)
{
	struct rpc_record r = { 0 };
	bool good = true;

	for (size_t i = 0; i < n_cuts && good; i++) {
		size_t piece = cuts[i] < n ? cuts[i] : n;
		size_t in_place = cuts[i] % 2 ? fill(&r, p, piece, o) : 0;

		good = feed(&r, p + in_place, piece - in_place, o);
		p += piece;
		n -= piece;
	}
	if (good)
		(void)feed(&r, p, n, o);
	rpc_record_reset(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpc_record whole = { 0 };
	struct outcome a = { 0 }, b = { 0 };
	size_t n_cuts;

	if (size < 1 || data[0] > size - 1)
		return 0;
	n_cuts = data[0];
	(void)feed(&whole, data + 1 + n_cuts, size - 1 - n_cuts, &a);
	rpc_record_reset(&whole);
	read_cut(data + 1, n_cuts, data + 1 + n_cuts, size - 1 - n_cuts, &b);
	MUST(a.sum == b.sum && a.n_records == b.n_records && a.last == b.last);
	return 0;
}
