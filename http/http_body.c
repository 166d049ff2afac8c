/* SPDX-License-Identifier: MIT */
/* See http_body.h. */
#include "http/http_body.h"

#include <errno.h>

#include "http/http_chars.h"

/* Where in a chunked body we are (RFC 9112 section 7.1). */
enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXT,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	TRAILER_START, /* of a line: a name, or the CR of the blank line */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	CHUNK_LAST_LF,
	CHUNK_DONE,
};

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t length)
{
	*b = (struct http_body){ .kind = kind, .left = kind == HTTP_BODY_LENGTH ? length : 0 };
}

static int step_size(struct http_body *b, unsigned char c)
{
	int v = http_hex_value(c);

	if (v >= 0) {
		/* 15 digits reach 2^60: more than any body, and no overflow */
		if (++b->n_digits > 15)
			return -EBADMSG;
		b->left = b->left << 4 | (unsigned)v;
		return CHUNK_SIZE;
	}
	if (b->n_digits == 0)
		return -EBADMSG;
	return c == '\r' ? CHUNK_SIZE_LF : c == ';' ? CHUNK_EXT : -EBADMSG;
}

/* One character of the framing: the next state, or -EBADMSG. */
static int step_chunk(struct http_body *b, unsigned char c)
{
	switch ((enum chunk_state)b->state) {
	case CHUNK_SIZE:
		return step_size(b, c);
	case CHUNK_EXT:
		if (c == '\r')
			return CHUNK_SIZE_LF;
		return http_is_value_char(c) && ++b->n_extra <= HTTP_CHUNK_EXT_MAX ? CHUNK_EXT
										   : -EBADMSG;
	case CHUNK_SIZE_LF:
		b->n_extra = 0;
		return c != '\n' ? -EBADMSG : b->left > 0 ? CHUNK_DATA : TRAILER_START;
	case CHUNK_DATA_CR:
		return c == '\r' ? CHUNK_DATA_LF : -EBADMSG;
	case CHUNK_DATA_LF:
		b->n_digits = 0;
		return c == '\n' ? CHUNK_SIZE : -EBADMSG;
	case TRAILER_START:
		if (c == '\r')
			return CHUNK_LAST_LF;
		return http_is_token_char(c) ? TRAILER_NAME : -EBADMSG;
	case TRAILER_NAME:
		return c == ':' ? TRAILER_VALUE : http_is_token_char(c) ? TRAILER_NAME : -EBADMSG;
	case TRAILER_VALUE:
		return c == '\r' ? TRAILER_LF : http_is_value_char(c) ? TRAILER_VALUE : -EBADMSG;
	case TRAILER_LF:
		return c == '\n' ? TRAILER_START : -EBADMSG;
	case CHUNK_LAST_LF:
		return c == '\n' ? CHUNK_DONE : -EBADMSG;
	case CHUNK_DATA:
	case CHUNK_DONE:
		break;
	}
	return -EBADMSG;
}

/* take_run() - as much of the current run of data as has arrived */
static void take_run(struct http_body *b, const char *p, size_t n, size_t *ret_used,
		     const char **ret_data, size_t *ret_data_len)
{
	size_t len = b->left < n ? (size_t)b->left : n;

	*ret_data = p;
	*ret_data_len = len;
	*ret_used += len;
	b->left -= len;
}

static int next_chunked(struct http_body *b, const char *p, size_t n, size_t *ret_used,
			const char **ret_data, size_t *ret_data_len)
{
	size_t i = 0;

	while (b->state != CHUNK_DONE && i < n) {
		int next;

		if (b->state == CHUNK_DATA) {
			*ret_used = i;
			take_run(b, p + i, n - i, ret_used, ret_data, ret_data_len);
			if (b->left == 0)
				b->state = CHUNK_DATA_CR;
			return HTTP_BODY_DATA;
		}
		if (b->state >= TRAILER_START && ++b->n_extra > HTTP_TRAILERS_MAX)
			return -EBADMSG;
		next = step_chunk(b, (unsigned char)p[i++]);
		if (next < 0)
			return next;
		b->state = next;
	}
	*ret_used = i;
	return b->state == CHUNK_DONE ? HTTP_BODY_END : HTTP_BODY_MORE;
}

int http_body_next(struct http_body *b, const char *p, size_t n, size_t *ret_used,
		   const char **ret_data, size_t *ret_data_len)
{
	*ret_used = 0;
	if (b->kind == HTTP_BODY_CHUNKED)
		return next_chunked(b, p, n, ret_used, ret_data, ret_data_len);
	if (b->left == 0)
		return HTTP_BODY_END;
	if (n == 0)
		return HTTP_BODY_MORE;
	take_run(b, p, n, ret_used, ret_data, ret_data_len);
	return HTTP_BODY_DATA;
}
