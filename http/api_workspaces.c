/* SPDX-License-Identifier: MIT */
/*
 * Workspaces over HTTP: make, list, show, delete, and say who may mount.  An id is an opaque text:
 * one that is no id of ours is simply not found.
 */
#include "http/api_workspaces.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "http/api.h"
#include "http/api_files.h"
#include "http/api_idempotency.h"
#include "http/api_quota.h"
#include "http/http_core.h"
#include "proto/jsonx.h"
#include "workspace/workspace.h"

/* ---- helpers ------------------------------------------------------------ */

struct workspace *api_workspaces_find(struct http_request *req)
{
	struct workspace *ws = ws_find(req->core->options->registry, req->params[0]);

	if (ws == NULL)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", req->params[0]);
	return ws;
}

json_t *api_workspaces_body(struct http_request *req)
{
	struct err err = { 0 };
	json_t *o;

	if (jsonx_parse_object((const char *)req->body.data, req->body.len, &o, &err) == 0)
		return o;
	http_response_error(req, HTTP_CODE_REQUEST, "%s", err.msg);
	return NULL;
}

void api_workspaces_put_time(struct json_out *o, const char *key, uint64_t ns)
{
	char text[CLOCK_RFC3339_LEN];

	json_out_key_str(o, key, clock_rfc3339(text, sizeof(text), ns));
}

static void put_nfs_url(struct json_out *o, const struct http_server_options *opt, const char *id)
{
	const char *host = opt->nfs_url_host != NULL ? opt->nfs_url_host : "127.0.0.1";
	bool is_v6 = strchr(host, ':') != NULL && host[0] != '[';
	char url[320];

	json_out_key(o, "nfs_url");
	if (opt->nfs_port == 0) {
		json_out_null(o);
		return;
	}
	(void)snprintf(url, sizeof(url), "nfs://%s%.255s%s:%u/%s", is_v6 ? "[" : "", host,
		       is_v6 ? "]" : "", (unsigned)opt->nfs_port, id);
	json_out_str(o, url);
}

void api_workspaces_put(struct json_out *o, const struct http_server_options *opt,
			const struct workspace *ws)
{
	ws_labels_hold();
	json_out_key_str(o, "id", ws->id);
	json_out_key_str(o, "name", ws->name);
	put_nfs_url(o, opt, ws->id);
	if (ws->adopted != NULL)
		json_out_key_str(o, "adopted", ws->adopted);
	json_out_key(o, "metadata");
	json_out_open(o, '{');
	for (size_t i = 0; i < ws->n_metadata; i++)
		json_out_key_str(o, ws->metadata[i].key, ws->metadata[i].value);
	json_out_close(o, '}');
	ws_labels_release();
	api_workspaces_put_time(o, "created_at", ws->created_ns);
	api_workspaces_put_time(o, "updated_at",
				__atomic_load_n(&ws->updated_ns, __ATOMIC_RELAXED));
}

static void put_workspace(struct json_out *o, const struct http_server_options *opt,
			  const struct workspace *ws)
{
	json_out_open(o, '{');
	api_workspaces_put(o, opt, ws);
	json_out_close(o, '}');
}

void api_workspaces_answer(struct http_request *req, const struct workspace *ws)
{
	struct json_out o = http_response_json(req);

	put_workspace(&o, req->core->options, ws);
	http_response_json_end(req, 200, &o);
}

static void answer_success(struct http_request *req)
{
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	json_out_key_bool(&o, "success", true);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* ---- create, list, get, delete ------------------------------------------ */

static int take_pair(struct http_request *req, const char *key, const json_t *value,
		     bool allows_null, struct ws_pair *pair, struct err *err)
{
	if (!json_is_string(value) && !(allows_null && json_is_null(value)))
		return err_set(err, -EINVAL, "'metadata.%.100s' must be a string%s", key,
			       allows_null ? " or null" : "");
	pair->key = arena_strdup(&req->arena, key);
	pair->value = NULL;
	if (json_is_string(value))
		pair->value = arena_strdup(&req->arena, json_string_value(value));
	if (pair->key == NULL || (pair->value == NULL && json_is_string(value)))
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

int api_workspaces_metadata(struct http_request *req, json_t *body, bool allows_null,
			    const struct ws_pair **ret, size_t *ret_n, struct err *err)
{
	json_t *metadata, *value;
	const char *key;
	struct ws_pair *pairs;
	size_t n = 0;
	int rc = jsonx_get_object(body, "metadata", &metadata, err);

	if (rc <= 0)
		return rc;
	if (json_object_size(metadata) > WS_META_PAIRS_MAX)
		return err_set(err, -EINVAL, "'metadata' may have at most %d members",
			       WS_META_PAIRS_MAX);
	pairs = arena_zalloc(&req->arena, (json_object_size(metadata) + 1) * sizeof(*pairs));
	if (pairs == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	json_object_foreach(metadata, key, value)
	{
		rc = take_pair(req, key, value, allows_null, &pairs[n++], err);
		if (rc < 0)
			return rc;
	}
	*ret = pairs;
	*ret_n = n;
	return 1;
}

static void create(struct http_request *req, struct ws_create *c)
{
	struct quota_limits quota;
	struct err err = { 0 };
	struct workspace *ws;
	auto_json json_t *body = api_workspaces_body(req);
	int rc;

	if (body == NULL)
		return;
	rc = jsonx_get_string(body, "name", WS_NAME_MAX, &c->name, &err);
	if (rc >= 0)
		rc = jsonx_get_string(body, "adopt", PATH_MAX - 1, &c->adopt, &err);
	if (rc >= 0)
		rc = api_workspaces_metadata(req, body, false, &c->metadata, &c->n_metadata, &err);
	if (rc >= 0)
		rc = api_quota_member(body, &quota, &err);
	if (rc >= 0)
		rc = ws_create(req->core->options->registry, c, &ws, &err);
	if (rc >= 0)
		rc = api_quota_begin(req, ws, &quota, &err);
	if (rc < 0) {
		http_response_errno(req, rc, &err);
		return;
	}
	api_workspaces_answer(req, ws);
	workspace_unref(ws);
}

void api_workspaces_create(struct http_request *req)
{
	api_idempotency_run(req, create);
}

void api_workspaces_list(struct http_request *req)
{
	struct workspace **list;
	bool is_trash;
	struct json_out o;
	size_t n;
	int rc;

	if (!api_files_flag(req, "trashed", &is_trash))
		return;
	if (is_trash) {
		api_workspaces_list_trash(req);
		return;
	}
	rc = ws_list(req->core->options->registry, &list, &n);

	if (rc < 0) {
		http_response_errno(req, rc, &(struct err){ 0 });
		return;
	}
	o = http_response_json(req);
	json_out_open(&o, '{');
	json_out_key(&o, "workspaces");
	json_out_open(&o, '[');
	for (size_t i = 0; i < n; i++)
		put_workspace(&o, req->core->options, list[i]);
	json_out_close(&o, ']');
	json_out_key_u64(&o, "total", n);
	json_out_close(&o, '}');
	ws_list_free(list, n);
	http_response_json_end(req, 200, &o);
}

void api_workspaces_get(struct http_request *req)
{
	struct workspace *ws = api_workspaces_find(req);

	if (ws == NULL)
		return;
	api_workspaces_answer(req, ws);
	workspace_unref(ws);
}

void api_workspaces_delete(struct http_request *req)
{
	const struct http_server_options *opt = req->core->options;
	struct err err = { 0 };
	bool is_final;
	int rc;

	if (!api_files_flag(req, "purge", &is_final))
		return;
	if (is_final || !opt->uses_trash)
		rc = ws_delete(opt->registry, req->params[0], &err);
	else
		rc = ws_trash(opt->registry, req->params[0], &err);
	if (rc == -ENOSPC) /* never deleted for good by somebody who did not ask for that */
		err_set(&err, rc,
			"the trash needs a little room; ?purge=true deletes at once, without");
	if (rc == -ENOENT)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", req->params[0]);
	else if (rc < 0)
		http_response_errno(req, rc, &err);
	else
		answer_success(req);
}

/* ---- exports ------------------------------------------------------------ */

static const char *const mode_names[] = { [EXPORT_SQUASH] = "squash", [EXPORT_MATCH] = "match" };

static void answer_export(struct http_request *req, const struct workspace *ws)
{
	const struct export_rules *rules = ws_exports(req->core->options->registry, ws);
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	json_out_key_str(&o, "mode", mode_names[rules->mode]);
	json_out_key_bool(&o, "read_only", rules->read_only);
	json_out_key(&o, "clients");
	json_out_open(&o, '[');
	for (unsigned i = 0; i < rules->n_nets; i++) {
		char text[EXPORT_NET_TEXT];

		json_out_open(&o, '{');
		json_out_key_str(&o, "network",
				 export_net_format(text, sizeof(text), &rules->nets[i]));
		json_out_key_bool(&o, "read_only", rules->nets[i].read_only);
		json_out_close(&o, '}');
	}
	json_out_close(&o, ']');
	json_out_key_bool(&o, "is_default",
			  __atomic_load_n(&ws->exports, __ATOMIC_ACQUIRE) == NULL);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* set_export() - @rules NULL: back to the default */
static void set_export(struct http_request *req, struct workspace *ws,
		       const struct export_rules *rules)
{
	struct err err = { 0 };
	int rc = ws_set_exports(req->core->options->registry, ws, rules, &err);

	if (rc == -ENOENT)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", ws->id);
	else if (rc < 0)
		http_response_errno(req, rc, &err);
	else
		answer_export(req, ws);
}

void api_workspaces_export_get(struct http_request *req)
{
	struct workspace *ws = api_workspaces_find(req);

	if (ws == NULL)
		return;
	answer_export(req, ws);
	workspace_unref(ws);
}

static bool says_anything(json_t *body)
{
	return json_object_get(body, "mode") != NULL ||
	       json_object_get(body, "read_only") != NULL ||
	       json_object_get(body, "clients") != NULL;
}

void api_workspaces_export_put(struct http_request *req)
{
	struct export_rules rules;
	struct workspace *ws = api_workspaces_find(req);
	auto_json json_t *body = NULL;
	bool is_default = false;
	struct err err = { 0 };
	int rc;

	if (ws == NULL)
		return;
	body = api_workspaces_body(req);
	if (body == NULL) {
		workspace_unref(ws);
		return;
	}
	rc = jsonx_get_bool(body, "default", &is_default, &err);
	/* A forgotten body must not take restrictions away. */
	if (rc >= 0 && !is_default && !says_anything(body))
		rc = err_set(&err, -EINVAL,
			     "give 'mode', 'read_only' or 'clients' (they replace all rules), or "
			     "'default': true");
	if (rc >= 0)
		rc = export_rules_from_json(body, &rules, &err);
	if (rc < 0)
		http_response_errno(req, rc, &err);
	else
		set_export(req, ws, is_default ? NULL : &rules);
	workspace_unref(ws);
}

void api_workspaces_export_delete(struct http_request *req)
{
	struct workspace *ws = api_workspaces_find(req);

	if (ws == NULL)
		return;
	set_export(req, ws, NULL);
	workspace_unref(ws);
}
