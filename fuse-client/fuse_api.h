/* SPDX-License-Identifier: MIT */
/* From a workspace's name to where it is mounted from, by the control API. */
#ifndef FUSE_CLIENT_FUSE_API_H
#define FUSE_CLIENT_FUSE_API_H

#include "base/err.h"
#include "fuse-client/fuse_options.h"

/**
 * fuse_api_resolve() - fill o->target from --api and --workspace
 *
 * The name may be an id.  Of several workspaces of one name none is chosen.  Waits for the API.
 * Return: 0, or -errno with a sentence.
 */
int fuse_api_resolve(struct fuse_options *o, struct err *err);

/* fuse_api_pick() - the same from the body of GET /api/v1/workspaces.  Pure. */
int fuse_api_pick(const char *body, size_t len, const char *workspace, struct fuse_target *ret,
		  struct err *err);

#endif
