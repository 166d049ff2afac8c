/* SPDX-License-Identifier: MIT */
/*
 * Hints where inodes were last seen, and the walk that finds those whose hint is wrong (see
 * inode_hints.h).
 *
 * All hints are in memory, by workspace and inode number, and those that the store does not have
 * yet are on a second list, to be written in batches.  A workspace's rows are read when the first
 * handle of it has to be opened; what was seen since is newer and stays.
 *
 * A caller whose hint does not lead to its file waits for a walk that begins after it came: only
 * that one proves that the file is gone.  One caller walks, the others of the workspace wait for
 * the same walk, and each is handed its descriptor by the walk itself when it passes the file, so
 * that nothing depends on a hint staying in a table that is full.
 */
#include "workspace/inode_hints.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "workspace/path.h"
#include "workspace/store.h"
#include "workspace/tree_walk.h"

#define HINTS_MAX     (1u << 20) /* of all workspaces: some 120 MiB at names of 20 bytes */
#define REMOVALS_MAX  (1u << 16) /* evicted hints that the store is still to forget */
#define BATCH_ROWS    1024u      /* one transaction; the names are copied: 300 KiB */
#define CHAIN_MAX     65536u     /* levels up to the root; also ends a circle of old hints */
#define WALK_TRIES    3          /* walks in a row when the tree changes under each */
#define HINT_NAME_MAX 255u       /* bytes */

struct hint {
	struct map_node node; /* in hint_ws.by_ino */
	struct list lru;      /* least recently noted first; unlinked while is_removal */
	struct list dirty;    /* linked while the store is behind */
	struct hint_ws *hw;
	uint64_t ino, birth_ns, parent_ino;
	bool is_stored;  /* the store has a row of this inode */
	bool is_removal; /* evicted: only waits for its row to be removed */
	char name[];
};

enum load_state { NOT_LOADED, LOADING, LOADED };

/* One workspace.  All fields are protected by inode_hints.mutex. */
struct hint_ws {
	struct map_node node; /* in inode_hints.by_ws */
	uint64_t key;
	char id[WS_ID_LEN + 1];
	struct map by_ino;
	unsigned n_users; /* calls that use it now */
	bool is_dropped;
	enum load_state load;
	struct list waiters;
	bool is_walking;
	uint64_t n_walks; /* begun so far, the running one included */
	int walk_rc;      /* of the last that ended: 0, or why it did not see everything */
};

struct inode_hints {
	struct store *store;         /* borrowed */
	pthread_mutex_t flush_mutex; /* one batch at a time, so that the store sees them in order */
	pthread_mutex_t mutex;       /* never held over disk or store */
	pthread_cond_t cond;         /* something loaded, found, or walked to its end */
	struct map by_ws;
	struct list lru;
	struct list dirty;
	size_t n_hints, n_removals;
};

/* A call of inode_hints_open_inode() that waits for a walk; on its stack. */
struct waiter {
	struct list link;
	uint64_t ino, birth_ns;
	bool is_done;
	int fd; /* when done: the descriptor or -errno */
};

static uint64_t birth_of(const struct statx *stx)
{
	if ((stx->stx_mask & STATX_BTIME) == 0)
		return 0;
	return (uint64_t)stx->stx_btime.tv_sec * NSEC_PER_SEC + stx->stx_btime.tv_nsec;
}

/* ---- the table: called with the mutex held ------------------------------ */

static struct hint_ws *find_ws(struct inode_hints *h, uint64_t key)
{
	struct map_node *n = map_first(&h->by_ws, map_hash_u64(key));

	for (; n != NULL; n = map_next(n)) {
		struct hint_ws *hw = container_of(n, struct hint_ws, node);

		if (hw->key == key)
			return hw;
	}
	return NULL;
}

/* Found or made.  NULL when the workspace is gone or there is no memory: then there are no hints.
 */
static struct hint_ws *get_ws(struct inode_hints *h, const struct workspace *ws)
{
	struct hint_ws *hw = find_ws(h, ws->key);

	if (hw != NULL || __atomic_load_n(&ws->is_gone, __ATOMIC_ACQUIRE))
		return hw;
	hw = calloc(1, sizeof(*hw));
	if (hw == NULL)
		return NULL;
	hw->key = ws->key;
	memcpy(hw->id, ws->id, sizeof(hw->id));
	list_init(&hw->waiters);
	if (map_init(&hw->by_ino, 0) == 0 &&
	    map_insert(&h->by_ws, &hw->node, map_hash_u64(hw->key)) == 0)
		return hw;
	map_fini(&hw->by_ino);
	free(hw);
	return NULL;
}

static struct hint *find_hint(const struct hint_ws *hw, uint64_t ino)
{
	struct map_node *n = map_first(&hw->by_ino, map_hash_u64(ino));

	for (; n != NULL; n = map_next(n)) {
		struct hint *hint = container_of(n, struct hint, node);

		if (hint->ino == ino)
			return hint;
	}
	return NULL;
}

static void free_hint(struct inode_hints *h, struct hint *hint)
{
	map_remove(&hint->hw->by_ino, &hint->node);
	list_del(&hint->lru);
	list_del(&hint->dirty);
	if (hint->is_removal)
		h->n_removals--;
	else
		h->n_hints--;
	free(hint);
}

static void mark_dirty(struct inode_hints *h, struct hint *hint)
{
	if (list_is_empty(&hint->dirty))
		list_add_tail(&h->dirty, &hint->dirty);
}

/* What is evicted goes from the store too, or it would grow with every inode that ever was. */
static void evict_oldest(struct inode_hints *h)
{
	struct hint *hint = list_entry(h->lru.next, struct hint, lru);

	if (!hint->is_stored || h->n_removals == REMOVALS_MAX) {
		free_hint(h, hint);
		return;
	}
	list_del(&hint->lru);
	hint->is_removal = true;
	h->n_hints--;
	h->n_removals++;
	mark_dirty(h, hint);
}

static struct hint *insert_hint(struct inode_hints *h, struct hint_ws *hw, uint64_t ino,
				uint64_t birth_ns, uint64_t parent_ino, const char *name)
{
	size_t len = strlen(name);
	struct hint *hint = malloc(sizeof(*hint) + len + 1);

	if (hint == NULL)
		return NULL;
	*hint = (struct hint){
		.hw = hw, .ino = ino, .birth_ns = birth_ns, .parent_ino = parent_ino
	};
	memcpy(hint->name, name, len + 1);
	list_init(&hint->dirty);
	if (map_insert(&hw->by_ino, &hint->node, map_hash_u64(ino)) < 0) {
		free(hint);
		return NULL;
	}
	list_add_tail(&h->lru, &hint->lru);
	h->n_hints++;
	return hint;
}

/* Out of memory loses the hint, which costs a walk. */
static void put_hint(struct inode_hints *h, struct hint_ws *hw, uint64_t ino, uint64_t birth_ns,
		     uint64_t parent_ino, const char *name)
{
	struct hint *hint = find_hint(hw, ino);
	bool was_stored = false;

	if (hw->is_dropped || strlen(name) > HINT_NAME_MAX)
		return;
	if (hint != NULL && !hint->is_removal && hint->birth_ns == birth_ns &&
	    hint->parent_ino == parent_ino && strcmp(hint->name, name) == 0) {
		list_del(&hint->lru);
		list_add_tail(&h->lru, &hint->lru);
		return;
	}
	if (hint != NULL) {
		was_stored = hint->is_stored;
		free_hint(h, hint);
	} else if (h->n_hints >= HINTS_MAX) {
		evict_oldest(h);
	}
	hint = insert_hint(h, hw, ino, birth_ns, parent_ino, name);
	if (hint == NULL)
		return;
	hint->is_stored = was_stored;
	mark_dirty(h, hint);
}

static bool free_hint_node(struct map_node *n, void *arg)
{
	free_hint(arg, container_of(n, struct hint, node));
	return true;
}

static void put_ws(struct hint_ws *hw)
{
	if (hw->is_dropped && hw->n_users == 0) {
		map_fini(&hw->by_ino);
		free(hw);
	}
}

/* Its memory goes with the last call that uses it. */
static void drop_ws(struct inode_hints *h, struct hint_ws *hw)
{
	map_remove(&h->by_ws, &hw->node);
	map_each(&hw->by_ino, free_hint_node, h);
	hw->is_dropped = true;
	put_ws(hw);
}

/* ---- noting ------------------------------------------------------------- */

void inode_hints_note(struct inode_hints *h, const struct workspace *ws, uint64_t ino,
		      uint64_t birth_ns, uint64_t parent_ino, const char *name)
{
	struct hint_ws *hw;

	(void)pthread_mutex_lock(&h->mutex);
	hw = get_ws(h, ws);
	if (hw != NULL)
		put_hint(h, hw, ino, birth_ns, parent_ino, name);
	(void)pthread_mutex_unlock(&h->mutex);
}

void inode_hints_drop(struct inode_hints *h, const struct workspace *ws)
{
	struct hint_ws *hw;

	(void)pthread_mutex_lock(&h->mutex);
	hw = find_ws(h, ws->key);
	if (hw != NULL)
		drop_ws(h, hw);
	(void)pthread_mutex_unlock(&h->mutex);
}

/* ---- to and from the store ---------------------------------------------- */

struct batch {
	size_t n;
	struct hint_row rows[BATCH_ROWS];
	uint64_t ws_key[BATCH_ROWS];
	char names[BATCH_ROWS][HINT_NAME_MAX + 1];
};

static void take_batch(struct inode_hints *h, struct batch *b)
{
	b->n = 0;
	(void)pthread_mutex_lock(&h->mutex);
	while (b->n < BATCH_ROWS && !list_is_empty(&h->dirty)) {
		struct hint *hint = list_entry(h->dirty.next, struct hint, dirty);
		struct hint_row *row = &b->rows[b->n];

		*row = (struct hint_row){
			.ino = hint->ino,
			.birth_ns = hint->birth_ns,
			.parent_ino = hint->parent_ino,
		};
		memcpy(row->ws_id, hint->hw->id, sizeof(row->ws_id));
		b->ws_key[b->n] = hint->hw->key;
		if (hint->is_removal) {
			free_hint(h, hint);
		} else {
			memcpy(b->names[b->n], hint->name, strlen(hint->name) + 1);
			row->name = b->names[b->n];
			hint->is_stored = true;
			list_del(&hint->dirty);
		}
		b->n++;
	}
	(void)pthread_mutex_unlock(&h->mutex);
}

/* The store did not take them: they are to be written again.  A removal is given up: its row is a
 * wrong guess at worst. */
static void give_back(struct inode_hints *h, const struct batch *b)
{
	(void)pthread_mutex_lock(&h->mutex);
	for (size_t i = 0; i < b->n; i++) {
		struct hint_ws *hw = find_ws(h, b->ws_key[i]);
		struct hint *hint = hw != NULL ? find_hint(hw, b->rows[i].ino) : NULL;

		if (hint != NULL)
			mark_dirty(h, hint);
	}
	(void)pthread_mutex_unlock(&h->mutex);
}

int inode_hints_flush(struct inode_hints *h, struct err *err)
{
	struct batch *b = malloc(sizeof(*b));
	int rc = 0;

	if (b == NULL)
		return err_set(err, -ENOMEM, "write hints: out of memory");
	(void)pthread_mutex_lock(&h->flush_mutex);
	do {
		take_batch(h, b);
		rc = store_hints_put(h->store, b->rows, b->n, err);
		if (rc < 0)
			give_back(h, b);
	} while (rc == 0 && b->n == BATCH_ROWS);
	(void)pthread_mutex_unlock(&h->flush_mutex);
	free(b);
	return rc;
}

struct load {
	struct inode_hints *h;
	struct hint_ws *hw;
};

/* A row is older than anything noted since the start, and never pushes that out. */
static int load_row(void *arg, const struct hint_row *row)
{
	const struct load *l = arg;
	struct inode_hints *h = l->h;
	struct hint *hint;

	(void)pthread_mutex_lock(&h->mutex);
	hint = find_hint(l->hw, row->ino);
	if (hint == NULL && !l->hw->is_dropped && h->n_hints < HINTS_MAX)
		hint = insert_hint(h, l->hw, row->ino, row->birth_ns, row->parent_ino, row->name);
	if (hint != NULL)
		hint->is_stored = true;
	(void)pthread_mutex_unlock(&h->mutex);
	return 0;
}

/* Called and returns with the mutex held. */
static void load_ws(struct inode_hints *h, struct hint_ws *hw)
{
	struct load l = { .h = h, .hw = hw };
	struct err err = { 0 };

	while (hw->load == LOADING)
		(void)pthread_cond_wait(&h->cond, &h->mutex);
	if (hw->load == LOADED)
		return;
	hw->load = LOADING;
	(void)pthread_mutex_unlock(&h->mutex);
	if (store_hints_each(h->store, hw->id, load_row, &l, &err) < 0)
		log_warn(LOG_WS, "hints cannot be read, files will be searched why=\"%s\"",
			 err.msg);
	(void)pthread_mutex_lock(&h->mutex);
	hw->load = LOADED;
	(void)pthread_cond_broadcast(&h->cond);
}

/* ---- opening by hint ---------------------------------------------------- */

/* O_PATH descriptor of one name, if it is the inode asked for; -ESTALE when it is another. */
static int open_checked(int dirfd, const char *name, uint64_t ino, uint64_t birth_ns)
{
	auto_close int fd = path_open(dirfd, name, O_PATH | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	struct statx stx;

	if (fd < 0)
		return fd;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &stx) < 0)
		return -errno;
	return stx.stx_ino == ino && birth_of(&stx) == birth_ns ? take_fd(&fd) : -ESTALE;
}

/* The hints from @ino up to the root.  Return: the number of names and their bytes; 0 when one is
 * missing. */
static size_t measure_chain(const struct hint_ws *hw, uint64_t root_ino, uint64_t ino,
			    size_t *ret_bytes)
{
	size_t n = 0, bytes = 0;

	while (ino != root_ino) {
		const struct hint *hint = find_hint(hw, ino);

		if (hint == NULL || hint->is_removal || n == CHAIN_MAX)
			return 0;
		bytes += strlen(hint->name) + 1;
		ino = hint->parent_ino;
		n++;
	}
	*ret_bytes = bytes;
	return n;
}

/* Owned names from the root down, each with its NUL; NULL when the chain has a hole. */
static char *copy_chain(struct inode_hints *h, const struct hint_ws *hw, uint64_t root_ino,
			uint64_t ino, size_t *ret_n)
{
	size_t bytes = 0;
	char *names = NULL;

	(void)pthread_mutex_lock(&h->mutex);
	*ret_n = measure_chain(hw, root_ino, ino, &bytes);
	if (*ret_n > 0)
		names = malloc(bytes);
	while (names != NULL && ino != root_ino) { /* filled from its end, as we come from below */
		const struct hint *hint = find_hint(hw, ino);
		size_t len = strlen(hint->name) + 1;

		bytes -= len;
		memcpy(names + bytes, hint->name, len);
		ino = hint->parent_ino;
	}
	(void)pthread_mutex_unlock(&h->mutex);
	return names;
}

/* Step by step, since a deep chain is longer than any path may be. */
static int open_by_hint(struct inode_hints *h, const struct hint_ws *hw, const struct workspace *ws,
			uint64_t ino, uint64_t birth_ns)
{
	size_t n = 0;
	auto_free char *names = copy_chain(h, hw, ws->root_ino, ino, &n);
	auto_close int dir = -1;
	const char *name = names;

	if (names == NULL)
		return -ESTALE;
	for (size_t i = 0; i + 1 < n; i++, name += strlen(name) + 1) {
		int next = path_open(dir >= 0 ? dir : ws->root_fd, name,
				     O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);

		if (next < 0)
			return next;
		if (dir >= 0)
			(void)close(dir);
		dir = next;
	}
	return open_checked(dir >= 0 ? dir : ws->root_fd, name, ino, birth_ns);
}

/* ---- opening by a walk -------------------------------------------------- */

struct search {
	struct inode_hints *h;
	struct hint_ws *hw;
	struct workspace *ws;
	bool has_lost; /* an entry was gone when it was to be opened: it may be elsewhere now */
};

/* Called with the mutex held. */
static struct waiter *find_waiter(const struct hint_ws *hw, uint64_t ino, uint64_t birth_ns)
{
	struct list *pos;

	list_for_each (pos, &hw->waiters) {
		struct waiter *w = list_entry(pos, struct waiter, link);

		if (!w->is_done && w->ino == ino && w->birth_ns == birth_ns)
			return w;
	}
	return NULL;
}

/* Takes @fd.  False when nobody waits for it any more. */
static bool hand_over(struct search *s, int fd, uint64_t ino, uint64_t birth_ns)
{
	struct waiter *w;

	(void)pthread_mutex_lock(&s->h->mutex);
	w = find_waiter(s->hw, ino, birth_ns);
	if (w != NULL) {
		w->fd = fd;
		w->is_done = true;
		(void)pthread_cond_broadcast(&s->h->cond);
	}
	(void)pthread_mutex_unlock(&s->h->mutex);
	if (w == NULL && fd >= 0)
		(void)close(fd);
	return w != NULL;
}

/* Each waiter gets a descriptor of its own. */
static void serve_waiters(struct search *s, const struct tree_entry *e, uint64_t birth_ns)
{
	for (;;) {
		int fd = open_checked(e->dirfd, e->name, e->stx->stx_ino, birth_ns);

		if (fd == -ENOENT || fd == -ESTALE) {
			s->has_lost = true;
			return;
		}
		if (!hand_over(s, fd, e->stx->stx_ino, birth_ns))
			return;
	}
}

static int search_entry(void *arg, const struct tree_entry *e)
{
	struct search *s = arg;
	uint64_t birth_ns = birth_of(e->stx);
	bool is_wanted;

	(void)pthread_mutex_lock(&s->h->mutex);
	put_hint(s->h, s->hw, e->stx->stx_ino, birth_ns, e->parent_ino, e->name);
	is_wanted = find_waiter(s->hw, e->stx->stx_ino, birth_ns) != NULL;
	(void)pthread_mutex_unlock(&s->h->mutex);
	if (is_wanted)
		serve_waiters(s, e, birth_ns);
	return __atomic_load_n(&s->ws->is_gone, __ATOMIC_ACQUIRE) ? -ESTALE : 0;
}

static bool has_waiters(struct inode_hints *h, const struct hint_ws *hw)
{
	bool yes = false;
	struct list *pos;

	(void)pthread_mutex_lock(&h->mutex);
	list_for_each (pos, &hw->waiters)
		yes |= !list_entry(pos, struct waiter, link)->is_done;
	(void)pthread_mutex_unlock(&h->mutex);
	return yes;
}

/*
 * A walk goes on to its end although all are served: the hints it refreshes save the next ones.
 * When the tree changed under it and somebody is still waiting, the file may have slipped past:
 * again, a few times.
 */
static int search_tree(struct search *s)
{
	int rc = 0;

	for (int i = 0; i < WALK_TRIES; i++) {
		struct tree_walk_result res;

		s->has_lost = false;
		rc = tree_walk(s->ws->root_fd, search_entry, s, &res);
		log_debug(LOG_WS, "searched a workspace entries=%llu raced=%d rc=%d",
			  (unsigned long long)res.n_entries, res.is_raced, rc);
		if (rc == 0)
			rc = res.first_err;
		if (rc != 0 || (!res.is_raced && !s->has_lost) || !has_waiters(s->h, s->hw))
			break;
	}
	return rc;
}

/* Called and returns with the mutex held. */
static void run_walk(struct search *s)
{
	struct hint_ws *hw = s->hw;
	int rc;

	hw->is_walking = true;
	hw->n_walks++;
	(void)pthread_mutex_unlock(&s->h->mutex);
	rc = search_tree(s);
	(void)pthread_mutex_lock(&s->h->mutex);
	hw->walk_rc = rc;
	hw->is_walking = false;
	(void)pthread_cond_broadcast(&s->h->cond);
}

static int open_by_walk(struct search *s, uint64_t ino, uint64_t birth_ns)
{
	struct waiter w = { .ino = ino, .birth_ns = birth_ns };
	struct hint_ws *hw = s->hw;
	uint64_t mine;

	(void)pthread_mutex_lock(&s->h->mutex);
	mine = hw->n_walks + 1; /* the first that begins from now on */
	list_add_tail(&hw->waiters, &w.link);
	while (!w.is_done) {
		if (hw->is_walking) {
			(void)pthread_cond_wait(&s->h->cond, &s->h->mutex);
		} else if (hw->n_walks < mine) {
			run_walk(s);
		} else {
			w.fd = hw->walk_rc < 0 ? hw->walk_rc : -ESTALE;
			w.is_done = true;
		}
	}
	list_del(&w.link);
	(void)pthread_mutex_unlock(&s->h->mutex);
	return w.fd;
}

/* ---- the door ----------------------------------------------------------- */

static int open_with(struct search *s, uint64_t ino, uint64_t birth_ns)
{
	int fd = open_by_hint(s->h, s->hw, s->ws, ino, birth_ns);

	if (fd >= 0 || fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
		return fd;
	fd = open_by_walk(s, ino, birth_ns);
	if (fd != -ESTALE)
		return fd;
	/* Somebody may have moved it through us while we walked; then there is a newer hint. */
	fd = open_by_hint(s->h, s->hw, s->ws, ino, birth_ns);
	return fd >= 0 ? fd : -ESTALE;
}

int inode_hints_open_inode(struct inode_hints *h, struct workspace *ws, uint64_t ino,
			   uint64_t birth_ns)
{
	struct search s = { .h = h, .ws = ws };
	int fd;

	if (ino == ws->root_ino)
		return open_checked(ws->root_fd, "", ino, birth_ns);
	(void)pthread_mutex_lock(&h->mutex);
	s.hw = get_ws(h, ws);
	if (s.hw == NULL) {
		(void)pthread_mutex_unlock(&h->mutex);
		return __atomic_load_n(&ws->is_gone, __ATOMIC_ACQUIRE) ? -ESTALE : -ENOMEM;
	}
	s.hw->n_users++;
	load_ws(h, s.hw);
	(void)pthread_mutex_unlock(&h->mutex);

	fd = open_with(&s, ino, birth_ns);

	(void)pthread_mutex_lock(&h->mutex);
	s.hw->n_users--;
	put_ws(s.hw);
	(void)pthread_mutex_unlock(&h->mutex);
	return fd;
}

int inode_hints_open(struct store *store, struct inode_hints **ret, struct err *err)
{
	struct inode_hints *h = calloc(1, sizeof(*h));

	if (h == NULL || map_init(&h->by_ws, 0) < 0) {
		free(h);
		return err_set(err, -ENOMEM, "hints: out of memory");
	}
	h->store = store;
	(void)pthread_mutex_init(&h->mutex, NULL);
	(void)pthread_mutex_init(&h->flush_mutex, NULL);
	(void)pthread_cond_init(&h->cond, NULL);
	list_init(&h->lru);
	list_init(&h->dirty);
	*ret = h;
	return 0;
}

static bool drop_ws_node(struct map_node *n, void *arg)
{
	drop_ws(arg, container_of(n, struct hint_ws, node));
	return true;
}

void inode_hints_close(struct inode_hints *h)
{
	struct err err = { 0 };

	if (h == NULL)
		return;
	if (inode_hints_flush(h, &err) < 0)
		log_warn(LOG_WS, "hints were not written, files will be searched why=\"%s\"",
			 err.msg);
	map_each(&h->by_ws, drop_ws_node, h);
	map_fini(&h->by_ws);
	(void)pthread_cond_destroy(&h->cond);
	(void)pthread_mutex_destroy(&h->flush_mutex);
	(void)pthread_mutex_destroy(&h->mutex);
	free(h);
}
