/* SPDX-License-Identifier: MIT */
/*
 * How much one client may ask: requests a second, and requests at one time.  A client is an address
 * (an IPv6 network of 64 bits, since one machine has all of that) or the uid at the other end of a
 * Unix socket.  Control loop only.
 */
#ifndef HTTP_HTTP_LIMIT_H
#define HTTP_HTTP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "http/http_auth.h"

struct http_limit;  /* the table */
struct http_client; /* an entry; lives while it has requests, and a while longer */

int http_limit_new(unsigned rate, unsigned active, struct http_limit **ret); /* 0: without limit */
void http_limit_free(struct http_limit *l); /* all that was begun must be ended */

/**
 * http_limit_begin() - may this client ask now?
 * @ret_client:	of a request that may: http_limit_end() takes it; NULL when nothing is counted
 *
 * A client that was quiet for a second may ask a second's worth at once.
 * Return: false: not now; within a second it may be.
 */
bool http_limit_begin(struct http_limit *l, const struct http_peer *peer, uint64_t now_ns,
		      struct http_client **ret_client);
void http_limit_end(struct http_limit *l, struct http_client *c); /* NULL is fine */

#endif
