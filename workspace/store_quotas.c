/* SPDX-License-Identifier: MIT */
/* The table of quotas and what was held when it was last looked at (see store.h and quota.h). */
#include "workspace/store_db.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static const char what_put[] = "write a quota";
static const char what_read[] = "read a quota";

/* No limit is stored as NULL. */
static void bind_limit(sqlite3_stmt *st, int i, uint64_t limit)
{
	if (limit == UINT64_MAX)
		(void)sqlite3_bind_null(st, i);
	else
		(void)store_bind_u64(st, i, limit);
}

static int put_row(sqlite3 *db, void *arg, struct err *err)
{
	static const char sql[] = "INSERT OR REPLACE INTO quotas"
				  " (ws, max_bytes, max_files, used_bytes, used_files)"
				  " SELECT seq, ?, ?, ?, ? FROM workspaces WHERE id = ?";
	auto_stmt sqlite3_stmt *st = NULL;
	const struct quota_row *row = arg;
	int rc = store_prepare(db, sql, what_put, &st, err);

	if (rc < 0)
		return rc;
	bind_limit(st, 1, row->max_bytes);
	bind_limit(st, 2, row->max_files);
	(void)store_bind_u64(st, 3, row->used_bytes);
	(void)store_bind_u64(st, 4, row->used_files);
	(void)store_bind_text(st, 5, row->ws_id);
	if (sqlite3_step(st) != SQLITE_DONE)
		return store_fail(db, what_put, err);
	if (sqlite3_changes(db) != 1)
		return err_set(err, -ENOENT, "store: %s: no such workspace", what_put);
	return 0;
}

int store_quota_put(struct store *s, const struct quota_row *row, struct err *err)
{
	return store_write(s, what_put, put_row, (void *)(uintptr_t)row, err);
}

static int remove_row(sqlite3 *db, void *arg, struct err *err)
{
	static const char sql[] =
		"DELETE FROM quotas WHERE ws = (SELECT seq FROM workspaces WHERE id = ?)";
	auto_stmt sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, sql, what_put, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, arg);
	return sqlite3_step(st) == SQLITE_DONE ? 0 : store_fail(db, what_put, err);
}

int store_quota_remove(struct store *s, const char *id, struct err *err)
{
	return store_write(s, what_put, remove_row, (void *)(uintptr_t)id, err);
}

/* ---- reading ------------------------------------------------------------ */

static uint64_t column_limit(sqlite3_stmt *st, int i)
{
	return sqlite3_column_type(st, i) == SQLITE_NULL ? UINT64_MAX : store_column_u64(st, i);
}

static int get_row(sqlite3 *db, struct quota_row *row, struct err *err)
{
	static const char sql[] = "SELECT max_bytes, max_files, used_bytes, used_files FROM quotas"
				  " WHERE ws = (SELECT seq FROM workspaces WHERE id = ?)";
	auto_stmt sqlite3_stmt *st = NULL;
	int step, rc = store_prepare(db, sql, what_read, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, row->ws_id);
	step = sqlite3_step(st);
	if (step == SQLITE_DONE)
		return 0;
	if (step != SQLITE_ROW)
		return store_fail(db, what_read, err);
	row->max_bytes = column_limit(st, 0);
	row->max_files = column_limit(st, 1);
	row->used_bytes = store_column_u64(st, 2);
	row->used_files = store_column_u64(st, 3);
	return 1;
}

int store_quota_get(struct store *s, const char *id, struct quota_row *ret, struct err *err)
{
	int rc;

	*ret = (struct quota_row){ 0 };
	memcpy(ret->ws_id, id, strnlen(id, sizeof(ret->ws_id) - 1));
	(void)pthread_mutex_lock(&s->mutex);
	rc = get_row(s->db, ret, err);
	(void)pthread_mutex_unlock(&s->mutex);
	return rc;
}
