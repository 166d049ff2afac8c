/* SPDX-License-Identifier: MIT */
/*
 * PUT of a file: a JSON text, or any bytes, streamed to a staged file in constant memory.
 *
 *   head     prepare()   pool   refuse what can be refused before a byte of the body is asked for
 *   body     on_body()   loop   gather; a full buffer is written in the pool while reading pauses
 *   end      commit()    pool   write the rest, check the condition again, put it in place
 *
 * A body that breaks off, in whatever way, ends in cleanup(): the staged file has no name and is
 * gone with its descriptor.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/api.h"
#include "http/api_files.h"
#include "http/http_conn.h"
#include "http/http_core.h"
#include "http/router.h"
#include "proto/jsonx.h"

#define GATHER_BYTES (256u << 10) /* of a body in memory before they are written */

struct put {
	struct api_file f;
	struct files_condition c;
	struct files_staged *staged; /* owned; NULL for JSON */
	struct buf gathered;         /* owned */
	unsigned flags;              /* of files_replace() */
	bool is_json;
};

/* ---- ends --------------------------------------------------------------- */

/* cleanup() - pool, at the end: closing an unnamed file frees its blocks, which takes time when it
 * is large */
static void cleanup(struct http_request *req)
{
	struct put *p = req->user;

	files_stage_free(take_ptr(p->staged));
	buf_free(&p->gathered);
	api_file_done(&p->f);
	req->hooks.cleanup = NULL;
}

static void answer_stored(struct http_request *req, const struct put *p, int rc,
			  const struct files_result *result)
{
	if (rc < 0) {
		http_response_path_errno(req, rc, p->f.path.text);
		return;
	}
	api_files_done(req, &p->f.path);
	http_response_header(req, "ETag", result->etag);
}

/* ---- JSON --------------------------------------------------------------- */

/* parse_json() - NULL after an answer.  A body without a type is often a file's own bytes, as
 * `curl -T` sends it. */
static json_t *parse_json(struct http_request *req)
{
	const char *type = http_request_header(req, "Content-Type");
	struct err err = { 0 };
	json_t *o;

	if (jsonx_parse_object((const char *)req->body.data, req->body.len, &o, &err) == 0)
		return o;
	if (type == NULL || type[0] == '\0')
		http_response_error(req, HTTP_CODE_REQUEST,
				    "%s (bytes as they are need Content-Type: "
				    "application/octet-stream, or raw=1)",
				    err.msg);
	else
		http_response_error(req, HTTP_CODE_REQUEST, "%s", err.msg);
	return NULL;
}

static void commit_json(struct http_request *req)
{
	struct put *p = req->user;
	struct files_result result;
	struct err err = { 0 };
	auto_json json_t *body = parse_json(req);
	const char *text;
	int rc;

	if (body == NULL)
		return;
	rc = jsonx_get_string(body, "content", SIZE_MAX, &text, &err);
	if (rc == 0)
		rc = err_set(&err, -EINVAL, "'content' is missing");
	if (rc < 0) {
		http_response_error(req, HTTP_CODE_REQUEST, "%s", err.msg);
		return;
	}
	rc = files_write_whole(p->f.ws, p->f.path.rel, text, strlen(text), &p->c, p->flags,
			       &result);
	answer_stored(req, p, rc, &result);
	cleanup(req);
}

/* ---- bytes -------------------------------------------------------------- */

static int write_gathered(struct put *p)
{
	int rc = 0;

	if (p->staged == NULL)
		rc = files_stage_open(p->f.ws, &p->staged);
	if (rc == 0)
		rc = files_stage_write(p->staged, p->gathered.data, p->gathered.len);
	buf_reset(&p->gathered);
	return rc;
}

static void commit_bytes(struct http_request *req)
{
	struct put *p = req->user;
	struct files_result result;
	int rc = write_gathered(p);

	if (rc == 0)
		rc = files_replace(p->f.ws, p->f.path.rel, p->staged, &p->c, p->flags, &result);
	answer_stored(req, p, rc, &result);
	cleanup(req);
}

static void write_some(struct http_request *req)
{
	struct put *p = req->user;
	int rc = write_gathered(p);

	if (rc < 0)
		http_response_path_errno(req, rc, p->f.path.text);
}

/* go_on() - loop: after a step that may have made an answer, which is a refusal */
static void go_on(struct http_request *req)
{
	if (req->res.status != 0)
		http_conn_answer(req);
	else
		http_conn_resume_body(req);
}

static int on_body(struct http_request *req, const char *bytes, size_t n)
{
	struct put *p = req->user;

	if (buf_append(&p->gathered, bytes, n) < 0)
		return -ENOMEM;
	if (p->gathered.len < GATHER_BYTES)
		return 0;
	return http_conn_run_step(req, write_some, go_on) ? -EAGAIN : 0;
}

static void on_body_end(struct http_request *req)
{
	const struct put *p = req->user;

	(void)http_conn_run_step(req, p->is_json ? commit_json : commit_bytes, http_conn_answer);
}

/* ---- the head ----------------------------------------------------------- */

/* take_type() - JSON, bytes, or 415 */
static bool take_type(struct http_request *req, struct put *p)
{
	const char *type = http_request_header(req, "Content-Type");
	bool is_raw;

	if (!api_files_flag(req, "raw", &is_raw))
		return false;
	p->is_json = !is_raw && router_type_is_json(req);
	if (is_raw || p->is_json || strcasestr(type, "application/octet-stream") != NULL)
		return true;
	http_response_refuse(req, 415, HTTP_CODE_REQUEST,
			     "Content-Type must be application/json or application/octet-stream");
	return false;
}

static bool take_head(struct http_request *req, struct put *p)
{
	bool append;

	if (!take_type(req, p) || !api_files_flag(req, "append", &append) ||
	    !api_files_condition(req, &p->c) || !api_file_query(req, "path", &p->f))
		return false;
	p->flags = append ? FILES_APPEND : 0;
	if (p->f.path.text[0] == '\0') {
		http_response_path_errno(req, -EINVAL, "");
		return false;
	}
	if (p->is_json && req->has_length &&
	    req->content_length > req->core->limits.max_json_body) {
		http_response_error(req, HTTP_CODE_TOO_LARGE, "%s", "");
		return false;
	}
	return true;
}

/* prepare() - what would be refused at the end is refused now, as far as it shows */
static void prepare(struct http_request *req)
{
	const struct put *p = req->user;
	struct files_info info;
	int rc = files_stat(p->f.ws, p->f.path.rel, &info);

	if (rc == 0 && !S_ISREG(info.mode) && !S_ISLNK(info.mode))
		rc = S_ISDIR(info.mode) ? -EISDIR : -ENXIO;
	if (rc == 0 || rc == -ENOENT)
		rc = files_check(p->f.ws, p->f.path.rel, &p->c);
	if (rc < 0 && rc != -EISDIR && rc != -ENXIO && rc != -EBADE && rc != -EXDEV &&
	    rc != -ENOTDIR && rc != -ELOOP && rc != -ENAMETOOLONG && rc != -EACCES)
		rc = 0; /* the end will tell */
	if (rc < 0)
		http_response_path_errno(req, rc, p->f.path.text);
}

static void on_prepared(struct http_request *req)
{
	if (req->res.status != 0)
		http_conn_answer(req);
	else if (req->has_body)
		http_conn_resume_body(req);
	else
		on_body_end(req);
}

void api_files_put(struct http_request *req)
{
	struct put *p = arena_zalloc(&req->arena, sizeof(*p));

	if (p == NULL) {
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", "out of memory");
		http_conn_answer(req);
		return;
	}
	req->user = p;
	req->hooks = (struct http_request_hooks){ .on_body = on_body,
						  .on_body_end = on_body_end,
						  .cleanup = cleanup };
	if (!take_head(req, p)) {
		http_conn_answer(req);
		return;
	}
	req->collects = p->is_json;
	(void)http_conn_run_step(req, prepare, on_prepared);
}
