/* SPDX-License-Identifier: MIT */
/* See router.h.  A walk over some dozens of rows costs less than the hash of the path would. */
#include "http/router.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "http/http_auth.h"
#include "http/http_conn.h"
#include "http/http_core.h"

struct span {
	const char *p;
	size_t n;
};

/* match() - does the path fit the pattern?  @params: the raw segments of its {names} */
static bool match(const char *pattern, const char *path, struct span params[HTTP_PARAMS_MAX])
{
	size_t n_params = 0;

	while (*pattern != '\0') {
		size_t len;

		if (*pattern != '{') {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		len = strcspn(path, "/");
		if (len == 0 || n_params == HTTP_PARAMS_MAX)
			return false;
		params[n_params++] = (struct span){ path, len };
		path += len;
		pattern = strchr(pattern, '}') + 1;
	}
	return *path == '\0';
}

static int take_params(struct http_request *req, const struct span params[HTTP_PARAMS_MAX])
{
	for (size_t i = 0; i < HTTP_PARAMS_MAX && params[i].p != NULL; i++) {
		char *text;
		size_t len;
		int rc = http_request_unescape(req, params[i].p, params[i].n, false, &text, &len);

		if (rc < 0)
			return rc;
		/* A NUL would cut it short and name something else: then it names nothing. */
		req->params[i] = strlen(text) == len ? text : "";
	}
	return 0;
}

/* allowed_methods() - the value of Allow for a path; "" when no row fits */
static void allowed_methods(const struct http_routes *routes, const char *path, char *dst,
			    size_t dst_len)
{
	struct span params[HTTP_PARAMS_MAX];
	size_t n = 0;

	dst[0] = '\0';
	for (size_t i = 0; i < routes->n && n < dst_len; i++) {
		const struct http_route *row = &routes->rows[i];

		if (!match(row->pattern, path, params))
			continue;
		n += (size_t)snprintf(dst + n, dst_len - n, "%s%s%s", n > 0 ? ", " : "",
				      http_method_text(row->method),
				      row->method == HTTP_M_GET ? ", HEAD" : "");
	}
	if (n > 0 && n < dst_len)
		(void)snprintf(dst + n, dst_len - n, ", OPTIONS");
}

static int find_route(struct http_request *req)
{
	const struct http_routes *routes = req->core->routes;
	enum http_method method = req->method == HTTP_M_HEAD ? HTTP_M_GET : req->method;

	for (size_t i = 0; i < routes->n; i++) {
		struct span params[HTTP_PARAMS_MAX] = { 0 };

		if (routes->rows[i].method != method ||
		    !match(routes->rows[i].pattern, req->path, params))
			continue;
		req->route = &routes->rows[i];
		return take_params(req, params);
	}
	return 0;
}

static void refuse_route(struct http_request *req)
{
	char allow[128];

	allowed_methods(req->core->routes, req->path, allow, sizeof(allow));
	if (allow[0] == '\0') {
		http_response_refuse(req, 404, HTTP_CODE_REQUEST, "no such route: %s", req->path);
		return;
	}
	http_response_refuse(req, 405, HTTP_CODE_REQUEST, "%s is not possible here, only %s",
			     req->method_text, allow);
	http_response_header(req, "Allow", allow);
}

/* answer_options() - a preflight of an allowed page, or a plain question what is possible */
static void answer_options(struct http_request *req)
{
	char allow[128] = "GET, HEAD, POST, PUT, DELETE, OPTIONS";
	struct json_out o;

	if (req->path[0] != '*')
		allowed_methods(req->core->routes, req->path, allow, sizeof(allow));
	if (allow[0] == '\0') {
		refuse_route(req);
		return;
	}
	o = http_response_json(req);
	json_out_open(&o, '{');
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
	http_response_header(req, "Allow", allow);
	if (req->cors_origin == NULL)
		return;
	http_response_header(req, "Access-Control-Allow-Methods", allow);
	http_response_header(
		req, "Access-Control-Allow-Headers",
		"Authorization, Content-Type, X-Request-ID, Idempotency-Key, If-Match, "
		"If-None-Match, If-Range, Range");
	http_response_header(req, "Access-Control-Max-Age", "600");
}

/* admit_page() - false when the page that sends this must not; the answer is then made */
static bool admit_page(struct http_request *req)
{
	struct http_page page = {
		.host = http_request_header(req, "Host"),
		.origin = http_request_header(req, "Origin"),
		.sec_fetch_site = http_request_header(req, "Sec-Fetch-Site"),
	};
	bool is_cors, is_guarded;

	is_guarded = req->method == HTTP_M_OPTIONS ||
		     (req->route != NULL && req->route->flags & R_CHANGES);
	switch (http_auth_page(req->core->auth, &page, &is_cors)) {
	case HTTP_PAGE_BAD_HOST:
		http_response_error(req, HTTP_CODE_ORIGIN, "host '%.200s'", page.host);
		return false;
	case HTTP_PAGE_BAD_ORIGIN:
		if (!is_guarded)
			return true;
		http_response_error(req, HTTP_CODE_ORIGIN, "%.200s",
				    page.origin != NULL ? page.origin : page.sec_fetch_site);
		return false;
	case HTTP_PAGE_OK:
		break;
	}
	req->cors_origin = is_cors ? page.origin : NULL;
	return true;
}

static bool is_preflight(struct http_request *req)
{
	return req->method == HTTP_M_OPTIONS && req->cors_origin != NULL &&
	       http_request_count(req, "Access-Control-Request-Method") > 0;
}

/* refuse_caller() - why is for the log; a local user is told too, since the uid is their own */
static void refuse_caller(struct http_request *req, const struct http_peer *peer)
{
	char why[64] = "no or a wrong API key";

	if (req->core->options->n_keys > 0) {
		http_response_error(req, HTTP_CODE_UNAUTHORIZED, "%s", "");
	} else if (peer->has_uid) {
		(void)snprintf(why, sizeof(why), "uid %u is not let in (WORKSPACE_LOCAL_UIDS)",
			       (unsigned)peer->uid);
		http_response_details(req, HTTP_CODE_UNAUTHORIZED, "", why);
	} else {
		(void)snprintf(why, sizeof(why), "nothing tells which local user this is");
		http_response_error(req, HTTP_CODE_UNAUTHORIZED, "%s", "");
	}
	log_info(LOG_HTTP, "refused id=%s peer=%s why=\"%s\"", req->id, peer->text, why);
}

static bool admit_caller(struct http_request *req)
{
	const struct http_peer *peer = http_conn_peer(req->conn);

	req->is_authorized =
		http_auth_caller(req->core->auth, peer, http_request_header(req, "Authorization"));
	if (req->is_authorized || is_preflight(req) ||
	    (req->route != NULL && req->route->flags & R_NO_AUTH))
		return true;
	refuse_caller(req, peer);
	return false;
}

static bool is_too_large(const struct http_request *req)
{
	return req->has_length && req->content_length > req->core->limits.max_json_body;
}

static bool is_slow(struct http_request *req)
{
	const char *value;

	if (req->route->flags & R_SLOW)
		return true;
	if (!(req->route->flags & R_SLOW_IF_DEEP))
		return false;
	if (http_request_query(req, "recursive", &value) == 1)
		return strcmp(value, "true") == 0;
	return http_request_query(req, "depth", &value) == 1 && strcmp(value, "1") != 0;
}

/* admit_rate() - health is asked by those who watch over us, and costs nothing */
static bool admit_rate(struct http_request *req)
{
	if (req->route != NULL && req->route->flags & R_NO_AUTH)
		return true;
	if (http_limit_begin(req->core->limit, http_conn_peer(req->conn), req->begin_ns,
			     &req->client))
		return true;
	http_response_error(req, HTTP_CODE_BUSY, "%s", "");
	return false;
}

enum router_verdict router_dispatch(struct http_request *req)
{
	int rc = find_route(req);

	if (!admit_page(req) || !admit_caller(req) || !admit_rate(req))
		return ROUTER_ANSWERED;
	if (rc < 0) {
		http_response_error(req, HTTP_CODE_PARAMETER, "bad %%-escape in the path");
		return ROUTER_ANSWERED;
	}
	if (req->method == HTTP_M_OPTIONS) {
		answer_options(req);
		return ROUTER_ANSWERED;
	}
	if (req->route == NULL) {
		refuse_route(req);
		return ROUTER_ANSWERED;
	}
	req->is_slow = is_slow(req);
	if (req->route->flags & R_STREAM)
		return ROUTER_STREAM;
	if (is_too_large(req)) {
		http_response_error(req, HTTP_CODE_TOO_LARGE, "%s", "");
		return ROUTER_ANSWERED;
	}
	return ROUTER_COLLECT;
}

/* A body is JSON when its type says so or says nothing; without a body the type does not matter. */
bool router_type_is_json(struct http_request *req)
{
	const char *type = http_request_header(req, "Content-Type");

	if (type == NULL || type[0] == '\0' || strcasestr(type, "json") != NULL)
		return true;
	/* curl(1) calls whatever -d sends a form.  A web page could send one to another site
	 * without asking first, but then the browser says where it comes from. */
	return strcasestr(type, "x-www-form-urlencoded") != NULL &&
	       http_request_header(req, "Origin") == NULL &&
	       http_request_header(req, "Sec-Fetch-Site") == NULL;
}

void router_run(struct http_request *req)
{
	bool reads_json = req->method == HTTP_M_POST || req->method == HTTP_M_PUT ||
			  req->method == HTTP_M_PATCH;

	if (req->route->flags & R_STREAM) {
		req->route->run(req); /* may have answered: then the request is gone */
		return;
	}
	if (reads_json && req->body.len > 0 && !router_type_is_json(req)) {
		http_response_refuse(req, 415, HTTP_CODE_REQUEST,
				     "Content-Type must be application/json");
		return;
	}
	req->route->run(req);
	if (req->res.status == 0 && !req->wants_pool)
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", "no answer was made");
}
