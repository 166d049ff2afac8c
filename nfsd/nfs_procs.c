/* SPDX-License-Identifier: MIT */
/* The table of NFSv3: adding a procedure is a row and a function. */
#include "nfsd/nfs_procs.h"

#include "proto/nfs3_bulk.h"

#define XDR_OF(name)                                                                               \
	(bool_t(*)(XDR *, void *)) xdr_##name##3args, sizeof(name##3args),                         \
		(bool_t(*)(XDR *, void *))xdr_##name##3res, sizeof(name##3res)

/* clang-format off */
const struct nfs_proc nfs3_procs[22] = {
	[NFSPROC3_NULL]        = { "NULL",        nfs3_null,        NULL, NULL, 0, NULL, 0,   P_NULL },
	[NFSPROC3_GETATTR]     = { "GETATTR",     nfs3_getattr,     NULL, XDR_OF(GETATTR),     0 },
	[NFSPROC3_SETATTR]     = { "SETATTR",     nfs3_setattr,     NULL, XDR_OF(SETATTR),     P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_LOOKUP]      = { "LOOKUP",      nfs3_lookup,      NULL, XDR_OF(LOOKUP),      0 },
	[NFSPROC3_ACCESS]      = { "ACCESS",      nfs3_access,      NULL, XDR_OF(ACCESS),      0 },
	[NFSPROC3_READLINK]    = { "READLINK",    nfs3_readlink,    NULL, XDR_OF(READLINK),    0 },
	[NFSPROC3_READ]        = { "READ",        nfs3_read,        NULL, XDR_OF(READ),        0 },
	[NFSPROC3_WRITE]       = { "WRITE",       nfs3_write,       nfs3_bulk_decode_write, NULL, sizeof(struct nfs3_write_args),
				   (bool_t(*)(XDR *, void *))xdr_WRITE3res, sizeof(WRITE3res), P_WRITES | P_REPLAY | P_SYNC },
	[NFSPROC3_CREATE]      = { "CREATE",      nfs3_create,      NULL, XDR_OF(CREATE),      P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_MKDIR]       = { "MKDIR",       nfs3_mkdir,       NULL, XDR_OF(MKDIR),       P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_SYMLINK]     = { "SYMLINK",     nfs3_symlink,     NULL, XDR_OF(SYMLINK),     P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_MKNOD]       = { "MKNOD",       nfs3_mknod,       NULL, XDR_OF(MKNOD),       P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_REMOVE]      = { "REMOVE",      nfs3_remove,      NULL, XDR_OF(REMOVE),      P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_RMDIR]       = { "RMDIR",       nfs3_rmdir,       NULL, XDR_OF(RMDIR),       P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_RENAME]      = { "RENAME",      nfs3_rename,      NULL, XDR_OF(RENAME),      P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_LINK]        = { "LINK",        nfs3_link,        NULL, XDR_OF(LINK),        P_WRITES | P_REPLAY | P_NAMES },
	[NFSPROC3_READDIR]     = { "READDIR",     nfs3_readdir,     NULL, XDR_OF(READDIR),     P_POOL },
	[NFSPROC3_READDIRPLUS] = { "READDIRPLUS", nfs3_readdirplus, NULL, XDR_OF(READDIRPLUS), P_POOL },
	[NFSPROC3_FSSTAT]      = { "FSSTAT",      nfs3_fsstat,      NULL, XDR_OF(FSSTAT),      0 },
	[NFSPROC3_FSINFO]      = { "FSINFO",      nfs3_fsinfo,      NULL, XDR_OF(FSINFO),      0 },
	[NFSPROC3_PATHCONF]    = { "PATHCONF",    nfs3_pathconf,    NULL, XDR_OF(PATHCONF),    0 },
	[NFSPROC3_COMMIT]      = { "COMMIT",      nfs3_commit,      NULL, XDR_OF(COMMIT),      P_WRITES | P_SYNC },
};
/* clang-format on */

int nfs3_null(struct nfs_call *call, void *args, void *res)
{
	(void)call;
	(void)args;
	(void)res;
	return 0;
}
