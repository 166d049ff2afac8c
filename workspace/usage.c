/* SPDX-License-Identifier: MIT */
/* See usage.h. */
#include "workspace/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "workspace/tree_walk.h"

#define BLOCK_BYTES 512 /* of stx_blocks, whatever the file system's are */

/* A file with several names that has been counted. */
struct seen {
	struct map_node node;
	uint64_t ino;
};

struct counting {
	struct ws_usage *usage;
	struct map seen;
};

/* Return: 1 it was counted before, 0 it was not, -ENOMEM. */
static int see(struct counting *c, uint64_t ino)
{
	struct map_node *n = map_first(&c->seen, map_hash_u64(ino));
	struct seen *s;

	for (; n != NULL; n = map_next(n))
		if (container_of(n, struct seen, node)->ino == ino)
			return 1;
	s = malloc(sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->ino = ino;
	if (map_insert(&c->seen, &s->node, map_hash_u64(ino)) < 0) {
		free(s);
		return -ENOMEM;
	}
	return 0;
}

static int count_entry(void *arg, const struct tree_entry *e)
{
	struct counting *c = arg;
	struct statx stx;
	int rc;

	if (statx(e->dirfd, e->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_TYPE | STATX_NLINK | STATX_INO | STATX_BLOCKS, &stx) < 0)
		return 0; /* removed meanwhile */
	if (S_ISDIR(stx.stx_mode)) {
		c->usage->directories++;
	} else {
		rc = stx.stx_nlink > 1 ? see(c, stx.stx_ino) : 0;
		if (rc != 0)
			return rc < 0 ? rc : 0;
		c->usage->files++;
	}
	c->usage->bytes += stx.stx_blocks * BLOCK_BYTES;
	return 0;
}

static bool forget(struct map_node *n, void *arg)
{
	map_remove(arg, n);
	free(container_of(n, struct seen, node));
	return true;
}

int ws_usage(const struct workspace *ws, struct ws_usage *ret)
{
	struct counting c = { .usage = ret };
	struct tree_walk_result walk;
	int rc = map_init(&c.seen, 0);

	*ret = (struct ws_usage){ 0 };
	if (rc == 0)
		rc = tree_walk(ws->root_fd, count_entry, &c, &walk);
	map_each(&c.seen, forget, &c.seen);
	map_fini(&c.seen);
	ret->is_complete = rc == 0 && walk.first_err == 0;
	return rc;
}
