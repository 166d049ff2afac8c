/* SPDX-License-Identifier: MIT */
/*
 * The head of a request: where it ends, whether every line of it is beyond doubt, and its parts.
 *
 * llhttp is lenient where older servers were (bare LF, obs-fold, a space before the colon), and how
 * lenient depends on how a distribution built it.  A head that two parsers may read differently is
 * refused before llhttp sees it.  Pure functions over bytes.
 */
#ifndef HTTP_HTTP_HEAD_H
#define HTTP_HTTP_HEAD_H

#include <stddef.h>

#include "http/http_request.h"

/* What is longer is refused before it is stored. */
#define HTTP_LINE_MAX                                                                              \
	(128u << 10) /* bytes of the request line: arguments of streams travel in it */
#define HTTP_HEADERS_MAX      (64u << 10) /* bytes of all header lines */
#define HTTP_HEADER_LINES_MAX 200

struct http_head_scan {
	size_t start; /* of the request line: blank lines before it are skipped (RFC 9112 2.2) */
	size_t pos;   /* bytes looked at */
	size_t line_start; /* of the line that @pos is in */
	size_t first_end;  /* behind the request line; 0 while it is not whole */
	unsigned n_lines;  /* whole lines, the request line included */
};

/**
 * http_head_scan() - look for the blank line
 * @p, @n:	all bytes of this request that have arrived, from the first on
 *
 * Called again with the same bytes and more behind them; looks at each byte once.  On success the
 * head is p[s->start .. s->pos), the blank line included. Return: 1 whole, 0 more is needed, or the
 * negative HTTP status it is to be refused with.
 */
int http_head_scan(struct http_head_scan *s, const char *p, size_t n);

/**
 * http_head_check() - is every line of a whole head beyond doubt?
 * @ret_why:	set on refusal: a sentence with static storage
 *
 * One space between the parts of the request line, HTTP/1.0 or 1.1, names of tokens with the colon
 * right behind, no continued lines, no control characters.  Return: 0 or a negative HTTP status.
 */
int http_head_check(const char *p, size_t n, const char **ret_why);

/**
 * http_head_parse() - a whole head into a request
 * @n_lines:	lines of it, the request line included
 * @ret_why:	set on refusal: a sentence with static storage
 *
 * The bytes are copied into the request's arena first; method, target, headers and framing are set.
 * Return: 0 or a negative HTTP status.
 */
int http_head_parse(struct http_request *req, const char *p, size_t n, unsigned n_lines,
		    const char **ret_why);

#endif
