/* SPDX-License-Identifier: MIT */
/*
 * Exact replacement in a text: the one edit that an assistant can describe without line numbers,
 * and that must never touch a byte it was not asked to.
 *
 * Everything is bytes: no encoding is assumed, no line end is converted, no byte order mark is
 * looked at.  Old text with LF does not match CRLF; the refusal then says that only line ends
 * differ.  A line ends with LF; line numbers count from 1 and are those of a match's first byte.
 *
 * Matches that overlap are all counted when the text must be unique ("aa" occurs twice in "aaa", so
 * which one is meant is not clear).  Replacing all goes from the left and never looks into what it
 * wrote: "aaa" with "aa" -> "b" gives "ba", one replacement.
 *
 * Pure; any thread.
 */
#ifndef WORKSPACE_TEXT_EDIT_H
#define WORKSPACE_TEXT_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct text_edit {
	const char *old_text, *new_text; /* borrowed; any bytes */
	size_t old_len, new_len;         /* bytes */
	bool replace_all;
};

/**
 * text_edit_apply() - replace @e->old_text in @p
 * @p, @n:		the text; borrowed
 * @ret:		empty; gets the new text; its max bounds the result
 * @ret_n_replaced:	set on success
 * @err:		names the lines of the matches, or why there may be none
 *
 * Return: 0, -EINVAL (old text empty, or equal to the new), -ENOMSG (it does not occur), -ENOTUNIQ
 * (it occurs more than once and replace_all is not set), -EMSGSIZE (the result is larger than
 * @ret->max), -ENOMEM.  On failure @ret is as it was.
 */
int text_edit_apply(const char *p, size_t n, const struct text_edit *e, struct buf *ret,
		    size_t *ret_n_replaced, struct err *err);

#endif
