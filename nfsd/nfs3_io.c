/* SPDX-License-Identifier: MIT */
/* READ, WRITE, COMMIT (RFC 1813 sections 3.3.6, 3.3.7, 3.3.21). */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "nfsd/fattr.h"
#include "nfsd/nfs_enter.h"
#include "nfsd/nfs_procs.h"
#include "proto/nfs3_bulk.h"

/* What is no regular file is INVAL to READ and WRITE, a directory too (sections 3.3.6, 3.3.7). */
static int io_errno(ssize_t n)
{
	if (n >= 0)
		return 0;
	return n == -EISDIR ? -EINVAL : (int)n;
}

int nfs3_read(struct nfs_call *call, void *args, void *res)
{
	READ3args *a = args;
	READ3res *r = res;
	READ3resok *ok = &r->READ3res_u.resok;
	size_t count = MIN(a->count, NFSD_IO_MAX);
	struct nfs_target t;
	struct statx stx;
	uint8_t *data;
	ssize_t n = -ENOMEM;
	int rc = nfs_enter(call, &a->file, false, &t);

	if (rc == 0) {
		data = nfs_call_payload(call, count);
		if (data != NULL)
			n = fileops_read(&t.ops, t.ino, a->offset, data, count, &stx);
		rc = io_errno(n);
	}
	if (rc == 0) {
		ok->file_attributes.attributes_follow = TRUE;
		fattr_from_statx(t.ino->ws, &stx, &ok->file_attributes.post_op_attr_u.attributes);
		ok->count = ok->data_len = (uint32_t)n;
		ok->eof = a->offset >= stx.stx_size || (uint64_t)n >= stx.stx_size - a->offset;
		call->payload_len = (size_t)n;
	} else {
		nfs_post_op(&t, t.ino, &r->READ3res_u.resfail.file_attributes);
	}
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

/*
 * A flush that failed has lost data which clients hold as "written, not committed": the kernel
 * marks the pages clean and tells the error only once.  With a new verifier every client sends all
 * of it again (section 4.8), to be stored or to be refused where it can still be told.
 *
 * So WRITE takes it before it writes, and COMMIT after it has flushed: whatever failed in between
 * is then seen.
 */
static void put_verf(struct nfs_call *call, writeverf3 dst)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	uint64_t verf = sh->write_verf + inode_cache_lost_flushes(sh->inodes);

	memcpy(dst, &verf, sizeof(verf));
}

/*
 * A file that was removed beside us can still be written and flushed through a descriptor of ours,
 * which would look like success.  The attributes behind the call tell: a removed file has none.
 */
static int stale_if_removed(int rc, const wcc_data *wcc)
{
	return rc == 0 && !wcc->after.attributes_follow ? -ESTALE : rc;
}

int nfs3_write(struct nfs_call *call, void *args, void *res)
{
	struct nfs3_write_args *a = args;
	nfs_fh3 fh = { .data = { .data_len = a->fh_len, .data_val = (char *)a->fh } };
	WRITE3res *r = res;
	WRITE3resok *ok = &r->WRITE3res_u.resok;
	enum fileops_stable stable = a->stable == UNSTABLE ? FILEOPS_UNSTABLE : FILEOPS_SYNC;
	/* more than wtmax is written in part, which the protocol allows, not refused */
	size_t count = MIN(MIN(a->count, a->data_len), NFSD_IO_MAX);
	struct nfs_target t;
	ssize_t n;
	int rc = nfs_enter(call, &fh, false, &t);

	if (rc == 0) {
		put_verf(call, ok->verf);
		n = fileops_write(&t.ops, t.ino, a->offset, a->data, count, stable);
		rc = io_errno(n);
		ok->count = n < 0 ? 0 : (uint32_t)n;
		ok->committed = stable == FILEOPS_SYNC ? FILE_SYNC : UNSTABLE;
	}
	/* first in both forms of the result */
	nfs_wcc(&t, t.ino, &ok->file_wcc);
	rc = stale_if_removed(rc, &ok->file_wcc);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}

int nfs3_commit(struct nfs_call *call, void *args, void *res)
{
	COMMIT3args *a = args;
	COMMIT3res *r = res;
	COMMIT3resok *ok = &r->COMMIT3res_u.resok;
	struct nfs_target t;
	int rc = nfs_enter(call, &a->file, false, &t);

	/* The whole file, whatever the range: a client that commits a part commits the rest soon.
	 */
	if (rc == 0) {
		rc = S_ISREG(t.ino->type) ? fileops_commit(&t.ops, t.ino) : -EINVAL;
		put_verf(call, ok->verf);
	}
	nfs_wcc(&t, t.ino, &ok->file_wcc); /* first in both forms of the result */
	rc = stale_if_removed(rc, &ok->file_wcc);
	nfs_leave(call, &t);
	return nfs_answer(call, rc, &r->status);
}
