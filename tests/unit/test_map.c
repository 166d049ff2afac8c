/* SPDX-License-Identifier: MIT */
/* The hash table: nodes are found while it grows and shrinks in use; SipHash matches its paper. */
#include "base/map.h"

#include <sodium.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "unit.h"

struct item {
	struct map_node node;
	unsigned key;
};

#define N_ITEMS 2000
static struct item items[N_ITEMS];

static struct item *find(const struct map *m, unsigned key, uint64_t hash)
{
	for (struct map_node *n = map_first(m, hash); n != NULL; n = map_next(n)) {
		struct item *it = container_of(n, struct item, node);

		if (it->key == key)
			return it;
	}
	return NULL;
}

static void test_every_node_is_found_while_the_table_grows(void **state)
{
	struct map m;

	(void)state;
	assert_int_equal(map_init(&m, 0), 0);
	assert_null(map_first(&m, 1));
	for (unsigned i = 0; i < N_ITEMS; i++) {
		items[i].key = i;
		assert_int_equal(map_insert(&m, &items[i].node, map_hash_u64(i)), 0);
	}
	assert_int_equal(m.n_nodes, N_ITEMS);
	for (unsigned i = 0; i < N_ITEMS; i++)
		assert_ptr_equal(find(&m, i, map_hash_u64(i)), &items[i]);
	assert_null(find(&m, N_ITEMS, map_hash_u64(N_ITEMS)));
	for (unsigned i = 0; i < N_ITEMS; i += 2)
		map_remove(&m, &items[i].node);
	for (unsigned i = 0; i < N_ITEMS; i++)
		assert_ptr_equal(find(&m, i, map_hash_u64(i)), i % 2 ? &items[i] : NULL);
	for (unsigned i = 1; i < N_ITEMS; i += 2)
		map_remove(&m, &items[i].node);
	map_fini(&m);
}

static void test_nodes_of_one_hash_are_all_walked(void **state)
{
	struct map m;
	bool seen[40] = { false };

	(void)state;
	assert_int_equal(map_init(&m, 100), 0);
	for (unsigned i = 0; i < 40; i++) {
		items[i].key = i;
		/* The same bucket, two hashes. */
		assert_int_equal(map_insert(&m, &items[i].node, i % 2 ? 5 : 5 + (1ull << 40)), 0);
	}
	for (struct map_node *n = map_first(&m, 5); n != NULL; n = map_next(n))
		seen[container_of(n, struct item, node)->key] = true;
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(seen[i], i % 2);
	for (unsigned i = 0; i < 40; i++)
		map_remove(&m, &items[i].node);
	map_fini(&m);
}

struct walk {
	struct map *m;
	unsigned n, stop_at;
};

static bool remove_it(struct map_node *n, void *arg)
{
	struct walk *w = arg;

	map_remove(w->m, n);
	return ++w->n < w->stop_at;
}

static void test_each_may_remove_what_it_is_given_and_can_stop(void **state)
{
	struct map m;
	struct walk w = { .m = &m, .stop_at = 10 };

	(void)state;
	assert_int_equal(map_init(&m, 4), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(map_insert(&m, &items[i].node, map_hash_u64(i) & 7), 0);
	map_each(&m, remove_it, &w);
	assert_int_equal(w.n, 10);
	assert_int_equal(m.n_nodes, 90);
	w.stop_at = 1000;
	map_each(&m, remove_it, &w);
	assert_int_equal(w.n, 100);
	map_fini(&m);
}

static void test_siphash_matches_its_paper_and_another_implementation(void **state)
{
	uint8_t key[16], data[64];

	(void)state;
	for (unsigned i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	assert_true(map_siphash(key, data, 15) == 0xa129ca6149be45e5ULL); /* appendix A */
	for (size_t n = 0; n <= sizeof(data); n++) {
		uint8_t theirs[crypto_shorthash_BYTES];
		uint64_t ours = htole64(map_siphash(key, data, n));

		assert_int_equal(crypto_shorthash(theirs, data, n, key), 0);
		assert_memory_equal(&ours, theirs, sizeof(theirs));
	}
}

static void test_hash_bytes_is_steady_within_the_process(void **state)
{
	(void)state;
	assert_true(map_hash_bytes("abc", 3) == map_hash_bytes("abc", 3));
	assert_true(map_hash_bytes("abc", 3) != map_hash_bytes("abd", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_node_is_found_while_the_table_grows),
		cmocka_unit_test(test_nodes_of_one_hash_are_all_walked),
		cmocka_unit_test(test_each_may_remove_what_it_is_given_and_can_stop),
		cmocka_unit_test(test_siphash_matches_its_paper_and_another_implementation),
		cmocka_unit_test(test_hash_bytes_is_steady_within_the_process),
	};

	return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
