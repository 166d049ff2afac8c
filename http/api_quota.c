/* SPDX-License-Identifier: MIT */
/* Quotas over HTTP: how much a workspace may hold, and how much it does. */
#include "http/api_quota.h"

#include <errno.h>

#include "http/api.h"
#include "http/http_core.h"
#include "proto/jsonx.h"

/* ---- what is asked ------------------------------------------------------ */

/* A number, or null or nothing for no limit. */
static int get_limit(json_t *o, const char *key, uint64_t *ret, struct err *err)
{
	int64_t v = 0;
	int rc = jsonx_get_int(o, key, 0, (int64_t)QUOTA_MAX, &v, err);

	*ret = rc == 1 ? (uint64_t)v : QUOTA_UNLIMITED;
	return rc < 0 ? rc : 0;
}

static int get_limits(json_t *o, struct quota_limits *ret, struct err *err)
{
	int rc = get_limit(o, "bytes", &ret->bytes, err);

	return rc == 0 ? get_limit(o, "files", &ret->files, err) : rc;
}

int api_quota_member(json_t *body, struct quota_limits *ret, struct err *err)
{
	json_t *o;
	int rc = jsonx_get_object(body, "quota", &o, err);

	*ret = (struct quota_limits){ QUOTA_UNLIMITED, QUOTA_UNLIMITED };
	if (rc == 1)
		rc = get_limits(o, ret, err);
	return rc < 0 ? rc : 0;
}

static int set(struct http_request *req, struct workspace *ws, const struct quota_limits *limits,
	       struct err *err)
{
	struct quota_service *s = req->core->options->quota;

	if (s == NULL)
		return err_set(err, -EOPNOTSUPP, "quotas are not served");
	return quota_set(s, ws, limits, err);
}

int api_quota_begin(struct http_request *req, struct workspace *ws,
		    const struct quota_limits *limits, struct err *err)
{
	int rc;

	if (limits->bytes == QUOTA_UNLIMITED && limits->files == QUOTA_UNLIMITED)
		return 0;
	rc = set(req, ws, limits, err);
	if (rc < 0) {
		(void)ws_delete(req->core->options->registry, ws->id, NULL);
		workspace_unref(ws);
	}
	return rc;
}

/* ---- answers ------------------------------------------------------------ */

static void put_limit(struct json_out *o, const char *key, uint64_t limit)
{
	if (limit != QUOTA_UNLIMITED) {
		json_out_key_u64(o, key, limit);
		return;
	}
	json_out_key(o, key);
	json_out_null(o);
}

static void put_used(struct json_out *o, const char *key, int64_t used)
{
	json_out_key_u64(o, key, used > 0 ? (uint64_t)used : 0);
}

static void answer(struct http_request *req, struct workspace *ws)
{
	struct quota_usage u;
	struct json_out o;
	int rc = quota_usage(ws, &u);

	if (rc < 0) {
		http_response_errno(req, rc, &(struct err){ 0 });
		return;
	}
	o = http_response_json(req);
	json_out_open(&o, '{');
	put_limit(&o, "bytes", u.limits.bytes);
	put_limit(&o, "files", u.limits.files);
	put_used(&o, "used_bytes", u.used.bytes);
	put_used(&o, "used_files", u.used.files);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* ---- handlers ----------------------------------------------------------- */

static struct workspace *find(struct http_request *req)
{
	struct workspace *ws = ws_find(req->core->options->registry, req->params[0]);

	if (ws == NULL)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", req->params[0]);
	return ws;
}

static void set_and_answer(struct http_request *req, struct workspace *ws,
			   const struct quota_limits *limits)
{
	struct err err = { 0 };
	int rc = set(req, ws, limits, &err);

	if (rc == -ENOENT)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", ws->id);
	else if (rc < 0)
		http_response_errno(req, rc, &err);
	else
		answer(req, ws);
}

void api_quota_get(struct http_request *req)
{
	struct workspace *ws = find(req);

	if (ws != NULL)
		answer(req, ws);
	workspace_unref(ws);
}

void api_quota_put(struct http_request *req)
{
	struct workspace *ws = find(req);
	struct quota_limits limits;
	auto_json json_t *body = NULL;
	struct err err = { 0 };
	int rc;

	if (ws == NULL)
		return;
	rc = jsonx_parse_object((const char *)req->body.data, req->body.len, &body, &err);
	if (rc == 0)
		rc = get_limits(body, &limits, &err);
	if (rc < 0)
		http_response_errno(req, rc, &err);
	else
		set_and_answer(req, ws, &limits);
	workspace_unref(ws);
}

void api_quota_delete(struct http_request *req)
{
	static const struct quota_limits none = { QUOTA_UNLIMITED, QUOTA_UNLIMITED };
	struct workspace *ws = find(req);

	if (ws != NULL)
		set_and_answer(req, ws, &none);
	workspace_unref(ws);
}
