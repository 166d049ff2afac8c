/* SPDX-License-Identifier: MIT */
/*
 * Exact replacement (see text_edit.h).  Finding is memmem(3).  Looking for overlapping matches
 * starts it anew behind each first byte, so only as many are looked for as a sentence can name: a
 * text of one letter, with a long run of that letter sought, would otherwise cost the square of its
 * length.
 */
#include "workspace/text_edit.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define NAMED_MAX 16 /* matches whose lines are named: they must fit an err's sentence */

static size_t count_lf(const char *p, const char *end)
{
	size_t n = 0;

	while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		n++;
		p++;
	}
	return n;
}

/* ---- what may be wrong when nothing matches ----------------------------- */

enum fold {
	FOLD_LINE_ENDS = 1u << 0, /* CR LF and bare CR are LF */
	FOLD_CASE = 1u << 1,      /* ASCII */
	FOLD_BLANKS = 1u << 2,    /* spaces and tabs do not count */
};

/* In the order in which they are tried; the first that makes the text match is the hint. */
static const struct {
	unsigned how;
	const char *differs;
} hints[] = {
	{ FOLD_LINE_ENDS, "line ends (CR LF against LF)" },
	{ FOLD_LINE_ENDS | FOLD_CASE, "upper and lower case" },
	{ FOLD_LINE_ENDS | FOLD_BLANKS, "blanks" },
};

/* Writes the folded text to @dst, which has room for @n bytes.  Return: bytes. */
static size_t fold(char *dst, const char *p, size_t n, unsigned how)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		char c = p[i];

		if (c == '\r') {
			if (i + 1 < n && p[i + 1] == '\n')
				continue;
			c = '\n';
		}
		if ((how & FOLD_BLANKS) != 0 && (c == ' ' || c == '\t'))
			continue;
		if ((how & FOLD_CASE) != 0 && c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		dst[len++] = c;
	}
	return len;
}

/* The line where @e would match if the differences @how did not count; 0: nowhere. */
static size_t find_folded(const char *p, size_t n, const struct text_edit *e, unsigned how)
{
	auto_free char *text = malloc(n + 1);
	auto_free char *old = malloc(e->old_len + 1);
	size_t text_len, old_len;
	const char *at;

	if (text == NULL || old == NULL)
		return 0; /* it is only a hint */
	text_len = fold(text, p, n, how);
	old_len = fold(old, e->old_text, e->old_len, how);
	if (old_len == 0)
		return 0;
	at = memmem(text, text_len, old, old_len);
	return at == NULL ? 0 : count_lf(text, at) + 1;
}

static int refuse_absent(const char *p, size_t n, const struct text_edit *e, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
		size_t line = find_folded(p, n, e, hints[i].how);

		if (line > 0)
			return err_set(
				err, -ENOMSG,
				"the old text does not occur; at line %zu it differs only in %s",
				line, hints[i].differs);
	}
	return err_set(err, -ENOMSG, "the old text does not occur");
}

/* ---- what is wrong when too much matches -------------------------------- */

static const char *next_match(const char *from, const char *end, const struct text_edit *e)
{
	return memmem(from, (size_t)(end - from), e->old_text, e->old_len);
}

static int refuse_ambiguous(const char *p, size_t n, const struct text_edit *e, struct err *err)
{
	const char *end = p + n, *counted = p;
	char lines[NAMED_MAX * 11 + 1] = ""; /* ", " and up to 9 digits: texts are below 1 GB */
	size_t len = 0, n_matches = 0, line = 1;
	const char *at = p;

	while (n_matches <= NAMED_MAX && (at = next_match(at, end, e)) != NULL) {
		line += count_lf(counted, at);
		counted = at++;
		if (n_matches++ < NAMED_MAX)
			len += (size_t)snprintf(lines + len, sizeof(lines) - len, "%s%u",
						len > 0 ? ", " : "", (unsigned)line % 1000000000u);
	}
	if (n_matches > NAMED_MAX)
		return err_set(err, -ENOTUNIQ,
			       "the old text occurs more than %d times, at lines %s, ...",
			       NAMED_MAX, lines);
	return err_set(err, -ENOTUNIQ, "the old text occurs %zu times, at lines %s", n_matches,
		       lines);
}

/* ---- replacing ---------------------------------------------------------- */

static int replace(const char *p, size_t n, const struct text_edit *e, const char *first,
		   struct buf *ret, size_t *ret_n)
{
	const char *end = p + n, *from = p, *at = first;
	size_t n_replaced = 0;
	int rc = 0;

	while (rc == 0 && at != NULL) {
		rc = buf_append(ret, from, (size_t)(at - from));
		if (rc == 0)
			rc = buf_append(ret, e->new_text, e->new_len);
		n_replaced++;
		from = at + e->old_len;
		at = e->replace_all ? next_match(from, end, e) : NULL;
	}
	if (rc == 0)
		rc = buf_append(ret, from, (size_t)(end - from));
	if (rc == 0)
		*ret_n = n_replaced;
	return rc;
}

int text_edit_apply(const char *p, size_t n, const struct text_edit *e, struct buf *ret,
		    size_t *ret_n_replaced, struct err *err)
{
	size_t before = ret->len;
	const char *first;
	int rc;

	if (e->old_len == 0)
		return err_set(err, -EINVAL, "the old text must not be empty");
	if (e->old_len == e->new_len && memcmp(e->old_text, e->new_text, e->old_len) == 0)
		return err_set(err, -EINVAL, "the old and the new text are the same");
	first = n == 0 ? NULL : next_match(p, p + n, e);
	if (first == NULL)
		return refuse_absent(p, n, e, err);
	if (!e->replace_all && next_match(first + 1, p + n, e) != NULL)
		return refuse_ambiguous(p, n, e, err);
	rc = replace(p, n, e, first, ret, ret_n_replaced);
	if (rc < 0) {
		ret->len = before;
		return err_set(err, rc,
			       rc == -EMSGSIZE ? "the new text would be too large"
					       : "out of memory");
	}
	return 0;
}
