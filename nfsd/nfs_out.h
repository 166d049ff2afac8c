/* SPDX-License-Identifier: MIT */
/*
 * What goes out: see nfs_out.c.  A loop has one `nfs_turn`, for the replies of the connection that
 * it is working on; a connection has an `nfs_unsent`, empty (and without memory) unless its socket
 * is full.
 */
#ifndef NFSD_NFS_OUT_H
#define NFSD_NFS_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "nfsd/nfs_job.h"
#include "nfsd/nfs_payload.h"

/* A run of bytes to send, and how its memory is given back. */
struct nfs_seg {
	uint8_t *p; /* what is still to be sent */
	size_t len;
	uint8_t *mem; /* owned; NULL: in the turn's buffer */
	size_t cap;   /* of a payload; 0: memory of malloc(3) */
};

#define NFS_TURN_BYTES (64u << 10)
#define NFS_TURN_SEGS  64u

struct nfs_turn {
	struct nfs_payloads *payloads; /* borrowed */
	uint8_t *buf;                  /* owned; NFS_TURN_BYTES */
	size_t used;
	struct nfs_seg segs[NFS_TURN_SEGS];
	unsigned n_segs;
	size_t bytes;
};

struct nfs_unsent {
	struct nfs_seg *segs; /* owned; NULL while nothing is unsent */
	size_t first, n, cap;
	size_t memory; /* bytes that the segments keep allocated, which may be more than is to be
			  sent */
};

int nfs_turn_init(struct nfs_turn *t, struct nfs_payloads *payloads); /* 0 or -ENOMEM */
void nfs_turn_fini(struct nfs_turn *t);

/* nfs_turn_room() - where the next reply may be written; at least NFS_JOB_SMALL bytes while not
 * full */
uint8_t *nfs_turn_room(struct nfs_turn *t, size_t *ret_room);
bool nfs_turn_is_full(const struct nfs_turn *t); /* flush before the next reply */

/* nfs_turn_add() - the reply and payload of a job, taken out of it; the turn is not full */
void nfs_turn_add(struct nfs_turn *t, struct nfs_job *job);

/**
 * nfs_out_flush() - send the turn's replies, in one call, and empty it
 * @u:	what does not go out now is kept here; replies queue behind what is there already
 *
 * Return: bytes sent, or -errno when the connection is of no more use (-EPIPE, -ECONNRESET,
 * -ENOMEM).
 */
ssize_t nfs_out_flush(struct nfs_turn *t, struct nfs_unsent *u, int fd);

/* nfs_out_resume() - send more of what was kept; returns as nfs_out_flush() */
ssize_t nfs_out_resume(struct nfs_unsent *u, struct nfs_payloads *payloads, int fd);

void nfs_turn_drop(struct nfs_turn *t); /* forget the turn's replies */
void nfs_unsent_fini(struct nfs_unsent *u, struct nfs_payloads *payloads);

#endif
