/* SPDX-License-Identifier: MIT */
/*
 * Where an inode was last seen: the fallback where kernel handles cannot be opened (an ordinary
 * user's daemon).  A handle then carries inode number and birth time; the hint gives the parent's
 * inode number and the name there.  A hint is only ever a guess that is checked; when it is wrong
 * or missing, one walk of the workspace finds the file or proves that it is gone, and refreshes the
 * hints on its way.  Hints are kept in the store and written in batches, so a crash costs walks,
 * never a handle.
 */
#ifndef WORKSPACE_INODE_HINTS_H
#define WORKSPACE_INODE_HINTS_H

#include <stdint.h>

#include "base/err.h"
#include "workspace/workspace.h"

struct inode_hints;
struct store;

int inode_hints_open(struct store *store, struct inode_hints **ret, struct err *err);
void inode_hints_close(struct inode_hints *h); /* writes what is pending */

/* inode_hints_note() - @ino of @ws was seen as @name in the directory @parent_ino.  Any thread;
 * cheap. */
void inode_hints_note(struct inode_hints *h, const struct workspace *ws, uint64_t ino,
		      uint64_t birth_ns, uint64_t parent_ino, const char *name);

/* inode_hints_flush() - write pending hints to the store.  Pool thread; blocks. */
int inode_hints_flush(struct inode_hints *h, struct err *err);

/* inode_hints_drop() - the workspace is gone: forget what is in memory; its rows go with the
 * workspace's.  Any thread, after its is_gone was set. */
void inode_hints_drop(struct inode_hints *h, const struct workspace *ws);

/**
 * inode_hints_open_inode() - O_PATH descriptor of the inode, by hint or by a walk
 *
 * Never follows a link, never leaves the workspace or enters another mount.  Pool thread; blocks
 * for as long as a walk of the workspace takes; concurrent walks of one workspace are shared.
 * Return: a descriptor the caller owns, -ESTALE when a walk that began after the call did not find
 * it, -EACCES when the walk could not look everywhere, -errno.
 */
int inode_hints_open_inode(struct inode_hints *h, struct workspace *ws, uint64_t ino,
			   uint64_t birth_ns);

#endif
