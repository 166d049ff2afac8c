/* SPDX-License-Identifier: MIT */
/*
 * Is it alive, is it ready, what has it done: /health, /ready and /metrics.
 *
 * Health says only that the control loop turns.  Ready asks the store and the disk, and may block.
 * To a caller who is not let in, ready tells its one word and nothing of the insides.
 */
#include "http/api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "http/http_core.h"
#include "nfsd/nfsd.h"
#include "workspace/inode.h"
#include "workspace/store.h"
#include "workspace/workspace.h"

#define FREE_BYTES_MIN                                                                             \
	(16ull << 20) /* below it new files will soon fail: not ready for more work */

void api_health(struct http_request *req)
{
	struct json_out o = http_response_json(req);

	json_out_open(&o, '{');
	json_out_key_str(&o, "status", "healthy");
	json_out_key_str(&o, "version", WORKSPACED_VERSION);
	json_out_close(&o, '}');
	http_response_json_end(req, 200, &o);
}

/* ---- ready -------------------------------------------------------------- */

/* One check: writes its members into an object that is open; true when all is well. */
typedef bool (*check_fn)(const struct http_server_options *opt, struct json_out *o);

static bool check_store(const struct http_server_options *opt, struct json_out *o)
{
	struct err err = { 0 };

	if (store_check(opt->store, &err) == 0)
		return true;
	json_out_key_str(o, "message", err.msg);
	return false;
}

static bool check_data_dir(const struct http_server_options *opt, struct json_out *o)
{
	struct statvfs st;
	uint64_t free_bytes;

	if (opt->data_dir == NULL)
		return true;
	if (statvfs(opt->data_dir, &st) < 0) {
		json_out_key_str(o, "message", strerror(errno));
		return false;
	}
	free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	json_out_key_u64(o, "free_bytes", free_bytes);
	if (free_bytes >= FREE_BYTES_MIN)
		return true;
	json_out_key_str(o, "message", "less than 16 MiB free");
	return false;
}

static bool check_nfs(const struct http_server_options *opt, struct json_out *o)
{
	struct nfsd_summary sum;

	if (opt->nfsd == NULL) {
		json_out_key_str(o, "message", "not started");
		return false;
	}
	nfsd_summary(opt->nfsd, &sum);
	json_out_key_u64(o, "port", nfsd_port(opt->nfsd));
	json_out_key_u64(o, "connections", sum.n_conns);
	return true;
}

static bool run_check(const char *name, check_fn fn, const struct http_server_options *opt,
		      struct json_out *o)
{
	bool is_ok;

	json_out_key(o, name);
	json_out_open(o, '{');
	is_ok = fn(opt, o);
	json_out_key_bool(o, "ok", is_ok);
	json_out_close(o, '}');
	return is_ok;
}

/* run_checks() - all of them, as the members of one object */
static bool run_checks(const struct http_server_options *opt, struct json_out *o)
{
	static const struct {
		const char *name;
		check_fn fn;
	} checks[] = { { "store", check_store },
		       { "data_dir", check_data_dir },
		       { "nfs", check_nfs } };
	bool is_ok = true;

	json_out_open(o, '{');
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		is_ok &= run_check(checks[i].name, checks[i].fn, opt, o);
	json_out_close(o, '}');
	return is_ok;
}

void api_ready(struct http_request *req)
{
	struct buf details = { 0 };
	struct json_out checks = JSON_OUT(&details), o;
	bool is_ready = run_checks(req->core->options, &checks);

	o = http_response_json(req);
	json_out_open(&o, '{');
	json_out_key_str(&o, "status", is_ready ? "ready" : "not ready");
	if (req->is_authorized && checks.rc == 0) {
		json_out_key(&o, "checks");
		json_out_raw(&o, (const char *)details.data, details.len);
	}
	json_out_close(&o, '}');
	http_response_json_end(req, is_ready ? 200 : 503, &o);
	buf_free(&details);
}

/* ---- metrics ------------------------------------------------------------ */

static uint64_t resident_bytes(void)
{
	unsigned long long size, resident = 0;
	auto_free char *text = NULL;
	size_t len;

	if (io_read_file(AT_FDCWD, "/proc/self/statm", 4096, &text, &len, NULL) < 0)
		return 0;
	if (sscanf(text, "%llu %llu", &size, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_descriptors(void)
{
	ssize_t n = io_count_entries("/proc/self/fd");

	return n > 0 ? (uint64_t)n - 1 : 0; /* without the one that it takes to look */
}

static int put_process(struct buf *out)
{
	return buf_printf(
		out,
		"# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %llu\n"
		"# TYPE process_open_fds gauge\nprocess_open_fds %llu\n"
		"# TYPE workspaced_build_info "
		"gauge\nworkspaced_build_info{version=\"" WORKSPACED_VERSION "\"} 1\n",
		(unsigned long long)resident_bytes(), (unsigned long long)open_descriptors());
}

static int put_inodes(struct inode_cache *inodes, struct buf *out)
{
	struct inode_cache_stats st;

	if (inodes == NULL)
		return 0;
	inode_cache_stats(inodes, &st);
	return buf_printf(
		out,
		"# TYPE workspaced_inode_cache_hits_total counter\n"
		"workspaced_inode_cache_hits_total %llu\n"
		"# TYPE workspaced_inode_cache_misses_total counter\n"
		"workspaced_inode_cache_misses_total %llu\n"
		"# TYPE workspaced_inode_cache_evictions_total counter\n"
		"workspaced_inode_cache_evictions_total %llu\n"
		"# TYPE workspaced_inode_cache_inodes gauge\nworkspaced_inode_cache_inodes %zu\n"
		"# TYPE workspaced_inode_cache_fds gauge\nworkspaced_inode_cache_fds %zu\n",
		(unsigned long long)st.hits, (unsigned long long)st.misses,
		(unsigned long long)st.evictions, st.n_inodes, st.n_fds);
}

static int put_workspaces(struct ws_registry *registry, struct buf *out)
{
	struct workspace **list;
	size_t n;
	int rc = ws_list(registry, &list, &n);

	if (rc < 0)
		return rc;
	ws_list_free(list, n);
	return buf_printf(out, "# TYPE workspaced_workspaces gauge\nworkspaced_workspaces %zu\n",
			  n);
}

void api_metrics(struct http_request *req)
{
	const struct http_server_options *opt = req->core->options;
	struct buf *out = &req->res.body;
	int rc = put_process(out);

	if (rc == 0)
		rc = put_workspaces(opt->registry, out);
	if (rc == 0)
		rc = put_inodes(opt->inodes, out);
	if (rc == 0)
		rc = http_stats_metrics(req->core->stats, out);
	if (rc == 0 && opt->nfsd != NULL)
		rc = nfsd_metrics(opt->nfsd, out);
	if (rc < 0) {
		http_response_error(req, HTTP_CODE_INTERNAL, "%s", strerror(-rc));
		return;
	}
	req->res.type = "text/plain; version=0.0.4; charset=utf-8";
	req->res.status = 200;
}
