/* SPDX-License-Identifier: MIT */
/*
 * Patterns over paths (see glob.h).  The machine is that of Thompson ("Regular Expression Search
 * Algorithm", 1968): a list of steps, and a set of those one may be at after each character.  No
 * backtracking, so no pattern can be slow.
 */
#include "workspace/glob.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define STEPS_MAX (4 * GLOB_PATTERN_MAX) /* "?" is one step, "*" three, the others are less */
#define NEST_MAX  8                      /* braces in braces */
#define NO_STEP   UINT16_MAX

enum op {
	OP_CHAR,  /* c */
	OP_NAME,  /* any but '/' */
	OP_ANY,   /* any */
	OP_CLASS, /* of the n ranges at ranges[x]; negated by y */
	OP_FORK,  /* x and y */
	OP_JUMP,  /* x */
	OP_MATCH,
};

struct step {
	uint8_t op;
	uint16_t x, y;
	uint32_t c; /* a character, or the number of ranges */
};

struct range {
	uint32_t from, to;
};

struct glob {
	bool is_path; /* compare with the whole path, not with the last component */
	uint16_t n_steps, n_ranges;
	struct range ranges[GLOB_PATTERN_MAX]; /* each takes at least a byte of the pattern */
	struct step steps[STEPS_MAX];
};

/* ---- compiling ---------------------------------------------------------- */

struct compiler {
	struct glob *g;
	const char *p; /* borrowed: the pattern */
	size_t len, at;
	unsigned nest;
	struct err *err;
};

static int emit(struct compiler *c, enum op op, uint32_t ch, uint16_t x, uint16_t y)
{
	if (c->g->n_steps == STEPS_MAX)
		return err_set(c->err, -EINVAL, "the pattern is too long");
	c->g->steps[c->g->n_steps++] = (struct step){ .op = (uint8_t)op, .x = x, .y = y, .c = ch };
	return 0;
}

/* Any number of what @op takes. */
static int emit_loop(struct compiler *c, enum op op)
{
	uint16_t at = c->g->n_steps;
	int rc = emit(c, OP_FORK, 0, (uint16_t)(at + 1), (uint16_t)(at + 3));

	if (rc == 0)
		rc = emit(c, op, 0, 0, 0);
	if (rc == 0)
		rc = emit(c, OP_JUMP, 0, at, 0);
	return rc;
}

/* Nothing, or anything that ends with '/'. */
static int emit_directories(struct compiler *c)
{
	uint16_t at = c->g->n_steps;
	int rc = emit(c, OP_FORK, 0, (uint16_t)(at + 1), (uint16_t)(at + 5));

	if (rc == 0)
		rc = emit_loop(c, OP_ANY);
	if (rc == 0)
		rc = emit(c, OP_CHAR, '/', 0, 0);
	return rc;
}

static char peek(const struct compiler *c, size_t ahead)
{
	return c->at + ahead < c->len ? c->p[c->at + ahead] : '\0';
}

static bool is_edge(const struct compiler *c, size_t at, const char *others)
{
	return at >= c->len || strchr(others, c->p[at]) != NULL;
}

static int compile_stars(struct compiler *c)
{
	size_t from = c->at;
	bool begins = from == 0 || is_edge(c, from - 1, "/{,");
	int rc;

	while (peek(c, 0) == '*')
		c->at++;
	if (c->at - from < 2 || !begins || !is_edge(c, c->at, "/,}"))
		return emit_loop(c, OP_NAME);
	if (peek(c, 0) == '/') {
		c->at++;
		return emit_directories(c);
	}
	rc = emit(c, OP_ANY, 0, 0, 0);
	return rc == 0 ? emit_loop(c, OP_ANY) : rc;
}

/* One character of a class, escaped or not. */
static int take_class_char(struct compiler *c, uint32_t *ret)
{
	size_t len;

	if (peek(c, 0) == '\\' && c->at + 1 < c->len)
		c->at++;
	if (c->at >= c->len)
		return err_set(c->err, -EINVAL, "the pattern has a '[' that is not closed");
	*ret = utf8_take(c->p + c->at, c->len - c->at, &len);
	c->at += len;
	return 0;
}

static int compile_class(struct compiler *c)
{
	struct glob *g = c->g;
	uint16_t first = g->n_ranges;
	bool is_negated;
	int rc = 0;

	c->at++;
	is_negated = peek(c, 0) == '!' || peek(c, 0) == '^';
	c->at += is_negated;
	/* a ']' that comes first is one of the characters */
	while (rc == 0 && (peek(c, 0) != ']' || c->at >= c->len || g->n_ranges == first)) {
		struct range r;

		rc = take_class_char(c, &r.from);
		r.to = r.from;
		if (rc == 0 && peek(c, 0) == '-' && peek(c, 1) != ']' && c->at + 1 < c->len) {
			c->at++;
			rc = take_class_char(c, &r.to);
		}
		if (rc == 0 && r.to < r.from)
			rc = err_set(c->err, -EINVAL,
				     "the pattern has a range that ends before it begins");
		if (rc == 0)
			g->ranges[g->n_ranges++] = r;
	}
	if (rc < 0)
		return rc;
	c->at++;
	return emit(c, OP_CLASS, (uint32_t)(g->n_ranges - first), first, is_negated);
}

static int compile_sequence(struct compiler *c);

/* Each alternative begins with a fork to it and to the next one, and ends with a jump to the end;
 * jumps are chained through their x until the end is known. */
static int compile_braces(struct compiler *c)
{
	struct step *steps = c->g->steps;
	uint16_t chain = NO_STEP, fork;
	int rc;

	if (++c->nest > NEST_MAX)
		return err_set(c->err, -EINVAL, "the pattern nests more than %d braces", NEST_MAX);
	do {
		c->at++; /* '{' or ',' */
		fork = c->g->n_steps;
		rc = emit(c, OP_FORK, 0, (uint16_t)(fork + 1), 0);
		if (rc == 0)
			rc = compile_sequence(c);
		if (rc == 0)
			rc = emit(c, OP_JUMP, 0, chain, 0);
		if (rc < 0)
			return rc;
		chain = (uint16_t)(c->g->n_steps - 1);
		steps[fork].y = c->g->n_steps;
	} while (peek(c, 0) == ',');
	if (c->at >= c->len)
		return err_set(c->err, -EINVAL, "the pattern has a '{' that is not closed");
	c->at++;
	steps[fork].op = OP_JUMP; /* behind the last there is no other */
	while (chain != NO_STEP) {
		uint16_t next = steps[chain].x;

		steps[chain].x = c->g->n_steps;
		chain = next;
	}
	c->nest--;
	return 0;
}

static int compile_char(struct compiler *c)
{
	size_t len;
	uint32_t ch;

	if (peek(c, 0) == '\\' && ++c->at == c->len)
		return err_set(c->err, -EINVAL, "the pattern ends with a '\\'");
	ch = utf8_take(c->p + c->at, c->len - c->at, &len);
	c->at += len;
	return emit(c, OP_CHAR, ch, 0, 0);
}

/* Up to the end, or inside braces up to ',' or '}'. */
static int compile_sequence(struct compiler *c)
{
	int rc = 0;

	while (rc == 0 && c->at < c->len) {
		char ch = peek(c, 0);

		if (c->nest > 0 && (ch == ',' || ch == '}'))
			break;
		switch (ch) {
		case '*':
			rc = compile_stars(c);
			break;
		case '?':
			c->at++;
			rc = emit(c, OP_NAME, 0, 0, 0);
			break;
		case '[':
			rc = compile_class(c);
			break;
		case '{':
			rc = compile_braces(c);
			break;
		default:
			rc = compile_char(c);
		}
	}
	return rc;
}

int glob_new(const char *pattern, size_t n, struct glob **ret, struct err *err)
{
	struct compiler c = { .p = pattern, .len = n, .err = err };
	int rc;

	if (n == 0)
		return err_set(err, -EINVAL, "the pattern is empty");
	if (n > GLOB_PATTERN_MAX)
		return err_set(err, -EINVAL, "the pattern has more than %d bytes",
			       GLOB_PATTERN_MAX);
	c.g = calloc(1, sizeof(*c.g));
	if (c.g == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	if (n > 1 && pattern[n - 1] == '/')
		c.len = --n; /* "node_modules/" is said of directories */
	c.g->is_path = memchr(pattern, '/', n) != NULL;
	c.at = pattern[0] == '/';
	rc = compile_sequence(&c);
	if (rc == 0)
		rc = emit(&c, OP_MATCH, 0, 0, 0);
	if (rc < 0)
		free(c.g);
	else
		*ret = c.g;
	return rc;
}

void glob_free(struct glob *g)
{
	free(g);
}

/* ---- matching ----------------------------------------------------------- */

/* The steps that take a character, each once. */
struct step_set {
	uint16_t n;
	uint16_t at[STEPS_MAX];
};

struct run {
	const struct glob *g;
	struct step_set now, next;
	uint32_t seen[STEPS_MAX]; /* the round in which a step was added last */
	uint32_t round;
	bool has_match;
};

/* Adds @first and what it leads to without taking a character. */
static void add(struct run *r, struct step_set *set, uint16_t first)
{
	uint16_t todo[STEPS_MAX + 1]; /* each step is looked into once and adds one at most */
	size_t n = 0;

	todo[n++] = first;
	while (n > 0) {
		uint16_t i = todo[--n];
		const struct step *s = &r->g->steps[i];

		if (r->seen[i] == r->round)
			continue;
		r->seen[i] = r->round;
		if (s->op == OP_FORK) {
			todo[n++] = s->x;
			todo[n++] = s->y;
		} else if (s->op == OP_JUMP) {
			todo[n++] = s->x;
		} else if (s->op == OP_MATCH) {
			r->has_match = true;
		} else {
			set->at[set->n++] = i;
		}
	}
}

static bool in_class(const struct glob *g, const struct step *s, uint32_t c)
{
	bool is_in = false;

	for (uint32_t i = 0; i < s->c && !is_in; i++)
		is_in = c >= g->ranges[s->x + i].from && c <= g->ranges[s->x + i].to;
	return is_in != (s->y != 0);
}

static bool takes(const struct glob *g, const struct step *s, uint32_t c)
{
	switch (s->op) {
	case OP_CHAR:
		return s->c == c;
	case OP_NAME:
		return c != '/';
	case OP_CLASS:
		return c != '/' && in_class(g, s, c);
	default:
		return true;
	}
}

bool glob_match(const struct glob *g, const char *path, size_t n)
{
	struct run r;
	const char *slash = g->is_path ? NULL : memrchr(path, '/', n);
	size_t at = slash == NULL ? 0 : (size_t)(slash - path) + 1;

	r.g = g;
	r.now.n = 0;
	r.round = 1;
	r.has_match = false;
	memset(r.seen, 0, g->n_steps * sizeof(r.seen[0]));
	add(&r, &r.now, 0);
	while (at < n && r.now.n > 0) {
		size_t len;
		uint32_t c = utf8_take(path + at, n - at, &len);

		at += len;
		r.round++;
		r.has_match = false;
		r.next.n = 0;
		for (uint16_t i = 0; i < r.now.n; i++) {
			uint16_t step = r.now.at[i];

			if (takes(g, &g->steps[step], c))
				add(&r, &r.next, (uint16_t)(step + 1));
		}
		r.now.n = r.next.n;
		memcpy(r.now.at, r.next.at, r.next.n * sizeof(r.next.at[0]));
	}
	return at == n && r.has_match;
}
