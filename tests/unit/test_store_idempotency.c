/* SPDX-License-Identifier: MIT */
/* Idempotency keys in the store: taken once, remembered for a day, bounded. */
#include "workspace/store.h"

#include <errno.h>

#include "tests/unit/data_dir.h"

#define HOUR (3600 * 1000000000ull)

static const char id_a[] = "11111111-2222-4333-8444-555555555555";
static const char id_b[] = "11111111-2222-4333-8444-666666666666";

static struct store *must_open(const struct data_dir *d)
{
	struct store *s = NULL;

	assert_int_equal(store_open(d->path, NULL, &s, NULL), 0);
	return s;
}

static int claim(struct store *s, const char *key, uint64_t now_ns, const char *id,
		 struct store_idem *ret)
{
	*ret = (struct store_idem){ .hash = { 7 } };
	memcpy(ret->ws_id, id, sizeof(ret->ws_id));
	return store_idem_claim(s, key, now_ns, ret, NULL);
}

static void test_a_key_is_taken_once_and_gives_its_answer(void **state)
{
	const struct data_dir *d = *state;
	struct store *s = must_open(d);
	struct store_idem i;

	assert_int_equal(claim(s, "k", 100 * HOUR, id_a, &i), 0);
	assert_int_equal(claim(s, "k", 100 * HOUR, id_b, &i), 1);
	assert_string_equal(i.ws_id, id_a);
	assert_null(i.answer);
	assert_int_equal(store_idem_answer(s, "k", "{\"x\":1}", NULL), 0);
	store_close(s);
	s = must_open(d);
	assert_int_equal(claim(s, "k", 101 * HOUR, id_b, &i), 1);
	assert_string_equal(i.answer, "{\"x\":1}");
	assert_int_equal(i.hash[0], 7);
	free(i.answer);
	assert_int_equal(store_idem_forget(s, "k", NULL), 0);
	assert_int_equal(claim(s, "k", 101 * HOUR, id_b, &i), 0);
	store_close(s);
}

static void test_a_key_is_forgotten_after_a_day(void **state)
{
	struct store *s = must_open(*state);
	struct store_idem i;

	assert_int_equal(claim(s, "k", 100 * HOUR, id_a, &i), 0);
	assert_int_equal(claim(s, "k", 124 * HOUR, id_b, &i), 1);
	assert_int_equal(claim(s, "k", 124 * HOUR + 1, id_b, &i), 0);
	store_close(s);
}

/* Filled behind the store's back, since ten thousand transactions take their time. */
static void test_the_oldest_make_room(void **state)
{
	const struct data_dir *d = *state;
	struct store *s = must_open(d);
	struct store_idem i;

	store_close(s);
	data_dir_sql(
		d, "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 10000)"
		   " INSERT INTO idempotency SELECT 'k' || x, zeroblob(32),"
		   " '11111111-2222-4333-8444-555555555555', NULL, 360000000000000 + x FROM n");
	s = must_open(d);
	assert_int_equal(claim(s, "new", 101 * HOUR, id_b, &i), 0);
	assert_int_equal(claim(s, "k2", 101 * HOUR, id_b, &i), 1);
	assert_int_equal(claim(s, "new", 101 * HOUR, id_b, &i), 1);
	assert_int_equal(claim(s, "k1", 101 * HOUR, id_b, &i), 0);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_DATA_DIR(test_a_key_is_taken_once_and_gives_its_answer),
		TEST_IN_DATA_DIR(test_a_key_is_forgotten_after_a_day),
		TEST_IN_DATA_DIR(test_the_oldest_make_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
