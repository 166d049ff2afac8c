/* SPDX-License-Identifier: MIT */
/*
 * Myers' greedy algorithm ("An O(ND) Difference Algorithm and Its Variations", 1986) on the lines
 * between the first and the last difference.
 *
 * What is equal at both ends is found by comparing bytes and never split into lines, so that the
 * usual case, one small change in a large file, costs two passes over its bytes.  Lines become
 * numbers, equal numbers for equal lines; the table that makes them is keyed, so that nobody can
 * write a file whose lines all fall together.
 */
#include "workspace/text_diff.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

#define LINES_MAX (1u << 19)  /* of both sides between the ends: bounds memory to some 16 MiB */
#define EDITS_MAX 1500        /* D of the paper: its trace takes D * D / 2 numbers, 4.5 MiB */
#define STEPS_MAX (32u << 20) /* comparisons of lines: some 100 ms */

struct side {
	const char *p; /* borrowed: the whole text */
	size_t len;
	size_t begin, end;   /* bytes: the part that differs, with context */
	size_t *at;          /* owned: where each line of the part begins, and its end: n + 1 */
	uint32_t *id;        /* owned: number of each line */
	unsigned char *gone; /* owned: the line is only on this side */
	size_t n;            /* lines in the part */
};

static void side_fini(struct side *s)
{
	free(s->at);
	free(s->id);
	free(s->gone);
}

/* ---- the ends that are equal -------------------------------------------- */

static size_t common_prefix(const char *a, const char *b, size_t max)
{
	size_t n = 0;

	/* memcmp is many times faster than a loop over bytes */
	while (max - n >= 4096 && memcmp(a + n, b + n, 4096) == 0)
		n += 4096;
	while (n < max && a[n] == b[n])
		n++;
	return n;
}

static size_t common_suffix(const char *a_end, const char *b_end, size_t max)
{
	size_t n = 0;

	while (max - n >= 4096 && memcmp(a_end - n - 4096, b_end - n - 4096, 4096) == 0)
		n += 4096;
	while (n < max && a_end[-1 - (ptrdiff_t)n] == b_end[-1 - (ptrdiff_t)n])
		n++;
	return n;
}

/* The start of the line that @at is in. */
static size_t line_start(const char *p, size_t at)
{
	const char *lf = at == 0 ? NULL : memrchr(p, '\n', at);

	return lf == NULL ? 0 : (size_t)(lf - p) + 1;
}

/* Behind the next LF, or @len. */
static size_t next_line(const char *p, size_t at, size_t len)
{
	const char *lf = at == len ? NULL : memchr(p + at, '\n', len - at);

	return lf == NULL ? len : (size_t)(lf - p) + 1;
}

/* Sets begin and end of both sides: whole lines, with room for context. */
static void trim(struct side *a, struct side *b)
{
	size_t shorter = MIN(a->len, b->len);
	size_t begin = line_start(a->p, common_prefix(a->p, b->p, shorter));
	size_t tail = common_suffix(a->p + a->len, b->p + b->len, shorter - begin);
	size_t at = a->len - tail;
	bool starts_line = (at == 0 || a->p[at - 1] == '\n') &&
			   (b->len == tail || b->p[b->len - tail - 1] == '\n');

	for (int i = starts_line ? 0 : -1; i < TEXT_DIFF_CONTEXT; i++)
		at = next_line(a->p, at, a->len);
	for (int i = 0; i < TEXT_DIFF_CONTEXT && begin > 0; i++)
		begin = line_start(a->p, begin - 1);
	a->begin = b->begin = begin;
	a->end = at;
	b->end = b->len - (a->len - at);
}

/* ---- lines and their numbers -------------------------------------------- */

static size_t count_lines(const struct side *s)
{
	size_t n = 0;

	for (size_t at = s->begin; at < s->end; at = next_line(s->p, at, s->end))
		n++;
	return n;
}

static int split(struct side *s)
{
	size_t n = 0;

	s->at = reallocarray(NULL, s->n + 1, sizeof(*s->at));
	s->id = reallocarray(NULL, s->n + 1, sizeof(*s->id));
	s->gone = calloc(s->n + 1, 1);
	if (s->at == NULL || s->id == NULL || s->gone == NULL)
		return -ENOMEM;
	for (size_t at = s->begin; at < s->end; at = next_line(s->p, at, s->end))
		s->at[n++] = at;
	s->at[n] = s->end;
	return 0;
}

struct line_table {
	const struct side *a, *b;
	uint32_t *slots; /* owned; 0, or 1 + a line: those of @b behind those of @a */
	size_t mask;
	unsigned char key[crypto_shorthash_KEYBYTES];
};

static const char *line_bytes(const struct side *s, size_t i, size_t *ret_len)
{
	*ret_len = s->at[i + 1] - s->at[i];
	return s->p + s->at[i];
}

/* The number of a line: the first line that is equal to it. */
static uint32_t line_id(struct line_table *t, uint32_t line)
{
	unsigned char hash[crypto_shorthash_BYTES];
	size_t len, other_len;
	const char *other, *p = line < t->a->n ? line_bytes(t->a, line, &len)
					       : line_bytes(t->b, line - t->a->n, &len);
	uint64_t slot;

	(void)crypto_shorthash(hash, (const unsigned char *)p, len, t->key);
	memcpy(&slot, hash, sizeof(slot));
	for (slot &= t->mask; t->slots[slot] != 0; slot = (slot + 1) & t->mask) {
		uint32_t seen = t->slots[slot] - 1;

		other = seen < t->a->n ? line_bytes(t->a, seen, &other_len)
				       : line_bytes(t->b, seen - t->a->n, &other_len);
		if (other_len == len && memcmp(other, p, len) == 0)
			return seen;
	}
	t->slots[slot] = line + 1;
	return line;
}

static int number_lines(struct side *a, struct side *b)
{
	struct line_table t = { .a = a, .b = b, .mask = 63 };

	while (t.mask < 2 * (a->n + b->n))
		t.mask = t.mask * 2 + 1;
	t.slots = calloc(t.mask + 1, sizeof(*t.slots));
	if (t.slots == NULL)
		return -ENOMEM;
	randombytes_buf(t.key, sizeof(t.key));
	for (size_t i = 0; i < a->n; i++)
		a->id[i] = line_id(&t, (uint32_t)i);
	for (size_t i = 0; i < b->n; i++)
		b->id[i] = line_id(&t, (uint32_t)(a->n + i));
	free(t.slots);
	return 0;
}

/* ---- Myers -------------------------------------------------------------- */

/* Row d of the trace holds, for k = -d, -d+2, ..., d, how far into @a the furthest path with d
 * edits came on diagonal k = x - y.  Rows lie one behind the other: row d begins at d*(d+1)/2. */
struct trace {
	uint32_t *x; /* owned */
	size_t cap;  /* numbers */
	size_t steps;
};

static size_t row_at(size_t d)
{
	return d * (d + 1) / 2;
}

/* Is the best step to diagonal @k of row @d one down, an insertion?  @i: index of @k in the row. */
static bool comes_from_above(const uint32_t *prev, size_t d, size_t i)
{
	return i == 0 || (i != d && prev[i - 1] < prev[i]);
}

static int grow_trace(struct trace *t, size_t need)
{
	size_t cap = MAX(t->cap * 2, (size_t)1024);
	uint32_t *x;

	if (need <= t->cap)
		return 0;
	x = reallocarray(t->x, MAX(cap, need), sizeof(*x));
	if (x == NULL)
		return -ENOMEM;
	t->x = x;
	t->cap = MAX(cap, need);
	return 0;
}

/* One row.  1: the end was reached, 0: not yet, -E2BIG: the bound is met. */
static int extend(struct trace *t, const struct side *a, const struct side *b, size_t d)
{
	uint32_t *row, *prev;

	if (grow_trace(t, row_at(d + 1)) < 0)
		return -ENOMEM;
	row = t->x + row_at(d);
	prev = d == 0 ? NULL : t->x + row_at(d - 1);
	for (size_t i = 0; i <= d; i++) {
		int64_t k = 2 * (int64_t)i - (int64_t)d;
		int64_t x = d == 0 ? 0 : comes_from_above(prev, d, i) ? prev[i] : prev[i - 1] + 1;
		int64_t y = x - k;

		while (x < (int64_t)a->n && y < (int64_t)b->n && y >= 0 && a->id[x] == b->id[y]) {
			x++;
			y++;
			t->steps++;
		}
		row[i] = (uint32_t)x;
		if (x >= (int64_t)a->n && y >= (int64_t)b->n)
			return 1;
	}
	t->steps += d;
	return t->steps > STEPS_MAX ? -E2BIG : 0;
}

/* Walks the trace back from the end and marks the lines that are only on one side. */
static void mark(const struct trace *t, struct side *a, struct side *b, size_t d)
{
	int64_t x = (int64_t)a->n, y = (int64_t)b->n;

	for (; d > 0; d--) {
		const uint32_t *prev = t->x + row_at(d - 1);
		size_t i = (size_t)((x - y + (int64_t)d) / 2);

		if (comes_from_above(prev, d, i)) {
			int64_t from = prev[i], k = x - y;

			x = from;
			y = from - k - 1;
			b->gone[y] = 1;
		} else {
			int64_t from = prev[i - 1], k = x - y;

			x = from;
			y = from - k + 1;
			a->gone[x] = 1;
		}
	}
}

static int compare(struct side *a, struct side *b)
{
	struct trace t = { 0 };
	int rc = 0;
	size_t d;

	for (d = 0; d < EDITS_MAX && rc == 0; d++)
		rc = extend(&t, a, b, d);
	if (rc == 1)
		mark(&t, a, b, d - 1);
	free(t.x);
	return rc == 1 ? 0 : rc == 0 ? -E2BIG : rc;
}

static void mark_all(struct side *a, struct side *b)
{
	size_t head = 0, tail = 0, shorter = MIN(a->n, b->n);

	while (head < shorter && a->id[head] == b->id[head])
		head++;
	while (tail < shorter - head && a->id[a->n - 1 - tail] == b->id[b->n - 1 - tail])
		tail++;
	memset(a->gone + head, 1, a->n - head - tail);
	memset(b->gone + head, 1, b->n - head - tail);
}

/* ---- writing ------------------------------------------------------------ */

static bool is_plain(const char *name)
{
	for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++) {
		if (*p < ' ' || *p == 0x7f || *p == '"' || *p == '\\')
			return false;
	}
	return true;
}

static int put_name(struct buf *ret, const char *mark, const char *name)
{
	int rc;

	if (is_plain(name)) /* a name with a blank ends with a tab, or a reader takes a part */
		return buf_printf(ret, "%s%s%s\n", mark, name,
				  strchr(name, ' ') != NULL ? "\t" : "");
	rc = buf_printf(ret, "%.4s\"%s", mark, mark + 4);
	for (const unsigned char *p = (const unsigned char *)name; *p != '\0' && rc == 0; p++) {
		if (*p < ' ' || *p == 0x7f)
			rc = buf_printf(ret, "\\%03o", *p);
		else
			rc = buf_printf(ret, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
	}
	return rc == 0 ? buf_puts(ret, "\"\n") : rc;
}

static int put_line(struct buf *ret, char mark, const struct side *s, size_t i)
{
	const char *p = s->p + s->at[i];
	size_t len = s->at[i + 1] - s->at[i];
	int rc = buf_append(ret, &mark, 1);

	if (rc == 0)
		rc = buf_append(ret, p, len);
	if (rc == 0 && p[len - 1] != '\n')
		rc = buf_puts(ret, "\n\\ No newline at end of file\n");
	return rc;
}

/* "12,3" in a hunk's header: an empty range names the line before it, and a count of 1 is left
 * out. */
static int put_range(struct buf *ret, char mark, size_t first, size_t n)
{
	if (n == 1)
		return buf_printf(ret, " %c%zu", mark, first);
	return buf_printf(ret, " %c%zu,%zu", mark, n == 0 ? first - 1 : first, n);
}

struct hunk {
	size_t a0, a1, b0, b1; /* lines of the part: [0, 1) */
};

static int put_hunk(struct buf *ret, const struct side *a, const struct side *b,
		    const struct hunk *h, size_t base)
{
	size_t i = h->a0, j = h->b0;
	int rc = buf_puts(ret, "@@");

	if (rc == 0)
		rc = put_range(ret, '-', base + h->a0 + 1, h->a1 - h->a0);
	if (rc == 0)
		rc = put_range(ret, '+', base + h->b0 + 1, h->b1 - h->b0);
	if (rc == 0)
		rc = buf_puts(ret, " @@\n");
	while (rc == 0 && (i < h->a1 || j < h->b1)) {
		if (i < h->a1 && a->gone[i]) {
			rc = put_line(ret, '-', a, i++);
		} else if (j < h->b1 && b->gone[j]) {
			rc = put_line(ret, '+', b, j++);
		} else {
			rc = put_line(ret, ' ', a, i++);
			j++;
		}
	}
	return rc;
}

static bool is_changed(const struct side *a, const struct side *b, size_t i, size_t j)
{
	return (i < a->n && a->gone[i]) || (j < b->n && b->gone[j]);
}

/* The next hunk from (a1, b1) on: false when there is no further change. */
static bool next_hunk(const struct side *a, const struct side *b, struct hunk *h)
{
	size_t i = h->a1, j = h->b1, lead, quiet = 0;

	while (i < a->n && !is_changed(a, b, i, j)) {
		i++;
		j++;
	}
	if (!is_changed(a, b, i, j))
		return false;
	lead = MIN(i - h->a1, (size_t)TEXT_DIFF_CONTEXT);
	h->a0 = i - lead;
	h->b0 = j - lead;
	/* Two changes with no more than twice the context between them share a hunk. */
	while ((i < a->n || j < b->n) && quiet <= 2 * TEXT_DIFF_CONTEXT) {
		if (is_changed(a, b, i, j)) {
			quiet = 0;
			i += i < a->n && a->gone[i];
			j += j < b->n && b->gone[j];
		} else {
			quiet++;
			i++;
			j++;
		}
	}
	if (quiet > TEXT_DIFF_CONTEXT) {
		i -= quiet - TEXT_DIFF_CONTEXT;
		j -= quiet - TEXT_DIFF_CONTEXT;
	}
	h->a1 = i;
	h->b1 = j;
	return true;
}

static int put_diff(struct buf *ret, const struct side *a, const struct side *b, const char *name)
{
	struct hunk h = { 0 };
	size_t base = 0;
	int rc = put_name(ret, "--- a/", name);

	if (rc == 0)
		rc = put_name(ret, "+++ b/", name);
	for (size_t at = 0; at < a->begin; at = next_line(a->p, at, a->begin))
		base++;
	while (rc == 0 && next_hunk(a, b, &h))
		rc = put_hunk(ret, a, b, &h, base);
	return rc;
}

static int diff_sides(struct side *a, struct side *b, const char *name, struct buf *ret)
{
	int rc;

	a->n = count_lines(a);
	b->n = count_lines(b);
	if (a->n + b->n > LINES_MAX)
		return -EMSGSIZE;
	rc = split(a);
	if (rc == 0)
		rc = split(b);
	if (rc == 0)
		rc = number_lines(a, b);
	if (rc == 0)
		rc = compare(a, b);
	if (rc == -E2BIG)
		mark_all(a, b);
	else if (rc < 0)
		return rc;
	return put_diff(ret, a, b, name);
}

int text_diff(const char *a, size_t a_len, const char *b, size_t b_len, const char *name,
	      struct buf *ret)
{
	struct side sa = { .p = a, .len = a_len };
	struct side sb = { .p = b, .len = b_len };
	size_t before = ret->len;
	int rc;

	if (a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0))
		return 0;
	trim(&sa, &sb);
	rc = diff_sides(&sa, &sb, name, ret);
	if (rc < 0)
		ret->len = before;
	side_fini(&sa);
	side_fini(&sb);
	return rc;
}
