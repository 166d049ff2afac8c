/* SPDX-License-Identifier: MIT */
/*
 * Name and metadata of a workspace that is there already (see workspace.h).  They are read under a
 * lock that is held for as long as copying them takes, so one for all workspaces does.
 */
#include "workspace/workspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "workspace/registry_priv.h"
#include "workspace/ws_meta.h"

static pthread_rwlock_t labels_lock = PTHREAD_RWLOCK_INITIALIZER;

void ws_labels_hold(void)
{
	(void)pthread_rwlock_rdlock(&labels_lock);
}

void ws_labels_release(void)
{
	(void)pthread_rwlock_unlock(&labels_lock);
}

/* A name and metadata in the making; borrowed texts. */
struct labels {
	const char *name;
	struct ws_pair pairs[2 * WS_META_PAIRS_MAX];
	size_t n;
};

static struct ws_pair *find_pair(struct labels *l, const char *key)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->pairs[i].key, key) == 0)
			return &l->pairs[i];
	return NULL;
}

/* A value of NULL takes the pair away. */
static void merge_pair(struct labels *l, const struct ws_pair *p)
{
	struct ws_pair *old = find_pair(l, p->key);

	if (p->value != NULL) {
		if (old == NULL)
			old = &l->pairs[l->n++];
		*old = *p;
	} else if (old != NULL) {
		memmove(old, old + 1, (size_t)(&l->pairs[l->n] - (old + 1)) * sizeof(*old));
		l->n--;
	}
}

static int merge(const struct workspace *ws, const struct ws_patch *p, struct labels *l,
		 struct err *err)
{
	int rc = 0;

	if (p->n_metadata > WS_META_PAIRS_MAX)
		return err_set(err, -EINVAL, "'metadata' may have at most %d members",
			       WS_META_PAIRS_MAX);
	l->name = p->has_name ? p->name : ws->name;
	l->n = p->replaces_metadata ? 0 : ws->n_metadata;
	if (l->n > 0)
		memcpy(l->pairs, ws->metadata, l->n * sizeof(*l->pairs));
	for (size_t i = 0; i < p->n_metadata; i++)
		merge_pair(l, &p->metadata[i]);
	if (l->name != NULL)
		rc = ws_name_check(l->name, err);
	return rc < 0 ? rc : ws_meta_check(l->pairs, l->n, err);
}

/* Store first, then memory.  The change mutex is held, so that reading @ws needs no lock. */
static int update_locked(struct ws_registry *r, struct workspace *ws, const struct ws_patch *p,
			 struct err *err)
{
	struct labels l;
	struct ws_pair *pairs = NULL;
	auto_free char *name = NULL;
	auto_free char *json = NULL;
	uint64_t now_ns = clock_real_ns();
	int rc = merge(ws, p, &l, err);

	if (rc < 0)
		return rc;
	json = ws_meta_to_json(l.pairs, l.n);
	name = l.name != NULL ? strdup(l.name) : NULL;
	if (json == NULL || (l.name != NULL && name == NULL) ||
	    ws_meta_copy(l.pairs, l.n, &pairs) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	rc = store_ws_set_labels(r->store, ws->id, name, json, now_ns, err);
	if (rc < 0) {
		ws_meta_free(pairs, l.n);
		return rc;
	}
	(void)pthread_rwlock_wrlock(&labels_lock);
	ws_meta_free(ws->metadata, ws->n_metadata);
	free(ws->name);
	ws->metadata = pairs;
	ws->n_metadata = l.n;
	ws->name = take_ptr(name);
	__atomic_store_n(&ws->updated_ns, now_ns, __ATOMIC_RELAXED);
	(void)pthread_rwlock_unlock(&labels_lock);
	return 0;
}

int ws_update(struct ws_registry *r, struct workspace *ws, const struct ws_patch *p,
	      struct err *err)
{
	int rc;

	(void)pthread_mutex_lock(&r->change_mutex);
	rc = update_locked(r, ws, p, err);
	(void)pthread_mutex_unlock(&r->change_mutex);
	return rc;
}
