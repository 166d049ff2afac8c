/* SPDX-License-Identifier: MIT */
/* See archive_http.h. */
#include "http/archive_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "http/http_conn.h"
#include "http/http_core.h"
#include "proto/status.h"
#include "workspace/quota.h"

/* What is unpacked is only charged by the next count, so it is held to what is left now. */
static bool limit_to_quota(const struct workspace *ws, struct arc_limits *l)
{
	struct quota_limits room = quota_room(ws);
	bool is_less = room.bytes < l->bytes || room.files < l->entries;

	l->bytes = MIN(l->bytes, room.bytes);
	l->entries = MIN(l->entries, room.files);
	return is_less;
}

bool archive_http_begin(struct http_request *req, const struct workspace *ws, enum arc_op op,
			const char *path, struct arc_job *job)
{
	const struct http_archives *a = &req->core->options->archives;

	*job = (struct arc_job){
		.op = op,
		.owner_uid = ws->owner_uid,
		.owner_gid = ws->owner_gid,
		.limits = { .bytes = a->max_bytes,
			    .entries = a->max_entries,
			    .ratio = a->max_ratio },
	};
	(void)snprintf(job->path, sizeof(job->path), "%s", path);
	return op == ARC_UNPACK && limit_to_quota(ws, &job->limits);
}

/* ---- errors ------------------------------------------------------------- */

void archive_http_refuse(struct http_request *req, int rc)
{
	if (rc == -EAGAIN)
		http_response_error(req, HTTP_CODE_BUSY, "%s", "");
	else
		http_response_error(req, HTTP_CODE_INTERNAL, "no process for the archive: %s",
				    strerror(-rc));
	http_conn_answer(req);
}

/* One sentence of a worker that is not trusted: printable, or not shown. */
static const char *sentence_of(const struct arc_note *end, char dst[256])
{
	size_t n = MIN((size_t)end->len, (size_t)255);

	for (size_t i = 0; i < n; i++)
		dst[i] = end->text[i] >= ' ' && end->text[i] <= '~' ? end->text[i] : '?';
	dst[n] = '\0';
	return dst;
}

static void write_error(struct http_request *req, const struct status_row *row, const char *message,
			const char *details)
{
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	json_out_key_u64(&o, "code", (uint64_t)row->api_code);
	json_out_key_str(&o, "message", message);
	if (details[0] != '\0')
		json_out_key_str(&o, "details", details);
	json_out_close(&o, '}');
	http_response_json_end(req, row->http, &o);
	req->res.code = row->api_code;
}

void archive_http_error(struct http_request *req, const struct arc_note *end, const char *subject,
			const char *details)
{
	const struct status_row *row = status_of(end->rc);
	char message[1024], why[256], all[768];

	(void)sentence_of(end, why);
	if (end->rc == -EINVAL && end->len > 0) {
		http_response_error(req, HTTP_CODE_REQUEST, "%s", why);
		return;
	}
	(void)snprintf(message, sizeof(message), "%.*s%s", (int)strcspn(row->text, "%"), row->text,
		       subject);
	if (row->api_code == HTTP_CODE_TOO_LARGE) /* the contract's message has no subject */
		(void)snprintf(message, sizeof(message), "Payload too large");
	(void)snprintf(all, sizeof(all), "%s%s%s", why,
		       why[0] != '\0' && details != NULL ? "; " : "",
		       details != NULL ? details : "");
	write_error(req, row, message, all);
}

/* ---- what was left out -------------------------------------------------- */

void archive_skipped_add(struct archive_skipped *s, const struct arc_note *note)
{
	if (s->out.buf == NULL)
		s->out = (struct json_out)JSON_OUT(&s->json);
	json_out_open(&s->out, '{');
	json_out_key(&s->out, "path");
	json_out_strn(&s->out, note->text, note->len);
	json_out_key_str(&s->out, "reason", arc_reason_text(note->reason));
	json_out_close(&s->out, '}');
}

void archive_skipped_put(struct archive_skipped *s, const struct arc_note *end, struct json_out *o)
{
	json_out_key_u64(o, "entries", end->n_entries);
	json_out_key_u64(o, "bytes", end->n_bytes);
	json_out_key_u64(o, "n_skipped", end->n_skipped);
	json_out_key(o, "skipped");
	json_out_open(o, '[');
	if (s->json.len > 0 && s->out.rc == 0)
		json_out_raw(o, (const char *)s->json.data, s->json.len);
	json_out_close(o, ']');
}

/* ---- sending ------------------------------------------------------------ */

struct sending {
	struct http_request *req;
	struct archive_job *job; /* owned */
	struct workspace *ws;    /* owned reference */
	struct buf head;         /* owned */
	const char *type;        /* static */
	bool has_begun;
};

static void sending_free(struct sending *s)
{
	archive_job_close(s->job);
	workspace_unref(s->ws);
	buf_free(&s->head);
	free(s);
}

/* Status and headers go with the first bytes: until then an error can still be told. */
static int begin_answer(struct sending *s)
{
	int rc = http_conn_stream_begin(s->req, 200, s->type, -1);

	s->has_begun = true;
	if (rc == 0 && s->head.len > 0)
		rc = http_conn_stream_write(s->req, s->head.data, s->head.len);
	return rc;
}

static bool on_data(void *arg, const char *p, size_t n)
{
	struct sending *s = arg;
	struct http_request *req = s->req;
	int rc;

	if (__atomic_load_n(&s->ws->is_gone, __ATOMIC_ACQUIRE)) {
		http_conn_abort(req->conn); /* deleted meanwhile */
		return false;
	}
	rc = s->has_begun ? 0 : begin_answer(s);

	if (req->method == HTTP_M_HEAD) { /* that it can be packed is all that was asked */
		sending_free(s);
		http_conn_stream_end(req);
		return false;
	}
	if (rc == 0 || rc == -EAGAIN)
		rc = http_conn_stream_write(s->req, p, n);
	return rc == 0; /* a client that is gone aborts the request, which ends the job */
}

static void on_drain(struct http_request *req)
{
	struct sending *s = req->user;

	archive_job_resume(s->job);
}

static void on_abort(struct http_request *req)
{
	sending_free(req->user);
}

static void on_end(void *arg, const struct arc_note *end)
{
	struct sending *s = arg;
	struct http_request *req = s->req;
	char why[256];

	if (end->n_skipped > 0)
		log_info(LOG_HTTP, "left out of an archive id=%s entries=%llu", req->id,
			 (unsigned long long)end->n_skipped);
	if (end->rc < 0 && s->has_begun) {
		/* The client must not take what it has for the whole. */
		log_warn(LOG_HTTP, "an archive was cut off id=%s error=%d why=\"%s\"", req->id,
			 end->rc, sentence_of(end, why));
		http_conn_abort(req->conn); /* and with it on_abort() */
		return;
	}
	if (end->rc < 0) {
		archive_http_error(req, end, s->ws->id, NULL);
		sending_free(s);
		http_conn_answer(req);
		return;
	}
	if (!s->has_begun)
		(void)begin_answer(s);
	sending_free(s);
	http_conn_stream_end(req);
}

static const char *type_of(uint32_t format)
{
	static const char *const types[ARC_N_FORMATS] = {
		[ARC_AUTO] = "application/octet-stream",
		[ARC_TAR] = "application/x-tar",
		[ARC_TAR_GZ] = "application/gzip",
		[ARC_ZIP] = "application/zip",
	};

	return types[format];
}

/* A quoted string of RFC 9110: what could end it is left out. */
static void offer_filename(struct http_request *req, const char *filename)
{
	char safe[128], value[192];
	size_t n = 0;

	for (; *filename != '\0' && n < sizeof(safe) - 1; filename++)
		if (*filename >= ' ' && *filename <= '~' && strchr("\"\\/", *filename) == NULL)
			safe[n++] = *filename;
	safe[n] = '\0';
	(void)snprintf(value, sizeof(value), "attachment; filename=\"%s\"", safe);
	http_response_header(req, "Content-Disposition", value);
}

void archive_http_send(struct http_request *req, struct workspace *ws, const struct arc_job *job,
		       const char *filename, struct buf *head)
{
	struct sending *s = calloc(1, sizeof(*s));
	struct archive_job_hooks hooks = { .on_data = on_data, .on_end = on_end, .arg = s };
	int rc = -ENOMEM;

	if (s != NULL) {
		*s = (struct sending){
			.req = req, .ws = ws, .head = *head, .type = type_of(job->format)
		};
		*head = (struct buf){ 0 };
		rc = archive_job_start(&req->core->options->archives, job, ws->root_fd, &hooks,
				       &s->job);
	}
	if (rc < 0) {
		if (s != NULL)
			sending_free(s);
		else
			workspace_unref(ws);
		archive_http_refuse(req, rc);
		return;
	}
	req->user = s;
	req->hooks.on_drain = on_drain;
	req->hooks.on_abort = on_abort;
	offer_filename(req, filename);
}
