/* SPDX-License-Identifier: MIT */
/* Classes of characters in HTTP messages (RFC 9110), for the readers of heads, bodies and targets.
 */
#ifndef HTTP_HTTP_CHARS_H
#define HTTP_HTTP_CHARS_H

#include <stdbool.h>
#include <string.h>

static inline bool http_is_token_char(unsigned char c) /* tchar of RFC 9110 5.6.2 */
{
	if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
		return true;
	return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static inline bool
http_is_value_char(unsigned char c) /* field-vchar, blanks and obs-text of RFC 9110 5.5 */
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static inline int http_hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
