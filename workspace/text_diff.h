/* SPDX-License-Identifier: MIT */
/*
 * The unified diff of two texts, for people and programs to see what an edit did.  Lines end with
 * LF; any bytes are fine.  What patch(1) and text_patch.h read back gives the new text exactly.
 *
 * The search for the shortest diff is bounded; beyond the bound everything between the first and
 * the last difference is shown as replaced, which is longer but just as true; and where more than
 * half a million lines lie between those two, there is no diff.
 *
 * Pure; any thread.
 */
#ifndef WORKSPACE_TEXT_DIFF_H
#define WORKSPACE_TEXT_DIFF_H

#include <stddef.h>

#include "base/buf.h"

#define TEXT_DIFF_CONTEXT 3 /* lines around a change */

/**
 * text_diff() - append the diff from @a to @b
 * @name:	for the header, as a/NAME and b/NAME; quoted as git does where it holds control
 *		characters, quotes or backslashes
 * @ret:	appended to; nothing when the texts are equal; its max bounds the diff
 *
 * Return: 0, -EMSGSIZE (there are too many lines, or the diff is larger than @ret->max), -ENOMEM.
 *On failure @ret is as it was.
 */
int text_diff(const char *a, size_t a_len, const char *b, size_t b_len, const char *name,
	      struct buf *ret);

#endif
