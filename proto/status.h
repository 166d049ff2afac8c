/* SPDX-License-Identifier: MIT */
/*
 * One table: errno <-> nfsstat3 <-> mountstat3 <-> HTTP status and the contract's error code.
 *
 * NFS has errors without an errno of their own.  These stand for them between our functions; no
 * file system returns one for what we ask of it, but for EBADMSG, which some use for a bad
 * checksum: whoever makes the system call turns that into EIO, or the client takes its handle for a
 * bad one.
 *
 *   -EBADMSG      NFS3ERR_BADHANDLE    not a handle of ours
 *   -EBADE        NFS3ERR_NOT_SYNC     SETATTR: the guard does not match
 *   -EBADR        NFS3ERR_BAD_COOKIE   READDIR: the cookie or its verifier is not valid any more
 *   -EMSGSIZE     NFS3ERR_TOOSMALL     not one entry fits into the reply that the client allows
 *   -EBADRQC      NFS3ERR_BADTYPE      MKNOD: a type that cannot be made here
 *   -EINPROGRESS  NFS3ERR_JUKEBOX      wait and ask again; ENOMEM, EMFILE, ENFILE, EAGAIN, EINTR
 * too -EPROTO       NFS3ERR_SERVERFAULT  our own mistake
 *
 * ELOOP is INVAL, EBUSY and ETXTBSY are ACCES; status.c says why.
 */
#ifndef PROTO_STATUS_H
#define PROTO_STATUS_H

#include "proto/mount3.h"
#include "proto/nfs3.h"

struct status_row {
	int err; /* positive errno */
	nfsstat3 nfs;
	mountstat3 mount;
	int http;         /* HTTP status */
	int api_code;     /* number of the contract's error table */
	const char *text; /* fixed start of the message, with one "%s" for the subject */
};

/* Of a negative errno; unknown ones give the row of EIO.  Never NULL.  Any thread. */
const struct status_row *status_of(int err);
nfsstat3 status_nfs(int err);     /* 0 -> NFS3_OK */
mountstat3 status_mount(int err); /* 0 -> MNT3_OK */
int status_errno(nfsstat3 st);    /* for clients: NFS3_OK -> 0, else a negative errno */
const char *
status_nfs_name(nfsstat3 st); /* "NFS3ERR_NOENT"; "NFS3ERR_?" for numbers not in the RFC */

#endif
