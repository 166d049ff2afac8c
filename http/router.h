/* SPDX-License-Identifier: MIT */
/*
 * From method and path to a handler, by a table.  The policy of a route (needs no authentication,
 * changes something, may block, streams) stands in its row and is enforced here, before any handler
 * runs.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include <stddef.h>

#include "base/buf.h"
#include "http/http_request.h"

enum http_route_flags {
	R_NO_AUTH =
		1u << 0, /* anybody may ask; req->is_authorized still tells who may see details */
	R_CHANGES = 1u << 1, /* changes or runs something: refused to pages of other origins */
	R_POOL = 1u << 2,    /* the handler may block: it runs in the pool */
	R_SLOW =
		1u << 3, /* ... for long: few of them at a time, so that the others find a thread */
	R_SLOW_IF_DEEP = 1u << 5, /* the same when the query has recursive=true or a depth over 1 */
	R_TRY = 1u << 6, /* with R_POOL: tried on the loop first, see is_trial in http_request.h */
	R_STREAM =
		1u
		<< 4, /* the handler is called at the end of the head and drives the rest itself */
};

typedef void (*http_handler)(struct http_request *req);

struct http_route {
	enum http_method method;
	const char *pattern; /* "/a/{id}/b": a {name} takes one whole, non-empty segment */
	http_handler run;
	unsigned flags;
};

struct http_routes {
	const struct http_route *rows;
	size_t n;
};

extern const struct http_routes http_routes; /* routes.c: the whole API */

enum router_verdict {
	ROUTER_ANSWERED, /* req->res says no (or answers an OPTIONS); the body is not wanted */
	ROUTER_COLLECT,  /* read the body, then router_run() */
	ROUTER_STREAM,   /* router_run() now; the handler's hooks take the body */
};

/* router_dispatch() - find the route and enforce its policy.  Called at the end of the head,
 * control loop. */
enum router_verdict router_dispatch(struct http_request *req);

/* router_type_is_json() - does the request say that its body is JSON, or nothing about it? */
bool router_type_is_json(struct http_request *req);

/* router_run() - call the handler.  Control loop, or the pool when the route says so. */
void router_run(struct http_request *req);

#endif
