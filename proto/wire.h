/* SPDX-License-Identifier: MIT */
/*
 * Words of the wire: XDR's big-endian units (RFC 4506) at any alignment, for the codecs that are
 * written by hand.  Bounds are the caller's business; nothing is checked here.
 */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Opaque data is followed by zero bytes up to a multiple of four.  @n is at most SIZE_MAX - 3. */
static inline size_t wire_padded(size_t n)
{
	return (n + 3) & ~(size_t)3;
}

static inline uint32_t wire_get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

static inline uint64_t wire_get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return be64toh(v);
}

/* Each returns the byte behind what it wrote. */
static inline uint8_t *wire_put32(uint8_t *p, uint32_t v)
{
	v = htobe32(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

static inline uint8_t *wire_put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

/* The bytes of an opaque and its padding, without the length word. */
static inline uint8_t *wire_put_bytes(uint8_t *p, const void *src, size_t n)
{
	size_t room = wire_padded(n);

	if (n == 0)
		return p;
	memset(p + room - 4, 0, 4);
	memcpy(p, src, n);
	return p + room;
}

#endif
