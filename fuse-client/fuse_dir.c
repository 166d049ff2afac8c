/* SPDX-License-Identifier: MIT */
/*
 * Listing folders.  The kernel's position in a folder is the server's cookie, so it stays good
 * while entries come and go, and a program may seek to any place it has been.
 *
 * Pages are asked for with attributes (READDIRPLUS) also when the kernel wants none: the type in
 * every entry spares programs like find(1) a stat of each.  A server that cannot is asked for plain
 * ones.
 *
 * A page of the server's is larger than what the kernel asks for at a time: what is left of it is
 * kept with the open folder and serves the next request, if that goes on where this one ended.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuse-client/fuse_fs.h"

#define NAME_MAX_FUSE 1024 /* bytes: longer names the kernel would not take */

struct open_dir {
	unsigned n_refs; /* the kernel's, and those of requests, which may outlive it when
			    interrupted */
	uint8_t *page;   /* owned: entries as they came */
	size_t len, pos;
	uint64_t next;  /* the cookie that the entry at pos follows */
	uint64_t given; /* the last cookie that the kernel has; hidden entries may lie between */
	bool is_valid, is_plus, is_eof;
	cookieverf3 verf;
};

static void dir_unref(struct open_dir *d)
{
	if (--d->n_refs > 0)
		return;
	free(d->page);
	free(d);
}

void fuse_dir_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct open_dir *d = calloc(1, sizeof(*d));

	(void)ino;
	if (d == NULL) {
		(void)fuse_reply_err(req, ENOMEM);
		return;
	}
	d->n_refs = 1;
	fi->fh = (uint64_t)(uintptr_t)d;
	if (fuse_reply_open(req, fi) != 0)
		free(d);
}

void fuse_dir_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	dir_unref((struct open_dir *)(uintptr_t)fi->fh);
	(void)fuse_reply_err(req, 0);
}

void fuse_dir_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
	(void)ino;
	(void)data_only;
	(void)fi;
	/* Changes of names are on the server's disk before it answers them (RFC 1813, 4.8). */
	(void)fuse_reply_err(req, 0);
}

/* ---- from a page to the kernel's buffer --------------------------------- */

static struct open_dir *dir_of(struct fop *op)
{
	return (struct open_dir *)(uintptr_t)op->fi.fh;
}

struct dir_name {
	char text[NAME_MAX_FUSE + 1];
	size_t len;
};

static bool is_dot(const struct dir_name *n)
{
	return strcmp(n->text, ".") == 0 || strcmp(n->text, "..") == 0;
}

static void on_free(struct fop *op)
{
	dir_unref(dir_of(op));
}

/* False for names that the kernel must not see. */
static bool take_name(struct fop *op, const struct nfs3_dirent *e, struct dir_name *n)
{
	if (e->name_len == 0 || e->name_len > NAME_MAX_FUSE ||
	    memchr(e->name, '/', e->name_len) != NULL || memchr(e->name, '\0', e->name_len) != NULL)
		return false;
	if (op->ino == op->fs->inodes.root && fuse_remove_is_hidden(op->fs, e->name, e->name_len))
		return false;
	memcpy(n->text, e->name, e->name_len);
	n->text[e->name_len] = '\0';
	n->len = e->name_len;
	return true;
}

/* Both add one entry and return its size, which is more than @room when it did not fit. */
static size_t add_plain(struct fop *op, char *dst, size_t room, const struct nfs3_dirent *e,
			const struct dir_name *n)
{
	const struct stat st = { .st_ino = e->fileid,
				 .st_mode = e->has_attrs ? fuse_attr_type(e->attrs.type) : 0 };

	return fuse_add_direntry(op->req, dst, room, n->text, &st, (off_t)e->cookie);
}

static size_t add_plus(struct fop *op, char *dst, size_t room, const struct nfs3_dirent *e,
		       const struct dir_name *n, uint64_t sent_seq)
{
	struct fuse_entry_param p = { .attr = { .st_ino = e->fileid } };
	struct finode *ino = NULL;
	nfs_fh3 fh;
	size_t size;

	if (e->has_attrs)
		p.attr.st_mode = fuse_attr_type(e->attrs.type);
	/* "." and ".." are never looked up, and an entry without a number is not counted. */
	if (e->has_attrs && e->has_fh && !is_dot(n)) {
		fh.data.data_len = e->fh_len;
		fh.data.data_val = (char *)(uintptr_t)e->fh;
		ino = fop_param(op->fs, &fh, &e->attrs, sent_seq, &p);
	}
	size = fuse_add_direntry_plus(op->req, dst, room, n->text, &p, (off_t)e->cookie);
	if (ino != NULL && size <= room)
		ino->n_lookups++;
	finode_unref(ino);
	return size;
}

/* As many entries as fit.  Bytes, or -EBADMSG for a page that cannot be read. */
static ssize_t fill(struct fop *op, char *dst, size_t room, uint64_t sent_seq)
{
	struct open_dir *d = dir_of(op);
	size_t used = 0;

	for (;;) {
		struct dir_name name;
		struct nfs3_dirent e;
		size_t pos = d->pos, size = 0;
		bool eof = false;
		int rc = nfs3_dirlist_next(d->page, d->len, &pos, d->is_plus, &e, &eof);

		if (rc < 0)
			return rc;
		if (rc == 0) {
			d->is_eof = eof;
			d->is_valid = eof; /* else this page has nothing more to give */
			return (ssize_t)used;
		}
		if (take_name(op, &e, &name))
			size = op->wants_plus
				       ? add_plus(op, dst + used, room - used, &e, &name, sent_seq)
				       : add_plain(op, dst + used, room - used, &e, &name);
		if (size > room - used)
			return (ssize_t)used;
		used += size;
		if (size > 0)
			d->given = e.cookie;
		d->pos = pos;
		d->next = e.cookie;
	}
}

/* ---- pages -------------------------------------------------------------- */

static void fetch(struct fop *op);

static void serve(struct fop *op, uint64_t sent_seq)
{
	struct open_dir *d = dir_of(op);
	char *dst;
	ssize_t n;

	if (op->req == NULL) {
		fop_free(op);
		return;
	}
	dst = malloc(op->size);
	n = dst != NULL ? fill(op, dst, op->size, sent_seq) : -ENOMEM;
	if (n == 0 && !d->is_valid && d->next != op->off) {
		/* All of this page was hidden. */
		free(dst);
		op->off = d->next;
		fetch(op);
		return;
	}
	if (n == 0 && !d->is_valid)
		n = -EIO; /* neither an entry nor the end: asking again would never end */
	if (n < 0) {
		d->is_valid = false;
		free(dst);
		fop_err(op, (int)n);
		return;
	}
	(void)fuse_reply_buf(op->req, dst, (size_t)n);
	free(dst);
	fop_free(op);
}

static void on_page(struct fop *op, const struct nfs_result *r)
{
	struct open_dir *d = dir_of(op);
	uint8_t *page;

	if (r->err == -EOPNOTSUPP && !op->fs->no_readdirplus) {
		op->fs->no_readdirplus = true;
		fetch(op);
		return;
	}
	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	page = malloc(MAX(r->bulk_len, (size_t)1));
	if (page == NULL) {
		fop_err(op, -ENOMEM);
		return;
	}
	memcpy(page, r->bulk, r->bulk_len);
	free(d->page);
	d->page = page;
	d->len = r->bulk_len;
	d->pos = 0;
	d->next = d->given = op->off;
	d->is_valid = true;
	d->is_plus = !op->fs->no_readdirplus;
	d->is_eof = false;
	memcpy(d->verf, r->res->readdir.READDIR3res_u.resok.cookieverf, sizeof(d->verf));
	serve(op, r->sent_seq);
}

static void fetch(struct fop *op)
{
	struct open_dir *d = dir_of(op);
	READDIRPLUS3args plus = { .dir = finode_fh(op->ino), .cookie = op->off };
	READDIR3args plain = { .dir = finode_fh(op->ino), .cookie = op->off };

	if (op->off != 0) {
		memcpy(plus.cookieverf, d->verf, sizeof(d->verf));
		memcpy(plain.cookieverf, d->verf, sizeof(d->verf));
	}
	plus.dircount = plus.maxcount = plain.count = op->fs->dtsize;
	if (!op->fs->no_readdirplus)
		fop_send(op, NFSPROC3_READDIRPLUS, &plus, on_page);
	else
		fop_send(op, NFSPROC3_READDIR, &plain, on_page);
}

static void dir_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		     struct fuse_file_info *fi, bool is_plus)
{
	struct fop *op = fop_new(req, is_plus ? "readdirplus" : "readdir", fop_inode(req, ino));
	struct open_dir *d;

	if (op == NULL)
		return;
	op->fi = *fi;
	op->size = size;
	op->off = (uint64_t)off;
	op->wants_plus = is_plus;
	op->on_free = on_free;
	d = dir_of(op);
	d->n_refs++;
	/* Off 0 is a new listing, also after rewinddir(3). */
	if (off != 0 && d->is_valid && d->given == op->off)
		/* The page is as old as its call; pending writes are the newer truth. */
		serve(op, 0);
	else
		fetch(op);
}

void fuse_dir_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		   struct fuse_file_info *fi)
{
	dir_read(req, ino, size, off, fi, false);
}

void fuse_dir_read_plus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			struct fuse_file_info *fi)
{
	dir_read(req, ino, size, off, fi, true);
}
