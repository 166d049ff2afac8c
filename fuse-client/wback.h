/* SPDX-License-Identifier: MIT */
/* Written data on its way to the server's disk: see wback.c.  Belongs to the thread of the loop. */
#ifndef FUSE_CLIENT_WBACK_H
#define FUSE_CLIENT_WBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "fuse-client/nfs_client.h"

struct finode;
struct wback;

/* What all inodes of a mount share. */
struct wback_pool {
	struct nfs_client *nfs;
	uint32_t wsize;   /* bytes of one WRITE, at most */
	size_t max_bytes; /* held in memory until they are committed; beyond it writers wait */
	size_t n_bytes;
	struct list active;      /* wbacks that hold something */
	struct list room_wanted; /* who waits for n_bytes to fall */
	uv_timer_t gather;
	uint64_t n_replayed; /* bytes written again since a server had forgotten them */
};

enum wback_until {
	WBACK_WRITTEN,   /* the server has the bytes, and everybody who asks it sees them */
	WBACK_COMMITTED, /* they are on its disk */
};

/* @err: 0, or for WBACK_COMMITTED the first failure of a delayed write since the file was opened */
typedef void (*wback_done)(void *arg, int err);

void wback_pool_init(struct wback_pool *p, uv_loop_t *loop, struct nfs_client *nfs, uint32_t wsize,
		     size_t max_bytes);
void wback_pool_close(struct wback_pool *p); /* the timer; the loop must run once more */
bool wback_pool_is_idle(const struct wback_pool *p);

/**
 * wback_write() - take bytes that a program has written
 * @base:	if not NULL, the memory that @data lies in: taken, free(3)d when the data is safe.
 *		NULL: @data is copied.
 *
 * Return: 0, -ENOMEM (nothing was taken, @base is the caller's), or the error that an earlier write
 * of this file met: it stays until wback_closed().
 */
int wback_write(struct wback_pool *p, struct finode *f, uint64_t off, const uint8_t *data,
		size_t len, uint8_t *base);

/* wback_wait() - call @done when all that was taken so far has come as far as @until.
 * May call it before this returns. */
void wback_wait(struct finode *f, enum wback_until until, wback_done done, void *arg);

/* wback_wait_room() - call @done when the pool has room again, which may be at once */
void wback_wait_room(struct wback_pool *p, wback_done done, void *arg);

bool wback_is_pending(const struct finode *f);     /* the server may not have all bytes yet */
bool wback_is_uncommitted(const struct finode *f); /* they may not be on its disk, or one failed */

/**
 * wback_size() - a file's size, given what the server said
 * @sent_seq:	of the call that the answer belongs to
 */
uint64_t wback_size(const struct finode *f, uint64_t server_size, uint64_t sent_seq);

/**
 * wback_truncate_begin() - a call that cuts the file is about to be sent
 *
 * Until wback_truncate_end() no WRITE leaves: a replay that began meanwhile would put bytes back
 * behind the new end.
 */
void wback_truncate_begin(struct finode *f);
/* @done: the server has cut it to @size: nothing older is written again beyond that */
void wback_truncate_end(struct finode *f, bool done, uint64_t size);

/* wback_closed() - nobody has the file open any more: errors have been told or nobody asked */
void wback_closed(struct finode *f);

void wback_free(struct wback *wb); /* NULL allowed; nothing may be under way */

#endif
