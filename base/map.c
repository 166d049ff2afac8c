/* SPDX-License-Identifier: MIT */
/*
 * Chains behind a table that doubles when there are as many nodes as buckets.  It never shrinks:
 * its users are caches with a limit, which fill up again.  Growing touches every node once; at
 * 100,000 nodes that is a few milliseconds, so users on a loop give map_init() the hint.
 */
#include "base/map.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

#define MIN_BUCKETS 16u

static struct map_node **bucket_of(const struct map *m, uint64_t hash)
{
	return &m->buckets[hash & (m->n_buckets - 1)];
}

static int set_size(struct map *m, size_t n_buckets)
{
	struct map old = *m;
	struct map_node **p = calloc(n_buckets, sizeof(*p));

	if (p == NULL)
		return -ENOMEM;
	m->buckets = p;
	m->n_buckets = n_buckets;
	for (size_t i = 0; i < old.n_buckets; i++) {
		struct map_node *n = old.buckets[i];

		while (n != NULL) {
			struct map_node *next = n->next;
			struct map_node **b = bucket_of(m, n->hash);

			n->next = *b;
			*b = n;
			n = next;
		}
	}
	free(old.buckets);
	return 0;
}

int map_init(struct map *m, size_t n_buckets_hint)
{
	size_t n = MIN_BUCKETS;

	*m = (struct map){ 0 };
	if (n_buckets_hint == 0)
		return 0;
	while (n < n_buckets_hint) {
		if (n > SIZE_MAX / 2 / sizeof(void *))
			return -ENOMEM;
		n *= 2;
	}
	return set_size(m, n);
}

void map_fini(struct map *m)
{
	assert(m->n_nodes == 0);
	free(m->buckets);
	*m = (struct map){ 0 };
}

int map_insert(struct map *m, struct map_node *n, uint64_t hash)
{
	struct map_node **b;

	if (m->n_nodes >= m->n_buckets) {
		size_t want = m->n_buckets > 0 ? m->n_buckets * 2 : MIN_BUCKETS;

		/* Without memory to grow, longer chains still work; without a table nothing does.
		 */
		if (set_size(m, want) < 0 && m->n_buckets == 0)
			return -ENOMEM;
	}
	b = bucket_of(m, hash);
	n->hash = hash;
	n->next = *b;
	*b = n;
	m->n_nodes++;
	return 0;
}

void map_remove(struct map *m, struct map_node *n)
{
	struct map_node **p;

	assert(m->n_nodes > 0);
	for (p = bucket_of(m, n->hash); *p != n; p = &(*p)->next)
		assert(*p != NULL);
	*p = n->next;
	n->next = NULL;
	m->n_nodes--;
}

static struct map_node *skip_to(struct map_node *n, uint64_t hash)
{
	while (n != NULL && n->hash != hash)
		n = n->next;
	return n;
}

struct map_node *map_first(const struct map *m, uint64_t hash)
{
	return m->n_nodes > 0 ? skip_to(*bucket_of(m, hash), hash) : NULL;
}

struct map_node *map_next(const struct map_node *n)
{
	return skip_to(n->next, n->hash);
}

void map_each(struct map *m, bool (*fn)(struct map_node *n, void *arg), void *arg)
{
	for (size_t i = 0; i < m->n_buckets; i++) {
		struct map_node *n = m->buckets[i];

		while (n != NULL) {
			struct map_node *next = n->next;

			if (!fn(n, arg))
				return;
			n = next;
		}
	}
}

/* ---- SipHash-2-4 (Aumasson and Bernstein, 2012) ------------------------------------------------
 */

static uint64_t load_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint64_t rotl(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] = rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] = rotl(v[2], 32);
	}
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
}

uint64_t map_siphash(const uint8_t key[16], const void *data, size_t n)
{
	const uint8_t *p = data;
	uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575ULL, k1 ^ 0x646f72616e646f6dULL,
			  k0 ^ 0x6c7967656e657261ULL, k1 ^ 0x7465646279746573ULL };
	uint64_t last = (uint64_t)n << 56;
	size_t tail = n % 8;

	for (size_t i = 0; i < n - tail; i += 8)
		sip_word(v, load_le64(p + i));
	for (size_t i = 0; i < tail; i++)
		last |= (uint64_t)p[n - tail + i] << (8 * i);
	sip_word(v, last);
	v[2] ^= 0xff;
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint8_t process_key[16];
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void make_process_key(void)
{
	io_random(process_key, sizeof(process_key));
}

uint64_t map_hash_bytes(const void *p, size_t n)
{
	(void)pthread_once(&process_key_once, make_process_key);
	return map_siphash(process_key, p, n);
}
