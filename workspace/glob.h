/* SPDX-License-Identifier: MIT */
/*
 * Patterns over paths, as people know them from .gitignore and from shells:
 *
 *   *        any run of characters but '/'; also a leading dot
 *   ?        one character but '/'
 *   [a-z]    one of these; [!a-z] and [^a-z] one of the others; never '/'
 *   {a,b}    either; may be nested, may hold the others
 *   **       as a whole component: "**" + "/" any number of directories, none included; at the end
 *            everything below; elsewhere it is like *
 *   \x       x itself
 *
 * A pattern without '/' is compared with the last component, at any depth; one with '/' with the
 * whole path, relative to where the walk began ("/a" is "a" there and not deeper).  A '/' at the
 * end does not count.
 *
 * Characters are UTF-8 sequences; a byte that is part of none is a character by itself, so that any
 * name can be matched.  A pattern is compiled to a small machine that follows all its alternatives
 * at once: time is bounded by pattern times path, whatever the pattern is.
 *
 * Pure; any thread.
 */
#ifndef WORKSPACE_GLOB_H
#define WORKSPACE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define GLOB_PATTERN_MAX 1024 /* bytes */

struct glob;

/* glob_new() - owned on success; -EINVAL (empty, too long, not closed: the sentence says which),
 * -ENOMEM */
int glob_new(const char *pattern, size_t n, struct glob **ret, struct err *err);
void glob_free(struct glob *g);

/* glob_match() - @path: relative, without leading or trailing '/' */
bool glob_match(const struct glob *g, const char *path, size_t n);

#endif
