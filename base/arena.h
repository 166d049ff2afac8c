/* SPDX-License-Identifier: MIT */
/*
 * Memory that dies together: what one HTTP request or one RPC needs.  Allocation is a pointer bump
 * in chunks; arena_reset() keeps the first chunk for the next request.  One thread at a time.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena {
	struct arena_chunk *first; /* owned */
	struct arena_chunk *cur;
	size_t total; /* bytes allocated in all chunks */
	size_t max;   /* bytes; 0 means ARENA_MAX_DEFAULT; beyond it allocation fails */
};

#define ARENA_MAX_DEFAULT (16u << 20)

void *arena_alloc(struct arena *a,
		  size_t n); /* 16-byte aligned, not cleared; NULL when out of memory */
void *arena_zalloc(struct arena *a, size_t n);                 /* cleared */
char *arena_strndup(struct arena *a, const char *s, size_t n); /* NUL-terminated */
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_reset(struct arena *a); /* all memory back; the first chunk is kept unless it is large */
void arena_free(struct arena *a);  /* all memory freed; may be used again */

#endif
