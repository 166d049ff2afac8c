/* SPDX-License-Identifier: MIT */
/*
 * The schema, as the steps that led to it.  A database carries the number of steps it has seen in
 * its user_version.  A step that has been released is never edited: a change is a new step at the
 * end.
 */
#include "workspace/store_db.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"

static const char *const migrations[] = {
	/* 1: workspaces, where their inodes were last seen, and the row that store_check() writes.
	 * seq never repeats (AUTOINCREMENT): it is the order of creation that lists show. */
	"CREATE TABLE workspaces ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	" id TEXT NOT NULL UNIQUE,"
	" name TEXT,"
	" metadata TEXT NOT NULL,"
	" exports TEXT,"
	" owner_uid INTEGER NOT NULL,"
	" owner_gid INTEGER NOT NULL,"
	" created_ns INTEGER NOT NULL,"
	" updated_ns INTEGER NOT NULL,"
	" state INTEGER NOT NULL"
	") STRICT;"
	"CREATE TABLE inode_hints ("
	" ws INTEGER NOT NULL REFERENCES workspaces(seq) ON DELETE CASCADE,"
	" ino INTEGER NOT NULL,"
	" birth_ns INTEGER NOT NULL,"
	" parent_ino INTEGER NOT NULL,"
	" name BLOB NOT NULL,"
	" PRIMARY KEY (ws, ino)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE probe (id INTEGER PRIMARY KEY CHECK (id = 1), at_ns INTEGER NOT NULL) "
	"STRICT;",

	/* 2: the trash, adopted directories, and requests that may be sent twice. */
	"ALTER TABLE workspaces ADD COLUMN trashed_ns INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE workspaces ADD COLUMN adopted TEXT;"
	"CREATE TABLE idempotency ("
	" key TEXT PRIMARY KEY,"
	" hash BLOB NOT NULL,"
	" ws_id TEXT NOT NULL,"
	" answer TEXT,"
	" created_ns INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX idempotency_age ON idempotency (created_ns);",

	/* 3: quotas.  A limit that is NULL is none. */
	"CREATE TABLE quotas ("
	" ws INTEGER PRIMARY KEY REFERENCES workspaces(seq) ON DELETE CASCADE,"
	" max_bytes INTEGER,"
	" max_files INTEGER,"
	" used_bytes INTEGER NOT NULL,"
	" used_files INTEGER NOT NULL"
	") STRICT;",
};

static int read_version(sqlite3 *db, int *ret, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, "PRAGMA user_version", "read the schema version", &st, err);

	if (rc < 0)
		return rc;
	if (sqlite3_step(st) != SQLITE_ROW)
		return store_fail(db, "read the schema version", err);
	*ret = sqlite3_column_int(st, 0);
	return 0;
}

static int run_steps(sqlite3 *db, int have, struct err *err)
{
	const int known = (int)ARRAY_LEN(migrations);
	int rc;

	if (have < 0 || have > known)
		return err_set(
			err, -EPROTONOSUPPORT,
			"store: the database has schema version %d, this program knows up to %d; "
			"start the newer program that made it",
			have, known);
	for (int i = have; i < known; i++) {
		char pragma[48];

		rc = store_exec(db, migrations[i], "change the schema", err);
		if (rc < 0)
			return err_wrap(err, rc, "schema step %d", i + 1);
		(void)snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", i + 1);
		rc = store_exec(db, pragma, "change the schema", err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int store_migrate(sqlite3 *db, struct err *err)
{
	int have = 0;
	int rc = store_exec(db, "BEGIN IMMEDIATE", "change the schema", err);

	if (rc < 0)
		return rc;
	rc = read_version(db, &have, err);
	if (rc == 0)
		rc = run_steps(db, have, err);
	if (rc == 0)
		rc = store_exec(db, "COMMIT", "change the schema", err);
	if (rc < 0)
		(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}
