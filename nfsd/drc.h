/* SPDX-License-Identifier: MIT */
/* The duplicate request cache: see drc.c.  Any thread. */
#ifndef NFSD_DRC_H
#define NFSD_DRC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/rpc_header.h"

#define DRC_MAX_ENTRIES 65536u
#define DRC_MAX_BYTES   (16u << 20)
#define DRC_MAX_AGE_NS  (300ull * 1000000000ull) /* no client repeats a call after five minutes */
#define DRC_MAX_PARKED  4u /* repeats of one running call that wait for its reply */

struct drc;
struct drc_entry;

/* Compared as memory: no padding. */
struct drc_key {
	struct in6_addr addr; /* without the port: a repeat may come on a new connection */
	uint32_t xid, prog, vers, proc;
	uint8_t hash[16]; /* of credential and arguments, by a key of this process */
};

struct drc_options {
	size_t max_entries; /* 0: DRC_MAX_ENTRIES */
	size_t max_bytes;   /* of replies and entries; 0: DRC_MAX_BYTES */
};

int drc_new(const struct drc_options *o, struct drc **ret); /* 0 or -ENOMEM */
void drc_free(struct drc *d);                               /* no call may be running */

void drc_key_of(const struct drc *d, const struct in6_addr *addr, const struct rpc_call_header *h,
		struct drc_key *ret);

enum drc_verdict {
	DRC_RUN,    /* new: run it, then drc_finish(*ret_entry); a NULL entry means it is not
		       remembered */
	DRC_REPLAY, /* done before: *ret_reply is a copy of its reply, owned by the caller */
	DRC_PARKED, /* running: @waiter is linked and comes back from drc_finish() of the first */
	DRC_DROP,   /* running, and enough wait already: do not answer */
};

/**
 * drc_begin() - is this call new?
 * @waiter:	linked on DRC_PARKED; belongs to whoever finishes the first call from then on
 * @now_ns:	CLOCK_MONOTONIC
 */
enum drc_verdict drc_begin(struct drc *d, const struct drc_key *key, uint64_t now_ns,
			   struct list *waiter, struct drc_entry **ret_entry, uint8_t **ret_reply,
			   size_t *ret_len);

/**
 * drc_finish() - the call is done
 * @e:		from drc_begin(), given up here; may be NULL
 * @reply:	copied; NULL: there is nothing to remember, a repeat is run again
 * @ret_waiters:	an initialised empty list; the parked repeats, now the caller's to answer
 */
void drc_finish(struct drc *d, struct drc_entry *e, const uint8_t *reply, size_t len,
		uint64_t now_ns, struct list *ret_waiters);

void drc_expire(struct drc *d, uint64_t now_ns); /* forget what is too old; for a timer */

struct drc_stats {
	size_t n_entries, n_bytes;
};
void drc_stats(struct drc *d, struct drc_stats *ret);

#endif
