/* SPDX-License-Identifier: MIT */
/* One table: errno <-> nfsstat3 <-> mountstat3 <-> HTTP status and the contract's error code. */
#ifndef PROTO_STATUS_H
#define PROTO_STATUS_H

#include "proto/mount3.h"
#include "proto/nfs3.h"

struct status_row {
	int err; /* positive errno */
	nfsstat3 nfs;
	mountstat3 mount;
	int http;	  /* HTTP status */
	int api_code;	  /* number of the contract's error table */
	const char *text; /* fixed start of the message, with "%s" for the subject */
};

/* Of a negative errno; unknown ones give the row of EIO.  Never NULL.  Any thread. */
const struct status_row *status_of(int err);
nfsstat3 status_nfs(int err);	  /* 0 -> NFS3_OK */
mountstat3 status_mount(int err); /* 0 -> MNT3_OK */
int status_errno(nfsstat3 st);	  /* for clients: NFS3_OK -> 0, else a negative errno */
const char *status_nfs_name(nfsstat3 st); /* "NFS3ERR_NOENT"; "NFS3ERR_?" for numbers not in the RFC */

#endif
