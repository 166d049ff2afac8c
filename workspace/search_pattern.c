/* SPDX-License-Identifier: MIT */
/*
 * Patterns (see search_pattern.h).
 *
 * PCRE2's limit on steps counts anew for each place in the line where a match may start, so a long
 * line could take its length times the limit.  A line is therefore looked at in slices of starting
 * places, with a look at the clock between them.  Each call costs a scan of the whole rest of the
 * line, so slices grow while the pattern is tame: the larger the slice, the fewer steps for each
 * place in it, and when that is not enough, small slices are tried before giving up.
 *
 * A file that is not UTF-8 is compared as bytes, with the pattern compiled a second time: PCRE2's
 * own way with such text checks the rest of the line in each call, which in slices is quadratic.
 *
 * No JIT: it needs memory that is writable and executable, which the daemon's filter refuses.  The
 * interpreter does some 20 to 200 MB/s; literals, the usual case, do not come here.
 */
#include "workspace/search_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "workspace/search.h"

#define SLICE_MIN   16          /* starting places in one call */
#define SLICE_FIRST 1024        /* most lines are shorter: one call */
#define CALL_STEPS  (16u << 20) /* at most in one call: some 200 ms */
#define HEAP_KIB    32768       /* for backtracking */
#define NEST_MAX    100         /* parentheses */

struct search_pattern {
	const char *literal; /* borrowed; NULL: one of the two below is set */
	size_t literal_len;
	pcre2_code *chars, *bytes;   /* owned; for text that is, or is not, UTF-8; may be NULL */
	pcre2_match_data *data;      /* owned */
	pcre2_match_context *limits; /* owned */
};

static pcre2_code *compile(const char *p, size_t n, uint32_t options, int *ret_code, size_t *ret_at)
{
	pcre2_compile_context *ctx = pcre2_compile_context_create(NULL);
	pcre2_code *code = NULL;

	*ret_code = PCRE2_ERROR_NOMEMORY;
	*ret_at = 0;
	if (ctx == NULL)
		return NULL;
	(void)pcre2_set_newline(ctx, PCRE2_NEWLINE_ANYCRLF); /* so that $ matches before a CR */
	(void)pcre2_set_parens_nest_limit(ctx, NEST_MAX);
	code = pcre2_compile((PCRE2_SPTR)p, n, options, ret_code, ret_at, ctx);
	pcre2_compile_context_free(ctx);
	return code;
}

static int refuse(int code, size_t at, struct err *err)
{
	PCRE2_UCHAR text[160];

	if (pcre2_get_error_message(code, text, sizeof(text)) < 0)
		text[0] = '\0';
	return err_set(err, code == PCRE2_ERROR_NOMEMORY ? -ENOMEM : -EINVAL,
		       "the pattern is not valid at byte %zu: %s", at, (const char *)text);
}

static int compile_both(struct search_pattern *sp, const char *p, size_t n, uint32_t options,
			struct err *err)
{
	int code;
	size_t at;

	if (utf8_is_valid(p, n)) {
		sp->chars = compile(p, n, options | PCRE2_UTF, &code, &at);
		if (sp->chars == NULL)
			return refuse(code, at, err);
	}
	/* "(*UTF)" would make it take bytes for characters without looking */
	sp->bytes = compile(p, n, options | ((options & PCRE2_LITERAL) != 0 ? 0 : PCRE2_NEVER_UTF),
			    &code, &at);
	if (sp->bytes == NULL && sp->chars == NULL)
		return refuse(code, at, err);
	sp->data = pcre2_match_data_create(1, NULL);
	sp->limits = pcre2_match_context_create(NULL);
	if (sp->data == NULL || sp->limits == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	(void)pcre2_set_heap_limit(sp->limits, HEAP_KIB);
	return 0;
}

static int check(const char *p, size_t n, bool is_regex, struct err *err)
{
	size_t max = is_regex ? SEARCH_REGEX_MAX : SEARCH_LITERAL_MAX;

	if (n == 0)
		return err_set(err, -EINVAL, "the pattern is empty");
	if (n > max)
		return err_set(err, -EINVAL, "the pattern has more than %zu bytes", max);
	if (!is_regex && memchr(p, '\n', n) != NULL)
		return err_set(err, -EINVAL,
			       "the pattern holds a line end, but is compared line by line");
	return 0;
}

int search_pattern_new(const char *p, size_t n, bool is_regex, bool ignore_case,
		       struct search_pattern **ret, struct err *err)
{
	uint32_t options = PCRE2_USE_OFFSET_LIMIT | (ignore_case ? PCRE2_CASELESS : 0) |
			   (is_regex ? PCRE2_NEVER_BACKSLASH_C : PCRE2_LITERAL);
	struct search_pattern *sp;
	int rc = check(p, n, is_regex, err);

	if (rc < 0)
		return rc;
	sp = calloc(1, sizeof(*sp));
	if (sp == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	if (is_regex || ignore_case) {
		rc = compile_both(sp, p, n, options, err);
	} else {
		sp->literal = p;
		sp->literal_len = n;
	}
	if (rc < 0)
		search_pattern_free(sp);
	else
		*ret = sp;
	return rc;
}

void search_pattern_free(struct search_pattern *sp)
{
	if (sp == NULL)
		return;
	pcre2_code_free(sp->chars);
	pcre2_code_free(sp->bytes);
	pcre2_match_data_free(sp->data);
	pcre2_match_context_free(sp->limits);
	free(sp);
}

bool search_pattern_literal(const struct search_pattern *sp, const char **ret, size_t *ret_len)
{
	*ret = sp->literal;
	*ret_len = sp->literal_len;
	return sp->literal != NULL;
}

static const pcre2_code *code_for(const struct search_pattern *sp, bool is_utf8)
{
	return is_utf8 && sp->chars != NULL ? sp->chars : sp->bytes;
}

bool search_pattern_works_on(const struct search_pattern *sp, bool is_utf8)
{
	return sp->literal != NULL || code_for(sp, is_utf8) != NULL;
}

/* One slice of starting places: @n of them from @from on. */
static int find_in_slice(struct search_pattern *sp, const pcre2_code *code, const char *line,
			 size_t len, size_t from, size_t n)
{
	int rc;

	(void)pcre2_set_offset_limit(sp->limits, n < len - from ? from + n : len);
	(void)pcre2_set_match_limit(sp->limits, (uint32_t)MAX(CALL_STEPS / n, (size_t)1));
	rc = pcre2_match(code, (PCRE2_SPTR)line, len, from, PCRE2_NO_UTF_CHECK, sp->data,
			 sp->limits);
	if (rc >= 0)
		return 1;
	return rc == PCRE2_ERROR_NOMATCH ? 0 : -E2BIG;
}

int search_pattern_find(struct search_pattern *sp, const char *line, size_t len, bool is_utf8,
			bool (*must_stop)(void *arg), void *arg, size_t *ret_at, size_t *ret_len)
{
	const pcre2_code *code = code_for(sp, is_utf8);
	const size_t *found = pcre2_get_ovector_pointer(sp->data);
	size_t from = 0, n = SLICE_FIRST, n_max = SIZE_MAX / 4;

	for (;;) {
		int rc = find_in_slice(sp, code, line, len, from, n);

		if (rc == 1) {
			*ret_at = found[0];
			*ret_len = found[1] - found[0];
			return 1;
		}
		if (rc < 0 && n == SLICE_MIN)
			return rc;
		if (rc == 0 && n >= len - from)
			return 0;
		if (rc == 0) {
			from += n + 1;
			while (code == sp->chars && from < len &&
			       ((unsigned char)line[from] & 0xc0) == 0x80)
				from++;
			n = MIN(n * 4, n_max);
		} else {
			n_max = MAX(n / 4, (size_t)SLICE_MIN);
			n = SLICE_MIN;
		}
		if (must_stop(arg))
			return -EINTR;
	}
}
