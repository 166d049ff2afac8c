/* SPDX-License-Identifier: MIT */
/*
 * The answer to a request.  A handler fills it in (any thread, it is the request's) and returns;
 * the connection then writes it as one message.  Errors are the contract's JSON objects, from one
 * table.
 */
#ifndef HTTP_HTTP_RESPONSE_H
#define HTTP_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/json_out.h"

struct http_request;

#define HTTP_EXTRA_MAX 8 /* further header lines */

struct http_response {
	int status;                        /* 0: nothing answered yet */
	int code;                          /* the contract's error code, 0 for success */
	const char *type;                  /* static; NULL: application/json */
	struct buf body;                   /* owned; whole answers */
	bool has_file;                     /* the body is what follows, instead */
	int file_fd;                       /* owned; a regular file */
	uint64_t file_off, file_left;      /* bytes */
	const char *extra[HTTP_EXTRA_MAX]; /* "Name: value", in the request's arena */
	unsigned n_extra;
	bool is_stream, is_chunked, head_sent;
	bool must_close; /* the connection ends with this answer */
	uint64_t bytes;  /* of the body that were queued */
};

/* Codes of the contract's error table that this server gives. */
enum http_code {
	HTTP_CODE_REQUEST = 1001,
	HTTP_CODE_PARAMETER = 1002,
	HTTP_CODE_INTERNAL = 1003,
	HTTP_CODE_NOT_IMPLEMENTED = 1004,
	HTTP_CODE_UNAUTHORIZED = 1005,
	HTTP_CODE_TOO_LARGE = 1006,
	HTTP_CODE_ORIGIN = 1007,
	HTTP_CODE_BUSY = 1008,
	HTTP_CODE_KEY_REUSED = 1009,
	HTTP_CODE_NO_SANDBOX = 2001,
	HTTP_CODE_BAD_PATH = 3004,
	HTTP_CODE_NO_SPACE = 3007,
	HTTP_CODE_RANGE = 3009,
	HTTP_CODE_EDIT = 3010,
	HTTP_CODE_DATABASE = 6001,
	HTTP_CODE_NO_WORKSPACE = 7001,
	HTTP_CODE_IN_USE = 7002,
};

/**
 * http_response_error() - answer with the contract's error object
 * @fmt:	what follows the code's fixed start ("Workspace not found: ")
 *
 * What was answered before is dropped.
 */
void http_response_error(struct http_request *req, enum http_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* http_response_refuse() - the same with another status than the code's own (404, 405, 408, 414,
 * ...) */
void http_response_refuse(struct http_request *req, int status, enum http_code code,
			  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* http_response_details() - the same as http_response_error(), with the contract's "details" */
void http_response_details(struct http_request *req, enum http_code code, const char *subject,
			   const char *details);

/* http_response_path_errno() - the contract's answer to a failed operation on the file @path */
void http_response_path_errno(struct http_request *req, int rc, const char *path);

/* http_response_errno() - the code that fits a negative errno; the sentence is that of @err */
void http_response_errno(struct http_request *req, int rc, const struct err *err);

/* A JSON answer: begin, write, end.  End turns a failed writer into an internal error. */
struct json_out http_response_json(struct http_request *req);
void http_response_json_end(struct http_request *req, int status, const struct json_out *o);

/* http_response_file() - answer with @n bytes of the regular file @fd from @off on; takes @fd. Sent
 * from the descriptor, in constant memory; should the file become shorter, the connection ends. */
void http_response_file(struct http_request *req, int status, const char *type, int fd,
			uint64_t off, uint64_t n);

/* http_response_header() - one more header line; ignored when the table is full or memory is out */
void http_response_header(struct http_request *req, const char *name, const char *value);

/**
 * http_response_head() - append status line and headers
 * @body_len:	bytes of the body; -1: chunked, -2: until the connection closes
 * @date:	"Sun, 06 Nov 1994 08:49:37 GMT"
 */
int http_response_head(struct http_request *req, struct buf *out, int64_t body_len,
		       const char *date);

#endif
