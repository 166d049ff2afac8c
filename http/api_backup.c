/* SPDX-License-Identifier: MIT */
/*
 * A workspace as one file, and back.  A backup is a tar archive: an entry that says which workspace
 * it is, then its files below "files/".  The first is written and read here, the rest by a worker
 * (workspace/archive.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/api.h"
#include "http/api_workspaces.h"
#include "http/archive_http.h"
#include "http/http_conn.h"
#include "http/http_core.h"
#include "proto/jsonx.h"

#define BACKUP_VERSION 1

/* ---- out ---------------------------------------------------------------- */

/* What a restore reads, and what a person wants to know. */
static int write_meta(struct http_request *req, const struct workspace *ws, struct buf *b)
{
	struct json_out o = JSON_OUT(b);

	json_out_open(&o, '{');
	json_out_key_u64(&o, "workspaced_backup", BACKUP_VERSION);
	api_workspaces_put_time(&o, "saved_at", clock_real_ns());
	api_workspaces_put(&o, req->core->options, ws);
	json_out_close(&o, '}');
	return o.rc;
}

/* The first entry as it stands in a tar archive. */
static int write_first_entry(struct http_request *req, const struct workspace *ws, struct buf *ret)
{
	static const uint8_t zeros[ARC_TAR_BLOCK];
	struct buf meta = { 0 };
	uint8_t head[ARC_TAR_BLOCK];
	int rc = write_meta(req, ws, &meta);

	arc_tar_head(head, ARC_META_NAME, meta.len, clock_real_ns() / NSEC_PER_SEC);
	if (rc == 0)
		rc = buf_append(ret, head, sizeof(head));
	if (rc == 0)
		rc = buf_append(ret, meta.data, meta.len);
	if (rc == 0 && meta.len % ARC_TAR_BLOCK != 0)
		rc = buf_append(ret, zeros, ARC_TAR_BLOCK - meta.len % ARC_TAR_BLOCK);
	buf_free(&meta);
	return rc;
}

void api_workspaces_backup(struct http_request *req)
{
	struct workspace *ws = api_workspaces_find(req);
	struct buf first = { 0 };
	struct arc_job job;
	char name[64];

	if (ws == NULL) {
		http_conn_answer(req);
		return;
	}
	if (write_first_entry(req, ws, &first) < 0) {
		buf_free(&first);
		workspace_unref(ws);
		archive_http_refuse(req, -ENOMEM);
		return;
	}
	(void)archive_http_begin(req, ws, ARC_PACK, "", &job);
	job.format = ARC_TAR;
	job.flags = ARC_BACKUP;
	(void)snprintf(name, sizeof(name), "workspace-%.8s.tar", ws->id);
	archive_http_send(req, ws, &job, name, &first); /* takes both */
}

/* ---- in ----------------------------------------------------------------- */

/*
 * The workspace is made first, in the pool, unfinished: nobody finds it.  Then the worker fills it
 * while the body arrives; at the end, in the pool again, it gets its name and is served.  Whatever
 * goes wrong before that removes it, and so does the next start when the daemon is killed.
 */
struct restoring {
	struct http_request *req;
	struct workspace *ws;    /* owned reference */
	struct archive_job *job; /* owned; control loop only */
	struct buf meta;         /* owned */
	struct archive_skipped skipped;
	struct arc_note end;
	bool is_done; /* the workspace is served and stays */
};

static void make_workspace(struct http_request *req)
{
	struct restoring *r = req->user;
	const struct ws_create c = { .is_unfinished = true };
	struct err err = { 0 };
	int rc = ws_create(req->core->options->registry, &c, &r->ws, &err);

	if (rc < 0)
		http_response_errno(req, rc, &err);
}

/* Pool, however the request ends. */
static void cleanup(struct http_request *req)
{
	struct restoring *r = req->user;
	struct err err = { 0 };

	if (r->ws != NULL && !r->is_done &&
	    ws_abandon(req->core->options->registry, r->ws, &err) < 0)
		log_error(LOG_HTTP, "what a failed restore left is still there id=%s why=\"%s\"",
			  req->id, err.msg);
	workspace_unref(r->ws);
	buf_free(&r->meta);
	buf_free(&r->skipped.json);
}

static int read_meta(struct restoring *r, json_t **ret, struct ws_patch *p, struct err *err)
{
	int64_t version;
	int rc = jsonx_parse_object((const char *)r->meta.data, r->meta.len, ret, err);

	if (rc < 0)
		return err_wrap(err, rc, ARC_META_NAME);
	rc = jsonx_get_int(*ret, "workspaced_backup", 1, BACKUP_VERSION, &version, err);
	if (rc == 0)
		rc = err_set(err, -EINVAL, "it is no backup of a workspace");
	if (rc >= 0)
		rc = jsonx_get_string(*ret, "name", WS_NAME_MAX, &p->name, err);
	if (rc >= 0)
		rc = api_workspaces_metadata(r->req, *ret, false, &p->metadata, &p->n_metadata,
					     err);
	p->has_name = true;
	return rc;
}

static void answer_restored(struct restoring *r)
{
	struct http_request *req = r->req;
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	api_workspaces_put(&o, req->core->options, r->ws);
	archive_skipped_put(&r->skipped, &r->end, &o);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

static void finish(struct http_request *req)
{
	struct restoring *r = req->user;
	auto_json json_t *meta = NULL;
	struct ws_patch p = { 0 };
	struct err err = { 0 };
	int rc;

	if (r->end.rc < 0) {
		archive_http_error(req, &r->end, "the new workspace", "nothing was kept");
		return;
	}
	rc = read_meta(r, &meta, &p, &err);
	if (rc >= 0)
		rc = ws_update(req->core->options->registry, r->ws, &p, &err);
	if (rc >= 0)
		rc = ws_finish(req->core->options->registry, r->ws, &err);
	r->is_done = rc >= 0;
	if (rc < 0)
		http_response_errno(req, rc, &err);
	else
		answer_restored(r);
}

static void on_end(void *arg, const struct arc_note *end)
{
	struct restoring *r = arg;

	r->end = *end;
	archive_job_close(take_ptr(r->job));
	(void)http_conn_run_step(r->req, finish, http_conn_answer); /* @r may be gone */
}

static void on_skipped(void *arg, const struct arc_note *note)
{
	struct restoring *r = arg;

	archive_skipped_add(&r->skipped, note);
}

static void on_meta(void *arg, const char *p, size_t n)
{
	struct restoring *r = arg;

	r->meta.max = ARC_META_MAX;
	(void)buf_append(&r->meta, p, n); /* one that is cut is no JSON, and is refused as such */
}

static void on_drain(void *arg)
{
	struct restoring *r = arg;

	http_conn_resume_body(r->req); /* @r may be gone now */
}

static int on_body(struct http_request *req, const char *p, size_t n)
{
	struct restoring *r = req->user;

	return archive_job_write(r->job, p, n);
}

static void on_body_end(struct http_request *req)
{
	struct restoring *r = req->user;

	archive_job_write_end(r->job);
}

static void on_abort(struct http_request *req)
{
	struct restoring *r = req->user;

	archive_job_close(take_ptr(r->job));
}

static void on_made(struct http_request *req)
{
	struct restoring *r = req->user;
	const struct archive_job_hooks hooks = { .on_drain = on_drain,
						 .on_skipped = on_skipped,
						 .on_meta = on_meta,
						 .on_end = on_end,
						 .arg = r };
	struct arc_job job;
	int rc;

	if (req->res.status != 0) {
		http_conn_answer(req);
		return;
	}
	(void)archive_http_begin(req, r->ws, ARC_UNPACK, "", &job);
	job.format = ARC_AUTO;
	job.flags = ARC_BACKUP | ARC_KEEP_LINKS;
	rc = archive_job_start(&req->core->options->archives, &job, r->ws->root_fd, &hooks,
			       &r->job);
	if (rc < 0)
		archive_http_refuse(req, rc);
	else
		http_conn_resume_body(req);
}

void api_workspaces_restore(struct http_request *req)
{
	struct restoring *r = arena_zalloc(&req->arena, sizeof(*r));

	if (r == NULL || !req->has_body) {
		http_response_error(req, r == NULL ? HTTP_CODE_INTERNAL : HTTP_CODE_REQUEST, "%s",
				    r == NULL ? "out of memory" : "the body must be a backup");
		http_conn_answer(req);
		return;
	}
	r->req = req;
	req->user = r;
	req->hooks = (struct http_request_hooks){ .on_body = on_body,
						  .on_body_end = on_body_end,
						  .on_abort = on_abort,
						  .cleanup = cleanup };
	(void)http_conn_run_step(req, make_workspace, on_made);
}
