/* SPDX-License-Identifier: MIT */
/*
 * See http_limit.h.  A bucket for each client, filled as time goes by and looked at only when it
 * asks. Clients that have nothing running are kept in the order of their last request, and the
 * eldest goes when the table is full: it has most probably a full bucket, which is what a new entry
 * starts with.
 */
#include "http/http_limit.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"

#define CLIENTS_MAX 4096 /* entries with nothing running; some 400 KiB */

struct http_client {
	struct map_node node;
	struct list idle; /* linked while n_active is 0 */
	struct in6_addr key;
	uint64_t full_ns; /* CLOCK_MONOTONIC: when its bucket will be full again */
	unsigned n_active;
};

struct http_limit {
	unsigned rate, active;
	struct map clients;
	struct list idle;
};

int http_limit_new(unsigned rate, unsigned active, struct http_limit **ret)
{
	struct http_limit *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return -ENOMEM;
	l->rate = rate;
	l->active = active;
	list_init(&l->idle);
	*ret = l;
	return 0;
}

static void forget(struct http_limit *l, struct http_client *c)
{
	list_del(&c->idle);
	map_remove(&l->clients, &c->node);
	free(c);
}

void http_limit_free(struct http_limit *l)
{
	if (l == NULL)
		return;
	while (!list_is_empty(&l->idle))
		forget(l, list_entry(l->idle.next, struct http_client, idle));
	map_fini(&l->clients);
	free(l);
}

static struct in6_addr key_of(const struct http_peer *peer)
{
	struct in6_addr key = peer->addr;

	if (!IN6_IS_ADDR_V4MAPPED(&key) && !peer->is_unix)
		memset(&key.s6_addr[8], 0, 8);
	return key;
}

static struct http_client *find(struct http_limit *l, const struct in6_addr *key, uint64_t hash)
{
	struct map_node *n = map_first(&l->clients, hash);

	for (; n != NULL; n = map_next(n)) {
		struct http_client *c = container_of(n, struct http_client, node);

		if (memcmp(&c->key, key, sizeof(*key)) == 0)
			return c;
	}
	return NULL;
}

static struct http_client *find_or_add(struct http_limit *l, const struct in6_addr *key)
{
	uint64_t hash = map_hash_bytes(key, sizeof(*key));
	struct http_client *c = find(l, key, hash);

	if (c != NULL)
		return c;
	if (l->clients.n_nodes >= CLIENTS_MAX && !list_is_empty(&l->idle))
		forget(l, list_entry(l->idle.next, struct http_client, idle));
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	c->key = *key;
	list_init(&c->idle);
	if (map_insert(&l->clients, &c->node, hash) < 0) {
		free(c);
		return NULL;
	}
	list_add_tail(&l->idle, &c->idle);
	return c;
}

/* take_turn() - does the bucket hold one for this request? */
static bool take_turn(const struct http_limit *l, struct http_client *c, uint64_t now_ns)
{
	uint64_t cost, full;

	if (l->rate == 0)
		return true;
	cost = NSEC_PER_SEC / l->rate;
	full = (c->full_ns > now_ns ? c->full_ns : now_ns) + cost;
	if (full - now_ns > NSEC_PER_SEC)
		return false;
	c->full_ns = full;
	return true;
}

bool http_limit_begin(struct http_limit *l, const struct http_peer *peer, uint64_t now_ns,
		      struct http_client **ret_client)
{
	struct in6_addr key = key_of(peer);
	struct http_client *c;

	*ret_client = NULL;
	if (l->rate == 0 && l->active == 0)
		return true;
	c = find_or_add(l, &key);
	if (c == NULL) /* out of memory: this is not the moment for more */
		return false;
	if ((l->active != 0 && c->n_active >= l->active) || !take_turn(l, c, now_ns))
		return false;
	list_del(&c->idle);
	c->n_active++;
	*ret_client = c;
	return true;
}

void http_limit_end(struct http_limit *l, struct http_client *c)
{
	if (c == NULL)
		return;
	assert(c->n_active > 0);
	if (--c->n_active == 0)
		list_add_tail(&l->idle, &c->idle);
}
