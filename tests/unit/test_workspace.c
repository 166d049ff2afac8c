/* SPDX-License-Identifier: MIT */
/* Workspaces: created, found, deleted, and what a start makes of what a crash left. */
#include "workspace/workspace.h"

#include <errno.h>
#include <pthread.h>

#include "workspace/store.h"
#include "tests/unit/data_dir.h"

struct told {
	int opened, gone; /* atomic */
	int fail_open;    /* errno that on_open answers */
};

static int on_open(void *arg, const struct workspace *ws, struct err *err)
{
	struct told *told = arg;

	assert_true(ws->root_fd >= 0);
	if (told->fail_open != 0)
		return err_set(err, -told->fail_open, "told to fail");
	(void)__atomic_fetch_add(&told->opened, 1, __ATOMIC_RELAXED);
	return 0;
}

static void on_gone(void *arg, const struct workspace *ws)
{
	(void)ws;
	(void)__atomic_fetch_add(&((struct told *)arg)->gone, 1, __ATOMIC_RELAXED);
}

/* A daemon's worth of state; up() and down() are its start and stop. */
struct house {
	const struct data_dir *dir;
	struct store *store;
	struct ws_registry *reg;
	struct told told;
};

static void up(struct house *h, const struct data_dir *dir)
{
	struct ws_registry_options o = {
		.data_dir = dir->path,
		.owner_uid = 1000,
		.owner_gid = 1001,
		.default_exports = { .read_only = true },
		.on_open = on_open,
		.on_gone = on_gone,
		.arg = &h->told,
	};
	struct err err = { 0 };

	h->dir = dir;
	h->told = (struct told){ 0 };
	if (store_open(dir->path, NULL, &h->store, &err) < 0 ||
	    ws_registry_open(h->store, &o, &h->reg, &err) < 0)
		fail_msg("%s", err.msg);
}

static void down(struct house *h)
{
	ws_registry_close(h->reg);
	store_close(h->store);
}

static struct workspace *create(struct house *h, const char *name)
{
	struct ws_create c = { .name = name };
	struct workspace *ws = NULL;
	struct err err = { 0 };

	if (ws_create(h->reg, &c, &ws, &err) < 0)
		fail_msg("%s", err.msg);
	return ws;
}

static bool exists(const struct house *h, const char *id, const char *below)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "workspaces/%s%s", id, below);
	return faccessat(h->dir->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static mode_t mode_of(const struct house *h, const char *id, const char *below)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "workspaces/%s%s", id, below);
	assert_int_equal(fstatat(h->dir->fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static void put_file(const struct house *h, const char *id, const char *below)
{
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "workspaces/%s%s", id, below);
	fd = openat(h->dir->fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
}

static int count_row(void *arg, const struct ws_row *row)
{
	(void)row;
	++*(int *)arg;
	return 0;
}

static int n_rows(struct house *h)
{
	int n = 0;

	assert_int_equal(store_ws_each(h->store, count_row, &n, NULL), 0);
	return n;
}

static size_t n_listed(struct house *h)
{
	struct workspace **list;
	size_t n;

	assert_int_equal(ws_list(h->reg, &list, &n), 0);
	ws_list_free(list, n);
	return n;
}

/* ---- create, find, list, delete ----------------------------------------- */

static void test_a_new_workspace_is_complete(void **state)
{
	struct house h;
	struct workspace *ws, *found;
	struct stat st;
	mode_t old = umask(0077);

	up(&h, *state);
	ws = create(&h, "Größe");
	(void)umask(old);
	assert_int_equal(mode_of(&h, ws->id, ""), 0700);
	assert_int_equal(mode_of(&h, ws->id, "/files"), 0755);
	assert_int_equal(mode_of(&h, ws->id, "/staging"), 0700);
	assert_int_equal(mode_of(&h, ws->id, "/logs"), 0700);
	assert_int_equal(fstat(ws->root_fd, &st), 0);
	assert_int_equal(ws->root_ino, st.st_ino);
	assert_int_equal(fcntl(ws->root_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(ws->id[14], '4');
	assert_true(ws->key != 0 && ws->fsid > 1 && ws->root_mnt_id != 0);
	assert_int_equal(ws->owner_uid, 1000);
	assert_int_equal(ws->owner_gid, 1001);
	assert_true(ws->created_ns > 0 && ws->created_ns == ws->updated_ns);
	assert_string_equal(ws->name, "Größe");
	assert_int_equal(h.told.opened, 1);
	found = ws_find(h.reg, ws->id);
	assert_ptr_equal(found, ws);
	workspace_unref(found);
	found = ws_find_key(h.reg, ws->key);
	assert_ptr_equal(found, ws);
	workspace_unref(found);
	workspace_unref(ws);
	down(&h);
}

static void test_text_that_is_no_known_id_finds_nothing(void **state)
{
	static const char *const no_ids[] = {
		"",
		"x",
		"../../../etc",
		"------------------------------------",
		"11111111-1111-4111-8111-111111111111",
		"111111111111-4111-8111-111111111111----",
		"11111111-1111-1111-1111-111111111111",
	};
	struct house h;
	struct workspace *ws;
	char id[WS_ID_LEN + 2];

	up(&h, *state);
	for (size_t i = 0; i < ARRAY_LEN(no_ids); i++)
		assert_null(ws_find(h.reg, no_ids[i]));
	ws = create(&h, NULL);
	for (int i = 0; i < WS_ID_LEN; i++) {
		memcpy(id, ws->id, sizeof(ws->id));
		id[i] = id[i] == 'f' ? 'e' : 'f';
		assert_null(ws_find(h.reg, id));
		id[i] = 'A';
		assert_null(ws_find(h.reg, id));
	}
	(void)snprintf(id, sizeof(id), "%s0", ws->id);
	assert_null(ws_find(h.reg, id));
	assert_null(ws_find_key(h.reg, ws->key ^ 1));
	workspace_unref(ws);
	down(&h);
}

static void test_everything_is_there_after_a_restart(void **state)
{
	struct ws_pair meta[] = { { (char *)"a", (char *)"1\n\t" }, { (char *)"ü", (char *)"" } };
	struct ws_create c = { .name = "n", .metadata = meta, .n_metadata = 2 };
	struct workspace *ws = NULL, *again;
	struct workspace before;
	struct house h;

	up(&h, *state);
	assert_int_equal(ws_create(h.reg, &c, &ws, NULL), 0);
	put_file(&h, ws->id, "/files/kept");
	before = *ws;
	workspace_unref(ws);
	down(&h);
	up(&h, *state);
	assert_int_equal(h.told.opened, 1);
	again = ws_find(h.reg, before.id);
	assert_non_null(again);
	assert_int_equal(again->key, before.key);
	assert_int_equal(again->fsid, before.fsid);
	assert_int_equal(again->root_ino, before.root_ino);
	assert_int_equal(again->seq, before.seq);
	assert_int_equal(again->created_ns, before.created_ns);
	assert_int_equal(again->owner_gid, 1001);
	assert_string_equal(again->name, "n");
	assert_int_equal(again->n_metadata, 2);
	assert_string_equal(again->metadata[0].key, "a");
	assert_string_equal(again->metadata[0].value, "1\n\t");
	assert_string_equal(again->metadata[1].key, "ü");
	assert_true(exists(&h, before.id, "/files/kept"));
	workspace_unref(again);
	down(&h);
}

static void test_lists_are_newest_first_and_the_generation_grows(void **state)
{
	struct workspace *ws[3], **list;
	struct house h;
	uint64_t gen, last;
	size_t n;

	up(&h, *state);
	last = ws_list_generation(h.reg);
	for (int i = 0; i < 3; i++) {
		ws[i] = create(&h, NULL);
		gen = ws_list_generation(h.reg);
		assert_true(gen > last);
		last = gen;
	}
	assert_int_equal(ws_list(h.reg, &list, &n), 0);
	assert_int_equal(n, 3);
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(list[i], ws[2 - i]);
	ws_list_free(list, n);
	assert_int_equal(ws_delete(h.reg, ws[1]->id, NULL), 0);
	assert_true(ws_list_generation(h.reg) > last);
	last = ws_list_generation(h.reg);
	for (int i = 0; i < 3; i++)
		workspace_unref(ws[i]);
	down(&h);
	up(&h, *state);
	assert_true(ws_list_generation(h.reg) > last);
	down(&h);
}

static void test_deleting_removes_all_but_what_is_in_use_lives_on(void **state)
{
	struct workspace *ws;
	struct house h;
	struct stat st;
	char id[WS_ID_LEN + 1];

	up(&h, *state);
	ws = create(&h, NULL);
	memcpy(id, ws->id, sizeof(id));
	put_file(&h, id, "/files/x");
	assert_int_equal(ws_delete(h.reg, id, NULL), 0);
	assert_int_equal(h.told.gone, 1);
	assert_true(ws->is_gone);
	assert_false(exists(&h, id, ""));
	assert_int_equal(n_rows(&h), 0);
	assert_null(ws_find(h.reg, id));
	assert_int_equal(ws_delete(h.reg, id, NULL), -ENOENT);
	assert_int_equal(fstat(ws->root_fd, &st), 0); /* ours until the last reference */
	workspace_unref(ws);
	down(&h);
}

static int see_deleting(void *arg, const struct ws_row *row)
{
	(void)arg;
	return row->state == WS_ROW_DELETING ? 1 : 0;
}

struct witness {
	struct house *h;
	bool was_marked, had_folder;
};

static void witness_gone(void *arg, const struct workspace *ws)
{
	struct witness *w = arg;

	w->was_marked = store_ws_each(w->h->store, see_deleting, NULL, NULL) == 1;
	w->had_folder = exists(w->h, ws->id, "/files");
}

static void test_a_deletion_is_in_the_store_before_anything_goes(void **state)
{
	const struct data_dir *d = *state;
	struct house h = { .dir = d };
	struct witness w = { .h = &h };
	struct ws_registry_options o = { .data_dir = d->path, .on_gone = witness_gone, .arg = &w };
	struct workspace *ws;

	assert_int_equal(store_open(d->path, NULL, &h.store, NULL), 0);
	assert_int_equal(ws_registry_open(h.store, &o, &h.reg, NULL), 0);
	ws = create(&h, NULL);
	assert_int_equal(ws_delete(h.reg, ws->id, NULL), 0);
	assert_true(w.was_marked);
	assert_true(w.had_folder);
	workspace_unref(ws);
	down(&h);
}

static void test_names_and_metadata_have_limits_that_are_told(void **state)
{
	static char a256[257], a129[130], a4097[4098];
	struct ws_pair many[WS_META_PAIRS_MAX + 1];
	char keys[WS_META_PAIRS_MAX + 1][8];
	struct ws_pair long_key = { a129, (char *)"v" }, long_value = { (char *)"k", a4097 };
	struct ws_pair bad_value = { (char *)"k", (char *)"\xed\xa0\x80" };
	struct ws_pair bad_key = { (char *)"a\nb", (char *)"v" };
	struct ws_pair twice[] = { { (char *)"k", (char *)"1" }, { (char *)"k", (char *)"2" } };
	const struct {
		struct ws_create c;
		const char *field, *limit;
	} cases[] = {
		{ { .name = a256 }, "'name'", "255" },
		{ { .name = "a\nb" }, "'name'", "control" },
		{ { .name = "\x7f" }, "'name'", "control" },
		{ { .name = "\xc2\x85" }, "'name'", "control" },
		{ { .name = "\xff" }, "'name'", "UTF-8" },
		{ { .name = "\xc0\xaf" }, "'name'", "UTF-8" },
		{ { .name = "\xe2\x82" }, "'name'", "UTF-8" },
		{ { .name = "\xf4\x90\x80\x80" }, "'name'", "UTF-8" },
		{ { .metadata = &long_key, .n_metadata = 1 }, "metadata", "128" },
		{ { .metadata = &bad_key, .n_metadata = 1 }, "metadata", "control" },
		{ { .metadata = &long_value, .n_metadata = 1 }, "metadata.k", "4096" },
		{ { .metadata = &bad_value, .n_metadata = 1 }, "metadata.k", "UTF-8" },
		{ { .metadata = twice, .n_metadata = 2 }, "metadata.k", "twice" },
		{ { .metadata = many, .n_metadata = ARRAY_LEN(many) }, "metadata", "64" },
	};
	struct ws_create most = { .name = a256 + 1,
				  .metadata = many,
				  .n_metadata = WS_META_PAIRS_MAX };
	struct workspace *ws = NULL;
	struct house h;

	memset(a256, 'n', 256);
	memset(a129, 'k', 129);
	memset(a4097, 'v', 4097);
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "%zu", i);
		many[i] = (struct ws_pair){ keys[i], a4097 + 1 };
	}
	up(&h, *state);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = { 0 };

		assert_int_equal(ws_create(h.reg, &cases[i].c, &ws, &err), -EINVAL);
		if (strstr(err.msg, cases[i].field) == NULL ||
		    strstr(err.msg, cases[i].limit) == NULL)
			fail_msg("case %zu: %s", i, err.msg);
	}
	assert_int_equal(n_rows(&h), 0);
	assert_int_equal(ws_create(h.reg, &most, &ws, NULL), 0);
	workspace_unref(ws);
	down(&h);
	up(&h, *state);
	assert_int_equal(n_listed(&h), 1);
	down(&h);
}

/* ---- what failures and crashes leave ------------------------------------ */

static void test_a_failed_creation_leaves_nothing(void **state)
{
	struct ws_create c = { 0 };
	struct workspace *ws = NULL;
	struct err err = { 0 };
	struct stat st;
	struct house h;

	up(&h, *state);
	h.told.fail_open = EIO;
	assert_int_equal(ws_create(h.reg, &c, &ws, &err), -EIO);
	assert_null(ws);
	assert_non_null(strstr(err.msg, "told to fail"));
	assert_int_equal(n_rows(&h), 0);
	assert_int_equal(n_listed(&h), 0);
	assert_int_equal(fstatat(h.dir->fd, "workspaces", &st, 0), 0);
	assert_int_equal(st.st_nlink, 3); /* no folder in it but the trash */
	down(&h);
}

/* Both states, with the folder whole, in part, and not there: the next start ends with nothing. */
static void test_what_a_crash_interrupted_is_finished_at_start(void **state)
{
	static const enum ws_row_state states[] = { WS_ROW_MAKING, WS_ROW_DELETING };
	struct house h;

	for (size_t s = 0; s < ARRAY_LEN(states); s++) {
		for (int left = 0; left < 3; left++) {
			struct workspace *ws;
			char id[WS_ID_LEN + 1];
			char path[96];

			up(&h, *state);
			ws = create(&h, NULL);
			memcpy(id, ws->id, sizeof(id));
			workspace_unref(ws);
			put_file(&h, id, "/files/x");
			assert_int_equal(store_ws_set_state(h.store, id, states[s], NULL), 0);
			(void)snprintf(path, sizeof(path), "workspaces/%s%s", id,
				       left == 0 ? "" : "/logs");
			if (left == 0) {
				int all = openat(h.dir->fd, "workspaces", O_RDONLY | O_CLOEXEC);

				assert_int_equal(path_remove_tree(all, id, NULL), 0);
				(void)close(all);
			} else if (left == 1) {
				assert_int_equal(unlinkat(h.dir->fd, path, AT_REMOVEDIR), 0);
			}
			down(&h);
			up(&h, *state);
			assert_null(ws_find(h.reg, id));
			assert_false(exists(&h, id, ""));
			assert_int_equal(n_rows(&h), 0);
			assert_int_equal(h.told.opened, 0);
			down(&h);
		}
	}
}

static void test_one_bad_workspace_does_not_keep_the_others_from_being_served(void **state)
{
	static const char *const damage[] = {
		"UPDATE workspaces SET metadata = '{' WHERE seq = 1",
		"UPDATE workspaces SET metadata = '{\"a\":1}' WHERE seq = 1",
		"UPDATE workspaces SET exports = '[]' WHERE seq = 1",
		"UPDATE workspaces SET exports = '{\"mode\":\"x\"}' WHERE seq = 1",
		"UPDATE workspaces SET id = '11111111-1111-1111-1111-111111111111' WHERE seq = 1",
		"UPDATE workspaces SET id = '../../../../../../etc/../x/../../tmp' WHERE seq = 1",
		/* nor may a removal that is to be finished go astray */
		"UPDATE workspaces SET id = 'files-files-files-files-files-files!', state = 1"
		" WHERE seq = 1",
	};
	struct workspace *bad, *good;
	char bad_id[WS_ID_LEN + 1], good_id[WS_ID_LEN + 1], sql[256];
	struct house h;

	up(&h, *state);
	bad = create(&h, NULL);
	good = create(&h, NULL);
	memcpy(bad_id, bad->id, sizeof(bad_id));
	memcpy(good_id, good->id, sizeof(good_id));
	workspace_unref(bad);
	workspace_unref(good);
	down(&h);
	for (size_t i = 0; i < ARRAY_LEN(damage); i++) {
		data_dir_sql(*state, damage[i]);
		up(&h, *state);
		assert_int_equal(n_listed(&h), 1);
		assert_null(ws_find(h.reg, bad_id));
		assert_int_equal(n_rows(&h), 2);
		assert_true(exists(&h, bad_id, "/files"));
		down(&h);
		(void)snprintf(sql, sizeof(sql),
			       "UPDATE workspaces SET id = '%s', metadata = '{}', exports = NULL,"
			       " state = 0 WHERE seq = 1",
			       bad_id);
		data_dir_sql(*state, sql);
	}
	up(&h, *state);
	assert_int_equal(n_listed(&h), 2);
	down(&h);
}

static void test_a_row_without_folder_and_a_folder_without_row_stay(void **state)
{
	static const char orphan[] = "33333333-3333-4333-8333-333333333333";
	struct workspace *ws;
	struct house h;
	char id[WS_ID_LEN + 1], from[96];

	up(&h, *state);
	ws = create(&h, NULL);
	memcpy(id, ws->id, sizeof(id));
	workspace_unref(ws);
	down(&h);
	(void)snprintf(from, sizeof(from), "workspaces/%s", id);
	assert_int_equal(renameat(h.dir->fd, from, h.dir->fd,
				  "workspaces/"
				  "33333333-3333-4333-8333-333333333333"),
			 0);
	up(&h, *state);
	assert_int_equal(n_listed(&h), 0);
	assert_int_equal(n_rows(&h), 1);
	assert_true(exists(&h, orphan, "/files"));
	down(&h);
	assert_int_equal(renameat(h.dir->fd, "workspaces/33333333-3333-4333-8333-333333333333",
				  h.dir->fd, from),
			 0);
	up(&h, *state);
	assert_int_equal(n_listed(&h), 1);
	down(&h);
}

static void test_a_link_in_place_of_the_files_is_not_followed(void **state)
{
	struct workspace *ws;
	struct house h;
	char files[96];

	up(&h, *state);
	ws = create(&h, NULL);
	(void)snprintf(files, sizeof(files), "workspaces/%s/files", ws->id);
	workspace_unref(ws);
	down(&h);
	assert_int_equal(unlinkat(h.dir->fd, files, AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("logs", h.dir->fd, files), 0);
	up(&h, *state);
	assert_int_equal(n_listed(&h), 0);
	assert_int_equal(n_rows(&h), 1);
	down(&h);
}

/* ---- export rules ------------------------------------------------------- */

static void test_export_rules_are_published_kept_and_taken_back(void **state)
{
	const struct export_rules *first, *rules;
	struct export_rules mine;
	struct workspace *ws;
	struct house h;
	char id[WS_ID_LEN + 1];
	uint64_t gen;

	assert_int_equal(export_rules_parse("10.0.0.0/8(ro) mode=match", &mine, NULL), 0);
	up(&h, *state);
	ws = create(&h, NULL);
	memcpy(id, ws->id, sizeof(id));
	assert_true(ws_exports(h.reg, ws)->read_only); /* the default of this house */
	gen = ws->export_gen;
	assert_int_equal(ws_set_exports(h.reg, ws, &mine, NULL), 0);
	assert_true(ws->export_gen > gen);
	assert_true(ws->updated_ns > ws->created_ns);
	first = ws_exports(h.reg, ws);
	assert_int_equal(first->mode, EXPORT_MATCH);
	mine.mode = EXPORT_SQUASH;
	assert_int_equal(ws_set_exports(h.reg, ws, &mine, NULL), 0);
	assert_int_equal(ws_exports(h.reg, ws)->mode, EXPORT_SQUASH);
	assert_int_equal(first->mode, EXPORT_MATCH); /* what a reader held stays as it was */
	workspace_unref(ws);
	down(&h);
	up(&h, *state);
	ws = ws_find(h.reg, id);
	rules = ws_exports(h.reg, ws);
	assert_int_equal(rules->mode, EXPORT_SQUASH);
	assert_int_equal(rules->n_nets, 1);
	assert_true(rules->nets[0].read_only);
	assert_int_equal(ws_set_exports(h.reg, ws, NULL, NULL), 0);
	assert_int_equal(ws_exports(h.reg, ws)->n_nets, 0);
	workspace_unref(ws);
	down(&h);
}

/* ---- threads ------------------------------------------------------------ */

#define N_THREADS 8
#define N_ROUNDS  12

/* What did not hold, or NULL. */
static const char *create_and_delete(struct house *h)
{
	struct export_rules rules = { .mode = EXPORT_MATCH };

	for (int i = 0; i < N_ROUNDS; i++) {
		struct ws_create c = { .name = "t" };
		struct workspace *ws = NULL, *found;
		bool keep = i == N_ROUNDS - 1;

		if (ws_create(h->reg, &c, &ws, NULL) < 0)
			return "create";
		found = ws_find(h->reg, ws->id);
		if (found != ws || n_listed(h) == 0)
			return "find";
		workspace_unref(found);
		if (ws_set_exports(h->reg, ws, &rules, NULL) < 0 ||
		    ws_exports(h->reg, ws)->mode != EXPORT_MATCH)
			return "exports";
		if (!keep && ws_delete(h->reg, ws->id, NULL) < 0)
			return "delete";
		found = ws_find_key(h->reg, ws->key);
		if ((found != NULL) != keep)
			return "find after delete";
		workspace_unref(found);
		workspace_unref(ws);
	}
	return NULL;
}

struct worker {
	struct house *h;
	pthread_t thread;
	const char *failed;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	w->failed = create_and_delete(w->h);
	return NULL;
}

static void test_eight_threads_create_and_delete(void **state)
{
	struct worker workers[N_THREADS];
	struct house h;

	up(&h, *state);
	for (int i = 0; i < N_THREADS; i++) {
		workers[i] = (struct worker){ .h = &h };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < N_THREADS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
		if (workers[i].failed != NULL)
			fail_msg("%s", workers[i].failed);
	}
	assert_int_equal(n_listed(&h), N_THREADS);
	assert_int_equal(n_rows(&h), N_THREADS);
	assert_int_equal(h.told.opened, N_THREADS * N_ROUNDS);
	assert_int_equal(h.told.gone, N_THREADS * (N_ROUNDS - 1));
	down(&h);
}

struct race {
	struct house *h;
	const char *id;
	int n_deleted; /* atomic */
};

static void *delete_it(void *arg)
{
	struct race *r = arg;

	if (ws_delete(r->h->reg, r->id, NULL) == 0)
		(void)__atomic_fetch_add(&r->n_deleted, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void test_of_many_deletions_of_one_workspace_one_succeeds(void **state)
{
	struct house h;

	up(&h, *state);
	for (int round = 0; round < 10; round++) {
		struct workspace *ws = create(&h, NULL);
		struct race r = { .h = &h, .id = ws->id };
		pthread_t threads[4];

		for (size_t i = 0; i < ARRAY_LEN(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL, delete_it, &r), 0);
		for (size_t i = 0; i < ARRAY_LEN(threads); i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(r.n_deleted, 1);
		assert_int_equal(h.told.gone, round + 1);
		workspace_unref(ws);
	}
	assert_int_equal(n_rows(&h), 0);
	down(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_DATA_DIR(test_a_new_workspace_is_complete),
		TEST_IN_DATA_DIR(test_text_that_is_no_known_id_finds_nothing),
		TEST_IN_DATA_DIR(test_everything_is_there_after_a_restart),
		TEST_IN_DATA_DIR(test_lists_are_newest_first_and_the_generation_grows),
		TEST_IN_DATA_DIR(test_deleting_removes_all_but_what_is_in_use_lives_on),
		TEST_IN_DATA_DIR(test_a_deletion_is_in_the_store_before_anything_goes),
		TEST_IN_DATA_DIR(test_names_and_metadata_have_limits_that_are_told),
		TEST_IN_DATA_DIR(test_a_failed_creation_leaves_nothing),
		TEST_IN_DATA_DIR(test_what_a_crash_interrupted_is_finished_at_start),
		TEST_IN_DATA_DIR(test_one_bad_workspace_does_not_keep_the_others_from_being_served),
		TEST_IN_DATA_DIR(test_a_row_without_folder_and_a_folder_without_row_stay),
		TEST_IN_DATA_DIR(test_a_link_in_place_of_the_files_is_not_followed),
		TEST_IN_DATA_DIR(test_export_rules_are_published_kept_and_taken_back),
		TEST_IN_DATA_DIR(test_eight_threads_create_and_delete),
		TEST_IN_DATA_DIR(test_of_many_deletions_of_one_workspace_one_succeeds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
