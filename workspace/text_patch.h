/* SPDX-License-Identifier: MIT */
/*
 * Unified diffs applied to one text, without fuzz: a hunk lands where it says or not at all.
 *
 * A hunk's position is that in the old text; in the new text it is moved by what earlier hunks that
 * landed added or took away.  Every line of context and every removed line must be equal, byte for
 * byte, line end included.  Where lines would be equal elsewhere, the report says so, but the hunk
 * does not land: the second of two similar places is how fuzz ruins files.
 *
 * What is read: an optional preamble (a commit's message, "diff", "index", ...), an optional pair
 * "---" and "+++", and hunks; all for one file.  The names do not matter, the caller knows which
 * file is meant; but a second file, or a "+++ /dev/null" that would remove it, is refused.  Inside
 * a hunk an empty line stands for an empty line of context, since mailers and editors cut the
 * blank. Counts in a hunk's header must be right.
 *
 * Pure; any thread.
 */
#ifndef WORKSPACE_TEXT_PATCH_H
#define WORKSPACE_TEXT_PATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define TEXT_PATCH_HUNKS_MAX 1000

struct text_patch_hunk {
	size_t old_start, old_len; /* lines, from 1; with no old lines the one to insert behind */
	size_t new_start, new_len;
	size_t begin, end; /* bytes of the patch: its lines */
	size_t patch_line; /* of its "@@" in the patch, from 1 */
};

struct text_patch {
	const char *p; /* borrowed: the patch */
	size_t len;
	struct text_patch_hunk *hunks; /* owned */
	size_t n_hunks;
	bool is_creation; /* "--- /dev/null": the file does not exist before */
};

struct text_patch_outcome {
	bool has_landed;
	size_t line; /* where it landed in the new text; else where it should have in the old */
	char reason[160]; /* why not; "" when it landed */
};

/**
 * text_patch_parse() - read all hunks
 * @p, @n:	borrowed until text_patch_fini()
 *
 * Return: 0, -EINVAL (not a unified diff of one file; the sentence names the line), -EMSGSIZE (too
 * many hunks), -ENOMEM.
 */
int text_patch_parse(const char *p, size_t n, struct text_patch *ret, struct err *err);
void text_patch_fini(struct text_patch *patch);

/**
 * text_patch_apply() - the text with the hunks that land
 * @p, @n:		the old text; borrowed
 * @ret:		empty; gets the new text; its max bounds the result
 * @outcomes:		patch->n_hunks of them; set on success
 * @ret_n_landed:	set on success; with less than n_hunks the caller decides what to do
 *
 * Return: 0, -EMSGSIZE (the result is larger than @ret->max), -ENOMEM.  On failure @ret is as it
 * was.
 */
int text_patch_apply(const struct text_patch *patch, const char *p, size_t n, struct buf *ret,
		     struct text_patch_outcome *outcomes, size_t *ret_n_landed);

#endif
