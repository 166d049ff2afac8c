/* SPDX-License-Identifier: MIT */
/* Limits in force, the thread that counts, and what is stored (see quota.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "workspace/quota.h"
#include "workspace/store.h"
#include "workspace/tree_walk.h"

#define TURN_NS     NSEC_PER_SEC /* how late a count that is due may begin */
#define COUNT_SHARE 20           /* counting takes at most a twentieth of the time */
#define RACED_TRIES                                                                                \
	3 /* counts that may have missed what was moved; then such a one is believed               \
	   */
#define LINKS_BYTES (1u << 30) /* of hard-linked names noted by one count: some 60 million */

struct quota_service {
	struct store *store;
	struct ws_registry *registry;
	pthread_mutex_t set_mutex; /* one change at a time: store and memory end up the same */
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool is_stopping; /* protected by mutex */
	pthread_t thread;
};

/* ---- counting ----------------------------------------------------------- */

struct linked {
	uint64_t ino;
	int64_t bytes;
};

struct count {
	struct quota_service *service; /* NULL: is not stopped */
	const struct workspace *ws;
	struct quota_amount sum;
	struct buf links; /* struct linked of each name of files that have several */
};

static bool is_stopping(struct quota_service *s)
{
	return s != NULL && __atomic_load_n(&s->is_stopping, __ATOMIC_RELAXED);
}

static int count_entry(void *arg, const struct tree_entry *t)
{
	struct count *c = arg;
	const struct statx *x = t->stx;
	struct linked l = { .ino = x->stx_ino };

	if (is_stopping(c->service) || __atomic_load_n(&c->ws->is_gone, __ATOMIC_RELAXED))
		return -ECANCELED;
	if (S_ISREG(x->stx_mode))
		l.bytes = quota_blocks(x->stx_size);
	if (!S_ISDIR(x->stx_mode) && x->stx_nlink > 1)
		return buf_append(&c->links, &l, sizeof(l));
	c->sum.bytes += l.bytes;
	c->sum.files++;
	return 0;
}

static int by_ino(const void *a, const void *b)
{
	uint64_t x = ((const struct linked *)a)->ino, y = ((const struct linked *)b)->ino;

	return x < y ? -1 : x > y;
}

static void add_links(struct count *c)
{
	struct linked *l = (struct linked *)(void *)c->links.data;
	size_t n = c->links.len / sizeof(*l);

	if (n > 1)
		qsort(l, n, sizeof(*l), by_ino);
	for (size_t i = 0; i < n; i++) {
		if (i > 0 && l[i].ino == l[i - 1].ino)
			continue;
		c->sum.bytes += l[i].bytes;
		c->sum.files++;
	}
}

/* All that is there now; what was changed meanwhile is counted or not. */
static int count_workspace(struct quota_service *s, const struct workspace *ws,
			   struct quota_amount *ret, struct tree_walk_result *ret_how)
{
	struct count c = { .service = s, .ws = ws, .links.max = LINKS_BYTES };
	int rc = tree_walk(ws->root_fd, count_entry, &c, ret_how);

	if (rc == 0)
		add_links(&c);
	buf_free(&c.links);
	*ret = c.sum;
	return rc;
}

/*
 * What was held when a count began, and how far that can be from what it finds.
 *
 * Of what our doors charged and credited since (and of what was under way) the count may have seen
 * any part.  What lies beyond was done by others.
 */
struct before {
	struct quota_amount used, charged, credited, pending;
};

static struct before take_before(struct ws_quota *q)
{
	struct before b;

	(void)pthread_mutex_lock(&q->mutex);
	b = (struct before){ q->used, q->charged, q->credited, q->pending };
	q->wants_count = false;
	(void)pthread_mutex_unlock(&q->mutex);
	return b;
}

static int64_t drift(int64_t found, int64_t used, int64_t charged, int64_t credited)
{
	int64_t least = found - used - charged, most = found - used + credited;

	return least > 0 ? least : most < 0 ? most : 0;
}

/*
 * What one count misses is given back when the next one misses it too: an operation of ours that has removed a
 * file, but not yet said so, looks the same as somebody else's removal for that moment.
 */
static int64_t confirmed(int64_t drift_now, int64_t *doubt)
{
	int64_t give = drift_now < 0 ? MAX(drift_now, *doubt) : drift_now;

	*doubt = drift_now < 0 ? drift_now - give : 0;
	return give;
}

/* @is_least: a part was not seen, so that nothing may be given back for what was not found. */
static void correct(struct ws_quota *q, const struct before *b, const struct quota_amount *found,
		    bool is_least)
{
	struct quota_amount d;

	(void)pthread_mutex_lock(&q->mutex);
	d.bytes = drift(found->bytes, b->used.bytes, q->charged.bytes - b->charged.bytes,
			q->credited.bytes - b->credited.bytes + b->pending.bytes);
	d.files = drift(found->files, b->used.files, q->charged.files - b->charged.files,
			q->credited.files - b->credited.files + b->pending.files);
	if (is_least)
		d = (struct quota_amount){ MAX(d.bytes, 0), MAX(d.files, 0) };
	q->used.bytes += confirmed(d.bytes, &q->doubt.bytes);
	q->used.files += confirmed(d.files, &q->doubt.files);
	if (q->doubt.bytes < 0 || q->doubt.files < 0)
		q->wants_count = true;
	(void)pthread_mutex_unlock(&q->mutex);
}

/* Called with q->counting held. */
static int recount(struct quota_service *s, const struct workspace *ws, struct ws_quota *q)
{
	struct before b = take_before(q);
	struct tree_walk_result how = { 0 };
	struct quota_amount found;
	int rc = count_workspace(s, ws, &found, &how);

	if (rc < 0)
		return rc;
	q->n_raced = how.is_raced ? q->n_raced + 1 : 0;
	correct(q, &b, &found, how.first_err != 0 || (q->n_raced > 0 && q->n_raced <= RACED_TRIES));
	if (q->n_raced > RACED_TRIES)
		q->n_raced = 0;
	return 0;
}

/* ---- storing ------------------------------------------------------------ */

static struct quota_row row_of(const struct workspace *ws, struct ws_quota *q)
{
	struct quota_row row = { 0 };

	memcpy(row.ws_id, ws->id, sizeof(row.ws_id));
	(void)pthread_mutex_lock(&q->mutex);
	row.max_bytes = q->limits.bytes;
	row.max_files = q->limits.files;
	row.used_bytes = (uint64_t)MAX(q->used.bytes, 0);
	row.used_files = (uint64_t)MAX(q->used.files, 0);
	(void)pthread_mutex_unlock(&q->mutex);
	return row;
}

static void store_usage(struct quota_service *s, const struct workspace *ws, struct ws_quota *q)
{
	struct quota_row row;
	struct err err = { 0 };

	(void)pthread_mutex_lock(&s->set_mutex);
	row = row_of(ws, q);
	if (quota_of(ws) == q && ((int64_t)row.used_bytes != q->stored.bytes ||
				  (int64_t)row.used_files != q->stored.files)) {
		if (store_quota_put(s->store, &row, &err) < 0)
			log_warn(LOG_WS, "cannot store the usage ws=%.8s why=\"%s\"", ws->id,
				 err.msg);
		q->stored.bytes = (int64_t)row.used_bytes;
		q->stored.files = (int64_t)row.used_files;
	}
	(void)pthread_mutex_unlock(&s->set_mutex);
}

/* ---- the thread --------------------------------------------------------- */

static bool is_due(struct ws_quota *q, uint64_t now_ns)
{
	bool is;

	(void)pthread_mutex_lock(&q->mutex);
	is = q->wants_count || now_ns >= q->next_count_ns;
	(void)pthread_mutex_unlock(&q->mutex);
	return is;
}

static void count_and_store(struct quota_service *s, struct workspace *ws, struct ws_quota *q)
{
	uint64_t begin = clock_mono_ns(), took;
	int rc;

	(void)pthread_mutex_lock(&q->counting);
	rc = recount(s, ws, q);
	(void)pthread_mutex_unlock(&q->counting);
	if (rc < 0 && rc != -ECANCELED)
		log_warn(LOG_WS, "cannot count what is held ws=%.8s error=%s", ws->id,
			 strerror(-rc));
	took = clock_mono_ns() - begin;
	q->next_count_ns = clock_mono_ns() +
			   MAX(q->n_raced > 0 ? TURN_NS : QUOTA_RECOUNT_NS, took * COUNT_SHARE);
}

static void visit_all(struct quota_service *s)
{
	struct workspace **list;
	size_t n;

	if (ws_list(s->registry, &list, &n) < 0)
		return;
	for (size_t i = 0; i < n && !is_stopping(s); i++) {
		struct ws_quota *q = quota_of(list[i]);

		if (q == NULL)
			continue;
		if (is_due(q, clock_mono_ns()))
			count_and_store(s, list[i], q);
		store_usage(s, list[i], q);
	}
	ws_list_free(list, n);
}

static void *service_main(void *arg)
{
	struct quota_service *s = arg;
	struct timespec until;
	uint64_t ns;

	(void)pthread_mutex_lock(&s->mutex);
	while (!s->is_stopping) {
		(void)pthread_mutex_unlock(&s->mutex);
		visit_all(s);
		ns = clock_mono_ns() + TURN_NS;
		until.tv_sec = (time_t)(ns / NSEC_PER_SEC);
		until.tv_nsec = (long)(ns % NSEC_PER_SEC);
		(void)pthread_mutex_lock(&s->mutex);
		while (!s->is_stopping && clock_mono_ns() < ns)
			(void)pthread_cond_timedwait(&s->cond, &s->mutex, &until);
	}
	(void)pthread_mutex_unlock(&s->mutex);
	return NULL;
}

/* ---- limits ------------------------------------------------------------- */

static struct ws_quota *quota_new(const struct quota_limits *limits)
{
	struct ws_quota *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	q->limits = *limits;
	(void)pthread_mutex_init(&q->mutex, NULL);
	(void)pthread_mutex_init(&q->counting, NULL);
	for (size_t i = 0; i < QUOTA_STRIPES; i++)
		(void)pthread_mutex_init(&q->sizes[i], NULL);
	return q;
}

/* The account of a workspace; kept when its quota is taken away, since an operation may still be
 * charging. */
static struct ws_quota *account_of(struct workspace *ws)
{
	static const struct quota_limits none = { QUOTA_UNLIMITED, QUOTA_UNLIMITED };

	if (ws->quota_kept == NULL)
		ws->quota_kept = quota_new(&none);
	return ws->quota_kept;
}

/* From now on the doors charge, without limits; then the count tells what had been there. */
static int begin_account(struct workspace *ws, struct ws_quota *q)
{
	int rc;

	(void)pthread_mutex_lock(&q->counting);
	(void)pthread_mutex_lock(&q->mutex);
	q->used = (struct quota_amount){ 0 };
	q->limits = (struct quota_limits){ QUOTA_UNLIMITED, QUOTA_UNLIMITED };
	(void)pthread_mutex_unlock(&q->mutex);
	__atomic_store_n(&ws->quota, q, __ATOMIC_RELEASE);
	rc = recount(NULL, ws, q);
	(void)pthread_mutex_unlock(&q->counting);
	quota_tree_changed(ws); /* once more: some operations may have begun without a quota */
	return rc;
}

static void take_away(struct workspace *ws)
{
	__atomic_store_n(&ws->quota, NULL, __ATOMIC_RELEASE);
}

static int set_limits(struct quota_service *s, struct workspace *ws, struct ws_quota *q,
		      const struct quota_limits *limits, struct err *err)
{
	struct quota_row row = row_of(ws, q);
	int rc;

	row.max_bytes = limits->bytes;
	row.max_files = limits->files;
	rc = store_quota_put(s->store, &row, err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&q->mutex);
	q->limits = *limits;
	(void)pthread_mutex_unlock(&q->mutex);
	return 0;
}

static int set_locked(struct quota_service *s, struct workspace *ws,
		      const struct quota_limits *limits, struct err *err)
{
	bool is_new = quota_of(ws) == NULL;
	struct ws_quota *q;
	int rc = 0;

	if (__atomic_load_n(&ws->is_gone, __ATOMIC_ACQUIRE))
		return err_set(err, -ENOENT, "the workspace is gone");
	if (limits->bytes == QUOTA_UNLIMITED && limits->files == QUOTA_UNLIMITED) {
		rc = store_quota_remove(s->store, ws->id, err);
		if (rc == 0)
			take_away(ws);
		return rc;
	}
	q = account_of(ws);
	if (q == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	if (is_new) {
		rc = begin_account(ws, q);
		if (rc < 0)
			(void)err_set(err, rc, "cannot count what is held: %s", strerror(-rc));
	}
	if (rc == 0)
		rc = set_limits(s, ws, q, limits, err);
	if (rc < 0 && is_new)
		take_away(ws);
	return rc;
}

int quota_set(struct quota_service *s, struct workspace *ws, const struct quota_limits *limits,
	      struct err *err)
{
	int rc;

	(void)pthread_mutex_lock(&s->set_mutex);
	rc = set_locked(s, ws, limits, err);
	(void)pthread_mutex_unlock(&s->set_mutex);
	return rc < 0 ? err_wrap(err, rc, "set the quota") : 0;
}

int quota_usage(struct workspace *ws, struct quota_usage *ret)
{
	struct ws_quota *q = quota_of(ws);

	*ret = (struct quota_usage){ .limits = { QUOTA_UNLIMITED, QUOTA_UNLIMITED } };
	if (q == NULL)
		return count_workspace(NULL, ws, &ret->used, &(struct tree_walk_result){ 0 });
	(void)pthread_mutex_lock(&q->mutex);
	ret->limits = q->limits;
	ret->used = q->used;
	(void)pthread_mutex_unlock(&q->mutex);
	return 0;
}

/* ---- start and stop ----------------------------------------------------- */

int quota_load(struct store *store, struct workspace *ws, struct err *err)
{
	struct quota_row row;
	struct ws_quota *q;
	int rc = store_quota_get(store, ws->id, &row, err);

	if (rc <= 0)
		return rc;
	q = account_of(ws);
	if (q == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	q->limits = (struct quota_limits){ row.max_bytes, row.max_files };
	q->used.bytes = q->stored.bytes = (int64_t)MIN(row.used_bytes, QUOTA_MAX);
	q->used.files = q->stored.files = (int64_t)MIN(row.used_files, QUOTA_MAX);
	__atomic_store_n(&ws->quota, q, __ATOMIC_RELEASE);
	return 0;
}

static void init_waiting(struct quota_service *s)
{
	pthread_condattr_t attr;

	(void)pthread_mutex_init(&s->set_mutex, NULL);
	(void)pthread_mutex_init(&s->mutex, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->cond, &attr);
	(void)pthread_condattr_destroy(&attr);
}

static void service_free(struct quota_service *s)
{
	(void)pthread_cond_destroy(&s->cond);
	(void)pthread_mutex_destroy(&s->mutex);
	(void)pthread_mutex_destroy(&s->set_mutex);
	free(s);
}

int quota_open(struct store *store, struct ws_registry *registry, struct quota_service **ret,
	       struct err *err)
{
	struct quota_service *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL)
		return err_set(err, -ENOMEM, "quota: out of memory");
	s->store = store;
	s->registry = registry;
	init_waiting(s);
	rc = -pthread_create(&s->thread, NULL, service_main, s);
	if (rc < 0) {
		service_free(s);
		return err_set(err, rc, "quota: no thread: %s", strerror(-rc));
	}
	*ret = s;
	return 0;
}

void quota_close(struct quota_service *s)
{
	struct workspace **list;
	size_t n;

	if (s == NULL)
		return;
	(void)pthread_mutex_lock(&s->mutex);
	__atomic_store_n(&s->is_stopping, true, __ATOMIC_RELAXED);
	(void)pthread_cond_broadcast(&s->cond);
	(void)pthread_mutex_unlock(&s->mutex);
	(void)pthread_join(s->thread, NULL);
	if (ws_list(s->registry, &list, &n) == 0) {
		for (size_t i = 0; i < n; i++)
			if (quota_of(list[i]) != NULL)
				store_usage(s, list[i], quota_of(list[i]));
		ws_list_free(list, n);
	}
	service_free(s);
}
