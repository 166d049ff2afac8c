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
	unsigned n_truncating;       /* calls under way that cut it */
	uint64_t written_seq;        /* attributes of calls sent before it may lack our writes */
	uint64_t written_end;        /* bytes: how far those writes reach */
	fattr3 attr;                 /* the server's last word, if nothing has changed since: */
	uint64_t attr_ns;            /* CLOCK_MONOTONIC when it came; 0: there is none */
	uint64_t attr_seq;           /* nfs_client_seq() when it was asked for */
	uint64_t change_seq;         /* of the last begin or end of a change of ours */
	unsigned n_changing;         /* changes of ours under way */
	char *hidden; /* owned: its name in the root folder since it was unlinked while open */
};

struct finode_table {
	struct map map;
	struct finode *root; /* one reference of its own */
	uint64_t n_inodes;
	struct nfs_client *nfs; /* for its sequence numbers */
	/* When a name was last removed, which changes the link count of a file that we do not know,
	 * and when one was last renamed, which may do anything. */
	uint64_t removed_seq, renamed_seq;
};

int finode_table_init(struct finode_table *t, struct nfs_client *nfs, const nfs_fh3 *root);
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

/*
 * Attributes that came with answers save asking for them again: nearly every change is followed by
 * a GETATTR of the kernel's.  Calls run side by side and their answers come in any order, so an
 * answer's attributes count only if no change of ours was under way at any time between the call
 * and its answer, but for the one that brought them.
 */
uint64_t finode_change_begin(struct finode *f); /* before the call is sent; its token */
/* The answer has come; @after is NULL when it had no attributes. */
void finode_change_end(struct finode *f, uint64_t token, const fattr3 *after);
void finode_saw(struct finode *f, const fattr3 *a,
		uint64_t sent_seq); /* of a call without change */
/* finode_fresh() - what was kept, if it is younger than @max_ns; its age goes to *@ret_ns */
const fattr3 *finode_fresh(const struct finode *f, uint64_t max_ns, uint64_t *ret_ns);

static inline nfs_fh3 finode_fh(struct finode *f)
{
	nfs_fh3 fh;

	fh.data.data_len = f->fh_len;
	fh.data.data_val = (char *)f->fh;
	return fh;
}

#endif
