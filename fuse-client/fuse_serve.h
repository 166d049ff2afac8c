/* SPDX-License-Identifier: MIT */
/* One mount from the first call to the last: see fuse_serve.c. */
#ifndef FUSE_CLIENT_FUSE_SERVE_H
#define FUSE_CLIENT_FUSE_SERVE_H

#include "base/err.h"
#include "fuse-client/fuse_options.h"

/**
 * fuse_serve() - mount and serve until unmounted or told to end
 * @o:	complete; borrowed until return
 *
 * Without @o->foreground the caller's process ends (with 0) as soon as the mount stands, and a
 * child serves and exits here.  Return: 0 (in the foreground); -errno with a sentence when it could
 * not be mounted.
 */
int fuse_serve(const struct fuse_options *o, struct err *err);

#endif
