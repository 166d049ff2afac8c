/* SPDX-License-Identifier: MIT */
/* Shared by fileops*.c alone: the watch over calls that wait, and rights of a caller who is not the
 * owner. */
#ifndef WORKSPACE_FILEOPS_PRIV_H
#define WORKSPACE_FILEOPS_PRIV_H

#include "base/cleanup.h"
#include "base/clock.h"
#include "workspace/fileops.h"

/* Bytes of blocks that a truncate or the last unlink may free while others on the loop wait. */
#define INLINE_FREE_MAX (64u << 20)

/*
 * Changes and uncached lookups run inline because they nearly always only touch memory.  When one
 * did wait (a journal that is full, a writer that the kernel throttles, a cold directory), the
 * workspace's next ones go to the pool for twenty times as long as it took, so that stalls take at
 * most a twentieth of a loop's time.  The least that counts is longer than a scheduler's time
 * slice, which is no stall of ours.
 */
#define STALL_MIN_NS (4 * NSEC_PER_MS)
#define STALL_FACTOR 20
#define STALL_MAX_NS (10 * NSEC_PER_SEC)

struct stall {
	struct workspace *ws;
	uint64_t start_ns; /* 0: not watched */
};

/* False: this call had better be made in the pool. */
static inline bool stall_begin(const struct fileops *f, struct workspace *ws, struct stall *s)
{
	*s = (struct stall){ .ws = ws };
	if (f->may_block)
		return true;
	s->start_ns = clock_mono_ns();
	return s->start_ns >= __atomic_load_n(&ws->slow_until_ns, __ATOMIC_RELAXED);
}

static inline void stall_end(const struct stall *s)
{
	uint64_t now, took;

	if (s->start_ns == 0)
		return;
	now = clock_mono_ns();
	took = now - s->start_ns;
	if (took >= STALL_MIN_NS)
		__atomic_store_n(&s->ws->slow_until_ns,
				 now + MIN(took * STALL_FACTOR, STALL_MAX_NS), __ATOMIC_RELAXED);
}

/* The kernel checks the owner; "other" is checked by this: 0, -EACCES, -ESTALE. */
int fileops_need(const struct fileops *f, struct inode *ino, unsigned rights);

#endif
