/* SPDX-License-Identifier: MIT */
/*
 * The path door: the only place where a name or path becomes a descriptor.  Everything goes through
 * openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV, so that neither "..",
 * nor an absolute path, nor a planted link, nor a race, nor a mount leads out of the workspace.
 *
 * EXDEV from here means "tried to leave".  EAGAIN, which the kernel gives when an unrelated rename
 * raced with the walk, is retried here; with PATH_CACHED it means "would have to wait for the
 * disk". Any thread; blocks unless PATH_CACHED.
 */
#ifndef WORKSPACE_PATH_H
#define WORKSPACE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum path_flags {
	PATH_NOFOLLOW_ALL = 1u << 0, /* no link anywhere in the path (RESOLVE_NO_SYMLINKS) */
	PATH_CACHED =
		1u << 1, /* only what is in the kernel's caches (RESOLVE_CACHED), else -EAGAIN */
};

/**
 * path_open() - open @path relative to the directory @dirfd without ever leaving it
 * @path:	relative; "" and "." are the directory itself
 * @flags:	open(2) flags; O_CLOEXEC and O_NOCTTY are added; O_NOFOLLOW for the last component
 * @how:	enum path_flags
 *
 * Return: a descriptor the caller owns, or -EXDEV, -ELOOP, -ENOENT, -errno.
 */
int path_open(int dirfd, const char *path, int flags, mode_t mode, unsigned how);

/**
 * path_open_parent() - ".." of a directory, after making sure that it still lies in the workspace
 *
 * The one walk upwards: every step is compared with the root's identity, and a directory that
 * somebody moved out of the workspace is -ESTALE.  Costs a step for each level.  Blocks.
 */
int path_open_parent(int dirfd, uint64_t root_ino, uint32_t dev_major, uint32_t dev_minor);

/* path_reopen() - another open of the file behind an O_PATH descriptor (through /proc/self/fd).
 * The caller has made sure that it is a regular file or a directory, so that nothing blocks. */
int path_reopen(int path_fd, int flags);

/* path_proc() - "/proc/self/fd/N", for calls that have no descriptor form; @dst >= PATH_PROC_LEN */
#define PATH_PROC_LEN 32
const char *path_proc(char *dst, int fd);

/* path_remove_tree() - remove @name below @dirfd with all in it, opening up directories without
 * permission bits; links are removed, not followed; other mounts are not entered (-EXDEV).  Blocks
 * long.  0 if absent. */
int path_remove_tree(int dirfd, const char *name, struct err *err);

/* path_name_ok() - is it one component that may be made or looked up: 0, -ENOENT (empty),
 * -ENAMETOOLONG, -EINVAL ("/" or NUL inside), -EEXIST ("." or "..") */
int path_name_check(const char *name, size_t len);

#endif
