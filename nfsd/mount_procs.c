/* SPDX-License-Identifier: MIT */
/*
 * MOUNT version 3 (RFC 1813 appendix I): from "/ID" or "/ID/sub" to a file handle.  The handle
 * alone is no permission: the export rules are asked again on every NFS call.
 *
 * What DUMP and EXPORT tell is only what concerns the client that asks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/peer.h"
#include "nfsd/export.h"
#include "nfsd/fh.h"
#include "nfsd/mount_table.h"
#include "nfsd/nfs_enter.h"
#include "nfsd/nfs_root.h"
#include "proto/mount3.h"
#include "proto/status.h"
#include "workspace/path.h"

/* Lists are built in the call's payload memory, which bounds them too. */
#define LIST_ROOM (256u << 10)

/* Bytes of a path in the log, the slash included: an id may be all it takes to mount a workspace.
 */
#define PATH_SHOWN 9

static int mount3_null(struct nfs_call *call, void *args, void *res)
{
	(void)call;
	(void)args;
	(void)res;
	return 0;
}

/* ---- MNT ---------------------------------------------------------------- */

/* "/ID/sub/dir" in parts; slashes may be doubled.  False: the path has no first component ("/"). */
static bool split_path(const char *path, char id[WS_ID_LEN + 1], const char **ret_sub)
{
	size_t n;

	while (*path == '/')
		path++;
	if (*path == '\0')
		return false;
	n = strcspn(path, "/");
	(void)snprintf(id, WS_ID_LEN + 1, "%.*s", (int)MIN(n, WS_ID_LEN + 1), path);
	if (n > WS_ID_LEN)
		id[0] = '\0'; /* longer than any id */
	path += n;
	while (*path == '/')
		path++;
	*ret_sub = path;
	return true;
}

/* Name by name, each looked up with the caller's own rights.  Takes @dir, the root. */
static int walk_as_other(const struct fileops *ops, struct inode *dir, const char *sub,
			 struct inode **ret)
{
	char name[NAME_MAX + 1];
	struct inode *next;
	int rc = 0;

	while (rc == 0 && *(sub += strspn(sub, "/")) != '\0') {
		size_t n = strcspn(sub, "/");

		if (n > NAME_MAX) {
			rc = -ENAMETOOLONG;
			break;
		}
		memcpy(name, sub, n);
		name[n] = '\0';
		sub += n;
		rc = fileops_lookup(ops, dir, name, &next);
		if (rc < 0)
			break;
		inode_unref(ops->inodes, dir);
		dir = next;
	}
	if (rc == 0 && !S_ISDIR(dir->type))
		rc = -ENOTDIR;
	if (rc == 0)
		*ret = dir;
	else
		inode_unref(ops->inodes, dir);
	return rc;
}

/* The owner's path is resolved by the kernel, links below the root included. */
static int mount_sub(struct nfs_call *call, struct workspace *ws, const struct fileops *ops,
		     const char *sub, struct inode **ret)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	struct inode *root;
	int fd, rc;

	if (*sub == '\0')
		return inode_root(sh->inodes, ws, ret);
	if (!ops->acts_as_owner) {
		rc = inode_root(sh->inodes, ws, &root);
		return rc < 0 ? rc : walk_as_other(ops, root, sub, ret);
	}
	fd = path_open(ws->root_fd, sub, O_PATH | O_DIRECTORY, 0, 0);
	if (fd < 0)
		return fd == -EXDEV || fd == -ELOOP ? -EACCES : fd;
	rc = inode_root(sh->inodes, ws, &root);
	if (rc < 0) {
		(void)close(fd);
		return rc;
	}
	rc = inode_adopt(sh->inodes, root, NULL, fd, ret);
	inode_unref(sh->inodes, root);
	return rc;
}

static int mount_path(struct nfs_call *call, const char *path, fhandle3 *ret)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	char id[WS_ID_LEN + 1];
	struct workspace *ws;
	struct fileops ops;
	struct inode *ino;
	const char *sub;
	nfs_fh3 fh;
	int rc;

	ret->fhandle3_val = (char *)call->fh_room[0];
	if (!split_path(path, id, &sub)) {
		ret->fhandle3_len = (u_int)fh_encode_root(sh->fh, call->fh_room[0]);
		return nfs_root_is_visible(call) ? 0 : -EACCES;
	}
	ws = ws_find(sh->registry, id);
	if (ws == NULL)
		return -ENOENT;
	rc = nfs_admit(call, ws, &ops);
	if (rc == 0)
		rc = mount_sub(call, ws, &ops, sub, &ino);
	workspace_unref(ws);
	if (rc < 0)
		return rc;
	nfs_put_fh(call, ino, 0, &fh);
	ret->fhandle3_len = fh.data.data_len;
	inode_unref(sh->inodes, ino);
	return 0;
}

/* refusal_text() - what an operator would look for */
static void refusal_text(char *dst, size_t dst_len, const struct nfs_peer *peer, int rc)
{
	if (rc == -ENOENT)
		(void)snprintf(dst, dst_len, "no such workspace or directory");
	else if (rc != -EACCES)
		(void)snprintf(dst, dst_len, "%s", strerror(-rc));
	else if (!peer->is_loopback)
		(void)snprintf(dst, dst_len, "the address is in no rule, or access is denied");
	else if (peer->local_uid_ok)
		(void)snprintf(dst, dst_len, "loopback is in no rule, or access is denied");
	else if (peer->has_local_uid)
		(void)snprintf(dst, dst_len, "uid %u is not in WORKSPACE_LOCAL_UIDS",
			       (unsigned)peer->local_uid);
	else
		(void)snprintf(dst, dst_len, "nothing tells which local user this is");
}

/* One line a second at most: whoever is refused may try as often as they like. */
static void log_refusal(const struct nfs_peer *peer, const char *path, int rc)
{
	static uint64_t next_ns, n_left_out; /* of all loops and pools; atomic */
	uint64_t now = clock_mono_ns(), next = __atomic_load_n(&next_ns, __ATOMIC_RELAXED);
	char from[PEER_TEXT], why[96], shown[4 * PATH_SHOWN + 1];

	if (now < next || !__atomic_compare_exchange_n(&next_ns, &next, now + NSEC_PER_SEC, false,
						       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		(void)__atomic_add_fetch(&n_left_out, 1, __ATOMIC_RELAXED);
		return;
	}
	refusal_text(why, sizeof(why), peer, rc);
	log_info(LOG_NFS, "mount refused peer=%s path=%s why=\"%s\" left_out=%llu",
		 peer_format(from, sizeof(from), &peer->addr, peer->port),
		 log_escape(shown, sizeof(shown), path, strnlen(path, PATH_SHOWN)), why,
		 (unsigned long long)__atomic_exchange_n(&n_left_out, 0, __ATOMIC_RELAXED));
}

static int mount3_mnt(struct nfs_call *call, void *args, void *res)
{
	static int flavors[] = { RPC_AUTH_SYS, RPC_AUTH_NONE };
	dirpath *a = args;
	mountres3 *r = res;
	mountres3_ok *ok = &r->mountres3_u.mountinfo;
	char path[MNTPATHLEN + 1] = "";
	int rc = 0;

	if (a->dirpath_len > MNTPATHLEN)
		rc = -ENAMETOOLONG;
	else if (a->dirpath_len == 0 || memchr(a->dirpath_val, '\0', a->dirpath_len) != NULL)
		rc = -EINVAL;
	if (rc == 0) {
		memcpy(path, a->dirpath_val, a->dirpath_len);
		path[a->dirpath_len] = '\0';
		rc = path[0] == '/' ? mount_path(call, path, &ok->fhandle) : -ENOENT;
	}
	if (rc == 0) {
		ok->auth_flavors.auth_flavors_len = ARRAY_LEN(flavors);
		ok->auth_flavors.auth_flavors_val = flavors;
		mount_table_add(nfsd_shared(call->nfsd)->mounts, &call->peer->addr, path,
				a->dirpath_len);
	} else
		log_refusal(call->peer, path, rc);
	r->fhs_status = status_mount(rc);
	return 0;
}

static int mount3_umnt(struct nfs_call *call, void *args, void *res)
{
	dirpath *a = args;

	(void)res;
	mount_table_remove(nfsd_shared(call->nfsd)->mounts, &call->peer->addr, a->dirpath_val,
			   a->dirpath_len);
	return 0;
}

static int mount3_umntall(struct nfs_call *call, void *args, void *res)
{
	(void)args;
	(void)res;
	mount_table_remove_all(nfsd_shared(call->nfsd)->mounts, &call->peer->addr);
	return 0;
}

/* ---- DUMP and EXPORT: linked lists in the payload memory ---------------- */

struct list_room {
	uint8_t *at, *end;
};

static int room_open(struct nfs_call *call, struct list_room *room)
{
	room->at = nfs_call_payload(call, LIST_ROOM);
	if (room->at == NULL)
		return -ENOMEM;
	room->end = room->at + LIST_ROOM;
	return 0;
}

static void *room_take(struct list_room *room, size_t n)
{
	uint8_t *p = room->at;

	n = (n + 15) & ~(size_t)15;
	if (n > (size_t)(room->end - room->at))
		return NULL;
	room->at += n;
	return memset(p, 0, n);
}

struct dump_walk {
	struct list_room room;
	mountlist *tail;
	char host[INET6_ADDRSTRLEN];
};

static bool dump_one(void *arg, const char *path, size_t len)
{
	struct dump_walk *w = arg;
	mountbody *b = room_take(&w->room, sizeof(*b));
	char *copy = room_take(&w->room, len);

	if (b == NULL || copy == NULL)
		return false;
	memcpy(copy, path, len);
	b->ml_hostname.mountname_val = w->host;
	b->ml_hostname.mountname_len = (u_int)strlen(w->host);
	b->ml_directory.dirpath_val = copy;
	b->ml_directory.dirpath_len = (u_int)len;
	*w->tail = b;
	w->tail = &b->ml_next;
	return true;
}

/* "10.1.2.3" for a mapped IPv4 address. */
static const char *host_text(const struct in6_addr *addr, char dst[INET6_ADDRSTRLEN])
{
	if (IN6_IS_ADDR_V4MAPPED(addr))
		return inet_ntop(AF_INET, addr->s6_addr + 12, dst, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, addr, dst, INET6_ADDRSTRLEN);
}

static int mount3_dump(struct nfs_call *call, void *args, void *res)
{
	struct dump_walk w = { .tail = res };
	char *host;

	(void)args;
	*(mountlist *)res = NULL;
	if (room_open(call, &w.room) < 0)
		return 0;
	/* the list's strings must outlive this function */
	host = room_take(&w.room, sizeof(w.host));
	(void)host_text(&call->peer->addr, w.host);
	memcpy(host, w.host, sizeof(w.host));
	mount_table_each(nfsd_shared(call->nfsd)->mounts, &call->peer->addr, dump_one, &w);
	for (mountbody *b = *(mountlist *)res; b != NULL; b = b->ml_next)
		b->ml_hostname.mountname_val = host;
	return 0;
}

static groups export_groups(struct nfs_call *call, const struct workspace *ws,
			    struct list_room *room)
{
	const struct export_rules *rules = ws_exports(nfsd_shared(call->nfsd)->registry, ws);
	char text[EXPORT_NET_TEXT];
	groups first = NULL, *tail = &first;

	for (unsigned i = 0; i < rules->n_nets; i++) {
		groupnode *g = room_take(room, sizeof(*g));
		size_t n = strlen(export_net_format(text, sizeof(text), &rules->nets[i]));
		char *copy = room_take(room, n);

		if (g == NULL || copy == NULL)
			break;
		memcpy(copy, text, n);
		g->gr_name.mountname_val = copy;
		g->gr_name.mountname_len = (u_int)n;
		*tail = g;
		tail = &g->gr_next;
	}
	return first;
}

static int mount3_export(struct nfs_call *call, void *args, void *res)
{
	const struct nfsd_shared *sh = nfsd_shared(call->nfsd);
	exports *tail = res;
	struct workspace **list;
	struct list_room room;
	struct fileops ops;
	size_t n;

	(void)args;
	*tail = NULL;
	if (room_open(call, &room) < 0 || ws_list(sh->registry, &list, &n) < 0)
		return 0;
	for (size_t i = n; i-- > 0;) {
		exportnode *e;
		char *path;

		if (nfs_admit(call, list[i], &ops) < 0)
			continue;
		e = room_take(&room, sizeof(*e));
		path = room_take(&room, WS_ID_LEN + 1);
		if (e == NULL || path == NULL)
			break;
		path[0] = '/';
		memcpy(path + 1, list[i]->id, WS_ID_LEN);
		e->ex_dir.dirpath_val = path;
		e->ex_dir.dirpath_len = WS_ID_LEN + 1;
		e->ex_groups = export_groups(call, list[i], &room);
		*tail = e;
		tail = &e->ex_next;
	}
	ws_list_free(list, n);
	return 0;
}

#define XDR_FN(fn) (bool_t(*)(XDR *, void *)) fn

/* clang-format off */
const struct nfs_proc mount3_procs[6] = {
	[MOUNTPROC3_NULL]    = { "MNT_NULL",    mount3_null,    NULL, NULL, 0, NULL, 0, P_NULL },
	[MOUNTPROC3_MNT]     = { "MNT",         mount3_mnt,     NULL, XDR_FN(xdr_dirpath), sizeof(dirpath),
				 XDR_FN(xdr_mountres3), sizeof(mountres3), P_POOL },
	[MOUNTPROC3_DUMP]    = { "DUMP",        mount3_dump,    NULL, NULL, 0, XDR_FN(xdr_mountlist), sizeof(mountlist), 0 },
	[MOUNTPROC3_UMNT]    = { "UMNT",        mount3_umnt,    NULL, XDR_FN(xdr_dirpath), sizeof(dirpath), NULL, 0, 0 },
	[MOUNTPROC3_UMNTALL] = { "UMNTALL",     mount3_umntall, NULL, NULL, 0, NULL, 0, 0 },
	[MOUNTPROC3_EXPORT]  = { "EXPORT",      mount3_export,  NULL, NULL, 0, XDR_FN(xdr_exports), sizeof(exports), P_POOL },
};
/* clang-format on */
