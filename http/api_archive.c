/* SPDX-License-Identifier: MIT */
/*
 * GET and PUT of files/archive: a directory of a workspace as one stream, and back.  The bytes pass
 * through; a worker process makes them and takes them apart (workspace/archive.h).
 */
#include "http/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/api_files.h"
#include "http/archive_http.h"
#include "http/http_conn.h"
#include "http/http_core.h"
#include "workspace/quota.h"

/* ---- the request -------------------------------------------------------- */

/* All that both need. */
struct wanted {
	struct api_file file;
	enum arc_format format;
	bool keeps_links;
};

static bool refuse_parameter(struct http_request *req, const char *why)
{
	http_response_error(req, HTTP_CODE_PARAMETER, "%s", why);
	return false;
}

static bool read_format(struct http_request *req, struct wanted *w, enum arc_format def)
{
	const char *text = NULL;
	int rc = http_request_query(req, "format", &text);
	int format = rc > 0 ? arc_format_by_name(text) : (int)def;

	if (rc < 0 || format < 0 || (format == ARC_AUTO && def != ARC_AUTO))
		return refuse_parameter(req, def == ARC_AUTO
						     ? "'format' must be auto, tar, tar.gz or zip"
						     : "'format' must be tar, tar.gz or zip");
	w->format = (enum arc_format)format;
	return true;
}

static bool read_links(struct http_request *req, struct wanted *w)
{
	const char *text = "inside";
	int rc = http_request_query(req, "links", &text);

	w->keeps_links = strcmp(text, "keep") == 0;
	if (rc < 0 || (!w->keeps_links && strcmp(text, "inside") != 0))
		return refuse_parameter(req, "'links' must be inside or keep");
	return true;
}

/* false: the answer has been sent */
static bool read_request(struct http_request *req, enum arc_format def, struct wanted *w)
{
	if (api_file_query(req, "path", &w->file)) {
		if (read_format(req, w, def) && read_links(req, w))
			return true;
		api_file_done(&w->file);
	}
	http_conn_answer(req);
	return false;
}

/* ---- out ---------------------------------------------------------------- */

void api_archive_get(struct http_request *req)
{
	struct arc_job job;
	struct wanted w;
	char name[160];
	const char *last;

	if (!read_request(req, ARC_TAR, &w))
		return;
	(void)archive_http_begin(req, w.file.ws, ARC_PACK, w.file.path.rel, &job);
	job.format = w.format;
	last = strrchr(w.file.path.rel, '/');
	last = last != NULL ? last + 1 : w.file.path.rel;
	(void)snprintf(name, sizeof(name), "%.100s.%s", last[0] != '\0' ? last : "workspace",
		       arc_format_names[w.format]);
	archive_http_send(req, w.file.ws, &job, name, &(struct buf){ 0 });
}

/* ---- in ----------------------------------------------------------------- */

struct receiving {
	struct http_request *req;
	struct archive_job *job; /* owned */
	struct workspace *ws;    /* owned reference */
	const char *path;        /* as the client wrote it; the request's */
	struct archive_skipped skipped;
	bool is_quota; /* the quota limits what may be unpacked */
};

static void receiving_free(struct receiving *r)
{
	archive_job_close(r->job);
	quota_tree_changed(r->ws); /* or come: count again soon */
	workspace_unref(r->ws);
	buf_free(&r->skipped.json);
	free(r);
}

static int on_body(struct http_request *req, const char *p, size_t n)
{
	struct receiving *r = req->user;

	if (__atomic_load_n(&r->ws->is_gone, __ATOMIC_ACQUIRE))
		return -ESTALE; /* deleted meanwhile: the connection ends, and the worker */
	return archive_job_write(r->job, p, n);
}

static void on_body_end(struct http_request *req)
{
	struct receiving *r = req->user;

	archive_job_write_end(r->job);
}

static void on_abort(struct http_request *req)
{
	receiving_free(req->user);
}

static void on_drain(void *arg)
{
	struct receiving *r = arg;

	http_conn_resume_body(r->req); /* @r may be gone now */
}

static void on_skipped(void *arg, const struct arc_note *note)
{
	struct receiving *r = arg;

	archive_skipped_add(&r->skipped, note);
}

static void answer_unpacked(struct receiving *r, const struct arc_note *end)
{
	struct json_out o = http_response_json(r->req);

	json_out_open(&o, '{');
	json_out_key_bool(&o, "success", true);
	json_out_key_str(&o, "path", r->path);
	archive_skipped_put(&r->skipped, end, &o);
	json_out_close(&o, '}');
	http_response_json_end(r->req, 200, &o);
}

static void on_end(void *arg, const struct arc_note *told)
{
	struct receiving *r = arg;
	struct http_request *req = r->req;
	struct arc_note copy = *told, *end = &copy;
	char done[128];

	if (end->rc == -EFBIG && r->is_quota)
		end->rc = -EDQUOT;

	(void)snprintf(done, sizeof(done), "%llu entries with %llu bytes are in place",
		       (unsigned long long)end->n_entries, (unsigned long long)end->n_bytes);
	if (end->rc < 0)
		archive_http_error(req, end, r->path, done);
	else
		answer_unpacked(r, end);
	receiving_free(r);
	http_conn_answer(req);
}

static int start_receiving(struct http_request *req, struct receiving *r, const struct wanted *w)
{
	const struct archive_job_hooks hooks = {
		.on_drain = on_drain, .on_skipped = on_skipped, .on_end = on_end, .arg = r
	};
	struct arc_job job;

	r->is_quota = archive_http_begin(req, w->file.ws, ARC_UNPACK, w->file.path.rel, &job);
	job.format = w->format;
	job.flags = w->keeps_links ? ARC_KEEP_LINKS : 0;
	return archive_job_start(&req->core->options->archives, &job, w->file.ws->root_fd, &hooks,
				 &r->job);
}

void api_archive_put(struct http_request *req)
{
	struct receiving *r;
	struct wanted w;
	int rc = -ENOMEM;

	if (!req->has_body) {
		http_response_error(req, HTTP_CODE_REQUEST, "the body must be an archive");
		http_conn_answer(req);
		return;
	}
	if (!read_request(req, ARC_AUTO, &w))
		return;
	r = calloc(1, sizeof(*r));
	if (r != NULL) {
		*r = (struct receiving){ .req = req, .ws = w.file.ws, .path = w.file.path.text };
		rc = start_receiving(req, r, &w);
	}
	if (rc < 0) {
		if (r != NULL)
			receiving_free(r);
		else
			api_file_done(&w.file);
		archive_http_refuse(req, rc);
		return;
	}
	req->user = r;
	req->hooks = (struct http_request_hooks){ .on_body = on_body,
						  .on_body_end = on_body_end,
						  .on_abort = on_abort };
}
