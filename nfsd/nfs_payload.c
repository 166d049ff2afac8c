/* SPDX-License-Identifier: MIT */
/*
 * Memory for bulk replies: file data and directory entries, from a few KiB to 1 MiB.
 *
 * A megabyte from malloc(3) is a fresh mapping, and touching it costs 256 page faults, about as
 * much as reading the file data into it.  So buffers are kept in a few size classes, last in first
 * out, since the one used last is still in the processor's cache.  One cache serves all loops and
 * pool threads: a buffer is often filled in a pool and sent by a loop.  The mutex is held for a few
 * instructions.
 *
 * What is kept is bounded by class, and a timer gives back what the load of now does not need.
 */
#include "nfsd/nfs_payload.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "nfsd/nfs_call.h"

struct free_buf { /* lies in the free memory itself */
	struct free_buf *next;
};

static const struct size_class {
	size_t cap;
	unsigned keep;
} classes[] = {
	{ 8u << 10, 64 },
	{ (64u << 10) + 4096, 32 },
	{ NFSD_IO_MAX + 4096, 8 },
};

#define N_CLASSES ARRAY_LEN(classes)
#define PAD_ROOM  4u /* bytes: XDR padding, and the size stays a multiple of four */

struct nfs_payloads {
	pthread_mutex_t mutex;
	struct {
		struct free_buf *first;
		unsigned n;
		unsigned
			low; /* fewest that lay here since the last trim: so many were not needed */
	} free[N_CLASSES];   /* protected by mutex */
};

int nfs_payloads_new(struct nfs_payloads **ret)
{
	struct nfs_payloads *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return -ENOMEM;
	pthread_mutex_init(&p->mutex, NULL);
	*ret = p;
	return 0;
}

void nfs_payloads_free(struct nfs_payloads *p)
{
	if (p == NULL)
		return;
	nfs_payloads_trim(p); /* sets "low" to what lies there */
	nfs_payloads_trim(p);
	pthread_mutex_destroy(&p->mutex);
	free(p);
}

static size_t class_of(size_t size)
{
	size_t i = 0;

	while (i < N_CLASSES && size > classes[i].cap)
		i++;
	return i;
}

uint8_t *nfs_payloads_get(struct nfs_payloads *p, size_t size, size_t *ret_cap)
{
	size_t k = class_of(size);
	struct free_buf *b;
	void *mem;

	assert(k < N_CLASSES);
	pthread_mutex_lock(&p->mutex);
	b = p->free[k].first;
	if (b != NULL) {
		p->free[k].first = b->next;
		p->free[k].n--;
		if (p->free[k].n < p->free[k].low)
			p->free[k].low = p->free[k].n;
	}
	pthread_mutex_unlock(&p->mutex);
	mem = b;
	if (mem == NULL)
		mem = malloc(classes[k].cap + PAD_ROOM);
	if (mem != NULL)
		*ret_cap = classes[k].cap;
	return mem;
}

void nfs_payloads_put(struct nfs_payloads *p, uint8_t *mem, size_t cap)
{
	size_t k = class_of(cap);
	struct free_buf *b = (struct free_buf *)(void *)mem;

	if (b == NULL)
		return;
	assert(k < N_CLASSES && classes[k].cap == cap);
	pthread_mutex_lock(&p->mutex);
	if (p->free[k].n < classes[k].keep) {
		b->next = p->free[k].first;
		p->free[k].first = b;
		p->free[k].n++;
		b = NULL;
	}
	pthread_mutex_unlock(&p->mutex);
	free(b);
}

static struct free_buf *take_unneeded(struct nfs_payloads *p, size_t k)
{
	struct free_buf *list = NULL;

	for (unsigned n = p->free[k].low; n > 0; n--) {
		struct free_buf *b = p->free[k].first;

		p->free[k].first = b->next;
		p->free[k].n--;
		b->next = list;
		list = b;
	}
	p->free[k].low = p->free[k].n;
	return list;
}

void nfs_payloads_trim(struct nfs_payloads *p)
{
	for (size_t k = 0; k < N_CLASSES; k++) {
		struct free_buf *list, *next;

		pthread_mutex_lock(&p->mutex);
		list = take_unneeded(p, k);
		pthread_mutex_unlock(&p->mutex);
		for (; list != NULL; list = next) {
			next = list->next;
			free(list);
		}
	}
}
