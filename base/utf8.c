/* SPDX-License-Identifier: MIT */
/* UTF-8 (see utf8.h): no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "base/utf8.h"

#include <string.h>

/* Bytes of a character that begins with @c; 0: none does. */
static size_t length_of(unsigned char c)
{
	if (c < 0x80)
		return 1;
	if (c < 0xc2 || c > 0xf4) /* 0xc0 and 0xc1 would be overlong */
		return 0;
	return c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

uint32_t utf8_take(const char *p, size_t n, size_t *ret_len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *u = (const unsigned char *)p;
	size_t len = length_of(u[0]);
	uint32_t c = len == 1 ? u[0] : u[0] & (0x7fu >> len);

	*ret_len = 1;
	if (len == 0 || len > n)
		return UTF8_RAW + u[0];
	for (size_t i = 1; i < len; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return UTF8_RAW + u[0];
		c = c << 6 | (u[i] & 0x3fu);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return UTF8_RAW + u[0];
	*ret_len = len;
	return c;
}

bool utf8_is_valid(const char *p, size_t n)
{
	size_t i = 0, len;

	while (i < n) {
		uint64_t word;

		if (n - i >= sizeof(word)) { /* most text is ASCII: eight at a time */
			memcpy(&word, p + i, sizeof(word));
			if ((word & 0x8080808080808080u) == 0) {
				i += sizeof(word);
				continue;
			}
		}
		if (utf8_take(p + i, n - i, &len) >= UTF8_RAW)
			return false;
		i += len;
	}
	return true;
}
