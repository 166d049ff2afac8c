/* SPDX-License-Identifier: MIT */
/*
 * Contents of files.
 *
 * Close-to-open: open asks for the attributes, and when they are not those that the kernel's pages
 * belong to, the pages and the kernel's idea of the size are thrown away; close returns when
 * everything is on the server's disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuse-client/fuse_fs.h"

#define ADOPT_MIN (64u << 10) /* bytes: from here on a buffer is taken over rather than copied */

/* ---- open --------------------------------------------------------------- */

bool fuse_io_is_writable(const struct fuse_file_info *fi)
{
	return (fi->flags & O_ACCMODE) != O_RDONLY;
}

void fuse_io_opened(struct fuse_fs *fs, struct finode *ino)
{
	ino->n_open++;
	fs->n_open++;
}

void fuse_io_closed(struct fuse_fs *fs, struct finode *ino)
{
	ino->n_open--;
	fs->n_open--;
	if (ino->n_open > 0)
		return;
	wback_closed(ino);
	if (ino->hidden != NULL)
		fuse_remove_hidden(fs, ino);
}

static void reply_open(struct fop *op, bool keep_cache)
{
	op->fi.keep_cache = keep_cache;
	/*
	 * Size and times only: for those the kernel takes no lock that a request of ours could
	 * hold, so the loop may say it.
	 */
	if (!keep_cache)
		(void)fuse_lowlevel_notify_inval_inode(op->fs->se, finode_id(op->ino), -1, 0);
	if (op->req != NULL && fuse_reply_open(op->req, &op->fi) == 0)
		fuse_io_opened(op->fs, op->ino);
	fop_free(op);
}

static void on_open_getattr(struct fop *op, const struct nfs_result *r)
{
	const fattr3 *a;
	bool is_same;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	a = &r->res->getattr.GETATTR3res_u.resok.obj_attributes;
	finode_saw(op->ino, a, r->sent_seq);
	is_same = fuse_version_is(&op->ino->version, a);
	fuse_version_of(a, &op->ino->version);
	reply_open(op, is_same);
}

static void on_open_truncated(struct fop *op, const struct nfs_result *r)
{
	wback_truncate_end(op->ino, r->err == 0, 0);
	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	op->ino->version.is_known = false;
	reply_open(op, false);
}

static void open_written(void *arg, int err)
{
	struct fop *op = arg;
	const GETATTR3args g = { .object = finode_fh(op->ino) };
	SETATTR3args s = { .object = finode_fh(op->ino) };

	(void)err; /* kept for fsync and close */
	if (op->fi.flags & O_TRUNC) {
		s.new_attributes.size.set_it = TRUE;
		wback_truncate_begin(op->ino);
		fop_change(op, NFSPROC3_SETATTR, &s, on_open_truncated, op->ino, NULL);
	} else {
		fop_send(op, NFSPROC3_GETATTR, &g, on_open_getattr);
	}
}

void fuse_io_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "open", fop_inode(req, ino));

	if (op == NULL)
		return;
	op->fi = *fi;
	op->fi.fh = fuse_io_is_writable(fi);
	wback_wait(op->ino, WBACK_WRITTEN, open_written, op);
}

/* ---- read --------------------------------------------------------------- */

static void on_read(struct fop *op, const struct nfs_result *r);

static void read_on(struct fop *op)
{
	const READ3args a = {
		.file = finode_fh(op->ino),
		.offset = op->off + op->n_done,
		.count = (count3)MIN(op->size - op->n_done, (size_t)op->fs->rsize),
	};

	fop_send(op, NFSPROC3_READ, &a, on_read);
}

static void reply_read(struct fop *op, const uint8_t *data, size_t n)
{
	if (op->req != NULL)
		(void)fuse_reply_buf(op->req, (const char *)data, n);
	fop_free(op);
}

/* One more piece of a read that takes several. */
static bool keep_piece(struct fop *op, const uint8_t *data, size_t n)
{
	if (op->buf == NULL)
		op->buf = malloc(op->size);
	if (op->buf == NULL)
		return false;
	memcpy(op->buf + op->n_done, data, n);
	op->n_done += n;
	return true;
}

static void on_read(struct fop *op, const struct nfs_result *r)
{
	const READ3resok *ok;
	bool is_last;
	size_t n;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	ok = &r->res->read.READ3res_u.resok;
	n = ok->data_len;
	if (n > r->bulk_len || n > op->size - op->n_done) {
		fop_err(op, -EIO);
		return;
	}
	/* Nothing at all ends it too, or a server that forgets eof would be asked for ever. */
	is_last = ok->eof || n == 0 || n == op->size - op->n_done;
	if (is_last && op->n_done == 0)
		reply_read(op, r->bulk, n);
	else if (!keep_piece(op, r->bulk, n))
		fop_err(op, -ENOMEM);
	else if (is_last)
		reply_read(op, op->buf, op->n_done);
	else
		read_on(op);
}

static void read_written(void *arg, int err)
{
	(void)err; /* kept for fsync and close */
	read_on(arg);
}

void fuse_io_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "read", fop_inode(req, ino));

	(void)fi;
	if (op == NULL)
		return;
	op->off = (uint64_t)off;
	op->size = size;
	if (wback_is_pending(op->ino))
		wback_wait(op->ino, WBACK_WRITTEN, read_written, op);
	else
		read_on(op);
}

/* ---- write -------------------------------------------------------------- */

static void answer_write(struct fop *op)
{
	/* The bytes are taken, whatever the process waits for. */
	(void)fuse_reply_write(op->req, op->size);
}

static void on_room(void *arg, int err)
{
	struct fop *op = arg;

	(void)err;
	if (op->req != NULL)
		answer_write(op);
	fop_free(op);
}

void fuse_io_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
		   struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "write", fop_inode(req, ino));
	uint8_t *base = NULL;
	int rc;

	(void)fi;
	if (op == NULL)
		return;
	op->size = size;
	op->on_interrupt = answer_write;
	if (size >= ADOPT_MIN) {
		base = op->fs->request.mem;
		op->fs->request.mem = NULL; /* libfuse makes a new one for the next request */
	}
	rc = wback_write(&op->fs->wb, op->ino, (uint64_t)off, (const uint8_t *)data, size, base);
	if (rc < 0) {
		free(base);
		fop_err(op, rc);
		return;
	}
	wback_wait_room(&op->fs->wb, on_room, op);
}

/* ---- fsync and close ---------------------------------------------------- */

static void on_committed(void *arg, int err)
{
	fop_err(arg, err);
}

void fuse_io_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "fsync", fop_inode(req, ino));

	(void)data_only;
	(void)fi;
	if (op != NULL)
		wback_wait(op->ino, WBACK_COMMITTED, on_committed, op);
}

void fuse_io_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "flush", fop_inode(req, ino));

	if (op == NULL)
		return;
	/* Who only reads need not wait for what others write. */
	if (!fi->fh || !wback_is_uncommitted(op->ino))
		fop_err(op, 0);
	else
		wback_wait(op->ino, WBACK_COMMITTED, on_committed, op);
}

static void on_release_committed(void *arg, int err)
{
	struct fop *op = arg;

	(void)err; /* logged where it happened; the closes before have told it */
	fuse_io_closed(op->fs, op->ino);
	fop_err(op, 0);
}

void fuse_io_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fop *op = fop_new(req, "release", fop_inode(req, ino));

	(void)fi;
	if (op == NULL)
		return;
	/* A mapping may have written after the last close. */
	if (wback_is_uncommitted(op->ino))
		wback_wait(op->ino, WBACK_COMMITTED, on_release_committed, op);
	else
		on_release_committed(op, 0);
}
