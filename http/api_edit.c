/* SPDX-License-Identifier: MIT */
/*
 * POST files/edit and files/patch: change a part of a file, and answer with what changed.
 *
 * The file is read whole, changed in memory and replaced under its own ETag as If-Match, so that
 * nothing that another writer did meanwhile is lost: an edit whose file changed under it is made
 * again on the new content, unless the client's own conditions do not hold any more.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "http/api.h"
#include "http/api_files.h"
#include "http/http_core.h"
#include "proto/jsonx.h"
#include "workspace/text_diff.h"
#include "workspace/text_edit.h"
#include "workspace/text_patch.h"

#define DIFF_MAX  (1u << 20) /* bytes: a longer diff is answered as null */
#define TRIES_MAX 64 /* other writers one may lose against; each of them has changed the file */
#define NAMED_MAX 20 /* rejected hunks that an error names */

/* A file that is being changed. */
struct change {
	struct workspace *ws; /* owned reference */
	json_t *body;         /* owned */
	struct api_path path;
	struct files_condition c; /* the client's */
	bool may_create;          /* an absent file is an empty one */
	struct buf old, new;      /* owned: content before and after */
	struct files_result result;
	/* Makes the new content of the old.  On failure @why says so, unless it is -EMSGSIZE. */
	int (*make)(struct change *ch, void *arg, struct err *why);
	void *arg;
};

/* False: the answer is made. */
static bool change_begin(struct http_request *req, struct change *ch)
{
	*ch = (struct change){ .new = { .max = FILES_ETAG_CONTENT_MAX } };
	ch->ws = api_files_ws(req);
	ch->body = ch->ws != NULL ? api_files_body(req) : NULL;
	return ch->body != NULL && api_files_condition(req, &ch->c) &&
	       api_path_json(req, ch->body, "path", &ch->path);
}

static void change_end(struct change *ch)
{
	workspace_unref(ch->ws);
	json_decref(ch->body);
	buf_free(&ch->old);
	buf_free(&ch->new);
}

/* The content, and the condition under which it may be replaced; @etag is its memory. */
static int read_old(struct change *ch, char etag[FILES_ETAG_LEN], struct files_condition *ret)
{
	int rc;

	buf_reset(&ch->old);
	rc = files_read_whole(ch->ws, ch->path.rel, FILES_ETAG_CONTENT_MAX, &ch->old, etag, NULL);
	*ret = (struct files_condition){ .if_match = etag };
	if (rc < 0 && !(rc == -ENOENT && ch->may_create))
		return rc;
	if (rc == -ENOENT) {
		buf_reset(&ch->old);
		*ret = (struct files_condition){ .if_none_match = "*" };
	}
	return files_condition_check(&ch->c, rc == -ENOENT ? NULL : etag, NULL);
}

/* 0, -errno of the file, or what ->make failed with, and why. */
static int change_once(struct change *ch, struct err *why, bool *ret_again)
{
	char etag[FILES_ETAG_LEN];
	struct files_condition unchanged;
	int rc = read_old(ch, etag, &unchanged);

	*ret_again = false;
	if (rc < 0)
		return rc;
	buf_reset(&ch->new);
	rc = ch->make(ch, ch->arg, why);
	if (rc < 0)
		return rc;
	rc = files_write_whole(ch->ws, ch->path.rel, ch->new.data, ch->new.len, &unchanged,
			       ch->may_create ? 0 : FILES_EXISTING, &ch->result);
	*ret_again = rc == -EBADE;
	return rc;
}

static int run(struct change *ch, struct err *why)
{
	bool again = true;
	int rc = 0;

	for (int i = 0; i < TRIES_MAX && again; i++)
		rc = change_once(ch, why, &again);
	return rc;
}

static void answer_failure(struct http_request *req, const struct change *ch, int rc,
			   const struct err *why)
{
	if (why->code == 0 || rc == -EMSGSIZE)
		http_response_path_errno(req, rc, ch->path.text);
	else if (rc == -EINVAL)
		http_response_error(req, HTTP_CODE_REQUEST, "%s", why->msg);
	else
		http_response_details(req, HTTP_CODE_EDIT, ch->path.text, why->msg);
}

/* "diff" of what was done, and whether it had bytes that JSON cannot hold. */
static void put_diff(struct json_out *o, const struct change *ch)
{
	struct buf diff = { .max = DIFF_MAX };
	int rc = text_diff((const char *)ch->old.data, ch->old.len, (const char *)ch->new.data,
			   ch->new.len, ch->path.rel, &diff);

	json_out_key(o, "diff");
	if (rc < 0) {
		json_out_null(o);
		return;
	}
	json_out_strn(o, (const char *)diff.data, diff.len);
	if (!utf8_is_valid((const char *)diff.data, diff.len))
		json_out_key_bool(o, "encoding_errors", true);
	buf_free(&diff);
}

/* The common members of an answer. */
static struct json_out answer_begin(struct http_request *req, const struct change *ch, bool success)
{
	struct json_out o = http_response_json(req);

	http_response_header(req, "ETag", ch->result.etag);
	json_out_open(&o, '{');
	json_out_key_bool(&o, "success", success);
	api_files_put_path(&o, ch->path.text);
	json_out_key_str(&o, "etag", ch->result.etag);
	return o;
}

/* take_flag() - a boolean of the body; absent: as it is */
static bool take_flag(struct http_request *req, json_t *body, const char *name, bool *ret)
{
	struct err err = { 0 };

	if (jsonx_get_bool(body, name, ret, &err) >= 0)
		return true;
	http_response_error(req, HTTP_CODE_REQUEST, "%s", err.msg);
	return false;
}

/* ---- edit --------------------------------------------------------------- */

struct edit {
	struct text_edit e;
	size_t n_replaced;
};

static int make_edit(struct change *ch, void *arg, struct err *why)
{
	struct edit *ed = arg;

	return text_edit_apply((const char *)ch->old.data, ch->old.len, &ed->e, &ch->new,
			       &ed->n_replaced, why);
}

static void answer_edit(struct http_request *req, const struct change *ch, const struct edit *ed)
{
	struct json_out o = answer_begin(req, ch, true);

	json_out_key_u64(&o, "replacements", ed->n_replaced);
	put_diff(&o, ch);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

void api_files_edit(struct http_request *req)
{
	struct change ch;
	struct edit ed = { 0 };
	struct err why = { 0 };
	int rc;

	if (change_begin(req, &ch) &&
	    api_bytes_json(req, ch.body, "old_string", &ed.e.old_text, &ed.e.old_len) &&
	    api_bytes_json(req, ch.body, "new_string", &ed.e.new_text, &ed.e.new_len) &&
	    take_flag(req, ch.body, "replace_all", &ed.e.replace_all)) {
		ch.make = make_edit;
		ch.arg = &ed;
		rc = run(&ch, &why);
		if (rc < 0)
			answer_failure(req, &ch, rc, &why);
		else
			answer_edit(req, &ch, &ed);
	}
	change_end(&ch);
}

/* ---- patch -------------------------------------------------------------- */

struct patch {
	struct text_patch p;
	struct text_patch_outcome *outcomes; /* owned */
	bool is_atomic;
	size_t n_landed;
};

static int make_patch(struct change *ch, void *arg, struct err *why)
{
	struct patch *pa = arg;
	int rc;

	if (pa->p.is_creation && ch->old.len > 0)
		return -EEXIST;
	rc = text_patch_apply(&pa->p, (const char *)ch->old.data, ch->old.len, &ch->new,
			      pa->outcomes, &pa->n_landed);
	if (rc == 0 && (pa->n_landed == 0 || (pa->is_atomic && pa->n_landed < pa->p.n_hunks)))
		return err_set(why, -ENOMSG, "%zu of %zu hunks do not apply",
			       pa->p.n_hunks - pa->n_landed, pa->p.n_hunks);
	return rc;
}

static void put_hunk(struct json_out *o, size_t i, const struct text_patch_outcome *out)
{
	json_out_open(o, '{');
	json_out_key_u64(o, "index", i + 1); /* as in the sentences */
	json_out_key_bool(o, "landed", out->has_landed);
	json_out_key_u64(o, "line", out->line);
	if (!out->has_landed)
		json_out_key_str(o, "reason", out->reason);
	json_out_close(o, '}');
}

static void answer_patch(struct http_request *req, const struct change *ch, const struct patch *pa)
{
	struct json_out o = answer_begin(req, ch, pa->n_landed == pa->p.n_hunks);

	json_out_key(&o, "hunks");
	json_out_open(&o, '[');
	for (size_t i = 0; i < pa->p.n_hunks; i++)
		put_hunk(&o, i, &pa->outcomes[i]);
	json_out_close(&o, ']');
	put_diff(&o, ch);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* 3010: which hunks, where, and why. */
static void answer_rejected(struct http_request *req, const struct change *ch,
			    const struct patch *pa, const struct err *why)
{
	struct buf text = { 0 };
	unsigned n_named = 0;
	int rc = buf_puts(&text, why->msg);

	for (size_t i = 0; i < pa->p.n_hunks && rc == 0 && n_named <= NAMED_MAX; i++) {
		if (pa->outcomes[i].has_landed)
			continue;
		if (n_named++ == NAMED_MAX)
			rc = buf_puts(&text, "; and more");
		else
			rc = buf_printf(&text, "; hunk %zu (line %zu of the patch): %s", i + 1,
					pa->p.hunks[i].patch_line, pa->outcomes[i].reason);
	}
	http_response_details(req, HTTP_CODE_EDIT, ch->path.text,
			      buf_cstr(&text) != NULL ? (const char *)text.data : why->msg);
	buf_free(&text);
}

static bool take_patch(struct http_request *req, struct change *ch, struct patch *pa)
{
	struct err err = { 0 };
	const char *text;
	size_t n;

	if (!api_bytes_json(req, ch->body, "patch", &text, &n) ||
	    !take_flag(req, ch->body, "atomic", &pa->is_atomic))
		return false;
	if (text_patch_parse(text, n, &pa->p, &err) < 0) {
		http_response_error(req, HTTP_CODE_REQUEST, "%s", err.msg);
		return false;
	}
	pa->outcomes = calloc(pa->p.n_hunks, sizeof(*pa->outcomes));
	if (pa->outcomes == NULL)
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", "out of memory");
	return pa->outcomes != NULL;
}

void api_files_patch(struct http_request *req)
{
	struct change ch;
	struct patch pa = { .is_atomic = true };
	struct err why = { 0 };
	int rc;

	if (change_begin(req, &ch) && take_patch(req, &ch, &pa)) {
		ch.make = make_patch;
		ch.arg = &pa;
		ch.may_create = pa.p.is_creation;
		rc = run(&ch, &why);
		if (rc == -ENOMSG)
			answer_rejected(req, &ch, &pa, &why);
		else if (rc < 0)
			answer_failure(req, &ch, rc, &why);
		else
			answer_patch(req, &ch, &pa);
	}
	text_patch_fini(&pa.p);
	free(pa.outcomes);
	change_end(&ch);
}
