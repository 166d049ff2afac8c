/* SPDX-License-Identifier: MIT */
/* The thread that watches one workspace while somebody listens (see events_watch.h). */
#include "workspace/events_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "workspace/path.h"
#include "workspace/tree_walk.h"

#define READ_MAX                                                                                   \
	(16u << 20)     /* bytes of one read: the kernel's queue at its usual length is less       \
			 */
#define FROM_WAIT_MS 10 /* the other half of a rename is queued right behind the first */
#define WALK_SHARE   20 /* walks for lost paths take at most a twentieth of the time */

/* The first half of a rename. */
struct moved_from {
	bool is_set, is_old; /* old: a read has gone by since */
	bool is_dir;
	bool is_ours; /* an echo */
	uint32_t cookie;
	int dir_wd; /* the directory may be gone meanwhile */
	char *name; /* owned */
	char path[EVENTS_PATH_ROOM];
};

struct watcher {
	struct ws_events *events;
	struct watch_tree tree;
	struct moved_from from;
	struct buf buf;
	uint64_t next_walk_ns, next_restart_ns;
};

/* One event of the kernel, in our words. */
struct seen {
	struct watch_node *dir;
	const char *name;
	uint32_t mask, cookie;
	char path[EVENTS_PATH_ROOM];
};

static bool is_dir(const struct seen *s)
{
	return (s->mask & IN_ISDIR) != 0;
}

static bool is_own(struct watcher *w, uint64_t key, bool keep)
{
	bool is;

	(void)pthread_mutex_lock(&w->events->mutex);
	is = echo_take_locked(w->events, key, keep);
	(void)pthread_mutex_unlock(&w->events->mutex);
	return is;
}

/* What lies at a path now, links not followed; -ENOENT when nothing does. */
static int look_at(struct watcher *w, const char *path, struct stat *ret)
{
	auto_close int fd =
		path_open(w->events->ws->root_fd, path, O_PATH | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);

	if (fd < 0)
		return fd;
	return fstat(fd, ret) < 0 ? -errno : 0;
}

static mode_t kind_at(struct watcher *w, const struct seen *s)
{
	struct stat st;

	if (is_dir(s))
		return S_IFDIR;
	return look_at(w, s->path, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

/* ---- names -------------------------------------------------------------- */

static void appeared(struct watcher *w, const struct seen *s, enum echo_kind as)
{
	if (!is_own(w, echo_key_name(as, s->dir->ino, s->name), false) &&
	    !is_own(w, echo_key_name(ECHO_FOUND, s->dir->ino, s->name), false))
		watch_tell(w->events, EVENT_CREATED, kind_at(w, s), s->path, NULL);
	if (is_dir(s))
		watch_tree_add(&w->tree, s->dir, s->name, true);
}

static void on_create(struct watcher *w, const struct seen *s)
{
	appeared(w, s, ECHO_CREATE);
}

static void on_delete(struct watcher *w, const struct seen *s)
{
	struct watch_node *n = watch_tree_child(&w->tree, s->dir, s->name);

	(void)pthread_mutex_lock(&w->events->mutex);
	echo_forget_locked(w->events, echo_key_name(ECHO_FOUND, s->dir->ino, s->name));
	(void)pthread_mutex_unlock(&w->events->mutex);
	if (!is_own(w, echo_key_name(ECHO_DELETE, s->dir->ino, s->name), false))
		watch_tell(w->events, EVENT_REMOVED, is_dir(s) ? S_IFDIR : 0, s->path, NULL);
	/* the word may be of an older one of that name */
	if (is_dir(s) && n != NULL && !watch_tree_is_at(&w->tree, n, s->path))
		watch_tree_drop(&w->tree, n);
}

/* The watched directory that is being moved, or NULL. */
static struct watch_node *moved_node(struct watcher *w)
{
	struct watch_node *dir = watch_tree_by_wd(&w->tree, w->from.dir_wd);

	return dir != NULL ? watch_tree_child(&w->tree, dir, w->from.name) : NULL;
}

/* No other half came: it has left the workspace. */
static void flush_from(struct watcher *w)
{
	struct moved_from *m = &w->from;
	struct watch_node *n;

	if (!m->is_set)
		return;
	m->is_set = false;
	if (!m->is_ours)
		watch_tell(w->events, EVENT_REMOVED, m->is_dir ? S_IFDIR : 0, m->path, NULL);
	n = moved_node(w);
	if (n != NULL && !watch_tree_is_at(&w->tree, n, m->path)) /* else a newer one */
		watch_tree_drop(&w->tree, n);
	free(take_ptr(m->name));
}

static void on_moved_from(struct watcher *w, const struct seen *s)
{
	w->from.name = strdup(s->name);
	if (w->from.name == NULL)
		return;
	w->from.is_set = true;
	w->from.is_old = false;
	w->from.is_dir = is_dir(s);
	w->from.cookie = s->cookie;
	w->from.is_ours = is_own(w, echo_key_name(ECHO_FROM, s->dir->ino, s->name), false);
	w->from.dir_wd = s->dir->wd;
	memcpy(w->from.path, s->path, strlen(s->path) + 1);
}

static void move_dir(struct watcher *w, const struct seen *s)
{
	struct watch_node *n = moved_node(w);

	/* It had moved on before it could be watched, so that nothing in it was told; or the one
	 * that we know by its old name is a newer one. */
	if (n == NULL || !watch_tree_is_at(&w->tree, n, s->path))
		watch_tree_add(&w->tree, s->dir, s->name, true);
	else
		(void)watch_tree_move(&w->tree, n, s->dir, s->name);
}

static void on_moved_to(struct watcher *w, const struct seen *s)
{
	struct moved_from *m = &w->from;
	bool is_ours;

	if (!m->is_set) {
		appeared(w, s, ECHO_TO);
		return;
	}
	is_ours = is_own(w, echo_key_name(ECHO_TO, s->dir->ino, s->name), false) || m->is_ours;
	if (!is_ours)
		watch_tell(w->events, EVENT_RENAMED, kind_at(w, s), m->path, s->path);
	if (is_dir(s))
		move_dir(w, s);
	m->is_set = false;
	free(take_ptr(m->name));
}

/* ---- contents and attributes -------------------------------------------- */

static void on_inode(struct watcher *w, const struct seen *s)
{
	struct ws_events *e = w->events;
	struct event ev = { .type = EVENT_ATTRIBUTES, .door = DOOR_LOCAL };
	struct stat st;

	if (look_at(w, s->path, &st) < 0)
		return; /* gone already, which is told next */
	(void)pthread_mutex_lock(&e->mutex);
	if (!echo_take_locked(e, echo_key_inode(st.st_ino), true)) {
		ev.kind = st.st_mode & S_IFMT;
		if ((s->mask & IN_MODIFY) != 0)
			(void)events_modified_locked(e, DOOR_LOCAL, st.st_ino, ev.kind, s->path);
		else if ((ev.path = strdup(s->path)) != NULL)
			events_put_locked(e, &ev);
	}
	(void)pthread_mutex_unlock(&e->mutex);
}

/* ---- reading ------------------------------------------------------------ */

static const struct {
	uint32_t mask;
	void (*fn)(struct watcher *w, const struct seen *s);
} handlers[] = {
	{ IN_CREATE, on_create },
	{ IN_DELETE, on_delete },
	{ IN_MOVED_FROM, on_moved_from },
	{ IN_MOVED_TO, on_moved_to },
	{ IN_MODIFY | IN_ATTRIB, on_inode },
};

static bool is_misplaced(struct watcher *w, const struct watch_node *n)
{
	char path[EVENTS_PATH_ROOM];

	return n->parent != NULL && (watch_tree_path(n->parent, n->name, path) < 0 ||
				     !watch_tree_is_at(&w->tree, n, path));
}

static void handle(struct watcher *w, const struct inotify_event *ie)
{
	struct seen s = { .name = ie->name, .mask = ie->mask };
	struct watch_node *n;

	/* another rename: the half that we hold has no other; it may drop directories */
	if ((ie->mask & IN_MOVE) != 0 && ie->cookie != w->from.cookie)
		flush_from(w);
	n = watch_tree_by_wd(&w->tree, ie->wd);
	if (n == NULL)
		return;
	s.dir = n;
	s.cookie = ie->cookie;
	if ((ie->mask & IN_IGNORED) != 0) {
		watch_tree_drop(&w->tree, n);
		return;
	}
	if (ie->len == 0) /* of the directory itself: its parent has it with a name */
		return;
	if (w->tree.is_suspect && is_misplaced(w, n)) /* what is left out is in the overflow */
		return;
	if (watch_tree_path(n, ie->name, s.path) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++) {
		if ((ie->mask & handlers[i].mask) != 0) {
			handlers[i].fn(w, &s);
			return;
		}
	}
}

static const char lost_by_kernel[] = "more changes than the kernel keeps";
static const char lost_by_us[] = "directories were renamed faster than they could be followed";

/* After something was lost: from the beginning, without telling what stands there. */
static void watch_all(struct watcher *w)
{
	int rc = watch_tree_open(&w->tree, w->events);

	if (rc < 0) {
		log_warn(LOG_WS, "local changes cannot be watched ws=%.8s error=%s",
			 w->events->ws->id, strerror(-rc));
		events_overflow(w->events, "local changes cannot be watched");
		return;
	}
	watch_tree_add(&w->tree, NULL, "", false);
}

static void restart(struct watcher *w, const char *why)
{
	uint64_t begin = clock_mono_ns();

	w->from.is_set = false;
	free(take_ptr(w->from.name));
	watch_tree_close(&w->tree);
	watch_all(w);
	events_overflow(w->events, why);
	w->next_restart_ns = clock_mono_ns() + (clock_mono_ns() - begin) * WALK_SHARE;
}

/* Everything that is queued now, in one read: see the rule of echoes in events_priv.h. */
static ssize_t read_queue(struct watcher *w)
{
	int queued = 0;

	(void)__atomic_add_fetch(&w->events->n_reads, 1, __ATOMIC_SEQ_CST);
	if (ioctl(w->tree.fd, FIONREAD, &queued) < 0 || queued <= 0)
		return 0;
	w->buf.max = READ_MAX;
	buf_reset(&w->buf);
	if (buf_reserve(&w->buf, (size_t)queued) < 0)
		return -ENOBUFS;
	return read(w->tree.fd, w->buf.data, (size_t)queued);
}

static void on_readable(struct watcher *w)
{
	ssize_t n = read_queue(w);

	if (n == -ENOBUFS) {
		restart(w, lost_by_kernel);
		return;
	}
	if (n > 0)
		events_settle(w->events);
	w->from.is_old = w->from.is_set;
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ie =
			(const struct inotify_event *)(const void *)(w->buf.data + at);

		if ((ie->mask & IN_Q_OVERFLOW) != 0) {
			restart(w, lost_by_kernel);
			return;
		}
		handle(w, ie);
		at += (ssize_t)(sizeof(*ie) + ie->len);
	}
	if (w->from.is_old)
		flush_from(w);
}

/* ---- files without a path ----------------------------------------------- */

struct lost {
	struct ws_events *events;
	uint64_t ino[LOST_MAX];
	unsigned n;
};

static int find_lost(void *arg, const struct tree_entry *t)
{
	struct lost *l = arg;
	char path[EVENTS_PATH_ROOM];
	unsigned i = 0;
	int n;

	while (i < l->n && l->ino[i] != t->stx->stx_ino)
		i++;
	if (i == l->n)
		return events_is_stopping(l->events) ? -ECANCELED : 0;
	n = snprintf(path, sizeof(path), "%s%s%s", t->dir, t->dir[0] != '\0' ? "/" : "", t->name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	l->ino[i] = l->ino[--l->n];
	(void)pthread_mutex_lock(&l->events->mutex);
	(void)events_modified_locked(l->events, DOOR_NFS, t->stx->stx_ino,
				     t->stx->stx_mode & S_IFMT, path);
	(void)pthread_mutex_unlock(&l->events->mutex);
	return l->n == 0 ? -ECANCELED : 0;
}

static void look_for_lost(struct watcher *w)
{
	struct lost l = { .events = w->events };
	struct tree_walk_result res = { 0 };
	uint64_t begin = clock_mono_ns();

	(void)pthread_mutex_lock(&w->events->mutex);
	l.n = w->events->n_lost;
	memcpy(l.ino, w->events->lost, l.n * sizeof(l.ino[0]));
	w->events->n_lost = 0;
	(void)pthread_mutex_unlock(&w->events->mutex);
	(void)tree_walk(w->events->ws->root_fd, find_lost, &l, &res);
	if (l.n > 0 && (res.is_raced || res.first_err != 0))
		events_overflow(w->events, "a change whose path is not known");
	w->next_walk_ns = clock_mono_ns() + (clock_mono_ns() - begin) * WALK_SHARE;
}

/* ---- the loop ----------------------------------------------------------- */

/* ms until there is something to do without being told; -1: nothing */
static int timeout_ms(struct watcher *w, uint64_t now_ns)
{
	struct ws_events *e = w->events;
	uint64_t ns, idle_ns;

	(void)pthread_mutex_lock(&e->mutex);
	ns = events_flush_due_locked(e, now_ns);
	if (e->n_lost > 0)
		ns = MIN(ns, w->next_walk_ns > now_ns ? w->next_walk_ns - now_ns : 0);
	if (e->n_subs == 0) {
		idle_ns = now_ns - e->idle_since_ns;
		ns = MIN(ns, idle_ns < EVENTS_LINGER_NS ? EVENTS_LINGER_NS - idle_ns : 0);
	}
	(void)pthread_mutex_unlock(&e->mutex);
	if (w->from.is_set || w->tree.is_suspect)
		ns = MIN(ns, FROM_WAIT_MS * NSEC_PER_MS);
	return ns == UINT64_MAX ? -1 : (int)(ns / NSEC_PER_MS) + 1;
}

static bool has_lost(struct watcher *w)
{
	bool has;

	(void)pthread_mutex_lock(&w->events->mutex);
	has = w->events->n_lost > 0;
	(void)pthread_mutex_unlock(&w->events->mutex);
	return has && clock_mono_ns() >= w->next_walk_ns;
}

static void turn(struct watcher *w)
{
	struct pollfd fds[] = {
		{ .fd = w->tree.fd, .events = POLLIN },
		{ .fd = w->events->wake_fd, .events = POLLIN },
		{ .fd = w->events->stop_fd, .events = POLLIN },
	};
	uint64_t kicks;
	int n = poll(fds, ARRAY_LEN(fds), timeout_ms(w, clock_mono_ns()));

	if (n > 0 && fds[1].revents != 0 && read(w->events->wake_fd, &kicks, sizeof(kicks)) < 0)
		log_debug(LOG_WS, "a kick was lost error=%s", strerror(errno));
	if (n > 0 && fds[0].revents != 0)
		on_readable(w);
	else if (n == 0)
		flush_from(w);
	if (has_lost(w))
		look_for_lost(w);
	if (w->tree.is_suspect && fds[0].revents == 0 && clock_mono_ns() >= w->next_restart_ns)
		restart(w, lost_by_us);
}

void *events_watch_main(void *arg)
{
	struct ws_events *e = arg;
	struct watcher w = { .events = e };

	watch_all(&w);
	(void)pthread_mutex_lock(&e->mutex);
	e->is_ready = true;
	events_wake_locked(e);
	(void)pthread_mutex_unlock(&e->mutex);
	while (!events_thread_may_end(e))
		turn(&w);
	free(w.from.name);
	watch_tree_close(&w.tree);
	buf_free(&w.buf);
	events_thread_ended(e);
	return NULL;
}
