/* SPDX-License-Identifier: MIT */
/*
 * The inode cache (see inode.h).  Entries are spread over shards by the hash of their key; a shard
 * is a mutex, a hash table and a clock (second-chance) list.  References are taken from the table
 * under the shard's mutex and given back without it, so eviction, which also holds the mutex, may
 * free an entry when it sees that only the cache's own reference is left.
 */
#include "workspace/inode.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "workspace/inode_hints.h"
#include "workspace/inode_priv.h"
#include "workspace/path.h"

#define BIRTH_KEY_LEN 24 /* bytes: number, birth, generation */

/* Looked through by each sweep: at two sweeps a second all of them within eight seconds. */
#define SWEEP_SHARDS 4

/* ---- keys --------------------------------------------------------------- */

static uint64_t key_hash(const struct inode_key *key)
{
	uint64_t words[sizeof(*key) / 8];
	uint64_t h = 0;

	_Static_assert(sizeof(*key) % 8 == 0, "hashed by words");
	memcpy(words, key, sizeof(words));
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		h = map_hash_u64(h ^ words[i]);
	return h;
}

static bool key_is_same(const struct inode_key *a, const struct inode_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Which file system: its own id where it has one (ext4's uuid), so that a number which the kernel
 * gives out anew at each boot does not matter. */
static uint32_t fs_id(struct workspace *ws)
{
	uint32_t id = __atomic_load_n(&ws->fs_id, __ATOMIC_RELAXED);
	struct statfs sf = { 0 };
	uint64_t raw = 0;

	if (id != 0)
		return id;
	if (fstatfs(ws->root_fd, &sf) == 0)
		memcpy(&raw, &sf.f_fsid, MIN(sizeof(raw), sizeof(sf.f_fsid)));
	__atomic_store_n(&ws->is_in_memory, sf.f_type == TMPFS_MAGIC || sf.f_type == RAMFS_MAGIC,
			 __ATOMIC_RELAXED);
	id = (uint32_t)map_hash_u64(raw ^ (uint64_t)sf.f_type) | 1;
	__atomic_store_n(&ws->fs_id, id, __ATOMIC_RELAXED);
	return id;
}

struct kernel_handle {
	struct file_handle h;
	uint8_t room[INODE_HANDLE_MAX];
};

static int kernel_key(struct workspace *ws, int dirfd, const char *name, int flags,
		      struct inode_key *ret)
{
	struct kernel_handle kh;
	int mnt;

	kh.h.handle_bytes = INODE_HANDLE_MAX;
	if (name_to_handle_at(dirfd, name, &kh.h, &mnt, flags) < 0)
		return errno == EOVERFLOW ? -EOPNOTSUPP : -errno;
	if ((uint64_t)mnt != ws->root_mnt_id)
		return -EXDEV;
	memset(ret, 0, sizeof(*ret));
	ret->ws = ws->key;
	ret->kind = INODE_KEY_KERNEL;
	ret->htype = (uint8_t)kh.h.handle_type;
	ret->len = (uint8_t)kh.h.handle_bytes;
	ret->fs = fs_id(ws);
	memcpy(ret->bytes, kh.h.f_handle, kh.h.handle_bytes);
	return 0;
}

static void put_u64(uint8_t *p, uint64_t v)
{
	for (int i = 7; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t)v;
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

static uint64_t birth_ns(const struct statx *stx)
{
	if ((stx->stx_mask & STATX_BTIME) == 0)
		return 0;
	return (uint64_t)stx->stx_btime.tv_sec * NSEC_PER_SEC + stx->stx_btime.tv_nsec;
}

/*
 * Number and birth are not enough: birth times come from a clock that ticks every few milliseconds, and a number
 * can be given out again within one tick.  The kernel's own handle tells the two apart by its generation, and
 * may be asked for without any privilege; only opening it needs one.
 */
static uint64_t generation_of(struct workspace *ws, int dirfd, const char *name, int flags)
{
	struct inode_key kernel;
	uint64_t words[INODE_HANDLE_MAX / 8];
	uint64_t h = 0;

	if (kernel_key(ws, dirfd, name, flags, &kernel) < 0)
		return 0;
	memcpy(words, kernel.bytes, sizeof(words));
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		h = map_hash_u64(h ^ words[i]);
	return h;
}

static void birth_key(struct workspace *ws, const struct statx *stx, uint64_t generation,
		      struct inode_key *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ws = ws->key;
	ret->kind = INODE_KEY_BIRTH;
	ret->len = BIRTH_KEY_LEN;
	ret->fs = fs_id(ws);
	put_u64(ret->bytes, stx->stx_ino);
	put_u64(ret->bytes + 8, birth_ns(stx));
	put_u64(ret->bytes + 16, generation);
}

#define KEY_STATX (STATX_TYPE | STATX_INO | STATX_BTIME | STATX_MNT_ID)

/* Key of @name in @dirfd (or of @dirfd itself with AT_EMPTY_PATH); @stx is filled for the birth
 * kind only. */
static int make_key(struct inode_cache *c, struct workspace *ws, int dirfd, const char *name,
		    int flags, struct inode_key *ret, struct statx *stx)
{
	if (c->o.use_kernel_handles)
		return kernel_key(ws, dirfd, name, flags, ret);
	if (statx(dirfd, name, flags | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, KEY_STATX, stx) < 0)
		return -errno;
	if (stx->stx_mnt_id != ws->root_mnt_id)
		return -EXDEV;
	birth_key(ws, stx, generation_of(ws, dirfd, name, flags), ret);
	return 0;
}

/* ---- life of an entry --------------------------------------------------- */

static void free_inode(struct inode_cache *c, struct inode *ino)
{
	struct inode_io *io;

	while ((io = inode_detach_io(c, ino->rd != NULL ? &ino->rd : &ino->wr)) != NULL)
		inode_io_put(io);
	(void)close(ino->path_fd);
	inode_count_fds(c, -1);
	inode_sync_free(ino->sync);
	workspace_unref(ino->ws);
	free(ino);
}

void inode_ref(struct inode *ino)
{
	__atomic_add_fetch(&ino->refs, 1, __ATOMIC_RELAXED);
}

void inode_unref(struct inode_cache *c, struct inode *ino)
{
	if (__atomic_sub_fetch(&ino->refs, 1, __ATOMIC_ACQ_REL) == 0)
		free_inode(c, ino);
}

/* Under the mutex: out of table and lists.  The cache's reference is then the caller's to drop. */
static void unlink_locked(struct shard *s, struct inode *ino)
{
	assert(!ino->is_dead);
	ino->is_dead = true;
	map_remove(&s->map, &ino->node);
	list_del(&ino->clock);
	list_del(&ino->wr_list);
}

void inode_forget(struct inode_cache *c, struct inode *ino)
{
	struct shard *s = inode_shard(c, ino->node.hash);
	bool was_in;

	pthread_mutex_lock(&s->mutex);
	was_in = !ino->is_dead;
	if (was_in)
		unlink_locked(s, ino);
	pthread_mutex_unlock(&s->mutex);
	if (was_in)
		inode_unref(c, ino);
}

static struct inode *find_locked(struct shard *s, const struct inode_key *key, uint64_t hash)
{
	for (struct map_node *n = map_first(&s->map, hash); n != NULL; n = map_next(n)) {
		struct inode *ino = container_of(n, struct inode, node);

		if (key_is_same(&ino->key, key))
			return ino;
	}
	return NULL;
}

/* Owned reference, or NULL. */
static struct inode *find(struct inode_cache *c, const struct inode_key *key, uint64_t hash)
{
	struct shard *s = inode_shard(c, hash);
	struct inode *ino;

	pthread_mutex_lock(&s->mutex);
	ino = find_locked(s, key, hash);
	if (ino != NULL) {
		inode_ref(ino);
		s->hits++;
	} else {
		s->misses++;
	}
	pthread_mutex_unlock(&s->mutex);
	if (ino != NULL && !__atomic_load_n(&ino->is_used, __ATOMIC_RELAXED))
		__atomic_store_n(&ino->is_used, true, __ATOMIC_RELAXED);
	return ino;
}

void inode_forget_key(struct inode_cache *c, const struct inode_key *key)
{
	uint64_t hash = key_hash(key);
	struct shard *s = inode_shard(c, hash);
	struct inode *ino;
	struct stat st;

	pthread_mutex_lock(&s->mutex);
	ino = find_locked(s, key, hash);
	if (ino != NULL)
		inode_ref(ino);
	pthread_mutex_unlock(&s->mutex);
	if (ino == NULL)
		return;
	if (fstat(ino->path_fd, &st) < 0 || st.st_nlink == 0)
		inode_forget(c, ino);
	inode_unref(c, ino);
}

/* One entry that nobody uses leaves the shard; false when there is none. */
static bool evict_from(struct inode_cache *c, struct shard *s)
{
	struct inode *victim = NULL;
	size_t n;

	pthread_mutex_lock(&s->mutex);
	/* twice around at most: the first pass may only clear the marks */
	for (n = 2 * s->map.n_nodes; n > 0 && !list_is_empty(&s->clock); n--) {
		struct inode *ino = list_entry(s->clock.next, struct inode, clock);

		if (__atomic_load_n(&ino->refs, __ATOMIC_ACQUIRE) == 1 &&
		    !__atomic_exchange_n(&ino->is_used, false, __ATOMIC_RELAXED)) {
			unlink_locked(s, ino);
			s->evictions++;
			victim = ino;
			break;
		}
		list_del(&ino->clock);
		list_add_tail(&s->clock, &ino->clock);
	}
	pthread_mutex_unlock(&s->mutex);
	if (victim == NULL)
		return false;
	inode_unref(c, victim);
	return true;
}

void inode_evict_down(struct inode_cache *c)
{
	unsigned failed = 0;

	while (__atomic_load_n(&c->n_fds, __ATOMIC_RELAXED) > c->o.max_fds && failed < N_SHARDS) {
		unsigned at = __atomic_fetch_add(&c->evict_at, 1, __ATOMIC_RELAXED);

		failed = evict_from(c, &c->shards[at % N_SHARDS]) ? 0 : failed + 1;
	}
}

/* Make the entry of @key with @path_fd (taken, also on failure), or find that somebody just did. */
static int insert(struct inode_cache *c, struct workspace *ws, const struct inode_key *key,
		  uint64_t hash, int path_fd, const struct statx *stx, struct inode **ret)
{
	struct shard *s = inode_shard(c, hash);
	struct inode *ino, *other;
	int rc;

	ino = calloc(1, sizeof(*ino));
	if (ino == NULL) {
		(void)close(path_fd);
		return -ENOMEM;
	}
	ino->key = *key;
	workspace_ref(ws);
	ino->ws = ws;
	ino->ino = stx->stx_ino;
	ino->type = stx->stx_mode & S_IFMT;
	ino->path_fd = path_fd;
	ino->refs = 2; /* the cache's and the caller's */
	ino->is_used = true;
	list_init(&ino->clock);
	list_init(&ino->wr_list);
	inode_count_fds(c, 1);

	pthread_mutex_lock(&s->mutex);
	other = find_locked(s, key, hash);
	if (other != NULL) {
		inode_ref(other);
		rc = 0;
	} else {
		rc = map_insert(&s->map, &ino->node, hash);
		if (rc == 0)
			list_add_tail(&s->clock, &ino->clock);
	}
	pthread_mutex_unlock(&s->mutex);
	if (other != NULL || rc < 0) {
		free_inode(c, ino);
		*ret = other;
		return rc;
	}
	*ret = ino;
	inode_evict_down(c);
	return 0;
}

static bool is_gone(const struct workspace *ws)
{
	return __atomic_load_n(&ws->is_gone, __ATOMIC_ACQUIRE);
}

/* From an O_PATH descriptor (taken) to the entry: found, or made. */
static int adopt(struct inode_cache *c, struct workspace *ws, struct inode *dir, const char *name,
		 int path_fd, struct inode **ret)
{
	struct inode_key key;
	struct statx stx;
	struct inode *ino;
	uint64_t hash;
	int rc;

	rc = make_key(c, ws, path_fd, "", AT_EMPTY_PATH, &key, &stx);
	if (rc < 0)
		goto fail_close;
	hash = key_hash(&key);
	ino = find(c, &key, hash);
	if (ino != NULL) {
		(void)close(path_fd);
		*ret = ino;
	} else {
		if (c->o.use_kernel_handles &&
		    statx(path_fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &stx) < 0) {
			rc = -errno;
			goto fail_close;
		}
		rc = insert(c, ws, &key, hash, path_fd, &stx, ret);
		if (rc < 0)
			return rc;
	}
	if (c->o.hints != NULL && dir != NULL && name != NULL)
		inode_hints_note(c->o.hints, ws, (*ret)->ino, get_u64(key.bytes + 8), dir->ino,
				 name);
	return 0;

fail_close:
	(void)close(path_fd);
	return rc;
}

int inode_adopt(struct inode_cache *c, struct inode *dir, const char *name, int path_fd,
		struct inode **ret)
{
	return adopt(c, dir->ws, dir, name, path_fd, ret);
}

int inode_root(struct inode_cache *c, struct workspace *ws, struct inode **ret)
{
	int fd;

	if (is_gone(ws))
		return -ESTALE;
	fd = fcntl(ws->root_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	return adopt(c, ws, NULL, NULL, fd, ret);
}

/* Opens what a key names, from outside the cache. */
static int open_key(struct inode_cache *c, struct workspace *ws, const struct inode_key *key)
{
	if (key->fs != fs_id(ws))
		return -ESTALE;
	if (key->kind == INODE_KEY_BIRTH) {
		if (get_u64(key->bytes) == ws->root_ino)
			return fcntl(ws->root_fd, F_DUPFD_CLOEXEC, 0);
		if (c->o.hints == NULL || key->len != BIRTH_KEY_LEN)
			return -ESTALE;
		return inode_hints_open_inode(c->o.hints, ws, get_u64(key->bytes),
					      get_u64(key->bytes + 8));
	}
	if (c->o.open_handle == NULL)
		return -ESTALE;
	return c->o.open_handle(c->o.arg, key);
}

int inode_from_key(struct inode_cache *c, const struct inode_key *key, bool may_block,
		   struct inode **ret)
{
	uint64_t hash = key_hash(key);
	struct inode_key found;
	struct workspace *ws;
	struct statx stx;
	struct inode *ino;
	int fd, rc;

	ino = find(c, key, hash);
	if (ino != NULL) {
		if (is_gone(ino->ws)) {
			inode_unref(c, ino);
			return -ESTALE;
		}
		*ret = ino;
		return 0;
	}
	if (!may_block)
		return -EAGAIN;
	ws = ws_find_key(c->o.registry, key->ws);
	if (ws == NULL)
		return -ESTALE;
	fd = open_key(c, ws, key);
	if (fd < 0) {
		workspace_unref(ws);
		return fd;
	}
	/* What was opened must be what the key says: an inode number may have been given out again.
	 */
	rc = make_key(c, ws, fd, "", AT_EMPTY_PATH, &found, &stx);
	if (rc == 0 && (found.kind != key->kind || !key_is_same(&found, key)))
		rc = -ESTALE;
	if (rc == 0 && statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_NLINK, &stx) < 0)
		rc = -errno;
	if (rc == 0 && stx.stx_nlink == 0)
		rc = -ESTALE;
	if (rc == 0)
		rc = insert(c, ws, key, hash, fd, &stx, ret);
	else
		(void)close(fd);
	workspace_unref(ws);
	return rc == -EXDEV ? -ESTALE : rc;
}

/* By the handle alone, when the inode is known: two system calls less than opening the name. */
static int lookup_known(struct inode_cache *c, struct inode *dir, const char *name,
			struct inode **ret)
{
	struct inode_key key;
	int rc = inode_key_at(c, dir, name, &key);

	if (rc < 0)
		return rc;
	*ret = find(c, &key, key_hash(&key));
	return *ret != NULL ? 0 : -EAGAIN;
}

int inode_lookup(struct inode_cache *c, struct inode *dir, const char *name, bool may_block,
		 struct inode **ret)
{
	int fd, rc;

	if (may_block) {
		rc = lookup_known(c, dir, name, ret);
		if (rc == 0 || rc == -ENOENT || rc == -EXDEV)
			return rc;
	}
	fd = path_open(dir->path_fd, name, O_PATH | O_NOFOLLOW, 0, may_block ? 0 : PATH_CACHED);
	if (fd < 0)
		return fd;
	return adopt(c, dir->ws, dir, name, fd, ret);
}

int inode_parent(struct inode_cache *c, struct inode *dir, struct inode **ret)
{
	struct workspace *ws = dir->ws;
	int fd;

	if (dir->ino == ws->root_ino) {
		inode_ref(dir);
		*ret = dir;
		return 0;
	}
	fd = path_open_parent(dir->path_fd, ws->root_ino, ws->root_dev_major, ws->root_dev_minor);
	if (fd < 0)
		return fd;
	return adopt(c, ws, NULL, NULL, fd, ret);
}

int inode_key_at(struct inode_cache *c, struct inode *dir, const char *name, struct inode_key *ret)
{
	struct statx stx;
	int rc = make_key(c, dir->ws, dir->path_fd, name, 0, ret, &stx);

	if (rc == 0 && c->o.hints != NULL)
		inode_hints_note(c->o.hints, dir->ws, stx.stx_ino, birth_ns(&stx), dir->ino, name);
	return rc;
}

/* ---- upkeep ------------------------------------------------------------- */

static void close_idle_writers(struct inode_cache *c, struct shard *s, uint64_t before_ns)
{
	struct inode_io *drop[64];
	struct list *pos, *tmp;
	size_t n;

	do {
		n = 0;
		pthread_mutex_lock(&s->mutex);
		list_for_each_safe (pos, tmp, &s->writers) {
			struct inode *ino = list_entry(pos, struct inode, wr_list);

			if (ino->wr_used_ns > before_ns || n == ARRAY_LEN(drop))
				continue;
			drop[n++] = inode_detach_io(c, &ino->wr);
			list_del(&ino->wr_list);
		}
		pthread_mutex_unlock(&s->mutex);
		for (size_t i = 0; i < n; i++)
			inode_io_put(drop[i]);
	} while (n == ARRAY_LEN(drop));
}

struct collect {
	struct inode **v; /* owned references */
	size_t n, max;
	const struct workspace *only; /* or NULL for all */
};

static bool collect_one(struct map_node *n, void *arg)
{
	struct inode *ino = container_of(n, struct inode, node);
	struct collect *col = arg;

	if (col->only != NULL && ino->ws != col->only)
		return true;
	if (col->n == col->max)
		return false;
	inode_ref(ino);
	col->v[col->n++] = ino;
	return true;
}

/* References to all entries of a shard (of one workspace); 0 when out of memory: the next sweep
 * does it. */
static size_t collect(struct shard *s, const struct workspace *only, struct inode ***ret)
{
	struct collect col = { .only = only };

	*ret = NULL;
	pthread_mutex_lock(&s->mutex);
	col.max = s->map.n_nodes;
	if (col.max > 0)
		col.v = malloc(col.max * sizeof(*col.v));
	if (col.v != NULL)
		map_each(&s->map, collect_one, &col);
	pthread_mutex_unlock(&s->mutex);
	*ret = col.v;
	return col.n;
}

static void forget_removed(struct inode_cache *c, struct shard *s)
{
	auto_free struct inode **v = NULL;
	size_t n = collect(s, NULL, &v);
	struct stat st;

	for (size_t i = 0; i < n; i++) {
		if (fstat(v[i]->path_fd, &st) == 0 && st.st_nlink == 0)
			inode_forget(c, v[i]);
		inode_unref(c, v[i]);
	}
}

void inode_cache_sweep(struct inode_cache *c, uint64_t idle_ns)
{
	uint64_t now = clock_mono_ns();
	uint64_t before = now > idle_ns ? now - idle_ns : 0;

	for (unsigned i = 0; i < N_SHARDS; i++)
		close_idle_writers(c, &c->shards[i], before);
	for (unsigned i = 0; i < SWEEP_SHARDS; i++)
		forget_removed(c, &c->shards[c->sweep_at++ % N_SHARDS]);
}

void inode_cache_drop_workspace(struct inode_cache *c, const struct workspace *ws)
{
	for (unsigned i = 0; i < N_SHARDS; i++) {
		auto_free struct inode **v = NULL;
		size_t n = collect(&c->shards[i], ws, &v);

		for (size_t k = 0; k < n; k++) {
			inode_forget(c, v[k]);
			inode_unref(c, v[k]);
		}
	}
}

void inode_cache_stats(struct inode_cache *c, struct inode_cache_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < N_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		pthread_mutex_lock(&s->mutex);
		ret->hits += s->hits;
		ret->misses += s->misses;
		ret->evictions += s->evictions;
		ret->n_inodes += s->map.n_nodes;
		pthread_mutex_unlock(&s->mutex);
	}
	ret->n_fds = __atomic_load_n(&c->n_fds, __ATOMIC_RELAXED);
}

int inode_cache_new(const struct inode_cache_options *o, struct inode_cache **ret, struct err *err)
{
	struct inode_cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return err_set(err, -ENOMEM, "inode cache: out of memory");
	c->o = *o;
	for (unsigned i = 0; i < N_SHARDS; i++) {
		pthread_mutex_init(&c->shards[i].mutex, NULL);
		list_init(&c->shards[i].clock);
		list_init(&c->shards[i].writers);
	}
	*ret = c;
	return 0;
}

void inode_cache_free(struct inode_cache *c)
{
	if (c == NULL)
		return;
	for (unsigned i = 0; i < N_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		while (!list_is_empty(&s->clock)) {
			struct inode *ino = list_entry(s->clock.next, struct inode, clock);

			unlink_locked(s, ino);
			assert(ino->refs == 1);
			inode_unref(c, ino);
		}
		map_fini(&s->map);
		pthread_mutex_destroy(&s->mutex);
	}
	assert(c->n_fds == 0);
	free(c);
}
