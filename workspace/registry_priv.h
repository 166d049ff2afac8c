/* SPDX-License-Identifier: MIT */
/* What workspace.c shares with ws_trash.c and ws_update.c: the registry's inside. */
#ifndef WORKSPACE_REGISTRY_PRIV_H
#define WORKSPACE_REGISTRY_PRIV_H

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "workspace/store.h"
#include "workspace/workspace.h"

#define SHORT_ID 8 /* characters of an id in the log: enough to find it, too few to mount it */

struct ws_registry {
	struct store *store; /* borrowed */
	struct ws_registry_options o;
	int dir_fd;   /* owned: the folder of all workspaces */
	int trash_fd; /* owned: the folder in it of those in the trash */
	pthread_rwlock_t lock;
	struct map by_key;            /* protected by lock */
	uint64_t generation;          /* atomic */
	pthread_mutex_t change_mutex; /* one change of rules or labels at a time: store and memory
					 end up the same */
	struct list rules;            /* protected by change_mutex */
	pthread_mutex_t trash_mutex;
	struct list trash; /* protected by trash_mutex: struct trash_node, oldest first */
};

/* ---- workspace.c -------------------------------------------------------- */

/* ws_registry_from_row() - in memory alone, root_fd -1.  One reference, owned by the caller. */
int ws_registry_from_row(struct ws_registry *r, const struct ws_row *row, struct workspace **ret,
			 struct err *err);
/* ws_registry_has_room() - 0, or -EDQUOT when there are as many as may be */
int ws_registry_has_room(struct ws_registry *r, struct err *err);
/* ws_registry_publish() - open its folder, tell the broker, let it be found */
int ws_registry_publish(struct ws_registry *r, struct workspace *ws, struct err *err);
/* ws_registry_retire() - nobody finds it any more, and everybody is told; false: somebody else did
 * so.  The registry's reference passes to the caller. */
bool ws_registry_retire(struct ws_registry *r, struct workspace *ws);
/* ws_registry_remove() - folder, in the trash or not, and row */
int ws_registry_remove(struct ws_registry *r, const char *id, struct err *err);

/* ---- ws_trash.c --------------------------------------------------------- */

int ws_trash_open(struct ws_registry *r, struct err *err); /* its folder */
void ws_trash_close(struct ws_registry *r);
/* ws_trash_load() - at start: one whose row says that it is there */
int ws_trash_load(struct ws_registry *r, const struct ws_row *row, struct err *err);
/* ws_trash_settle() - at start: its folder is moved there if a crash came between */
void ws_trash_settle(struct ws_registry *r, const char *id);
/* ws_trash_delete() - for good.  -ENOENT: it is not in the trash */
int ws_trash_delete(struct ws_registry *r, const char *id, struct err *err);

#endif
