/* SPDX-License-Identifier: MIT */
/* The quota in the body that makes a workspace; the routes of quotas are in api.h. */
#ifndef HTTP_API_QUOTA_H
#define HTTP_API_QUOTA_H

#include <jansson.h>

#include "base/err.h"
#include "http/http_request.h"
#include "workspace/quota.h"

/* api_quota_member() - "quota":{"bytes":n,"files":n} of @body; without it no limits.  0 or -EINVAL.
 */
int api_quota_member(json_t *body, struct quota_limits *ret, struct err *err);

/* api_quota_begin() - put it on a workspace that was just made.  On failure the workspace is
 * removed and the reference given back. */
int api_quota_begin(struct http_request *req, struct workspace *ws,
		    const struct quota_limits *limits, struct err *err);

#endif
