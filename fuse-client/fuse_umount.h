/* SPDX-License-Identifier: MIT */
/* Undoing mounts: see fuse_umount.c. */
#ifndef FUSE_CLIENT_FUSE_UMOUNT_H
#define FUSE_CLIENT_FUSE_UMOUNT_H

#include <stdbool.h>

#include "base/err.h"

/* fuse_umount() - `fuse-client umount`.  0, or -errno with a sentence. */
int fuse_umount(const char *dir, bool lazy, struct err *err);

/**
 * fuse_umount_prepare() - is @dir fit to be mounted on?
 *
 * A mount of ours whose process is dead is taken away.
 * Return: 0; -EBUSY when one that lives is there; -errno, each with a sentence.
 */
int fuse_umount_prepare(const char *dir, struct err *err);

#endif
