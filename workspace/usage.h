/* SPDX-License-Identifier: MIT */
/* How much a workspace holds, by looking at all of it. */
#ifndef WORKSPACE_USAGE_H
#define WORKSPACE_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "workspace/workspace.h"

struct ws_usage {
	uint64_t bytes; /* on disk: blocks of files, directories and links; files with several names
			   once */
	uint64_t files; /* everything but directories; names of one file count once */
	uint64_t directories;
	bool is_complete; /* false: a part could not be read */
};

/* ws_usage() - walk @ws.  Any thread but a loop's; blocks long.  0 or -errno. */
int ws_usage(const struct workspace *ws, struct ws_usage *ret);

#endif
