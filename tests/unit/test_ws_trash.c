/* SPDX-License-Identifier: MIT */
/* The trash and changes of names, at the registry: what the steps leave when one of them fails. */
#include <errno.h>

#include "tests/unit/data_dir.h"
#include "workspace/store.h"
#include "workspace/workspace.h"

/* A daemon's worth of state whose broker can be told to fail. */
struct house {
	const struct data_dir *dir;
	struct store *store;
	struct ws_registry *reg;
	int fail_open; /* errno that on_open answers */
};

static int on_open(void *arg, const struct workspace *ws, struct err *err)
{
	const struct house *h = arg;

	(void)ws;
	return h->fail_open != 0 ? err_set(err, -h->fail_open, "told to fail") : 0;
}

static void up(struct house *h, const struct data_dir *dir)
{
	struct ws_registry_options o = { .data_dir = dir->path, .on_open = on_open, .arg = h };

	*h = (struct house){ .dir = dir };
	assert_int_equal(store_open(dir->path, NULL, &h->store, NULL), 0);
	assert_int_equal(ws_registry_open(h->store, &o, &h->reg, NULL), 0);
}

static void down(struct house *h)
{
	ws_registry_close(h->reg);
	store_close(h->store);
}

static void create(struct house *h, char id[WS_ID_LEN + 1])
{
	struct workspace *ws = NULL;

	assert_int_equal(ws_create(h->reg, &(struct ws_create){ .name = "n" }, &ws, NULL), 0);
	memcpy(id, ws->id, sizeof(ws->id));
	workspace_unref(ws);
}

static bool lies_in(const struct house *h, const char *where, const char *id)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "workspaces/%s%s/files", where, id);
	return faccessat(h->dir->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int count(void *arg, const struct workspace *ws, uint64_t trashed_ns)
{
	assert_true(trashed_ns > 0 && ws->root_fd == -1);
	++*(int *)arg;
	return 0;
}

static int n_trashed(struct house *h)
{
	int n = 0;

	assert_int_equal(ws_trash_list(h->reg, count, &n), 0);
	return n;
}

static bool is_found(struct house *h, const char *id)
{
	struct workspace *ws = ws_find(h->reg, id);

	workspace_unref(ws);
	return ws != NULL;
}

static void test_a_way_back_that_fails_leaves_it_in_the_trash(void **state)
{
	char id[WS_ID_LEN + 1];
	struct workspace *ws = NULL;
	struct err err = { 0 };
	struct house h;

	up(&h, *state);
	create(&h, id);
	assert_int_equal(ws_trash(h.reg, id, NULL), 0);
	assert_true(lies_in(&h, ".trash/", id) && !lies_in(&h, "", id) && !is_found(&h, id));
	h.fail_open = EIO;
	assert_int_equal(ws_untrash(h.reg, id, &ws, &err), -EIO);
	assert_non_null(strstr(err.msg, "told to fail"));
	assert_true(lies_in(&h, ".trash/", id) && !lies_in(&h, "", id) && !is_found(&h, id));
	assert_int_equal(n_trashed(&h), 1);
	down(&h);
	up(&h, *state);
	assert_int_equal(n_trashed(&h), 1);
	assert_int_equal(ws_untrash(h.reg, id, &ws, &err), 0);
	assert_true(lies_in(&h, "", id) && is_found(&h, id));
	assert_int_equal(ws_untrash(h.reg, id, &ws, &err), -ENOENT);
	workspace_unref(ws);
	down(&h);
}

static void test_the_oldest_goes_first_and_only_when_it_is_due(void **state)
{
	char first[WS_ID_LEN + 1], second[WS_ID_LEN + 1];
	struct house h;

	up(&h, *state);
	create(&h, first);
	create(&h, second);
	assert_int_equal(ws_trash(h.reg, second, NULL), 0); /* made later, deleted earlier */
	assert_int_equal(ws_trash(h.reg, first, NULL), 0);
	assert_false(ws_trash_is_due(h.reg, 1));
	ws_trash_purge(h.reg, 1);
	assert_int_equal(n_trashed(&h), 2);
	down(&h);
	up(&h, *state); /* rows come in the order of creation */
	assert_true(ws_trash_is_due(h.reg, UINT64_MAX));
	ws_trash_purge(h.reg, UINT64_MAX);
	assert_true(lies_in(&h, ".trash/", first) && !lies_in(&h, ".trash/", second));
	assert_int_equal(ws_delete(h.reg, first, NULL), 0);
	assert_int_equal(n_trashed(&h), 0);
	assert_int_equal(ws_delete(h.reg, first, NULL), -ENOENT);
	assert_false(ws_trash_is_due(h.reg, UINT64_MAX));
	down(&h);
}

/* The row was marked for removal, and the folder is in the trash or on its way back. */
static void test_a_purge_that_a_crash_cut_short_is_finished(void **state)
{
	const struct data_dir *d = *state;
	char a[WS_ID_LEN + 1], b[WS_ID_LEN + 1], path[128], to[128];
	struct house h;

	up(&h, d);
	create(&h, a);
	create(&h, b);
	assert_int_equal(ws_trash(h.reg, a, NULL), 0);
	assert_int_equal(ws_trash(h.reg, b, NULL), 0);
	assert_int_equal(store_ws_set_state(h.store, a, WS_ROW_DELETING, NULL), 0);
	(void)snprintf(path, sizeof(path), "workspaces/.trash/%s", b);
	(void)snprintf(to, sizeof(to), "workspaces/%s", b);
	assert_int_equal(renameat(d->fd, path, d->fd, to), 0);
	down(&h);
	up(&h, d);
	assert_false(lies_in(&h, ".trash/", a) || lies_in(&h, "", a));
	assert_true(lies_in(&h, ".trash/", b) && n_trashed(&h) == 1);
	down(&h);
}

static void test_a_refused_change_changes_nothing(void **state)
{
	char key[] = "k", value[] = "v";
	struct ws_pair pairs[WS_META_PAIRS_MAX + 1] = { { key, value } };
	char names[WS_META_PAIRS_MAX + 1][8];
	struct ws_patch p = { .metadata = pairs, .n_metadata = 1 };
	struct workspace *ws = NULL;
	struct house h;

	up(&h, *state);
	assert_int_equal(ws_create(h.reg, &(struct ws_create){ .name = "n" }, &ws, NULL), 0);
	assert_int_equal(ws_update(h.reg, ws, &p, NULL), 0);
	for (size_t i = 0; i <= WS_META_PAIRS_MAX; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "k%zu", i);
		pairs[i] = (struct ws_pair){ names[i], value };
	}
	p.n_metadata = WS_META_PAIRS_MAX; /* with the one that is there one too many */
	assert_int_equal(ws_update(h.reg, ws, &p, NULL), -EINVAL);
	p.n_metadata = WS_META_PAIRS_MAX + 1;
	assert_int_equal(ws_update(h.reg, ws, &p, NULL), -EINVAL);
	p = (struct ws_patch){ .has_name = true, .name = "bad\n" };
	assert_int_equal(ws_update(h.reg, ws, &p, NULL), -EINVAL);
	assert_int_equal(store_ws_remove(h.store, ws->id, NULL), 0);
	p.name = "good";
	assert_int_equal(ws_update(h.reg, ws, &p, NULL), -ENOENT); /* the row is gone */
	assert_string_equal(ws->name, "n");
	assert_int_equal(ws->n_metadata, 1);
	assert_string_equal(ws->metadata[0].key, "k");
	workspace_unref(ws);
	down(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_DATA_DIR(test_a_way_back_that_fails_leaves_it_in_the_trash),
		TEST_IN_DATA_DIR(test_the_oldest_goes_first_and_only_when_it_is_due),
		TEST_IN_DATA_DIR(test_a_purge_that_a_crash_cut_short_is_finished),
		TEST_IN_DATA_DIR(test_a_refused_change_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
