/* SPDX-License-Identifier: MIT */
/* Files over HTTP: what the handlers share, and those that work on names alone. */
#include "http/api_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "http/api.h"
#include "http/http_core.h"
#include "http/router.h"
#include "proto/jsonx.h"
#include "workspace/path.h"

#define SANDBOX_ROUTE "/api/v1/sandboxes/"

/* ---- of the request ----------------------------------------------------- */

struct workspace *api_files_ws(struct http_request *req)
{
	struct workspace *ws;

	if (strncmp(req->route->pattern, SANDBOX_ROUTE, strlen(SANDBOX_ROUTE)) == 0) {
		http_response_error(req, HTTP_CODE_NO_SANDBOX, "%s", req->params[0]);
		return NULL;
	}
	ws = ws_find(req->core->options->registry, req->params[0]);
	if (ws == NULL)
		http_response_error(req, HTTP_CODE_NO_WORKSPACE, "%s", req->params[0]);
	return ws;
}

bool api_path_take(struct http_request *req, const char *text, size_t n, struct api_path *ret)
{
	int rc = files_path_parse(text, n, ret->rel);

	ret->text = text;
	if (rc < 0)
		http_response_path_errno(req, rc, text);
	return rc == 0;
}

bool api_path_query(struct http_request *req, const char *name, struct api_path *ret)
{
	const char *text = "";
	int rc = http_request_query(req, name, &text);

	if (rc == -EILSEQ)
		http_response_error(req, HTTP_CODE_BAD_PATH, "'%s' has a NUL byte", name);
	else if (rc < 0)
		http_response_error(req, HTTP_CODE_PARAMETER, "bad %%-escape in '%s'", name);
	return rc >= 0 && api_path_take(req, text, strlen(text), ret);
}

/* decode() - base64 into the arena; -EINVAL */
static int decode(struct http_request *req, const char *text, const char **ret, size_t *ret_len)
{
	size_t n = strlen(text);
	char *dst = arena_alloc(&req->arena, n + 1);

	if (dst == NULL)
		return -ENOMEM;
	if (sodium_base642bin((unsigned char *)dst, n, text, n, NULL, ret_len, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0)
		return -EINVAL;
	dst[*ret_len] = '\0';
	*ret = dst;
	return 0;
}

bool api_bytes_json(struct http_request *req, json_t *body, const char *name, const char **ret,
		    size_t *ret_len)
{
	struct err err = { 0 };
	char twin[64];
	int rc = jsonx_get_string(body, name, SIZE_MAX, ret, &err);

	if (rc == 1)
		*ret_len = strlen(*ret);
	if (rc == 0) {
		(void)snprintf(twin, sizeof(twin), "%s_base64", name);
		rc = jsonx_get_string(body, twin, SIZE_MAX, ret, &err);
		if (rc == 1 && decode(req, *ret, ret, ret_len) < 0)
			rc = err_set(&err, -EINVAL, "'%s' must be base64", twin);
	}
	if (rc == 0)
		rc = err_set(&err, -EINVAL, "'%s' is missing", name);
	if (rc < 0)
		http_response_error(req, HTTP_CODE_REQUEST, "%s", err.msg);
	return rc == 1;
}

bool api_path_json(struct http_request *req, json_t *body, const char *name, struct api_path *ret)
{
	const char *text;
	size_t n;

	if (!api_bytes_json(req, body, name, &text, &n))
		return false;
	text = arena_strndup(&req->arena, text, n); /* @body ends before the request does */
	if (text == NULL)
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", "out of memory");
	return text != NULL && api_path_take(req, text, n, ret);
}

bool api_file_query(struct http_request *req, const char *name, struct api_file *ret)
{
	ret->ws = api_files_ws(req);
	if (ret->ws == NULL)
		return false;
	if (api_path_query(req, name, &ret->path))
		return true;
	api_file_done(ret);
	return false;
}

void api_file_done(struct api_file *f)
{
	workspace_unref(f->ws);
	f->ws = NULL;
}

/* join_header() - the values of all headers @name as one list; NULL when there is none */
static const char *join_header(struct http_request *req, const char *name)
{
	const char *all = NULL;

	if (http_request_count(req, name) < 2)
		return http_request_header(req, name);
	for (unsigned i = 0; i < req->n_headers; i++) {
		const struct http_header *h = &req->headers[i];

		if (h->name_len != strlen(name) || strncasecmp(h->name, name, h->name_len) != 0)
			continue;
		all = arena_printf(&req->arena, "%s%s%.*s", all != NULL ? all : "",
				   all != NULL ? ", " : "", (int)h->value_len, h->value);
		if (all == NULL)
			return "out of memory"; /* no list of tags, so it is refused */
	}
	return all;
}

bool api_files_condition(struct http_request *req, struct files_condition *ret)
{
	if (files_condition_parse(ret, join_header(req, "If-Match"),
				  join_header(req, "If-None-Match")) == 0)
		return true;
	http_response_error(req, HTTP_CODE_PARAMETER,
			    "If-Match and If-None-Match take * or a list of \"tags\" in quotes");
	return false;
}

bool api_files_flag(struct http_request *req, const char *name, bool *ret)
{
	const char *text;
	int rc = http_request_query(req, name, &text);

	*ret = rc == 1 && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
	if (rc == 0 || *ret || (rc == 1 && (strcmp(text, "0") == 0 || strcmp(text, "false") == 0)))
		return true;
	http_response_error(req, HTTP_CODE_PARAMETER, "'%s' must be true or false", name);
	return false;
}

json_t *api_files_body(struct http_request *req)
{
	struct err err = { 0 };
	json_t *o;

	if (jsonx_parse_object((const char *)req->body.data, req->body.len, &o, &err) == 0)
		return o;
	http_response_error(req, HTTP_CODE_REQUEST, "%s", err.msg);
	return NULL;
}

/* ---- answers ------------------------------------------------------------ */

static void put_base64(struct json_out *o, const char *key, const char *s)
{
	char text[4 * FILES_PATH_MAX / 3 + 8];

	(void)sodium_bin2base64(text, sizeof(text), (const unsigned char *)s, strlen(s),
				sodium_base64_VARIANT_ORIGINAL);
	json_out_key_str(o, key, text);
}

void api_files_done(struct http_request *req, const struct api_path *path)
{
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	json_out_key_bool(&o, "success", true);
	json_out_key_str(&o, "path", path->text);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

void api_files_put_path(struct json_out *o, const char *path)
{
	json_out_key_str(o, "path", path);
	if (!utf8_is_valid(path, strlen(path)))
		put_base64(o, "path_base64", path);
}

/* put_link() - where a link points, and whether that is something inside the workspace */
static void put_link(struct json_out *o, const struct api_info *i)
{
	char target[FILES_PATH_MAX + 1];
	ssize_t n = readlinkat(i->dirfd, i->name, target, sizeof(target) - 1);
	int fd;

	if (n < 0)
		return;
	target[n] = '\0';
	fd = path_open(i->ws->root_fd, i->rel, O_PATH, 0, 0);
	json_out_key_str(o, "target", target);
	json_out_key_bool(o, "broken", fd < 0);
	if (fd >= 0)
		(void)close(fd);
}

/* The contract knows three types; what else there is on a disk is a file that cannot be read. */
static void put_type(struct json_out *o, mode_t mode)
{
	static const struct {
		mode_t type;
		const char *name, *special;
	} types[] = {
		{ S_IFREG, "file", NULL },           { S_IFDIR, "directory", NULL },
		{ S_IFLNK, "symlink", NULL },        { S_IFIFO, "file", "fifo" },
		{ S_IFSOCK, "file", "socket" },      { S_IFCHR, "file", "character-device" },
		{ S_IFBLK, "file", "block-device" },
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (types[i].type != (mode & S_IFMT))
			continue;
		json_out_key_str(o, "type", types[i].name);
		if (types[i].special != NULL)
			json_out_key_str(o, "special", types[i].special);
	}
}

void api_files_put_info(struct json_out *o, const struct api_info *i)
{
	const struct files_info *info = &i->info;
	char time[CLOCK_RFC3339_LEN], mode[8];

	(void)clock_rfc3339(time, sizeof(time),
			    info->mtime.tv_sec < 0 ? 0
						   : (uint64_t)info->mtime.tv_sec * NSEC_PER_SEC +
							     (uint64_t)info->mtime.tv_nsec);
	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)info->mode & 07777);
	json_out_open(o, '{');
	json_out_key_str(o, "name", i->name);
	api_files_put_path(o, i->path);
	put_type(o, info->mode);
	json_out_key_u64(o, "size", info->size);
	json_out_key_str(o, "modified_at", time);
	json_out_key_str(o, "mode", mode);
	json_out_key_str(o, "mod_time", time);
	json_out_key_bool(o, "is_dir", S_ISDIR(info->mode));
	if (!utf8_is_valid(i->name, strlen(i->name)))
		put_base64(o, "name_base64", i->name);
	if (S_ISLNK(info->mode) && i->dirfd >= 0)
		put_link(o, i);
	json_out_close(o, '}');
}

/* ---- handlers ----------------------------------------------------------- */

void api_files_delete(struct http_request *req)
{
	struct files_condition c;
	struct api_file f;
	bool recursive;
	int rc;

	if (!api_files_flag(req, "recursive", &recursive) || !api_files_condition(req, &c) ||
	    !api_file_query(req, "path", &f))
		return;
	rc = files_remove(f.ws, f.path.rel, recursive, &c);
	if (rc < 0)
		http_response_path_errno(req, rc, f.path.text);
	else
		api_files_done(req, &f.path);
	api_file_done(&f);
}

void api_files_mkdir(struct http_request *req)
{
	struct workspace *ws = api_files_ws(req);
	auto_json json_t *body = ws != NULL ? api_files_body(req) : NULL;
	struct api_path path;
	int rc;

	/* "recursive" is taken and makes no difference: parents are always made. */
	if (body != NULL && api_path_json(req, body, "path", &path)) {
		rc = files_mkdir(ws, path.rel, true);
		if (rc < 0)
			http_response_path_errno(req, rc, path.text);
		else
			api_files_done(req, &path);
	}
	workspace_unref(ws);
}

typedef int (*pair_fn)(struct workspace *ws, const char *from, const char *to,
		       const struct files_condition *c, bool *ret_is_from);

static void answer_pair(struct http_request *req, const struct api_path *from,
			const struct api_path *to)
{
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	json_out_key_bool(&o, "success", true);
	json_out_key_str(&o, "source", from->text);
	json_out_key_str(&o, "destination", to->text);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* run_pair() - move and copy */
static void run_pair(struct http_request *req, pair_fn fn)
{
	struct workspace *ws = api_files_ws(req);
	auto_json json_t *body = ws != NULL ? api_files_body(req) : NULL;
	struct api_path from, to;
	struct files_condition c;
	bool is_from;
	int rc;

	if (body != NULL && api_files_condition(req, &c) &&
	    api_path_json(req, body, "source", &from) &&
	    api_path_json(req, body, "destination", &to)) {
		rc = fn(ws, from.rel, to.rel, &c, &is_from);
		if (rc < 0)
			http_response_path_errno(req, rc, is_from ? from.text : to.text);
		else
			answer_pair(req, &from, &to);
	}
	workspace_unref(ws);
}

void api_files_move(struct http_request *req)
{
	run_pair(req, files_move);
}

void api_files_copy(struct http_request *req)
{
	run_pair(req, files_copy);
}
