/* SPDX-License-Identifier: MIT */
/*
 * What a failure is called at each door.  Inside, a failure is a negative errno; where NFS has an
 * error that Linux has none for, an errno that file systems do not use stands for it (see
 * status.h).
 *
 * The table is indexed by errno: the compiler refuses a second row for one number, and a negative
 * LOOKUP, which clients send by the thousand, costs one load.
 */
#include "proto/status.h"

#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"

#define T_DENIED    "Permission denied: %s"
#define T_INTERNAL  "Internal error: %s"
#define T_BAD_PATH  "Invalid path: %s"
#define T_BAD_PARAM "Invalid parameter: %s"
#define T_NO_SPACE  "No space left: %s"
#define T_NOT_FOUND "File not found: %s"
#define T_NOT_HERE  "Not implemented: %s"

/* MOUNT has few errors; what cannot come of a MNT call is SERVERFAULT there. */
#define ROW(e, nfs_, mnt_, http_, code_, text_)                                                    \
	[e] = { .err = (e),                                                                        \
		.nfs = NFS3ERR_##nfs_,                                                             \
		.mount = MNT3ERR_##mnt_,                                                           \
		.http = (http_),                                                                   \
		.api_code = (code_),                                                               \
		.text = (text_) }

/* clang-format off */
static const struct status_row rows[] = {
	ROW(EPERM,        PERM,        PERM,        403, 3003, T_DENIED),
	ROW(ENOENT,       NOENT,       NOENT,       404, 3001, T_NOT_FOUND),
	ROW(EIO,          IO,          IO,          500, 1003, T_INTERNAL),
	ROW(ENXIO,        NXIO,        IO,          400, 3004, T_BAD_PATH),
	ROW(EACCES,       ACCES,       ACCES,       403, 3003, T_DENIED),
	ROW(EEXIST,       EXIST,       SERVERFAULT, 409, 3002, "File already exists: %s"),
	/* The path door's word for "tried to leave the workspace"; NFS has it for LINK and RENAME. */
	ROW(EXDEV,        XDEV,        ACCES,       403, 7003, "Path not allowed: %s"),
	ROW(ENODEV,       NODEV,       IO,          400, 3004, T_BAD_PATH),
	ROW(ENOTDIR,      NOTDIR,      NOTDIR,      400, 3005, "Not a directory: %s"),
	ROW(EISDIR,       ISDIR,       SERVERFAULT, 400, 3005, "Is a directory: %s"),
	ROW(EINVAL,       INVAL,       INVAL,       400, 3004, T_BAD_PATH),
	ROW(EFBIG,        FBIG,        SERVERFAULT, 413, 1006, "Payload too large: %s"),
	ROW(ENOSPC,       NOSPC,       IO,          507, 3007, T_NO_SPACE),
	ROW(EROFS,        ROFS,        ACCES,       403, 3003, T_DENIED),
	ROW(EMLINK,       MLINK,       SERVERFAULT, 507, 3007, T_NO_SPACE),
	ROW(ENAMETOOLONG, NAMETOOLONG, NAMETOOLONG, 400, 3004, T_BAD_PATH),
	ROW(ENOTEMPTY,    NOTEMPTY,    SERVERFAULT, 400, 3006, "Directory not empty: %s"),
	ROW(EDQUOT,       DQUOT,       IO,          507, 3007, T_NO_SPACE),
	ROW(ESTALE,       STALE,       NOENT,       404, 3001, T_NOT_FOUND),
	ROW(EREMOTE,      REMOTE,      IO,          500, 1003, T_INTERNAL),
	ROW(EOPNOTSUPP,   NOTSUPP,     NOTSUPP,     501, 1004, T_NOT_HERE),
	ROW(ENOSYS,       NOTSUPP,     NOTSUPP,     501, 1004, T_NOT_HERE),

	/* A link where a file or directory must be.  ACCES would send the user to look at permissions;
	 * RFC 1813 has INVAL for an object of a type that the operation does not work on. */
	ROW(ELOOP,        INVAL,       INVAL,       400, 3004, T_BAD_PATH),
	ROW(ERANGE,       INVAL,       INVAL,       400, 1002, T_BAD_PARAM),
	ROW(EILSEQ,       INVAL,       INVAL,       400, 3004, T_BAD_PATH), /* a name the disk refuses */

	/* Busy for as long as somebody else likes: a mount point, a program that runs.  JUKEBOX would make
	 * a hard-mounted client try again for ever, without the user being told. */
	ROW(EBUSY,        ACCES,       ACCES,       403, 3003, T_DENIED),
	ROW(ETXTBSY,      ACCES,       ACCES,       403, 3003, T_DENIED),

	/* Short of something for a moment: an NFS client waits and tries again. */
	ROW(ENOMEM,       JUKEBOX,     SERVERFAULT, 500, 1003, T_INTERNAL),
	ROW(EMFILE,       JUKEBOX,     SERVERFAULT, 500, 1003, T_INTERNAL),
	ROW(ENFILE,       JUKEBOX,     SERVERFAULT, 500, 1003, T_INTERNAL),
	ROW(EAGAIN,       JUKEBOX,     SERVERFAULT, 429, 1008, "Too many requests: %s"),
	ROW(EINTR,        JUKEBOX,     SERVERFAULT, 500, 1003, T_INTERNAL),

	/* Chosen by us: see status.h. */
	ROW(EINPROGRESS,  JUKEBOX,     SERVERFAULT, 429, 1008, "Too many requests: %s"),
	ROW(EBADMSG,      BADHANDLE,   SERVERFAULT, 500, 1003, T_INTERNAL),
	ROW(EBADE,        NOT_SYNC,    SERVERFAULT, 412, 3008, "File changed: %s"),
	ROW(EBADR,        BAD_COOKIE,  SERVERFAULT, 400, 1002, T_BAD_PARAM),
	ROW(EMSGSIZE,     TOOSMALL,    SERVERFAULT, 413, 1006, "Payload too large: %s"),
	ROW(EPROTO,       SERVERFAULT, SERVERFAULT, 500, 1003, T_INTERNAL),
	ROW(EBADRQC,      BADTYPE,     NOTSUPP,     400, 1002, T_BAD_PARAM),
};

/* The way back, for clients: several errnos may share a status, and one of them is its own. */
static const struct {
	nfsstat3 nfs;
	int err;
	const char *name;
} statuses[] = {
#define STATUS(nfs_, err_) { NFS3ERR_##nfs_, (err_), "NFS3ERR_" #nfs_ }
	{ NFS3_OK, 0, "NFS3_OK" },
	STATUS(PERM, EPERM),
	STATUS(NOENT, ENOENT),
	STATUS(IO, EIO),
	STATUS(NXIO, ENXIO),
	STATUS(ACCES, EACCES),
	STATUS(EXIST, EEXIST),
	STATUS(XDEV, EXDEV),
	STATUS(NODEV, ENODEV),
	STATUS(NOTDIR, ENOTDIR),
	STATUS(ISDIR, EISDIR),
	STATUS(INVAL, EINVAL),
	STATUS(FBIG, EFBIG),
	STATUS(NOSPC, ENOSPC),
	STATUS(ROFS, EROFS),
	STATUS(MLINK, EMLINK),
	STATUS(NAMETOOLONG, ENAMETOOLONG),
	STATUS(NOTEMPTY, ENOTEMPTY),
	STATUS(DQUOT, EDQUOT),
	STATUS(STALE, ESTALE),
	STATUS(REMOTE, EREMOTE),
	STATUS(BADHANDLE, EBADMSG),
	STATUS(NOT_SYNC, EBADE),
	STATUS(BAD_COOKIE, EBADR),
	STATUS(NOTSUPP, EOPNOTSUPP),
	STATUS(TOOSMALL, EMSGSIZE),
	STATUS(SERVERFAULT, EPROTO),
	STATUS(BADTYPE, EBADRQC),
	STATUS(JUKEBOX, EINPROGRESS),
};
/* clang-format on */

const struct status_row *status_of(int err)
{
	size_t i = err < 0 ? (size_t)(-(long)err) : 0;

	/* Gaps of the table have err 0, and so has its start. */
	if (i >= ARRAY_LEN(rows) || rows[i].err == 0)
		i = EIO;
	return &rows[i];
}

nfsstat3 status_nfs(int err)
{
	return err == 0 ? NFS3_OK : status_of(err)->nfs;
}

mountstat3 status_mount(int err)
{
	return err == 0 ? MNT3_OK : status_of(err)->mount;
}

int status_errno(nfsstat3 st)
{
	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		if (statuses[i].nfs == st)
			return -statuses[i].err;
	}
	return -EIO;
}

const char *status_nfs_name(nfsstat3 st)
{
	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		if (statuses[i].nfs == st)
			return statuses[i].name;
	}
	return "NFS3ERR_?";
}
