/* SPDX-License-Identifier: MIT */
/*
 * What the handlers of files share.  All of them answer under /workspaces/{id}/files... and, for
 *older clients, under /sandboxes/{id}/files..., where {id} is that of a sandbox.
 *
 * A handler takes an api_file, works in the pool, and gives the workspace back:
 *
 *	struct api_file f;
 *
 *	if (!api_file_query(req, "path", &f))
 *		return;
 *	rc = files_...(f.ws, f.rel, ...);
 *	if (rc < 0)
 *		http_response_path_errno(req, rc, f.path);
 *	api_file_done(&f);
 */
#ifndef HTTP_API_FILES_H
#define HTTP_API_FILES_H

#include <jansson.h>

#include "http/http_request.h"
#include "workspace/files.h"

struct api_path {
	const char *text; /* as the client wrote it, decoded; for messages.  Borrowed from the
			     request. */
	char rel[FILES_PATH_MAX + 1];
};

struct api_file {
	struct workspace *ws; /* owned reference */
	struct api_path path;
};

/* Each returns false when it has made the answer. */

/* api_files_ws() - the workspace of the route's {id}: an owned reference, or NULL with 7001 or 2001
 */
struct workspace *api_files_ws(struct http_request *req);

/* api_path_take() - check and normalise @n bytes at @text, which live as long as the request */
bool api_path_take(struct http_request *req, const char *text, size_t n, struct api_path *ret);

/* api_path_query() - of the query's parameter @name; absent is "", the root */
bool api_path_query(struct http_request *req, const char *name, struct api_path *ret);

/* api_bytes_json() - the text of the member @name of @body, or what its twin @name + "_base64"
 * stands for, since text in JSON is always UTF-8 without NUL; it must be there.  Lives as long as
 * @body. */
bool api_bytes_json(struct http_request *req, json_t *body, const char *name, const char **ret,
		    size_t *ret_len);

/* api_path_json() - of the member @name of @body, or of its twin @name + "_base64" for names that
 * are no UTF-8; it must be there */
bool api_path_json(struct http_request *req, json_t *body, const char *name, struct api_path *ret);

/* api_file_query() - both of the workspace and the path of the query's parameter @name */
bool api_file_query(struct http_request *req, const char *name, struct api_file *ret);
void api_file_done(struct api_file *f);

/* api_files_condition() - of If-Match and If-None-Match; malformed: 1002 */
bool api_files_condition(struct http_request *req, struct files_condition *ret);

/* api_files_flag() - a boolean of the query: "1" or "true", "0" or "false"; absent is false */
bool api_files_flag(struct http_request *req, const char *name, bool *ret);

/* api_files_body() - the JSON object of the body, owned; NULL: the answer is made */
json_t *api_files_body(struct http_request *req);

/* api_files_done() - {"success":true,"path":...} */
void api_files_done(struct http_request *req, const struct api_path *path);

/* api_files_put_path() - the members "path" and, for what is no UTF-8, "path_base64" */
void api_files_put_path(struct json_out *o, const char *path);

/* api_files_put_info() - a FileInfo.  @dirfd, @name: where it is, to look where a link leads; @ws
 * for the same.  @path: what is shown. */
struct api_info {
	struct workspace *ws;
	int dirfd;        /* of the directory it is in; -1: the root itself */
	const char *name; /* in @dirfd */
	const char *path; /* shown */
	const char *rel;  /* from the root of the workspace */
	struct files_info info;
};
void api_files_put_info(struct json_out *o, const struct api_info *i);

#endif
