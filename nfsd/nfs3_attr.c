/* SPDX-License-Identifier: MIT */
/* GETATTR, SETATTR, ACCESS (RFC 1813 sections 3.3.1, 3.3.2, 3.3.4). */
#include <errno.h>
#include <unistd.h>

#include "nfsd/export.h"
#include "nfsd/fattr.h"
#include "nfsd/nfs_enter.h"
#include "nfsd/nfs_procs.h"
#include "nfsd/nfs_root.h"

int nfs3_getattr(struct nfs_call *call, void *args, void *res)
{
	GETATTR3args *a = args;
	GETATTR3res *r = res;
	fattr3 *attr = &r->GETATTR3res_u.resok.obj_attributes;
	struct nfs_target t;
	struct statx stx;
	int rc = nfs_enter(call, &a->object, true, &t);

	if (rc == 0 && t.is_root_list) {
		nfs_root_attr(call, attr);
	} else if (rc == 0) {
		rc = fileops_stat(&t.ops, t.ino, &stx);
		if (rc == 0)
			fattr_from_statx(t.ino->ws, &stx, attr);
	}
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_setattr(struct nfs_call *call, void *args, void *res)
{
	SETATTR3args *a = args;
	SETATTR3res *r = res;
	struct fileops_attr attr;
	struct timespec guard;
	struct nfs_target t;
	int rc = nfs_enter(call, &a->object, false, &t);

	if (rc == 0)
		rc = fattr_to_fileops(&a->new_attributes, &attr);
	if (rc == 0) {
		guard.tv_sec = a->guard.sattrguard3_u.obj_ctime.seconds;
		guard.tv_nsec = a->guard.sattrguard3_u.obj_ctime.nseconds;
		rc = fileops_setattr(&t.ops, t.ino, &attr, a->guard.check ? &guard : NULL);
	}
	if (rc == 0)
		rc = nfs_settle(call, t.ino);
	/* success and failure have the same form here */
	nfs_wcc(&t, t.ino, &r->SETATTR3res_u.resok.obj_wcc);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

/* What the mode bits give, in ACCESS's words. */
static uint32_t access_words(unsigned rights, bool is_dir)
{
	uint32_t ok = 0;

	if ((rights & R_OK) != 0)
		ok |= ACCESS3_READ;
	if ((rights & W_OK) != 0)
		ok |= ACCESS3_MODIFY | ACCESS3_EXTEND | (is_dir ? ACCESS3_DELETE : 0);
	if ((rights & X_OK) != 0)
		ok |= is_dir ? ACCESS3_LOOKUP : ACCESS3_EXECUTE;
	return ok;
}

/* On a read-only export nothing may be changed, whatever the mode says. */
static bool is_read_only(struct nfs_call *call, const struct workspace *ws)
{
	struct export_verdict v;

	export_check(nfsd_shared(call->nfsd)->registry, ws, call->peer, &v);
	return v.read_only;
}

int nfs3_access(struct nfs_call *call, void *args, void *res)
{
	ACCESS3args *a = args;
	ACCESS3res *r = res;
	ACCESS3resok *ok = &r->ACCESS3res_u.resok;
	struct nfs_target t;
	struct statx stx;
	unsigned rights = 0;
	int rc = nfs_enter(call, &a->object, true, &t);

	ok->obj_attributes.attributes_follow = FALSE;
	if (rc == 0 && t.is_root_list) {
		ok->obj_attributes.attributes_follow = TRUE;
		nfs_root_attr(call, &ok->obj_attributes.post_op_attr_u.attributes);
		ok->access = a->access & access_words(R_OK | X_OK, true);
	} else if (rc == 0) {
		rc = fileops_stat(&t.ops, t.ino, &stx);
		if (rc == 0) {
			ok->obj_attributes.attributes_follow = TRUE;
			fattr_from_statx(t.ino->ws, &stx,
					 &ok->obj_attributes.post_op_attr_u.attributes);
			rights = fileops_rights(&t.ops, &stx);
			if ((a->access & (ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE)) != 0 &&
			    is_read_only(call, t.ino->ws))
				rights &= ~(unsigned)W_OK;
			ok->access = a->access & access_words(rights, S_ISDIR(t.ino->type));
		}
	}
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}
