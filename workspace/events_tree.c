/* SPDX-License-Identifier: MIT */
/* The tree of watched directories (see events_watch.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "workspace/events_watch.h"
#include "workspace/path.h"

#define WATCH_MASK                                                                                 \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO |             \
	 IN_ONLYDIR | IN_EXCL_UNLINK)

void watch_tell(struct ws_events *e, enum event_type type, mode_t kind, const char *path,
		const char *to)
{
	struct event ev = { .type = type, .door = DOOR_LOCAL, .kind = kind };

	ev.path = strdup(path);
	ev.to = to != NULL ? strdup(to) : NULL;
	if (ev.path == NULL || (to != NULL && ev.to == NULL)) {
		event_fini(&ev);
		ev = (struct event){ .type = EVENT_OVERFLOW, .reason = "out of memory" };
	}
	(void)pthread_mutex_lock(&e->mutex);
	if (ev.path != NULL)
		events_flush_path_locked(e, path);
	events_put_locked(e, &ev);
	(void)pthread_mutex_unlock(&e->mutex);
}

/* ---- nodes -------------------------------------------------------------- */

static uint64_t name_hash(const struct watch_node *parent, const char *name)
{
	return map_hash_u64((uint64_t)(uintptr_t)parent) ^ map_hash_bytes(name, strlen(name));
}

struct watch_node *watch_tree_by_wd(struct watch_tree *t, int wd)
{
	struct map_node *m = map_first(&t->by_wd, map_hash_u64((uint64_t)wd));

	for (; m != NULL; m = map_next(m)) {
		struct watch_node *n = container_of(m, struct watch_node, by_wd);

		if (n->wd == wd)
			return n;
	}
	return NULL;
}

struct watch_node *watch_tree_child(struct watch_tree *t, const struct watch_node *parent,
				    const char *name)
{
	struct map_node *m = map_first(&t->by_name, name_hash(parent, name));

	for (; m != NULL; m = map_next(m)) {
		struct watch_node *n = container_of(m, struct watch_node, by_name);

		if (n->parent == parent && strcmp(n->name, name) == 0)
			return n;
	}
	return NULL;
}

int watch_tree_path(const struct watch_node *dir, const char *name, char dst[EVENTS_PATH_ROOM])
{
	size_t at = EVENTS_PATH_ROOM - 1, len = strlen(name);

	dst[at] = '\0';
	for (;;) {
		if (len > at)
			return -ENAMETOOLONG;
		at -= len;
		memcpy(dst + at, name, len);
		if (dir == NULL || dir->parent == NULL)
			break;
		if (at == 0)
			return -ENAMETOOLONG;
		if (dst[at] != '\0')
			dst[--at] = '/';
		name = dir->name;
		len = strlen(name);
		dir = dir->parent;
	}
	memmove(dst, dst + at, EVENTS_PATH_ROOM - at);
	return 0;
}

/* A node that is linked nowhere yet. */
static int link_node(struct watch_tree *t, struct watch_node *n, struct watch_node *parent,
		     const char *name)
{
	char *copy = strdup(name);

	if (copy == NULL)
		return -ENOMEM;
	if (map_insert(&t->by_name, &n->by_name, name_hash(parent, name)) < 0) {
		free(copy);
		return -ENOMEM;
	}
	n->name = copy;
	n->parent = parent;
	if (parent != NULL)
		list_add_tail(&parent->children, &n->sibling);
	else
		t->root = n;
	return 0;
}

static void unlink_node(struct watch_tree *t, struct watch_node *n)
{
	map_remove(&t->by_name, &n->by_name);
	list_del(&n->sibling);
	free(n->name);
	n->name = NULL;
	if (t->root == n)
		t->root = NULL;
}

static void free_node(struct watch_tree *t, struct watch_node *n)
{
	(void)inotify_rm_watch(t->fd, n->wd);
	map_remove(&t->by_wd, &n->by_wd);
	free(n);
	t->n--;
}

/* Without recursion: a tree may be deeper than a stack. */
void watch_tree_drop(struct watch_tree *t, struct watch_node *top)
{
	struct watch_node *n = top;

	for (;;) {
		struct watch_node *parent = n->parent;
		bool is_top = n == top;

		if (!list_is_empty(&n->children)) {
			n = list_entry(n->children.next, struct watch_node, sibling);
			continue;
		}
		unlink_node(t, n);
		free_node(t, n);
		if (is_top)
			return;
		n = parent;
	}
}

/* What is queued may be older than what is on disk: never a circle. */
static bool is_above(const struct watch_node *n, const struct watch_node *below)
{
	while (below != NULL && below != n)
		below = below->parent;
	return below == n;
}

bool watch_tree_move(struct watch_tree *t, struct watch_node *n, struct watch_node *to_parent,
		     const char *to_name)
{
	struct watch_node *old = watch_tree_child(t, to_parent, to_name);

	if (old == n)
		return true;
	if (is_above(n, to_parent)) {
		t->is_suspect = true;
		return false;
	}
	unlink_node(t, n); /* first: it may have been below the other */
	if (old != NULL)
		watch_tree_drop(t, old); /* replaced by it */
	if (link_node(t, n, to_parent, to_name) == 0)
		return true;
	while (!list_is_empty(&n->children))
		watch_tree_drop(t, list_entry(n->children.next, struct watch_node, sibling));
	free_node(t, n);
	return false;
}

/* ---- watching ----------------------------------------------------------- */

/* A directory that is to be watched.  Its parent's node may be gone when its turn comes. */
struct todo {
	struct list link;
	int parent_wd;
	char name[];
};

static void push(struct list *todo, const struct watch_node *parent, const char *name)
{
	size_t len = strlen(name) + 1;
	struct todo *d = malloc(sizeof(*d) + len);

	if (d == NULL)
		return;
	d->parent_wd = parent->wd;
	memcpy(d->name, name, len);
	list_add_head(todo, &d->link); /* depth first keeps the list short */
}

static void tell_full(struct watch_tree *t)
{
	if (!t->is_full)
		events_overflow(t->events, "too many directories to watch");
	t->is_full = true;
}

/* The node of an open directory, new or known by another name; NULL: it cannot be watched. */
static struct watch_node *watch_dir(struct watch_tree *t, int fd, struct watch_node *parent,
				    const char *name)
{
	char proc[PATH_PROC_LEN];
	struct watch_node *n;
	struct stat st;
	int wd;

	if (t->n >= EVENTS_WATCHES_MAX) {
		tell_full(t);
		return NULL;
	}
	wd = inotify_add_watch(t->fd, path_proc(proc, fd), WATCH_MASK);
	if (wd < 0 || fstat(fd, &st) < 0) {
		if (errno == ENOSPC || errno == ENOMEM)
			tell_full(t);
		return NULL;
	}
	n = watch_tree_by_wd(t, wd);
	if (n != NULL)
		return watch_tree_move(t, n, parent, name) ? n : NULL;
	n = calloc(1, sizeof(*n));
	if (n == NULL || map_insert(&t->by_wd, &n->by_wd, map_hash_u64((uint64_t)wd)) < 0) {
		free(n);
		return NULL;
	}
	n->wd = wd;
	n->ino = st.st_ino;
	list_init(&n->children);
	list_init(&n->sibling);
	t->n++;
	if (link_node(t, n, parent, name) == 0)
		return n;
	free_node(t, n);
	return NULL;
}

/* What stands in a new directory is told once: the watch may report it too, or a door of ours made
 * it. */
static void tell_found(struct watch_tree *t, struct watch_node *dir, const char *name, mode_t kind)
{
	struct ws_events *e = t->events;
	char path[EVENTS_PATH_ROOM];
	bool is_told;

	(void)pthread_mutex_lock(&e->mutex);
	is_told = echo_take_locked(e, echo_key_name(ECHO_CREATE, dir->ino, name), true) ||
		  echo_take_locked(e, echo_key_name(ECHO_TO, dir->ino, name), true);
	if (!is_told)
		echo_note_locked(e, echo_key_name(ECHO_FOUND, dir->ino, name));
	(void)pthread_mutex_unlock(&e->mutex);
	if (!is_told && watch_tree_path(dir, name, path) == 0)
		watch_tell(e, EVENT_CREATED, kind, path, NULL);
}

static mode_t kind_of_entry(int dirfd, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return DTTOIF(d->d_type);
	return fstatat(dirfd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode & S_IFMT : 0;
}

/* Takes @fd. */
static void list_dir(struct watch_tree *t, int fd, struct watch_node *n, bool tell,
		     struct list *todo)
{
	auto_closedir DIR *d = fdopendir(fd);
	const struct dirent *entry;

	if (d == NULL) {
		(void)close(fd);
		return;
	}
	while ((entry = readdir(d)) != NULL) {
		mode_t kind = kind_of_entry(fd, entry);

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (tell) {
			events_settle(t->events); /* a door of ours may be making it just now */
			tell_found(t, n, entry->d_name, kind);
		}
		if (kind == S_IFDIR)
			push(todo, n, entry->d_name);
	}
}

/* Is a directory (open, or by its path) the one that its node stands for?  Between a change and the
 * kernel's word of it the tree is behind the disk. */
static bool is_parent_of(const struct watch_node *parent, int fd)
{
	struct stat st;

	return parent == NULL || (fstatat(fd, "..", &st, 0) == 0 && st.st_ino == parent->ino);
}

bool watch_tree_is_at(struct watch_tree *t, const struct watch_node *n, const char *path)
{
	auto_close int fd =
		path_open(t->events->ws->root_fd, path, O_PATH | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == n->ino;
}

/* It is gone again, or its parent is elsewhere, so that we looked in the wrong place. */
static void missed(struct watch_tree *t, const struct watch_node *parent)
{
	char path[EVENTS_PATH_ROOM];

	if (parent != NULL && (watch_tree_path(parent->parent, parent->name, path) < 0 ||
			       !watch_tree_is_at(t, parent, path)))
		t->is_suspect = true;
}

static void add_one(struct watch_tree *t, struct watch_node *parent, const char *name, bool tell,
		    struct list *todo)
{
	char path[EVENTS_PATH_ROOM];
	struct watch_node *n;
	unsigned n_before = t->n;
	int fd;

	if (watch_tree_path(parent, name, path) < 0)
		return;
	fd = path_open(t->events->ws->root_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
		       PATH_NOFOLLOW_ALL);
	if (fd < 0) {
		missed(t, parent);
		return;
	}
	if (!is_parent_of(parent, fd)) {
		t->is_suspect = true;
		(void)close(fd);
		return;
	}
	n = watch_dir(t, fd, parent, name);
	if (n != NULL && t->n > n_before) /* else what is in it was told when it was new */
		list_dir(t, fd, n, tell, todo);
	else
		(void)close(fd);
}

void watch_tree_add(struct watch_tree *t, struct watch_node *parent, const char *name, bool tell)
{
	struct list todo = LIST_INIT(todo);

	add_one(t, parent, name, tell, &todo);
	while (!list_is_empty(&todo)) {
		struct todo *d = list_entry(todo.next, struct todo, link);
		struct watch_node *above = watch_tree_by_wd(t, d->parent_wd);

		list_del(&d->link);
		if (above != NULL && !events_is_stopping(t->events))
			add_one(t, above, d->name, tell, &todo);
		free(d);
	}
}

int watch_tree_open(struct watch_tree *t, struct ws_events *e)
{
	int rc;

	*t = (struct watch_tree){ .events = e };
	t->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (t->fd < 0)
		return -errno;
	rc = map_init(&t->by_wd, 0);
	if (rc == 0)
		rc = map_init(&t->by_name, 0);
	return rc;
}

void watch_tree_close(struct watch_tree *t)
{
	if (t->fd < 0)
		return;
	if (t->root != NULL)
		watch_tree_drop(t, t->root);
	map_fini(&t->by_wd);
	map_fini(&t->by_name);
	(void)close(take_fd(&t->fd));
}
