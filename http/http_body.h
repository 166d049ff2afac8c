/* SPDX-License-Identifier: MIT */
/*
 * The framing of a request's body (RFC 9112 sections 6 and 7.1): by length or in chunks.  Strict:
 * what stands after a chunk, in a size or in a trailer is either what it must be or the end of the
 * connection. Pure functions over bytes; nothing is kept of the body itself.
 */
#ifndef HTTP_HTTP_BODY_H
#define HTTP_HTTP_BODY_H

#include <stddef.h>
#include <stdint.h>

#define HTTP_TRAILERS_MAX  8192 /* bytes behind the last chunk; read and dropped */
#define HTTP_CHUNK_EXT_MAX 256  /* bytes of extensions of one chunk; read and dropped */

enum http_body_kind { HTTP_BODY_NONE, HTTP_BODY_LENGTH, HTTP_BODY_CHUNKED };

struct http_body {
	enum http_body_kind kind;
	int state;         /* of the chunked coding */
	uint64_t left;     /* bytes still to come: of the body, or of this chunk */
	uint32_t n_digits; /* of this chunk's size */
	uint32_t n_extra;  /* bytes of extensions or trailers */
};

enum http_body_result { HTTP_BODY_MORE, HTTP_BODY_DATA, HTTP_BODY_END };

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t length);

/**
 * http_body_next() - take bytes of a body
 * @ret_used:	bytes of @p taken
 * @ret_data:	HTTP_BODY_DATA only: a run of the body; borrowed, into @p
 *
 * Call until HTTP_BODY_MORE (all bytes taken) or HTTP_BODY_END (the rest belongs to the next
 * request). Return: enum http_body_result, or -EBADMSG.
 */
int http_body_next(struct http_body *b, const char *p, size_t n, size_t *ret_used,
		   const char **ret_data, size_t *ret_data_len);

#endif
