/* SPDX-License-Identifier: MIT */
/* FSSTAT, FSINFO, PATHCONF (RFC 1813 sections 3.3.18-3.3.20). */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "nfsd/fattr.h"
#include "nfsd/nfs_enter.h"
#include "nfsd/nfs_procs.h"
#include "nfsd/nfs_root.h"

/* bytes: READDIR reply that clients should ask for; a directory of a few hundred files in one */
#define DTPREF  (64u << 10)
#define IO_MULT 4096u /* bytes: page and block size of the file systems below */
/* Links to one file: ext4's limit, the least of the file systems below. */
#define LINK_MAX_TOLD 65000u

static void attr_of(struct nfs_call *call, const struct nfs_target *t, post_op_attr *ret)
{
	if (!t->is_root_list) {
		nfs_post_op(t, t->ino, ret);
		return;
	}
	ret->attributes_follow = TRUE;
	nfs_root_attr(call, &ret->post_op_attr_u.attributes);
}

int nfs3_fsstat(struct nfs_call *call, void *args, void *res)
{
	FSSTAT3args *a = args;
	FSSTAT3res *r = res;
	FSSTAT3resok *ok = &r->FSSTAT3res_u.resok;
	struct statvfs sv = { 0 };
	struct nfs_target t;
	int rc = nfs_enter(call, &a->fsroot, true, &t);

	if (rc == 0 && !t.is_root_list)
		rc = fileops_statfs(&t.ops, t.ino, &sv);
	attr_of(call, &t, &ok->obj_attributes); /* first in both forms */
	if (rc == 0) {
		ok->tbytes = (uint64_t)sv.f_blocks * sv.f_frsize;
		ok->fbytes = (uint64_t)sv.f_bfree * sv.f_frsize;
		ok->abytes = (uint64_t)sv.f_bavail * sv.f_frsize;
		ok->tfiles = sv.f_files;
		ok->ffiles = sv.f_ffree;
		ok->afiles = sv.f_favail;
		ok->invarsec = 0;
	}
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_fsinfo(struct nfs_call *call, void *args, void *res)
{
	FSINFO3args *a = args;
	FSINFO3res *r = res;
	FSINFO3resok *ok = &r->FSINFO3res_u.resok;
	struct nfs_target t;
	int rc = nfs_enter(call, &a->fsroot, true, &t);

	attr_of(call, &t, &ok->obj_attributes);
	if (rc == 0) {
		ok->rtmax = ok->rtpref = ok->wtmax = ok->wtpref = NFSD_IO_MAX;
		ok->rtmult = ok->wtmult = IO_MULT;
		ok->dtpref = DTPREF;
		ok->maxfilesize = INT64_MAX;
		ok->time_delta = (nfstime3){ .seconds = 0, .nseconds = 1 };
		ok->properties = FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME;
	}
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_pathconf(struct nfs_call *call, void *args, void *res)
{
	PATHCONF3args *a = args;
	PATHCONF3res *r = res;
	PATHCONF3resok *ok = &r->PATHCONF3res_u.resok;
	struct nfs_target t;
	int rc = nfs_enter(call, &a->object, true, &t);

	attr_of(call, &t, &ok->obj_attributes);
	if (rc == 0) {
		ok->linkmax = LINK_MAX_TOLD;
		ok->name_max = NAME_MAX;
		ok->no_trunc = TRUE;
		ok->chown_restricted = TRUE;
		ok->case_insensitive = FALSE;
		ok->case_preserving = TRUE;
	}
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}
