/* SPDX-License-Identifier: MIT */
/* What files are: names to inodes, attributes, links, the file system's size. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "fuse-client/fuse_fs.h"

#define BLOCK_SIZE 4096u /* bytes: the unit of statfs */
#define NAME_LIMIT 255

void fuse_meta_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fop *op = fop_new(req, "lookup", fop_inode(req, parent));

	if (op != NULL)
		fop_lookup(op, op->ino, name);
}

void fuse_meta_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	finode_forget(fop_inode(req, ino), n);
	fuse_reply_none(req);
}

void fuse_meta_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *f)
{
	for (size_t i = 0; i < n; i++)
		finode_forget(fop_inode(req, f[i].ino), f[i].nlookup);
	fuse_reply_none(req);
}

/* ---- attributes --------------------------------------------------------- */

static void on_getattr(struct fop *op, const struct nfs_result *r)
{
	if (r->err < 0)
		fop_err(op, r->err);
	else
		fop_attr(op, op->ino, &r->res->getattr.GETATTR3res_u.resok.obj_attributes,
			 r->sent_seq);
}

static void getattr(struct fop *op)
{
	const GETATTR3args a = { .object = finode_fh(op->ino) };
	const fattr3 *kept = finode_fresh(
		op->ino, (uint64_t)(op->fs->opt->attr_timeout * NSEC_PER_SEC), &op->age_ns);

	if (kept != NULL) {
		fop_attr(op, op->ino, kept, nfs_client_seq(op->fs->nfs));
		return;
	}
	fop_send(op, NFSPROC3_GETATTR, &a, on_getattr);
}

static void on_written_getattr(void *arg, int err)
{
	(void)err; /* kept for fsync and close */
	getattr(arg);
}

void fuse_meta_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "getattr", fop_inode(req, ino));

	(void)fi;
	if (op == NULL)
		return;
	/* The times of a file are those of its last write, so that one must have arrived. */
	if (wback_is_pending(op->ino))
		wback_wait(op->ino, WBACK_WRITTEN, on_written_getattr, op);
	else
		getattr(op);
}

static void on_setattr(struct fop *op, const struct nfs_result *r)
{
	const fattr3 *after;

	if (op->to_set & FUSE_SET_ATTR_SIZE)
		wback_truncate_end(op->ino, r->err == 0, op->attrs.size.set_size3_u.size);
	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	after = fop_post(&r->res->setattr.SETATTR3res_u.resok.obj_wcc.after);
	fuse_version_follow(&op->ino->version, &r->res->setattr.SETATTR3res_u.resok.obj_wcc);
	if (after != NULL)
		fop_attr(op, op->ino, after, r->sent_seq);
	else
		getattr(op);
}

static void setattr(void *arg, int err)
{
	struct fop *op = arg;
	SETATTR3args a = { .object = finode_fh(op->ino), .new_attributes = op->attrs };

	(void)err; /* kept for fsync and close */
	if (op->to_set & FUSE_SET_ATTR_SIZE)
		wback_truncate_begin(op->ino);
	fop_change(op, NFSPROC3_SETATTR, &a, on_setattr, op->ino, NULL);
}

/* chown to the owner that is shown: nothing to be done, but the answer wants attributes. */
static bool changes_nothing(const sattr3 *s)
{
	return !s->mode.set_it && !s->uid.set_it && !s->gid.set_it && !s->size.set_it &&
	       s->atime.set_it == DONT_CHANGE && s->mtime.set_it == DONT_CHANGE;
}

void fuse_meta_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		       struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "setattr", fop_inode(req, ino));
	int rc;

	(void)fi;
	if (op == NULL)
		return;
	op->to_set = to_set;
	rc = fuse_attr_from_setattr(st, to_set, &op->fs->map, &op->attrs);
	if (rc < 0)
		fop_err(op, rc);
	else if (changes_nothing(&op->attrs))
		getattr(op);
	else
		/* Delayed writes come first: they would change times and size again. */
		wback_wait(op->ino, WBACK_WRITTEN, setattr, op);
}

/* ---- links -------------------------------------------------------------- */

static void on_readlink(struct fop *op, const struct nfs_result *r)
{
	const nfspath3 *to;
	char *text;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	to = &r->res->readlink.READLINK3res_u.resok.data;
	text = strndup(to->nfspath3_val, to->nfspath3_len);
	if (text == NULL) {
		fop_err(op, -ENOMEM);
		return;
	}
	if (op->req != NULL)
		(void)fuse_reply_readlink(op->req, text);
	free(text);
	fop_free(op);
}

void fuse_meta_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fop *op = fop_new(req, "readlink", fop_inode(req, ino));
	READLINK3args a;

	if (op == NULL)
		return;
	a.symlink = finode_fh(op->ino);
	fop_send(op, NFSPROC3_READLINK, &a, on_readlink);
}

/* ---- the file system ---------------------------------------------------- */

static void on_fsstat(struct fop *op, const struct nfs_result *r)
{
	const FSSTAT3resok *ok;
	struct statvfs st;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	ok = &r->res->fsstat.FSSTAT3res_u.resok;
	st = (struct statvfs){
		.f_bsize = BLOCK_SIZE,
		.f_frsize = BLOCK_SIZE,
		.f_blocks = ok->tbytes / BLOCK_SIZE,
		.f_bfree = ok->fbytes / BLOCK_SIZE,
		.f_bavail = ok->abytes / BLOCK_SIZE,
		.f_files = ok->tfiles,
		.f_ffree = ok->ffiles,
		.f_favail = ok->afiles,
		.f_namemax = NAME_LIMIT,
	};
	if (op->req != NULL)
		(void)fuse_reply_statfs(op->req, &st);
	fop_free(op);
}

void fuse_meta_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct fop *op = fop_new(req, "statfs", fop_inode(req, ino));
	FSSTAT3args a;

	if (op == NULL)
		return;
	a.fsroot = finode_fh(op->ino);
	fop_send(op, NFSPROC3_FSSTAT, &a, on_fsstat);
}
