/* SPDX-License-Identifier: MIT */
#include "nfsd/nfs_root.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "nfsd/nfs_enter.h"

#define ROOT_FSID   1u /* no workspace has it */
#define ROOT_FILEID 1u

/* Cookies of "." and ".."; workspaces follow with their creation number. */
#define COOKIE_DOT    1u
#define COOKIE_DOTDOT 2u
#define COOKIE_FIRST  3u

void nfs_root_attr(struct nfs_call *call, fattr3 *ret)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	/* The generation in the nanoseconds: a client sees that the list is another one. */
	uint32_t ns = (uint32_t)(ws_list_generation(sh->registry) % 1000000000u);

	memset(ret, 0, sizeof(*ret));
	ret->type = NF3DIR;
	ret->mode = 0555;
	ret->nlink = 2;
	ret->size = ret->used = 4096;
	ret->fsid = ROOT_FSID;
	ret->fileid = ROOT_FILEID;
	ret->atime = ret->mtime = ret->ctime =
		(nfstime3){ .seconds = sh->started_s, .nseconds = ns };
}

int nfs_root_lookup(struct nfs_call *call, const char *name, struct inode **ret,
		    struct fileops *ret_ops)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	struct workspace *ws = ws_find(sh->registry, name);
	int rc;

	if (ws == NULL)
		return -ENOENT;
	/* An id is a secret from those who may not mount it: no difference between refused and
	 * unknown. */
	rc = nfs_admit(call, ws, ret_ops) == 0 ? inode_root(sh->inodes, ws, ret) : -ENOENT;
	workspace_unref(ws);
	return rc;
}

static bool list_dots(uint64_t cookie, bool (*fn)(void *arg, const struct fileops_dirent *e),
		      void *arg)
{
	static const struct fileops_dirent dots[] = {
		{ .ino = ROOT_FILEID,
		  .cookie = COOKIE_DOT,
		  .name = ".",
		  .name_len = 1,
		  .type = DT_DIR },
		{ .ino = ROOT_FILEID,
		  .cookie = COOKIE_DOTDOT,
		  .name = "..",
		  .name_len = 2,
		  .type = DT_DIR },
	};

	for (size_t i = 0; i < ARRAY_LEN(dots); i++)
		if (cookie < dots[i].cookie && !fn(arg, &dots[i]))
			return false;
	return true;
}

int nfs_root_readdir(struct nfs_call *call, uint64_t cookie,
		     bool (*fn)(void *arg, const struct fileops_dirent *e), void *arg,
		     bool *ret_eof)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	struct workspace **list;
	struct fileops ops;
	size_t n, i;
	int rc;

	*ret_eof = false;
	if (!list_dots(cookie, fn, arg))
		return 0;
	rc = ws_list(sh->registry, &list, &n);
	if (rc < 0)
		return rc;
	for (i = n; i-- > 0;) { /* the list is newest first */
		struct fileops_dirent e = {
			.ino = list[i]->root_ino,
			.cookie = COOKIE_FIRST + list[i]->seq,
			.name = list[i]->id,
			.name_len = WS_ID_LEN,
			.type = DT_DIR,
		};

		if (e.cookie <= cookie || nfs_admit(call, list[i], &ops) < 0)
			continue;
		if (!fn(arg, &e))
			goto out;
	}
	*ret_eof = true;
out:
	ws_list_free(list, n);
	return 0;
}

bool nfs_root_is_visible(struct nfs_call *call)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	struct workspace **list;
	struct fileops ops;
	bool any = false;
	size_t n;

	if (call->peer->is_loopback)
		return call->peer->local_uid_ok;
	if (ws_list(sh->registry, &list, &n) < 0)
		return false;
	for (size_t i = 0; i < n && !any; i++)
		any = nfs_admit(call, list[i], &ops) == 0;
	ws_list_free(list, n);
	return any;
}
