/* SPDX-License-Identifier: MIT */
/*
 * What changes in a workspace, as a numbered stream that may be followed and taken up again.
 *
 * Two sources.  Our own doors say what they did (event_op_*() in fileops*.c and wherever else a
 * door changes names or data).  What local processes and sandboxes do beside us is watched by the
 * kernel (events_watch.c), and what of it is an echo of our own doors is taken out.  Both happen
 * only while somebody listens: otherwise an operation costs one relaxed load.
 *
 * Events go into a ring of the workspace.  A subscriber is a position in it and nothing else: one
 * who is too slow, or asks for what is gone, is told so by an event of its own (EVENT_OVERFLOW) and
 * goes on behind the gap.  Recording goes on for EVENTS_LINGER_NS after the last subscriber left,
 * so that one who comes back has missed nothing.
 *
 * Order: events of one door are in the order of the changes; between doors it is that in which they
 * were noticed.
 */
#ifndef WORKSPACE_EVENTS_H
#define WORKSPACE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "workspace/workspace.h"

#define EVENTS_RING        4096       /* events kept of one workspace */
#define EVENTS_RING_BYTES  (4u << 20) /* bytes of paths kept; the oldest events go first */
#define EVENTS_PATH_MAX    8191       /* bytes of one path; what is longer is told as an overflow */
#define EVENTS_SUBS_MAX    64         /* subscribers of one workspace; each holds a connection */
#define EVENTS_WATCHES_MAX 32768      /* directories watched; about 1 KiB of the kernel's each */
#define EVENTS_COALESCE_NS (100 * NSEC_PER_MS) /* at most one EVENT_MODIFIED of a file in it */
#define EVENTS_LINGER_NS   (60 * NSEC_PER_SEC)

enum event_type {
	EVENT_CREATED,
	EVENT_MODIFIED, /* content or size */
	EVENT_REMOVED,  /* of a directory: with all that was in it */
	EVENT_RENAMED,
	EVENT_ATTRIBUTES, /* mode, owner, times */
	EVENT_OVERFLOW,   /* something is not told: look for yourself */
	EVENT_N_TYPES
};

enum event_door {
	DOOR_NONE, /* publishes nothing: a part of a change that is told as a whole */
	DOOR_NFS,
	DOOR_HTTP,
	DOOR_LOCAL, /* seen by the kernel's watch: a local process or a sandbox */
};

struct event {
	uint64_t seq; /* grows by one; over restarts too; below 2^53 */
	enum event_type type;
	enum event_door door;
	mode_t kind;        /* S_IFREG, S_IFDIR, S_IFLNK, else; 0: not known any more */
	char *path;         /* owned; relative, any bytes; NULL for EVENT_OVERFLOW */
	char *to;           /* owned; EVENT_RENAMED only */
	const char *reason; /* static; EVENT_OVERFLOW only */
};
void event_fini(struct event *e);

/* ---- for those who listen ----------------------------------------------- */

struct events_sub;

struct events_from {
	bool is_resumed; /* else from now on */
	uint64_t after;  /* seq of the last event that was seen */
};

/**
 * events_subscribe() - begin to listen
 * @wake:	called when events_next() or events_is_ready() may have something new; any thread,
 *		under a lock: it must only pass the word on
 *
 * Does not block: the kernel's watch is put up by a thread of its own, see events_is_ready().
 * Return: 0 with *@ret owned (events_unsubscribe()), -EBUSY (EVENTS_SUBS_MAX), -ENOENT (the
 * workspace is gone), -ENOMEM, -EAGAIN (no thread).
 */
int events_subscribe(struct workspace *ws, const struct events_from *from, void (*wake)(void *arg),
		     void *arg, struct events_sub **ret, struct err *err);
void events_unsubscribe(struct events_sub *s); /* @wake is not called after it; NULL is fine */

/* events_is_ready() - does the kernel's watch cover what it can cover? */
bool events_is_ready(struct events_sub *s);

/* events_seq() - the last event that this subscriber has seen, to resume from */
uint64_t events_seq(const struct events_sub *s);

/* events_next() - 1 with a copy in @ret (event_fini()), 0: nothing for now, -ENOENT: the workspace
 * is gone, -ENOMEM */
int events_next(struct events_sub *s, struct event *ret);

/* events_workspace_gone() - the stream of a deleted workspace ends */
void events_workspace_gone(struct workspace *ws);

/* events_shutdown() - end the threads of all workspaces; no subscriber may be left.  Blocks. */
void events_shutdown(void);

/* events_free() - for workspace.c: with the workspace; NULL is fine */
struct ws_events;
void events_free(struct ws_events *e);

/* ---- for the doors that change things ----------------------------------- */

/* One change from before its first system call until it has been told.  The watch waits for those
 * that were under way when it read, so that it knows their echoes for what they are. */
struct event_op {
	struct ws_events *events; /* NULL: nobody listens */
	struct workspace *ws;
	enum event_door door;
	unsigned phase;
	mode_t kind; /* of what event_op_look() saw */
};

void event_op_begin_(struct event_op *op);
void event_op_end_(struct event_op *op);

static inline struct event_op event_op_begin(struct workspace *ws, enum event_door door)
{
	struct event_op op = { .ws = ws, .door = door };

	if (__builtin_expect(__atomic_load_n(&ws->is_listened_to, __ATOMIC_RELAXED), 0) &&
	    door != DOOR_NONE)
		event_op_begin_(&op);
	return op;
}

/* event_op_end() - it has been told, or was nothing; happens by itself at the end of the scope */
static inline void event_op_end(struct event_op *op)
{
	if (__builtin_expect(op->events != NULL, 0))
		event_op_end_(op);
}
#define auto_event_op __attribute__((cleanup(event_op_end)))

void event_op_name_(struct event_op *op, enum event_type type, int dirfd, const char *name);
void event_op_inode_(struct event_op *op, enum event_type type, int path_fd, mode_t kind);
void event_op_rename_(struct event_op *op, int from_dirfd, const char *from, int to_dirfd,
		      const char *to);
void event_op_look_(struct event_op *op, int dirfd, const char *name);

/* event_op_name() - @name in @dirfd was created, replaced as a whole (EVENT_MODIFIED) or removed */
static inline void event_op_name(struct event_op *op, enum event_type type, int dirfd,
				 const char *name)
{
	if (__builtin_expect(op->events != NULL, 0))
		event_op_name_(op, type, dirfd, name);
}

/* event_op_inode() - the object behind a descriptor was modified or has other attributes */
static inline void event_op_inode(struct event_op *op, enum event_type type, int path_fd,
				  mode_t kind)
{
	if (__builtin_expect(op->events != NULL, 0))
		event_op_inode_(op, type, path_fd, kind);
}

static inline void event_op_rename(struct event_op *op, int from_dirfd, const char *from,
				   int to_dirfd, const char *to)
{
	if (__builtin_expect(op->events != NULL, 0))
		event_op_rename_(op, from_dirfd, from, to_dirfd, to);
}

/* event_op_look() - before a removal: what kind of thing goes */
static inline void event_op_look(struct event_op *op, int dirfd, const char *name)
{
	if (__builtin_expect(op->events != NULL, 0))
		event_op_look_(op, dirfd, name);
}

#endif
