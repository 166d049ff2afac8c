/* SPDX-License-Identifier: MIT */
/* READDIR and READDIRPLUS (RFC 1813 sections 3.3.16, 3.3.17).  Cookies are the file system's own;
 * the cookie verifier is not needed for them and is always 0. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "nfsd/fattr.h"
#include "nfsd/fh.h"
#include "nfsd/nfs_enter.h"
#include "nfsd/nfs_procs.h"
#include "nfsd/nfs_root.h"
#include "proto/nfs3_bulk.h"

/* bytes: a longer reply keeps a pool thread busy for milliseconds and saves nothing */
#define DIR_REPLY_MAX (256u << 10)
/* bytes before the list that count against the client's limit: attributes, verifier */
#define DIR_HEAD_LEN (4 + 84 + 8)

struct dir_walk {
	struct nfs_call *call;
	struct nfs_target *t;
	struct nfs3_dirlist list;
	bool is_plus, may_stat;
	size_t dircount, dirbytes; /* READDIRPLUS: the client's limit on names and numbers alone */
	bool is_full;
};

/* What READDIRPLUS adds to an entry, or nothing when it changed under our hands. */
struct plus {
	bool has_attr;
	fattr3 attr;
	uint8_t fh[NFS3_FHSIZE];
	size_t fh_len;
};

static void plus_of_inode(struct dir_walk *w, const struct workspace *ws,
			  const struct inode_key *key, const struct statx *stx, struct plus *p)
{
	fattr_from_statx(ws, stx, &p->attr);
	p->has_attr = true;
	p->fh_len = fh_encode(nfsd_shared(w->call->nfsd)->fh, ws, key, p->fh);
}

static void look_at(struct dir_walk *w, const struct fileops_dirent *e, struct plus *p)
{
	struct inode *dir = w->t->ino;
	struct inode_key key;
	struct statx stx;

	if (e->name[0] == '.' && e->name_len <= 2 && (e->name_len == 1 || e->name[1] == '.'))
		return; /* "." and "..": clients know the first and look the second up */
	/* The handle first: when the name is replaced in between, the number is not the listed one.
	 */
	if (inode_key_at(w->t->ops.inodes, dir, e->name, &key) < 0)
		return;
	if (statx(dir->path_fd, e->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, FILEOPS_STATX,
		  &stx) < 0)
		return;
	if (stx.stx_ino == e->ino)
		plus_of_inode(w, dir->ws, &key, &stx, p);
}

static void look_at_workspace(struct dir_walk *w, const struct fileops_dirent *e, struct plus *p)
{
	struct fileops ops;
	struct inode *ino;
	struct statx stx;

	if (e->name_len != WS_ID_LEN || nfs_root_lookup(w->call, e->name, &ino, &ops) < 0)
		return;
	if (fileops_stat(&ops, ino, &stx) == 0)
		plus_of_inode(w, ino->ws, &ino->key, &stx, p);
	inode_unref(ops.inodes, ino);
}

static bool add_plus(struct dir_walk *w, const struct fileops_dirent *e)
{
	size_t plain = nfs3_dirent_size(e->name_len);
	struct plus p = { 0 };

	if (w->list.n_entries > 0 && w->dirbytes + plain > w->dircount)
		return false;
	if (w->t->is_root_list)
		look_at_workspace(w, e, &p);
	else if (w->may_stat)
		look_at(w, e, &p);
	if (!nfs3_dirlist_add_plus(&w->list, e->ino, e->name, e->name_len, e->cookie,
				   p.has_attr ? &p.attr : NULL, p.fh_len > 0 ? p.fh : NULL,
				   p.fh_len))
		return false;
	w->dirbytes += plain;
	return true;
}

static bool add_entry(void *arg, const struct fileops_dirent *e)
{
	struct dir_walk *w = arg;
	bool ok;

	ok = w->is_plus ? add_plus(w, e)
			: nfs3_dirlist_add(&w->list, e->ino, e->name, e->name_len, e->cookie);
	w->is_full = !ok;
	return ok;
}

/* Fills the call's payload.  @limit: bytes that the whole result may take. */
static int list_entries(struct dir_walk *w, uint64_t cookie, uint32_t limit)
{
	size_t size = MIN(limit, DIR_REPLY_MAX);
	bool eof;
	uint8_t *dst;
	int rc;

	if (size < DIR_HEAD_LEN + NFS3_DIRLIST_TAIL)
		return -EMSGSIZE;
	size -= DIR_HEAD_LEN;
	dst = nfs_call_payload(w->call, size);
	if (dst == NULL)
		return -ENOMEM;
	nfs3_dirlist_init(&w->list, dst, size);
	if (w->t->is_root_list)
		rc = nfs_root_readdir(w->call, cookie, add_entry, w, &eof);
	else
		rc = fileops_readdir(&w->t->ops, w->t->ino, cookie, add_entry, w, &eof);
	if (rc < 0)
		return rc;
	if (w->is_full && w->list.n_entries == 0)
		return -EMSGSIZE; /* TOOSMALL: an empty page that is not the end would loop for ever
				   */
	w->call->payload_len = nfs3_dirlist_finish(&w->list, eof);
	return 0;
}

/* Attributes of the directory, and whether the caller may see what its entries are. */
static int dir_attr(struct dir_walk *w, post_op_attr *ret)
{
	struct statx stx;
	int rc;

	ret->attributes_follow = TRUE;
	if (w->t->is_root_list) {
		nfs_root_attr(w->call, &ret->post_op_attr_u.attributes);
		return 0;
	}
	rc = fileops_stat(&w->t->ops, w->t->ino, &stx);
	if (rc < 0) {
		ret->attributes_follow = FALSE;
		return rc;
	}
	fattr_from_statx(w->t->ino->ws, &stx, &ret->post_op_attr_u.attributes);
	w->may_stat = (fileops_rights(&w->t->ops, &stx) & X_OK) != 0;
	return 0;
}

int nfs3_readdir(struct nfs_call *call, void *args, void *res)
{
	READDIR3args *a = args;
	READDIR3res *r = res;
	struct nfs_target t;
	struct dir_walk w = { .call = call, .t = &t };
	/* both forms of the result begin with the directory's attributes */
	post_op_attr *attr = &r->READDIR3res_u.resok.dir_attributes;
	int rc = nfs_enter(call, &a->dir, true, &t);

	attr->attributes_follow = FALSE;
	if (rc == 0)
		rc = dir_attr(&w, attr);
	if (rc == 0)
		rc = list_entries(&w, a->cookie, a->count);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_readdirplus(struct nfs_call *call, void *args, void *res)
{
	READDIRPLUS3args *a = args;
	READDIRPLUS3res *r = res;
	struct nfs_target t;
	struct dir_walk w = { .call = call, .t = &t, .is_plus = true, .dircount = a->dircount };
	post_op_attr *attr = &r->READDIRPLUS3res_u.resok.dir_attributes;
	int rc = nfs_enter(call, &a->dir, true, &t);

	attr->attributes_follow = FALSE;
	if (rc == 0)
		rc = dir_attr(&w, attr);
	if (rc == 0)
		rc = list_entries(&w, a->cookie, a->maxcount);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}
