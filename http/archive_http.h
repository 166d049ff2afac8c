/* SPDX-License-Identifier: MIT */
/*
 * What the routes that move archives share: sending one as an answer, telling what went wrong.
 * Control loop only.
 */
#ifndef HTTP_ARCHIVE_HTTP_H
#define HTTP_ARCHIVE_HTTP_H

#include <stdint.h>

#include "base/buf.h"
#include "http/archive_job.h"
#include "http/http_request.h"
#include "workspace/workspace.h"

/* archive_http_begin() - fill in what every job of @ws has; @path is cut when it is too long.
 * True: what it may unpack is limited by the workspace's quota. */
bool archive_http_begin(struct http_request *req, const struct workspace *ws, enum arc_op op,
			const char *path, struct arc_job *job);

/**
 * archive_http_send() - answer with the archive that @job packs
 * @ws:		takes the reference
 * @filename:	offered to whoever saves it; copied
 * @head:	bytes before what the worker sends; takes them; may be empty
 */
void archive_http_send(struct http_request *req, struct workspace *ws, const struct arc_job *job,
		       const char *filename, struct buf *head);

/* archive_http_refuse() - a job that could not be started: 429 or 1003 */
void archive_http_refuse(struct http_request *req, int rc);

/**
 * archive_http_error() - the answer to a job that ended with @end->rc < 0
 * @subject:	what the contract's message names: the path
 * @details:	NULL, or what had been done until then
 */
void archive_http_error(struct http_request *req, const struct arc_note *end, const char *subject,
			const char *details);

/* Entries that were left out, as a JSON array in the making. */
struct archive_skipped {
	struct buf json; /* owned */
	struct json_out out;
};
void archive_skipped_add(struct archive_skipped *s, const struct arc_note *note);
/* archive_skipped_put() - "entries", "bytes", "skipped", "n_skipped" of an unpacked archive */
void archive_skipped_put(struct archive_skipped *s, const struct arc_note *end, struct json_out *o);

#endif
