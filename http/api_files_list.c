/* SPDX-License-Identifier: MIT */
/*
 * What is in a directory, and what a path is.
 *
 * A listing is in the order of names as bytes, a directory before what is in it, so that any place
 * in it can be named by a path: that is the cursor.  Of a directory only as many names are held in
 * memory as a page may need; a page of a directory of a million names costs a scan of it, not a
 * million entries.  Names that vanish between being read and being looked at are left out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "http/api.h"
#include "http/api_files.h"
#include "http/http_core.h"
#include "proto/jsonx.h"
#include "proto/status.h"
#include "workspace/glob.h"
#include "workspace/path.h"

#define DEPTH_MAX  64          /* levels: each has a directory open meanwhile */
#define LIMIT_MAX  100000      /* entries of a page, also when no limit is asked for */
#define PAGE_BYTES (64u << 20) /* after so many bytes a page ends, whatever its limit */
#define BATCH_MIN  1024        /* names that are worth holding even when few are needed */
#define PATHS_MAX  1000        /* of one POST of paths */

/* ---- the names of one directory ----------------------------------------- */

struct names {
	char **list; /* owned, each too */
	size_t n, cap;
	size_t keep; /* the smallest so many are wanted */
	bool is_cut; /* there were more */
};

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b); /* strcmp() compares unsigned bytes */
}

static void names_free(struct names *v)
{
	while (v->n > 0)
		free(v->list[--v->n]);
	free(v->list);
}

static void names_sort_and_cut(struct names *v)
{
	if (v->n > 1)
		qsort(v->list, v->n, sizeof(*v->list), by_bytes);
	v->is_cut = v->is_cut || v->n > v->keep;
	while (v->n > v->keep)
		free(v->list[--v->n]);
}

static int names_add(struct names *v, const char *name)
{
	if (v->n == 2 * v->keep)
		names_sort_and_cut(v);
	if (v->n == v->cap) {
		size_t cap = v->cap == 0 ? 64 : 2 * v->cap;
		char **more = reallocarray(v->list, cap, sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		v->list = more;
		v->cap = cap;
	}
	v->list[v->n] = strdup(name);
	if (v->list[v->n] == NULL)
		return -ENOMEM;
	v->n++;
	return 0;
}

/* ---- a listing ---------------------------------------------------------- */

struct lister {
	struct workspace *ws;
	struct json_out o;
	struct buf shown;  /* owned: path of the present entry as the client sees it */
	struct buf full;   /* owned: the same from the root of the workspace */
	size_t skip;       /* bytes of @full before what is below the listed directory */
	struct glob *glob; /* owned; NULL: everything */
	uint64_t limit, n, depth;
	char after[FILES_PATH_MAX + 1]; /* entries up to this path have been put out */
	char last[FILES_PATH_MAX + 1];  /* path of the last one of this page */
	bool is_full;                   /* the page ends, and there is more */
};

static const char *rel_of(struct lister *l)
{
	return (const char *)l->full.data + l->skip;
}

/* enter() - make an entry of the present directory the present one; leave() undoes it */
static int enter(struct lister *l, const char *name)
{
	size_t n = strlen(name) + 1; /* with its NUL, which is not counted in len */
	bool is_top = l->full.len == 0;
	int rc = buf_reserve(&l->shown, n + 1);

	if (rc == 0)
		rc = buf_reserve(&l->full, n + 1);
	if (rc < 0)
		return rc;
	(void)buf_append(&l->shown, "/", 1);
	(void)buf_append(&l->shown, name, n);
	(void)buf_append(&l->full, "/", is_top ? 0 : 1);
	(void)buf_append(&l->full, name, n);
	l->shown.len--;
	l->full.len--;
	return 0;
}

struct mark {
	size_t shown, full;
};

static struct mark present(const struct lister *l)
{
	return (struct mark){ l->shown.len, l->full.len };
}

static void leave(struct lister *l, struct mark m)
{
	l->shown.len = m.shown;
	l->full.len = m.full;
}

/* put_entry() - the present entry, if it is asked for and fits on the page */
static int put_entry(struct lister *l, int dirfd, const char *name, const struct files_info *info)
{
	struct api_info i = { .ws = l->ws,
			      .dirfd = dirfd,
			      .name = name,
			      .path = (const char *)l->shown.data,
			      .rel = (const char *)l->full.data,
			      .info = *info };
	size_t len = strlen(rel_of(l));

	if (l->glob != NULL && !glob_match(l->glob, rel_of(l), len))
		return 0;
	if (l->n == l->limit || l->o.buf->len > PAGE_BYTES) {
		l->is_full = true;
		return 0;
	}
	if (len > FILES_PATH_MAX) /* nobody could name it */
		return 0;
	l->n++;
	memcpy(l->last, rel_of(l), len + 1);
	api_files_put_info(&l->o, &i);
	return l->o.rc;
}

static int list_dir(struct lister *l, int fd, unsigned depth, const char *after);

/* list_below() - what is in the present entry, a directory; one that cannot be entered looks empty
 */
static int list_below(struct lister *l, int dirfd, const char *name, unsigned depth,
		      const char *after)
{
	auto_close int fd =
		path_open(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);

	return fd < 0 ? 0 : list_dir(l, fd, depth + 1, after);
}

/* visit() - @rest: NULL; or the entry itself was put out before, and below it all up to @rest */
static int visit(struct lister *l, int dirfd, const char *name, unsigned depth, const char *rest)
{
	struct mark m = present(l);
	struct files_info info;
	int rc = files_info_at(dirfd, name, &info);

	if (rc < 0)
		return 0; /* it vanished */
	rc = enter(l, name);
	if (rc == 0 && rest == NULL)
		rc = put_entry(l, dirfd, name, &info);
	if (rc == 0 && !l->is_full && S_ISDIR(info.mode) && depth < l->depth)
		rc = list_below(l, dirfd, name, depth, rest != NULL ? rest : "");
	leave(l, m);
	return rc;
}

/* read_names() - the smallest names of a directory from @from on; @is_after: but not @from itself
 */
static int read_names(int dirfd, const char *from, bool is_after, struct names *v)
{
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	int fd = path_open(dirfd, ".", O_RDONLY | O_DIRECTORY, 0, PATH_NOFOLLOW_ALL);
	int rc = 0;

	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL) {
		if (fd >= 0)
			(void)close(fd);
		return fd < 0 ? fd : -ENOMEM;
	}
	while (rc == 0 && (e = readdir(d)) != NULL) {
		int order = strcmp(e->d_name, from);

		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
		    (order > 0 || (order == 0 && !is_after)))
			rc = names_add(v, e->d_name);
	}
	names_sort_and_cut(v);
	return rc;
}

/* list_batch() - as many entries as are read at once; *@from is where the next batch begins */
static int list_batch(struct lister *l, int fd, unsigned depth, const char *rest,
		      char from[NAME_MAX + 1], bool is_after, bool *ret_more)
{
	struct names v = { .keep = (size_t)MAX(l->limit - l->n + 1, BATCH_MIN) };
	int rc = read_names(fd, from, is_after, &v);

	for (size_t i = 0; i < v.n && rc == 0 && !l->is_full; i++) {
		bool is_resumed = rest != NULL && strcmp(v.list[i], from) == 0;

		rc = visit(l, fd, v.list[i], depth, is_resumed ? rest : NULL);
	}
	*ret_more = v.is_cut && v.n > 0;
	if (*ret_more)
		memcpy(from, v.list[v.n - 1], strlen(v.list[v.n - 1]) + 1);
	names_free(&v);
	return rc;
}

/* list_dir() - @after: a path in this directory; what comes up to it has been put out; "" nothing
 */
static int list_dir(struct lister *l, int fd, unsigned depth, const char *after)
{
	const char *slash = strchrnul(after, '/');
	char from[NAME_MAX + 1] = "";
	const char *rest = after[0] != '\0' ? slash + (*slash != '\0') : NULL;
	bool more = true;
	int rc = 0;

	memcpy(from, after, (size_t)(slash - after));
	for (bool is_first = true; more && rc == 0 && !l->is_full; is_first = false)
		rc = list_batch(l, fd, depth, is_first ? rest : NULL, from, !is_first, &more);
	return rc;
}

/* ---- GET list ----------------------------------------------------------- */

/* take_number() - of the query; absent: @ret as it is */
static bool take_number(struct http_request *req, const char *name, uint64_t max, uint64_t *ret)
{
	const char *text;
	int rc = http_request_query(req, name, &text);

	if (rc == 0 || (rc == 1 && io_parse_u64(text, 1, max, ret) == 0))
		return true;
	http_response_error(req, HTTP_CODE_PARAMETER, "'%s' must be a number from 1 to %llu", name,
			    (unsigned long long)max);
	return false;
}

static bool take_glob(struct http_request *req, struct glob **ret)
{
	struct err err = { 0 };
	const char *text;
	int rc = http_request_query(req, "glob", &text);

	if (rc == 1)
		rc = glob_new(text, strlen(text), ret, &err);
	else if (rc < 0)
		(void)err_set(&err, rc, "bad %%-escape in 'glob'");
	if (rc < 0)
		http_response_error(req, HTTP_CODE_PARAMETER, "%s", err.msg);
	return rc >= 0;
}

/* A cursor is the path of the last entry, in base64 since it may be any bytes. */
static bool take_cursor(struct http_request *req, char after[FILES_PATH_MAX + 1])
{
	struct api_path path;
	char bytes[FILES_PATH_MAX + 1];
	const char *text;
	size_t n = 0;
	int rc = http_request_query(req, "cursor", &text);

	if (rc == 1 &&
	    sodium_base642bin((unsigned char *)bytes, FILES_PATH_MAX, text, strlen(text), NULL, &n,
			      NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
		rc = -EINVAL;
	if (rc == 1)
		rc = files_path_parse(bytes, n, path.rel);
	if (rc < 0) {
		http_response_error(req, HTTP_CODE_PARAMETER,
				    "'cursor' must be what next_cursor was");
		return false;
	}
	memcpy(after, rc == 0 && n > 0 ? path.rel : "", n > 0 ? strlen(path.rel) + 1 : 1);
	return true;
}

static void put_cursor(struct lister *l)
{
	char text[4 * FILES_PATH_MAX / 3 + 8];

	if (!l->is_full)
		return;
	(void)sodium_bin2base64(text, sizeof(text), (const unsigned char *)l->last, strlen(l->last),
				sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	json_out_key_str(&l->o, "next_cursor", text);
}

static void run_list(struct http_request *req, struct lister *l, const struct api_file *f)
{
	size_t shown = strlen(f->path.text);
	auto_close int fd = files_open_dir(f->ws, f->path.rel);
	struct json_out *o = &l->o;
	int rc = fd < 0 ? fd : 0;

	while (shown > 0 && f->path.text[shown - 1] == '/')
		shown--;
	if (rc == 0)
		rc = buf_append(&l->shown, f->path.text, shown);
	if (rc == 0)
		rc = buf_puts(&l->full, f->path.rel);
	l->skip = l->full.len + (l->full.len > 0);
	req->res.body.max = 2 * PAGE_BYTES;
	*o = http_response_json(req);
	json_out_open(o, '{');
	json_out_key(o, "files");
	json_out_open(o, '[');
	if (rc == 0)
		rc = list_dir(l, fd, 1, l->after);
	json_out_close(o, ']');
	put_cursor(l);
	json_out_close(o, '}');
	if (rc < 0)
		http_response_path_errno(req, rc, f->path.text);
	else
		http_response_json_end(req, 200, o);
}

void api_files_list(struct http_request *req)
{
	struct lister *l = arena_zalloc(&req->arena, sizeof(*l));
	struct api_file f;

	if (l == NULL) {
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", "out of memory");
		return;
	}
	l->limit = LIMIT_MAX;
	l->depth = 1;
	if (take_number(req, "limit", LIMIT_MAX, &l->limit) &&
	    take_number(req, "depth", DEPTH_MAX, &l->depth) && take_cursor(req, l->after) &&
	    take_glob(req, &l->glob) && api_file_query(req, "path", &f)) {
		l->ws = f.ws;
		run_list(req, l, &f);
		api_file_done(&f);
	}
	glob_free(l->glob);
	buf_free(&l->shown);
	buf_free(&l->full);
}

/* ---- info --------------------------------------------------------------- */

/* put_info() - of a path, links not followed; nothing is written when it fails */
static int put_info(struct json_out *o, struct workspace *ws, const struct api_path *path)
{
	struct api_info i = {
		.ws = ws, .dirfd = -1, .name = "", .path = path->text, .rel = path->rel
	};
	const char *slash = strrchr(path->rel, '/');
	char dir[FILES_PATH_MAX + 1];
	auto_close int fd = -1;
	int rc;

	if (path->rel[0] == '\0') {
		rc = files_stat(ws, "", &i.info);
	} else {
		size_t n = slash != NULL ? (size_t)(slash - path->rel) : 0;

		memcpy(dir, path->rel, n);
		dir[n] = '\0';
		i.name = slash != NULL ? slash + 1 : path->rel;
		i.dirfd = fd = path_open(ws->root_fd, dir, O_PATH | O_DIRECTORY, 0, 0);
		rc = fd < 0 ? fd : files_info_at(fd, i.name, &i.info);
	}
	if (rc == 0)
		api_files_put_info(o, &i);
	return rc;
}

void api_files_info(struct http_request *req)
{
	struct api_file f;
	struct json_out o;
	int rc;

	if (!api_file_query(req, "path", &f))
		return;
	o = http_response_json(req);
	rc = put_info(&o, f.ws, &f.path);
	if (rc < 0)
		http_response_path_errno(req, rc, f.path.text);
	else
		http_response_json_end(req, 200, &o);
	api_file_done(&f);
}

/* put_one() - {"path":…,"info":FileInfo}, or with "info":null why not */
static void put_one(struct json_out *o, struct workspace *ws, const char *text)
{
	struct api_path path = { .text = text };
	const struct status_row *row;
	char message[1024];
	int rc = files_path_parse(text, strlen(text), path.rel);

	json_out_open(o, '{');
	json_out_key_str(o, "path", text);
	json_out_key(o, "info");
	if (rc == 0)
		rc = put_info(o, ws, &path);
	if (rc < 0) {
		row = status_of(rc);
		json_out_null(o);
		json_out_key_u64(o, "code", (uint64_t)row->api_code);
		(void)snprintf(message, sizeof(message), "%.*s%s", (int)strcspn(row->text, "%"),
			       row->text, text);
		json_out_key_str(o, "message", message);
	}
	json_out_close(o, '}');
}

static bool are_texts(json_t *paths)
{
	size_t i;
	json_t *path;

	json_array_foreach(paths, i, path) if (!json_is_string(path)) return false;
	return true;
}

void api_files_info_many(struct http_request *req)
{
	struct workspace *ws = api_files_ws(req);
	auto_json json_t *body = ws != NULL ? api_files_body(req) : NULL;
	struct err err = { 0 };
	struct json_out o;
	json_t *paths;
	int rc = body != NULL ? jsonx_get_array(body, "paths", PATHS_MAX, &paths, &err) : -EINVAL;

	if (body != NULL && (rc <= 0 || !are_texts(paths))) {
		http_response_error(req, HTTP_CODE_REQUEST, "%s",
				    rc < 0 ? err.msg : "'paths' must be a list of texts");
	} else if (body != NULL) {
		o = http_response_json(req);
		json_out_open(&o, '{');
		json_out_key(&o, "files");
		json_out_open(&o, '[');
		for (size_t i = 0; i < json_array_size(paths); i++)
			put_one(&o, ws, json_string_value(json_array_get(paths, i)));
		json_out_close(&o, ']');
		json_out_close(&o, '}');
		http_response_json_end(req, 200, &o);
	}
	workspace_unref(ws);
}
