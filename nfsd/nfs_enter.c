/* SPDX-License-Identifier: MIT */
#include "nfsd/nfs_enter.h"

#include <errno.h>
#include <string.h>

#include "nfsd/export.h"
#include "nfsd/fattr.h"
#include "nfsd/fh.h"
#include "proto/status.h"
#include "workspace/path.h"

/* The table of who acts as whom (docs/nfs.md): ids are looked at in mode "match" only, and a caller
 * without any id is never more than "other". */
static bool acts_as_owner(const struct rpc_cred *cred, enum export_mode mode,
			  const struct workspace *ws)
{
	if (cred->flavor != RPC_AUTH_SYS)
		return false;
	return mode == EXPORT_SQUASH || cred->uid == 0 || cred->uid == ws->owner_uid;
}

int nfs_admit(struct nfs_call *call, const struct workspace *ws, struct fileops *ret)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	struct export_verdict v;

	export_check(sh->registry, ws, call->peer, &v);
	if (!v.allowed)
		return -EACCES;
	if (v.read_only && (call->proc->flags & P_WRITES) != 0)
		return -EROFS;
	*ret = (struct fileops){
		.inodes = sh->inodes,
		.acts_as_owner = acts_as_owner(&call->rpc->cred, v.mode, ws),
		.may_block = call->may_block,
		.door = DOOR_NFS,
	};
	return 0;
}

int nfs_enter(struct nfs_call *call, const nfs_fh3 *fh, bool root_ok, struct nfs_target *t)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	struct inode_key key;
	struct workspace *ws;
	int rc;

	*t = (struct nfs_target){ 0 };
	rc = fh_decode(sh->fh, (const uint8_t *)fh->data.data_val, fh->data.data_len, &key, &ws);
	if (rc < 0)
		return rc;
	if (rc == 1) {
		t->is_root_list = true;
		if (root_ok)
			return 0;
		return (call->proc->flags & P_WRITES) != 0 ? -EROFS : -EINVAL;
	}
	rc = nfs_admit(call, ws, &t->ops);
	if (rc == 0 && sh->metadata_sync && (call->proc->flags & P_NAMES) != 0 && !call->may_block)
		rc = -EAGAIN;
	if (rc == 0)
		rc = inode_from_key(sh->inodes, &key, call->may_block, &t->ino);
	call->trace_ws = ws->key;
	if (rc == 0)
		call->trace_ino = t->ino->ino;
	workspace_unref(ws);
	return rc;
}

void nfs_leave(struct nfs_call *call, struct nfs_target *t)
{
	if (t->ino != NULL)
		inode_unref(nfsd_shared(call->nfsd)->inodes, t->ino);
	t->ino = NULL;
}

int nfs_answer(const struct nfs_call *call, int rc, nfsstat3 *status)
{
	if (rc == -EAGAIN && !call->may_block)
		return -EAGAIN;
	*status = status_nfs(rc);
	return 0;
}

void nfs_post_op(const struct nfs_target *t, struct inode *ino, post_op_attr *ret)
{
	struct statx stx;

	ret->attributes_follow = ino != NULL && fileops_stat(&t->ops, ino, &stx) == 0;
	if (ret->attributes_follow)
		fattr_from_statx(ino->ws, &stx, &ret->post_op_attr_u.attributes);
}

void nfs_wcc(const struct nfs_target *t, struct inode *ino, wcc_data *ret)
{
	ret->before.attributes_follow = FALSE;
	nfs_post_op(t, ino, &ret->after);
}

void nfs_put_fh(struct nfs_call *call, const struct inode *ino, int slot, nfs_fh3 *ret)
{
	uint8_t *room = call->fh_room[slot];

	ret->data.data_len =
		(u_int)fh_encode(nfsd_shared(call->nfsd)->fh, ino->ws, &ino->key, room);
	ret->data.data_val = (char *)room;
}

int nfs_settle(struct nfs_call *call, struct inode *ino)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);

	return sh->metadata_sync ? inode_sync(sh->inodes, ino) : 0;
}

int nfs_name(const filename3 *name, char dst[NFS_NAME_ROOM])
{
	int rc = path_name_check(name->filename3_val, name->filename3_len);

	/* "." and ".." are copied too: LOOKUP takes them */
	if (rc < 0 && rc != -EEXIST)
		return rc;
	memcpy(dst, name->filename3_val, name->filename3_len);
	dst[name->filename3_len] = '\0';
	return rc;
}
