/* SPDX-License-Identifier: MIT */
/*
 * Growth doubles, so that appending is linear in all; the maximum is checked before anything is
 * allocated, so that what a peer sends can never cost more memory than its buffer was given.
 */
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_MIN_CAP 256 /* bytes: a short header or JSON answer without a second allocation */

static size_t max_of(const struct buf *b)
{
	return b->max > 0 ? b->max : BUF_MAX_DEFAULT;
}

/* Room for @need bytes in all, without a look at the maximum. */
static int grow_to(struct buf *b, size_t need)
{
	size_t cap = b->cap > BUF_MIN_CAP ? b->cap : BUF_MIN_CAP;
	uint8_t *p;

	if (need <= b->cap)
		return 0;
	while (cap < need) {
		if (cap > SIZE_MAX / 2) {
			cap = need;
			break;
		}
		cap *= 2;
	}
	p = realloc(b->data, cap);
	if (p == NULL)
		return -ENOMEM;
	b->data = p;
	b->cap = cap;
	return 0;
}

int buf_reserve(struct buf *b, size_t more)
{
	size_t max = max_of(b);

	if (b->len > max || more > max - b->len)
		return -EMSGSIZE;
	return grow_to(b, b->len + more);
}

int buf_append(struct buf *b, const void *p, size_t n)
{
	int rc = buf_reserve(b, n);

	if (rc < 0)
		return rc;
	if (n > 0)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	return 0;
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	size_t room = b->cap - b->len;
	va_list ap;
	int n, rc;

	va_start(ap, fmt);
	n = vsnprintf(room > 0 ? (char *)b->data + b->len : NULL, room, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	rc = buf_reserve(b, (size_t)n);
	if (rc < 0)
		return rc;
	if ((size_t)n >= room) { /* it was cut: again, with room for it and the NUL */
		rc = grow_to(b, b->len + (size_t)n + 1);
		if (rc < 0)
			return rc;
		va_start(ap, fmt);
		(void)vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	b->len += (size_t)n;
	return 0;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	b->len -= n;
	if (n > 0 && b->len > 0)
		memmove(b->data, b->data + n, b->len);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
}

void buf_free(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = 0;
	b->cap = 0;
}

const char *buf_cstr(struct buf *b)
{
	if (grow_to(b, b->len + 1) < 0)
		return NULL;
	b->data[b->len] = '\0';
	return (const char *)b->data;
}
