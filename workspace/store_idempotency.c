/* SPDX-License-Identifier: MIT */
/*
 * Keys of requests that may be sent twice (see store.h).  A key is claimed, and on disk, before
 * anything is made for it, together with the id that the new workspace will have: after a crash the
 * second request can tell what became of the first.
 */
#include "workspace/store_db.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct claim {
	const char *key;
	uint64_t now_ns;
	struct store_idem *idem;
	const char *answer;
};

static const char claim_what[] = "remember an idempotency key";

static int forget_some(sqlite3 *db, const char *sql, uint64_t arg, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, sql, claim_what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_u64(st, 1, arg);
	return sqlite3_step(st) == SQLITE_DONE ? 0 : store_fail(db, claim_what, err);
}

static int forget_old(sqlite3 *db, uint64_t now_ns, struct err *err)
{
	return forget_some(db, "DELETE FROM idempotency WHERE created_ns < ?",
			   now_ns - MIN(now_ns, STORE_IDEM_AGE_MAX), err);
}

static int make_room(sqlite3 *db, struct err *err)
{
	static const char sql[] =
		"DELETE FROM idempotency WHERE key IN (SELECT key FROM idempotency"
		" ORDER BY created_ns DESC LIMIT -1 OFFSET ?)";

	return forget_some(db, sql, STORE_IDEM_MAX - 1, err);
}

/* Return: 1 found, 0, -errno. */
static int find_key(sqlite3 *db, const struct claim *c, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	const char *id, *answer;
	int rc = store_prepare(db, "SELECT hash, ws_id, answer FROM idempotency WHERE key = ?",
			       claim_what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, c->key);
	rc = sqlite3_step(st);
	if (rc == SQLITE_DONE)
		return 0;
	if (rc != SQLITE_ROW)
		return store_fail(db, claim_what, err);
	id = (const char *)sqlite3_column_text(st, 1);
	answer = (const char *)sqlite3_column_text(st, 2);
	if (sqlite3_column_bytes(st, 0) != STORE_IDEM_HASH || id == NULL ||
	    strlen(id) != sizeof(c->idem->ws_id) - 1)
		return err_set(err, -EINVAL, "store: a remembered idempotency key is damaged");
	memcpy(c->idem->hash, sqlite3_column_blob(st, 0), STORE_IDEM_HASH);
	memcpy(c->idem->ws_id, id, sizeof(c->idem->ws_id));
	c->idem->answer = answer != NULL ? strdup(answer) : NULL;
	return answer != NULL && c->idem->answer == NULL ? -ENOMEM : 1;
}

static int insert_key(sqlite3 *db, const struct claim *c, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	int rc = store_prepare(
		db, "INSERT INTO idempotency (key, hash, ws_id, created_ns) VALUES (?, ?, ?, ?)",
		claim_what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, c->key);
	(void)sqlite3_bind_blob(st, 2, c->idem->hash, STORE_IDEM_HASH, SQLITE_STATIC);
	(void)store_bind_text(st, 3, c->idem->ws_id);
	(void)store_bind_u64(st, 4, c->now_ns);
	return sqlite3_step(st) == SQLITE_DONE ? 0 : store_fail(db, claim_what, err);
}

static int claim_key(sqlite3 *db, void *arg, struct err *err)
{
	const struct claim *c = arg;
	int rc = forget_old(db, c->now_ns, err);

	if (rc == 0)
		rc = find_key(db, c, err);
	if (rc != 0)
		return rc;
	rc = make_room(db, err);
	return rc < 0 ? rc : insert_key(db, c, err);
}

int store_idem_claim(struct store *s, const char *key, uint64_t now_ns, struct store_idem *idem,
		     struct err *err)
{
	struct claim c = { .key = key, .now_ns = now_ns, .idem = idem };

	idem->answer = NULL;
	return store_write(s, claim_what, claim_key, &c, err);
}

static int set_answer(sqlite3 *db, void *arg, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	const struct claim *c = arg;
	int rc = store_prepare(db, "UPDATE idempotency SET answer = ? WHERE key = ?", claim_what,
			       &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, c->answer);
	(void)store_bind_text(st, 2, c->key);
	return sqlite3_step(st) == SQLITE_DONE ? 0 : store_fail(db, claim_what, err);
}

int store_idem_answer(struct store *s, const char *key, const char *answer, struct err *err)
{
	struct claim c = { .key = key, .answer = answer };

	return store_write(s, claim_what, set_answer, &c, err);
}

static int delete_key(sqlite3 *db, void *arg, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	const struct claim *c = arg;
	int rc = store_prepare(db, "DELETE FROM idempotency WHERE key = ?", claim_what, &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_text(st, 1, c->key);
	return sqlite3_step(st) == SQLITE_DONE ? 0 : store_fail(db, claim_what, err);
}

int store_idem_forget(struct store *s, const char *key, struct err *err)
{
	struct claim c = { .key = key };

	return store_write(s, claim_what, delete_key, &c, err);
}
