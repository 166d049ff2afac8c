/* SPDX-License-Identifier: MIT */
/*
 * The directories of a workspace under inotify(7): one watch each, since a watch is not recursive.
 * A tree of nodes gives each watch its path; it follows renames.
 *
 * New directories are a race: what is made in one before its watch stands is not reported.  So a
 * directory is listed after its watch was put up, and what it holds is told as created; what is
 * then reported once more is taken for an echo.
 *
 * Used by the watch's thread alone.
 */
#ifndef WORKSPACE_EVENTS_WATCH_H
#define WORKSPACE_EVENTS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "workspace/events_priv.h"

struct watch_node {
	int wd;
	uint64_t ino;
	struct watch_node *parent; /* NULL: the workspace's root */
	char *name;                /* owned */
	struct list children, sibling;
	struct map_node by_wd, by_name;
};

struct watch_tree {
	struct ws_events *events;
	int fd; /* owned: inotify */
	struct map by_wd, by_name;
	struct watch_node *root;
	unsigned n;
	bool is_full;    /* a directory is not watched: it has been said */
	bool is_suspect; /* a change overtook another: directories may stand in the wrong place */
};

/* watch_tree_open() - an inotify instance without watches: 0 or -errno */
int watch_tree_open(struct watch_tree *t, struct ws_events *e);
void watch_tree_close(struct watch_tree *t);

struct watch_node *watch_tree_by_wd(struct watch_tree *t, int wd); /* NULL: not ours any more */
/* watch_tree_child() - the watched directory @name in @parent, or NULL */
struct watch_node *watch_tree_child(struct watch_tree *t, const struct watch_node *parent,
				    const char *name);

/**
 * watch_tree_add() - watch a directory and all below it
 * @parent:	NULL for the workspace's root
 * @tell:	tell of what is found in it as created by a local process
 *
 * What cannot be watched (no right to read it, no watches left) is left out; the latter is told as
 * an overflow, once.
 */
void watch_tree_add(struct watch_tree *t, struct watch_node *parent, const char *name, bool tell);
void watch_tree_drop(struct watch_tree *t, struct watch_node *n); /* with all below it */
/* watch_tree_move() - it has another name now; false: out of memory, and it was dropped, or it lies
 * above its new place as far as we know, and stays: a rename that will be told is still queued */
bool watch_tree_move(struct watch_tree *t, struct watch_node *n, struct watch_node *to_parent,
		     const char *to_name);

/* watch_tree_is_at() - is the directory of @n what lies at a path now? */
bool watch_tree_is_at(struct watch_tree *t, const struct watch_node *n, const char *path);

/* watch_tree_path() - relative path of @name in @dir; -ENAMETOOLONG */
int watch_tree_path(const struct watch_node *dir, const char *name, char dst[EVENTS_PATH_ROOM]);

/* watch_tell() - one event of a local process; @path and @to are copied */
void watch_tell(struct ws_events *e, enum event_type type, mode_t kind, const char *path,
		const char *to);

#endif
