/* SPDX-License-Identifier: MIT */
/*
 * Everything here waits, one call after the other: nothing is mounted yet, and a message is wanted
 * when something is wrong.  MNT has connections of its own, since on other servers than ours it has
 * its own port, and is not needed again.
 */
#include "fuse-client/nfs_mount.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fuse-client/fuse_fs.h"

#define DT_SIZE    (128u << 10) /* bytes of a page of a directory */
#define SIZE_LEAST 4096u

struct ask {
	bool is_done;
	int err;
	struct nfs_mount *m;
};

static void fill_cred(struct rpc_cred *c)
{
	gid_t gids[256];
	int n = getgroups((int)ARRAY_LEN(gids), gids);

	*c = (struct rpc_cred){ .flavor = RPC_AUTH_SYS, .uid = geteuid(), .gid = getegid() };
	for (int i = 0; i < n && c->n_gids < RPC_SYS_GIDS; i++)
		c->gids[c->n_gids++] = gids[i];
}

static int client_new(uv_loop_t *loop, const struct fuse_options *o, uint16_t port,
		      unsigned n_conns, struct nfs_client **ret, struct err *err)
{
	struct nfs_client_options co = {
		.rpc = { .host = o->target.host,
			 .port = port,
			 .n_conns = n_conns,
			 .timeout_ms = o->mount_timeout_s * 1000 },
	};
	int rc;

	fill_cred(&co.cred);
	rc = nfs_client_new(loop, &co, ret);
	return rc < 0 ? err_set(err, rc, "no memory for a connection") : 0;
}

static int wait_for(uv_loop_t *loop, struct ask *a)
{
	while (!a->is_done)
		uv_run(loop, UV_RUN_ONCE);
	return a->err;
}

/* ---- MNT ---------------------------------------------------------------- */

static void on_mnt(void *arg, const struct nfs_result *r)
{
	struct ask *a = arg;

	a->is_done = true;
	a->err = r->err;
	if (r->err == 0) {
		const fhandle3 *fh = &r->res->mount.mountres3_u.mountinfo.fhandle;

		memcpy(a->m->fh, fh->fhandle3_val, fh->fhandle3_len);
		a->m->fh_len = fh->fhandle3_len;
	}
}

static int explain_mnt(const struct fuse_options *o, int rc, const char *rpc_error, struct err *err)
{
	const struct fuse_target *t = &o->target;

	switch (rc) {
	case -ENOENT:
		return err_set(err, rc, "%s has no '%s'", t->host, t->path);
	case -EACCES:
	case -EPERM:
		return err_set(err, rc, "%s does not let this user or machine mount '%s'", t->host,
			       t->path);
	case -ENOTDIR:
		return err_set(err, rc, "'%s' on %s is not a directory", t->path, t->host);
	case -ETIMEDOUT:
		return err_set(err, rc, "%s:%u did not answer in time%s%s", t->host, t->port,
			       *rpc_error ? ": " : "", rpc_error);
	default:
		return err_set(err, rc, "%s", *rpc_error ? rpc_error : strerror(-rc));
	}
}

static int ask_mnt(uv_loop_t *loop, const struct fuse_options *o, struct nfs_mount *m,
		   struct err *err)
{
	struct ask a = { .m = m };
	struct nfs_client *c;
	int rc = client_new(loop, o, o->mount_port ? o->mount_port : o->target.port, 1, &c, err);

	if (rc < 0)
		return rc;
	nfs_send_mnt(c, o->target.path, on_mnt, &a);
	rc = wait_for(loop, &a);
	if (rc < 0)
		rc = explain_mnt(o, rc, rpc_client_last_error(nfs_client_rpc(c)), err);
	nfs_client_close(c);
	return rc;
}

/* ---- FSINFO and GETATTR ------------------------------------------------- */

static uint32_t choose_size(uint32_t max, uint32_t ours)
{
	return max == 0 ? ours : MAX(MIN(max, ours), SIZE_LEAST);
}

static void on_fsinfo(void *arg, const struct nfs_result *r)
{
	struct ask *a = arg;

	a->is_done = true;
	a->err = r->err;
	if (r->err == 0) {
		const FSINFO3resok *ok = &r->res->fsinfo.FSINFO3res_u.resok;

		a->m->rsize = choose_size(ok->rtmax, FUSE_IO_MAX);
		a->m->wsize = choose_size(ok->wtmax, FUSE_IO_MAX);
	}
}

static void on_root(void *arg, const struct nfs_result *r)
{
	struct ask *a = arg;

	a->is_done = true;
	a->err = r->err;
	if (r->err == 0)
		a->m->root = r->res->getattr.GETATTR3res_u.resok.obj_attributes;
}

static int ask_root(uv_loop_t *loop, struct nfs_mount *m)
{
	FSINFO3args f = { .fsroot.data = { .data_len = m->fh_len, .data_val = (char *)m->fh } };
	GETATTR3args g = { .object = f.fsroot };
	struct ask a = { .m = m };
	int rc;

	m->dtsize = DT_SIZE;
	nfs_send(m->nfs, NFSPROC3_FSINFO, &f, on_fsinfo, &a);
	rc = wait_for(loop, &a);
	if (rc < 0)
		return rc;
	a.is_done = false;
	nfs_send(m->nfs, NFSPROC3_GETATTR, &g, on_root, &a);
	return wait_for(loop, &a);
}

int nfs_mount_ask(uv_loop_t *loop, const struct fuse_options *o, struct nfs_mount *ret,
		  struct err *err)
{
	struct nfs_mount m = { 0 };
	int rc = ask_mnt(loop, o, &m, err);

	if (rc < 0)
		return rc;
	rc = client_new(loop, o, o->target.port, o->n_conns, &m.nfs, err);
	if (rc < 0)
		return rc;
	rc = ask_root(loop, &m);
	if (rc == 0 && m.root.type != NF3DIR)
		rc = -ENOTDIR;
	if (rc < 0) {
		rc = explain_mnt(o, rc, rpc_client_last_error(nfs_client_rpc(m.nfs)), err);
		nfs_client_close(m.nfs);
		return rc;
	}
	rpc_client_be_patient(nfs_client_rpc(m.nfs), o->soft ? o->timeout_s * 1000 : 0);
	*ret = m;
	return 0;
}
