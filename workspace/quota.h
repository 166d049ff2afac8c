/* SPDX-License-Identifier: MIT */
/*
 * How much a workspace may hold: bytes and files.
 *
 * The rule of counting is one that can be told in a sentence: each inode but the root counts as a
 * file, whatever its kind and however many links it has, and a regular file counts with its size
 * rounded up to 4 KiB, holes included.
 *
 * Every door charges growth before it happens and gives back what was not used; removals and
 * truncations credit.  What local processes and sandboxes do beside us is found by counting the
 * whole workspace again, every QUOTA_RECOUNT_NS and at start: between two counts it is not seen.
 * A count that runs while our doors are at work knows by how much it may be off, and corrects only
 * what is beyond that.  A workspace that is over its quota may not grow; it may shrink and be
 * overwritten.
 *
 * Without a quota an operation costs one load.
 */
#ifndef WORKSPACE_QUOTA_H
#define WORKSPACE_QUOTA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/err.h"
#include "workspace/workspace.h"

#define QUOTA_BLOCK      4096u
#define QUOTA_UNLIMITED  UINT64_MAX
#define QUOTA_MAX        ((uint64_t)INT64_MAX / 2) /* of bytes or files: sums of two never overflow */
#define QUOTA_RECOUNT_NS (30 * NSEC_PER_SEC)

/* Bytes, or files: what is held and what may be. */
struct quota_amount {
	int64_t bytes, files;
};

struct quota_limits {
	uint64_t bytes, files; /* QUOTA_UNLIMITED: no limit */
};

struct quota_usage {
	struct quota_limits limits;
	struct quota_amount used;
};

#define QUOTA_STRIPES 64

struct ws_quota {
	pthread_mutex_t mutex;
	/* protected by mutex */
	struct quota_limits limits;
	struct quota_amount used;
	struct quota_amount charged, credited; /* since ever: a count looks at how much they grew */
	struct quota_amount pending;           /* charged by operations that have not ended */
	struct quota_amount doubt;             /* less than is held, says one count so far */
	bool wants_count; /* soon: something of unknown size was removed or added */
	pthread_mutex_t
		counting; /* one count at a time: two would both correct the same; before mutex */
	/* the service's own */
	struct quota_amount stored;
	uint64_t next_count_ns;
	unsigned n_raced; /* counts in a row during which something may have been moved */
	/* the size of a file with this inode number modulo QUOTA_STRIPES is being changed */
	pthread_mutex_t sizes[QUOTA_STRIPES];
};
void quota_free(struct ws_quota *q); /* for workspace.c; NULL is fine */

/* ---- for the doors ------------------------------------------------------ */

/* One change; on the stack of whoever makes it.  Zero: nothing was charged. */
struct quota_op {
	struct ws_quota *quota; /* NULL: no quota */
	struct quota_amount charged;
	pthread_mutex_t *size_lock; /* held */
	int fd;
	uint64_t size_before;
};

int quota_take_(struct quota_op *op, int64_t bytes, int64_t files);
void quota_end_(struct quota_op *op, bool done);
int quota_size_begin_(struct quota_op *op, int fd, uint64_t end, bool may_block);
void quota_size_end_(struct quota_op *op);

static inline struct ws_quota *quota_of(const struct workspace *ws)
{
	return __atomic_load_n(&ws->quota, __ATOMIC_ACQUIRE);
}

/* quota_file_begin() - a file will be made: 0 or -EDQUOT.  quota_file_end() follows in any case. */
static inline int quota_file_begin(struct quota_op *op, const struct workspace *ws)
{
	*op = (struct quota_op){ .quota = quota_of(ws) };
	return __builtin_expect(op->quota == NULL, 1) ? 0 : quota_take_(op, 0, 1);
}

/* quota_file_end() - it was @made, or not, and then is given back */
static inline void quota_file_end(struct quota_op *op, bool made)
{
	if (__builtin_expect(op->quota != NULL, 0))
		quota_end_(op, made);
}

/**
 * quota_size_begin() - a regular file will be written up to @end, or be cut or grown to it
 * @fd:	borrowed until quota_size_end(), which must follow when this returns 0
 *
 * Waits for other changes of the file's size when @may_block.  Return: 0, -EDQUOT, -EAGAIN, -errno.
 */
static inline int quota_size_begin(struct quota_op *op, const struct workspace *ws, int fd,
				   uint64_t end, bool may_block)
{
	*op = (struct quota_op){ .quota = quota_of(ws) };
	return __builtin_expect(op->quota == NULL, 1) ? 0
						      : quota_size_begin_(op, fd, end, may_block);
}

/* quota_size_end() - charges or credits what the size has really become */
static inline void quota_size_end(struct quota_op *op)
{
	if (__builtin_expect(op->quota != NULL, 0))
		quota_size_end_(op);
}

/* What a name stands for before it goes. */
struct quota_victim {
	struct quota_amount amount; /* zero: nothing, or not its last link */
};

void quota_look_(struct quota_victim *v, int dirfd, const char *name);
void quota_credit_(struct ws_quota *q, struct quota_amount amount);

static inline void quota_look(struct quota_victim *v, const struct workspace *ws, int dirfd,
			      const char *name)
{
	*v = (struct quota_victim){ 0 };
	if (__builtin_expect(quota_of(ws) != NULL, 0))
		quota_look_(v, dirfd, name);
}

static inline void quota_victim_gone(const struct workspace *ws, const struct quota_victim *v)
{
	struct ws_quota *q = quota_of(ws);

	if (__builtin_expect(q != NULL, 0))
		quota_credit_(q, v->amount);
}

/* quota_charge() - @bytes more (already rounded) are being held for a workspace outside of its
 * files/: 0 or -EDQUOT; give them back with quota_credit() */
int quota_charge(const struct workspace *ws, int64_t bytes);
void quota_credit(const struct workspace *ws, int64_t bytes);
int64_t quota_blocks(uint64_t size); /* bytes that a file of @size counts with */

/* quota_tree_changed() - something of unknown size was removed or added: count again soon */
void quota_tree_changed(const struct workspace *ws);

/* quota_room() - how much more fits now; QUOTA_UNLIMITED where there is no limit */
struct quota_limits quota_room(const struct workspace *ws);

/* quota_statvfs() - show the quota as the size of the file system */
void quota_statvfs(const struct workspace *ws, struct statvfs *st);

/* ---- for those who set and show it -------------------------------------- */

struct quota_service;
struct store;

/* quota_load() - for workspace.c, before anybody finds it: its quota from the store.  Until the
 * first count is done what was stored last is held to be true.  0 or -errno. */
int quota_load(struct store *store, struct workspace *ws, struct err *err);

/* quota_open() - start the thread that counts; @store and @registry are borrowed until
 * quota_close() */
int quota_open(struct store *store, struct ws_registry *registry, struct quota_service **ret,
	       struct err *err);
void quota_close(struct quota_service *s); /* stores what is known; NULL is fine */

/**
 * quota_set() - new limits, stored and in force when it returns
 *
 * Counts the workspace when it had none before: pool thread, blocks long.
 * Return: 0, -ENOENT (the workspace is gone), -ENOMEM, -errno of the store or the disk.
 */
int quota_set(struct quota_service *s, struct workspace *ws, const struct quota_limits *limits,
	      struct err *err);

/* quota_usage() - limits and what is held; counts a workspace without a quota: pool thread */
int quota_usage(struct workspace *ws, struct quota_usage *ret);

#endif
