/* SPDX-License-Identifier: MIT */
/*
 * See http_head.h.  The only file that sees llhttp.  It is given a checked head in one piece, so
 * that names and values are single runs of bytes, and is told that there is no body: http_body
 * frames those.
 */
#include "http/http_head.h"

#include <errno.h>
#include <llhttp.h>
#include <string.h>

#include "http/http_chars.h"

/* ---- where it ends, and its lines --------------------------------------- */

static int check_head_size(const struct http_head_scan *s, size_t have)
{
	if (s->first_end == 0)
		return have - s->start > HTTP_LINE_MAX ? -414 : 0;
	if (s->n_lines > HTTP_HEADER_LINES_MAX + 1 || have - s->first_end > HTTP_HEADERS_MAX)
		return -431;
	return 0;
}

int http_head_scan(struct http_head_scan *s, const char *p, size_t n)
{
	while (s->pos < n) {
		const char *lf = memchr(p + s->pos, '\n', n - s->pos);
		bool is_blank;
		int rc;

		if (lf == NULL) {
			s->pos = n;
			break;
		}
		s->pos = (size_t)(lf - p) + 1;
		if (lf == p || lf[-1] != '\r')
			return -400;
		is_blank = s->pos - s->line_start == 2;
		s->line_start = s->pos;
		if (is_blank && s->first_end != 0)
			return 1;
		if (is_blank) {
			s->start = s->pos;
			continue;
		}
		s->n_lines++;
		rc = check_head_size(s, s->pos);
		if (rc < 0)
			return rc;
		if (s->first_end == 0)
			s->first_end = s->pos;
	}
	return check_head_size(s, n);
}

/* check_request_line() - METHOD SP target SP HTTP/d.d; @n without the line's end */
static int check_request_line(const char *p, size_t n, const char **ret_why)
{
	const char *end = p + n, *target, *version;
	size_t i = 0;

	while (i < n && http_is_token_char((unsigned char)p[i]))
		i++;
	*ret_why = "malformed request line";
	if (i == 0 || i == n || p[i] != ' ')
		return -400;
	target = p + i + 1;
	version = memchr(target, ' ', (size_t)(end - target));
	if (version == NULL || version == target)
		return -400;
	for (const char *c = target; c < version; c++)
		if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f)
			return -400;
	version++;
	if (end - version != 8 || memcmp(version, "HTTP/", 5) != 0 || version[6] != '.' ||
	    http_hex_value((unsigned char)version[5]) > 9 ||
	    http_hex_value((unsigned char)version[7]) > 9)
		return -400;
	*ret_why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
	return version[5] == '1' && (version[7] == '0' || version[7] == '1') ? 0 : -505;
}

static int check_header_line(const char *p, size_t n, const char **ret_why)
{
	size_t i = 0;

	while (i < n && http_is_token_char((unsigned char)p[i]))
		i++;
	*ret_why = "malformed header name";
	if (i == 0 || i == n || p[i] != ':')
		return -400;
	*ret_why = "control character in a header";
	for (i++; i < n; i++)
		if (!http_is_value_char((unsigned char)p[i]))
			return -400;
	return 0;
}

int http_head_check(const char *p, size_t n, const char **ret_why)
{
	const char *end = p + n;
	bool is_first = true;

	while (p < end) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		size_t len;
		int rc;

		*ret_why = "malformed line";
		if (lf == NULL || lf == p || lf[-1] != '\r')
			return -400;
		len = (size_t)(lf - p) - 1;
		if (len == 0 && !is_first)
			return lf + 1 == end ? 0 : -400;
		rc = is_first ? check_request_line(p, len, ret_why)
			      : check_header_line(p, len, ret_why);
		if (rc < 0)
			return rc;
		is_first = false;
		p = lf + 1;
	}
	return -400;
}

/* ---- its parts, by llhttp ----------------------------------------------- */

struct head_parse {
	struct http_request *req;
	struct http_header *headers;
	size_t max;
	const char *url;
	size_t url_len;
	bool is_whole;
};

static int on_url(llhttp_t *p, const char *at, size_t n)
{
	struct head_parse *h = p->data;

	h->url = at;
	h->url_len = n;
	return 0;
}

static int on_header_field(llhttp_t *p, const char *at, size_t n)
{
	struct head_parse *h = p->data;

	if (h->req->n_headers == h->max)
		return -1;
	h->headers[h->req->n_headers++] =
		(struct http_header){ .name = at, .name_len = (uint32_t)n, .value = "" };
	return 0;
}

static int on_header_value(llhttp_t *p, const char *at, size_t n)
{
	struct head_parse *h = p->data;
	struct http_header *header = &h->headers[h->req->n_headers - 1];

	while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t'))
		n--;
	header->value = at;
	header->value_len = (uint32_t)n;
	return 0;
}

static int on_headers_complete(llhttp_t *p)
{
	struct head_parse *h = p->data;

	h->is_whole = true;
	return 1; /* no body, as far as llhttp is concerned */
}

static int on_message_complete(llhttp_t *p)
{
	(void)p;
	return HPE_PAUSED;
}

static const llhttp_settings_t head_settings = {
	.on_url = on_url,
	.on_header_field = on_header_field,
	.on_header_value = on_header_value,
	.on_headers_complete = on_headers_complete,
	.on_message_complete = on_message_complete,
};

static enum http_method method_of(unsigned llhttp_method)
{
	switch (llhttp_method) {
	case HTTP_GET:
		return HTTP_M_GET;
	case HTTP_HEAD:
		return HTTP_M_HEAD;
	case HTTP_POST:
		return HTTP_M_POST;
	case HTTP_PUT:
		return HTTP_M_PUT;
	case HTTP_DELETE:
		return HTTP_M_DELETE;
	case HTTP_PATCH:
		return HTTP_M_PATCH;
	case HTTP_OPTIONS:
		return HTTP_M_OPTIONS;
	default:
		return HTTP_M_OTHER;
	}
}

static int parse_lines(struct http_request *req, const char *head, size_t len, struct head_parse *h,
		       const char **ret_why)
{
	llhttp_t parser;
	llhttp_errno_t e;

	llhttp_init(&parser, HTTP_REQUEST, &head_settings);
	parser.data = h;
	e = llhttp_execute(&parser, head, len);
	if (e == HPE_INVALID_METHOD) {
		*ret_why = "unknown method";
		return -501;
	}
	if (!h->is_whole || h->url == NULL) {
		*ret_why = "malformed head";
		return -400;
	}
	req->is_http10 = parser.http_minor == 0;
	req->method = method_of(parser.method);
	req->method_text = llhttp_method_name(parser.method);
	return 0;
}

int http_head_parse(struct http_request *req, const char *p, size_t n, unsigned n_lines,
		    const char **ret_why)
{
	struct head_parse h = { .req = req, .max = n_lines };
	const char *head;
	int rc;

	rc = http_head_check(p, n, ret_why);
	if (rc < 0)
		return rc;
	head = arena_strndup(&req->arena, p, n);
	h.headers = arena_alloc(&req->arena, n_lines * sizeof(*h.headers));
	*ret_why = "out of memory";
	if (head == NULL || h.headers == NULL)
		return -500;
	req->headers = h.headers;
	rc = parse_lines(req, head, n, &h, ret_why);
	if (rc == 0)
		rc = http_request_target(req, h.url, h.url_len, ret_why);
	return rc == 0 ? http_request_frame(req, ret_why) : rc;
}
