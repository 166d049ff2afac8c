/* SPDX-License-Identifier: MIT */
/*
 * The trash: workspaces that were deleted and can still be had back (see workspace.h).
 *
 * A deleted workspace's folder is moved into `workspaces/.trash`, after its row says so; on the way
 * back the row changes last.  A crash in between leaves a row TRASHED whose folder is at its old
 * place, and the next start moves it.
 */
#include "workspace/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "workspace/registry_priv.h"

#define TRASH_NAME ".trash"

struct trash_node {
	struct list link;
	struct workspace *ws; /* owned reference; in memory alone */
	uint64_t trashed_ns;
};

/* ---- the list ----------------------------------------------------------- */

/* Oldest first; nearly always the last. */
static void link_node(struct ws_registry *r, struct trash_node *n)
{
	struct list *after;

	(void)pthread_mutex_lock(&r->trash_mutex);
	for (after = r->trash.prev; after != &r->trash; after = after->prev)
		if (list_entry(after, struct trash_node, link)->trashed_ns <= n->trashed_ns)
			break;
	list_add_head(after, &n->link);
	(void)pthread_mutex_unlock(&r->trash_mutex);
}

/* Takes @ws. */
static int add_node(struct ws_registry *r, struct workspace *ws, uint64_t trashed_ns)
{
	struct trash_node *n = malloc(sizeof(*n));

	if (n == NULL) {
		workspace_unref(ws);
		return -ENOMEM;
	}
	n->ws = ws;
	n->trashed_ns = trashed_ns;
	link_node(r, n);
	return 0;
}

static void free_node(struct trash_node *n)
{
	workspace_unref(n->ws);
	free(n);
}

/* Out of the list: whoever gets it is the only one who acts on it.  NULL: not there. */
static struct trash_node *take_node(struct ws_registry *r, const char *id)
{
	struct trash_node *found = NULL;
	struct list *pos, *tmp;

	(void)pthread_mutex_lock(&r->trash_mutex);
	list_for_each_safe (pos, tmp, &r->trash) {
		struct trash_node *n = list_entry(pos, struct trash_node, link);

		if (strcmp(n->ws->id, id) == 0) {
			list_del(&n->link);
			found = n;
			break;
		}
	}
	(void)pthread_mutex_unlock(&r->trash_mutex);
	return found;
}

int ws_trash_list(struct ws_registry *r,
		  int (*fn)(void *arg, const struct workspace *ws, uint64_t trashed_ns), void *arg)
{
	struct list *pos;
	int rc = 0;

	(void)pthread_mutex_lock(&r->trash_mutex);
	for (pos = r->trash.prev; pos != &r->trash && rc == 0; pos = pos->prev) {
		const struct trash_node *n = list_entry(pos, struct trash_node, link);

		rc = fn(arg, n->ws, n->trashed_ns);
	}
	(void)pthread_mutex_unlock(&r->trash_mutex);
	return rc;
}

/* ---- folders ------------------------------------------------------------ */

int ws_trash_open(struct ws_registry *r, struct err *err)
{
	int fd;

	if (mkdirat(r->dir_fd, TRASH_NAME, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make the trash: %s", strerror(errno));
	fd = io_open_dir(r->dir_fd, TRASH_NAME);
	if (fd < 0)
		return err_set(err, fd, "open the trash: %s", strerror(-fd));
	r->trash_fd = fd;
	return 0;
}

void ws_trash_close(struct ws_registry *r)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &r->trash)
		free_node(list_entry(pos, struct trash_node, link));
	list_init(&r->trash);
	if (r->trash_fd >= 0)
		(void)close(take_fd(&r->trash_fd));
}

static int move_folder(const char *id, int from, int to, struct err *err)
{
	if (renameat(from, id, to, id) < 0 || fsync(to) < 0 || fsync(from) < 0)
		return err_set(err, -errno, "move the folder: %s", strerror(errno));
	return 0;
}

int ws_trash_load(struct ws_registry *r, const struct ws_row *row, struct err *err)
{
	struct workspace *ws;
	int rc = ws_registry_from_row(r, row, &ws, err);

	return rc < 0 ? rc : add_node(r, ws, row->trashed_ns);
}

void ws_trash_settle(struct ws_registry *r, const char *id)
{
	if (renameat(r->dir_fd, id, r->trash_fd, id) < 0 && errno != ENOENT)
		log_error(LOG_WS, "cannot move a folder to the trash ws=%.*s error=\"%s\"",
			  SHORT_ID, id, strerror(errno));
}

/* ---- in ----------------------------------------------------------------- */

/* What is kept of it in memory, read again from its row. */
static int remember(struct ws_registry *r, const char *id, struct err *err)
{
	struct ws_row row;
	int rc = store_ws_get(r->store, id, &row, err);

	if (rc == 0)
		rc = ws_trash_load(r, &row, err);
	ws_row_fini(&row);
	return rc;
}

static int trash_found(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	int rc = store_ws_set_trashed(r->store, ws->id, clock_real_ns(), err);

	if (rc < 0)
		return rc;
	if (!ws_registry_retire(r, ws))
		return err_set(err, -ENOENT, "it is being deleted already");
	rc = move_folder(ws->id, r->dir_fd, r->trash_fd, err);
	if (rc == 0)
		rc = remember(r, ws->id, err);
	workspace_unref(ws); /* the registry's */
	return rc;
}

int ws_trash(struct ws_registry *r, const char *id, struct err *err)
{
	struct workspace *ws = ws_find(r, id);
	int rc;

	if (ws == NULL)
		return err_set(err, -ENOENT, "no such workspace");
	rc = trash_found(r, ws, err);
	if (rc < 0)
		(void)err_wrap(err, rc, "move workspace to the trash");
	else
		log_info(LOG_WS, "moved to the trash ws=%.*s", SHORT_ID, ws->id);
	workspace_unref(ws);
	return rc;
}

/* ---- out ---------------------------------------------------------------- */

static int untrash_node(struct ws_registry *r, const struct trash_node *n, struct workspace **ret,
			struct err *err)
{
	const char *id = n->ws->id;
	struct workspace *ws = NULL;
	struct ws_row row;
	int rc = store_ws_get(r->store, id, &row, err);

	if (rc == 0)
		rc = ws_registry_from_row(r, &row, &ws, err);
	if (rc == 0)
		rc = move_folder(id, r->trash_fd, r->dir_fd, err);
	if (rc < 0)
		goto out;
	rc = store_ws_set_state(r->store, id, WS_ROW_LIVE, err);
	if (rc == 0)
		rc = ws_registry_publish(r, ws, err);
	if (rc < 0) { /* as it was; what does not work here, the next start does */
		(void)store_ws_set_trashed(r->store, id, n->trashed_ns, NULL);
		ws_trash_settle(r, id);
		goto out;
	}
	*ret = ws;
	ws = NULL;
out:
	workspace_unref(ws);
	ws_row_fini(&row);
	return rc;
}

int ws_untrash(struct ws_registry *r, const char *id, struct workspace **ret, struct err *err)
{
	struct trash_node *n = take_node(r, id);
	int rc;

	if (n == NULL)
		return err_set(err, -ENOENT, "no such workspace in the trash");
	rc = ws_registry_has_room(r, err);
	if (rc == 0)
		rc = untrash_node(r, n, ret, err);
	if (rc < 0) {
		link_node(r, n);
		return err_wrap(err, rc, "take workspace out of the trash");
	}
	log_info(LOG_WS, "taken out of the trash ws=%.*s", SHORT_ID, id);
	free_node(n);
	return 0;
}

/* ---- for good ----------------------------------------------------------- */

/* Takes @n. */
static int purge_node(struct ws_registry *r, struct trash_node *n, struct err *err)
{
	int rc = store_ws_set_state(r->store, n->ws->id, WS_ROW_DELETING, err);

	if (rc < 0) {
		link_node(r, n);
		return rc;
	}
	rc = ws_registry_remove(r, n->ws->id, err);
	if (rc == 0)
		log_info(LOG_WS, "deleted ws=%.*s", SHORT_ID, n->ws->id);
	free_node(n); /* what is left is finished at the next start */
	return rc;
}

int ws_trash_delete(struct ws_registry *r, const char *id, struct err *err)
{
	struct trash_node *n = take_node(r, id);

	return n == NULL ? -ENOENT : purge_node(r, n, err);
}

/* The oldest that was there at @until_ns already, taken out; NULL: none. */
static struct trash_node *take_older(struct ws_registry *r, uint64_t until_ns)
{
	struct trash_node *n = NULL;

	(void)pthread_mutex_lock(&r->trash_mutex);
	if (!list_is_empty(&r->trash)) {
		n = list_entry(r->trash.next, struct trash_node, link);
		if (n->trashed_ns <= until_ns)
			list_del(&n->link);
		else
			n = NULL;
	}
	(void)pthread_mutex_unlock(&r->trash_mutex);
	return n;
}

bool ws_trash_is_due(struct ws_registry *r, uint64_t until_ns)
{
	bool is_due = false;

	(void)pthread_mutex_lock(&r->trash_mutex);
	if (!list_is_empty(&r->trash))
		is_due = list_entry(r->trash.next, struct trash_node, link)->trashed_ns <= until_ns;
	(void)pthread_mutex_unlock(&r->trash_mutex);
	return is_due;
}

void ws_trash_purge(struct ws_registry *r, uint64_t until_ns)
{
	struct trash_node *n = take_older(r, until_ns);
	struct err err = { 0 };

	if (n != NULL && purge_node(r, n, &err) < 0)
		log_error(LOG_WS, "cannot empty the trash why=\"%s\"", err.msg);
}
