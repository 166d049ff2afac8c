/* SPDX-License-Identifier: MIT */
/* Workspaces that exist already: another name, how much is in them, and the trash. */
#include <errno.h>

#include "base/cleanup.h"
#include "http/api.h"
#include "http/api_workspaces.h"
#include "http/http_core.h"
#include "proto/jsonx.h"
#include "workspace/usage.h"

/* ---- PATCH -------------------------------------------------------------- */

/* Absent: it stays; null: it goes. */
static int take_name(json_t *body, struct ws_patch *p, struct err *err)
{
	p->has_name = json_object_get(body, "name") != NULL;
	return jsonx_get_string(body, "name", WS_NAME_MAX, &p->name, err);
}

static int take_metadata(struct http_request *req, json_t *body, struct ws_patch *p,
			 struct err *err)
{
	const json_t *metadata = json_object_get(body, "metadata");

	p->replaces_metadata = metadata != NULL && json_is_null(metadata);
	return api_workspaces_metadata(req, body, true, &p->metadata, &p->n_metadata, err);
}

void api_workspaces_patch(struct http_request *req)
{
	struct workspace *ws = api_workspaces_find(req);
	auto_json json_t *body = NULL;
	struct ws_patch p = { 0 };
	struct err err = { 0 };
	int rc;

	if (ws == NULL)
		return;
	body = api_workspaces_body(req);
	if (body == NULL) {
		workspace_unref(ws);
		return;
	}
	rc = take_name(body, &p, &err);
	if (rc >= 0)
		rc = take_metadata(req, body, &p, &err);
	if (rc >= 0)
		rc = ws_update(req->core->options->registry, ws, &p, &err);
	if (rc == -ENOENT)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", ws->id);
	else if (rc < 0)
		http_response_errno(req, rc, &err);
	else
		api_workspaces_answer(req, ws);
	workspace_unref(ws);
}

/* ---- usage -------------------------------------------------------------- */

void api_workspaces_usage(struct http_request *req)
{
	struct workspace *ws = api_workspaces_find(req);
	struct ws_usage usage;
	struct json_out o;
	int rc;

	if (ws == NULL)
		return;
	rc = ws_usage(ws, &usage);
	workspace_unref(ws);
	if (rc < 0) {
		http_response_errno(req, rc, &(struct err){ 0 });
		return;
	}
	o = http_response_json(req);
	json_out_open(&o, '{');
	json_out_key_u64(&o, "bytes", usage.bytes);
	json_out_key_u64(&o, "files", usage.files);
	json_out_key_u64(&o, "directories", usage.directories);
	json_out_key_bool(&o, "complete", usage.is_complete);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* ---- the trash ---------------------------------------------------------- */

struct trash_answer {
	struct http_request *req;
	struct json_out o;
	uint64_t n;
};

static int put_trashed(void *arg, const struct workspace *ws, uint64_t trashed_ns)
{
	struct trash_answer *a = arg;

	json_out_open(&a->o, '{');
	api_workspaces_put(&a->o, a->req->core->options, ws);
	api_workspaces_put_time(&a->o, "trashed_at", trashed_ns);
	json_out_close(&a->o, '}');
	a->n++;
	return 0;
}

void api_workspaces_list_trash(struct http_request *req)
{
	struct trash_answer a = { .req = req, .o = http_response_json(req) };

	json_out_open(&a.o, '{');
	json_out_key(&a.o, "workspaces");
	json_out_open(&a.o, '[');
	(void)ws_trash_list(req->core->options->registry, put_trashed, &a);
	json_out_close(&a.o, ']');
	json_out_key_u64(&a.o, "total", a.n);
	json_out_close(&a.o, '}');
	http_response_json_end(req, 200, &a.o);
}

void api_workspaces_untrash(struct http_request *req)
{
	struct workspace *ws;
	struct err err = { 0 };
	int rc = ws_untrash(req->core->options->registry, req->params[0], &ws, &err);

	if (rc == -ENOENT) {
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", req->params[0]);
		return;
	}
	if (rc < 0) {
		http_response_errno(req, rc, &err);
		return;
	}
	api_workspaces_answer(req, ws);
	workspace_unref(ws);
}
