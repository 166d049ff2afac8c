/* SPDX-License-Identifier: MIT */
/* A growing byte buffer with a maximum: running into it is -EMSGSIZE, never an endless allocation.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data; /* owned; NULL while empty */
	size_t len;    /* bytes in use */
	size_t cap;    /* bytes allocated */
	size_t max;    /* bytes; 0 means BUF_MAX_DEFAULT */
};

#define BUF_MAX_DEFAULT (64u << 20) /* bytes: the largest JSON body the contract allows */

/* Each returns 0, -ENOMEM, or -EMSGSIZE when @max would be passed; the buffer is then unchanged. */
int buf_reserve(struct buf *b, size_t more); /* room for @more bytes after len */
int buf_append(struct buf *b, const void *p, size_t n);
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void buf_consume(struct buf *b, size_t n); /* drop @n <= len bytes from the front */
void buf_reset(struct buf *b);             /* len = 0, memory kept */
void buf_free(struct buf *b);              /* memory freed; may be used again */

/* buf_cstr() - the bytes with a NUL behind them (not counted in len), or NULL when out of memory */
const char *buf_cstr(struct buf *b);

#endif
