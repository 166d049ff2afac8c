/* SPDX-License-Identifier: MIT */
/*
 * A walk of a whole tree that an unfriendly user may have built and is changing meanwhile: links
 * are not followed, other mounts not entered, depth costs memory and not stack or descriptors.
 */
#ifndef WORKSPACE_TREE_WALK_H
#define WORKSPACE_TREE_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct tree_entry {
	int dirfd;        /* borrowed: the directory it is in */
	const char *name; /* borrowed */
	const char *dir; /* borrowed: path of that directory from the root of the walk, "" for it */
	uint64_t parent_ino;
	const struct statx *stx; /* type, ino, btime, mnt_id */
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
 * tree_walk() - call @fn for each entry below a directory, a directory before what is in it
 * @root_fd:	borrowed; may be O_PATH
 * @fn:		returns other than 0 to stop the walk
 *
 * Any thread; blocks.  Return: 0, what @fn returned, or -errno when the root cannot be read.
 */
int tree_walk(int root_fd, int (*fn)(void *arg, const struct tree_entry *e), void *arg,
	      struct tree_walk_result *ret);

#endif
