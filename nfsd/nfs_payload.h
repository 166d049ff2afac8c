/* SPDX-License-Identifier: MIT */
/* Memory for bulk replies, recycled: see nfs_payload.c.  Any thread. */
#ifndef NFSD_NFS_PAYLOAD_H
#define NFSD_NFS_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

struct nfs_payloads;

int nfs_payloads_new(struct nfs_payloads **ret); /* 0 or -ENOMEM */
void nfs_payloads_free(struct nfs_payloads *p);  /* everything lent must be back */

/**
 * nfs_payloads_get() - memory for at least @size bytes and three bytes of padding
 * @ret_cap:	what it was made for; give it back with this number
 *
 * Not cleared.  Return: owned by the caller until nfs_payloads_put(); NULL when out of memory.
 */
uint8_t *nfs_payloads_get(struct nfs_payloads *p, size_t size, size_t *ret_cap);
void nfs_payloads_put(struct nfs_payloads *p, uint8_t *mem, size_t cap); /* @mem may be NULL */

/* nfs_payloads_trim() - give back what nobody took since the last call; for a timer */
void nfs_payloads_trim(struct nfs_payloads *p);

#endif
