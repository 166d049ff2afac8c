/* SPDX-License-Identifier: MIT */
/*
 * Intrusive chained hash table.  The caller hashes (with a keyed hash where clients choose the
 * keys) and compares; the map links nodes and grows.  No locking of its own.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_node {
	struct map_node *next;
	uint64_t hash;
};

struct map {
	struct map_node **buckets; /* owned */
	size_t n_buckets;          /* a power of two, 0 while empty */
	size_t n_nodes;
};

int map_init(struct map *m, size_t n_buckets_hint); /* 0 or -ENOMEM; the hint may be 0 */
void map_fini(struct map *m);                       /* asserts that the map is empty */

/* map_insert() - link @n (borrowed until map_remove) under @hash.  0 or -ENOMEM. */
int map_insert(struct map *m, struct map_node *n, uint64_t hash);
void map_remove(struct map *m, struct map_node *n);

/* First node with this hash, and the next after @n; the caller compares its keys. */
struct map_node *map_first(const struct map *m, uint64_t hash);
struct map_node *map_next(const struct map_node *n);

/* map_each() - call @fn for each node; @fn may remove the node it is given.  Stops when it returns
 * false. */
void map_each(struct map *m, bool (*fn)(struct map_node *n, void *arg), void *arg);

/* Sip-2-4 keyed by a random key of this process: safe for keys that clients choose.  Any thread. */
uint64_t map_hash_bytes(const void *p, size_t n);
uint64_t map_siphash(const uint8_t key[16], const void *data,
		     size_t n);                 /* the same with a given key */
static inline uint64_t map_hash_u64(uint64_t x) /* for keys that clients cannot choose */
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ (x >> 33);
}

#endif
