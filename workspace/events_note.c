/* SPDX-License-Identifier: MIT */
/* What our own doors tell (see events.h), and which of the kernel's words are echoes of it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "workspace/events.h"
#include "workspace/events_priv.h"
#include "workspace/path.h"

/* A change that takes longer (a throttled write) may be told a second time, by the watch. */
#define SETTLE_NS       (500 * NSEC_PER_MS)
#define SETTLE_SLEEP_NS (500 * 1000)

/* ---- echoes ------------------------------------------------------------- */

uint64_t echo_key_inode(uint64_t ino)
{
	return map_hash_u64(ino * 8 + ECHO_INODE);
}

uint64_t echo_key_name(enum echo_kind kind, uint64_t dir_ino, const char *name)
{
	return map_hash_u64(dir_ino * 8 + kind) ^ map_hash_bytes(name, strlen(name));
}

static bool is_current(const struct ws_events *e, const struct echo *x)
{
	return x->n > 0 && x->n_reads + 1 >= __atomic_load_n(&e->n_reads, __ATOMIC_SEQ_CST);
}

static struct echo *find_echo(struct ws_events *e, uint64_t key)
{
	for (size_t i = 0; i < ECHO_PROBE; i++) {
		struct echo *x = &e->echoes[(key + i) % ECHO_SLOTS];

		if (x->key == key && is_current(e, x))
			return x;
	}
	return NULL;
}

/* When all places are taken, the first is given up: that change may then be told twice. */
static struct echo *free_echo(struct ws_events *e, uint64_t key)
{
	for (size_t i = 0; i < ECHO_PROBE; i++) {
		struct echo *x = &e->echoes[(key + i) % ECHO_SLOTS];

		if (!is_current(e, x))
			return x;
	}
	return &e->echoes[key % ECHO_SLOTS];
}

void echo_note_locked(struct ws_events *e, uint64_t key)
{
	struct echo *x = find_echo(e, key);

	if (x == NULL) {
		x = free_echo(e, key);
		*x = (struct echo){ .key = key };
	}
	x->n++;
	x->n_reads = __atomic_load_n(&e->n_reads, __ATOMIC_SEQ_CST);
}

bool echo_take_locked(struct ws_events *e, uint64_t key, bool keep)
{
	struct echo *x = find_echo(e, key);

	if (x != NULL && !keep)
		x->n--;
	return x != NULL;
}

void echo_forget_locked(struct ws_events *e, uint64_t key)
{
	struct echo *x = find_echo(e, key);

	if (x != NULL)
		x->n = 0;
}

static void wait_for_phase(struct ws_events *e, uint64_t deadline_ns)
{
	const struct timespec nap = { .tv_nsec = SETTLE_SLEEP_NS };
	unsigned old = __atomic_fetch_xor(&e->phase, 1, __ATOMIC_SEQ_CST) & 1;

	while (__atomic_load_n(&e->in_flight[old], __ATOMIC_SEQ_CST) > 0 &&
	       clock_mono_ns() < deadline_ns)
		(void)nanosleep(&nap, NULL);
}

/* Twice: a change may have read the phase before the first turn and counted itself after it. */
void events_settle(struct ws_events *e)
{
	uint64_t deadline_ns = clock_mono_ns() + SETTLE_NS;

	wait_for_phase(e, deadline_ns);
	wait_for_phase(e, deadline_ns);
}

/* ---- one change --------------------------------------------------------- */

void event_op_begin_(struct event_op *op)
{
	struct ws_events *e = __atomic_load_n(&op->ws->events, __ATOMIC_ACQUIRE);

	if (e == NULL)
		return;
	op->events = e;
	op->phase = __atomic_load_n(&e->phase, __ATOMIC_SEQ_CST) & 1;
	(void)__atomic_add_fetch(&e->in_flight[op->phase], 1, __ATOMIC_SEQ_CST);
}

void event_op_end_(struct event_op *op)
{
	(void)__atomic_sub_fetch(&op->events->in_flight[op->phase], 1, __ATOMIC_SEQ_CST);
	op->events = NULL;
}

static ssize_t read_link(int fd, char *dst, size_t room)
{
	char proc[PATH_PROC_LEN];
	ssize_t n = readlink(path_proc(proc, fd), dst, room - 1);

	if (n < 0)
		return -errno;
	dst[n] = '\0';
	return n;
}

int events_fd_path(const struct workspace *ws, int fd, char dst[EVENTS_PATH_ROOM])
{
	static const char gone[] = " (deleted)";
	char root[PATH_MAX + 1];
	ssize_t root_len = read_link(ws->root_fd, root, sizeof(root));
	ssize_t n = read_link(fd, dst, EVENTS_PATH_ROOM);
	struct stat st;

	if (root_len < 0 || n < 0)
		return n < 0 ? (int)n : (int)root_len;
	if (strncmp(dst, root, (size_t)root_len) != 0 ||
	    (dst[root_len] != '/' && dst[root_len] != '\0'))
		return -ENOENT;
	/* A name may end like this by itself; then the object has a link. */
	if ((size_t)n >= sizeof(gone) && strcmp(dst + n - (sizeof(gone) - 1), gone) == 0 &&
	    (fstat(fd, &st) < 0 || st.st_nlink == 0))
		return -ENOENT;
	if (dst[root_len] == '/')
		root_len++;
	memmove(dst, dst + root_len, (size_t)(n - root_len) + 1);
	return 0;
}

/* Path of a name in a directory; owned, NULL when it cannot be told. */
static char *name_path(const struct workspace *ws, int dirfd, const char *name)
{
	char path[EVENTS_PATH_ROOM];
	size_t len;

	if (events_fd_path(ws, dirfd, path) < 0)
		return NULL;
	len = strlen(path);
	if (len + strlen(name) + 2 > sizeof(path))
		return NULL;
	if (len > 0)
		path[len++] = '/';
	memcpy(path + len, name, strlen(name) + 1);
	return strdup(path);
}

static uint64_t ino_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* Takes the paths of @ev. */
static void tell_locked(struct ws_events *e, const struct event *ev, bool is_complete)
{
	if (!is_complete) {
		free(ev->path);
		free(ev->to);
		events_put_locked(e,
				  &(struct event){ .type = EVENT_OVERFLOW,
						   .reason = "a change whose path is not known" });
		return;
	}
	events_flush_path_locked(e, ev->path);
	if (ev->to != NULL)
		events_flush_path_locked(e, ev->to);
	events_put_locked(e, ev);
}

/* A file that was put in place is seen by the watch as a new name or as one that came from
 * elsewhere, and one that was taken away as gone or as one that went there. */
static void note_name_locked(struct ws_events *e, enum event_type type, uint64_t dir,
			     const char *name, uint64_t ino)
{
	if (type == EVENT_REMOVED) {
		echo_note_locked(e, echo_key_name(ECHO_DELETE, dir, name));
		echo_note_locked(e, echo_key_name(ECHO_FROM, dir, name));
		return;
	}
	echo_note_locked(e, echo_key_name(ECHO_CREATE, dir, name));
	echo_note_locked(e, echo_key_name(ECHO_TO, dir, name));
	echo_note_locked(e, echo_key_inode(ino));
}

void event_op_name_(struct event_op *op, enum event_type type, int dirfd, const char *name)
{
	struct event ev = { .type = type, .door = op->door, .kind = op->kind };
	struct ws_events *e = op->events;
	uint64_t dir = ino_of(dirfd), ino = 0;
	struct stat st;

	if (type != EVENT_REMOVED && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		ev.kind = st.st_mode & S_IFMT;
		ino = st.st_ino;
	}
	ev.path = name_path(op->ws, dirfd, name);
	(void)pthread_mutex_lock(&e->mutex);
	note_name_locked(e, type, dir, name, ino);
	tell_locked(e, &ev, ev.path != NULL);
	(void)pthread_mutex_unlock(&e->mutex);
}

void event_op_rename_(struct event_op *op, int from_dirfd, const char *from, int to_dirfd,
		      const char *to)
{
	struct event ev = { .type = EVENT_RENAMED, .door = op->door };
	struct ws_events *e = op->events;
	uint64_t from_dir = ino_of(from_dirfd), to_dir = ino_of(to_dirfd);
	struct stat st = { 0 }, old;

	if (fstatat(to_dirfd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		ev.kind = st.st_mode & S_IFMT;
	/* onto another link of the same file: nothing has happened (rename(2)) */
	if (fstatat(from_dirfd, from, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == st.st_ino)
		return;
	ev.path = name_path(op->ws, from_dirfd, from);
	ev.to = name_path(op->ws, to_dirfd, to);
	(void)pthread_mutex_lock(&e->mutex);
	echo_note_locked(e, echo_key_name(ECHO_FROM, from_dir, from));
	echo_note_locked(e, echo_key_name(ECHO_TO, to_dir, to));
	tell_locked(e, &ev, ev.path != NULL && ev.to != NULL);
	(void)pthread_mutex_unlock(&e->mutex);
}

/* A file that was found by its handle alone has no path: the watch's thread looks for it. */
static void look_for_locked(struct ws_events *e, uint64_t ino)
{
	for (unsigned i = 0; i < e->n_lost; i++)
		if (e->lost[i] == ino)
			return;
	if (e->n_lost == LOST_MAX) {
		events_put_locked(e,
				  &(struct event){ .type = EVENT_OVERFLOW,
						   .reason = "a change whose path is not known" });
		return;
	}
	e->lost[e->n_lost++] = ino;
	events_kick_locked(e);
}

static void modified_locked(struct event_op *op, uint64_t ino, mode_t kind, int fd)
{
	struct ws_events *e = op->events;
	char path[EVENTS_PATH_ROOM];

	if (events_modified_locked(e, op->door, ino, kind, NULL))
		return;
	if (events_fd_path(op->ws, fd, path) == 0)
		(void)events_modified_locked(e, op->door, ino, kind, path);
	else
		look_for_locked(e, ino);
}

static void attributes_locked(struct event_op *op, uint64_t ino, mode_t kind, int fd)
{
	struct event ev = { .type = EVENT_ATTRIBUTES, .door = op->door, .kind = kind };
	char path[EVENTS_PATH_ROOM];

	if (events_fd_path(op->ws, fd, path) < 0) {
		look_for_locked(op->events, ino);
		return;
	}
	ev.path = strdup(path);
	if (ev.path != NULL)
		events_put_locked(op->events, &ev);
}

void event_op_inode_(struct event_op *op, enum event_type type, int path_fd, mode_t kind)
{
	struct ws_events *e = op->events;
	uint64_t ino = ino_of(path_fd);

	(void)pthread_mutex_lock(&e->mutex);
	echo_note_locked(e, echo_key_inode(ino));
	if (type == EVENT_MODIFIED)
		modified_locked(op, ino, kind, path_fd);
	else
		attributes_locked(op, ino, kind, path_fd);
	(void)pthread_mutex_unlock(&e->mutex);
}

void event_op_look_(struct event_op *op, int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		op->kind = st.st_mode & S_IFMT;
}
