/* SPDX-License-Identifier: MIT */
/* The Range header (RFC 9110 section 14): which bytes of a file are asked for.  Pure. */
#ifndef HTTP_HTTP_RANGE_H
#define HTTP_HTTP_RANGE_H

#include <stdint.h>

enum http_range_result {
	HTTP_RANGE_ALL,  /* no range, or one to be ignored: malformed, another unit, several */
	HTTP_RANGE_PART, /* answer 206 */
	HTTP_RANGE_NONE, /* 416: nothing of the file is in it */
};

/**
 * http_range_parse() - @value: of the header, or NULL; @size: bytes of the file
 * @ret_off, @ret_len:	HTTP_RANGE_PART only; within the file, at least one byte
 *
 * Several ranges are answered by the whole file, which section 14.2 allows and which costs the
 * server no more than what was asked.
 */
enum http_range_result http_range_parse(const char *value, uint64_t size, uint64_t *ret_off,
					uint64_t *ret_len);

#endif
