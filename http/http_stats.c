/* SPDX-License-Identifier: MIT */
/* See http_stats.h. */
#include "http/http_stats.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "http/router.h"

#define N_CLASSES 5 /* 1xx..5xx */

/* Upper bounds in ns; what is longer falls into +Inf alone. */
static const uint64_t bounds_ns[] = { 50000,     500000,    1000000,    5000000,    20000000,
				      100000000, 500000000, 2000000000, 10000000000 };
static const char *const bounds_text[] = { "0.00005", "0.0005", "0.001", "0.005", "0.02",
					   "0.1",     "0.5",    "2",     "10" };
#define N_BOUNDS ARRAY_LEN(bounds_ns)

struct row {
	uint64_t by_class[N_CLASSES];
	uint64_t by_duration[N_BOUNDS + 1]; /* not cumulative */
	uint64_t sum_ns;
};

struct http_stats {
	const struct http_routes *routes;
	uint64_t bytes_out, n_open, n_accepted;
	struct row rows[]; /* one per route, and the last for what fitted none */
};

int http_stats_new(const struct http_routes *routes, struct http_stats **ret)
{
	struct http_stats *s = calloc(1, sizeof(*s) + (routes->n + 1) * sizeof(s->rows[0]));

	if (s == NULL)
		return -ENOMEM;
	s->routes = routes;
	*ret = s;
	return 0;
}

void http_stats_free(struct http_stats *s)
{
	free(s);
}

/* There is one writer: a plain sum stored atomically is enough, and needs no locked instruction. */
static void add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static uint64_t get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void http_stats_count(struct http_stats *s, const struct http_route *route, int status,
		      uint64_t duration_ns, uint64_t bytes_out)
{
	struct row *row =
		&s->rows[route != NULL ? (size_t)(route - s->routes->rows) : s->routes->n];
	int class = status / 100 - 1;
	size_t i = 0;

	if (class >= 0 && class < N_CLASSES)
		add(&row->by_class[class], 1);
	while (i < N_BOUNDS && duration_ns > bounds_ns[i])
		i++;
	add(&row->by_duration[i], 1);
	add(&row->sum_ns, duration_ns);
	add(&s->bytes_out, bytes_out);
}

void http_stats_conns(struct http_stats *s, unsigned n_open, uint64_t n_accepted)
{
	__atomic_store_n(&s->n_open, n_open, __ATOMIC_RELAXED);
	__atomic_store_n(&s->n_accepted, n_accepted, __ATOMIC_RELAXED);
}

struct label {
	const char *method, *route;
};

static struct label label_of(const struct http_stats *s, size_t i)
{
	if (i == s->routes->n)
		return (struct label){ "other", "other" };
	return (struct label){ http_method_text(s->routes->rows[i].method),
			       s->routes->rows[i].pattern };
}

static int put_classes(const struct http_stats *s, size_t i, struct buf *out)
{
	struct label l = label_of(s, i);
	int rc = 0;

	for (int k = 0; rc == 0 && k < N_CLASSES; k++) {
		uint64_t n = get(&s->rows[i].by_class[k]);

		if (n > 0)
			rc = buf_printf(out,
					"workspaced_http_requests_total{method=\"%s\",route=\"%s\","
					"status=\"%dxx\"} %llu\n",
					l.method, l.route, k + 1, (unsigned long long)n);
	}
	return rc;
}

static int put_histogram(const struct http_stats *s, size_t i, struct buf *out)
{
	static const char name[] = "workspaced_http_request_duration_seconds";
	struct label l = label_of(s, i);
	uint64_t n = 0;
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < N_BOUNDS; k++) {
		n += get(&s->rows[i].by_duration[k]);
		rc = buf_printf(out, "%s_bucket{method=\"%s\",route=\"%s\",le=\"%s\"} %llu\n", name,
				l.method, l.route, bounds_text[k], (unsigned long long)n);
	}
	n += get(&s->rows[i].by_duration[N_BOUNDS]);
	if (rc == 0)
		rc = buf_printf(out,
				"%s_bucket{method=\"%s\",route=\"%s\",le=\"+Inf\"} %llu\n"
				"%s_sum{method=\"%s\",route=\"%s\"} %.9f\n"
				"%s_count{method=\"%s\",route=\"%s\"} %llu\n",
				name, l.method, l.route, (unsigned long long)n, name, l.method,
				l.route, (double)get(&s->rows[i].sum_ns) / 1e9, name, l.method,
				l.route, (unsigned long long)n);
	return rc;
}

static bool is_used(const struct http_stats *s, size_t i)
{
	uint64_t n = 0;

	for (int k = 0; k < N_CLASSES; k++)
		n += get(&s->rows[i].by_class[k]);
	return n > 0;
}

int http_stats_metrics(struct http_stats *s, struct buf *out)
{
	int rc = buf_printf(
		out,
		"# TYPE workspaced_http_connections gauge\nworkspaced_http_connections %llu\n"
		"# TYPE workspaced_http_accepted_total counter\nworkspaced_http_accepted_total "
		"%llu\n"
		"# TYPE workspaced_http_body_bytes_sent_total counter\n"
		"workspaced_http_body_bytes_sent_total %llu\n"
		"# TYPE workspaced_http_requests_total counter\n",
		(unsigned long long)get(&s->n_open), (unsigned long long)get(&s->n_accepted),
		(unsigned long long)get(&s->bytes_out));

	for (size_t i = 0; rc == 0 && i <= s->routes->n; i++)
		rc = put_classes(s, i, out);
	if (rc == 0)
		rc = buf_puts(out, "# TYPE workspaced_http_request_duration_seconds histogram\n");
	for (size_t i = 0; rc == 0 && i <= s->routes->n; i++)
		if (is_used(s, i))
			rc = put_histogram(s, i, out);
	return rc;
}
