/* SPDX-License-Identifier: MIT */
/*
 * The kernel knows an inode by a number that we choose, and counts the replies that named it;
 * FORGET gives those counts back.  The number is the inode's address, which saves a table: an inode
 * lives while the kernel has a count on it.  It is also kept by references of ours, such as data
 * that is not yet committed, and dies with the last of both.
 *
 * Servers choose handles, so the hash is keyed.
 */
#include "fuse-client/fuse_inode.h"

#include <assert.h>
#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "fuse-client/nfs_client.h"
#include "fuse-client/wback.h"

static void destroy(struct finode *f)
{
	map_remove(&f->table->map, &f->node);
	f->table->n_inodes--;
	wback_free(f->wb);
	free(f->hidden);
	free(f);
}

static void maybe_destroy(struct finode *f)
{
	if (f->n_lookups == 0 && f->n_refs == 0)
		destroy(f);
}

struct finode *finode_find(struct finode_table *t, const uint8_t *fh, size_t fh_len)
{
	struct map_node *n = map_first(&t->map, map_hash_bytes(fh, fh_len));

	for (; n != NULL; n = map_next(n)) {
		struct finode *f = container_of(n, struct finode, node);

		if (f->fh_len == fh_len && memcmp(f->fh, fh, fh_len) == 0)
			return f;
	}
	return NULL;
}

struct finode *finode_get(struct finode_table *t, const uint8_t *fh, size_t fh_len, ftype3 type)
{
	struct finode *f = finode_find(t, fh, fh_len);

	if (f != NULL)
		return finode_ref(f);
	assert(fh_len <= NFS3_FHSIZE);
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return NULL;
	f->table = t;
	f->type = type;
	f->fh_len = (uint8_t)fh_len;
	memcpy(f->fh, fh, fh_len);
	f->n_refs = 1;
	if (map_insert(&t->map, &f->node, map_hash_bytes(fh, fh_len)) < 0) {
		free(f);
		return NULL;
	}
	t->n_inodes++;
	return f;
}

struct finode *finode_ref(struct finode *f)
{
	f->n_refs++;
	return f;
}

void finode_unref(struct finode *f)
{
	if (f == NULL)
		return;
	assert(f->n_refs > 0);
	f->n_refs--;
	maybe_destroy(f);
}

void finode_forget(struct finode *f, uint64_t n_lookups)
{
	assert(f->n_lookups >= n_lookups);
	f->n_lookups -= n_lookups;
	maybe_destroy(f);
}

uint64_t finode_id(const struct finode *f)
{
	return f == f->table->root ? FUSE_ROOT_ID : (uint64_t)(uintptr_t)f;
}

struct finode *finode_of(struct finode_table *t, uint64_t id)
{
	return id == FUSE_ROOT_ID ? t->root : (struct finode *)(uintptr_t)id;
}

/* ---- attributes --------------------------------------------------------- */

static void keep(struct finode *f, const fattr3 *a, uint64_t seq)
{
	f->attr = *a;
	f->attr_seq = seq;
	f->attr_ns = clock_mono_ns();
}

uint64_t finode_change_begin(struct finode *f)
{
	f->attr_ns = 0;
	f->n_changing++;
	f->change_seq = nfs_client_next_seq(f->table->nfs);
	return f->change_seq;
}

void finode_change_end(struct finode *f, uint64_t token, const fattr3 *after)
{
	bool was_alone = f->change_seq == token && f->n_changing == 1;

	f->n_changing--;
	f->change_seq = nfs_client_next_seq(f->table->nfs);
	if (was_alone && after != NULL)
		keep(f, after, token);
}

void finode_saw(struct finode *f, const fattr3 *a, uint64_t sent_seq)
{
	if (f->n_changing == 0 && sent_seq >= f->change_seq)
		keep(f, a, sent_seq);
}

const fattr3 *finode_fresh(const struct finode *f, uint64_t max_ns, uint64_t *ret_ns)
{
	const struct finode_table *t = f->table;
	uint64_t age_ns = clock_mono_ns() - f->attr_ns;

	if (f->attr_ns == 0 || age_ns >= max_ns || f->attr_seq < t->renamed_seq)
		return NULL;
	if (f->attr.type != NF3DIR && f->attr_seq < t->removed_seq)
		return NULL;
	*ret_ns = age_ns;
	return &f->attr;
}

/* ---- the table ---------------------------------------------------------- */

int finode_table_init(struct finode_table *t, struct nfs_client *nfs, const nfs_fh3 *root)
{
	int rc = map_init(&t->map, 1024);

	t->nfs = nfs;
	if (rc < 0)
		return rc;
	t->root = finode_get(t, (const uint8_t *)root->data.data_val, root->data.data_len, NF3DIR);
	if (t->root == NULL) {
		map_fini(&t->map);
		return -ENOMEM;
	}
	/* The kernel's count on the root is never given back by name. */
	t->root->n_lookups = 1;
	return 0;
}

static bool destroy_node(struct map_node *n, void *arg)
{
	destroy(container_of(n, struct finode, node));
	return true;
}

void finode_table_fini(struct finode_table *t)
{
	map_each(&t->map, destroy_node, NULL);
	map_fini(&t->map);
}
