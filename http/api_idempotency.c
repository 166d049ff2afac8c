/* SPDX-License-Identifier: MIT */
/*
 * See api_idempotency.h.  The key is stored, with the id that the workspace will get, before the
 * workspace is made, and the answer after it.  Whatever a crash leaves can be told apart: an answer
 * is repeated; without one, the workspace is there and is answered, or it is not and is made.
 */
#include "http/api_idempotency.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "http/api_workspaces.h"
#include "http/http_core.h"
#include "workspace/store.h"

#define KEY_MAX 255 /* bytes */

/* One at a time: the second of two at once has to wait for what the first answers. */
static pthread_mutex_t keyed = PTHREAD_MUTEX_INITIALIZER;

static bool key_is_ok(const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < n; i++)
		if (key[i] <= ' ' || key[i] > '~')
			return false;
	return n > 0 && n <= KEY_MAX;
}

static void replay(struct http_request *req, const char *answer)
{
	struct json_out o = http_response_json(req);

	json_out_raw(&o, answer, strlen(answer));
	http_response_json_end(req, 200, &o);
	http_response_header(req, "Idempotent-Replayed", "true");
}

/* The key was taken.  Return: true when @req is answered, false when it must be tried anew. */
static bool answer_taken(struct http_request *req, const struct store_idem *mine,
			 const struct store_idem *then)
{
	struct workspace *ws;

	if (memcmp(mine->hash, then->hash, sizeof(mine->hash)) != 0) {
		http_response_error(req, HTTP_CODE_KEY_REUSED, "%s", "");
		return true;
	}
	if (then->answer != NULL) {
		replay(req, then->answer);
		return true;
	}
	ws = ws_find(req->core->options->registry, then->ws_id);
	if (ws == NULL)
		return false;
	api_workspaces_answer(req, ws);
	workspace_unref(ws);
	return true;
}

static void create_and_keep(struct http_request *req, const char *key, const char *id,
			    void (*create)(struct http_request *req, struct ws_create *c))
{
	struct store *store = req->core->options->store;
	struct ws_create c = { .id = id };
	const char *answer = NULL;
	struct err err = { 0 };
	int rc;

	create(req, &c);
	if (req->res.status == 200)
		answer = buf_cstr(&req->res.body);
	rc = answer != NULL ? store_idem_answer(store, key, answer, &err)
			    : store_idem_forget(store, key, &err);
	if (rc < 0) /* the id still tells */
		log_warn(LOG_HTTP, "cannot remember an answer id=%s why=\"%s\"", req->id, err.msg);
}

static void run_keyed(struct http_request *req, const char *key,
		      void (*create)(struct http_request *req, struct ws_create *c))
{
	const struct http_server_options *opt = req->core->options;
	struct store_idem mine = { 0 }, then;
	struct err err = { 0 };
	int rc;

	(void)crypto_generichash(mine.hash, sizeof(mine.hash), req->body.data, req->body.len, NULL,
				 0);
	ws_new_id(opt->registry, mine.ws_id);
	then = mine;
	rc = store_idem_claim(opt->store, key, clock_real_ns(), &then, &err);
	if (rc == 1 && !answer_taken(req, &mine, &then)) {
		rc = store_idem_forget(opt->store, key, &err);
		if (rc == 0) {
			then = mine;
			rc = store_idem_claim(opt->store, key, clock_real_ns(), &then, &err);
		}
	}
	free(then.answer);
	if (rc < 0)
		http_response_errno(req, rc, &err);
	else if (rc == 0)
		create_and_keep(req, key, mine.ws_id, create);
}

void api_idempotency_run(struct http_request *req,
			 void (*create)(struct http_request *req, struct ws_create *c))
{
	const char *key = http_request_header(req, "Idempotency-Key");

	if (key == NULL) {
		create(req, &(struct ws_create){ 0 });
		return;
	}
	if (!key_is_ok(key)) {
		http_response_error(req, HTTP_CODE_PARAMETER,
				    "Idempotency-Key must be 1 to %d printable ASCII characters "
				    "without blanks",
				    KEY_MAX);
		return;
	}
	(void)pthread_mutex_lock(&keyed);
	run_keyed(req, key, create);
	(void)pthread_mutex_unlock(&keyed);
}
