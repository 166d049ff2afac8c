/* SPDX-License-Identifier: MIT */
/*
 * The files that the kernel, or an operation under way, knows: found by NFS handle, given to the
 * kernel as their address.  Belongs to the thread of the loop.
 */
#ifndef FUSE_CLIENT_FUSE_INODE_H
#define FUSE_CLIENT_FUSE_INODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "fuse-client/fuse_attr.h"

struct wback;

struct finode {
	struct map_node node;
	struct finode_table *table;
	uint8_t fh[NFS3_FHSIZE];
	uint8_t fh_len;
	uint64_t n_lookups; /* what the kernel will give back with FORGET */
	unsigned n_refs;    /* operations, unwritten data */
	unsigned n_open;
	ftype3 type;
	struct fuse_version version; /* of the pages that the kernel may have */
	struct wback *wb;            /* owned; NULL until something is written */
	uint64_t written_seq;        /* attributes of calls sent before it may lack our writes */
	uint64_t written_end;        /* bytes: how far those writes reach */
	char *hidden; /* owned: its name in the root folder since it was unlinked while open */
};

struct finode_table {
	struct map map;
	struct finode *root; /* one reference of its own */
	uint64_t n_inodes;
};

int finode_table_init(struct finode_table *t, const nfs_fh3 *root);
void finode_table_fini(struct finode_table *t); /* frees every inode, whoever counts on it */

/* finode_find() - the inode of a handle if it is known, without a reference */
struct finode *finode_find(struct finode_table *t, const uint8_t *fh, size_t fh_len);
/* finode_get() - the same, made if need be, with a reference; NULL when out of memory */
struct finode *finode_get(struct finode_table *t, const uint8_t *fh, size_t fh_len, ftype3 type);

struct finode *finode_ref(struct finode *f);
void finode_unref(struct finode *f);                      /* NULL allowed */
void finode_forget(struct finode *f, uint64_t n_lookups); /* FORGET */

/* The number that the kernel knows it by, and the way back. */
uint64_t finode_id(const struct finode *f);
struct finode *finode_of(struct finode_table *t, uint64_t id);

static inline nfs_fh3 finode_fh(struct finode *f)
{
	nfs_fh3 fh;

	fh.data.data_len = f->fh_len;
	fh.data.data_val = (char *)f->fh;
	return fh;
}

#endif
