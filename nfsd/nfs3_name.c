/* SPDX-License-Identifier: MIT */
/* LOOKUP and everything that makes, moves or removes names (RFC 1813
 * sections 3.3.3, 3.3.5, 3.3.8-3.3.15). */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "nfsd/fattr.h"
#include "nfsd/fh.h"
#include "nfsd/nfs_enter.h"
#include "nfsd/nfs_procs.h"
#include "nfsd/nfs_root.h"

static void put_inode(struct nfs_call *call, struct inode *ino)
{
	if (ino != NULL)
		inode_unref(nfsd_shared(call->nfsd)->inodes, ino);
}

static int lookup_in_root(struct nfs_call *call, const char *name, LOOKUP3resok *ok)
{
	struct nfs_target child = { 0 };
	int rc;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		ok->object.data.data_val = (char *)call->fh_room[0];
		ok->object.data.data_len =
			(u_int)fh_encode_root(nfsd_shared(call->nfsd)->fh, call->fh_room[0]);
		ok->obj_attributes.attributes_follow = TRUE;
		nfs_root_attr(call, &ok->obj_attributes.post_op_attr_u.attributes);
		return 0;
	}
	rc = nfs_root_lookup(call, name, &child.ino, &child.ops);
	if (rc < 0)
		return rc;
	nfs_put_fh(call, child.ino, 0, &ok->object);
	nfs_post_op(&child, child.ino, &ok->obj_attributes);
	put_inode(call, child.ino);
	return 0;
}

int nfs3_lookup(struct nfs_call *call, void *args, void *res)
{
	LOOKUP3args *a = args;
	LOOKUP3res *r = res;
	LOOKUP3resok *ok = &r->LOOKUP3res_u.resok;
	post_op_attr *dir_attr;
	char name[NFS_NAME_ROOM];
	struct inode *ino = NULL;
	struct nfs_target t;
	int rc = nfs_enter(call, &a->what.dir, true, &t);

	if (rc == 0) {
		rc = nfs_name(&a->what.name, name);
		if (rc == -EEXIST) /* "." and ".." are names to look up */
			rc = 0;
	}
	if (rc == 0)
		rc = t.is_root_list ? lookup_in_root(call, name, ok)
				    : fileops_lookup(&t.ops, t.ino, name, &ino);
	if (rc == 0 && ino != NULL) {
		nfs_put_fh(call, ino, 0, &ok->object);
		nfs_post_op(&t, ino, &ok->obj_attributes);
	}
	dir_attr = rc == 0 ? &ok->dir_attributes : &r->LOOKUP3res_u.resfail.dir_attributes;
	nfs_post_op(&t, t.ino, dir_attr);
	put_inode(call, ino);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

/* ---- making things ------------------------------------------------------ */

/* CREATE, MKDIR, SYMLINK and MKNOD differ in the middle and have one form of result. */
_Static_assert(sizeof(CREATE3res) == sizeof(MKDIR3res) &&
		       sizeof(CREATE3res) == sizeof(SYMLINK3res) &&
		       sizeof(CREATE3res) == sizeof(MKNOD3res),
	       "results of the four that make a name are alike (RFC 1813)");

static int begin_make(struct nfs_call *call, const diropargs3 *where, char name[NFS_NAME_ROOM],
		      struct nfs_target *t)
{
	int rc = nfs_enter(call, &where->dir, false, t);

	if (rc == 0)
		rc = nfs_name(&where->name, name);
	return rc == -ENOENT ? -EINVAL : rc; /* an empty name */
}

static int finish_make(struct nfs_call *call, struct nfs_target *t, struct inode *ino, int rc,
		       CREATE3res *r)
{
	CREATE3resok *ok = &r->CREATE3res_u.resok;

	if (rc == 0)
		rc = nfs_settle(call, t->ino);
	if (rc == 0) {
		ok->obj.handle_follows = TRUE;
		nfs_put_fh(call, ino, 0, &ok->obj.post_op_fh3_u.handle);
		nfs_post_op(t, ino, &ok->obj_attributes);
		nfs_wcc(t, t->ino, &ok->dir_wcc);
	} else {
		nfs_wcc(t, t->ino, &r->CREATE3res_u.resfail.dir_wcc);
	}
	put_inode(call, ino);
	nfs_leave(call, t);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_create(struct nfs_call *call, void *args, void *res)
{
	static const enum fileops_create_how how_of[] = {
		[UNCHECKED] = CREATE_UNCHECKED,
		[GUARDED] = CREATE_GUARDED,
		[EXCLUSIVE] = CREATE_EXCLUSIVE,
	};
	CREATE3args *a = args;
	struct fileops_attr attr = { 0 };
	char name[NFS_NAME_ROOM];
	struct inode *ino = NULL;
	struct nfs_target t;
	int rc = begin_make(call, &a->where, name, &t);

	if (rc == 0 && a->how.mode != EXCLUSIVE)
		rc = fattr_to_fileops(&a->how.createhow3_u.obj_attributes, &attr);
	if (rc == 0)
		rc = fileops_create(&t.ops, t.ino, name, how_of[a->how.mode], &attr,
				    (const uint8_t *)a->how.createhow3_u.verf, &ino);
	return finish_make(call, &t, ino, rc, res);
}

int nfs3_mkdir(struct nfs_call *call, void *args, void *res)
{
	MKDIR3args *a = args;
	struct fileops_attr attr;
	char name[NFS_NAME_ROOM];
	struct inode *ino = NULL;
	struct nfs_target t;
	int rc = begin_make(call, &a->where, name, &t);

	if (rc == 0)
		rc = fattr_to_fileops(&a->attributes, &attr);
	if (rc == 0)
		rc = fileops_mkdir(&t.ops, t.ino, name, &attr, &ino);
	return finish_make(call, &t, ino, rc, res);
}

/* A link's target from the wire, NUL-terminated: 0, -EINVAL (empty, or a NUL byte inside),
 * -ENAMETOOLONG. */
static int target_text(const nfspath3 *from, char dst[PATH_MAX])
{
	if (from->nfspath3_len == 0)
		return -EINVAL;
	if (from->nfspath3_len >= PATH_MAX)
		return -ENAMETOOLONG;
	if (memchr(from->nfspath3_val, '\0', from->nfspath3_len) != NULL)
		return -EINVAL;
	memcpy(dst, from->nfspath3_val, from->nfspath3_len);
	dst[from->nfspath3_len] = '\0';
	return 0;
}

int nfs3_symlink(struct nfs_call *call, void *args, void *res)
{
	SYMLINK3args *a = args;
	struct fileops_attr attr;
	char name[NFS_NAME_ROOM];
	char target[PATH_MAX];
	struct inode *ino = NULL;
	struct nfs_target t;
	int rc = begin_make(call, &a->where, name, &t);

	if (rc == 0)
		rc = target_text(&a->symlink.symlink_data, target);
	if (rc == 0)
		rc = fattr_to_fileops(&a->symlink.symlink_attributes, &attr);
	if (rc == 0)
		rc = fileops_symlink(&t.ops, t.ino, name, target, &attr, &ino);
	return finish_make(call, &t, ino, rc, res);
}

/* FIFOs and sockets for the owner; device nodes are -EPERM, and other types are no node to make. */
static int node_type(ftype3 type, mode_t *ret)
{
	switch (type) {
	case NF3FIFO:
		*ret = S_IFIFO;
		return 0;
	case NF3SOCK:
		*ret = S_IFSOCK;
		return 0;
	case NF3CHR:
	case NF3BLK:
		return -EPERM;
	default:
		return -EBADRQC; /* NFS3ERR_BADTYPE */
	}
}

int nfs3_mknod(struct nfs_call *call, void *args, void *res)
{
	MKNOD3args *a = args;
	struct fileops_attr attr;
	char name[NFS_NAME_ROOM];
	struct inode *ino = NULL;
	struct nfs_target t;
	mode_t type = 0;
	int rc = begin_make(call, &a->where, name, &t);

	if (rc == 0)
		rc = node_type(a->what.type, &type);
	if (rc == 0)
		rc = fattr_to_fileops(&a->what.mknoddata3_u.pipe_attributes, &attr);
	if (rc == 0)
		rc = fileops_mknod(&t.ops, t.ino, name, type, &attr, &ino);
	return finish_make(call, &t, ino, rc, res);
}

/* ---- removing, moving, linking ------------------------------------------ */

static int remove_with(struct nfs_call *call, diropargs3 *what, REMOVE3res *r,
		       int (*remove)(const struct fileops *, struct inode *, const char *))
{
	char name[NFS_NAME_ROOM];
	struct nfs_target t;
	int rc = nfs_enter(call, &what->dir, false, &t);

	if (rc == 0) {
		rc = nfs_name(&what->name, name);
		if (rc == -EEXIST || rc == -ENOENT) /* ".", "..", "" */
			rc = -EINVAL;
	}
	if (rc == 0)
		rc = remove(&t.ops, t.ino, name);
	if (rc == 0)
		rc = nfs_settle(call, t.ino);
	/* success and failure have the same form here */
	nfs_wcc(&t, t.ino, &r->REMOVE3res_u.resok.dir_wcc);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_remove(struct nfs_call *call, void *args, void *res)
{
	return remove_with(call, &((REMOVE3args *)args)->object, res, fileops_remove);
}

int nfs3_rmdir(struct nfs_call *call, void *args, void *res)
{
	_Static_assert(sizeof(RMDIR3res) == sizeof(REMOVE3res), "alike (RFC 1813)");
	return remove_with(call, &((RMDIR3args *)args)->object, res, fileops_rmdir);
}

int nfs3_rename(struct nfs_call *call, void *args, void *res)
{
	RENAME3args *a = args;
	RENAME3res *r = res;
	RENAME3resok *ok = &r->RENAME3res_u.resok; /* as resfail */
	char from[NFS_NAME_ROOM], to[NFS_NAME_ROOM];
	struct nfs_target tf, tt = { 0 };
	int rc = nfs_enter(call, &a->from.dir, false, &tf);

	if (rc == 0)
		rc = nfs_enter(call, &a->to.dir, false, &tt);
	if (rc == 0) {
		rc = nfs_name(&a->from.name, from);
		if (rc == -EEXIST || rc == -ENOENT)
			rc = -EINVAL;
	}
	if (rc == 0) {
		rc = nfs_name(&a->to.name, to);
		if (rc == -ENOENT)
			rc = -EINVAL;
	}
	if (rc == 0)
		rc = fileops_rename(&tf.ops, tf.ino, from, tt.ino, to);
	if (rc == 0)
		rc = nfs_settle(call, tf.ino);
	if (rc == 0 && tt.ino != tf.ino)
		rc = nfs_settle(call, tt.ino);
	nfs_wcc(&tf, tf.ino, &ok->fromdir_wcc);
	nfs_wcc(&tt, tt.ino, &ok->todir_wcc);
	nfs_leave(call, &tf);
	nfs_leave(call, &tt);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_link(struct nfs_call *call, void *args, void *res)
{
	LINK3args *a = args;
	LINK3res *r = res;
	LINK3resok *ok = &r->LINK3res_u.resok; /* as resfail */
	char name[NFS_NAME_ROOM];
	struct nfs_target tf, td = { 0 };
	int rc = nfs_enter(call, &a->file, false, &tf);

	if (rc == 0)
		rc = begin_make(call, &a->link, name, &td);
	if (rc == 0)
		rc = fileops_link(&td.ops, tf.ino, td.ino, name);
	if (rc == 0)
		rc = nfs_settle(call, td.ino);
	nfs_post_op(&tf, tf.ino, &ok->file_attributes);
	nfs_wcc(&td, td.ino, &ok->linkdir_wcc);
	nfs_leave(call, &tf);
	nfs_leave(call, &td);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_readlink(struct nfs_call *call, void *args, void *res)
{
	READLINK3args *a = args;
	READLINK3res *r = res;
	READLINK3resok *ok = &r->READLINK3res_u.resok;
	struct nfs_target t;
	uint8_t *text = NULL;
	ssize_t n;
	int rc = nfs_enter(call, &a->symlink, false, &t);

	if (rc == 0) {
		text = nfs_call_payload(
			call, PATH_MAX); /* only as memory: the result itself carries the text */
		n = text == NULL ? -ENOMEM
				 : fileops_readlink(&t.ops, t.ino, (char *)text, PATH_MAX);
		rc = n < 0 ? (int)n : 0;
		ok->data.nfspath3_len = n < 0 ? 0 : (u_int)n;
		ok->data.nfspath3_val = (char *)text;
	}
	nfs_post_op(&t, t.ino,
		    rc == 0 ? &ok->symlink_attributes
			    : &r->READLINK3res_u.resfail.symlink_attributes);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}
