/* SPDX-License-Identifier: MIT */
/*
 * A list of chunks, each used from front to back.  Chunks double up to a bound; a request larger
 * than the next chunk gets one of its own size.  Only the first chunk outlives arena_reset(), and
 * only while it is small: an idle connection must not hold what its largest request once took.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MIN  4096u        /* bytes, with its header: one page serves an ordinary request */
#define CHUNK_MAX  (256u << 10) /* bytes: growth stops doubling here */
#define CHUNK_KEEP (64u << 10)  /* bytes: a larger first chunk is not kept by arena_reset() */
#define ALIGN      16u

struct arena_chunk {
	struct arena_chunk *next;
	size_t size; /* bytes of data[] */
	size_t used;
	alignas(ALIGN) unsigned char data[];
};

static size_t max_of(const struct arena *a)
{
	return a->max > 0 ? a->max : ARENA_MAX_DEFAULT;
}

/* A new current chunk with room for @n bytes; @n is a multiple of ALIGN and at most max_of(). */
static struct arena_chunk *add_chunk(struct arena *a, size_t n)
{
	size_t left = max_of(a) - a->total;
	size_t size = CHUNK_MIN - sizeof(struct arena_chunk);
	struct arena_chunk *c;

	if (a->cur != NULL) {
		size = 2 * (a->cur->size + sizeof(*c)) - sizeof(*c);
		if (size > CHUNK_MAX)
			size = CHUNK_MAX - sizeof(*c);
	}
	if (size > left)
		size = left & ~(size_t)(ALIGN - 1);
	if (size < n)
		size = n;
	if (size > left)
		return NULL;
	c = malloc(sizeof(*c) + size);
	if (c == NULL)
		return NULL;
	c->next = NULL;
	c->size = size;
	c->used = 0;
	if (a->cur != NULL)
		a->cur->next = c;
	else
		a->first = c;
	a->cur = c;
	a->total += size;
	return c;
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_chunk *c = a->cur;
	void *p;

	if (n > max_of(a) ||
	    n > PTRDIFF_MAX - CHUNK_MAX) /* rounding up and a header must not wrap */
		return NULL;
	/* Zero bytes still get an address of their own, so that NULL always means out of memory. */
	n = (n > 0 ? n + ALIGN - 1 : ALIGN) & ~(size_t)(ALIGN - 1);
	if (c == NULL || n > c->size - c->used) {
		c = add_chunk(a, n);
		if (c == NULL)
			return NULL;
	}
	p = c->data + c->used;
	c->used += n;
	return p;
}

void *arena_zalloc(struct arena *a, size_t n)
{
	void *p = arena_alloc(a, n);

	if (p != NULL)
		memset(p, 0, n);
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *p = n < SIZE_MAX ? arena_alloc(a, n + 1) : NULL;

	if (p == NULL)
		return NULL;
	if (n > 0)
		memcpy(p, s, n);
	p[n] = '\0';
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return NULL;
	p = arena_alloc(a, (size_t)n + 1);
	if (p == NULL)
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return p;
}

static void free_chunks(struct arena_chunk *c)
{
	while (c != NULL) {
		struct arena_chunk *next = c->next;

		free(c);
		c = next;
	}
}

void arena_reset(struct arena *a)
{
	struct arena_chunk *first = a->first;

	if (first == NULL)
		return;
	if (first->size > CHUNK_KEEP) {
		arena_free(a);
		return;
	}
	free_chunks(first->next);
	first->next = NULL;
	first->used = 0;
	a->cur = first;
	a->total = first->size;
}

void arena_free(struct arena *a)
{
	free_chunks(a->first);
	a->first = NULL;
	a->cur = NULL;
	a->total = 0;
}
