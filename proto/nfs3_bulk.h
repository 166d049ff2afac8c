/* SPDX-License-Identifier: MIT */
/*
 * The parts of NFSv3 that rpcgen's routines would copy or allocate for: payloads of READ and WRITE,
 * and the entry lists of READDIR and READDIRPLUS.  In proto/nfs3.x the results of these procedures
 * end where the bulk begins (READ3resok with the length word of the data, READDIR3resok with the
 * cookie verifier); the bulk follows as raw bytes.  Pure functions over bytes; every length is
 * checked.
 */
#ifndef PROTO_NFS3_BULK_H
#define PROTO_NFS3_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/nfs3.h"

struct nfs3_write_args {
	const uint8_t *fh; /* borrowed: into the record */
	uint32_t fh_len;
	uint64_t offset;
	uint32_t count;
	stable_how stable;
	const uint8_t *data; /* borrowed: into the record */
	uint32_t data_len;
};

/* Strict: false when anything is out of bounds or bytes are left over (GARBAGE_ARGS). */
bool nfs3_bulk_decode_write(const uint8_t *p, size_t n, void *args /* struct nfs3_write_args */);
/* The client's side: everything up to the data; the data and its padding follow.  0 = too small. */
size_t nfs3_bulk_encode_write(uint8_t *dst, size_t dst_len, const struct nfs3_write_args *a);

/* ---- directory lists ---------------------------------------------------- */
struct nfs3_dirlist {
	uint8_t *dst; /* borrowed */
	size_t max;   /* bytes that entries and the 8 closing bytes may take */
	size_t len;
	size_t n_entries;
};

#define NFS3_DIRLIST_TAIL 8 /* bytes: end of the list, and eof */

void nfs3_dirlist_init(struct nfs3_dirlist *l, uint8_t *dst, size_t max);
/* False when the entry does not fit with the tail behind it; nothing is then written. */
bool nfs3_dirlist_add(struct nfs3_dirlist *l, uint64_t fileid, const char *name, size_t name_len,
		      uint64_t cookie);
/* @attrs and @fh may be NULL (not known). */
bool nfs3_dirlist_add_plus(struct nfs3_dirlist *l, uint64_t fileid, const char *name,
			   size_t name_len, uint64_t cookie, const fattr3 *attrs, const uint8_t *fh,
			   size_t fh_len);
size_t nfs3_dirlist_finish(struct nfs3_dirlist *l, bool eof); /* total bytes */

struct nfs3_dirent {
	uint64_t fileid, cookie;
	const char *name; /* borrowed, not NUL-terminated */
	uint32_t name_len;
	bool has_attrs, has_fh;
	fattr3 attrs;
	const uint8_t *fh;
	uint32_t fh_len;
};
/* The client's side.  *pos walks over the bytes.  1: an entry; 0: end, *ret_eof is set; -EBADMSG.
 */
int nfs3_dirlist_next(const uint8_t *p, size_t n, size_t *pos, bool plus, struct nfs3_dirent *ret,
		      bool *ret_eof);

/* Encoded size of one READDIR entry with a name of @name_len bytes, for TOOSMALL and dircount. */
size_t nfs3_dirent_size(size_t name_len);

#endif
