/* SPDX-License-Identifier: MIT */
/*
 * Making names: files, folders, links, FIFOs and sockets.
 *
 * O_EXCL is an EXCLUSIVE create: the server keeps our random verifier with the file, so that a call
 * which is repeated after the server's restart finds its own file and is not told EEXIST.  Such a
 * file has no attributes yet; a SETATTR gives it mode and times.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "fuse-client/fuse_fs.h"

_Static_assert(sizeof(CREATE3res) == sizeof(MKDIR3res) &&
		       sizeof(CREATE3res) == sizeof(SYMLINK3res) &&
		       sizeof(CREATE3res) == sizeof(MKNOD3res),
	       "results of the four that make a name are alike (RFC 1813)");

/* ---- the end of all of them --------------------------------------------- */

/* CREATE also opens: the kernel gets the entry and the open file in one answer. */
static void reply_create(struct fop *op, const nfs_fh3 *fh, const fattr3 *a, uint64_t sent_seq)
{
	struct fuse_entry_param e;
	bool is_new = finode_find(&op->fs->inodes, (uint8_t *)fh->data.data_val,
				  fh->data.data_len) == NULL;
	struct finode *ino = fop_param(op->fs, fh, a, sent_seq, &e);

	if (ino == NULL) {
		fop_err(op, -ENOMEM);
		return;
	}
	if (op->fi.flags & O_TRUNC) {
		wback_truncate_begin(ino);
		wback_truncate_end(ino, true, 0);
	}
	op->fi.keep_cache = is_new;
	if (op->req != NULL && fuse_reply_create(op->req, &e, &op->fi) == 0) {
		ino->n_lookups++;
		fuse_io_opened(op->fs, ino);
	}
	finode_unref(ino);
	fop_free(op);
}

static void made(struct fop *op, const nfs_fh3 *fh, const fattr3 *a, uint64_t sent_seq)
{
	if (op->fi.flags & O_CREAT)
		reply_create(op, fh, a, sent_seq);
	else
		fop_entry(op, fh, a, sent_seq);
}

static void on_made_attrs(struct fop *op, const struct nfs_result *r)
{
	const nfs_fh3 fh = fop_kept_fh(op);

	if (r->err < 0)
		fop_err(op, r->err);
	else
		made(op, &fh, &r->res->getattr.GETATTR3res_u.resok.obj_attributes, r->sent_seq);
}

static void on_made_lookup(struct fop *op, const struct nfs_result *r)
{
	const LOOKUP3resok *ok;
	GETATTR3args a;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	ok = &r->res->lookup.LOOKUP3res_u.resok;
	fop_keep_fh(op, &ok->object);
	a.object = ok->object;
	fop_send(op, NFSPROC3_GETATTR, &a, on_made_attrs);
}

/* The server made it but tells neither handle nor attributes, which RFC 1813 allows. */
static void ask_for_made(struct fop *op)
{
	const LOOKUP3args a = { .what = fop_where(op->ino, op->name) };

	fop_send(op, NFSPROC3_LOOKUP, &a, on_made_lookup);
}

static void on_made(struct fop *op, const struct nfs_result *r)
{
	const CREATE3resok *ok;
	const fattr3 *a;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	ok = &r->res->create.CREATE3res_u.resok;
	a = fop_post(&ok->obj_attributes);
	if (a != NULL && ok->obj.handle_follows)
		made(op, &ok->obj.post_op_fh3_u.handle, a, r->sent_seq);
	else
		ask_for_made(op);
}

/* ---- CREATE ------------------------------------------------------------- */

static void on_exclusive_attrs(struct fop *op, const struct nfs_result *r)
{
	const nfs_fh3 fh = fop_kept_fh(op);
	const fattr3 *a;
	GETATTR3args g = { .object = fh };

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	a = fop_post(&r->res->setattr.SETATTR3res_u.resok.obj_wcc.after);
	if (a != NULL)
		made(op, &fh, a, r->sent_seq);
	else
		fop_send(op, NFSPROC3_GETATTR, &g, on_made_attrs);
}

static void set_exclusive_attrs(struct fop *op)
{
	SETATTR3args a = { .object = fop_kept_fh(op) };

	fuse_attr_new(op->mode, &a.new_attributes);
	/* The verifier may have been kept in the times. */
	a.new_attributes.atime.set_it = SET_TO_SERVER_TIME;
	a.new_attributes.mtime.set_it = SET_TO_SERVER_TIME;
	fop_send(op, NFSPROC3_SETATTR, &a, on_exclusive_attrs);
}

static void on_exclusive_lookup(struct fop *op, const struct nfs_result *r)
{
	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	fop_keep_fh(op, &r->res->lookup.LOOKUP3res_u.resok.object);
	set_exclusive_attrs(op);
}

static void create(struct fop *op, createmode3 how, fop_next next);

static void on_exclusive(struct fop *op, const struct nfs_result *r)
{
	const LOOKUP3args l = { .what = fop_where(op->ino, op->name) };
	const post_op_fh3 *obj;

	if (r->err == -EOPNOTSUPP) {
		create(op, GUARDED, on_made);
		return;
	}
	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	obj = &r->res->create.CREATE3res_u.resok.obj;
	if (!obj->handle_follows) {
		fop_send(op, NFSPROC3_LOOKUP, &l, on_exclusive_lookup);
		return;
	}
	fop_keep_fh(op, &obj->post_op_fh3_u.handle);
	set_exclusive_attrs(op);
}

static void create(struct fop *op, createmode3 how, fop_next next)
{
	CREATE3args a = { .where = fop_where(op->ino, op->name), .how = { .mode = how } };
	sattr3 *s = &a.how.createhow3_u.obj_attributes;

	if (how == EXCLUSIVE) {
		io_random(a.how.createhow3_u.verf, sizeof(a.how.createhow3_u.verf));
	} else {
		fuse_attr_new(op->mode, s);
		if (op->fi.flags & O_TRUNC)
			s->size.set_it = TRUE;
	}
	fop_change(op, NFSPROC3_CREATE, &a, next, op->ino, NULL);
}

void fuse_name_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "create", fop_inode(req, parent));

	if (op == NULL || !fop_name(op, &op->name, name))
		return;
	op->fi = *fi;
	op->fi.flags |= O_CREAT;
	op->fi.fh = fuse_io_is_writable(fi);
	op->mode = mode;
	if (fi->flags & O_EXCL)
		create(op, EXCLUSIVE, on_exclusive);
	else
		create(op, UNCHECKED, on_made);
}

/* ---- the others --------------------------------------------------------- */

void fuse_name_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fop *op = fop_new(req, "mkdir", fop_inode(req, parent));
	MKDIR3args a;

	if (op == NULL || !fop_name(op, &op->name, name))
		return;
	a.where = fop_where(op->ino, name);
	fuse_attr_new(mode, &a.attributes);
	fop_change(op, NFSPROC3_MKDIR, &a, on_made, op->ino, NULL);
}

static void make_node(struct fop *op, mode_t mode, dev_t rdev)
{
	static const struct {
		mode_t type;
		ftype3 nfs;
	} types[] = { { S_IFIFO, NF3FIFO },
		      { S_IFSOCK, NF3SOCK },
		      { S_IFBLK, NF3BLK },
		      { S_IFCHR, NF3CHR } };
	MKNOD3args a = { .where = fop_where(op->ino, op->name) };
	devicedata3 *dev = &a.what.mknoddata3_u.device;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (types[i].type == (mode & S_IFMT))
			a.what.type = types[i].nfs;
	}
	/* The attributes lie at the same place for pipes and devices: both are first in the union.
	 */
	fuse_attr_new(mode, &dev->dev_attributes);
	if (a.what.type == NF3BLK || a.what.type == NF3CHR)
		dev->spec = (specdata3){ .specdata1 = major(rdev), .specdata2 = minor(rdev) };
	fop_change(op, NFSPROC3_MKNOD, &a, on_made, op->ino, NULL);
}

void fuse_name_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct fop *op = fop_new(req, "mknod", fop_inode(req, parent));

	if (op == NULL || !fop_name(op, &op->name, name))
		return;
	op->mode = mode;
	if (S_ISREG(mode) || (mode & S_IFMT) == 0)
		create(op, EXCLUSIVE, on_exclusive);
	else
		make_node(op, mode, rdev);
}

void fuse_name_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct fop *op = fop_new(req, "symlink", fop_inode(req, parent));
	SYMLINK3args a = { 0 };

	if (op == NULL || !fop_name(op, &op->name, name))
		return;
	a.where = fop_where(op->ino, name);
	a.symlink.symlink_data.nfspath3_len = (u_int)strlen(target);
	a.symlink.symlink_data.nfspath3_val = (char *)(uintptr_t)target;
	fop_change(op, NFSPROC3_SYMLINK, &a, on_made, op->ino, NULL);
}

static void on_link_attrs(struct fop *op, const struct nfs_result *r)
{
	const nfs_fh3 fh = finode_fh(op->ino);

	if (r->err < 0)
		fop_err(op, r->err);
	else
		fop_entry(op, &fh, &r->res->getattr.GETATTR3res_u.resok.obj_attributes,
			  r->sent_seq);
}

static void on_link(struct fop *op, const struct nfs_result *r)
{
	const nfs_fh3 fh = finode_fh(op->ino);
	const GETATTR3args g = { .object = fh };
	const fattr3 *a;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	a = fop_post(&r->res->link.LINK3res_u.resok.file_attributes);
	if (a != NULL)
		fop_entry(op, &fh, a, r->sent_seq);
	else
		fop_send(op, NFSPROC3_GETATTR, &g, on_link_attrs);
}

void fuse_name_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct fop *op = fop_new(req, "link", fop_inode(req, ino));
	LINK3args a;

	if (op == NULL)
		return;
	a.file = finode_fh(op->ino);
	a.link = fop_where(fop_inode(req, parent), name);
	fop_change(op, NFSPROC3_LINK, &a, on_link, op->ino, fop_inode(req, parent));
}
