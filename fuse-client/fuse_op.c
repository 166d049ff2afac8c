/* SPDX-License-Identifier: MIT */
/*
 * The life of one operation: from the kernel's request over one or more calls to the one answer.
 *
 * Interrupts.  The kernel asks us to hurry when a signal comes to the waiting process.  Most such
 * signals are timers and children, whose programs would be surprised by an EINTR from open(2); so
 * while the server answers, an interrupted operation is given INTERRUPT_GRACE_NS to end by itself.
 * When the server cannot be reached it is answered at once, which is what makes Ctrl-C and kill
 * work on a hard mount.  The call goes on without it; what comes of it is thrown away.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "fuse-client/fuse_fs.h"

#define INTERRUPT_GRACE_NS (2 * NSEC_PER_SEC)

struct fuse_fs *fop_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

struct finode *fop_inode(fuse_req_t req, fuse_ino_t ino)
{
	return finode_of(&fop_fs(req)->inodes, ino);
}

diropargs3 fop_where(struct finode *dir, const char *name)
{
	diropargs3 where = { .dir = finode_fh(dir) };

	where.name.filename3_len = (u_int)strlen(name);
	where.name.filename3_val = (char *)(uintptr_t)name;
	return where;
}

/* ---- interrupts --------------------------------------------------------- */

static void answer_interrupt(struct fop *op)
{
	if (op->req == NULL)
		return;
	if (op->on_interrupt != NULL)
		op->on_interrupt(op);
	else
		(void)fuse_reply_err(op->req, EINTR);
	op->req = NULL;
}

static void on_interrupt(fuse_req_t req, void *arg)
{
	struct fop *op = arg;

	(void)req;
	op->interrupted_ns = clock_mono_ns();
	if (!rpc_client_is_up(nfs_client_rpc(op->fs->nfs)))
		answer_interrupt(op);
}

void fop_cancel_interrupted(struct fuse_fs *fs)
{
	uint64_t now_ns = clock_mono_ns();
	bool is_up = rpc_client_is_up(nfs_client_rpc(fs->nfs));
	struct list *l, *tmp;

	list_for_each_safe (l, tmp, &fs->ops) {
		struct fop *op = list_entry(l, struct fop, link);

		if (op->interrupted_ns != 0 &&
		    (!is_up || now_ns - op->interrupted_ns > INTERRUPT_GRACE_NS))
			answer_interrupt(op);
	}
}

/* ---- begin and end ------------------------------------------------------ */

struct fop *fop_new(fuse_req_t req, const char *what, struct finode *ino)
{
	struct fuse_fs *fs = fop_fs(req);
	struct fop *op = calloc(1, sizeof(*op));

	fs->n_requests++;
	if (op == NULL) {
		(void)fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	op->fs = fs;
	op->req = req;
	op->what = what;
	op->start_ns = clock_mono_ns();
	op->ino = ino != NULL ? finode_ref(ino) : NULL;
	list_add_tail(&fs->ops, &op->link);
	fs->n_ops++;
	fuse_req_interrupt_func(req, on_interrupt, op);
	return op;
}

bool fop_name(struct fop *op, char **slot, const char *name)
{
	*slot = strdup(name);
	if (*slot == NULL)
		fop_err(op, -ENOMEM);
	return *slot != NULL;
}

void fop_free(struct fop *op)
{
	if (log_is_on(LOG_DEBUG, LOG_RPC))
		log_debug(LOG_RPC, "fuse %s ino=%llu -> %s us=%llu", op->what,
			  op->ino != NULL ? (unsigned long long)finode_id(op->ino) : 0,
			  op->err != 0 ? strerror(-op->err) : "ok",
			  (unsigned long long)(clock_mono_ns() - op->start_ns) / 1000);
	if (op->on_free != NULL)
		op->on_free(op);
	list_del(&op->link);
	op->fs->n_ops--;
	finode_unref(op->ino);
	finode_unref(op->ino2);
	free(op->name);
	free(op->name2);
	free(op->buf);
	free(op);
}

void fop_err(struct fop *op, int err)
{
	op->err = err;
	if (op->req != NULL)
		(void)fuse_reply_err(op->req, fuse_attr_errno(err));
	fop_free(op);
}

/* The attributes of what was changed first, as they were after it. */
static const fattr3 *after_change(uint32_t proc, const struct nfs_result *r)
{
	if (r->err < 0)
		return NULL;
	switch (proc) {
	case NFSPROC3_SETATTR:
		return fop_post(&r->res->setattr.SETATTR3res_u.resok.obj_wcc.after);
	case NFSPROC3_CREATE:
	case NFSPROC3_MKDIR:
	case NFSPROC3_SYMLINK:
	case NFSPROC3_MKNOD:
		return fop_post(&r->res->create.CREATE3res_u.resok.dir_wcc.after);
	case NFSPROC3_REMOVE:
	case NFSPROC3_RMDIR:
		return fop_post(&r->res->remove.REMOVE3res_u.resok.dir_wcc.after);
	case NFSPROC3_LINK:
		return fop_post(&r->res->link.LINK3res_u.resok.file_attributes);
	default:
		return NULL;
	}
}

static void note_names(struct fuse_fs *fs, uint32_t proc)
{
	if (proc == NFSPROC3_REMOVE)
		fs->inodes.removed_seq = nfs_client_next_seq(fs->nfs);
	else if (proc == NFSPROC3_RENAME)
		fs->inodes.renamed_seq = nfs_client_next_seq(fs->nfs);
}

static void end_change(struct fop *op, const struct nfs_result *r)
{
	for (size_t i = 0; i < 2; i++) {
		struct finode *f = take_ptr(op->changing[i]);

		if (f == NULL)
			continue;
		finode_change_end(f, op->token[i],
				  i == 0 ? after_change(op->change_proc, r) : NULL);
		finode_unref(f);
	}
	note_names(op->fs, op->change_proc);
}

static void on_result(void *arg, const struct nfs_result *r)
{
	struct fop *op = arg;

	if (op->changing[0] != NULL)
		end_change(op, r);
	op->next(op, r);
}

void fop_send(struct fop *op, uint32_t proc, const void *args, fop_next next)
{
	op->next = next;
	nfs_send(op->fs->nfs, proc, args, on_result, op);
}

void fop_change(struct fop *op, uint32_t proc, const void *args, fop_next next, struct finode *a,
		struct finode *b)
{
	struct finode *who[2] = { a, b == a ? NULL : b };

	note_names(op->fs, proc);
	for (size_t i = 0; i < 2; i++) {
		if (who[i] == NULL)
			continue;
		op->changing[i] = finode_ref(who[i]);
		op->token[i] = finode_change_begin(who[i]);
	}
	op->change_proc = proc;
	fop_send(op, proc, args, next);
}

/* ---- answers with attributes -------------------------------------------- */

static void to_stat(struct fuse_fs *fs, const struct finode *ino, const fattr3 *a,
		    uint64_t sent_seq, struct stat *st)
{
	fuse_attr_to_stat(a, &fs->map, st);
	if (a->type == NF3REG)
		st->st_size = (off_t)wback_size(ino, a->size, sent_seq);
	/* The name that keeps an unlinked file alive is nobody's business. */
	if (ino->hidden != NULL && st->st_nlink > 0)
		st->st_nlink--;
}

void fop_attr(struct fop *op, struct finode *ino, const fattr3 *a, uint64_t sent_seq)
{
	double timeout = op->fs->opt->attr_timeout - (double)op->age_ns / NSEC_PER_SEC;
	struct stat st;

	if (op->age_ns == 0)
		finode_saw(ino, a, sent_seq);
	to_stat(op->fs, ino, a, sent_seq, &st);
	if (op->req != NULL)
		(void)fuse_reply_attr(op->req, &st, wback_is_pending(ino) ? 0 : MAX(timeout, 0.0));
	fop_free(op);
}

struct finode *fop_param(struct fuse_fs *fs, const nfs_fh3 *fh, const fattr3 *a, uint64_t sent_seq,
			 struct fuse_entry_param *ret)
{
	struct finode *ino = finode_get(&fs->inodes, (const uint8_t *)fh->data.data_val,
					fh->data.data_len, a->type);

	if (ino == NULL)
		return NULL;
	finode_saw(ino, a, sent_seq);
	/* No page of it can be cached while the kernel does not know it. */
	if (ino->n_lookups == 0)
		fuse_version_of(a, &ino->version);
	*ret = (struct fuse_entry_param){
		.ino = finode_id(ino),
		.entry_timeout = fs->opt->entry_timeout,
		/* A size is right while writes are pending, but times are not: ask again. */
		.attr_timeout = wback_is_pending(ino) ? 0 : fs->opt->attr_timeout,
	};
	to_stat(fs, ino, a, sent_seq, &ret->attr);
	return ino;
}

void fop_entry(struct fop *op, const nfs_fh3 *fh, const fattr3 *a, uint64_t sent_seq)
{
	struct fuse_entry_param e;
	struct finode *ino = fop_param(op->fs, fh, a, sent_seq, &e);

	if (ino == NULL) {
		fop_err(op, -ENOMEM);
		return;
	}
	/* The kernel counts the entries that it took; one that it did not want any more is none. */
	if (op->req != NULL && fuse_reply_entry(op->req, &e) == 0)
		ino->n_lookups++;
	finode_unref(ino);
	fop_free(op);
}

void fop_keep_fh(struct fop *op, const nfs_fh3 *fh)
{
	memcpy(op->fh, fh->data.data_val, fh->data.data_len);
	op->fh_len = fh->data.data_len;
}

nfs_fh3 fop_kept_fh(struct fop *op)
{
	return (nfs_fh3){ .data = { .data_len = op->fh_len, .data_val = (char *)op->fh } };
}

/* ---- LOOKUP ------------------------------------------------------------- */

static void lookup_without_attrs(struct fop *op, const nfs_fh3 *fh);

static void on_lookup(struct fop *op, const struct nfs_result *r)
{
	const LOOKUP3resok *ok;
	const fattr3 *a;

	if (r->err == -ENOENT && op->req != NULL && op->fs->opt->negative_timeout > 0) {
		/* An entry without an inode: the kernel remembers that there is none. */
		const struct fuse_entry_param none = { .entry_timeout =
							       op->fs->opt->negative_timeout };

		op->err = r->err;
		(void)fuse_reply_entry(op->req, &none);
		fop_free(op);
		return;
	}
	if (r->err < 0) {
		fop_err(op, r->err);
		return;
	}
	ok = &r->res->lookup.LOOKUP3res_u.resok;
	a = fop_post(&ok->obj_attributes);
	if (a != NULL)
		fop_entry(op, &ok->object, a, r->sent_seq);
	else
		lookup_without_attrs(op, &ok->object);
}

static void on_lookup_getattr(struct fop *op, const struct nfs_result *r)
{
	const nfs_fh3 fh = fop_kept_fh(op);

	if (r->err < 0)
		fop_err(op, r->err);
	else
		fop_entry(op, &fh, &r->res->getattr.GETATTR3res_u.resok.obj_attributes,
			  r->sent_seq);
}

/* Attributes are optional in NFS, where we need them: some servers leave them out. */
static void lookup_without_attrs(struct fop *op, const nfs_fh3 *fh)
{
	const GETATTR3args a = { .object = *fh };

	fop_keep_fh(op, fh);
	fop_send(op, NFSPROC3_GETATTR, &a, on_lookup_getattr);
}

void fop_lookup(struct fop *op, struct finode *dir, const char *name)
{
	const LOOKUP3args a = { .what = fop_where(dir, name) };

	fop_send(op, NFSPROC3_LOOKUP, &a, on_lookup);
}
