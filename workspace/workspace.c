/* SPDX-License-Identifier: MIT */
/*
 * Workspaces on disk and in memory (see workspace.h).
 *
 * A crash may fall between any two steps.  The row's state says what the next start has to do:
 *
 *   MAKING    the folder may be there in part: remove it, drop the row; nobody was told of it
 *   LIVE      the folder is complete and on disk: serve it
 *   DELETING  the folder may be gone in part: remove the rest, drop the row
 *   TRASHED   the folder is in the trash, or on its way (ws_trash.c)
 *
 * Reads of the registry are a shared lock and a reference; changes to it hold the lock only to link
 * or unlink, never over disk or store.
 */
#include "workspace/workspace.h"

#include <assert.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/list.h"
#include "base/log.h"
#include "proto/jsonx.h"
#include "workspace/events.h"
#include "workspace/path.h"
#include "workspace/quota.h"
#include "workspace/registry_priv.h"
#include "workspace/store.h"
#include "workspace/ws_id.h"
#include "workspace/ws_meta.h"

/* Rules that some workspace has or had.  Kept until the registry closes, since readers hold no
 * reference to them, and shared by all that have the same: so what sets them again and again, or to
 * and fro, takes no more memory. */
struct rules_node {
	struct list link;
	struct export_rules rules;
};

/* ---- one workspace in memory -------------------------------------------- */

static uint64_t be64_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

static void workspace_free(struct workspace *ws)
{
	events_free(ws->events);
	quota_free(ws->quota_kept);
	if (ws->root_fd >= 0)
		(void)close(ws->root_fd);
	ws_meta_free(ws->metadata, ws->n_metadata);
	free(ws->name);
	free(ws->adopted);
	free(ws);
}

void workspace_ref(struct workspace *ws)
{
	(void)__atomic_fetch_add(&ws->refs, 1, __ATOMIC_RELAXED);
}

void workspace_unref(struct workspace *ws)
{
	if (ws != NULL && __atomic_sub_fetch(&ws->refs, 1, __ATOMIC_ACQ_REL) == 0)
		workspace_free(ws);
}

/* Both halves of a v4 uuid are never 0: each holds fixed bits (key the version, fsid the variant).
 */
static void set_identity(struct workspace *ws, const uint8_t uuid[16])
{
	memcpy(ws->uuid, uuid, sizeof(ws->uuid));
	ws_id_format(ws->id, uuid);
	ws->key = be64_at(uuid);
	ws->fsid = be64_at(uuid + 8);
}

static struct rules_node *rules_keep(struct ws_registry *r, const struct export_rules *rules)
{
	struct rules_node *n;
	struct list *pos;

	list_for_each (pos, &r->rules) {
		n = list_entry(pos, struct rules_node, link);
		if (export_rules_are_same(&n->rules, rules))
			return n;
	}
	n = malloc(sizeof(*n));
	if (n == NULL)
		return NULL;
	n->rules = *rules;
	list_add_tail(&r->rules, &n->link);
	return n;
}

static int load_rules(struct ws_registry *r, const char *json, const struct export_rules **ret,
		      struct err *err)
{
	auto_json json_t *o = NULL;
	struct export_rules rules;
	struct rules_node *n;
	int rc = jsonx_parse_object(json, strlen(json), &o, err);

	if (rc == 0)
		rc = export_rules_from_json(o, &rules, err);
	if (rc < 0)
		return rc;
	(void)pthread_mutex_lock(&r->change_mutex);
	n = rules_keep(r, &rules);
	(void)pthread_mutex_unlock(&r->change_mutex);
	if (n == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	*ret = &n->rules;
	return 0;
}

static int fill_from_row(struct ws_registry *r, struct workspace *ws, const struct ws_row *row,
			 struct err *err)
{
	uint8_t uuid[16];
	int rc;

	if (!ws_id_parse(row->id, uuid))
		return err_set(err, -EINVAL, "its id is not a UUID v4");
	set_identity(ws, uuid);
	ws->owner_uid = row->owner_uid;
	ws->owner_gid = row->owner_gid;
	ws->seq = row->seq;
	ws->created_ns = row->created_ns;
	ws->updated_ns = row->updated_ns;
	if (row->name != NULL) {
		ws->name = strdup(row->name);
		if (ws->name == NULL)
			return err_set(err, -ENOMEM, "out of memory");
	}
	if (row->adopted != NULL) {
		ws->adopted = strdup(row->adopted);
		if (ws->adopted == NULL)
			return err_set(err, -ENOMEM, "out of memory");
	}
	rc = ws_meta_from_json(row->metadata_json, &ws->metadata, &ws->n_metadata, err);
	if (rc == 0 && row->exports_json != NULL)
		rc = load_rules(r, row->exports_json, &ws->exports, err);
	return rc;
}

int ws_registry_from_row(struct ws_registry *r, const struct ws_row *row, struct workspace **ret,
			 struct err *err)
{
	struct workspace *ws = calloc(1, sizeof(*ws));
	int rc;

	if (ws == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	ws->refs = 1;
	ws->root_fd = -1;
	rc = fill_from_row(r, ws, row, err);
	if (rc < 0) {
		workspace_free(ws);
		return rc;
	}
	*ret = ws;
	return 0;
}

/* ---- its folder --------------------------------------------------------- */

/* files/ shows its mode through every door; the others are the daemon's own. */
static const struct {
	const char *name;
	mode_t mode;
} folders[] = { { "files", 0755 }, { "staging", 0700 }, { "logs", 0700 } };

static int open_folder(int dirfd, const char *path, int flags)
{
	return path_open(dirfd, path, flags | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
}

/* The umask is the operator's; our modes are not, hence fchmod. */
static int make_folder(int dirfd, const char *name, mode_t mode)
{
	auto_close int fd = -1;

	if (mkdirat(dirfd, name, mode) < 0)
		return -errno;
	fd = open_folder(dirfd, name, O_RDONLY);
	if (fd < 0)
		return fd;
	return fchmod(fd, mode) < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int make_folders(struct ws_registry *r, const char *id)
{
	auto_close int fd = -1;
	int rc = make_folder(r->dir_fd, id, 0700);

	if (rc < 0)
		return rc;
	fd = open_folder(r->dir_fd, id, O_RDONLY);
	if (fd < 0)
		return fd;
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		rc = make_folder(fd, folders[i].name, folders[i].mode);
		if (rc < 0)
			return rc;
	}
	return fsync(fd) < 0 || fsync(r->dir_fd) < 0 ? -errno : 0;
}

static int open_own_files(struct ws_registry *r, const struct workspace *ws, struct err *err)
{
	char path[WS_ID_LEN + sizeof("/files")];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/files", ws->id);
	fd = open_folder(r->dir_fd, path, O_PATH);
	if (fd < 0)
		return err_set(err, fd, "its folder cannot be opened: %s", strerror(-fd));
	return fd;
}

/* The broker knows the folder when this has succeeded. */
static int open_root(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	struct statx stx;
	int rc = 0;

	if (ws->adopted == NULL)
		ws->root_fd = open_own_files(r, ws, err);
	else if (r->o.open_adopted != NULL)
		ws->root_fd = r->o.open_adopted(r->o.arg, ws, err);
	else
		return err_set(err, -EINVAL, "'adopt': nothing can be adopted here");
	if (ws->root_fd < 0)
		return ws->root_fd;
	if (ws->adopted == NULL && r->o.on_open != NULL)
		rc = r->o.on_open(r->o.arg, ws, err);
	if (rc < 0)
		return rc;
	if (statx(ws->root_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_MNT_ID, &stx) < 0)
		return err_set(err, -errno, "its folder cannot be read: %s", strerror(errno));
	ws->root_mnt_id = stx.stx_mnt_id;
	ws->root_ino = stx.stx_ino;
	ws->root_dev_major = stx.stx_dev_major;
	ws->root_dev_minor = stx.stx_dev_minor;
	return 0;
}

int workspace_open_staging(const struct workspace *ws)
{
	const char *name = ws->adopted != NULL ? WS_ADOPTED_STAGING : "../staging";
	int fd;

	if (ws->adopted != NULL && mkdirat(ws->root_fd, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(ws->root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Uploads that were being put in place when the daemon was killed. */
static void empty_staging(const struct workspace *ws)
{
	auto_close int staging = workspace_open_staging(ws);
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	int fd;

	if (staging < 0)
		return;
	fd = open_folder(staging, ".", O_RDONLY);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)path_remove_tree(staging, e->d_name, NULL);
}

/* The end of a deletion and the way back from a creation: folder first, so that the row remembers.
 */
int ws_registry_remove(struct ws_registry *r, const char *id, struct err *err)
{
	int rc = path_remove_tree(r->dir_fd, id, err);

	if (rc == 0)
		rc = path_remove_tree(r->trash_fd, id, err);
	if (rc < 0)
		return rc;
	if (fsync(r->dir_fd) < 0 || fsync(r->trash_fd) < 0)
		return err_set(err, -errno, "remove the files: %s", strerror(errno));
	return store_ws_remove(r->store, id, err);
}

/* ---- the registry's maps ------------------------------------------------ */

static struct workspace *find_locked(struct ws_registry *r, uint64_t key)
{
	struct map_node *n = map_first(&r->by_key, map_hash_u64(key));

	for (; n != NULL; n = map_next(n)) {
		struct workspace *ws = container_of(n, struct workspace, by_key);

		if (ws->key == key)
			return ws;
	}
	return NULL;
}

/* The list has changed.  Called with the lock held for writing. */
static void bump_generation(struct ws_registry *r)
{
	uint64_t now = clock_real_ns();
	uint64_t next = __atomic_load_n(&r->generation, __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&r->generation, MAX(now, next), __ATOMIC_RELEASE);
}

/* Links @ws and takes a reference for the registry. */
static int registry_add(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	int rc = 0;

	(void)pthread_rwlock_wrlock(&r->lock);
	if (find_locked(r, ws->key) != NULL)
		rc = err_set(err, -EEXIST, "its key is taken by another workspace");
	else if (map_insert(&r->by_key, &ws->by_key, map_hash_u64(ws->key)) < 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0) {
		workspace_ref(ws);
		bump_generation(r);
	}
	(void)pthread_rwlock_unlock(&r->lock);
	return rc;
}

/* Unlinks @ws, once: false when somebody else did.  The registry's reference passes to the caller.
 */
static bool registry_take_out(struct ws_registry *r, struct workspace *ws)
{
	bool was_in;

	(void)pthread_rwlock_wrlock(&r->lock);
	was_in = !__atomic_load_n(&ws->is_gone, __ATOMIC_RELAXED);
	if (was_in) {
		__atomic_store_n(&ws->is_gone, true, __ATOMIC_RELEASE);
		map_remove(&r->by_key, &ws->by_key);
		bump_generation(r);
	}
	(void)pthread_rwlock_unlock(&r->lock);
	return was_in;
}

struct workspace *ws_find_key(struct ws_registry *r, uint64_t key)
{
	struct workspace *ws;

	(void)pthread_rwlock_rdlock(&r->lock);
	ws = find_locked(r, key);
	if (ws != NULL)
		workspace_ref(ws);
	(void)pthread_rwlock_unlock(&r->lock);
	return ws;
}

struct workspace *ws_find(struct ws_registry *r, const char *id)
{
	struct workspace *ws;
	uint8_t uuid[16];

	if (!ws_id_parse(id, uuid))
		return NULL;
	ws = ws_find_key(r, be64_at(uuid));
	if (ws != NULL && memcmp(ws->uuid, uuid, sizeof(uuid)) != 0) {
		workspace_unref(ws);
		return NULL;
	}
	return ws;
}

struct list_filler {
	struct workspace **list;
	size_t n;
};

static bool add_to_list(struct map_node *n, void *arg)
{
	struct workspace *ws = container_of(n, struct workspace, by_key);
	struct list_filler *f = arg;

	workspace_ref(ws);
	f->list[f->n++] = ws;
	return true;
}

static int newer_first(const void *a, const void *b)
{
	uint64_t sa = (*(struct workspace *const *)a)->seq;
	uint64_t sb = (*(struct workspace *const *)b)->seq;

	return sa < sb ? 1 : -(sa > sb);
}

int ws_list(struct ws_registry *r, struct workspace ***ret, size_t *ret_n)
{
	struct list_filler f = { 0 };

	(void)pthread_rwlock_rdlock(&r->lock);
	f.list = calloc(r->by_key.n_nodes + 1, sizeof(struct workspace *));
	if (f.list != NULL)
		map_each(&r->by_key, add_to_list, &f);
	(void)pthread_rwlock_unlock(&r->lock);
	if (f.list == NULL)
		return -ENOMEM;
	qsort(f.list, f.n, sizeof(struct workspace *), newer_first);
	*ret = f.list;
	*ret_n = f.n;
	return 0;
}

void ws_list_free(struct workspace **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		workspace_unref(list[i]);
	free(list);
}

uint64_t ws_list_generation(struct ws_registry *r)
{
	return __atomic_load_n(&r->generation, __ATOMIC_ACQUIRE);
}

/* ---- opening at start --------------------------------------------------- */

struct load_item {
	char id[WS_ID_LEN + 1];
	enum ws_row_state state;
	struct workspace *ws; /* owned; only of LIVE rows that make sense */
};

struct load {
	struct ws_registry *r;
	struct load_item *items; /* owned */
	size_t n, cap;
};

/* The store is locked while it lists, so rows are only noted here and acted upon later. */
static int load_row(void *arg, const struct ws_row *row)
{
	struct load *l = arg;
	struct load_item *item;
	struct err err = { 0 };

	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 64 : l->cap * 2;
		struct load_item *more = reallocarray(l->items, cap, sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		l->items = more;
		l->cap = cap;
	}
	item = &l->items[l->n++];
	*item = (struct load_item){ .state = row->state };
	memcpy(item->id, row->id, sizeof(item->id));
	if (row->state == WS_ROW_TRASHED && ws_trash_load(l->r, row, &err) < 0)
		log_error(LOG_WS, "skipped a damaged workspace ws=%.*s why=\"%s\"", SHORT_ID,
			  item->id, err.msg);
	if (row->state == WS_ROW_LIVE && ws_registry_from_row(l->r, row, &item->ws, &err) < 0)
		log_error(LOG_WS, "skipped a damaged workspace ws=%.*s why=\"%s\"", SHORT_ID,
			  item->id, err.msg);
	return 0;
}

int ws_registry_publish(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	int rc = open_root(r, ws, err);

	if (rc < 0)
		return rc;
	empty_staging(ws);
	rc = quota_load(r->store, ws, err);
	if (rc == 0)
		rc = registry_add(r, ws, err);
	if (rc < 0 && r->o.on_gone != NULL)
		r->o.on_gone(r->o.arg, ws);
	return rc;
}

static void finish_item(struct ws_registry *r, const struct load_item *item)
{
	struct err err = { 0 };
	uint8_t uuid[16];

	if (item->state == WS_ROW_LIVE) {
		if (item->ws != NULL && ws_registry_publish(r, item->ws, &err) < 0)
			log_error(LOG_WS, "skipped a workspace ws=%.*s why=\"%s\"", SHORT_ID,
				  item->id, err.msg);
		return;
	}
	if (!ws_id_parse(item->id, uuid))
		log_error(LOG_WS, "skipped a damaged workspace why=\"its id is not a UUID v4\"");
	else if (item->state == WS_ROW_TRASHED)
		ws_trash_settle(r, item->id);
	else if (ws_registry_remove(r, item->id, &err) < 0)
		log_error(LOG_WS, "cannot finish a removal ws=%.*s why=\"%s\"", SHORT_ID, item->id,
			  err.msg);
	else
		log_info(LOG_WS, "finished what a crash interrupted ws=%.*s", SHORT_ID, item->id);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct load_item *)a)->id, ((const struct load_item *)b)->id);
}

/* Somebody's data without a row is told of and left alone.  Names of ours that are no ids begin
 * with a dot. */
static void report_orphans(struct ws_registry *r, struct load *l)
{
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	int fd = open_folder(r->dir_fd, ".", O_RDONLY);

	if (fd < 0)
		return;
	d = fdopendir(fd);
	if (d == NULL) {
		(void)close(fd);
		return;
	}
	if (l->n > 1) /* qsort(3) takes no NULL */
		qsort(l->items, l->n, sizeof(*l->items), by_id);
	while ((e = readdir(d)) != NULL) {
		struct load_item key = { 0 };
		char text[64];

		if (e->d_name[0] == '.')
			continue;
		if (strlen(e->d_name) == WS_ID_LEN) {
			memcpy(key.id, e->d_name, WS_ID_LEN);
			if (l->n > 0 && bsearch(&key, l->items, l->n, sizeof(key), by_id) != NULL)
				continue;
		}
		log_warn(LOG_WS, "a folder without a workspace is left alone name=%s",
			 log_escape(text, sizeof(text), e->d_name, strlen(e->d_name)));
	}
}

static int load_all(struct ws_registry *r, struct err *err)
{
	struct load l = { .r = r };
	int rc = store_ws_each(r->store, load_row, &l, err);

	if (rc < 0)
		(void)err_wrap(err, rc, "load workspaces");
	for (size_t i = 0; i < l.n && rc == 0; i++)
		finish_item(r, &l.items[i]);
	if (rc == 0)
		report_orphans(r, &l);
	for (size_t i = 0; i < l.n; i++)
		workspace_unref(l.items[i].ws); /* the registry has its own */
	free(l.items);
	return rc;
}

/* The operator names the data directory and may have made "workspaces" a link to a larger disk or a
 * mount; below it everything goes through the path door. */
static int open_workspaces_folder(const char *data_dir, int *ret_fd, struct err *err)
{
	auto_close int data = io_open_dir(AT_FDCWD, data_dir);
	int fd;

	if (data < 0)
		return err_set(err, data, "data directory: %s", strerror(-data));
	if (mkdirat(data, "workspaces", 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make the folder of workspaces: %s", strerror(errno));
	fd = io_open_dir(data, "workspaces");
	if (fd < 0)
		return err_set(err, fd, "open the folder of workspaces: %s", strerror(-fd));
	*ret_fd = fd;
	return 0;
}

/* Writers are rare and must not wait for ever behind loops that read all the time. */
static void init_lock(pthread_rwlock_t *lock)
{
	pthread_rwlockattr_t attr;

	(void)pthread_rwlockattr_init(&attr);
	(void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	(void)pthread_rwlock_init(lock, &attr);
	(void)pthread_rwlockattr_destroy(&attr);
}

int ws_registry_open(struct store *store, const struct ws_registry_options *o,
		     struct ws_registry **ret, struct err *err)
{
	struct ws_registry *r = calloc(1, sizeof(*r));
	int rc;

	if (r == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	r->store = store;
	r->o = *o;
	r->dir_fd = r->trash_fd = -1;
	r->generation = clock_real_ns();
	list_init(&r->rules);
	list_init(&r->trash);
	(void)pthread_mutex_init(&r->trash_mutex, NULL);
	init_lock(&r->lock);
	(void)pthread_mutex_init(&r->change_mutex, NULL);
	rc = map_init(&r->by_key, 0);
	if (rc < 0)
		(void)err_set(err, rc, "out of memory");
	if (rc == 0)
		rc = open_workspaces_folder(o->data_dir, &r->dir_fd, err);
	if (rc == 0)
		rc = ws_trash_open(r, err);
	if (rc == 0)
		rc = load_all(r, err);
	if (rc < 0) {
		ws_registry_close(r);
		return rc;
	}
	*ret = r;
	return 0;
}

static bool drop_from_map(struct map_node *n, void *arg)
{
	struct ws_registry *r = arg;

	map_remove(&r->by_key, n);
	workspace_unref(container_of(n, struct workspace, by_key));
	return true;
}

void ws_registry_close(struct ws_registry *r)
{
	struct list *pos, *tmp;

	if (r == NULL)
		return;
	map_each(&r->by_key, drop_from_map, r);
	map_fini(&r->by_key);
	ws_trash_close(r);
	list_for_each_safe (pos, tmp, &r->rules)
		free(list_entry(pos, struct rules_node, link));
	if (r->dir_fd >= 0)
		(void)close(r->dir_fd);
	(void)pthread_mutex_destroy(&r->change_mutex);
	(void)pthread_mutex_destroy(&r->trash_mutex);
	(void)pthread_rwlock_destroy(&r->lock);
	free(r);
}

/* ---- create and delete -------------------------------------------------- */

void ws_new_id(struct ws_registry *r, char id[WS_ID_LEN + 1])
{
	struct workspace *taken;
	uint8_t uuid[16];

	do {
		ws_id_random(uuid);
		taken = ws_find_key(r, be64_at(uuid));
		workspace_unref(taken);
	} while (taken != NULL);
	ws_id_format(id, uuid);
}

static int new_row(struct ws_registry *r, const struct ws_create *c, struct ws_row *row,
		   struct err *err)
{
	int rc = c->name != NULL ? ws_name_check(c->name, err) : 0;

	if (rc == 0)
		rc = ws_meta_check(c->metadata, c->n_metadata, err);
	if (rc < 0)
		return rc;
	if (c->id != NULL)
		memcpy(row->id, c->id, sizeof(row->id));
	else
		ws_new_id(r, row->id);
	row->owner_uid = r->o.owner_uid;
	row->owner_gid = r->o.owner_gid;
	row->created_ns = clock_real_ns();
	row->updated_ns = row->created_ns;
	row->state = WS_ROW_MAKING;
	row->metadata_json = ws_meta_to_json(c->metadata, c->n_metadata);
	row->name = c->name != NULL ? strdup(c->name) : NULL;
	row->adopted = c->adopt != NULL ? strdup(c->adopt) : NULL;
	if (row->metadata_json == NULL || (c->name != NULL && row->name == NULL) ||
	    (c->adopt != NULL && row->adopted == NULL))
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static int take_back(struct ws_registry *r, const char *id, struct err *err)
{
	/* It may have got as far as LIVE. */
	(void)store_ws_set_state(r->store, id, WS_ROW_MAKING, NULL);
	return ws_registry_remove(r, id, err);
}

static void roll_back(struct ws_registry *r, const char *id)
{
	struct err err = { 0 };

	if (take_back(r, id, &err) < 0)
		log_error(LOG_WS,
			  "a failed creation is removed at the next start ws=%.*s why=\"%s\"",
			  SHORT_ID, id, err.msg);
}

/* The registry comes last: what can be found is complete. */
static int show_workspace(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	int rc = store_ws_set_state(r->store, ws->id, WS_ROW_LIVE, err);

	return rc < 0 ? rc : registry_add(r, ws, err);
}

/* Everything between the row MAKING and an answer. */
static int make_workspace(struct ws_registry *r, const struct ws_row *row, struct workspace *ws,
			  bool is_unfinished, struct err *err)
{
	int rc = make_folders(r, row->id);

	if (rc < 0)
		return err_set(err, rc, "make the folder: %s", strerror(-rc));
	rc = open_root(r, ws, err);
	if (rc < 0)
		return rc;
	if (!is_unfinished)
		rc = show_workspace(r, ws, err);
	if (rc < 0 && r->o.on_gone != NULL)
		r->o.on_gone(r->o.arg, ws);
	return rc;
}

int ws_registry_has_room(struct ws_registry *r, struct err *err)
{
	size_t n;

	pthread_rwlock_rdlock(&r->lock);
	n = r->by_key.n_nodes;
	pthread_rwlock_unlock(&r->lock);
	if (r->o.max_workspaces == 0 || n < r->o.max_workspaces)
		return 0;
	return err_set(err, -EDQUOT,
		       "there are %zu workspaces, as many as the limit of open files allows: "
		       "delete one, or "
		       "raise the limit",
		       n);
}

int ws_create(struct ws_registry *r, const struct ws_create *c, struct workspace **ret,
	      struct err *err)
{
	struct workspace *ws = NULL;
	struct ws_row row = { 0 };
	int rc = ws_registry_has_room(r, err);

	if (rc == 0)
		rc = new_row(r, c, &row, err);
	if (rc < 0)
		goto out;
	rc = store_ws_insert(r->store, &row, err);
	if (rc < 0)
		goto out;
	rc = ws_registry_from_row(r, &row, &ws, err);
	if (rc == 0)
		rc = make_workspace(r, &row, ws, c->is_unfinished, err);
	if (rc < 0) {
		roll_back(r, row.id);
		goto out;
	}
	if (!c->is_unfinished)
		log_info(LOG_WS, "created ws=%.*s", SHORT_ID, ws->id);
	*ret = ws;
	ws = NULL;
out:
	workspace_unref(ws);
	ws_row_fini(&row);
	return rc < 0 ? err_wrap(err, rc, "create workspace") : 0;
}

int ws_finish(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	int rc = show_workspace(r, ws, err);

	if (rc < 0)
		return err_wrap(err, rc, "create workspace");
	log_info(LOG_WS, "created ws=%.*s", SHORT_ID, ws->id);
	return 0;
}

int ws_abandon(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	if (r->o.on_gone != NULL)
		r->o.on_gone(r->o.arg, ws);
	return take_back(r, ws->id, err);
}

bool ws_registry_retire(struct ws_registry *r, struct workspace *ws)
{
	if (!registry_take_out(r, ws))
		return false;
	events_workspace_gone(ws);
	if (r->o.on_gone != NULL)
		r->o.on_gone(r->o.arg, ws);
	return true;
}

/* On a full disk there is no room for the mark, and a deletion is what would make some.  Without
 * the mark a crash before the end leaves a workspace with a part of its files, to be deleted again.
 */
static int mark_deleting(struct ws_registry *r, const char *id, struct err *err)
{
	int rc = store_ws_set_state(r->store, id, WS_ROW_DELETING, err);

	return rc == -ENOSPC ? 0 : rc;
}

static int delete_found(struct ws_registry *r, struct workspace *ws, struct err *err)
{
	int rc = mark_deleting(r, ws->id, err);

	if (rc < 0)
		return rc;
	if (!ws_registry_retire(r, ws))
		return err_set(err, -ENOENT, "it is being deleted already");
	rc = ws_registry_remove(r, ws->id, err);
	workspace_unref(ws); /* the registry's */
	return rc;
}

int ws_delete(struct ws_registry *r, const char *id, struct err *err)
{
	struct workspace *ws = ws_find(r, id);
	int rc;

	if (ws == NULL) {
		rc = ws_trash_delete(r, id, err);
		return rc == -ENOENT ? err_set(err, rc, "no such workspace") : rc;
	}
	rc = delete_found(r, ws, err);
	if (rc < 0)
		(void)err_wrap(err, rc, "delete workspace");
	else
		log_info(LOG_WS, "deleted ws=%.*s", SHORT_ID, ws->id);
	workspace_unref(ws);
	return rc;
}

/* ---- export rules ------------------------------------------------------- */

static int store_rules(struct ws_registry *r, const struct workspace *ws,
		       const struct export_rules *rules, uint64_t now_ns, struct err *err)
{
	auto_json json_t *o = NULL;
	auto_free char *text = NULL;

	if (rules != NULL) {
		o = export_rules_to_json(rules);
		text = json_dumps(o, JSON_COMPACT);
		if (text == NULL)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return store_ws_set_exports(r->store, ws->id, text, now_ns, err);
}

static int set_exports_locked(struct ws_registry *r, struct workspace *ws,
			      const struct export_rules *rules, struct err *err)
{
	uint64_t now_ns = clock_real_ns();
	struct rules_node *n = NULL;
	int rc;

	if (rules != NULL) {
		n = rules_keep(r, rules);
		if (n == NULL)
			return err_set(err, -ENOMEM, "out of memory");
	}
	rc = store_rules(r, ws, rules, now_ns, err);
	if (rc < 0)
		return rc;
	__atomic_store_n(&ws->exports, n != NULL ? &n->rules : NULL, __ATOMIC_RELEASE);
	(void)__atomic_fetch_add(&ws->export_gen, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&ws->updated_ns, now_ns, __ATOMIC_RELAXED);
	return 0;
}

int ws_set_exports(struct ws_registry *r, struct workspace *ws, const struct export_rules *rules,
		   struct err *err)
{
	int rc;

	(void)pthread_mutex_lock(&r->change_mutex);
	rc = set_exports_locked(r, ws, rules, err);
	(void)pthread_mutex_unlock(&r->change_mutex);
	return rc < 0 ? err_wrap(err, rc, "set export rules") : 0;
}

const struct export_rules *ws_exports(struct ws_registry *r, const struct workspace *ws)
{
	const struct export_rules *own = __atomic_load_n(&ws->exports, __ATOMIC_ACQUIRE);

	return own != NULL ? own : &r->o.default_exports;
}
