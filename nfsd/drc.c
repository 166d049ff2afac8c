/* SPDX-License-Identifier: MIT */
/*
 * The duplicate request cache (RFC 1813 chapter 4.5 asks for one).
 *
 * A client that gets no reply in time repeats the call, with the same xid, often on a new
 * connection.  Running REMOVE or an exclusive CREATE twice would tell it that what worked has
 * failed.  So calls that are not idempotent are looked up here before they run:
 *
 *	new  --drc_begin-->  running  --drc_finish-->  done  --age, or room needed-->  forgotten
 *
 * A repeat of a done call gets the stored reply; a repeat of a running one waits for it.  The key
 * holds a keyed hash of credential and arguments, because xids are only unique within a client's
 * life: another call that happens to use the same xid must never get a stored reply.  That goes for
 * WRITE too, where it would lose data: two writes may differ in their last byte alone.  So of long
 * arguments the head is hashed, and of the rest sums that cost a fraction of copying it.
 *
 * It lives in memory alone.  One mutex: it is held for about 100 ns twice in a call that creates or
 * writes something, which takes at least 50 times as long.
 */
#include "nfsd/drc.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"

/* bytes: more than any arguments but those with long names and data */
#define HASHED_ARGS_MAX 256u
#define MALLOC_OVERHEAD 16u
#define EXPIRE_AT_ONCE  4096u /* entries: bounds how long the mutex is held */

struct drc_entry {
	struct map_node node;
	struct list lru;    /* in drc->done when done */
	struct list parked; /* waiters, while running */
	struct drc_key key;
	uint64_t done_ns;
	uint8_t *reply; /* owned; NULL while running */
	uint32_t reply_len;
	uint32_t n_parked;
};

struct drc {
	pthread_mutex_t mutex;
	struct map map;   /* protected by mutex, as all below */
	struct list done; /* oldest first */
	size_t n_bytes;
	size_t max_entries, max_bytes;                     /* immutable */
	uint8_t key[crypto_shorthash_siphashx24_KEYBYTES]; /* immutable */
};

int drc_new(const struct drc_options *o, struct drc **ret)
{
	struct drc *d;

	if (sodium_init() < 0)
		return -ENOMEM;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	if (map_init(&d->map, 0) < 0) {
		free(d);
		return -ENOMEM;
	}
	pthread_mutex_init(&d->mutex, NULL);
	list_init(&d->done);
	d->max_entries = o->max_entries > 0 ? o->max_entries : DRC_MAX_ENTRIES;
	d->max_bytes = o->max_bytes > 0 ? o->max_bytes : DRC_MAX_BYTES;
	randombytes_buf(d->key, sizeof(d->key));
	*ret = d;
	return 0;
}

static size_t entry_bytes(const struct drc_entry *e)
{
	return sizeof(*e) + MALLOC_OVERHEAD + (e->reply ? e->reply_len + MALLOC_OVERHEAD : 0);
}

static void forget(struct drc *d, struct drc_entry *e)
{
	assert(e->n_parked == 0);
	map_remove(&d->map, &e->node);
	list_del(&e->lru);
	d->n_bytes -= entry_bytes(e);
	free(e->reply);
	free(e);
}

void drc_free(struct drc *d)
{
	if (d == NULL)
		return;
	while (!list_is_empty(&d->done))
		forget(d, list_entry(d->done.next, struct drc_entry, lru));
	map_fini(&d->map);
	pthread_mutex_destroy(&d->mutex);
	free(d);
}

/* Two running sums for each of four columns, so that a processor has several to add at once. */
#define SUM_COLUMNS 4u

struct sums {
	uint64_t plain[SUM_COLUMNS];
	uint64_t placed[SUM_COLUMNS]; /* of the plain ones: tells the order of words too */
};

static void add_row(struct sums *s, const uint8_t row[SUM_COLUMNS * 8])
{
	uint64_t words[SUM_COLUMNS];

	memcpy(words, row, sizeof(words));
#pragma GCC unroll 4
	for (unsigned i = 0; i < SUM_COLUMNS; i++) {
		s->plain[i] += words[i];
		s->placed[i] += s->plain[i];
	}
}

static void sum_bytes(const uint8_t *p, size_t n, struct sums *ret)
{
	uint8_t last[SUM_COLUMNS * 8] = { 0 };
	struct sums s = { 0 };

	for (; n >= sizeof(last); p += sizeof(last), n -= sizeof(last))
		add_row(&s, p);
	if (n > 0)
		memcpy(last, p, n);
	add_row(&s, last);
	*ret = s;
}

void drc_key_of(const struct drc *d, const struct in6_addr *addr, const struct rpc_call_header *h,
		struct drc_key *ret)
{
	struct {
		struct sums rest;
		uint64_t args_len;
		uint32_t flavor, uid, gid, n_gids;
		uint32_t gids[RPC_SYS_GIDS];
		uint8_t args[HASHED_ARGS_MAX];
	} in;
	size_t n = MIN(h->args_len, sizeof(in.args));

	_Static_assert(sizeof(struct drc_key) == 48, "compared as memory");
	memset(&in, 0, offsetof(__typeof__(in), args));
	if (h->args_len > n)
		sum_bytes(h->args + n, h->args_len - n, &in.rest);
	in.args_len = h->args_len;
	in.flavor = h->cred.flavor;
	if (h->cred.flavor == RPC_AUTH_SYS) {
		in.uid = h->cred.uid;
		in.gid = h->cred.gid;
		in.n_gids = h->cred.n_gids;
		memcpy(in.gids, h->cred.gids, h->cred.n_gids * sizeof(in.gids[0]));
	}
	memcpy(in.args, h->args, n);
	*ret = (struct drc_key){
		.addr = *addr,
		.xid = h->xid,
		.prog = h->prog,
		.vers = h->vers,
		.proc = h->proc,
	};
	crypto_shorthash_siphashx24(ret->hash, (const uint8_t *)&in,
				    offsetof(__typeof__(in), args) + n, d->key);
}

static uint64_t map_hash_of(const struct drc_key *key)
{
	uint64_t h;

	memcpy(&h, key->hash, sizeof(h));
	return h ^ map_hash_u64(key->xid);
}

static struct drc_entry *find(struct drc *d, const struct drc_key *key, uint64_t hash)
{
	for (struct map_node *n = map_first(&d->map, hash); n != NULL; n = map_next(n)) {
		struct drc_entry *e = container_of(n, struct drc_entry, node);

		if (memcmp(&e->key, key, sizeof(*key)) == 0)
			return e;
	}
	return NULL;
}

/* A turn's idea of now may lie before the end of a call on another thread. */
static bool is_old(const struct drc_entry *e, uint64_t now_ns)
{
	return e->reply != NULL && now_ns > e->done_ns + DRC_MAX_AGE_NS;
}

/* Makes room for one more entry.  False when all that is here is running. */
static bool make_room(struct drc *d)
{
	while (d->map.n_nodes >= d->max_entries || d->n_bytes > d->max_bytes) {
		if (list_is_empty(&d->done))
			return d->map.n_nodes < d->max_entries;
		forget(d, list_entry(d->done.next, struct drc_entry, lru));
	}
	return true;
}

static struct drc_entry *add(struct drc *d, const struct drc_key *key, uint64_t hash)
{
	struct drc_entry *e;

	if (!make_room(d))
		return NULL;
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return NULL;
	e->key = *key;
	list_init(&e->lru);
	list_init(&e->parked);
	if (map_insert(&d->map, &e->node, hash) < 0) {
		free(e);
		return NULL;
	}
	d->n_bytes += entry_bytes(e);
	return e;
}

/* Of an entry that is here already. */
static enum drc_verdict meet_again(struct drc_entry *e, struct list *waiter, uint8_t **ret_reply,
				   size_t *ret_len)
{
	if (e->reply == NULL) {
		if (e->n_parked >= DRC_MAX_PARKED)
			return DRC_DROP;
		list_add_tail(&e->parked, waiter);
		e->n_parked++;
		return DRC_PARKED;
	}
	*ret_reply = malloc(e->reply_len);
	if (*ret_reply == NULL)
		return DRC_DROP; /* the client will ask again */
	memcpy(*ret_reply, e->reply, e->reply_len);
	*ret_len = e->reply_len;
	return DRC_REPLAY;
}

enum drc_verdict drc_begin(struct drc *d, const struct drc_key *key, uint64_t now_ns,
			   struct list *waiter, struct drc_entry **ret_entry, uint8_t **ret_reply,
			   size_t *ret_len)
{
	uint64_t hash = map_hash_of(key);
	enum drc_verdict v = DRC_RUN;
	struct drc_entry *e;

	pthread_mutex_lock(&d->mutex);
	e = find(d, key, hash);
	if (e != NULL && is_old(e, now_ns)) {
		forget(d, e);
		e = NULL;
	}
	if (e != NULL)
		v = meet_again(e, waiter, ret_reply, ret_len);
	else
		*ret_entry = add(d, key, hash);
	pthread_mutex_unlock(&d->mutex);
	return v;
}

static void take_waiters(struct drc_entry *e, struct list *ret)
{
	while (!list_is_empty(&e->parked)) {
		struct list *w = e->parked.next;

		list_del(w);
		list_add_tail(ret, w);
	}
	e->n_parked = 0;
}

void drc_finish(struct drc *d, struct drc_entry *e, const uint8_t *reply, size_t len,
		uint64_t now_ns, struct list *ret_waiters)
{
	uint8_t *copy = NULL;

	if (e == NULL)
		return;
	if (reply != NULL && len > 0 && len <= UINT32_MAX)
		copy = malloc(len);
	if (copy != NULL)
		memcpy(copy, reply, len);
	pthread_mutex_lock(&d->mutex);
	take_waiters(e, ret_waiters);
	if (copy == NULL) {
		forget(d, e);
	} else {
		e->reply = copy;
		e->reply_len = (uint32_t)len;
		e->done_ns = now_ns;
		d->n_bytes += len + MALLOC_OVERHEAD;
		list_add_tail(&d->done, &e->lru);
		(void)make_room(d);
	}
	pthread_mutex_unlock(&d->mutex);
}

void drc_expire(struct drc *d, uint64_t now_ns)
{
	pthread_mutex_lock(&d->mutex);
	for (unsigned n = 0; n < EXPIRE_AT_ONCE && !list_is_empty(&d->done); n++) {
		struct drc_entry *e = list_entry(d->done.next, struct drc_entry, lru);

		if (!is_old(e, now_ns))
			break;
		forget(d, e);
	}
	pthread_mutex_unlock(&d->mutex);
}

void drc_stats(struct drc *d, struct drc_stats *ret)
{
	pthread_mutex_lock(&d->mutex);
	ret->n_entries = d->map.n_nodes;
	ret->n_bytes = d->n_bytes;
	pthread_mutex_unlock(&d->mutex);
}
