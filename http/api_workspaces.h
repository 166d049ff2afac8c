/* SPDX-License-Identifier: MIT */
/* What the handlers of workspaces share. */
#ifndef HTTP_API_WORKSPACES_H
#define HTTP_API_WORKSPACES_H

#include <jansson.h>

#include "http/http_request.h"
#include "http/http_server.h"
#include "workspace/workspace.h"

/* api_workspaces_find() - the workspace of the path, an owned reference; NULL: the answer is made
 */
struct workspace *api_workspaces_find(struct http_request *req);

/* api_workspaces_body() - the JSON object of the body, owned; NULL: the answer is made */
json_t *api_workspaces_body(struct http_request *req);

/* api_workspaces_put() - the members of a Workspace, without the brackets */
void api_workspaces_put(struct json_out *o, const struct http_server_options *opt,
			const struct workspace *ws);
void api_workspaces_put_time(struct json_out *o, const char *key, uint64_t ns);
void api_workspaces_answer(struct http_request *req, const struct workspace *ws);

/**
 * api_workspaces_metadata() - the pairs of "metadata" into the arena; keys and values too
 * @allows_null:	a value may be null, and is NULL then
 *
 * Return: 1 found, 0 absent, -EINVAL, -ENOMEM.
 */
int api_workspaces_metadata(struct http_request *req, json_t *body, bool allows_null,
			    const struct ws_pair **ret, size_t *ret_n, struct err *err);

#endif
