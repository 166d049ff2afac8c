/* SPDX-License-Identifier: MIT */
/* Ids of workspaces: UUID v4 (RFC 9562), as bytes and as text.  Pure but for the random one; any
 * thread. */
#ifndef WORKSPACE_WS_ID_H
#define WORKSPACE_WS_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "workspace/workspace.h"

void ws_id_random(uint8_t uuid[16]);
void ws_id_format(char dst[WS_ID_LEN + 1], const uint8_t uuid[16]);

/* ws_id_parse() - only what ws_id_format() writes, since one workspace has one name; false for
 * other text */
bool ws_id_parse(const char *id, uint8_t uuid[16]);

#endif
