/* SPDX-License-Identifier: MIT */
/*
 * The NFS server as a whole: makes its parts, accepts connections on the control loop, hands each
 * to the loop that has the fewest, and takes all down again in order.
 *
 * One listener and a choice of our own, instead of SO_REUSEPORT and the kernel's: that spreads by a
 * hash of addresses, and with a handful of clients puts two on one loop while another has none.
 */
#include "nfsd/nfsd.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/peer.h"
#include "nfsd/fh.h"
#include "nfsd/mount_table.h"
#include "nfsd/nfs_conn.h"
#include "nfsd/nfs_server.h"

#define BACKLOG          512
#define ACCEPTS_AT_ONCE  64  /* then other events of the control loop have their turn */
#define ACCEPT_PAUSE_MS  100 /* when descriptors or memory have run out */
#define MAX_CONNS        4096u
#define HELLO_MS         30000u
#define PROGRESS_MS      30000u
#define UNSENT_MS        60000u
#define LAST_WAIT_NS     (500 * NSEC_PER_MS) /* for pool threads without a call to end */
#define IDLE_MS          (2u * 3600 * 1000)  /* keepalive finds dead peers long before */
#define KEEPALIVE_IDLE_S 60
#define KEEPALIVE_GAP_S  10
#define KEEPALIVE_PROBES 6

struct nfsd_listener {
	struct nfsd *d;
	int fd;
	uv_poll_t poll;
	uv_timer_t pause;
	unsigned open_handles; /* freed when both are closed, which is after nfsd_stop() */
};

/* ---- pools -------------------------------------------------------------- */

static void run_pooled(struct list *n)
{
	struct nfs_job *job = list_entry(n, struct nfs_job, link);
	struct list waiters;

	list_init(&waiters);
	nfs_dispatch_wait(&job->loop->d->dispatch, job, &waiters);
	nfs_loop_post_all(&waiters);
}

static void done_pooled(struct list *n)
{
	nfs_loop_post(list_entry(n, struct nfs_job, link));
}

/* A source may use three quarters of the threads: what hangs one client's calls leaves some to
 * others. */
static const struct nfs_pool_options pool_options[NFS_N_POOLS] = {
	[NFS_POOL_SCAN] = { "nfs-scan", 8, 6, 1024, run_pooled, done_pooled },
	[NFS_POOL_SYNC] = { "nfs-sync", 16, 12, 1024, run_pooled, done_pooled },
};

/* ---- accepting ---------------------------------------------------------- */

static void set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_GAP_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES },
	};

	/* None of them is needed for a right answer. */
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
				 sizeof(options[i].value));
}

static bool describe_peer(const struct nfsd *d, int fd, const struct sockaddr_storage *sa,
			  struct nfs_peer *ret)
{
	struct nfs_peer p = { 0 };

	if (!peer_addr6(sa, &p.addr, &p.port))
		return false;
	p.is_loopback = peer_is_loopback(&p.addr);
	if (p.is_loopback) {
		p.has_local_uid = peer_local_uid(fd, &p.local_uid) == 0;
		p.local_uid_ok = d->local_uids.everyone ||
				 (p.has_local_uid && peer_uids_allow(&d->local_uids, p.local_uid));
	}
	*ret = p;
	return true;
}

static unsigned conns_of(const struct nfs_loop *l)
{
	return __atomic_load_n(&l->n_conns, __ATOMIC_RELAXED);
}

static unsigned count_conns(const struct nfsd *d)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->n_loops; i++)
		n += conns_of(d->loops[i]);
	return n;
}

static struct nfs_loop *least_loaded(const struct nfsd *d)
{
	struct nfs_loop *best = d->loops[0];

	for (unsigned i = 1; i < d->n_loops; i++) {
		if (conns_of(d->loops[i]) < conns_of(best))
			best = d->loops[i];
	}
	return best;
}

static void take_connection(struct nfsd *d, int fd, const struct sockaddr_storage *sa)
{
	struct nfs_peer peer;
	struct nfs_conn *c;

	if (count_conns(d) >= d->max_conns) {
		log_debug(LOG_NFS, "connection refused: there are %u", d->max_conns);
		(void)close(fd);
		return;
	}
	if (!describe_peer(d, fd, sa, &peer)) {
		(void)close(fd);
		return;
	}
	set_options(fd);
	c = nfs_conn_new(fd, &peer);
	if (c != NULL)
		nfs_loop_add_conn(least_loaded(d), c);
}

static void on_incoming(uv_poll_t *h, int status, int events);

static void on_pause_over(uv_timer_t *t)
{
	struct nfsd_listener *ln = t->data;

	(void)uv_poll_start(&ln->poll, UV_READABLE, on_incoming);
}

/* Without descriptors the listener stays readable; polling it would spin. */
static void pause_listener(struct nfsd_listener *ln, int error)
{
	log_warn(LOG_NFS, "accept: %s; pausing", strerror(error));
	(void)uv_poll_stop(&ln->poll);
	(void)uv_timer_start(&ln->pause, on_pause_over, ACCEPT_PAUSE_MS, 0);
}

static void on_incoming(uv_poll_t *h, int status, int events)
{
	struct nfsd_listener *ln = h->data;

	for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
		struct sockaddr_storage sa = { 0 };
		socklen_t len = sizeof(sa);
		int fd =
			accept4(ln->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take_connection(ln->d, fd, &sa);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_listener(ln, errno);
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

/* ---- the listener ------------------------------------------------------- */

static int parse_address(const char *text, uint16_t port, struct sockaddr_storage *ret,
			 socklen_t *ret_len)
{
	struct sockaddr_in *a4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)ret;

	*ret = (struct sockaddr_storage){ 0 };
	if (inet_pton(AF_INET, text, &a4->sin_addr) == 1) {
		a4->sin_family = AF_INET;
		a4->sin_port = htons(port);
		*ret_len = sizeof(*a4);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &a6->sin6_addr) == 1) {
		a6->sin6_family = AF_INET6;
		a6->sin6_port = htons(port);
		*ret_len = sizeof(*a6);
		return 0;
	}
	return -EINVAL;
}

/* "::" means both families; any other IPv6 address means itself. */
static int bind_and_listen(int fd, const struct sockaddr_storage *sa, socklen_t len)
{
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)sa;
	int on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (sa->ss_family == AF_INET6) {
		int only6 = !IN6_IS_ADDR_UNSPECIFIED(&a6->sin6_addr);

		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only6, sizeof(only6));
	}
	if (bind(fd, (const struct sockaddr *)sa, len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

static int bound_port(int fd, uint16_t *ret)
{
	struct sockaddr_storage sa = { 0 };
	socklen_t len = sizeof(sa);
	struct in6_addr addr;
	in_port_t port;

	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		return -errno;
	if (!peer_addr6(&sa, &addr, &port))
		return -EAFNOSUPPORT;
	*ret = port;
	return 0;
}

static int open_socket(const struct nfsd_options *o, int *ret_fd, uint16_t *ret_port,
		       struct err *err)
{
	struct sockaddr_storage sa;
	socklen_t len;
	auto_close int fd = -1;
	int rc;

	rc = parse_address(o->bind, o->port, &sa, &len);
	if (rc < 0)
		return err_set(err, rc, "'%s' is not an IPv4 or IPv6 address", o->bind);
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, -errno, "socket: %s", strerror(errno));
	rc = bind_and_listen(fd, &sa, len);
	if (rc == 0)
		rc = bound_port(fd, ret_port);
	if (rc < 0)
		return err_set(err, rc,
			       "cannot listen on %s port %u (WORKSPACE_NFS_BIND, "
			       "WORKSPACE_NFS_PORT): %s",
			       o->bind, o->port, strerror(-rc));
	*ret_fd = take_fd(&fd);
	return 0;
}

static int listener_start(struct nfsd *d, uv_loop_t *control, int fd, struct err *err)
{
	struct nfsd_listener *ln = calloc(1, sizeof(*ln));
	int rc;

	if (ln == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	rc = uv_poll_init(control, &ln->poll, fd);
	if (rc < 0) {
		free(ln);
		return err_set(err, rc, "watch the listener: %s", uv_strerror(rc));
	}
	(void)uv_timer_init(control, &ln->pause);
	ln->poll.data = ln->pause.data = ln;
	ln->open_handles = 2;
	ln->d = d;
	ln->fd = fd;
	(void)uv_poll_start(&ln->poll, UV_READABLE, on_incoming);
	d->listener = ln;
	return 0;
}

static void on_listener_closed(uv_handle_t *h)
{
	struct nfsd_listener *ln = h->data;

	if (--ln->open_handles == 0)
		free(ln);
}

static void listener_stop(struct nfsd *d)
{
	struct nfsd_listener *ln = d->listener;

	if (ln == NULL)
		return;
	d->listener = NULL;
	uv_close((uv_handle_t *)&ln->poll, on_listener_closed);
	uv_close((uv_handle_t *)&ln->pause, on_listener_closed);
	(void)close(ln->fd);
}

/* ---- the whole ---------------------------------------------------------- */

static uint64_t ms_or(unsigned ms, unsigned otherwise)
{
	return (ms > 0 ? ms : otherwise) * NSEC_PER_MS;
}

static void init_from_options(struct nfsd *d, const struct nfsd_options *o)
{
	d->shared = (struct nfsd_shared){
		.registry = o->registry,
		.inodes = o->inodes,
		.metadata_sync = o->metadata_sync,
		.started_s = (uint32_t)(clock_real_ns() / NSEC_PER_SEC),
	};
	io_random(&d->shared.write_verf, sizeof(d->shared.write_verf));
	d->max_conns = o->max_conns > 0 ? o->max_conns : MAX_CONNS;
	d->local_uids = o->local_uids;
	d->limits = (struct nfs_limits){
		.hello_ns = ms_or(o->hello_ms, HELLO_MS),
		.progress_ns = ms_or(o->progress_ms, PROGRESS_MS),
		.unsent_ns = ms_or(o->unsent_ms, UNSENT_MS),
		.idle_ns = ms_or(0, IDLE_MS),
	};
}

static int make_parts(struct nfsd *d, const struct nfs_programs *programs,
		      const uint8_t *handle_key, struct err *err)
{
	int rc;

	nfs_dispatch_init(&d->dispatch, programs);
	rc = fh_codec_new(handle_key, d->shared.registry, &d->shared.fh);
	if (rc == 0)
		rc = mount_table_new(&d->shared.mounts);
	if (rc == 0)
		rc = nfs_payloads_new(&d->payloads);
	if (rc == 0)
		rc = drc_new(&(struct drc_options){ 0 }, &d->drc);
	if (rc < 0)
		return err_set(err, rc, "%s", strerror(-rc));
	for (unsigned i = 0; i < NFS_N_POOLS && rc == 0; i++)
		rc = nfs_pool_new(&pool_options[i], &d->pools[i], err);
	d->dispatch.nfsd = d;
	d->dispatch.drc = d->drc;
	d->dispatch.payloads = d->payloads;
	return rc;
}

static unsigned n_cores(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n > 0 ? (unsigned)n : 1;
}

static int start_loops(struct nfsd *d, unsigned n, struct err *err)
{
	int rc = 0;

	d->loops = calloc(n, sizeof(struct nfs_loop *));
	if (d->loops == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < n && rc == 0; i++) {
		rc = nfs_loop_start(d, i, &d->loops[i], err);
		if (rc == 0) /* the first loop already runs, and looks */
			__atomic_store_n(&d->n_loops, i + 1, __ATOMIC_RELEASE);
	}
	return rc;
}

/* Every part that exists is ended; what running calls may still touch stays. */
static bool take_down(struct nfsd *d, uint64_t deadline_ns)
{
	bool is_quiet = true;

	for (unsigned i = 0; i < d->n_loops; i++)
		nfs_loop_ask_stop(d->loops[i], deadline_ns);
	for (unsigned i = 0; i < d->n_loops; i++)
		is_quiet = nfs_loop_join(d->loops[i]) && is_quiet;
	deadline_ns = MAX(deadline_ns, clock_mono_ns()) + LAST_WAIT_NS;
	for (unsigned i = 0; i < NFS_N_POOLS; i++)
		is_quiet = nfs_pool_stop(d->pools[i], deadline_ns) && is_quiet;
	if (!is_quiet)
		return false;
	for (unsigned i = 0; i < d->n_loops; i++)
		nfs_loop_free(d->loops[i]);
	free(d->loops);
	drc_free(d->drc);
	nfs_payloads_free(d->payloads);
	mount_table_free(d->shared.mounts);
	fh_codec_free(d->shared.fh);
	free(d);
	return true;
}

/*
 * Calls with a megabyte of data come and go by the thousand.  Left alone, malloc(3) gives such
 * memory back to the kernel each time, and getting it again means 256 page faults and as many pages
 * cleared: a fifth of a large WRITE.
 */
static void keep_freed_memory(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, 4 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

int nfsd_start_with(uv_loop_t *control, const struct nfsd_options *o,
		    const struct nfs_programs *programs, struct nfsd **ret, struct err *err)
{
	struct nfsd *d = calloc(1, sizeof(*d));
	auto_close int fd = -1;
	int rc;

	if (d == NULL)
		return err_set(err, -ENOMEM, "nfs server: out of memory");
	keep_freed_memory();
	init_from_options(d, o);
	rc = open_socket(o, &fd, &d->port, err);
	if (rc == 0)
		rc = make_parts(d, programs, o->handle_key, err);
	if (rc == 0)
		rc = start_loops(d, o->n_loops > 0 ? o->n_loops : n_cores(), err);
	if (rc == 0)
		rc = listener_start(d, control, fd, err);
	if (rc < 0) {
		(void)take_down(d, clock_mono_ns());
		return err_wrap(err, rc, "nfs server");
	}
	(void)take_fd(&fd); /* the listener's */
	*ret = d;
	return 0;
}

int nfsd_start(uv_loop_t *control, const struct nfsd_options *o, struct nfsd **ret, struct err *err)
{
	static const struct nfs_programs programs = { .nfs = nfs3_procs, .mount = mount3_procs };

	return nfsd_start_with(control, o, &programs, ret, err);
}

bool nfsd_stop(struct nfsd *d, unsigned deadline_ms)
{
	if (d == NULL)
		return true;
	listener_stop(d);
	return take_down(d, clock_mono_ns() + deadline_ms * NSEC_PER_MS);
}

uint16_t nfsd_port(const struct nfsd *d)
{
	return d->port;
}

struct nfsd_shared *nfsd_shared(struct nfsd *d)
{
	return &d->shared;
}

/* ---- what it tells about itself ----------------------------------------- */

static void sum_stats(struct nfsd *d, struct nfs_stats *ret)
{
	*ret = (struct nfs_stats){ 0 };
	for (unsigned i = 0; i < d->n_loops; i++)
		nfs_stats_collect(ret, &d->loops[i]->stats);
}

static int format_gauge(struct buf *out, const char *name, const char *label, uint64_t v)
{
	return buf_printf(out, "workspaced_nfs_%s%s %llu\n", name, label, (unsigned long long)v);
}

static int format_gauges(struct nfsd *d, struct buf *out)
{
	struct drc_stats drc;
	char label[32];
	int rc;

	drc_stats(d->drc, &drc);
	rc = buf_puts(out, "# HELP workspaced_nfs_connections Connections open, by loop.\n"
			   "# TYPE workspaced_nfs_connections gauge\n");
	for (unsigned i = 0; i < d->n_loops && rc == 0; i++) {
		(void)snprintf(label, sizeof(label), "{loop=\"%u\"}", i);
		rc = format_gauge(out, "connections", label, conns_of(d->loops[i]));
	}
	if (rc == 0)
		rc = buf_puts(out,
			      "# HELP workspaced_nfs_pool_queued Calls that wait for a thread.\n"
			      "# TYPE workspaced_nfs_pool_queued gauge\n");
	for (unsigned i = 0; i < NFS_N_POOLS && rc == 0; i++) {
		(void)snprintf(label, sizeof(label), "{pool=\"%s\"}", pool_options[i].name);
		rc = format_gauge(out, "pool_queued", label, nfs_pool_queued(d->pools[i]));
	}
	if (rc == 0)
		rc = buf_printf(
			out,
			"# HELP workspaced_nfs_drc_entries Calls remembered for repeats.\n"
			"# TYPE workspaced_nfs_drc_entries gauge\n"
			"workspaced_nfs_drc_entries %zu\n"
			"# HELP workspaced_nfs_drc_bytes Memory of these.\n"
			"# TYPE workspaced_nfs_drc_bytes gauge\n"
			"workspaced_nfs_drc_bytes %zu\n"
			"# HELP workspaced_nfs_held_bytes Unsent replies and calls in pools.\n"
			"# TYPE workspaced_nfs_held_bytes gauge\n"
			"workspaced_nfs_held_bytes %llu\n",
			drc.n_entries, drc.n_bytes,
			(unsigned long long)__atomic_load_n(&d->held, __ATOMIC_RELAXED));
	return rc;
}

int nfsd_metrics(struct nfsd *d, struct buf *out)
{
	const char *names[NFS_STATS_ROWS];
	struct nfs_stats sum;
	int rc;

	for (unsigned i = 0; i < NFS_STATS_ROWS; i++)
		names[i] = i < NFS_STATS_MOUNT
				   ? d->dispatch.programs.nfs[i].name
				   : d->dispatch.programs.mount[i - NFS_STATS_MOUNT].name;
	sum_stats(d, &sum);
	rc = nfs_stats_format(&sum, names, out);
	return rc == 0 ? format_gauges(d, out) : rc;
}

void nfsd_summary(struct nfsd *d, struct nfsd_summary *ret)
{
	struct nfs_stats sum;

	sum_stats(d, &sum);
	*ret = (struct nfsd_summary){ .n_conns = count_conns(d), .n_loops = d->n_loops };
	for (unsigned i = 0; i < NFS_STATS_ROWS; i++)
		ret->n_calls += sum.calls[i];
}
