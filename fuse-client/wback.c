/* SPDX-License-Identifier: MIT */
/*
 * A program's write is answered as soon as we have its bytes; this file sees to the rest.
 *
 *	wback_write --> dirty --WRITE UNSTABLE--> flying --reply--> unstable --COMMIT--> gone
 *	                  ^                                            |
 *	                  '------- another verifier: the server has forgotten --'
 *
 * Gathering: bytes that continue the last dirty extent join it until it fills one WRITE.  A full
 * extent leaves at once, another one when somebody waits for it or after GATHER_MS.
 *
 * Order: extents have numbers, in the order in which they were made.  An extent does not leave
 *while one that it overlaps is flying, and nothing overtakes within the dirty list, so that the
 *server sees overlapping writes in the order of the program.  For the same reason a replay puts
 *back not only what was lost but everything that was written after it.
 *
 * Memory is kept until the server's disk has it, for only then can it be written again.  So the
 * pool has a limit: at half of it files are committed in the background, at all of it writers wait.
 *
 * A single extent that is all there is and that somebody wants committed goes out FILE_SYNC: that
 * is WRITE and COMMIT of a small file in one call.
 *
 * An error of the server's ends an extent.  Every write, fsync and close meets it until the last
 * close: whichever process asks first, the one that wrote the lost bytes is told too.
 */
#include "fuse-client/wback.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "fuse-client/fuse_inode.h"

#define GATHER_MS  10
#define FLYING_MAX 8 /* WRITEs of one file that are under way: enough to fill a gigabit path */
#define NEW_FILE_MAX                                                                               \
	(256u << 10)      /* bytes that may be sent FILE_SYNC before anybody asks for it           \
			   */
#define EXTENT_FIRST 4096 /* bytes: what a new extent has room for; doubled as it grows */

struct extent {
	struct list link;
	struct wback *wb;
	uint64_t off;
	size_t len, cap; /* cap 0: the memory is a writer's and cannot grow */
	uint8_t *base;   /* owned; data lies in it */
	const uint8_t *data;
	uint64_t number;
	bool is_sealed;    /* takes no more bytes, may leave */
	bool is_covered;   /* by the COMMIT under way */
	bool is_overtaken; /* flying, and something older must be written again before it counts */
	bool is_sync;      /* sent FILE_SYNC */
	uint64_t token;    /* of finode_change_begin(), while flying */
	writeverf3 verf;
};

struct waiter {
	struct list link;
	enum wback_until until;
	uint64_t before; /* waits for the extents with smaller numbers */
	wback_done done;
	void *arg;
};

struct wback {
	struct wback_pool *pool;
	struct finode *f; /* referenced while in pool->active */
	struct list link;
	bool is_active;
	struct list dirty, flying, unstable;
	unsigned n_flying;
	uint64_t next_number;
	uint64_t
		cut_before; /* the last truncation is younger than the extents before this number */
	struct list waiters;
	bool commit_flying;
	int error;
};

static void step(struct wback *wb);

/* ---- extents ------------------------------------------------------------ */

static struct extent *extent_at(struct list *l)
{
	return list_entry(l, struct extent, link);
}

static void extent_free(struct extent *e)
{
	list_del(&e->link);
	e->wb->pool->n_bytes -= e->len;
	free(e->base);
	free(e);
}

static bool overlaps(const struct extent *a, const struct extent *b)
{
	return a->off < b->off + b->len && b->off < a->off + a->len;
}

static bool overlaps_any(const struct extent *e, const struct list *head)
{
	struct list *l;

	list_for_each (l, head) {
		if (overlaps(e, extent_at(l)))
			return true;
	}
	return false;
}

static uint64_t least_number(const struct list *head)
{
	uint64_t least = UINT64_MAX;
	struct list *l;

	list_for_each (l, head)
		least = MIN(least, extent_at(l)->number);
	return least;
}

/* Sorted by number; almost always this is the end. */
static void insert_sorted(struct list *head, struct extent *e)
{
	struct list *l = head->prev;

	while (l != head && extent_at(l)->number > e->number)
		l = l->prev;
	list_add_head(l, &e->link);
}

/* @base: memory to take with @data in it; NULL: room of our own, filled by a copy. */
static struct extent *extent_new(struct wback *wb, uint64_t off, const uint8_t *data, size_t len,
				 uint8_t *base)
{
	struct extent *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	if (base == NULL) {
		e->cap = MAX(len, (size_t)EXTENT_FIRST);
		e->base = malloc(e->cap);
		if (e->base == NULL) {
			free(e);
			return NULL;
		}
		memcpy(e->base, data, len);
		data = e->base;
	} else {
		e->base = base;
	}
	e->wb = wb;
	e->off = off;
	e->len = len;
	e->data = data;
	e->number = wb->next_number++;
	list_add_tail(&wb->dirty, &e->link);
	wb->pool->n_bytes += len;
	return e;
}

static struct extent *tail_of(struct wback *wb)
{
	struct extent *e;

	if (list_is_empty(&wb->dirty))
		return NULL;
	e = extent_at(wb->dirty.prev);
	return e->is_sealed ? NULL : e;
}

static void seal(struct wback *wb)
{
	struct extent *e = tail_of(wb);

	if (e != NULL)
		e->is_sealed = true;
}

/* Bytes of @data that the last extent took. */
static size_t join(struct wback *wb, uint64_t off, const uint8_t *data, size_t len)
{
	struct extent *e = tail_of(wb);
	size_t room;

	if (e == NULL || e->cap == 0 || off != e->off + e->len)
		return 0;
	room = wb->pool->wsize - e->len;
	len = MIN(len, room);
	if (e->len + len > e->cap) {
		size_t cap = MIN(MAX(e->cap * 2, e->len + len), (size_t)wb->pool->wsize);
		uint8_t *p = realloc(e->base, cap);

		if (p == NULL)
			return 0;
		e->base = p;
		e->data = p;
		e->cap = cap;
	}
	memcpy(e->base + e->len, data, len);
	e->len += len;
	wb->pool->n_bytes += len;
	return len;
}

/* ---- waiting ------------------------------------------------------------ */

static struct waiter *waiter_at(struct list *l)
{
	return list_entry(l, struct waiter, link);
}

static void waiter_end(struct waiter *w, int err)
{
	list_del(&w->link);
	w->done(w->arg, err);
	free(w);
}

static bool waits_for_commit(const struct wback *wb)
{
	struct list *l;

	list_for_each (l, &wb->waiters) {
		if (waiter_at(l)->until == WBACK_COMMITTED)
			return true;
	}
	return false;
}

static void wake_waiters(struct wback *wb)
{
	uint64_t written = MIN(least_number(&wb->dirty), least_number(&wb->flying));
	uint64_t committed = MIN(written, least_number(&wb->unstable));
	struct list *l, *tmp, ready;

	list_init(&ready);
	list_for_each_safe (l, tmp, &wb->waiters) {
		bool commit = waiter_at(l)->until == WBACK_COMMITTED;

		if (waiter_at(l)->before > (commit ? committed : written))
			continue;
		list_del(l);
		list_add_tail(&ready, l);
	}
	/* What they do next may write or wait again: only the list at hand is walked. */
	while (!list_is_empty(&ready)) {
		struct waiter *w = waiter_at(ready.next);

		waiter_end(w, w->until == WBACK_COMMITTED ? wb->error : 0);
	}
}

static void wake_pool(struct wback_pool *p)
{
	while (!list_is_empty(&p->room_wanted) && p->n_bytes < p->max_bytes)
		waiter_end(waiter_at(p->room_wanted.next), 0);
}

/* ---- WRITE -------------------------------------------------------------- */

static void set_error(struct wback *wb, int err, const char *what)
{
	if (wb->error == 0)
		wb->error = err;
	log_warn(LOG_NFS, "delayed %s failed error=\"%s\"", what, strerror(-err));
}

/* The server took only the first @n bytes: the rest becomes an extent of its own, next in line. */
static bool split_after(struct extent *e, size_t n)
{
	struct extent *rest = extent_new(e->wb, e->off + n, e->data + n, e->len - n, NULL);

	if (rest == NULL)
		return false;
	rest->number = e->number;
	rest->is_sealed = true;
	list_del(&rest->link);
	insert_sorted(&e->wb->dirty, rest);
	e->wb->pool->n_bytes -= e->len - n;
	e->len = n;
	return true;
}

static void written(struct extent *e, const WRITE3resok *ok, uint64_t end)
{
	struct wback *wb = e->wb;
	struct finode *f = wb->f;

	f->written_seq = nfs_client_next_seq(wb->pool->nfs);
	f->written_end = MAX(f->written_end, end);
	fuse_version_follow(&f->version, &ok->file_wcc);
	if (e->is_sync && ok->committed != UNSTABLE) {
		extent_free(e);
		return;
	}
	memcpy(e->verf, ok->verf, sizeof(e->verf));
	insert_sorted(e->is_overtaken ? &wb->dirty : &wb->unstable, e);
	e->is_overtaken = false;
}

static const fattr3 *after_write(const struct nfs_result *r)
{
	const post_op_attr *a;

	if (r->err < 0)
		return NULL;
	a = &r->res->write.WRITE3res_u.resok.file_wcc.after;
	return a->attributes_follow ? &a->post_op_attr_u.attributes : NULL;
}

static void on_written(void *arg, const struct nfs_result *r)
{
	struct extent *e = arg;
	struct wback *wb = e->wb;
	int err = r->err;

	list_del(&e->link);
	wb->n_flying--;
	finode_change_end(wb->f, e->token, after_write(r));
	if (err == 0) {
		const WRITE3resok *ok = &r->res->write.WRITE3res_u.resok;

		if (ok->count == 0 || ok->count > e->len)
			err = -EIO;
		else if (ok->count < e->len && !split_after(e, ok->count))
			err = -ENOMEM;
		else
			written(e, ok, e->off + e->len);
	}
	if (err < 0) {
		set_error(wb, err, "write");
		wb->f->version.is_known = false;
		extent_free(e);
	}
	step(wb);
}

/* Written, then given its times or mode, then closed: what tar, git and editors do.  The second of
 * these makes the bytes leave, and the third would want a COMMIT. */
static bool is_all_of_a_new_file(const struct wback *wb, const struct extent *e)
{
	return e->number == 0 && e->off == 0 && e->len < NEW_FILE_MAX &&
	       !list_is_empty(&wb->waiters);
}

static void send_extent(struct wback *wb, struct extent *e)
{
	struct nfs3_write_args a = {
		.fh = wb->f->fh,
		.fh_len = wb->f->fh_len,
		.offset = e->off,
		.count = (uint32_t)e->len,
		.data = e->data,
		.data_len = (uint32_t)e->len,
	};

	list_del(&e->link);
	e->is_sealed = true;
	e->is_sync = wb->n_flying == 0 && list_is_empty(&wb->dirty) &&
		     list_is_empty(&wb->unstable) &&
		     (waits_for_commit(wb) || is_all_of_a_new_file(wb, e));
	a.stable = e->is_sync ? FILE_SYNC : UNSTABLE;
	list_add_tail(&wb->flying, &e->link);
	wb->n_flying++;
	e->token = finode_change_begin(wb->f);
	nfs_send_write(wb->pool->nfs, &a, on_written, e);
}

static void send_dirty(struct wback *wb)
{
	while (!list_is_empty(&wb->dirty) && wb->n_flying < FLYING_MAX &&
	       wb->f->n_truncating == 0) {
		struct extent *e = extent_at(wb->dirty.next);

		if (!e->is_sealed && e->len < wb->pool->wsize)
			break;
		if (overlaps_any(e, &wb->flying))
			break;
		send_extent(wb, e);
	}
}

/* ---- COMMIT ------------------------------------------------------------- */

static struct list *first_forgotten(struct wback *wb, const writeverf3 verf)
{
	struct list *l;

	list_for_each (l, &wb->unstable) {
		if (extent_at(l)->is_covered &&
		    memcmp(extent_at(l)->verf, verf, sizeof(writeverf3)) != 0)
			return l;
	}
	return NULL;
}

/*
 * Back to the dirty list: the first extent that the server has forgotten and everything younger,
 * for older bytes must not be written over younger ones.  What is flying just now follows them.
 */
static void replay(struct wback *wb, const writeverf3 verf)
{
	struct list *l = first_forgotten(wb, verf), *next;
	uint64_t number;

	if (l == NULL)
		return;
	number = extent_at(l)->number;
	for (; l != &wb->unstable; l = next) {
		next = l->next;
		extent_at(l)->is_covered = false;
		wb->pool->n_replayed += extent_at(l)->len;
		list_del(l);
		insert_sorted(&wb->dirty, extent_at(l));
	}
	list_for_each (l, &wb->flying)
		extent_at(l)->is_overtaken = extent_at(l)->number > number;
	log_info(LOG_NFS, "the server was restarted: uncommitted data is written again");
}

static void drop_covered(struct wback *wb)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &wb->unstable) {
		if (extent_at(l)->is_covered)
			extent_free(extent_at(l));
	}
}

static void on_committed(void *arg, const struct nfs_result *r)
{
	struct wback *wb = arg;

	wb->commit_flying = false;
	if (r->err < 0)
		/* Whether the bytes are on the disk is not known and cannot be found out. */
		set_error(wb, r->err, "commit");
	else
		replay(wb, r->res->commit.COMMIT3res_u.resok.verf);
	drop_covered(wb);
	step(wb);
}

static bool is_short(const struct wback_pool *p)
{
	return p->n_bytes >= p->max_bytes / 2;
}

/* The number that a waiter for COMMIT waits for; 0 when there is none. */
static uint64_t commit_wanted_before(const struct wback *wb)
{
	uint64_t before = 0;
	struct list *l;

	list_for_each (l, &wb->waiters) {
		if (waiter_at(l)->until == WBACK_COMMITTED &&
		    (before == 0 || waiter_at(l)->before < before))
			before = waiter_at(l)->before;
	}
	return before;
}

static void maybe_commit(struct wback *wb)
{
	uint64_t before = commit_wanted_before(wb);
	uint64_t pending = MIN(least_number(&wb->dirty), least_number(&wb->flying));
	COMMIT3args a = { .file = finode_fh(wb->f) };
	struct list *l;

	if (wb->commit_flying || list_is_empty(&wb->unstable))
		return;
	/* Short of room: also what arrived while a COMMIT was under way, for all writers may wait.
	 */
	if (!is_short(wb->pool) && (before == 0 || pending < before))
		return;
	list_for_each (l, &wb->unstable)
		extent_at(l)->is_covered = true;
	wb->commit_flying = true;
	nfs_send(wb->pool->nfs, NFSPROC3_COMMIT, &a, on_committed, wb);
}

/* ---- one file ----------------------------------------------------------- */

static bool is_empty(const struct wback *wb)
{
	return list_is_empty(&wb->dirty) && list_is_empty(&wb->flying) &&
	       list_is_empty(&wb->unstable) && !wb->commit_flying;
}

/* Whatever has happened: send what may leave, commit what must be, wake who is served. */
static void step(struct wback *wb)
{
	struct wback_pool *p = wb->pool;
	struct finode *f = wb->f;

	finode_ref(f); /* a waiter's next act may be to let go of the file */
	send_dirty(wb);
	maybe_commit(wb);
	wake_waiters(wb);
	if (wb->is_active && is_empty(wb)) {
		wb->is_active = false;
		list_del(&wb->link);
		finode_unref(f);
	}
	wake_pool(p);
	finode_unref(f);
}

static struct wback *wback_of(struct wback_pool *p, struct finode *f)
{
	struct wback *wb = f->wb;

	if (wb != NULL)
		return wb;
	wb = calloc(1, sizeof(*wb));
	if (wb == NULL)
		return NULL;
	wb->pool = p;
	wb->f = f;
	list_init(&wb->link);
	list_init(&wb->dirty);
	list_init(&wb->flying);
	list_init(&wb->unstable);
	list_init(&wb->waiters);
	f->wb = wb;
	return wb;
}

static void relieve(struct wback_pool *p)
{
	struct list *l, *tmp;

	if (!is_short(p))
		return;
	list_for_each_safe (l, tmp, &p->active) {
		struct wback *wb = list_entry(l, struct wback, link);

		seal(wb);
		step(wb);
	}
}

/* A writer's own memory when it makes one extent, copies in pieces of wsize otherwise. */
static int take_data(struct wback *wb, uint64_t off, const uint8_t *data, size_t len, uint8_t *base)
{
	size_t wsize = wb->pool->wsize;

	if (base != NULL && len <= wsize) {
		seal(wb);
		if (extent_new(wb, off, data, len, base) == NULL)
			return -ENOMEM;
		seal(wb);
		return 0;
	}
	while (len > 0) {
		size_t n = join(wb, off, data, len);

		if (n == 0) {
			seal(wb);
			n = MIN(len, wsize);
			if (extent_new(wb, off, data, n, NULL) == NULL)
				return -ENOMEM;
		}
		off += n;
		data += n;
		len -= n;
	}
	free(base);
	return 0;
}

int wback_write(struct wback_pool *p, struct finode *f, uint64_t off, const uint8_t *data,
		size_t len, uint8_t *base)
{
	struct wback *wb = wback_of(p, f);
	int rc;

	if (wb == NULL)
		return -ENOMEM;
	if (wb->error != 0)
		return wb->error;
	rc = take_data(wb, off, data, len, base);
	if (!wb->is_active && !is_empty(wb)) {
		wb->is_active = true;
		list_add_tail(&p->active, &wb->link);
		finode_ref(f);
	}
	if (!uv_is_active((uv_handle_t *)&p->gather))
		uv_timer_again(&p->gather);
	step(wb);
	relieve(p);
	return rc;
}

void wback_wait(struct finode *f, enum wback_until until, wback_done done, void *arg)
{
	struct wback *wb = f->wb;
	struct waiter *w;

	if (wb == NULL || (is_empty(wb) && wb->error == 0)) {
		done(arg, 0);
		return;
	}
	w = malloc(sizeof(*w));
	if (w == NULL) {
		done(arg, -ENOMEM);
		return;
	}
	*w = (struct waiter){ .until = until, .before = wb->next_number, .done = done, .arg = arg };
	list_add_tail(&wb->waiters, &w->link);
	seal(wb);
	step(wb);
}

bool wback_is_pending(const struct finode *f)
{
	return f->wb != NULL && !(list_is_empty(&f->wb->dirty) && list_is_empty(&f->wb->flying));
}

bool wback_is_uncommitted(const struct finode *f)
{
	return f->wb != NULL && (!is_empty(f->wb) || f->wb->error != 0);
}

static uint64_t end_of(const struct list *head)
{
	uint64_t end = 0;
	struct list *l;

	list_for_each (l, head)
		end = MAX(end, extent_at(l)->off + extent_at(l)->len);
	return end;
}

uint64_t wback_size(const struct finode *f, uint64_t server_size, uint64_t sent_seq)
{
	uint64_t size = server_size;

	if (f->wb == NULL)
		return size;
	if (sent_seq < f->written_seq)
		size = MAX(size, f->written_end);
	return MAX(size, MAX(end_of(&f->wb->dirty), end_of(&f->wb->flying)));
}

void wback_truncate_begin(struct finode *f)
{
	f->n_truncating++;
	if (f->wb != NULL)
		f->wb->cut_before = f->wb->next_number;
}

/* Extents older than the cut lose what lies beyond @size. */
static void cut_list(struct list *head, uint64_t before, uint64_t size)
{
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, head) {
		struct extent *e = extent_at(l);
		size_t keep = e->off >= size ? 0 : MIN(e->len, (size_t)(size - e->off));

		if (e->number >= before)
			continue;
		e->wb->pool->n_bytes -= e->len - keep;
		e->len = keep;
		if (keep == 0)
			extent_free(e);
	}
}

void wback_truncate_end(struct finode *f, bool done, uint64_t size)
{
	f->n_truncating--;
	if (done) {
		f->written_end = MIN(f->written_end, size);
		f->written_seq = 0;
	}
	if (f->wb == NULL)
		return;
	if (done) {
		cut_list(&f->wb->unstable, f->wb->cut_before, size);
		cut_list(&f->wb->dirty, f->wb->cut_before, size);
	}
	step(f->wb);
}

void wback_closed(struct finode *f)
{
	if (f->wb != NULL)
		f->wb->error = 0;
}

void wback_free(struct wback *wb)
{
	if (wb == NULL)
		return;
	assert(wb->n_flying == 0 && !wb->commit_flying);
	while (!list_is_empty(&wb->dirty))
		extent_free(extent_at(wb->dirty.next));
	while (!list_is_empty(&wb->unstable))
		extent_free(extent_at(wb->unstable.next));
	list_del(&wb->link);
	free(wb);
}

/* ---- the pool ----------------------------------------------------------- */

static void on_gathered(uv_timer_t *t)
{
	struct wback_pool *p = t->data;
	struct list *l, *tmp;
	bool more = false;

	list_for_each_safe (l, tmp, &p->active) {
		struct wback *wb = list_entry(l, struct wback, link);

		more = more || !list_is_empty(&wb->dirty);
		seal(wb);
		step(wb);
	}
	if (!more)
		uv_timer_stop(t);
}

void wback_pool_init(struct wback_pool *p, uv_loop_t *loop, struct nfs_client *nfs, uint32_t wsize,
		     size_t max_bytes)
{
	*p = (struct wback_pool){ .nfs = nfs, .wsize = wsize, .max_bytes = max_bytes };
	list_init(&p->active);
	list_init(&p->room_wanted);
	uv_timer_init(loop, &p->gather);
	p->gather.data = p;
	uv_timer_start(&p->gather, on_gathered, GATHER_MS, GATHER_MS);
}

void wback_pool_close(struct wback_pool *p)
{
	uv_close((uv_handle_t *)&p->gather, NULL);
}

bool wback_pool_is_idle(const struct wback_pool *p)
{
	return list_is_empty(&p->active);
}

void wback_wait_room(struct wback_pool *p, wback_done done, void *arg)
{
	struct waiter *w;

	if (p->n_bytes < p->max_bytes || (w = malloc(sizeof(*w))) == NULL) {
		done(arg, 0);
		return;
	}
	*w = (struct waiter){ .done = done, .arg = arg };
	list_add_tail(&p->room_wanted, &w->link);
}
