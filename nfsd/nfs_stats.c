/* SPDX-License-Identifier: MIT */
/*
 * Counters of the NFS server and their Prometheus text.  Latencies are kept in powers of two:
 * finding the bucket is one instruction, and a factor of two is as exact as a histogram of
 * latencies needs.
 */
#include "nfsd/nfs_stats.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/clock.h"

static unsigned bucket_of(uint64_t ns)
{
	uint64_t us = (ns + 999) / 1000;
	unsigned i;

	if (us <= 1)
		return 0;
	i = 64u - (unsigned)__builtin_clzll(us - 1); /* smallest i with us <= 2^i */
	return i < NFS_STATS_BUCKETS ? i : NFS_STATS_BUCKETS - 1;
}

void nfs_stats_call(struct nfs_stats *s, unsigned row, uint64_t duration_ns, bool failed)
{
	nfs_stats_add(&s->calls[row], 1);
	nfs_stats_add(&s->sum_ns[row], duration_ns);
	nfs_stats_add(&s->bucket[row][bucket_of(duration_ns)], 1);
	if (failed)
		nfs_stats_add(&s->errors[row], 1);
}

void nfs_stats_collect(struct nfs_stats *sum, const struct nfs_stats *from)
{
	uint64_t *dst = (uint64_t *)sum;
	const uint64_t *src = (const uint64_t *)from;

	_Static_assert(sizeof(*sum) % sizeof(uint64_t) == 0, "counters and nothing else");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++)
		dst[i] += __atomic_load_n(&src[i], __ATOMIC_RELAXED);
}

static int format_by_proc(const uint64_t *v, const char *const names[NFS_STATS_ROWS],
			  const char *metric, const char *help, struct buf *out)
{
	int rc = buf_printf(out, "# HELP %s %s\n# TYPE %s counter\n", metric, help, metric);

	for (unsigned i = 0; i < NFS_STATS_ROWS && rc == 0; i++)
		rc = buf_printf(out, "%s{program=\"%s\",proc=\"%s\"} %" PRIu64 "\n", metric,
				i < NFS_STATS_MOUNT ? "nfs" : "mount", names[i], v[i]);
	return rc;
}

#define DURATION "workspaced_nfs_call_duration_seconds"

static int format_histogram(const struct nfs_stats *s, unsigned row, const char *name,
			    struct buf *out)
{
	const char *prog = row < NFS_STATS_MOUNT ? "nfs" : "mount";
	uint64_t n = 0;
	int rc = 0;

	for (unsigned i = 0; i < NFS_STATS_BUCKETS - 1 && rc == 0; i++) {
		n += s->bucket[row][i];
		rc = buf_printf(out,
				DURATION "_bucket{program=\"%s\",proc=\"%s\",le=\"%.6f\"} %" PRIu64
					 "\n",
				prog, name, (double)(1ull << i) / 1e6, n);
	}
	if (rc < 0)
		return rc;
	n += s->bucket[row][NFS_STATS_BUCKETS - 1];
	return buf_printf(out,
			  DURATION "_bucket{program=\"%s\",proc=\"%s\",le=\"+Inf\"} %" PRIu64
				   "\n" DURATION "_sum{program=\"%s\",proc=\"%s\"} %.9f\n" DURATION
				   "_count{program=\"%s\",proc=\"%s\"} %" PRIu64 "\n",
			  prog, name, n, prog, name, (double)s->sum_ns[row] / (double)NSEC_PER_SEC,
			  prog, name, n);
}

/* A procedure that nobody has called yet has no histogram: 26 lines each would hide the rest. */
static int format_histograms(const struct nfs_stats *s, const char *const names[NFS_STATS_ROWS],
			     struct buf *out)
{
	int rc = buf_puts(out,
			  "# HELP " DURATION " From the whole call received to its reply ready.\n"
			  "# TYPE " DURATION " histogram\n");

	for (unsigned i = 0; i < NFS_STATS_ROWS && rc == 0; i++) {
		if (s->calls[i] > 0)
			rc = format_histogram(s, i, names[i], out);
	}
	return rc;
}

/* clang-format off */
static const struct {
	const char *name, *help;
	size_t offset;
} plain[] = {
	{ "rejected_total", "Calls refused by the RPC layer.", offsetof(struct nfs_stats, rejected) },
	{ "received_bytes_total", "Bytes received.", offsetof(struct nfs_stats, bytes_in) },
	{ "sent_bytes_total", "Bytes sent.", offsetof(struct nfs_stats, bytes_out) },
	{ "pooled_calls_total", "Calls that ran in a pool.", offsetof(struct nfs_stats, pooled) },
	{ "drc_replays_total", "Repeated calls answered with the stored reply.",
	  offsetof(struct nfs_stats, drc_replays) },
	{ "drc_parked_total", "Repeated calls that waited for the first.",
	  offsetof(struct nfs_stats, drc_parked) },
	{ "drc_dropped_total", "Repeated calls left unanswered: the first is running and enough wait for it.",
	  offsetof(struct nfs_stats, drc_dropped) },
	{ "connections_opened_total", "Connections taken.", offsetof(struct nfs_stats, conns_opened) },
	{ "connections_closed_total", "Connections ended.", offsetof(struct nfs_stats, conns_closed) },
	{ "connections_timed_out_total", "Connections ended by a deadline.",
	  offsetof(struct nfs_stats, conns_timed_out) },
};
/* clang-format on */

int nfs_stats_format(const struct nfs_stats *s, const char *const names[NFS_STATS_ROWS],
		     struct buf *out)
{
	int rc;

	rc = format_by_proc(s->calls, names, "workspaced_nfs_calls_total", "Calls answered.", out);
	if (rc == 0)
		rc = format_by_proc(s->errors, names, "workspaced_nfs_errors_total",
				    "Calls answered with an error.", out);
	if (rc == 0)
		rc = format_histograms(s, names, out);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]) && rc == 0; i++) {
		uint64_t v = *(const uint64_t *)((const char *)s + plain[i].offset);

		rc = buf_printf(out,
				"# HELP workspaced_nfs_%s %s\n# TYPE workspaced_nfs_%s counter\n"
				"workspaced_nfs_%s %" PRIu64 "\n",
				plain[i].name, plain[i].help, plain[i].name, plain[i].name, v);
	}
	return rc;
}
