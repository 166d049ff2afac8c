/* SPDX-License-Identifier: MIT */
/*
 * ONC RPC version 2 call and reply headers (RFC 5531 section 9).  Pure functions over bytes: no
 * sockets, no allocation, no logging.  Nothing is copied: pointers lead into the record that was
 * parsed.
 */
#ifndef PROTO_RPC_HEADER_H
#define PROTO_RPC_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_CRED_MAX 400 /* bytes: RFC 5531 section 8.2 */
#define RPC_SYS_GIDS 16  /* RFC 5531 appendix A */
#define RPC_SYS_NAME 255

#define RPC_PROG_NFS   100003u
#define RPC_PROG_MOUNT 100005u

enum rpc_flavor { RPC_AUTH_NONE = 0, RPC_AUTH_SYS = 1 };

struct rpc_cred {
	uint32_t flavor;
	/* AUTH_SYS only */
	uint32_t uid, gid;
	uint32_t n_gids;
	uint32_t gids[RPC_SYS_GIDS];
};

struct rpc_call_header {
	uint32_t xid;
	uint32_t prog, vers, proc;
	struct rpc_cred cred;
	const uint8_t *args; /* borrowed: into the record */
	size_t args_len;
};

enum rpc_parse {
	RPC_CALL_OK,
	RPC_IGNORE,      /* not a call, or too short to answer: drop the connection or the record */
	RPC_REJECT_VERS, /* RPC version is not 2: MSG_DENIED, RPC_MISMATCH 2..2 */
	RPC_REJECT_CRED, /* credential not decodable: MSG_DENIED, AUTH_ERROR AUTH_BADCRED */
	RPC_REJECT_VERF, /* AUTH_BADVERF */
	RPC_REJECT_FLAVOR, /* a flavor we do not speak: AUTH_ERROR, AUTH_TOOWEAK; xid is set */
};

/* rpc_parse_call() - @ret->xid is set for everything but RPC_IGNORE */
enum rpc_parse rpc_parse_call(const uint8_t *p, size_t n, struct rpc_call_header *ret);

enum rpc_accept {
	RPC_ACCEPT_OK = 0, /* SUCCESS; <rpc/clnt_stat.h> has taken the name */
	RPC_PROG_UNAVAIL = 1,
	RPC_PROG_MISMATCH = 2,
	RPC_PROC_UNAVAIL = 3,
	RPC_GARBAGE_ARGS = 4,
	RPC_SYSTEM_ERR = 5,
};

#define RPC_REPLY_HEADER_LEN                                                                       \
	24               /* xid, REPLY, MSG_ACCEPTED, verf AUTH_NONE of length 0, accept_stat */
#define RPC_REPLY_MAX 32 /* the longest reply that rpc_reply_*() writes */

/* Each writes a whole reply without record mark to @dst (>= RPC_REPLY_MAX bytes).  Return: bytes.
 * rpc_reply_accepted(RPC_ACCEPT_OK) is followed by the result; RPC_PROG_MISMATCH carries @low and
 * @high. */
size_t rpc_reply_accepted(uint8_t *dst, uint32_t xid, enum rpc_accept stat, uint32_t low,
			  uint32_t high);
size_t rpc_reply_rejected(uint8_t *dst, uint32_t xid, enum rpc_parse why);

/* ---- the client's side (fuse-client, tests) ----------------------------- */
/* Bytes written, or 0 when @dst_len is too small. */
size_t rpc_write_call(uint8_t *dst, size_t dst_len, const struct rpc_call_header *h,
		      const char *machine);

#endif
