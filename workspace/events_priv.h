/* SPDX-License-Identifier: MIT */
/* Inside the change events: for events*.c alone. */
#ifndef WORKSPACE_EVENTS_PRIV_H
#define WORKSPACE_EVENTS_PRIV_H

#include <pthread.h>

#include "base/list.h"
#include "workspace/events.h"

/* ---- echoes --------------------------------------------------------------
 *
 * What our own doors did, by a key, so that the kernel's word of it can be dropped.  A change is
 * noted with the number of reads that the watch had begun when the change was told: its echo then
 * is in the next read at the latest (and may be in the one under way).  Older entries count no
 * more. */
#define ECHO_SLOTS 8192
#define ECHO_PROBE 8

enum echo_kind {
	ECHO_CREATE,
	ECHO_DELETE,
	ECHO_FROM,
	ECHO_TO,
	ECHO_FOUND, /* not ours: told already, when its new directory was listed */
	ECHO_INODE,
};

struct echo {
	uint64_t key;
	uint64_t n_reads;
	uint32_t n; /* 0: free */
};

/* ---- modified files ----------------------------------------------------- */

#define RECENT_SLOTS                                                                               \
	1024 /* a slot that two files want tells the first one's pending event early               \
	      */

struct recent {
	uint64_t ino;    /* 0: free */
	uint64_t due_ns; /* CLOCK_MONOTONIC: from then on another event may be told */
	char *path;      /* owned */
	mode_t kind;
	enum event_door door;
	bool is_pending;
};

#define LOST_MAX 64 /* modified files without a path that wait for the walk that finds it */

struct ws_events {
	struct workspace *ws; /* borrowed: it owns us */
	pthread_mutex_t mutex;

	/* protected by mutex */
	struct event ring[EVENTS_RING]; /* seq N lies in [N % EVENTS_RING] */
	uint64_t first, next;           /* seqs: of the oldest kept, of the next to come */
	size_t ring_bytes;
	struct list subs;
	unsigned n_subs;
	uint64_t idle_since_ns; /* when n_subs became 0 */
	struct recent recent[RECENT_SLOTS];
	unsigned n_pending;
	struct echo echoes[ECHO_SLOTS];
	uint64_t lost[LOST_MAX]; /* inode numbers */
	unsigned n_lost;
	bool is_ready;  /* the watch is up */
	bool is_closed; /* the workspace is gone; also read without the mutex */
	bool has_thread;
	int wake_fd; /* owned eventfd; -1 without a thread; it is the thread's to close */
	int stop_fd; /* borrowed eventfd: readable when all threads are to end */

	uint64_t n_reads; /* atomic: reads that the watch has begun */
	/* Changes under way, counted in two phases; see events_settle(). */
	unsigned phase;        /* atomic */
	unsigned in_flight[2]; /* atomic */
};

struct events_sub {
	struct ws_events *events;
	struct workspace *ws; /* owned reference */
	uint64_t next;        /* seq; protected by the mutex */
	struct list link;
	void (*wake)(void *arg);
	void *arg;
};

/* events.c; the mutex is held by the caller of those that end in _locked */

/* events_put_locked() - one event into the ring; takes @path and @to, which may be NULL for an
 * overflow */
void events_put_locked(struct ws_events *e, const struct event *ev);
void events_overflow(struct ws_events *e, const char *reason);
void events_wake_locked(struct ws_events *e);
/* events_kick() - make the watch's thread look at its work */
void events_kick_locked(struct ws_events *e);

/* events_modified_locked() - tell of a modified file now, or let it wait; @path is copied.  False:
 * no path is known for it, and one is needed. */
bool events_modified_locked(struct ws_events *e, enum event_door door, uint64_t ino, mode_t kind,
			    const char *path);
/* events_flush_due_locked() - tell what has waited long enough; ns until the next, or UINT64_MAX */
uint64_t events_flush_due_locked(struct ws_events *e, uint64_t now_ns);
/* events_flush_path_locked() - what waits for @path or below it is told before the name changes */
void events_flush_path_locked(struct ws_events *e, const char *path);

/* events_note.c */
uint64_t echo_key_name(enum echo_kind kind, uint64_t dir_ino, const char *name);
uint64_t echo_key_inode(uint64_t ino);
void echo_note_locked(struct ws_events *e, uint64_t key);
/* echo_take_locked() - was @key ours?  One of a name counts once, unless @keep. */
bool echo_take_locked(struct ws_events *e, uint64_t key, bool keep);
void echo_forget_locked(struct ws_events *e, uint64_t key);
/* events_settle() - wait (bounded) for the changes of our doors that were under way at the call */
void events_settle(struct ws_events *e);

/* events_fd_path() - where a descriptor of the workspace lies, relative; -ENOENT when that is not
 * known (removed, or found by its handle alone), -ENAMETOOLONG */
#define EVENTS_PATH_ROOM (EVENTS_PATH_MAX + 1)
int events_fd_path(const struct workspace *ws, int fd, char dst[EVENTS_PATH_ROOM]);

/* events_watch.c: the thread; the argument is the ws_events, with a reference to its workspace */
void *events_watch_main(void *arg);
/* events.c: the thread has ended its work; false: somebody listens again, go on */
bool events_thread_may_end(struct ws_events *e);
void events_thread_ended(struct ws_events *e);
bool events_is_stopping(struct ws_events *e);

#endif
