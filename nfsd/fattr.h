/* SPDX-License-Identifier: MIT */
/* Attributes between the file system's form and NFS's (RFC 1813 sections 2.5 and 2.6).  Pure. */
#ifndef NFSD_FATTR_H
#define NFSD_FATTR_H

#include <sys/stat.h>

#include "proto/nfs3.h"
#include "workspace/fileops.h"
#include "workspace/workspace.h"

/* fattr_from_statx() - with the owner that the workspace shows */
void fattr_from_statx(const struct workspace *ws, const struct statx *stx, fattr3 *ret);

/* fattr_to_fileops() - attributes that a client wants set; -EINVAL for nanoseconds beyond
 * 999,999,999 */
int fattr_to_fileops(const sattr3 *a, struct fileops_attr *ret);

ftype3 fattr_type(mode_t mode);

#endif
