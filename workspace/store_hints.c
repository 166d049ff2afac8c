/* SPDX-License-Identifier: MIT */
/* The table of hints where inodes were last seen (see store.h and inode_hints.h). */
#include "workspace/store_db.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define NAME_BYTES_MAX 255

struct hint_batch {
	const struct hint_row *rows;
	size_t n;
};

static int step_reset(sqlite3 *db, sqlite3_stmt *st, struct err *err)
{
	if (sqlite3_step(st) != SQLITE_DONE)
		return store_fail(db, "write hints", err);
	(void)sqlite3_reset(st);
	return 0;
}

static int put_one(sqlite3 *db, sqlite3_stmt *st, const struct hint_row *r, struct err *err)
{
	(void)store_bind_u64(st, 1, r->ino);
	(void)store_bind_u64(st, 2, r->birth_ns);
	(void)store_bind_u64(st, 3, r->parent_ino);
	(void)sqlite3_bind_blob(st, 4, r->name, (int)strlen(r->name), SQLITE_STATIC);
	(void)store_bind_text(st, 5, r->ws_id);
	return step_reset(db, st, err);
}

static int drop_one(sqlite3 *db, sqlite3_stmt *st, const struct hint_row *r, struct err *err)
{
	(void)store_bind_u64(st, 1, r->ino);
	(void)store_bind_text(st, 2, r->ws_id);
	return step_reset(db, st, err);
}

static int put_batch(sqlite3 *db, void *arg, struct err *err)
{
	/* By SELECT, so that a hint of a workspace that was removed meanwhile is nothing, not an
	 * error. */
	static const char put_sql[] =
		"INSERT OR REPLACE INTO inode_hints (ws, ino, birth_ns, parent_ino, name)"
		" SELECT seq, ?, ?, ?, ? FROM workspaces WHERE id = ?";
	static const char drop_sql[] = "DELETE FROM inode_hints WHERE ino = ?"
				       " AND ws = (SELECT seq FROM workspaces WHERE id = ?)";
	auto_stmt sqlite3_stmt *put = NULL;
	auto_stmt sqlite3_stmt *drop = NULL;
	const struct hint_batch *b = arg;
	int rc = store_prepare(db, put_sql, "write hints", &put, err);

	if (rc == 0)
		rc = store_prepare(db, drop_sql, "write hints", &drop, err);
	for (size_t i = 0; i < b->n && rc == 0; i++) {
		if (b->rows[i].name != NULL)
			rc = put_one(db, put, &b->rows[i], err);
		else
			rc = drop_one(db, drop, &b->rows[i], err);
	}
	return rc;
}

int store_hints_put(struct store *s, const struct hint_row *rows, size_t n, struct err *err)
{
	struct hint_batch b = { .rows = rows, .n = n };

	return n == 0 ? 0 : store_write(s, "write hints", put_batch, &b, err);
}

/* ---- reading ------------------------------------------------------------ */

/* False for a damaged row: a hint is only a guess, and one less costs a walk. */
static bool read_hint(sqlite3_stmt *st, struct hint_row *row, char name[NAME_BYTES_MAX + 1])
{
	const void *blob = sqlite3_column_blob(st, 3);
	int len = sqlite3_column_bytes(st, 3);

	if (blob == NULL || len <= 0 || len > NAME_BYTES_MAX || memchr(blob, '\0', (size_t)len) ||
	    memchr(blob, '/', (size_t)len))
		return false;
	memcpy(name, blob, (size_t)len);
	name[len] = '\0';
	row->ino = store_column_u64(st, 0);
	row->birth_ns = store_column_u64(st, 1);
	row->parent_ino = store_column_u64(st, 2);
	row->name = name;
	return true;
}

static int each_hint(sqlite3 *db, const char *ws_id,
		     int (*fn)(void *arg, const struct hint_row *row), void *arg, struct err *err)
{
	static const char sql[] = "SELECT ino, birth_ns, parent_ino, name FROM inode_hints"
				  " WHERE ws = (SELECT seq FROM workspaces WHERE id = ?)";
	auto_stmt sqlite3_stmt *st = NULL;
	char name[NAME_BYTES_MAX + 1];
	struct hint_row row = { 0 };
	int step = SQLITE_DONE;
	int rc = store_prepare(db, sql, "read hints", &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, ws_id);
	memcpy(row.ws_id, ws_id, strnlen(ws_id, sizeof(row.ws_id) - 1));
	while (rc == 0 && (step = sqlite3_step(st)) == SQLITE_ROW)
		if (read_hint(st, &row, name))
			rc = fn(arg, &row);
	if (rc == 0 && step != SQLITE_DONE)
		rc = store_fail(db, "read hints", err);
	return rc;
}

int store_hints_each(struct store *s, const char *ws_id,
		     int (*fn)(void *arg, const struct hint_row *row), void *arg, struct err *err)
{
	int rc;

	(void)pthread_mutex_lock(&s->mutex);
	rc = each_hint(s->db, ws_id, fn, arg, err);
	(void)pthread_mutex_unlock(&s->mutex);
	return rc;
}
