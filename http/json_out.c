/* SPDX-License-Identifier: MIT */
/* See json_out.h.  Strings are checked and escaped in runs: plain bytes are appended a run at a
 * time. */
#include "http/json_out.h"

#include <stdio.h>
#include <string.h>

static void put(struct json_out *o, const void *p, size_t n)
{
	if (o->rc == 0)
		o->rc = buf_append(o->buf, p, n);
}

static void begin_value(struct json_out *o)
{
	if (o->needs_comma)
		put(o, ",", 1);
	o->needs_comma = true;
}

void json_out_open(struct json_out *o, char bracket)
{
	begin_value(o);
	put(o, &bracket, 1);
	o->needs_comma = false;
}

void json_out_close(struct json_out *o, char bracket)
{
	put(o, &bracket, 1);
	o->needs_comma = true;
}

/* utf8_len() - bytes of the well-formed character at @p (RFC 3629), 0 when there is none */
static size_t utf8_len(const unsigned char *p, size_t n)
{
	size_t len = p[0] < 0x80   ? 1
		     : p[0] < 0xc2 ? 0
		     : p[0] < 0xe0 ? 2
		     : p[0] < 0xf0 ? 3
		     : p[0] < 0xf5 ? 4
				   : 0;

	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if (p[0] == 0xe0 && p[1] < 0xa0) /* longer than it needs to be */
		return 0;
	if (p[0] == 0xed && p[1] > 0x9f) /* a surrogate */
		return 0;
	if (p[0] == 0xf0 && p[1] < 0x90)
		return 0;
	if (p[0] == 0xf4 && p[1] > 0x8f) /* beyond U+10FFFF */
		return 0;
	return len;
}

static void put_escaped(struct json_out *o, unsigned char c)
{
	static const char short_for[] = { ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
					  ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\' };
	char text[8] = { '\\' };

	if (c < sizeof(short_for) && short_for[c] != 0) {
		text[1] = short_for[c];
		put(o, text, 2);
		return;
	}
	(void)snprintf(text, sizeof(text), "\\u%04x", c);
	put(o, text, 6);
}

static void put_string(struct json_out *o, const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t run = 0; /* start of the bytes that need no change */

	put(o, "\"", 1);
	for (size_t i = 0; i < n;) {
		size_t len = utf8_len(p + i, n - i);

		if (len > 1 ||
		    (len == 1 && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\' && p[i] != 0x7f)) {
			i += len;
			continue;
		}
		put(o, p + run, i - run);
		if (len == 0)
			put(o, "\xef\xbf\xbd", 3);
		else
			put_escaped(o, p[i]);
		run = ++i;
	}
	if (n > run)
		put(o, p + run, n - run);
	put(o, "\"", 1);
}

void json_out_strn(struct json_out *o, const char *s, size_t n)
{
	begin_value(o);
	put_string(o, s, n);
}

void json_out_str(struct json_out *o, const char *s)
{
	if (s == NULL)
		json_out_null(o);
	else
		json_out_strn(o, s, strlen(s));
}

void json_out_key(struct json_out *o, const char *key)
{
	json_out_str(o, key);
	put(o, ":", 1);
	o->needs_comma = false;
}

void json_out_u64(struct json_out *o, uint64_t v)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)v);

	begin_value(o);
	put(o, text, (size_t)n);
}

void json_out_bool(struct json_out *o, bool v)
{
	begin_value(o);
	put(o, v ? "true" : "false", v ? 4 : 5);
}

void json_out_null(struct json_out *o)
{
	begin_value(o);
	put(o, "null", 4);
}

void json_out_raw(struct json_out *o, const char *json, size_t n)
{
	begin_value(o);
	put(o, json, n);
}

void json_out_key_str(struct json_out *o, const char *key, const char *s)
{
	json_out_key(o, key);
	json_out_str(o, s);
}

void json_out_key_u64(struct json_out *o, const char *key, uint64_t v)
{
	json_out_key(o, key);
	json_out_u64(o, v);
}

void json_out_key_bool(struct json_out *o, const char *key, bool v)
{
	json_out_key(o, key);
	json_out_bool(o, v);
}
