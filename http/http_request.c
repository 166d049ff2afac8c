/* SPDX-License-Identifier: MIT */
/* See http_request.h.  Everything here is pure over the request's own bytes; nothing knows of
 * sockets. */
#include "http/http_request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "http/http_chars.h"

/* ---- headers ------------------------------------------------------------ */

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
	static const char *const single[] = {
		"Host",   "Content-Length", "Transfer-Encoding", "Authorization",
		"Origin", "Content-Type",   "Sec-Fetch-Site"
	};
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

/* ---- the target --------------------------------------------------------- */

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
			if (n - i < 3 || http_hex_value((unsigned char)p[i + 1]) < 0 ||
			    http_hex_value((unsigned char)p[i + 2]) < 0)
				return -EINVAL;
			dst[len++] = (char)(http_hex_value((unsigned char)p[i + 1]) << 4 |
					    http_hex_value((unsigned char)p[i + 2]));
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
				return -EILSEQ;
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
