/* SPDX-License-Identifier: MIT */
/*
 * Counters of requests, by route and class of status, with a histogram of how long they took.
 * Written by the control loop alone, read by any thread: relaxed atomics, so that /metrics needs no
 * lock.
 */
#ifndef HTTP_HTTP_STATS_H
#define HTTP_HTTP_STATS_H

#include <stdint.h>

#include "base/buf.h"

struct http_route;
struct http_routes;
struct http_stats;

int http_stats_new(const struct http_routes *routes,
		   struct http_stats **ret); /* @routes is borrowed */
void http_stats_free(struct http_stats *s);

/* http_stats_count() - one finished request; @route NULL: none fitted.  Control loop. */
void http_stats_count(struct http_stats *s, const struct http_route *route, int status,
		      uint64_t duration_ns, uint64_t bytes_out);
void http_stats_conns(struct http_stats *s, unsigned n_open,
		      uint64_t n_accepted); /* control loop */

/* http_stats_metrics() - append Prometheus text.  Any thread. */
int http_stats_metrics(struct http_stats *s, struct buf *out);

#endif
