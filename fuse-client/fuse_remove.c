/* SPDX-License-Identifier: MIT */
/*
 * Names that go away: unlink, rmdir, rename.
 *
 * NFS has no open files: a file without a name is gone, also for who has it open.  So a file of
 * ours that is open is not removed but renamed to a hidden name, and the hidden name is removed
 * with the last close.  Hidden names are in the mount's root folder and not in the file's own, so
 * that `rm -r` of a folder works although a program still has a file of it open; our own
 * directory listings leave them out.
 *
 * Which file a name stands for is not in the kernel's request; it is looked up, but only while any
 * file is open at all.  A rename over an open file gives that file the hidden name as a second one
 * (LINK) first: so the rename stays atomic for everybody.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fuse-client/fuse_fs.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1u << 0)
#endif

bool fuse_remove_is_hidden(const struct fuse_fs *fs, const char *name, size_t len)
{
	size_t n = strlen(fs->hidden_prefix);

	return len > n && memcmp(name, fs->hidden_prefix, n) == 0;
}

static char *new_hidden_name(struct fuse_fs *fs)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "%s%08llx", fs->hidden_prefix,
		       (unsigned long long)++fs->n_hidden);
	return strdup(name);
}

/* A call outside of fop_change(): what is kept of any attributes may be wrong now. */
static void forget_attributes(struct fuse_fs *fs)
{
	fs->inodes.renamed_seq = nfs_client_next_seq(fs->nfs);
}

struct hidden {
	struct fuse_fs *fs;
	struct finode *ino; /* a reference */
};

static void on_hidden_removed(void *arg, const struct nfs_result *r)
{
	struct hidden *h = arg;

	(void)r; /* nothing can be done about it; the name is left for `ls -a` elsewhere */
	forget_attributes(h->fs);
	finode_unref(h->ino);
	free(h);
}

void fuse_remove_hidden(struct fuse_fs *fs, struct finode *ino)
{
	auto_free char *name = take_ptr(ino->hidden);
	const REMOVE3args a = { .object = fop_where(fs->inodes.root, name) };

	struct hidden *h = malloc(sizeof(*h));

	if (h == NULL)
		return; /* the name is left */
	*h = (struct hidden){ .fs = fs, .ino = finode_ref(ino) };
	forget_attributes(fs);
	nfs_send(fs->nfs, NFSPROC3_REMOVE, &a, on_hidden_removed, h);
}

/* The open file behind a LOOKUP's result that has no other name to live by; NULL otherwise. */
static struct finode *open_victim(struct fuse_fs *fs, const struct nfs_result *r)
{
	const LOOKUP3resok *ok;
	const fattr3 *a;
	struct finode *ino;

	if (r->err < 0)
		return NULL;
	ok = &r->res->lookup.LOOKUP3res_u.resok;
	a = fop_post(&ok->obj_attributes);
	ino = finode_find(&fs->inodes, (const uint8_t *)ok->object.data.data_val,
			  ok->object.data.data_len);
	if (ino == NULL || ino->n_open == 0 || ino->hidden != NULL || (a != NULL && a->nlink > 1))
		return NULL;
	return ino;
}

static void on_done(struct fop *op, const struct nfs_result *r)
{
	fop_err(op, r->err);
}

/* ---- unlink ------------------------------------------------------------- */

static void remove_name(struct fop *op)
{
	const REMOVE3args a = { .object = fop_where(op->ino, op->name) };

	fop_change(op, NFSPROC3_REMOVE, &a, on_done, op->ino, NULL);
}

static void on_hidden(struct fop *op, const struct nfs_result *r)
{
	if (r->err == 0) {
		op->ino2->hidden = op->name2;
		op->name2 = NULL;
		/* Closed in the meantime: there will be no other close to remove it. */
		if (op->ino2->n_open == 0)
			fuse_remove_hidden(op->fs, op->ino2);
	}
	fop_err(op, r->err);
}

static void on_unlink_lookup(struct fop *op, const struct nfs_result *r)
{
	struct finode *victim = open_victim(op->fs, r);
	RENAME3args a;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	if (victim == NULL) {
		remove_name(op);
		return;
	}
	op->ino2 = finode_ref(victim);
	op->name2 = new_hidden_name(op->fs);
	if (op->name2 == NULL) {
		fop_err(op, -ENOMEM);
		return;
	}
	a.from = fop_where(op->ino, op->name);
	a.to = fop_where(op->fs->inodes.root, op->name2);
	fop_change(op, NFSPROC3_RENAME, &a, on_hidden, op->ino, op->fs->inodes.root);
}

void fuse_remove_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fop *op = fop_new(req, "unlink", fop_inode(req, parent));
	LOOKUP3args a;

	if (op == NULL || !fop_name(op, &op->name, name))
		return;
	if (op->fs->n_open == 0) {
		remove_name(op);
		return;
	}
	a.what = fop_where(op->ino, name);
	fop_send(op, NFSPROC3_LOOKUP, &a, on_unlink_lookup);
}

void fuse_remove_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fop *op = fop_new(req, "rmdir", fop_inode(req, parent));
	RMDIR3args a;

	if (op == NULL)
		return;
	a.object = fop_where(op->ino, name);
	fop_change(op, NFSPROC3_RMDIR, &a, on_done, op->ino, NULL);
}

/* ---- rename ------------------------------------------------------------- */

static void rename_name(struct fop *op)
{
	const RENAME3args a = { .from = fop_where(op->ino, op->name),
				.to = fop_where(op->ino2, op->name2) };

	fop_change(op, NFSPROC3_RENAME, &a, on_done, op->ino, op->ino2);
}

/* What a rename over an open file needs besides: the file, and its hidden name. */
struct hide {
	struct fop *op;
	struct finode *victim; /* a reference */
	char *name;            /* owned */
};

static void on_hide_linked(void *arg, const struct nfs_result *r)
{
	struct hide *h = arg;

	forget_attributes(h->op->fs);
	/* A server without LINK: then the open file is lost, as it is on any NFS client's side. */
	if (r->err == 0 && h->victim->hidden == NULL) {
		h->victim->hidden = h->name;
		h->name = NULL;
		if (h->victim->n_open == 0)
			fuse_remove_hidden(h->op->fs, h->victim);
	}
	rename_name(h->op);
	finode_unref(h->victim);
	free(h->name);
	free(h);
}

static void hide_then_rename(struct fop *op, struct finode *victim)
{
	struct hide *h = calloc(1, sizeof(*h));
	LINK3args a = { .file = finode_fh(victim) };

	if (h == NULL || (h->name = new_hidden_name(op->fs)) == NULL) {
		free(h);
		fop_err(op, -ENOMEM);
		return;
	}
	h->op = op;
	h->victim = finode_ref(victim);
	a.link = fop_where(op->fs->inodes.root, h->name);
	forget_attributes(op->fs);
	nfs_send(op->fs->nfs, NFSPROC3_LINK, &a, on_hide_linked, h);
}

static void on_rename_lookup(struct fop *op, const struct nfs_result *r)
{
	struct finode *victim = open_victim(op->fs, r);

	if (victim != NULL)
		hide_then_rename(op, victim);
	else
		rename_name(op);
}

/* ---- rename that replaces nothing --------------------------------------- */

static void on_noreplace_link(struct fop *op, const struct nfs_result *r)
{
	if (r->err < 0)
		fop_err(op, r->err);
	else
		remove_name(op); /* which also says that the file's link count is not what it was */
}

/*
 * NFS has no such rename.  For everything but folders a hard link is one: it fails if the name is
 * there, atomically; then the old name goes.  Folders have no hard links, and looking first is not
 * safe, so they are refused: programs then fall back to what they do elsewhere.
 */
static void on_noreplace_lookup(struct fop *op, const struct nfs_result *r)
{
	const LOOKUP3resok *ok;
	const fattr3 *a;
	LINK3args l;

	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	ok = &r->res->lookup.LOOKUP3res_u.resok;
	a = fop_post(&ok->obj_attributes);
	if (a == NULL || a->type == NF3DIR) {
		fop_err(op, -EINVAL);
		return;
	}
	l.file = ok->object;
	l.link = fop_where(op->ino2, op->name2);
	fop_change(op, NFSPROC3_LINK, &l, on_noreplace_link, op->ino2, NULL);
}

void fuse_remove_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t parent2,
			const char *name2, unsigned flags)
{
	struct fop *op = fop_new(req, "rename", fop_inode(req, parent));
	LOOKUP3args a;

	if (op == NULL || !fop_name(op, &op->name, name) || !fop_name(op, &op->name2, name2))
		return;
	op->ino2 = finode_ref(fop_inode(req, parent2));
	if ((flags & ~RENAME_NOREPLACE) != 0) {
		fop_err(op, -EINVAL);
	} else if (flags & RENAME_NOREPLACE) {
		a.what = fop_where(op->ino, name);
		fop_send(op, NFSPROC3_LOOKUP, &a, on_noreplace_lookup);
	} else if (op->fs->n_open > 0) {
		a.what = fop_where(op->ino2, name2);
		fop_send(op, NFSPROC3_LOOKUP, &a, on_rename_lookup);
	} else {
		rename_name(op);
	}
}
