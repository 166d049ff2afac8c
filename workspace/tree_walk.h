/* SPDX-License-Identifier: MIT */
/*
 * A walk of a whole tree that an unfriendly user may have built and is changing meanwhile: links
 * are not followed, other mounts not entered, depth costs memory and not stack or descriptors.
 */
#ifndef WORKSPACE_TREE_WALK_H
#define WORKSPACE_TREE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct tree_entry {
	int dirfd;        /* borrowed: the directory it is in */
	const char *name; /* borrowed */
	const char *dir;  /* borrowed: path of that directory below the root; "" for the root */
	size_t depth;     /* of that directory: 0 for the root */
	uint64_t parent_ino;
	const struct statx *stx; /* type, ino, btime, mnt_id, size, nlink */
};

/* Returned for a directory: go on, but not into it. */
#define TREE_WALK_PRUNE 1

struct tree_walk_ops {
	/* Called for each entry, a directory before what is in it; other than 0 and TREE_WALK_PRUNE
	 * stops the walk. */
	int (*entry)(void *arg, const struct tree_entry *e);
	/* What is not looked at: an entry, or with @name NULL the rest of a directory.  May be
	 * NULL. */
	void (*unread)(void *arg, const char *dir, const char *name, int rc);
};

struct tree_walk_result {
	uint64_t n_entries;
	/* A directory was changed while the walk ran, so that an entry may have moved from where
	 * the walk was not yet to where it had been.  False: everything that was there all the time
	 * was seen. */
	bool is_raced;
	int first_err; /* 0, or why a part of the tree was not looked at: -EACCES, -EMFILE, -EIO */
};

/**
 * tree_walk_with() - all entries below a directory
 * @root_fd:	borrowed; may be O_PATH
 *
 * Any thread; blocks.  Return: 0, what ops->entry stopped with, or -errno when the root cannot be
 * read.
 */
int tree_walk_with(int root_fd, const struct tree_walk_ops *ops, void *arg,
		   struct tree_walk_result *ret);

/* tree_walk() - the same with nothing but an entry function */
int tree_walk(int root_fd, int (*fn)(void *arg, const struct tree_entry *e), void *arg,
	      struct tree_walk_result *ret);

#endif
