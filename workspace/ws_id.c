/* SPDX-License-Identifier: MIT */
/* Ids of workspaces (see ws_id.h). */
#include "workspace/ws_id.h"

#include <string.h>

#include "base/io.h"

void ws_id_random(uint8_t uuid[16])
{
	io_random(uuid, 16);
	uuid[6] = (uuid[6] & 0x0f) | 0x40; /* version 4 */
	uuid[8] = (uuid[8] & 0x3f) | 0x80; /* variant of the RFC */
}

void ws_id_format(char dst[WS_ID_LEN + 1], const uint8_t uuid[16])
{
	static const char digits[] = "0123456789abcdef";
	char *p = dst;

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = digits[uuid[i] >> 4];
		*p++ = digits[uuid[i] & 15];
	}
	*p = '\0';
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_v4(const uint8_t uuid[16])
{
	return (uuid[6] & 0xf0) == 0x40 && (uuid[8] & 0xc0) == 0x80;
}

bool ws_id_parse(const char *id, uint8_t uuid[16])
{
	char again[WS_ID_LEN + 1];
	const char *p = id;

	if (strnlen(id, WS_ID_LEN + 1) != WS_ID_LEN)
		return false;
	for (int i = 0; i < 16; i++, p += 2) {
		int hi, lo;

		if (*p == '-')
			p++;
		hi = hex_value(p[0]);
		lo = hi < 0 ? -1 : hex_value(p[1]);
		if (lo < 0)
			return false;
		uuid[i] = (uint8_t)(hi << 4 | lo);
	}
	ws_id_format(again, uuid);
	return is_v4(uuid) && strcmp(again, id) == 0;
}
