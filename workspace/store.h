/* SPDX-License-Identifier: MIT */
/*
 * The store: SQLite in WAL mode below the data directory.  The only folder that sees sqlite is this
 * one's store*.c.  Every write is one IMMEDIATE transaction; reads and writes block, so callers are
 * pool threads (or main, before the loops run).  One connection, guarded by a mutex.
 */
#ifndef WORKSPACE_STORE_H
#define WORKSPACE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct store;

/**
 * store_open() - open or make the database and bring its schema up to date
 * @data_dir:	absolute; "workspace.db" lies there unless @url says otherwise
 * @url:	WORKSPACE_DATABASE_URL or NULL: sqlite:PATH, sqlite://PATH (relative),
 *		sqlite:///PATH (absolute).  Relative means to @data_dir, since the working
 *		directory of a daemon is nobody's.  A query is ignored.
 *
 * Makes missing folders; the data directory is closed to others (0700), the database is 0600.
 * Takes an exclusive lock on the data directory (a lock file), so that a second daemon is refused
 * with a sentence that names the process that holds it (-EBUSY).  A database of a newer version
 * than this program knows is refused (-EPROTONOSUPPORT).
 */
int store_open(const char *data_dir, const char *url, struct store **ret, struct err *err);
void store_close(struct store *s);

enum ws_row_state {
	WS_ROW_LIVE = 0,
	WS_ROW_DELETING = 1,
	WS_ROW_MAKING = 2,
	WS_ROW_TRASHED = 3, /* since trashed_ns */
};

struct ws_row {
	char id[37];
	char *name;          /* owned, may be NULL */
	char *metadata_json; /* owned; an object of strings */
	char *exports_json;  /* owned, NULL: the default rules */
	char *adopted;       /* owned, NULL: its files are ours; else the directory they are in */
	uint32_t owner_uid, owner_gid;
	uint64_t seq, created_ns, updated_ns, trashed_ns;
	enum ws_row_state state;
};
void ws_row_fini(struct ws_row *row);

/* store_ws_insert() - sets row->seq; -EEXIST when the id is taken */
int store_ws_insert(struct store *s, struct ws_row *row, struct err *err);
/* The next five: -ENOENT when there is no such row. */
int store_ws_set_state(struct store *s, const char *id, enum ws_row_state state, struct err *err);
int store_ws_set_exports(struct store *s, const char *id, const char *json_or_null,
			 uint64_t updated_ns, struct err *err);
int store_ws_set_trashed(struct store *s, const char *id, uint64_t trashed_ns, struct err *err);
int store_ws_set_labels(struct store *s, const char *id, const char *name_or_null,
			const char *metadata_json, uint64_t updated_ns, struct err *err);
int store_ws_remove(struct store *s, const char *id, struct err *err); /* and its hints */

/* store_ws_each() - all rows, oldest first; stops when @fn returns other than 0, and returns that.
 * A damaged row is logged and skipped.  The store is locked meanwhile: @fn must not call it.  So
 * for store_hints_each(). */
int store_ws_each(struct store *s, int (*fn)(void *arg, const struct ws_row *row), void *arg,
		  struct err *err);

struct hint_row {
	char ws_id[37];
	uint64_t ino, birth_ns, parent_ino;
	const char *name; /* borrowed; NULL in store_hints_put(): forget this inode */
};
/* store_hints_put() - one transaction; rows of workspaces that are gone are passed over */
int store_hints_put(struct store *s, const struct hint_row *rows, size_t n, struct err *err);
int store_hints_each(struct store *s, const char *ws_id,
		     int (*fn)(void *arg, const struct hint_row *row), void *arg, struct err *err);

/* store_ws_get() - one row, whatever its state; *@ret is to be finished.  -ENOENT */
int store_ws_get(struct store *s, const char *id, struct ws_row *ret, struct err *err);

/* ---- Idempotency-Key ---------------------------------------------------- */

#define STORE_IDEM_HASH    32    /* bytes */
#define STORE_IDEM_MAX     10000 /* keys; beyond it the oldest are forgotten */
#define STORE_IDEM_AGE_MAX (24ull * 3600 * 1000000000ull) /* ns that a key is remembered */

struct store_idem {
	uint8_t hash[STORE_IDEM_HASH]; /* of the request's body */
	char ws_id[37];                /* of what it was to make */
	char *answer;                  /* owned; NULL: it was not answered yet */
};

/**
 * store_idem_claim() - take a key for a request, or find that it was taken
 * @idem:	in: hash and ws_id; out, when it was taken: those of then, and the answer
 *
 * Return: 0 it is ours, 1 it was taken, -errno.
 */
int store_idem_claim(struct store *s, const char *key, uint64_t now_ns, struct store_idem *idem,
		     struct err *err);
int store_idem_answer(struct store *s, const char *key, const char *answer, struct err *err);
int store_idem_forget(struct store *s, const char *key, struct err *err);

struct quota_row {
	char ws_id[37];
	uint64_t max_bytes, max_files; /* UINT64_MAX: no limit */
	uint64_t used_bytes, used_files;
};
int store_quota_put(struct store *s, const struct quota_row *row, struct err *err); /* or -ENOENT */
int store_quota_remove(struct store *s, const char *id, struct err *err);
/* store_quota_get() - 1, 0 when it has none, -errno */
int store_quota_get(struct store *s, const char *id, struct quota_row *ret, struct err *err);

/* store_check() - for /ready: can it be read and written now? */
int store_check(struct store *s, struct err *err);

#endif
