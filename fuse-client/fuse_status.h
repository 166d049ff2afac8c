/* SPDX-License-Identifier: MIT */
/* What a mount tells about itself, and who asks: see fuse_status.c. */
#ifndef FUSE_CLIENT_FUSE_STATUS_H
#define FUSE_CLIENT_FUSE_STATUS_H

#include <stdbool.h>

#include "base/err.h"

struct fuse_fs;
struct fuse_options;
struct fuse_status;

/* fuse_status_open() - answer on a socket of this user's; NULL when that cannot be had, which no
 * mount should fail for.  Loop. */
struct fuse_status *fuse_status_open(struct fuse_fs *fs, const struct fuse_options *o);
void fuse_status_close(struct fuse_status *s); /* NULL allowed; freed by the loop */

/* fuse_status_print() - `fuse-client status`: every mount of this user on stdout */
int fuse_status_print(bool as_json, struct err *err);

#endif
