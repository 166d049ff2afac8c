/* SPDX-License-Identifier: MIT */
/* See http_range.h. */
#include "http/http_range.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* take_number() - digits; a number too large for 64 bits stays at the largest.  false: no digit. */
static bool take_number(const char **p, uint64_t *ret)
{
	uint64_t v = 0;
	const char *s = *p;

	while (*s >= '0' && *s <= '9') {
		unsigned digit = (unsigned)(*s++ - '0');

		v = v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : v * 10 + digit;
	}
	if (s == *p)
		return false;
	*p = s;
	*ret = v;
	return true;
}

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* last_bytes() - "-N" */
static enum http_range_result last_bytes(uint64_t n, uint64_t size, uint64_t *ret_off,
					 uint64_t *ret_len)
{
	if (n == 0 || size == 0)
		return HTTP_RANGE_NONE;
	*ret_len = MIN(n, size);
	*ret_off = size - *ret_len;
	return HTTP_RANGE_PART;
}

enum http_range_result http_range_parse(const char *value, uint64_t size, uint64_t *ret_off,
					uint64_t *ret_len)
{
	uint64_t first = 0, last = UINT64_MAX;
	bool has_first, has_last;
	const char *p = value;

	if (p == NULL || strncasecmp(p, "bytes=", 6) != 0)
		return HTTP_RANGE_ALL;
	p = skip_blanks(p + 6);
	has_first = take_number(&p, &first);
	if (*p++ != '-')
		return HTTP_RANGE_ALL;
	has_last = take_number(&p, &last);
	if (*skip_blanks(p) != '\0' || (!has_first && !has_last))
		return HTTP_RANGE_ALL;
	if (!has_first)
		return last_bytes(last, size, ret_off, ret_len);
	if (has_last && last < first)
		return HTTP_RANGE_ALL;
	if (first >= size)
		return HTTP_RANGE_NONE;
	*ret_off = first;
	*ret_len = MIN(last, size - 1) - first + 1;
	return HTTP_RANGE_PART;
}
