/* SPDX-License-Identifier: MIT */
/* See http_response.h. */
#include "http/http_response.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/http_request.h"
#include "http/json_out.h"
#include "proto/status.h"

/* ---- the contract's error table ----------------------------------------- */

struct code_row {
	enum http_code code;
	int status;
	const char *start; /* clients cut it off up to and including ": "; kept to the letter */
};

/* clang-format off */
static const struct code_row code_rows[] = {
	{ HTTP_CODE_INTERNAL,	     500, "Internal error: " },
	{ HTTP_CODE_REQUEST,	     400, "Invalid request: " },
	{ HTTP_CODE_PARAMETER,	     400, "Invalid parameter: " },
	{ HTTP_CODE_NOT_IMPLEMENTED, 501, "Not implemented: " },
	{ HTTP_CODE_UNAUTHORIZED,    401, "Unauthorized" },
	{ HTTP_CODE_TOO_LARGE,	     413, "Payload too large" },
	{ HTTP_CODE_ORIGIN,	     403, "Origin not allowed: " },
	{ HTTP_CODE_BUSY,	     429, "Too many requests" },
	{ HTTP_CODE_KEY_REUSED,	     409, "Idempotency key reused" },
	{ HTTP_CODE_NO_SANDBOX,	     404, "Sandbox not found: " },
	{ HTTP_CODE_BAD_PATH,	     400, "Invalid path: " },
	{ HTTP_CODE_RANGE,	     416, "Range not satisfiable: " },
	{ HTTP_CODE_EDIT,	     409, "Edit does not apply: " },
	{ HTTP_CODE_NO_SPACE,	     507, "No space left: " },
	{ HTTP_CODE_DATABASE,	     500, "Database failure: " },
	{ HTTP_CODE_NO_WORKSPACE,    404, "Workspace not found: " },
	{ HTTP_CODE_IN_USE,	     409, "Workspace has active sandboxes" },
};
/* clang-format on */

static const struct code_row *find_code(int code)
{
	for (size_t i = 0; i < ARRAY_LEN(code_rows); i++)
		if ((int)code_rows[i].code == code)
			return &code_rows[i];
	return &code_rows[0];
}

/* @details: NULL: none */
static void write_error(struct http_request *req, int status, int code, const char *message,
			const char *details)
{
	struct http_response *res = &req->res;
	struct json_out o;

	o = http_response_json(req);
	json_out_open(&o, '{');
	json_out_key_u64(&o, "code", (uint64_t)code);
	json_out_key_str(&o, "message", message);
	if (details != NULL)
		json_out_key_str(&o, "details", details);
	json_out_close(&o, '}');
	if (o.rc < 0 ||
	    buf_append(&res->body, "\n", 1) < 0) /* out of memory: the status alone has to do */
		buf_reset(&res->body);
	res->status = status;
	res->code = code;
	if (status == 401)
		http_response_header(req, "WWW-Authenticate", "Bearer");
	if (status == 429)
		http_response_header(req, "Retry-After", "1");
}

static void answer_error(struct http_request *req, int status, enum http_code code, const char *fmt,
			 va_list ap)
{
	const struct code_row *row = find_code(code);
	char message[1024]; /* a longer subject is cut: the client knows what it sent */
	int n = snprintf(message, sizeof(message), "%s", row->start);

	(void)vsnprintf(message + n, sizeof(message) - (size_t)n, fmt, ap);
	write_error(req, status != 0 ? status : row->status, row->code, message, NULL);
}

void http_response_error(struct http_request *req, enum http_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	answer_error(req, 0, code, fmt, ap);
	va_end(ap);
}

void http_response_refuse(struct http_request *req, int status, enum http_code code,
			  const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	answer_error(req, status, code, fmt, ap);
	va_end(ap);
}

void http_response_details(struct http_request *req, enum http_code code, const char *subject,
			   const char *details)
{
	const struct code_row *row = find_code(code);
	char message[1024];

	(void)snprintf(message, sizeof(message), "%s%s", row->start, subject);
	write_error(req, row->status, row->code, message, details);
}

void http_response_path_errno(struct http_request *req, int rc, const char *path)
{
	const struct status_row *row = status_of(rc);
	char message[1024];
	int start = (int)strcspn(row->text, "%"); /* each has its "%s" at the end */

	(void)snprintf(message, sizeof(message), "%.*s%s", start, row->text,
		       row->http < 500 || row->http == 507 ? path : strerror(-rc));
	write_error(req, row->http, row->api_code, message, NULL);
}

void http_response_errno(struct http_request *req, int rc, const struct err *err)
{
	const char *text = err->msg[0] != '\0' ? err->msg : strerror(-rc);

	switch (-rc) {
	case EINVAL:
	case ENAMETOOLONG:
	case E2BIG:
		http_response_error(req, HTTP_CODE_REQUEST, "%s", text);
		return;
	case ENOSPC:
	case EDQUOT:
		http_response_error(req, HTTP_CODE_NO_SPACE, "%s", text);
		return;
	default:
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", text);
	}
}

/* ---- whole answers ------------------------------------------------------ */

struct json_out http_response_json(struct http_request *req)
{
	buf_reset(&req->res.body);
	req->res.type = NULL;
	return (struct json_out)JSON_OUT(&req->res.body);
}

void http_response_json_end(struct http_request *req, int status, const struct json_out *o)
{
	/* A terminal's next prompt then begins a line. */
	if (o->rc < 0 || buf_append(&req->res.body, "\n", 1) < 0) {
		http_response_error(req, HTTP_CODE_INTERNAL, "the answer does not fit in memory");
		return;
	}
	req->res.status = status;
	req->res.code = 0;
}

void http_response_header(struct http_request *req, const char *name, const char *value)
{
	struct http_response *res = &req->res;
	char *line;

	if (res->n_extra == HTTP_EXTRA_MAX)
		return;
	line = arena_printf(&req->arena, "%s: %s\r\n", name, value);
	if (line != NULL)
		res->extra[res->n_extra++] = line;
}

void http_response_file(struct http_request *req, int status, const char *type, int fd,
			uint64_t off, uint64_t n)
{
	struct http_response *res = &req->res;

	buf_reset(&res->body);
	res->status = status;
	res->type = type;
	res->has_file = true;
	res->file_fd = fd;
	res->file_off = off;
	res->file_left = n;
}

/* ---- the head ----------------------------------------------------------- */

struct reason {
	int status;
	const char *text;
};

static const char *reason_of(int status)
{
	static const struct reason reasons[] = {
		{ 200, "OK" },
		{ 206, "Partial Content" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Answer"; /* RFC 9112 section 4: nobody may depend on it */
}

static int put_length(struct buf *out, int status, int64_t body_len)
{
	if (status == 304) /* has none; a length would be that of the file */
		return 0;
	if (body_len == -1)
		return buf_puts(out, "Transfer-Encoding: chunked\r\n");
	if (body_len < 0)
		return 0;
	return buf_printf(out, "Content-Length: %lld\r\n", (long long)body_len);
}

static const char *connection_line(const struct http_request *req)
{
	if (req->res.must_close)
		return "Connection: close\r\n";
	return req->is_http10 ? "Connection: keep-alive\r\n" : "";
}

int http_response_head(struct http_request *req, struct buf *out, int64_t body_len,
		       const char *date)
{
	const struct http_response *res = &req->res;
	int rc;

	rc = buf_printf(out,
			"HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nX-Request-ID: %s\r\n"
			"X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n%s",
			res->status, reason_of(res->status), date,
			res->type != NULL ? res->type : "application/json", req->id,
			connection_line(req));
	if (rc == 0)
		rc = put_length(out, res->status, body_len);
	for (unsigned i = 0; rc == 0 && i < res->n_extra; i++)
		rc = buf_puts(out, res->extra[i]);
	if (rc == 0 && req->cors_origin != NULL)
		rc = buf_printf(
			out,
			"Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
			"Access-Control-Expose-Headers: X-Request-ID, Allow, Retry-After, ETag, "
			"Content-Range, Accept-Ranges\r\n",
			req->cors_origin);
	return rc == 0 ? buf_puts(out, "\r\n") : rc;
}
