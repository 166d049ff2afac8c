/* SPDX-License-Identifier: MIT */
/*
 * GET of a file: as JSON text, or its bytes.
 *
 * Small files are read here and sent with their head.  Larger ones are sent from the descriptor by
 * the connection: for each client one descriptor and no memory.  The tag of a file of up to 16 MiB
 * is that of its content, which is read for it once more; the bytes that follow are those of the
 * same inode, which only a writer in place (NFS, a sandbox) can have changed meanwhile.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/utf8.h"
#include "http/api.h"
#include "http/api_files.h"
#include "http/http_core.h"
#include "http/http_range.h"

#define OCTETS  "application/octet-stream"
#define TRY_MAX (16u << 10) /* bytes: read and hashed in some 20 us, on the loop */
#define SMALL_MAX                                                                                  \
	(64u << 10) /* bytes: up to it, one copy is cheaper than a second turn in the pool */

/* wants_raw() - false: the answer is made */
static bool wants_raw(struct http_request *req, bool *ret)
{
	const char *accept = http_request_header(req, "Accept");

	if (!api_files_flag(req, "raw", ret))
		return false;
	*ret = *ret || (accept != NULL && strcasestr(accept, OCTETS) != NULL);
	return true;
}

/* passes() - false: answered 304 or 412 */
static bool passes(struct http_request *req, const struct files_condition *c, const char *etag,
		   const char *path)
{
	bool none_match;
	int rc = files_condition_check(c, etag, &none_match);

	if (rc == 0)
		return true;
	if (none_match) {
		buf_reset(&req->res.body);
		req->res.status = 304;
		http_response_header(req, "ETag", etag);
	} else {
		http_response_path_errno(req, rc, path);
	}
	return false;
}

/* ---- text --------------------------------------------------------------- */

static void put_text(struct http_request *req, const struct buf *text)
{
	struct json_out o;

	/* each byte may need six */
	req->res.body.max = 6 * req->core->limits.max_json_body + 1024;
	o = http_response_json(req);
	json_out_open(&o, '{');
	json_out_key(&o, "content");
	json_out_strn(&o, (const char *)text->data, text->len);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

static void get_text(struct http_request *req, const struct api_file *f,
		     const struct files_condition *c)
{
	char etag[FILES_ETAG_LEN];
	struct buf text = { 0 };
	int rc = files_read_whole(f->ws, f->path.rel, req->core->limits.max_json_body, &text, etag,
				  NULL);

	if (rc < 0) {
		http_response_path_errno(req, rc, f->path.text);
	} else if (passes(req, c, etag, f->path.text)) {
		if (utf8_is_valid((const char *)text.data, text.len)) {
			put_text(req, &text);
			http_response_header(req, "ETag", etag);
		} else {
			http_response_error(req, HTTP_CODE_PARAMETER,
					    "the file is not UTF-8 text; ask for raw=1: %s",
					    f->path.text);
		}
	}
	buf_free(&text);
}

/* ---- bytes -------------------------------------------------------------- */

/* range_of() - If-Range must name the present version, else the whole is sent; HEAD knows no ranges
 */
static enum http_range_result range_of(struct http_request *req, const char *etag, uint64_t size,
				       uint64_t *ret_off, uint64_t *ret_len)
{
	const char *if_range = http_request_header(req, "If-Range");

	*ret_off = 0;
	*ret_len = size;
	if (req->method == HTTP_M_HEAD || http_request_count(req, "Range") != 1 ||
	    (if_range != NULL && strcmp(if_range, etag) != 0))
		return HTTP_RANGE_ALL;
	return http_range_parse(http_request_header(req, "Range"), size, ret_off, ret_len);
}

static void refuse_range(struct http_request *req, uint64_t size, const char *path)
{
	char value[48];

	http_response_error(req, HTTP_CODE_RANGE, "%s", path);
	(void)snprintf(value, sizeof(value), "bytes */%" PRIu64, size);
	http_response_header(req, "Content-Range", value);
}

static void put_raw_headers(struct http_request *req, const char *etag, uint64_t off, uint64_t len,
			    uint64_t size)
{
	char value[80];

	http_response_header(req, "ETag", etag);
	http_response_header(req, "Accept-Ranges", "bytes");
	if (req->res.status != 206)
		return;
	(void)snprintf(value, sizeof(value), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, off,
		       off + len - 1, size);
	http_response_header(req, "Content-Range", value);
}

/* answer_bytes() - with the @n bytes in the body's buffer, which are the whole file */
static void answer_bytes(struct http_request *req, size_t n, const struct api_file *f,
			 const struct files_condition *c)
{
	struct buf *body = &req->res.body;
	char etag[FILES_ETAG_LEN];
	uint64_t off, len;

	(void)files_etag_of_content(etag, body->data, n);
	if (!passes(req, c, etag, f->path.text))
		return;
	switch (range_of(req, etag, n, &off, &len)) {
	case HTTP_RANGE_NONE:
		refuse_range(req, n, f->path.text);
		return;
	case HTTP_RANGE_PART:
		memmove(body->data, body->data + off, (size_t)len);
		req->res.status = 206;
		break;
	case HTTP_RANGE_ALL:
		req->res.status = 200;
	}
	body->len = (size_t)len;
	req->res.type = OCTETS;
	put_raw_headers(req, etag, off, len, n);
}

/* send_small() - read, tag and answer in one; the bytes are those of the tag */
static void send_small(struct http_request *req, int fd, const struct api_file *f,
		       const struct files_condition *c)
{
	struct buf *body = &req->res.body;
	ssize_t n = -ENOMEM;

	if (buf_reserve(body, SMALL_MAX) == 0)
		n = io_pread_full(fd, body->data, SMALL_MAX, 0);
	if (n < 0)
		http_response_path_errno(req, (int)n, f->path.text);
	else
		answer_bytes(req, (size_t)n, f, c);
}

/* try_raw() - on the loop: what is small and in memory */
static void try_raw(struct http_request *req, const struct api_file *f,
		    const struct files_condition *c)
{
	struct buf *body = &req->res.body;
	size_t n = 0;
	int rc = buf_reserve(body, TRY_MAX);

	if (rc == 0)
		rc = files_read_cached(f->ws, f->path.rel, body->data, TRY_MAX, &n);
	if (rc == -EAGAIN)
		req->wants_pool = true;
	else if (rc < 0)
		http_response_path_errno(req, rc, f->path.text);
	else
		answer_bytes(req, n, f, c);
}

static void send_large(struct http_request *req, int *fd, const struct files_info *info,
		       const struct api_file *f, const struct files_condition *c)
{
	char etag[FILES_ETAG_LEN];
	uint64_t off, len;
	int rc = files_etag_fd(*fd, info, etag);

	if (rc < 0) {
		http_response_path_errno(req, rc, f->path.text);
		return;
	}
	if (!passes(req, c, etag, f->path.text))
		return;
	switch (range_of(req, etag, info->size, &off, &len)) {
	case HTTP_RANGE_NONE:
		refuse_range(req, info->size, f->path.text);
		return;
	case HTTP_RANGE_PART:
		http_response_file(req, 206, OCTETS, take_fd(fd), off, len);
		break;
	case HTTP_RANGE_ALL:
		http_response_file(req, 200, OCTETS, take_fd(fd), 0, info->size);
	}
	put_raw_headers(req, etag, off, len, info->size);
}

static void get_raw(struct http_request *req, const struct api_file *f,
		    const struct files_condition *c)
{
	struct files_info info;
	auto_close int fd = files_open_read(f->ws, f->path.rel, &info);

	if (fd < 0)
		http_response_path_errno(req, fd, f->path.text);
	else if (info.size < SMALL_MAX)
		send_small(req, fd, f, c);
	else
		send_large(req, &fd, &info, f, c);
}

void api_files_get(struct http_request *req)
{
	struct files_condition c;
	struct api_file f;
	bool is_raw;

	if (!wants_raw(req, &is_raw) || !api_files_condition(req, &c) ||
	    !api_file_query(req, "path", &f))
		return;
	if (f.path.text[0] == '\0')
		http_response_path_errno(req, -EINVAL, "");
	else if (req->is_trial && !is_raw)
		req->wants_pool = true;
	else if (req->is_trial)
		try_raw(req, &f, &c);
	else if (is_raw)
		get_raw(req, &f, &c);
	else
		get_text(req, &f, &c);
	api_file_done(&f);
}
