/* SPDX-License-Identifier: MIT */
/* The store: URLs, locks, schema, rows, hints. */
#include "workspace/store.h"

#include <errno.h>
#include <sys/wait.h>

#include "tests/unit/data_dir.h"

static const char id_a[] = "11111111-1111-4111-8111-111111111111";
static const char id_b[] = "22222222-2222-4222-8222-222222222222";

static struct store *must_open(const struct data_dir *d, const char *url)
{
	struct err err = { 0 };
	struct store *s = NULL;

	if (store_open(d->path, url, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

static void insert(struct store *s, const char *id, enum ws_row_state state)
{
	struct ws_row row = {
		.metadata_json = (char *)"{\"k\":\"v\"}",
		.owner_uid = 1000,
		.owner_gid = UINT32_MAX,
		.created_ns = 5,
		.updated_ns = UINT64_MAX,
		.state = state,
	};

	memcpy(row.id, id, sizeof(row.id));
	assert_int_equal(store_ws_insert(s, &row, NULL), 0);
	assert_true(row.seq > 0);
}

struct seen {
	unsigned n;
	char ids[8][37];
	enum ws_row_state state[8];
	bool has_exports[8];
};

static int see(void *arg, const struct ws_row *row)
{
	struct seen *seen = arg;

	memcpy(seen->ids[seen->n], row->id, sizeof(row->id));
	seen->state[seen->n] = row->state;
	seen->has_exports[seen->n] = row->exports_json != NULL;
	seen->n++;
	return 0;
}

static struct seen all_rows(struct store *s)
{
	struct seen seen = { 0 };

	assert_int_equal(store_ws_each(s, see, &seen, NULL), 0);
	return seen;
}

static mode_t mode_of(const struct data_dir *d, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(d->fd, name, &st, 0), 0);
	return st.st_mode & 07777;
}

/* ---- opening ------------------------------------------------------------ */

static void test_every_url_form_names_its_file(void **state)
{
	struct data_dir *d = *state;
	char absolute[128], query[128];
	const struct {
		const char *url, *file;
	} cases[] = {
		{ NULL, "workspace.db" },
		{ "", "workspace.db" },
		{ "sqlite:a.db", "a.db" },
		{ "sqlite:deep/er/b.db", "deep/er/b.db" },
		{ "sqlite://c.db?mode=rwc", "c.db" },
		{ absolute, "d.db" },
		{ query, "sub/e.db" },
	};

	(void)snprintf(absolute, sizeof(absolute), "sqlite://%s/d.db", d->path);
	(void)snprintf(query, sizeof(query), "sqlite:%s/sub/e.db?cache=shared&x=/y", d->path);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		store_close(must_open(d, cases[i].url));
		assert_int_equal(mode_of(d, cases[i].file), 0600);
	}
}

static void test_other_urls_are_refused_with_what_is_allowed(void **state)
{
	static const char *const urls[] = {
		"postgres://u:secret@h/db",
		"mysql:x",
		"workspace.db",
		"sqlite:",
		"sqlite://",
		"sqlite:///",
		"sqlite:x/",
		"sqlite::memory:",
		"sqlite:?x=y",
	};
	struct data_dir *d = *state;

	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		struct err err = { 0 };
		struct store *s = NULL;

		assert_int_equal(store_open(d->path, urls[i], &s, &err), -EINVAL);
		assert_non_null(strstr(err.msg, "sqlite:PATH"));
		assert_null(strstr(err.msg, "secret"));
	}
}

static void test_directory_and_file_are_private(void **state)
{
	struct data_dir *d = *state;
	mode_t old = umask(0);

	assert_int_equal(fchmod(d->fd, 0755), 0);
	store_close(must_open(d, NULL));
	(void)umask(old);
	assert_int_equal(mode_of(d, "."), 0700);
	assert_int_equal(mode_of(d, "workspace.db"), 0600);
	assert_int_equal(mode_of(d, "lock"), 0600);
}

static void test_missing_data_directory_is_made(void **state)
{
	struct data_dir *d = *state;
	struct store *s = NULL;
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/x/y", d->path);
	assert_int_equal(store_open(path, NULL, &s, NULL), 0);
	store_close(s);
	assert_int_equal(mode_of(d, "x/y"), 0700);
}

static void test_second_daemon_is_refused_and_told_who_holds_the_lock(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);
	struct store *other = NULL;
	struct err err = { 0 };
	char pid[32];

	assert_int_equal(store_open(d->path, NULL, &other, &err), -EBUSY);
	(void)snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
	assert_non_null(strstr(err.msg, pid));
	store_close(s);
	store_close(must_open(d, NULL));
}

static void test_a_database_elsewhere_is_locked_too(void **state)
{
	struct data_dir *d = *state;
	struct store *s = NULL, *other = NULL;
	struct err err = { 0 };
	char url[128], a[96], b[96];

	(void)snprintf(url, sizeof(url), "sqlite://%s/shared.db", d->path);
	(void)snprintf(a, sizeof(a), "%s/a", d->path);
	(void)snprintf(b, sizeof(b), "%s/b", d->path);
	assert_int_equal(store_open(a, url, &s, NULL), 0);
	assert_int_equal(store_open(b, url, &other, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "database"));
	store_close(s);
}

static void test_lock_dies_with_its_process(void **state)
{
	struct data_dir *d = *state;
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct store *s = NULL;

		_exit(store_open(d->path, NULL, &s, NULL) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	store_close(must_open(d, NULL));
}

static int schema_version(const struct data_dir *d)
{
	char path[96];
	sqlite3 *db = NULL;
	sqlite3_stmt *st = NULL;
	int version;

	(void)snprintf(path, sizeof(path), "%s/workspace.db", d->path);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(st), SQLITE_ROW);
	version = sqlite3_column_int(st, 0);
	assert_int_equal(sqlite3_finalize(st), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	return version;
}

static void test_newer_schema_is_refused_and_left_alone(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);
	struct err err = { 0 };
	char back[48];

	insert(s, id_a, WS_ROW_LIVE);
	store_close(s);
	(void)snprintf(back, sizeof(back), "PRAGMA user_version = %d", schema_version(d));
	data_dir_sql(d, "PRAGMA user_version = 4711");
	s = NULL;
	assert_int_equal(store_open(d->path, NULL, &s, &err), -EPROTONOSUPPORT);
	assert_null(s);
	assert_non_null(strstr(err.msg, "4711"));
	data_dir_sql(d, back);
	s = must_open(d, NULL);
	assert_int_equal(all_rows(s).n, 1);
	store_close(s);
}

static void test_a_file_that_is_no_database_is_refused(void **state)
{
	struct data_dir *d = *state;
	struct store *s = NULL;
	struct err err = { 0 };
	auto_close int fd = openat(d->fd, "workspace.db", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	char junk[4096];

	memset(junk, 'x', sizeof(junk));
	assert_int_equal(write(fd, junk, sizeof(junk)), sizeof(junk));
	assert_int_equal(store_open(d->path, NULL, &s, &err), -EIO);
	assert_true(err.msg[0] != '\0');
}

/* ---- rows --------------------------------------------------------------- */

static void test_rows_come_back_as_they_were_written_and_in_order(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);
	struct seen seen;

	insert(s, id_b, WS_ROW_MAKING);
	insert(s, id_a, WS_ROW_LIVE);
	assert_int_equal(store_ws_set_state(s, id_b, WS_ROW_DELETING, NULL), 0);
	assert_int_equal(store_ws_set_exports(s, id_a, "{}", 9, NULL), 0);
	store_close(s);
	s = must_open(d, NULL);
	seen = all_rows(s);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.ids[0], id_b);
	assert_int_equal(seen.state[0], WS_ROW_DELETING);
	assert_false(seen.has_exports[0]);
	assert_string_equal(seen.ids[1], id_a);
	assert_int_equal(seen.state[1], WS_ROW_LIVE);
	assert_true(seen.has_exports[1]);
	assert_int_equal(store_ws_set_exports(s, id_a, NULL, 10, NULL), 0);
	assert_false(all_rows(s).has_exports[1]);
	store_close(s);
}

static int check_limits(void *arg, const struct ws_row *row)
{
	(void)arg;
	assert_int_equal(row->owner_gid, UINT32_MAX);
	assert_true(row->updated_ns == UINT64_MAX);
	assert_string_equal(row->metadata_json, "{\"k\":\"v\"}");
	assert_null(row->name);
	return 42;
}

static void test_numbers_keep_all_their_bits_and_each_stops_when_told(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);

	insert(s, id_a, WS_ROW_LIVE);
	insert(s, id_b, WS_ROW_LIVE);
	assert_int_equal(store_ws_each(s, check_limits, NULL, NULL), 42);
	store_close(s);
}

static void test_an_id_is_taken_once_and_an_unknown_one_is_told(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);
	struct ws_row row = { .metadata_json = (char *)"{}" };

	insert(s, id_a, WS_ROW_LIVE);
	memcpy(row.id, id_a, sizeof(row.id));
	assert_int_equal(store_ws_insert(s, &row, NULL), -EEXIST);
	assert_int_equal(store_ws_set_state(s, id_b, WS_ROW_LIVE, NULL), -ENOENT);
	assert_int_equal(store_ws_set_exports(s, id_b, NULL, 1, NULL), -ENOENT);
	assert_int_equal(store_ws_remove(s, id_b, NULL), -ENOENT);
	assert_int_equal(store_ws_remove(s, id_a, NULL), 0);
	assert_int_equal(all_rows(s).n, 0);
	store_close(s);
}

static void test_a_damaged_row_does_not_hide_the_others(void **state)
{
	static const char *const damage[] = {
		"UPDATE workspaces SET id = 'short' WHERE seq = 1",
		"UPDATE workspaces SET state = 77 WHERE seq = 1",
		"UPDATE workspaces SET owner_uid = -1 WHERE seq = 1",
		"UPDATE workspaces SET metadata = 'a' || char(0) || 'b' WHERE seq = 1",
	};
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);

	insert(s, id_a, WS_ROW_LIVE);
	insert(s, id_b, WS_ROW_LIVE);
	store_close(s);
	for (size_t i = 0; i < ARRAY_LEN(damage); i++) {
		struct seen seen;

		data_dir_sql(d, damage[i]);
		s = must_open(d, NULL);
		seen = all_rows(s);
		assert_int_equal(seen.n, 1);
		assert_string_equal(seen.ids[0], id_b);
		store_close(s);
		data_dir_sql(d, "UPDATE workspaces SET id = '11111111-1111-4111-8111-111111111111',"
				" state = 0, owner_uid = 0, metadata = '{}' WHERE seq = 1");
	}
	s = must_open(d, NULL);
	assert_int_equal(all_rows(s).n, 2);
	store_close(s);
}

/* ---- hints and health --------------------------------------------------- */

struct hints_seen {
	unsigned n;
	uint64_t parent_sum;
	char last[256];
};

static int see_hint(void *arg, const struct hint_row *row)
{
	struct hints_seen *seen = arg;

	seen->n++;
	seen->parent_sum += row->parent_ino;
	(void)snprintf(seen->last, sizeof(seen->last), "%s", row->name);
	return 0;
}

static struct hints_seen all_hints(struct store *s, const char *id)
{
	struct hints_seen seen = { 0 };

	assert_int_equal(store_hints_each(s, id, see_hint, &seen, NULL), 0);
	return seen;
}

static struct hint_row hint(const char *id, uint64_t ino, uint64_t parent, const char *name)
{
	struct hint_row row = { .ino = ino, .birth_ns = 1, .parent_ino = parent, .name = name };

	memcpy(row.ws_id, id, sizeof(row.ws_id));
	return row;
}

static void test_hints_are_replaced_removed_and_go_with_their_workspace(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);
	const struct hint_row first[] = {
		hint(id_a, UINT64_MAX, 2, "x"), hint(id_a, 7, 2, "\xff\xfe \n"),
		hint(id_b, 7, 2, "of nobody"), /* no such workspace: passed over */
	};
	const struct hint_row second[] = { hint(id_a, UINT64_MAX, 0, NULL), hint(id_a, 7, 3, "y") };
	struct hints_seen seen;

	insert(s, id_a, WS_ROW_LIVE);
	assert_int_equal(store_hints_put(s, first, ARRAY_LEN(first), NULL), 0);
	seen = all_hints(s, id_a);
	assert_int_equal(seen.n, 2);
	assert_int_equal(all_hints(s, id_b).n, 0);
	assert_int_equal(store_hints_put(s, second, ARRAY_LEN(second), NULL), 0);
	seen = all_hints(s, id_a);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.parent_sum, 3);
	assert_string_equal(seen.last, "y");
	assert_int_equal(store_ws_remove(s, id_a, NULL), 0);
	assert_int_equal(all_hints(s, id_a).n, 0);
	insert(s, id_a, WS_ROW_LIVE);
	assert_int_equal(all_hints(s, id_a).n, 0);
	store_close(s);
}

static void test_quotas_are_replaced_and_go_with_their_workspace(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);
	struct quota_row row = { .max_bytes = 1ull << 62,
				 .max_files = UINT64_MAX,
				 .used_bytes = 7 };
	struct quota_row got;

	memcpy(row.ws_id, id_a, sizeof(row.ws_id));
	assert_int_equal(store_quota_put(s, &row, NULL), -ENOENT);
	insert(s, id_a, WS_ROW_LIVE);
	assert_int_equal(store_quota_put(s, &row, NULL), 0);
	row.used_files = 9;
	assert_int_equal(store_quota_put(s, &row, NULL), 0);
	assert_int_equal(store_quota_get(s, id_a, &got, NULL), 1);
	assert_memory_equal(&got, &row, sizeof(row));
	assert_int_equal(store_quota_get(s, id_b, &got, NULL), 0);
	assert_int_equal(store_quota_remove(s, id_a, NULL), 0);
	assert_int_equal(store_quota_remove(s, id_a, NULL), 0); /* none is none */
	assert_int_equal(store_quota_put(s, &row, NULL), 0);
	assert_int_equal(store_ws_remove(s, id_a, NULL), 0);
	assert_int_equal(store_quota_get(s, id_a, &got, NULL), 0);
	store_close(s);
}

static void test_check_writes_and_says_when_it_cannot(void **state)
{
	struct data_dir *d = *state;
	struct store *s = must_open(d, NULL);
	struct err err = { 0 };

	assert_int_equal(store_check(s, NULL), 0);
	assert_int_equal(store_check(s, NULL), 0);
	data_dir_sql(d, "DROP TABLE probe");
	assert_true(store_check(s, &err) < 0);
	assert_non_null(strstr(err.msg, "check"));
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_DATA_DIR(test_every_url_form_names_its_file),
		TEST_IN_DATA_DIR(test_other_urls_are_refused_with_what_is_allowed),
		TEST_IN_DATA_DIR(test_directory_and_file_are_private),
		TEST_IN_DATA_DIR(test_missing_data_directory_is_made),
		TEST_IN_DATA_DIR(test_second_daemon_is_refused_and_told_who_holds_the_lock),
		TEST_IN_DATA_DIR(test_a_database_elsewhere_is_locked_too),
		TEST_IN_DATA_DIR(test_lock_dies_with_its_process),
		TEST_IN_DATA_DIR(test_newer_schema_is_refused_and_left_alone),
		TEST_IN_DATA_DIR(test_a_file_that_is_no_database_is_refused),
		TEST_IN_DATA_DIR(test_rows_come_back_as_they_were_written_and_in_order),
		TEST_IN_DATA_DIR(test_numbers_keep_all_their_bits_and_each_stops_when_told),
		TEST_IN_DATA_DIR(test_an_id_is_taken_once_and_an_unknown_one_is_told),
		TEST_IN_DATA_DIR(test_a_damaged_row_does_not_hide_the_others),
		TEST_IN_DATA_DIR(test_hints_are_replaced_removed_and_go_with_their_workspace),
		TEST_IN_DATA_DIR(test_quotas_are_replaced_and_go_with_their_workspace),
		TEST_IN_DATA_DIR(test_check_writes_and_says_when_it_cannot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
