/* SPDX-License-Identifier: MIT */
/*
 * What search.c compares lines with: a literal or a PCRE2 pattern.  Apart from it so that one file
 * knows PCRE2.
 */
#ifndef WORKSPACE_SEARCH_PATTERN_H
#define WORKSPACE_SEARCH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct search_pattern;

/* search_pattern_new() - the pattern's bytes are borrowed until search_pattern_free().  Owned on
 * success; -EINVAL with a sentence, -ENOMEM. */
int search_pattern_new(const char *p, size_t n, bool is_regex, bool ignore_case,
		       struct search_pattern **ret, struct err *err);
void search_pattern_free(struct search_pattern *sp);

/* search_pattern_literal() - true: memmem(3) with these bytes is all there is to it */
bool search_pattern_literal(const struct search_pattern *sp, const char **ret, size_t *ret_len);

/* search_pattern_works_on() - can it be compared with text that is, or is not, valid UTF-8? */
bool search_pattern_works_on(const struct search_pattern *sp, bool is_utf8);

/**
 * search_pattern_find() - the first match in a line
 * @is_utf8:	the line is valid UTF-8
 * @must_stop:	asked between pieces of work that take less than a second or so
 * @ret_at, @ret_len: bytes of the line
 *
 * Return: 1, 0, -E2BIG (too many steps), -EINTR (@must_stop said so).
 */
int search_pattern_find(struct search_pattern *sp, const char *line, size_t len, bool is_utf8,
			bool (*must_stop)(void *arg), void *arg, size_t *ret_at, size_t *ret_len);

#endif
