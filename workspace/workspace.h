/* SPDX-License-Identifier: MIT */
/*
 * Workspaces: durable directories with an id, and the registry that holds those that exist.
 *
 * A workspace is a row in the store and a folder `workspaces/<id>/files` in the data directory.
 * The row is written before the folder is made, and marked `deleting` before the folder is removed,
 * so that a crash leaves something to finish at the next start and never something forgotten.
 *
 * The registry lives in memory, is filled at start, and is read by the NFS loops on every call.
 */
#ifndef WORKSPACE_WORKSPACE_H
#define WORKSPACE_WORKSPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/map.h"
#include "workspace/export_rules.h"

#define WS_ID_LEN         36  /* UUID v4 as text */
#define WS_NAME_MAX       255 /* bytes */
#define WS_META_PAIRS_MAX 64
#define WS_META_KEY_MAX   128  /* bytes */
#define WS_META_VALUE_MAX 4096 /* bytes: with the others bounds a row to some 270 KiB */

/* ---- one workspace ------------------------------------------------------ */

struct ws_pair {
	char *key, *value; /* owned */
};

struct workspace {
	struct map_node by_key; /* registry's */
	int refs;               /* atomic; see workspace_ref() */
	char id[WS_ID_LEN + 1];
	uint8_t uuid[16];
	uint64_t key;  /* first 8 bytes of the uuid, big-endian: in handles; unique */
	uint64_t fsid; /* what NFS shows as fsid: never 0 or 1, constant for the workspace's life */
	int root_fd;   /* owned: O_PATH|O_DIRECTORY of files/; -1 only while it is being made */
	char *adopted; /* owned, immutable: the operator's directory that is root_fd; NULL: files/
			*/
	uint64_t root_mnt_id; /* stx_mnt_id of root_fd: what is mounted inside shows another */
	uint64_t root_ino;    /* inode number of root_fd */
	uint32_t root_dev_major, root_dev_minor;
	uint32_t fs_id;    /* atomic; the file system in handles; 0 until inode.c asked */
	bool is_in_memory; /* atomic; set with fs_id: there is no disk to sync to */
	/* atomic; CLOCK_MONOTONIC: until then what may wait goes to a pool at once */
	uint64_t slow_until_ns;
	uid_t owner_uid; /* what every door shows */
	gid_t owner_gid;
	bool is_gone;                    /* atomic: deleted; handles answer ESTALE */
	uint64_t seq;                    /* creation order, for newest-first lists */
	uint64_t created_ns, updated_ns; /* CLOCK_REALTIME; updated_ns is atomic */
	/* These three change (ws_update()): read them between ws_labels_hold() and _release(). */
	char *name;               /* owned, may be NULL */
	struct ws_pair *metadata; /* owned */
	size_t n_metadata;
	const struct export_rules *exports; /* atomic; NULL = the registry's default rules */
	uint64_t export_gen;         /* atomic: counts changes, which make a cached verdict old */
	bool is_listened_to;         /* atomic: changes are to be told to @events */
	struct ws_events *events;    /* atomic; owned; NULL until somebody listened (events.h) */
	struct ws_quota *quota;      /* atomic; borrowed from the next; NULL: none (quota.h) */
	struct ws_quota *quota_kept; /* owned; quota.c's */
};

void workspace_ref(struct workspace *ws);   /* any thread */
void workspace_unref(struct workspace *ws); /* any thread; the last one closes root_fd and frees */

/* workspace_open_staging() - O_PATH descriptor of the folder beside files/, on the same file
 * system, that no door shows: what is in it is moved into files/ or removed at the next start. That
 * of an adopted directory is a folder in it, WS_ADOPTED_STAGING, since nothing else is ours there.
 * -errno. */
#define WS_ADOPTED_STAGING ".workspaced-staging"
int workspace_open_staging(const struct workspace *ws);

/* ---- the registry ------------------------------------------------------- */

struct ws_registry;
struct store;

struct ws_registry_options {
	const char *data_dir; /* borrowed; exists, belongs to this process's user */
	uid_t owner_uid;      /* WORKSPACE_OWNER, for new workspaces */
	gid_t owner_gid;
	struct export_rules default_exports;
	size_t max_workspaces; /* 0: no limit.  Each keeps descriptors; those there already are
				  served */
	/* Called before anybody can find the workspace, at create and at start, so that the broker
	 * knows the folder; and after nobody can find it any more.  May be NULL.  Pool or main
	 * thread. */
	int (*on_open)(void *arg, const struct workspace *ws, struct err *err);
	/* Instead of on_open for an adopted directory: opens it, O_PATH, and makes it known.  May
	 * be NULL: nothing can be adopted. */
	int (*open_adopted)(void *arg, const struct workspace *ws, struct err *err);
	void (*on_gone)(void *arg, const struct workspace *ws);
	void *arg;
};

/**
 * ws_registry_open() - load all workspaces, finish deletions that a crash interrupted
 * @store:	borrowed until ws_registry_close()
 *
 * A row whose folder is missing or unusable is logged and skipped: it must not keep the rest from
 * being served.  Main thread, before loops run.
 */
int ws_registry_open(struct store *store, const struct ws_registry_options *o,
		     struct ws_registry **ret, struct err *err);
void ws_registry_close(struct ws_registry *r); /* every reference but the registry's must be back */

struct ws_create {
	const char *id;                 /* borrowed; NULL: a new one; else of ws_new_id() */
	const char *name;               /* borrowed, may be NULL */
	const char *adopt;              /* borrowed; NULL, or a directory to be the files */
	const struct ws_pair *metadata; /* borrowed */
	size_t n_metadata;
	bool is_unfinished; /* nobody finds it, and the next start removes it, until ws_finish() */
};

/**
 * ws_create() - new workspace: row, folder, export, in this order
 *
 * Pool thread (writes to the store, blocks).  On success *@ret is a reference the caller owns.
 * Return: 0, -EINVAL (name or metadata not acceptable), -ENOSPC, -EIO.
 */
int ws_create(struct ws_registry *r, const struct ws_create *c, struct workspace **ret,
	      struct err *err);
/* ws_finish() - an unfinished workspace is served from now on.  Pool thread.  After an error it is
 * to be abandoned.  Return: 0, -ENOMEM, -ENOSPC, -EIO. */
int ws_finish(struct ws_registry *r, struct workspace *ws, struct err *err);
/* ws_abandon() - an unfinished workspace is removed, row and files.  Pool thread; the caller keeps
 * its reference.  Return: 0, -EIO (the next start finishes it). */
int ws_abandon(struct ws_registry *r, struct workspace *ws, struct err *err);

/* ws_new_id() - an id that no workspace has */
void ws_new_id(struct ws_registry *r, char id[WS_ID_LEN + 1]);

/* ws_find() - by text id; text that is no known id gives NULL.  Owned reference.  Any thread. */
struct workspace *ws_find(struct ws_registry *r, const char *id);
/* ws_find_key() - by the key in a file handle.  Owned reference or NULL.  Any thread. */
struct workspace *ws_find_key(struct ws_registry *r, uint64_t key);

/* ws_list() - owned array of owned references, newest first; *@ret_n entries.  Any thread. */
int ws_list(struct ws_registry *r, struct workspace ***ret, size_t *ret_n);
void ws_list_free(struct workspace **list, size_t n);

/* ws_list_generation() - grows with each create and delete, and over restarts: mtime (it is a time
 * in ns of CLOCK_REALTIME, pushed on where two changes fall together) and cookie verifier of "/".
 * Any thread. */
uint64_t ws_list_generation(struct ws_registry *r);

/**
 * ws_delete() - mark, take out of the registry, remove the files, drop the row
 *
 * Pool thread; blocks for as long as removing the tree takes.  Directories without permission bits
 * are opened up first.  Return: 0, -ENOENT (unknown id), -EIO (what is left is finished at next
 * start).
 */
int ws_delete(struct ws_registry *r, const char *id, struct err *err);

/* ---- the trash ---------------------------------------------------------- */

/*
 * A workspace in the trash is served by no door and found by no id; its files and its row are kept.
 * ws_delete() takes one from there as well.  All of these block; pool thread.
 */

/* ws_trash() - take out of the registry and put it there.  0, -ENOENT, -errno */
int ws_trash(struct ws_registry *r, const char *id, struct err *err);
/* ws_untrash() - serve it again.  *@ret is a reference the caller owns.  0, -ENOENT, -errno */
int ws_untrash(struct ws_registry *r, const char *id, struct workspace **ret, struct err *err);
/* ws_trash_list() - newest first; stops when @fn returns other than 0, and returns that.  The trash
 * is locked meanwhile. */
int ws_trash_list(struct ws_registry *r,
		  int (*fn)(void *arg, const struct workspace *ws, uint64_t trashed_ns), void *arg);
/* ws_trash_is_due() - is there one that came before @until_ns (CLOCK_REALTIME)?  Any thread. */
bool ws_trash_is_due(struct ws_registry *r, uint64_t until_ns);
/* ws_trash_purge() - remove the oldest of those for good */
void ws_trash_purge(struct ws_registry *r, uint64_t until_ns);

/* ---- changes ------------------------------------------------------------ */

/* Any thread, for as long as copying takes. */
void ws_labels_hold(void);
void ws_labels_release(void);

struct ws_patch {
	bool has_name;
	const char *name;               /* borrowed; NULL: no name */
	const struct ws_pair *metadata; /* borrowed; merged; a value of NULL takes the pair away */
	size_t n_metadata;
	bool replaces_metadata; /* instead of merging */
};
/* ws_update() - 0, -EINVAL with a sentence, -ENOENT, -errno.  Pool thread. */
int ws_update(struct ws_registry *r, struct workspace *ws, const struct ws_patch *p,
	      struct err *err);

/* ws_set_exports() - publish rules (copied) and store them; NULL returns to the default.  Pool
 * thread. */
int ws_set_exports(struct ws_registry *r, struct workspace *ws, const struct export_rules *rules,
		   struct err *err);

/* ws_exports() - rules in force now; borrowed, valid for the registry's life.  Waits for nobody. */
const struct export_rules *ws_exports(struct ws_registry *r, const struct workspace *ws);

#endif
