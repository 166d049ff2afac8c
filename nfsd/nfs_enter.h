/* SPDX-License-Identifier: MIT */
/*
 * What every procedure does first: from the handle to the inode, may this client use the workspace,
 * and as whom.  And last: attributes for the reply, and an errno made a status.
 */
#ifndef NFSD_NFS_ENTER_H
#define NFSD_NFS_ENTER_H

#include <stdbool.h>

#include "nfsd/nfs_call.h"
#include "workspace/fileops.h"

struct nfs_target {
	bool is_root_list;  /* "/", the list of workspaces: ino is NULL */
	struct inode *ino;  /* owned until nfs_leave() */
	struct fileops ops; /* acts as the caller does */
};

/**
 * nfs_enter() - the object of a handle
 *
 * Return: 0 (then nfs_leave() is due), -EAGAIN, -EBADMSG (BADHANDLE), -ESTALE, -EACCES, -EROFS for
 * a row that writes, -errno.  "/" is accepted only with @root_ok, else it is -EROFS for rows that
 * write and -EINVAL for the others.
 */
int nfs_enter(struct nfs_call *call, const nfs_fh3 *fh, bool root_ok, struct nfs_target *t);
void nfs_leave(struct nfs_call *call, struct nfs_target *t);

/* nfs_admit() - may this peer use @ws now?  0 with the caller's role in @ret, -EACCES, -EROFS. */
int nfs_admit(struct nfs_call *call, const struct workspace *ws, struct fileops *ret);

/* nfs_answer() - the end of every procedure: -EAGAIN goes back to the transport, all else is a
 * status. */
int nfs_answer(const struct nfs_call *call, int rc, nfsstat3 *status);

/* nfs_post_op() - attributes after an operation, as far as they can be had; @ino may be NULL */
void nfs_post_op(const struct nfs_target *t, struct inode *ino, post_op_attr *ret);

/*
 * nfs_wcc() - attributes around a change: only those after it.  The ones before could not be taken
 * in one step with the change, since sandboxes and local processes change the same files beside us,
 * and a client that believes them would keep a cache that is wrong (RFC 1813 section 2.6 makes them
 * optional for this).
 */
void nfs_wcc(const struct nfs_target *t, struct inode *ino, wcc_data *ret);

/* nfs_put_fh() - handle of @ino into the call's room number @slot (0 or 1) */
void nfs_put_fh(struct nfs_call *call, const struct inode *ino, int slot, nfs_fh3 *ret);

/* nfs_settle() - after a change of names or attributes: on disk before the answer, where that is
 * asked for */
int nfs_settle(struct nfs_call *call, struct inode *ino);

/* nfs_name() - a name from the wire, NUL-terminated.  0 or the negative errno of path_name_check().
 */
#define NFS_NAME_ROOM 256
int nfs_name(const filename3 *name, char dst[NFS_NAME_ROOM]);

#endif
