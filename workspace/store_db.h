/* SPDX-License-Identifier: MIT */
/*
 * What the store's files share: the connection, errors in words, statements that finalise
 * themselves.  Included by store*.c alone, since it shows sqlite.
 */
#ifndef WORKSPACE_STORE_DB_H
#define WORKSPACE_STORE_DB_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workspace/store.h"

struct store {
	pthread_mutex_t mutex;
	sqlite3 *db;    /* owned; protected by mutex */
	int lock_fd;    /* owned; holds the data directory's lock */
	int db_lock_fd; /* owned; -1, or the lock beside a database that lies elsewhere */
};

/* store_fail() - the last error of @db as errno and sentence: "store: WHAT: database or disk is
 * full" */
int store_fail(sqlite3 *db, const char *what, struct err *err);

static inline void store_stmt_cleanup_(sqlite3_stmt **st)
{
	(void)sqlite3_finalize(*st);
}
#define auto_stmt __attribute__((cleanup(store_stmt_cleanup_)))

/* store_prepare() - owned statement in *@ret, or -errno with a sentence that names @what */
int store_prepare(sqlite3 *db, const char *sql, const char *what, sqlite3_stmt **ret,
		  struct err *err);

/* store_exec() - statements without parameters or rows */
int store_exec(sqlite3 *db, const char *sql, const char *what, struct err *err);

/**
 * store_write() - run @fn as one IMMEDIATE transaction
 * @what:	for the sentence when beginning or committing fails
 *
 * Takes the mutex.  Committed, and on disk, when this returns 0 or more; else rolled back.
 */
int store_write(struct store *s, const char *what,
		int (*fn)(sqlite3 *db, void *arg, struct err *err), void *arg, struct err *err);

/* Columns and parameters hold 64 bits with a sign; ours have none and are stored as the same bits.
 */
static inline int store_bind_u64(sqlite3_stmt *st, int i, uint64_t v)
{
	return sqlite3_bind_int64(st, i, (sqlite3_int64)v);
}

static inline uint64_t store_column_u64(sqlite3_stmt *st, int i)
{
	return (uint64_t)sqlite3_column_int64(st, i);
}

/* Text or bytes that outlive the statement's step; NULL binds NULL. */
static inline int store_bind_text(sqlite3_stmt *st, int i, const char *text)
{
	return sqlite3_bind_text(st, i, text, -1, SQLITE_STATIC);
}

/* ---- store_migrations.c ------------------------------------------------- */

/* store_migrate() - bring an open database up to date, or refuse one that is newer than this
 * program */
int store_migrate(sqlite3 *db, struct err *err);

/* ---- store_url.c -------------------------------------------------------- */

/* store_url_path() - owned path of the database file that @url (may be NULL) names */
int store_url_path(const char *data_dir, const char *url, char **ret, struct err *err);

#endif
