/* SPDX-License-Identifier: MIT */
/*
 * `Idempotency-Key`: a client that does not know whether its request arrived sends it again with
 * the same key, and gets the answer of the first.
 */
#ifndef HTTP_API_IDEMPOTENCY_H
#define HTTP_API_IDEMPOTENCY_H

#include "http/http_request.h"
#include "workspace/workspace.h"

/**
 * api_idempotency_run() - create a workspace, once for each key
 * @create:	answers @req; creates with c->id if that is set, and answers 200 only if it did
 *
 * Pool.  Requests with a key run one after the other.
 */
void api_idempotency_run(struct http_request *req,
			 void (*create)(struct http_request *req, struct ws_create *c));

#endif
