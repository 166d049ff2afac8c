/* SPDX-License-Identifier: MIT */
/* The table of workspaces (see store.h). */
#include "workspace/store_db.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

void ws_row_fini(struct ws_row *row)
{
	free(row->name);
	free(row->metadata_json);
	free(row->exports_json);
	free(row->adopted);
	*row = (struct ws_row){ 0 };
}

/* ---- writing ------------------------------------------------------------ */

static int insert_row(sqlite3 *db, void *arg, struct err *err)
{
	static const char sql[] =
		"INSERT INTO workspaces (id, name, metadata, exports, owner_uid, owner_gid,"
		" created_ns, updated_ns, state, adopted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
	auto_stmt sqlite3_stmt *st = NULL;
	struct ws_row *row = arg;
	int rc = store_prepare(db, sql, "add a workspace", &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, row->id);
	(void)store_bind_text(st, 2, row->name);
	(void)store_bind_text(st, 3, row->metadata_json);
	(void)store_bind_text(st, 4, row->exports_json);
	(void)store_bind_u64(st, 5, row->owner_uid);
	(void)store_bind_u64(st, 6, row->owner_gid);
	(void)store_bind_u64(st, 7, row->created_ns);
	(void)store_bind_u64(st, 8, row->updated_ns);
	(void)store_bind_u64(st, 9, row->state);
	(void)store_bind_text(st, 10, row->adopted);
	if (sqlite3_step(st) != SQLITE_DONE)
		return store_fail(db, "add a workspace", err);
	row->seq = (uint64_t)sqlite3_last_insert_rowid(db);
	return 0;
}

int store_ws_insert(struct store *s, struct ws_row *row, struct err *err)
{
	return store_write(s, "add a workspace", insert_row, row, err);
}

struct ws_change {
	const char *id;
	const char *exports_json, *name, *metadata_json;
	uint64_t updated_ns, trashed_ns;
	enum ws_row_state state;
};

/* Runs a statement that must have met exactly the row of one workspace. */
static int step_one_row(sqlite3 *db, sqlite3_stmt *st, const char *what, struct err *err)
{
	if (sqlite3_step(st) != SQLITE_DONE)
		return store_fail(db, what, err);
	if (sqlite3_changes(db) != 1)
		return err_set(err, -ENOENT, "store: %s: no such workspace", what);
	return 0;
}

static int update_state(sqlite3 *db, void *arg, struct err *err)
{
	static const char what[] = "change a workspace's state";
	auto_stmt sqlite3_stmt *st = NULL;
	const struct ws_change *c = arg;
	int rc = store_prepare(db, "UPDATE workspaces SET state = ? WHERE id = ?", what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_u64(st, 1, c->state);
	(void)store_bind_text(st, 2, c->id);
	return step_one_row(db, st, what, err);
}

int store_ws_set_state(struct store *s, const char *id, enum ws_row_state state, struct err *err)
{
	struct ws_change c = { .id = id, .state = state };

	return store_write(s, "change a workspace's state", update_state, &c, err);
}

static int update_exports(sqlite3 *db, void *arg, struct err *err)
{
	static const char what[] = "change a workspace's export rules";
	auto_stmt sqlite3_stmt *st = NULL;
	const struct ws_change *c = arg;
	int rc = store_prepare(db, "UPDATE workspaces SET exports = ?, updated_ns = ? WHERE id = ?",
			       what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, c->exports_json);
	(void)store_bind_u64(st, 2, c->updated_ns);
	(void)store_bind_text(st, 3, c->id);
	return step_one_row(db, st, what, err);
}

int store_ws_set_exports(struct store *s, const char *id, const char *json_or_null,
			 uint64_t updated_ns, struct err *err)
{
	struct ws_change c = { .id = id, .exports_json = json_or_null, .updated_ns = updated_ns };

	return store_write(s, "change a workspace's export rules", update_exports, &c, err);
}

static int update_trashed(sqlite3 *db, void *arg, struct err *err)
{
	static const char what[] = "move a workspace to the trash";
	auto_stmt sqlite3_stmt *st = NULL;
	const struct ws_change *c = arg;
	int rc = store_prepare(db, "UPDATE workspaces SET state = ?, trashed_ns = ? WHERE id = ?",
			       what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_u64(st, 1, WS_ROW_TRASHED);
	(void)store_bind_u64(st, 2, c->trashed_ns);
	(void)store_bind_text(st, 3, c->id);
	return step_one_row(db, st, what, err);
}

int store_ws_set_trashed(struct store *s, const char *id, uint64_t trashed_ns, struct err *err)
{
	struct ws_change c = { .id = id, .trashed_ns = trashed_ns };

	return store_write(s, "move a workspace to the trash", update_trashed, &c, err);
}

static int update_labels(sqlite3 *db, void *arg, struct err *err)
{
	static const char what[] = "change a workspace's name and metadata";
	static const char sql[] =
		"UPDATE workspaces SET name = ?, metadata = ?, updated_ns = ? WHERE id = ?";
	auto_stmt sqlite3_stmt *st = NULL;
	const struct ws_change *c = arg;
	int rc = store_prepare(db, sql, what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, c->name);
	(void)store_bind_text(st, 2, c->metadata_json);
	(void)store_bind_u64(st, 3, c->updated_ns);
	(void)store_bind_text(st, 4, c->id);
	return step_one_row(db, st, what, err);
}

int store_ws_set_labels(struct store *s, const char *id, const char *name_or_null,
			const char *metadata_json, uint64_t updated_ns, struct err *err)
{
	struct ws_change c = { .id = id,
			       .name = name_or_null,
			       .metadata_json = metadata_json,
			       .updated_ns = updated_ns };

	return store_write(s, "change a workspace's name and metadata", update_labels, &c, err);
}

static int delete_row(sqlite3 *db, void *arg, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, "DELETE FROM workspaces WHERE id = ?", "remove a workspace", &st,
			       err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, arg);
	return step_one_row(db, st, "remove a workspace", err);
}

int store_ws_remove(struct store *s, const char *id, struct err *err)
{
	return store_write(s, "remove a workspace", delete_row, (void *)(uintptr_t)id, err);
}

/* ---- reading ------------------------------------------------------------ */

enum {
	COL_SEQ,
	COL_ID,
	COL_NAME,
	COL_METADATA,
	COL_EXPORTS,
	COL_UID,
	COL_GID,
	COL_CREATED,
	COL_UPDATED,
	COL_STATE,
	COL_TRASHED,
	COL_ADOPTED
};

#define SELECT                                                                                     \
	"SELECT seq, id, name, metadata, exports, owner_uid, owner_gid,"                           \
	" created_ns, updated_ns, state, trashed_ns, adopted FROM workspaces"
static const char select_sql[] = SELECT " ORDER BY seq";
static const char select_one_sql[] = SELECT " WHERE id = ?";

/* Owned copy of a text column; NULL stays NULL.  A NUL byte inside is damage. */
static int copy_text(sqlite3_stmt *st, int col, char **ret)
{
	const char *text = (const char *)sqlite3_column_text(st, col);

	if (text == NULL)
		return sqlite3_column_type(st, col) == SQLITE_NULL ? 0 : -ENOMEM;
	if (strlen(text) != (size_t)sqlite3_column_bytes(st, col))
		return -EINVAL;
	*ret = strdup(text);
	return *ret == NULL ? -ENOMEM : 0;
}

/* -EINVAL: the row is damaged.  @row is to be finished by the caller in any case. */
static int read_row(sqlite3_stmt *st, struct ws_row *row)
{
	const char *id = (const char *)sqlite3_column_text(st, COL_ID);
	uint64_t state = store_column_u64(st, COL_STATE);
	uint64_t uid = store_column_u64(st, COL_UID);
	uint64_t gid = store_column_u64(st, COL_GID);
	int rc;

	if (id == NULL || strlen(id) != sizeof(row->id) - 1 || state > WS_ROW_TRASHED ||
	    uid > UINT32_MAX || gid > UINT32_MAX)
		return -EINVAL;
	memcpy(row->id, id, sizeof(row->id));
	row->seq = store_column_u64(st, COL_SEQ);
	row->owner_uid = (uint32_t)uid;
	row->owner_gid = (uint32_t)gid;
	row->created_ns = store_column_u64(st, COL_CREATED);
	row->updated_ns = store_column_u64(st, COL_UPDATED);
	row->trashed_ns = store_column_u64(st, COL_TRASHED);
	row->state = (enum ws_row_state)state;
	rc = copy_text(st, COL_NAME, &row->name);
	if (rc == 0)
		rc = copy_text(st, COL_METADATA, &row->metadata_json);
	if (rc == 0)
		rc = copy_text(st, COL_EXPORTS, &row->exports_json);
	if (rc == 0)
		rc = copy_text(st, COL_ADOPTED, &row->adopted);
	if (rc == 0 && row->metadata_json == NULL)
		rc = -EINVAL;
	return rc;
}

static int each_row(sqlite3 *db, int (*fn)(void *arg, const struct ws_row *row), void *arg,
		    struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	int step = SQLITE_DONE;
	int rc = store_prepare(db, select_sql, "list workspaces", &st, err);

	while (rc == 0 && (step = sqlite3_step(st)) == SQLITE_ROW) {
		struct ws_row row = { 0 };

		rc = read_row(st, &row);
		if (rc == 0)
			rc = fn(arg, &row);
		else if (rc == -EINVAL) {
			log_error(LOG_STORE, "skipped a damaged workspace row seq=%llu",
				  (unsigned long long)store_column_u64(st, COL_SEQ));
			rc = 0;
		} else
			(void)err_set(err, rc, "store: list workspaces: %s", strerror(-rc));
		ws_row_fini(&row);
	}
	if (rc == 0 && step != SQLITE_DONE)
		rc = store_fail(db, "list workspaces", err);
	return rc;
}

int store_ws_each(struct store *s, int (*fn)(void *arg, const struct ws_row *row), void *arg,
		  struct err *err)
{
	int rc;

	(void)pthread_mutex_lock(&s->mutex);
	rc = each_row(s->db, fn, arg, err);
	(void)pthread_mutex_unlock(&s->mutex);
	return rc;
}

static int get_row(sqlite3 *db, const char *id, struct ws_row *ret, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, select_one_sql, "read a workspace", &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, id);
	switch (sqlite3_step(st)) {
	case SQLITE_ROW:
		rc = read_row(st, ret);
		if (rc < 0)
			(void)err_set(err, rc, "store: the row of a workspace is damaged");
		return rc;
	case SQLITE_DONE:
		return err_set(err, -ENOENT, "store: no such workspace");
	default:
		return store_fail(db, "read a workspace", err);
	}
}

int store_ws_get(struct store *s, const char *id, struct ws_row *ret, struct err *err)
{
	int rc;

	*ret = (struct ws_row){ 0 };
	(void)pthread_mutex_lock(&s->mutex);
	rc = get_row(s->db, id, ret, err);
	(void)pthread_mutex_unlock(&s->mutex);
	return rc;
}
