/* SPDX-License-Identifier: MIT */
/*
 * Unified diffs (see text_patch.h).  Reading checks everything that can be known without the text:
 * counts, order, a single file.  Applying goes once through the text; a hunk's old lines are put
 * together into one block first, so that landing is one comparison of bytes.
 */
#include "workspace/text_patch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

#define LINE_NUMBER_MAX 1000000000u /* in headers: sums of two still fit 32 bits */
#define SEARCHES_MAX    8           /* rejected hunks whose lines are looked for elsewhere */

/* ---- lines of the patch ------------------------------------------------- */

struct reader {
	const char *p; /* borrowed */
	size_t len, at;
	size_t n_line; /* of the line that was read last */
	const char *line;
	size_t line_len; /* with its LF */
};

static bool read_line(struct reader *r)
{
	const char *lf;

	if (r->at == r->len)
		return false;
	r->line = r->p + r->at;
	lf = memchr(r->line, '\n', r->len - r->at);
	r->line_len = lf != NULL ? (size_t)(lf - r->line) + 1 : r->len - r->at;
	r->at += r->line_len;
	r->n_line++;
	return true;
}

static void unread_line(struct reader *r)
{
	r->at -= r->line_len;
	r->n_line--;
}

static bool starts_with(const struct reader *r, const char *word)
{
	size_t n = strlen(word);

	return r->line_len >= n && memcmp(r->line, word, n) == 0;
}

static bool is_blank(const struct reader *r)
{
	for (size_t i = 0; i < r->line_len; i++) {
		if (r->line[i] != '\r' && r->line[i] != '\n')
			return false;
	}
	return true;
}

static bool names_dev_null(const struct reader *r)
{
	static const char name[] = "/dev/null";
	size_t n = 4 + sizeof(name) - 1;

	return r->line_len >= n && memcmp(r->line + 4, name, sizeof(name) - 1) == 0 &&
	       (r->line_len == n || memchr("\t\r\n", r->line[n], 3) != NULL);
}

/* ---- the header of a hunk ----------------------------------------------- */

/* Digits at *@p into *@ret.  False: none, or too many. */
static bool take_number(const char **p, const char *end, size_t *ret)
{
	const char *from = *p;
	size_t v = 0;

	for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
		v = v * 10 + (size_t)(**p - '0');
		if (v > LINE_NUMBER_MAX)
			return false;
	}
	*ret = v;
	return *p > from;
}

static bool take_text(const char **p, const char *end, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
		return false;
	*p += n;
	return true;
}

/* "12,3" or "12", which is "12,1". */
static bool take_range(const char **p, const char *end, size_t *ret_start, size_t *ret_len)
{
	if (!take_number(p, end, ret_start))
		return false;
	*ret_len = 1;
	return !take_text(p, end, ",") || take_number(p, end, ret_len);
}

static int read_hunk_header(const struct reader *r, struct text_patch_hunk *h, struct err *err)
{
	const char *p = r->line, *end = r->line + r->line_len;

	if (!take_text(&p, end, "@@ -") || !take_range(&p, end, &h->old_start, &h->old_len) ||
	    !take_text(&p, end, " +") || !take_range(&p, end, &h->new_start, &h->new_len) ||
	    !take_text(&p, end, " @@"))
		return err_set(err, -EINVAL,
			       "line %zu of the patch: a hunk's header is "
			       "'@@ -LINE,COUNT +LINE,COUNT @@'",
			       r->n_line);
	if (h->old_start == 0 && h->old_len > 0)
		return err_set(err, -EINVAL, "line %zu of the patch: lines count from 1",
			       r->n_line);
	if (h->old_len == 0 && h->new_len == 0)
		return err_set(err, -EINVAL, "line %zu of the patch: the hunk is empty", r->n_line);
	h->patch_line = r->n_line;
	return 0;
}

/* ---- the lines of a hunk ------------------------------------------------ */

/* What the first byte of a hunk's line says: ' ', '-', '+', '\\', or 0 for what is none.  A line
 * without even the blank is an empty line of context. */
static char line_mark(const struct reader *r)
{
	char c = r->line[0];

	if (c == '\n' || c == '\r')
		return ' ';
	return c == ' ' || c == '-' || c == '+' || c == '\\' ? c : '\0';
}

/* Where one is in a hunk. */
struct hunk_state {
	size_t n_old, n_new;
	char last;               /* mark of the line before */
	bool old_ends, new_ends; /* "\\ No newline": that side has no further line */
};

/* Takes one line.  NULL, or what is wrong. */
static const char *take_hunk_line(struct hunk_state *s, const struct text_patch_hunk *h, char mark)
{
	bool is_old = mark == ' ' || mark == '-', is_new = mark == ' ' || mark == '+';

	if (mark == '\0')
		return "has fewer lines than its header says";
	if ((is_old && s->old_ends) || (is_new && s->new_ends))
		return "goes on behind '\\ No newline at end of file'";
	if (mark == '\\') {
		s->old_ends = s->old_ends || s->last == ' ' || s->last == '-';
		s->new_ends = s->new_ends || s->last == ' ' || s->last == '+';
	}
	s->n_old += is_old;
	s->n_new += is_new;
	s->last = mark;
	if (s->n_old > h->old_len || s->n_new > h->new_len)
		return "has more lines than its header says";
	return NULL;
}

static int read_hunk_lines(struct reader *r, struct text_patch_hunk *h, size_t number,
			   struct err *err)
{
	struct hunk_state s = { 0 };

	h->begin = r->at;
	while (s.n_old < h->old_len || s.n_new < h->new_len) {
		char mark = read_line(r) ? line_mark(r) : '\0';
		const char *wrong = take_hunk_line(&s, h, mark);

		if (wrong != NULL)
			return err_set(err, -EINVAL, "line %zu of the patch: hunk %zu %s",
				       r->n_line, number, wrong);
	}
	if (read_line(r) && line_mark(r) != '\\')
		unread_line(r);
	h->end = r->at;
	return 0;
}

/* ---- the whole ---------------------------------------------------------- */

static int add_hunk(struct text_patch *patch, struct reader *r, struct err *err)
{
	struct text_patch_hunk *h, *before;
	size_t n = patch->n_hunks;
	int rc;

	if (n == TEXT_PATCH_HUNKS_MAX)
		return err_set(err, -EMSGSIZE, "a patch may have at most %d hunks",
			       TEXT_PATCH_HUNKS_MAX);
	if ((n & (n - 1)) == 0) { /* full at each power of two */
		h = reallocarray(patch->hunks, n == 0 ? 1 : n * 2, sizeof(*h));
		if (h == NULL)
			return err_set(err, -ENOMEM, "out of memory");
		patch->hunks = h;
	}
	h = &patch->hunks[n];
	before = n > 0 ? h - 1 : NULL;
	rc = read_hunk_header(r, h, err);
	if (rc == 0 && before != NULL &&
	    h->old_start + (h->old_len == 0) <
		    before->old_start + before->old_len + (before->old_len == 0))
		rc = err_set(err, -EINVAL,
			     "line %zu of the patch: hunk %zu begins before the end of the one "
			     "before it",
			     r->n_line, n + 1);
	if (rc == 0)
		rc = read_hunk_lines(r, h, n + 1, err);
	if (rc == 0)
		patch->n_hunks++;
	return rc;
}

/* Before the first hunk: anything, until "---", "+++" or "@@". */
static int read_preamble(struct text_patch *patch, struct reader *r, struct err *err)
{
	while (read_line(r)) {
		if (starts_with(r, "@@ ")) {
			unread_line(r);
			return 0;
		}
		if (starts_with(r, "GIT binary patch") || starts_with(r, "Binary files "))
			return err_set(err, -EINVAL,
				       "line %zu of the patch: binary patches are not supported",
				       r->n_line);
		if (starts_with(r, "rename to ") || starts_with(r, "copy to "))
			return err_set(err, -EINVAL,
				       "line %zu of the patch: it would move the file; use move",
				       r->n_line);
		if (starts_with(r, "--- ") && names_dev_null(r))
			patch->is_creation = true;
		if (starts_with(r, "+++ ") && names_dev_null(r))
			return err_set(err, -EINVAL,
				       "line %zu of the patch: it would remove the file; use "
				       "DELETE",
				       r->n_line);
	}
	return err_set(err, -EINVAL, "the patch has no hunk: none of its lines begins with '@@ '");
}

/* Behind a hunk: another one, blank lines, or the "-- " and version that git adds to mails. */
static int read_hunks(struct text_patch *patch, struct reader *r, struct err *err)
{
	while (read_line(r)) {
		int rc = 0;

		if (starts_with(r, "@@ "))
			rc = add_hunk(patch, r, err);
		else if (starts_with(r, "-- ") || (starts_with(r, "--") && r->line_len == 3))
			return 0;
		else if (starts_with(r, "--- ") || starts_with(r, "diff "))
			rc = err_set(err, -EINVAL,
				     "line %zu of the patch: a second file begins; send one patch "
				     "for each file",
				     r->n_line);
		else if (line_mark(r) != '\0' && !is_blank(r))
			rc = err_set(err, -EINVAL,
				     "line %zu of the patch: hunk %zu has more lines than its "
				     "header says",
				     r->n_line, patch->n_hunks);
		else if (!is_blank(r))
			rc = err_set(err, -EINVAL,
				     "line %zu of the patch: not a part of a unified diff",
				     r->n_line);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int text_patch_parse(const char *p, size_t n, struct text_patch *ret, struct err *err)
{
	struct text_patch patch = { .p = p, .len = n };
	struct reader r = { .p = p, .len = n };
	int rc = read_preamble(&patch, &r, err);

	if (rc == 0)
		rc = read_hunks(&patch, &r, err);
	if (rc < 0)
		text_patch_fini(&patch);
	else
		*ret = patch;
	return rc;
}

void text_patch_fini(struct text_patch *patch)
{
	free(patch->hunks);
	patch->hunks = NULL;
	patch->n_hunks = 0;
}

/* ---- applying ----------------------------------------------------------- */

/* Where we are in the old text. */
struct cursor {
	const char *p; /* borrowed */
	size_t len, at;
	size_t line; /* lines before @at */
};

/* One side of a hunk: its context and the lines marked @mine, as they stand in the text. */
static int build_side(const struct text_patch *patch, const struct text_patch_hunk *h, char mine,
		      struct buf *ret)
{
	struct reader r = { .p = patch->p, .len = h->end, .at = h->begin };
	bool is_ours = false;

	buf_reset(ret);
	while (read_line(&r)) {
		char mark = line_mark(&r);
		size_t skip = r.line[0] == mark;
		int rc = 0;

		if (mark == '\\') { /* the line before it has no LF */
			if (is_ours && ret->len > 0)
				ret->len--;
			is_ours = false;
			continue;
		}
		is_ours = mark == ' ' || mark == mine;
		if (is_ours)
			rc = buf_append(ret, r.line + skip, r.line_len - skip);
		if (rc == 0 && is_ours && r.line[r.line_len - 1] != '\n')
			rc = buf_append(ret, "\n", 1); /* the patch itself ended early */
		if (rc < 0)
			return rc;
	}
	return 0;
}

static bool ends_line(const struct buf *b)
{
	return b->len == 0 || b->data[b->len - 1] == '\n';
}

static bool skip_line(struct cursor *c)
{
	const char *lf;

	if (c->at == c->len)
		return false;
	lf = memchr(c->p + c->at, '\n', c->len - c->at);
	c->at = lf != NULL ? (size_t)(lf - c->p) + 1 : c->len;
	c->line++;
	return true;
}

static void reject(struct text_patch_outcome *o, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void reject(struct text_patch_outcome *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(o->reason, sizeof(o->reason), fmt, ap);
	va_end(ap);
}

/* The line where the block is in the text, other than where it should be; 0: nowhere. */
static size_t find_elsewhere(const struct cursor *whole, const struct buf *block)
{
	struct cursor c = { .p = whole->p, .len = whole->len };
	const char *from = c.p, *end = c.p + c.len, *hit;

	while (block->len > 0 && c.len > 0 &&
	       (hit = memmem(from, (size_t)(end - from), block->data, block->len)) != NULL) {
		while (c.p + c.at < hit)
			(void)skip_line(&c);
		if (c.p + c.at == hit && (ends_line(block) || hit + block->len == end))
			return c.line + 1;
		if (c.p + c.at == hit)
			(void)skip_line(&c);
		from = c.p + c.at; /* not at the start of a line: go on with the next line */
	}
	return 0;
}

static size_t without_line_end(const char *p, size_t n)
{
	while (n > 0 && (p[n - 1] == '\r' || p[n - 1] == '\n'))
		n--;
	return n;
}

/* Says which line of the text is the first that the block does not agree with. */
static void explain(struct cursor c, const struct buf *block, struct text_patch_outcome *o)
{
	struct cursor b = { .p = (const char *)block->data, .len = block->len };

	for (;;) {
		const char *have = c.p + c.at, *want = b.p + b.at;
		size_t have_len, want_len;

		if (!skip_line(&b))
			break;
		if (!skip_line(&c)) {
			reject(o, "the file ends before line %zu", c.line + 1);
			return;
		}
		have_len = (size_t)(c.p + c.at - have);
		want_len = (size_t)(b.p + b.at - want);
		if (have_len == want_len && memcmp(have, want, have_len) == 0)
			continue;
		have_len = without_line_end(have, have_len);
		want_len = without_line_end(want, want_len);
		if (have_len == want_len && memcmp(have, want, have_len) == 0)
			reject(o, "line %zu of the file differs in its line end", c.line);
		else
			reject(o, "line %zu of the file is not what the patch expects", c.line);
		return;
	}
	reject(o, "the file goes on behind line %zu, where the patch says that it ends", c.line);
}

/* Does the hunk fit at @c, which stands where it says?  Otherwise the reason is set. */
static bool fits(const struct cursor *c, const struct text_patch_hunk *h, const struct buf *old,
		 const struct buf *new, struct text_patch_outcome *o)
{
	size_t rest = c->len - c->at;
	bool is_last;

	if (old->len > rest || (old->len > 0 && memcmp(c->p + c->at, old->data, old->len) != 0) ||
	    (!ends_line(old) && old->len < rest)) {
		explain(*c, old, o);
		return false;
	}
	is_last = old->len == rest;
	if (h->old_len == 0 && c->at > 0 && c->p[c->at - 1] != '\n') {
		reject(o, "line %zu of the file has no line end behind it", c->line);
		return false;
	}
	if (!ends_line(new) && !is_last) {
		reject(o, "only the last line of a file can lack its line end");
		return false;
	}
	return true;
}

struct apply {
	const struct text_patch *patch;
	struct cursor c;
	struct buf old, new; /* owned: the sides of the present hunk */
	struct buf *ret;
	size_t n_new; /* lines in @ret before c.at, as a difference to c.line: may wrap */
	unsigned n_searches;
	size_t n_landed;
};

/* Goes to where hunk @h belongs, and copies what lies before. */
static int go_to(struct apply *a, const struct text_patch_hunk *h, bool *ret_there)
{
	size_t before = h->old_len == 0 ? h->old_start : h->old_start - 1;
	size_t from = a->c.at;

	while (a->c.line < before && *ret_there)
		*ret_there = skip_line(&a->c);
	return buf_append(a->ret, a->c.p + from, a->c.at - from);
}

static int land(struct apply *a, const struct text_patch_hunk *h)
{
	a->c.at += a->old.len;
	a->c.line += h->old_len;
	a->n_new += h->new_len - h->old_len;
	a->n_landed++;
	return buf_append(a->ret, a->new.data, a->new.len);
}

static int apply_hunk(struct apply *a, const struct text_patch_hunk *h,
		      struct text_patch_outcome *o)
{
	size_t elsewhere;
	bool is_there = true;
	int rc = build_side(a->patch, h, '-', &a->old);

	if (rc == 0)
		rc = build_side(a->patch, h, '+', &a->new);
	if (rc == 0)
		rc = go_to(a, h, &is_there);
	if (rc < 0)
		return rc;
	*o = (struct text_patch_outcome){ .line = MAX(h->old_start, (size_t)1) };
	if (!is_there) {
		reject(o, "the file has only %zu lines", a->c.line);
	} else if (fits(&a->c, h, &a->old, &a->new, o)) {
		o->has_landed = true;
		o->line = a->c.line + 1 + a->n_new;
		return land(a, h);
	}
	elsewhere = a->n_searches++ < SEARCHES_MAX ? find_elsewhere(&a->c, &a->old) : 0;
	if (elsewhere > 0) {
		size_t len = strlen(o->reason);

		(void)snprintf(o->reason + len, sizeof(o->reason) - len,
			       "; its lines are at line %zu", elsewhere);
	}
	return 0;
}

int text_patch_apply(const struct text_patch *patch, const char *p, size_t n, struct buf *ret,
		     struct text_patch_outcome *outcomes, size_t *ret_n_landed)
{
	struct apply a = { .patch = patch, .c = { .p = p, .len = n }, .ret = ret };
	size_t before = ret->len;
	int rc = 0;

	for (size_t i = 0; i < patch->n_hunks && rc == 0; i++)
		rc = apply_hunk(&a, &patch->hunks[i], &outcomes[i]);
	if (rc == 0)
		rc = buf_append(ret, p + a.c.at, n - a.c.at);
	if (rc == 0)
		*ret_n_landed = a.n_landed;
	else
		ret->len = before;
	buf_free(&a.old);
	buf_free(&a.new);
	return rc;
}
