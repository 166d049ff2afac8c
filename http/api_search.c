/* SPDX-License-Identifier: MIT */
/*
 * GET files/search: lines that match, in the order of paths as bytes and of lines.
 *
 * The walk meets files in the order in which they lie on the disk, so what was found in each is
 * kept as a piece of JSON, and the pieces are sorted at the end.  The answer is bounded in results,
 * bytes and time; at each bound it says that it is not complete and why.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/utf8.h"
#include "http/api.h"
#include "http/api_files.h"
#include "http/http_core.h"
#include "workspace/search.h"

#define RESULTS_DEFAULT    200
#define RESULTS_MAX        10000
#define FILE_BYTES_DEFAULT (16u << 20)
#define FILE_BYTES_MAX     (64u << 20) /* held in memory, by two searches at a time */
#define LINE_BYTES         1000        /* of a line, around the match */
#define TIME_MS_DEFAULT    10000
#define TIME_MS_MAX        60000
#define DEPTH_MAX          65536
#define MATCHES_BYTES      (8u << 20) /* of JSON; then the answer ends */
#define SKIPPED_MAX        200        /* names of what was skipped; further ones are counted */

/* The matches of a file. */
struct piece {
	char *path;        /* owned; relative to the root of the search */
	size_t begin, end; /* bytes of finder.json */
};

struct skipped {
	char *path; /* owned */
	enum search_skip why;
};

struct finder {
	struct api_file f;
	struct search_options o;
	struct glob *include, *exclude; /* owned */
	const struct glob *include_list[1], *exclude_list[1];
	struct buf json; /* owned: all matches */
	struct piece *pieces;
	size_t n_pieces, cap_pieces;
	struct skipped skipped[SKIPPED_MAX];
	uint64_t n_skipped;
	bool is_out_of_memory;
};

static void finder_fini(struct finder *fi)
{
	for (size_t i = 0; i < fi->n_pieces; i++)
		free(fi->pieces[i].path);
	for (size_t i = 0; i < MIN(fi->n_skipped, (uint64_t)SKIPPED_MAX); i++)
		free(fi->skipped[i].path);
	free(fi->pieces);
	buf_free(&fi->json);
	glob_free(fi->include);
	glob_free(fi->exclude);
}

/* ---- what is asked ------------------------------------------------------ */

static bool take_text(struct http_request *req, const char *name, const char **ret)
{
	int rc = http_request_query(req, name, ret);

	if (rc < 0)
		http_response_error(req, HTTP_CODE_PARAMETER, "bad %%-escape or NUL in '%s'", name);
	return rc >= 0;
}

/* take_number() - absent: @ret as it is */
static bool take_number(struct http_request *req, const char *name, uint64_t min, uint64_t max,
			uint64_t *ret)
{
	const char *text = NULL;

	if (!take_text(req, name, &text))
		return false;
	if (text == NULL || io_parse_u64(text, min, max, ret) == 0)
		return true;
	http_response_error(req, HTTP_CODE_PARAMETER, "'%s' must be a number from %llu to %llu",
			    name, (unsigned long long)min, (unsigned long long)max);
	return false;
}

static bool take_glob(struct http_request *req, const char *name, struct glob **ret)
{
	const char *text = NULL;
	struct err err = { 0 };

	if (!take_text(req, name, &text))
		return false;
	if (text == NULL || glob_new(text, strlen(text), ret, &err) == 0)
		return true;
	http_response_error(req, HTTP_CODE_PARAMETER, "'%s': %s", name, err.msg);
	return false;
}

static bool take_pattern(struct http_request *req, struct search_options *o)
{
	const char *text = NULL;

	if (!take_text(req, "pattern", &text))
		return false;
	if (text == NULL) {
		http_response_error(req, HTTP_CODE_PARAMETER, "'pattern' is missing");
		return false;
	}
	o->pattern = text;
	o->pattern_len = strlen(text);
	return api_files_flag(req, "regex", &o->is_regex) &&
	       api_files_flag(req, "ignore_case", &o->ignore_case);
}

static bool take_limits(struct http_request *req, struct search_options *o)
{
	uint64_t results = RESULTS_DEFAULT, file_bytes = FILE_BYTES_DEFAULT, depth = 0;
	uint64_t ms = TIME_MS_DEFAULT, context = 0, before, after;

	if (!take_number(req, "limit", 1, RESULTS_MAX, &results) ||
	    !take_number(req, "max_file_bytes", 1, FILE_BYTES_MAX, &file_bytes) ||
	    !take_number(req, "depth", 1, DEPTH_MAX, &depth) ||
	    !take_number(req, "timeout_ms", 1, TIME_MS_MAX, &ms) ||
	    !take_number(req, "context", 0, SEARCH_CONTEXT_MAX, &context))
		return false;
	before = after = context;
	if (!take_number(req, "before", 0, SEARCH_CONTEXT_MAX, &before) ||
	    !take_number(req, "after", 0, SEARCH_CONTEXT_MAX, &after))
		return false;
	o->max_results = results;
	o->max_file_bytes = (size_t)file_bytes;
	o->max_depth = (size_t)depth;
	o->max_line_bytes = LINE_BYTES;
	o->deadline_ns = clock_mono_ns() + ms * NSEC_PER_MS;
	o->before = (unsigned)before;
	o->after = (unsigned)after;
	o->is_cancelled = &req->is_gone;
	return true;
}

/* False: the answer is made. */
static bool take_options(struct http_request *req, struct finder *fi)
{
	if (!take_pattern(req, &fi->o) || !take_limits(req, &fi->o) ||
	    !take_glob(req, "glob", &fi->include) || !take_glob(req, "exclude", &fi->exclude))
		return false;
	fi->include_list[0] = fi->include;
	fi->exclude_list[0] = fi->exclude;
	fi->o.include = fi->include_list;
	fi->o.exclude = fi->exclude_list;
	fi->o.n_include = fi->include != NULL;
	fi->o.n_exclude = fi->exclude != NULL;
	return true;
}

/* ---- what is found ------------------------------------------------------ */

/* put_path() - as the client sees it: the path that was asked for, and what is below it */
static void put_path(struct json_out *o, const struct finder *fi, const char *below)
{
	struct buf path = { 0 };
	size_t n = strlen(fi->f.path.text);
	const char *text;

	while (below[0] != '\0' && n > 0 && fi->f.path.text[n - 1] == '/')
		n--;
	(void)buf_append(&path, fi->f.path.text, n);
	(void)buf_printf(&path, "%s%s", below[0] != '\0' ? "/" : "", below);
	text = buf_cstr(&path);
	if (text == NULL)
		o->rc = -ENOMEM;
	else
		api_files_put_path(o, text);
	buf_free(&path);
}

/* Notes whether the text is no UTF-8 in *@has_errors. */
static void put_text(struct json_out *o, const struct search_line *l, bool *has_errors)
{
	json_out_strn(o, l->p, l->len);
	*has_errors = *has_errors || !utf8_is_valid(l->p, l->len);
}

static void put_context(struct json_out *o, const char *key, const struct search_line *l, size_t n,
			bool *has_errors)
{
	json_out_key(o, key);
	json_out_open(o, '[');
	for (size_t i = 0; i < n; i++)
		put_text(o, &l[i], has_errors);
	json_out_close(o, ']');
}

static void put_match(struct json_out *o, const struct finder *fi, const struct search_match *m)
{
	bool has_errors = false;

	json_out_open(o, '{');
	put_path(o, fi, m->path);
	json_out_key_u64(o, "line", m->line);
	json_out_key_u64(o, "column", m->column);
	json_out_key(o, "text");
	put_text(o, &m->text, &has_errors);
	if (m->text.is_cut) {
		json_out_key_bool(o, "cut", true);
		json_out_key_u64(o, "text_column", m->text.column);
	}
	put_context(o, "before", m->before, m->n_before, &has_errors);
	put_context(o, "after", m->after, m->n_after, &has_errors);
	if (has_errors)
		json_out_key_bool(o, "encoding_errors", true);
	json_out_close(o, '}');
}

/* The piece of the file at @path, which is the last one if there is any. */
static struct piece *piece_of(struct finder *fi, const char *path)
{
	struct piece *last = fi->n_pieces > 0 ? &fi->pieces[fi->n_pieces - 1] : NULL;

	if (last != NULL && strcmp(last->path, path) == 0)
		return last;
	if (fi->n_pieces == fi->cap_pieces) {
		size_t cap = fi->cap_pieces == 0 ? 16 : 2 * fi->cap_pieces;
		struct piece *more = reallocarray(fi->pieces, cap, sizeof(*more));

		if (more == NULL)
			return NULL;
		fi->pieces = more;
		fi->cap_pieces = cap;
	}
	last = &fi->pieces[fi->n_pieces];
	*last = (struct piece){ .path = strdup(path), .begin = fi->json.len, .end = fi->json.len };
	if (last->path == NULL)
		return NULL;
	fi->n_pieces++;
	return last;
}

static bool on_match(void *arg, const struct search_match *m)
{
	struct finder *fi = arg;
	struct piece *p = piece_of(fi, m->path);
	struct json_out o = JSON_OUT(&fi->json);

	if (p == NULL) {
		fi->is_out_of_memory = true;
		return false;
	}
	o.needs_comma = p->end > p->begin;
	put_match(&o, fi, m);
	p->end = fi->json.len;
	fi->is_out_of_memory = o.rc < 0;
	return o.rc == 0 && fi->json.len < MATCHES_BYTES;
}

static void on_skipped(void *arg, const char *path, enum search_skip why)
{
	struct finder *fi = arg;

	if (fi->n_skipped < SKIPPED_MAX) {
		char *copy = strdup(path);

		fi->skipped[fi->n_skipped] = (struct skipped){ copy, why };
		fi->is_out_of_memory = fi->is_out_of_memory || copy == NULL;
	}
	fi->n_skipped++;
}

/* ---- the answer --------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct piece *)a)->path, ((const struct piece *)b)->path);
}

static void put_skipped(struct json_out *o, const struct finder *fi)
{
	json_out_key(o, "skipped");
	json_out_open(o, '[');
	for (size_t i = 0; i < MIN(fi->n_skipped, (uint64_t)SKIPPED_MAX); i++) {
		json_out_open(o, '{');
		put_path(o, fi, fi->skipped[i].path);
		json_out_key_str(o, "reason", search_skip_text(fi->skipped[i].why));
		json_out_close(o, '}');
	}
	json_out_close(o, ']');
	json_out_key_u64(o, "skipped_total", fi->n_skipped);
}

static void answer(struct http_request *req, struct finder *fi, const struct search_result *r)
{
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	json_out_key(&o, "matches");
	json_out_open(&o, '[');
	if (fi->n_pieces > 1)
		qsort(fi->pieces, fi->n_pieces, sizeof(*fi->pieces), by_path);
	for (size_t i = 0; i < fi->n_pieces; i++)
		json_out_raw(&o, (const char *)fi->json.data + fi->pieces[i].begin,
			     fi->pieces[i].end - fi->pieces[i].begin);
	json_out_close(&o, ']');
	put_skipped(&o, fi);
	json_out_key_bool(&o, "truncated", r->end != SEARCH_COMPLETE);
	json_out_key_str(&o, "truncated_by", search_end_text(r->end));
	json_out_key_u64(&o, "files_searched", r->n_files);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* open_root() - the directory, or the file, that is to be searched */
static int open_root(const struct api_file *f)
{
	int fd = files_open_dir(f->ws, f->path.rel);

	return fd == -ENOTDIR ? files_open_read(f->ws, f->path.rel, NULL) : fd;
}

static void run(struct http_request *req, struct finder *fi)
{
	static const struct search_ops ops = { .match = on_match, .skipped = on_skipped };
	auto_close int root = open_root(&fi->f);
	struct search_result r;
	struct err err = { 0 };
	int rc;

	if (root < 0) {
		http_response_path_errno(req, root, fi->f.path.text);
		return;
	}
	rc = search_run(root, &fi->o, &ops, fi, &r, &err);
	if (rc == -EINVAL)
		http_response_error(req, HTTP_CODE_PARAMETER, "%s", err.msg);
	else if (rc < 0)
		http_response_path_errno(req, rc, fi->f.path.text);
	else if (fi->is_out_of_memory)
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", "out of memory");
	else
		answer(req, fi, &r);
}

void api_files_search(struct http_request *req)
{
	struct finder *fi = calloc(1, sizeof(*fi));

	if (fi == NULL) {
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", "out of memory");
		return;
	}
	if (take_options(req, fi) && api_file_query(req, "path", &fi->f)) {
		run(req, fi);
		api_file_done(&fi->f);
	}
	finder_fini(fi);
	free(fi);
}
