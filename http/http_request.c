/* SPDX-License-Identifier: MIT */
/* See http_request.h.  Everything here is pure over the request's own bytes; nothing knows of
 * sockets. */
#include "http/http_request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* ---- characters ------------------------------------------------------------------------------ */

static bool is_token_char(unsigned char c) /* tchar of RFC 9110 5.6.2 */
{
	if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
		return true;
	return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool is_value_char(unsigned char c) /* field-vchar, blanks and obs-text of RFC 9110 5.5 */
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

static int hex_value(unsigned char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* ---- where a head ends ----------------------------------------------------------------------- */

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

	while (i < n && is_token_char((unsigned char)p[i]))
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
	    hex_value((unsigned char)version[5]) > 9 || hex_value((unsigned char)version[7]) > 9)
		return -400;
	*ret_why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
	return version[5] == '1' && (version[7] == '0' || version[7] == '1') ? 0 : -505;
}

static int check_header_line(const char *p, size_t n, const char **ret_why)
{
	size_t i = 0;

	while (i < n && is_token_char((unsigned char)p[i]))
		i++;
	*ret_why = "malformed header name";
	if (i == 0 || i == n || p[i] != ':')
		return -400;
	*ret_why = "control character in a header";
	for (i++; i < n; i++)
		if (!is_value_char((unsigned char)p[i]))
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

/* ---- the body -------------------------------------------------------------------------------- */

/* Where in a chunked body we are (RFC 9112 section 7.1). */
enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXT,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	TRAILER_START, /* of a line: a name, or the CR of the blank line */
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	CHUNK_LAST_LF,
	CHUNK_DONE,
};

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t length)
{
	*b = (struct http_body){.kind = kind, .left = kind == HTTP_BODY_LENGTH ? length : 0};
}

static int step_size(struct http_body *b, unsigned char c)
{
	int v = hex_value(c);

	if (v >= 0) {
		/* 15 digits reach 2^60: more than any body, and no overflow */
		if (++b->n_digits > 15)
			return -EBADMSG;
		b->left = b->left << 4 | (unsigned)v;
		return CHUNK_SIZE;
	}
	if (b->n_digits == 0)
		return -EBADMSG;
	return c == '\r' ? CHUNK_SIZE_LF : c == ';' ? CHUNK_EXT : -EBADMSG;
}

/* One character of the framing: the next state, or -EBADMSG. */
static int step_chunk(struct http_body *b, unsigned char c)
{
	switch ((enum chunk_state)b->state) {
	case CHUNK_SIZE:
		return step_size(b, c);
	case CHUNK_EXT:
		if (c == '\r')
			return CHUNK_SIZE_LF;
		return is_value_char(c) && ++b->n_extra <= HTTP_CHUNK_EXT_MAX ? CHUNK_EXT
									      : -EBADMSG;
	case CHUNK_SIZE_LF:
		b->n_extra = 0;
		return c != '\n' ? -EBADMSG : b->left > 0 ? CHUNK_DATA : TRAILER_START;
	case CHUNK_DATA_CR:
		return c == '\r' ? CHUNK_DATA_LF : -EBADMSG;
	case CHUNK_DATA_LF:
		b->n_digits = 0;
		return c == '\n' ? CHUNK_SIZE : -EBADMSG;
	case TRAILER_START:
		if (c == '\r')
			return CHUNK_LAST_LF;
		return is_token_char(c) ? TRAILER_NAME : -EBADMSG;
	case TRAILER_NAME:
		return c == ':' ? TRAILER_VALUE : is_token_char(c) ? TRAILER_NAME : -EBADMSG;
	case TRAILER_VALUE:
		return c == '\r' ? TRAILER_LF : is_value_char(c) ? TRAILER_VALUE : -EBADMSG;
	case TRAILER_LF:
		return c == '\n' ? TRAILER_START : -EBADMSG;
	case CHUNK_LAST_LF:
		return c == '\n' ? CHUNK_DONE : -EBADMSG;
	case CHUNK_DATA:
	case CHUNK_DONE:
		break;
	}
	return -EBADMSG;
}

/* take_run() - as much of the current run of data as has arrived */
static void take_run(struct http_body *b, const char *p, size_t n, size_t *ret_used,
		     const char **ret_data, size_t *ret_data_len)
{
	size_t len = b->left < n ? (size_t)b->left : n;

	*ret_data = p;
	*ret_data_len = len;
	*ret_used += len;
	b->left -= len;
}

static int next_chunked(struct http_body *b, const char *p, size_t n, size_t *ret_used,
			const char **ret_data, size_t *ret_data_len)
{
	size_t i = 0;

	while (b->state != CHUNK_DONE && i < n) {
		int next;

		if (b->state == CHUNK_DATA) {
			*ret_used = i;
			take_run(b, p + i, n - i, ret_used, ret_data, ret_data_len);
			if (b->left == 0)
				b->state = CHUNK_DATA_CR;
			return HTTP_BODY_DATA;
		}
		if (b->state >= TRAILER_START && ++b->n_extra > HTTP_TRAILERS_MAX)
			return -EBADMSG;
		next = step_chunk(b, (unsigned char)p[i++]);
		if (next < 0)
			return next;
		b->state = next;
	}
	*ret_used = i;
	return b->state == CHUNK_DONE ? HTTP_BODY_END : HTTP_BODY_MORE;
}

int http_body_next(struct http_body *b, const char *p, size_t n, size_t *ret_used,
		   const char **ret_data, size_t *ret_data_len)
{
	*ret_used = 0;
	if (b->kind == HTTP_BODY_CHUNKED)
		return next_chunked(b, p, n, ret_used, ret_data, ret_data_len);
	if (b->left == 0)
		return HTTP_BODY_END;
	if (n == 0)
		return HTTP_BODY_MORE;
	take_run(b, p, n, ret_used, ret_data, ret_data_len);
	return HTTP_BODY_DATA;
}

/* ---- headers --------------------------------------------------------------------------------- */

static const char *const method_texts[] = {
	[HTTP_M_GET] = "GET",         [HTTP_M_HEAD] = "HEAD",     [HTTP_M_POST] = "POST",
	[HTTP_M_PUT] = "PUT",         [HTTP_M_DELETE] = "DELETE", [HTTP_M_PATCH] = "PATCH",
	[HTTP_M_OPTIONS] = "OPTIONS", [HTTP_M_OTHER] = "?",
};

const char *http_method_text(enum http_method m)
{
	return method_texts[m];
}

static bool name_is(const struct http_header *h, const char *name, size_t len)
{
	return h->name_len == len && strncasecmp(h->name, name, len) == 0;
}

static const struct http_header *find_header(const struct http_request *req, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < req->n_headers; i++)
		if (name_is(&req->headers[i], name, len))
			return &req->headers[i];
	return NULL;
}

const char *http_request_header(struct http_request *req, const char *name)
{
	const struct http_header *h = find_header(req, name);

	return h != NULL ? arena_strndup(&req->arena, h->value, h->value_len) : NULL;
}

unsigned http_request_count(const struct http_request *req, const char *name)
{
	size_t len = strlen(name);
	unsigned n = 0;

	for (size_t i = 0; i < req->n_headers; i++)
		n += name_is(&req->headers[i], name, len);
	return n;
}

static bool value_is(const struct http_header *h, const char *text)
{
	size_t len = strlen(text);

	return h->value_len == len && strncasecmp(h->value, text, len) == 0;
}

/* value_has() - is @word one of the comma-separated words? */
static bool value_has(const struct http_header *h, const char *word)
{
	size_t len = strlen(word), i = 0;

	while (i < h->value_len) {
		size_t begin, end;

		while (i < h->value_len &&
		       (h->value[i] == ' ' || h->value[i] == '\t' || h->value[i] == ','))
			i++;
		begin = i;
		while (i < h->value_len && h->value[i] != ',')
			i++;
		end = i;
		while (end > begin && (h->value[end - 1] == ' ' || h->value[end - 1] == '\t'))
			end--;
		if (end - begin == len && strncasecmp(h->value + begin, word, len) == 0)
			return true;
	}
	return false;
}

static int parse_length(const struct http_header *h, uint64_t *ret)
{
	uint64_t v = 0;

	if (h->value_len == 0 || h->value_len > 18) /* 18 digits cannot overflow, and are 10^6 TB */
		return -400;
	for (uint32_t i = 0; i < h->value_len; i++) {
		if (h->value[i] < '0' || h->value[i] > '9')
			return -400;
		v = v * 10 + (unsigned)(h->value[i] - '0');
	}
	*ret = v;
	return 0;
}

static int frame_body(struct http_request *req, const char **ret_why)
{
	const struct http_header *te = find_header(req, "Transfer-Encoding");
	const struct http_header *cl = find_header(req, "Content-Length");

	*ret_why = "ambiguous length of the body";
	if (te != NULL && (cl != NULL || req->is_http10))
		return -400;
	if (te != NULL) {
		*ret_why = "Transfer-Encoding must be chunked, once";
		if (!value_is(te, "chunked"))
			return -400;
		req->has_body = true;
		return 0;
	}
	if (cl == NULL)
		return 0;
	*ret_why = "Content-Length must be a plain number";
	if (parse_length(cl, &req->content_length) < 0)
		return -400;
	req->has_length = true;
	req->has_body = req->content_length > 0;
	return 0;
}

static int frame_expect(struct http_request *req, const char **ret_why)
{
	const struct http_header *expect = find_header(req, "Expect");

	if (expect == NULL || req->is_http10)
		return 0;
	*ret_why = "unknown expectation";
	if (!value_is(expect, "100-continue"))
		return -417;
	req->expects_continue = true;
	return 0;
}

int http_request_frame(struct http_request *req, const char **ret_why)
{
	static const char *const single[] = {"Host",          "Content-Length", "Transfer-Encoding",
					     "Authorization", "Origin",         "Content-Type",
					     "Sec-Fetch-Site"};
	const struct http_header *connection;
	int rc;

	for (size_t i = 0; i < ARRAY_LEN(single); i++) {
		*ret_why = "a header that must stand alone came twice";
		if (http_request_count(req, single[i]) > 1)
			return -400;
	}
	*ret_why = "Host is missing";
	if (!req->is_http10 && find_header(req, "Host") == NULL)
		return -400;
	req->wants_close = req->is_http10;
	for (size_t i = 0; i < req->n_headers; i++) {
		connection = &req->headers[i];
		if (!name_is(connection, "Connection", 10))
			continue;
		if (req->is_http10 && value_has(connection, "keep-alive"))
			req->wants_close = false;
		if (value_has(connection, "close")) {
			req->wants_close = true;
			break;
		}
	}
	rc = frame_body(req, ret_why);
	return rc < 0 ? rc : frame_expect(req, ret_why);
}

/* ---- the target ------------------------------------------------------------------------------ */

/* skip_authority() - the path of an absolute-form target whose authority is the Host; NULL if it is
 * not */
static const char *skip_authority(struct http_request *req, const char *p, const char *end)
{
	const struct http_header *host = find_header(req, "Host");
	size_t len = 0;

	while (p + len < end && strchr("/?#", p[len]) == NULL)
		len++;
	if (host == NULL || host->value_len != len || strncasecmp(host->value, p, len) != 0)
		return NULL;
	return p + len;
}

int http_request_target(struct http_request *req, const char *p, size_t n, const char **ret_why)
{
	const char *end = p + n, *mark;

	*ret_why = "the target's host is not that of the Host header";
	if (n > 7 && strncasecmp(p, "http://", 7) == 0)
		p = skip_authority(req, p + 7, end);
	else if (n > 8 && strncasecmp(p, "https://", 8) == 0)
		p = skip_authority(req, p + 8, end);
	if (p == NULL)
		return -400;
	*ret_why = "the target must be a path";
	if (p < end && *p != '/' && *p != '?' &&
	    !(n == 1 && *p == '*' && req->method == HTTP_M_OPTIONS))
		return -400;
	if (memchr(p, '#', (size_t)(end - p)) != NULL)
		return -400;
	mark = memchr(p, '?', (size_t)(end - p));
	req->path_len = (size_t)((mark != NULL ? mark : end) - p);
	req->path = req->path_len > 0 ? arena_strndup(&req->arena, p, req->path_len) : "/";
	req->path_len += req->path_len == 0;
	req->query =
		mark != NULL ? arena_strndup(&req->arena, mark + 1, (size_t)(end - mark) - 1) : "";
	*ret_why = "out of memory";
	return req->path != NULL && req->query != NULL ? 0 : -500;
}

int http_request_unescape(struct http_request *req, const char *p, size_t n, bool plus_is_space,
			  char **ret, size_t *ret_len)
{
	char *dst = arena_alloc(&req->arena, n + 1);
	size_t len = 0;

	if (dst == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '+' && plus_is_space) {
			dst[len++] = ' ';
		} else if (p[i] != '%') {
			dst[len++] = p[i];
		} else {
			if (n - i < 3 || hex_value((unsigned char)p[i + 1]) < 0 ||
			    hex_value((unsigned char)p[i + 2]) < 0)
				return -EINVAL;
			dst[len++] = (char)(hex_value((unsigned char)p[i + 1]) << 4 |
					    hex_value((unsigned char)p[i + 2]));
			i += 2;
		}
	}
	dst[len] = '\0';
	*ret = dst;
	*ret_len = len;
	return 0;
}

int http_request_query(struct http_request *req, const char *name, const char **ret)
{
	const char *p = req->query;

	while (*p != '\0') {
		size_t len = strcspn(p, "&"), name_len = strcspn(p, "=&");
		size_t got_len, value_len;
		char *got, *value;
		int rc = http_request_unescape(req, p, name_len, true, &got, &got_len);

		if (rc < 0)
			return rc;
		if (strcmp(got, name) == 0 && strlen(got) == got_len) {
			size_t skip = MIN(name_len + 1, len);

			rc = http_request_unescape(req, p + skip, len - skip, true, &value,
						   &value_len);
			if (rc < 0)
				return rc;
			if (strlen(value) != value_len)
				return -EINVAL;
			*ret = value;
			return 1;
		}
		p += len + (p[len] == '&');
	}
	return 0;
}

void http_request_take_id(struct http_request *req, const char *made)
{
	const struct http_header *h = find_header(req, "X-Request-ID");
	const char *src = made;
	size_t n = strlen(made);
	bool is_good = h != NULL && h->value_len >= 1 && h->value_len <= HTTP_REQUEST_ID_MAX;

	for (uint32_t i = 0; is_good && i < h->value_len; i++) {
		unsigned char c = (unsigned char)h->value[i];

		is_good = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
			  (c >= 'a' && c <= 'z') || c == '.' || c == '_' || c == '-';
	}
	if (is_good) {
		src = h->value;
		n = h->value_len;
	}
	n = MIN(n, (size_t)HTTP_REQUEST_ID_MAX);
	memcpy(req->id, src, n);
	req->id[n] = '\0';
}
