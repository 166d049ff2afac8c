/* SPDX-License-Identifier: MIT */
/* May this peer use this workspace, and as whom?  Asked on every call, so a change takes effect at once. */
#ifndef NFSD_EXPORT_H
#define NFSD_EXPORT_H

#include <stdbool.h>

#include "nfsd/nfs_call.h"
#include "workspace/workspace.h"

struct export_verdict {
	bool allowed;
	bool read_only;
	enum export_mode mode;
};

/**
 * export_check() - address rules of the workspace, and for loopback peers the uid that owns the socket
 *
 * Pure apart from reading the rules in force.  Loopback peers pass without networks in the rules if their
 * uid is let in; with networks they must match one too.  Other peers must match a network.  Any thread.
 */
void export_check(struct ws_registry *registry, const struct workspace *ws,
		  const struct nfs_peer *peer, struct export_verdict *ret);

#endif
