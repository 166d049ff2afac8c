/* SPDX-License-Identifier: MIT */
/*
 * NFS file handles: at most 64 bytes (RFC 1813 section 2.5), good for as long as the file exists.
 *
 *   0     version (1)
 *   1     kind: 0 the list of workspaces "/", else enum inode_key_kind
 *   2     kernel handle type
 *   3     n = length of the inode bytes
 *   4..11 workspace key, big-endian
 *  12..15 file system id
 *  16..   n inode bytes
 *  then   16 bytes of MAC (SipHash-2-4-128) over all before it and the workspace's whole uuid
 *
 * Without the key nobody can make a handle, and one workspace's handle is no good in another.
 */
#ifndef NFSD_FH_H
#define NFSD_FH_H

#include <stdint.h>

#include "proto/nfs3.h"
#include "workspace/inode.h"

#define FH_MAC_LEN  16
#define FH_HEAD_LEN 16
#define FH_KEY_LEN  32 /* bytes of keys/handle.key */

struct fh_codec;
int fh_codec_new(const uint8_t key[FH_KEY_LEN], struct ws_registry *registry,
		 struct fh_codec **ret);
void fh_codec_free(struct fh_codec *c);

/* fh_encode() - handle of an inode key of @ws; @dst >= NFS3_FHSIZE bytes.  Return: bytes written.
 */
size_t fh_encode(const struct fh_codec *c, const struct workspace *ws, const struct inode_key *key,
		 uint8_t *dst);
size_t fh_encode_root(const struct fh_codec *c, uint8_t *dst); /* "/" */

/**
 * fh_decode() - check a handle from the wire
 *
 * Return: 1 for "/", 0 for an inode of *@ret_ws (owned reference; may be gone), -EBADMSG when the
 * bytes are no handle of ours (NFS3ERR_BADHANDLE), -ESTALE when its workspace does not exist any
 * more.
 */
int fh_decode(const struct fh_codec *c, const uint8_t *p, size_t n, struct inode_key *ret_key,
	      struct workspace **ret_ws);

#endif
