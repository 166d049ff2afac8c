/* SPDX-License-Identifier: MIT */
/*
 * JSON written straight into a buffer.  An answer of a handful of fields would otherwise be a tree
 * of small allocations that lives for a microsecond.  Commas are put by the writer; the first
 * failure (out of memory, the buffer's maximum) sticks and is asked for once at the end.
 */
#ifndef HTTP_JSON_OUT_H
#define HTTP_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct json_out {
	struct buf *buf;  /* borrowed */
	int rc;           /* 0, or the first -errno */
	bool needs_comma; /* a value stands before */
};

#define JSON_OUT(b)                                                                                \
	{                                                                                          \
		.buf = (b)                                                                         \
	}

void json_out_open(struct json_out *o, char bracket);  /* '{' or '[' */
void json_out_close(struct json_out *o, char bracket); /* '}' or ']' */
void json_out_key(struct json_out *o, const char *key);

void json_out_str(struct json_out *o, const char *s); /* NULL is null */
/* Any bytes: what is no UTF-8 becomes U+FFFD. */
void json_out_strn(struct json_out *o, const char *s, size_t n);
void json_out_u64(struct json_out *o, uint64_t v);
void json_out_bool(struct json_out *o, bool v);
void json_out_null(struct json_out *o);
/* json_out_raw() - a value that is JSON already */
void json_out_raw(struct json_out *o, const char *json, size_t n);

/* key and value in one */
void json_out_key_str(struct json_out *o, const char *key, const char *s);
void json_out_key_u64(struct json_out *o, const char *key, uint64_t v);
void json_out_key_bool(struct json_out *o, const char *key, bool v);

#endif
