/* SPDX-License-Identifier: MIT */
/*
 * The daemon's main(): reads the settings, gives up privilege, wires the parts together, waits, and
 * takes them apart in the reverse order.  What each part does is told in its own header.
 *
 * The order of the start matters.  Settings and key files are read with the rights of whoever
 * started us. The broker is forked before there is any thread, socket or file of a user; from then
 * on this process is the service user, behind its system call filter.  Only then it touches the
 * data directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "broker/broker.h"
#include "broker/broker_client.h"
#include "broker/helper.h"
#include "broker/seccomp_rules.h"
#include "config.h"
#include "http/http_server.h"
#include "nfsd/fh.h"
#include "nfsd/nfsd.h"
#include "workspace/archive.h"
#include "workspace/events.h"
#include "workspace/inode.h"
#include "workspace/inode_hints.h"
#include "workspace/quota.h"
#include "workspace/store.h"
#include "workspace/workspace.h"

#define EXIT_USAGE       2
#define EXIT_INTERRUPTED 130 /* 128 + SIGINT, as a shell would say */

#define STOP_DEADLINE_MS 10000u /* for each of HTTP and NFS to finish what runs */
#define HOUSEKEEPING_MS  1000u  /* how long a hint may wait to be stored */

/* Of the descriptors that the process may open.  The rest is for calls that are
 * running: those must find some whatever clients do, or a change would be half done. */
#define FDS_OF_PARTS               96u /* the database, loops and pools; at most half of all */
#define WORKSPACE_FD_SHARE_PERCENT 10
#define CACHE_FD_SHARE_PERCENT     60
#define CACHE_FDS_MAX              400000u
#define NFS_FD_SHARE_PERCENT       20
#define NFS_CONNS_MAX              4096u
#define HTTP_FD_SHARE_PERCENT      6
#define HTTP_CONNS_MAX             1024u

#define URL_HOST_MAX 272 /* bytes: a host name has at most 255 */

struct daemon {
	struct config *config;
	struct config_list key_list, origins, adopt_roots;
	struct http_api_key *keys; /* owned array; the texts lie in key_list */

	struct broker *broker;
	struct broker_caps
		caps;          /* with the way to the data directory that works without privilege */
	struct helper *helper; /* forks the workers of archives */
	struct store *store;
	struct inode_hints *hints; /* NULL when kernel handles can be opened */
	struct ws_registry *registry;
	struct inode_cache *inodes;
	struct quota_service *quota;
	struct nfsd *nfsd;
	struct http_server_options http_options; /* the server borrows it */
	char nfs_url_host[URL_HOST_MAX];
	struct http_server *http;

	uv_loop_t loop;
	bool has_loop;
	uv_signal_t on_term, on_int;
	uv_poll_t on_broker_death;
	uv_timer_t housekeeping;
	uv_work_t housekeeping_work;
	bool is_stopping; /* the loop now runs for the parts that end: leave it alone */
	bool is_housekeeping;
	uv_work_t purge_work; /* apart from housekeeping: a large workspace takes long */
	bool is_purging;
	bool hints_failed; /* the last flush did: log a change, not each second */
	int exit_code;
};

/* Set by the handler of SIGUSR1, which must not write a line itself. */
static volatile sig_atomic_t debug_was_toggled;

/* ---- systemd ------------------------------------------------------------ */

/* sd_notify(3) without the library: one datagram.  A start that nobody waits for has no
 * NOTIFY_SOCKET. */
static void notify_systemd(const char *state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	auto_close int fd = -1;
	size_t len;

	if (path == NULL || (path[0] != '/' && path[0] != '@'))
		return;
	len = strlen(path);
	if (len >= sizeof(addr.sun_path))
		return;
	memcpy(addr.sun_path, path, len);
	if (path[0] == '@')
		addr.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&addr,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_warn(LOG_MAIN, "cannot tell systemd state=%s error=\"%s\"", state,
			 strerror(errno));
}

/* ---- before privilege is given up --------------------------------------- */

/* Also when an ordinary user asks, whose server would not use it: the file may be for root's. */
static int check_service_user(const struct config *c, struct err *err)
{
	const char *spec = config_text(c, CFG_SERVICE_USER);
	struct service_user ignored;
	int rc = spec == NULL ? 0 : privilege_service_user(spec, &ignored, err);

	return rc < 0 ? err_wrap(err, rc, "WORKSPACE_SERVICE_USER") : 0;
}

static int load_config(struct daemon *d, const char *file, struct err *err)
{
	int rc = config_new(&d->config);

	if (rc < 0)
		return err_set(err, rc, "settings: out of memory");
	if (file != NULL)
		rc = config_load_file(d->config, file, err);
	if (rc >= 0)
		rc = config_load_env(d->config, environ, err);
	if (rc >= 0)
		rc = log_configure(config_text(d->config, CFG_LOG), err);
	if (rc >= 0)
		config_warn_unknown(environ);
	if (rc >= 0)
		rc = config_check(d->config, err);
	if (rc >= 0)
		rc = check_service_user(d->config, err);
	if (rc >= 0)
		rc = config_api_keys(d->config, &d->key_list, err);
	return rc;
}

/* "name:key", or a key alone. */
static int split_keys(struct daemon *d, struct err *err)
{
	static const char *const unnamed = "unnamed";

	d->keys = calloc(d->key_list.n + 1, sizeof(*d->keys));
	if (d->keys == NULL)
		return err_set(err, -ENOMEM, "settings: out of memory");
	for (size_t i = 0; i < d->key_list.n; i++) {
		char *item = d->key_list.item[i], *colon = strchr(item, ':');

		if (colon != NULL)
			*colon = '\0';
		d->keys[i].name = colon != NULL ? item : unnamed;
		d->keys[i].secret = colon != NULL ? colon + 1 : item;
	}
	return 0;
}

static int split_list(struct daemon *d, enum config_id id, struct config_list *ret, struct err *err)
{
	const char *text = config_text(d->config, id);

	if (text != NULL && config_list_split(text, ret) < 0)
		return err_set(err, -ENOMEM, "settings: out of memory");
	return 0;
}

static int make_data_dir(struct daemon *d, struct err *err)
{
	const char *path = config_text(d->config, CFG_DATA_DIR);
	int rc = io_mkdir_p(path, 0700, NULL);

	return rc < 0 ? err_set(err, rc, "WORKSPACE_DATA_DIR: cannot make the directory %.120s: %s",
				path, strerror(-rc))
		      : 0;
}

/* The broker has raised the limit as far as the host lets it. */
static unsigned fd_share(unsigned percent, unsigned max)
{
	struct rlimit lim = { .rlim_cur = 1024 }; /* the smallest usual limit */
	rlim_t n;

	(void)getrlimit(RLIMIT_NOFILE, &lim);
	n = lim.rlim_cur - MIN(lim.rlim_cur / 2, FDS_OF_PARTS);
	return (unsigned)MAX(MIN(n / 100 * percent + n % 100 * percent / 100, max), 1u);
}

/* ---- the parts ---------------------------------------------------------- */

static int start_broker(struct daemon *d, struct err *err)
{
	const struct broker_options o = {
		.data_dir = config_text(d->config, CFG_DATA_DIR),
		.service_user = config_text(d->config, CFG_SERVICE_USER),
		.adopt_roots = (const char *const *)d->adopt_roots.item,
		.n_adopt_roots = d->adopt_roots.n,
	};
	int rc = broker_start(&o, &d->broker, &d->caps, err);

	if (rc >= 0)
		rc = helper_start(arc_worker, &d->helper, err);
	if (rc < 0)
		return rc;
	return seccomp_rules_main(err);
}

/* The key is made once.  One of a wrong size is somebody's mistake that a new key would make worse:
 * every handle that clients hold would be void. */
static int handle_key(const char *data_dir, uint8_t key[FH_KEY_LEN], bool *ret_is_new,
		      struct err *err)
{
	char path[PATH_MAX + 32];
	auto_free char *text = NULL;
	size_t len = 0;
	int rc;

	(void)snprintf(path, sizeof(path), "%s/keys", data_dir);
	rc = io_mkdir_p(path, 0700, err);
	if (rc < 0)
		return err_wrap(err, rc, "handle key");
	(void)snprintf(path, sizeof(path), "%s/keys/handle.key", data_dir);
	rc = io_read_file(AT_FDCWD, path, FH_KEY_LEN, &text, &len, err);
	*ret_is_new = rc == -ENOENT;
	if (rc == -ENOENT) {
		io_random(key, FH_KEY_LEN);
		return io_write_file_atomic(AT_FDCWD, path, key, FH_KEY_LEN, 0600, err);
	}
	if (rc == -EFBIG || (rc >= 0 && len != FH_KEY_LEN))
		return err_set(
			err, -EINVAL,
			"keys/handle.key in the data directory is not %d bytes long: put the right "
			"one back from a backup, or remove it and mount again everywhere",
			FH_KEY_LEN);
	if (rc < 0)
		return err_wrap(err, rc, "handle key");
	memcpy(key, text, FH_KEY_LEN);
	explicit_bzero(text, len);
	return 0;
}

/* Handles are signed with the key: those of the old one are void. */
static void warn_of_new_key(const struct daemon *d)
{
	struct workspace **list;
	size_t n;

	if (ws_list(d->registry, &list, &n) < 0)
		return;
	if (n > 0)
		log_warn(LOG_MAIN,
			 "keys/handle.key was missing and is made anew: every mount of the %zu "
			 "workspaces is stale now, unless the old key is put back before the next "
			 "start",
			 n);
	ws_list_free(list, n);
}

/* A backup put back by root is the usual case.  On a line of its own: the path may be long. */
static void hint_at_owner(const struct daemon *d, int rc)
{
	if (rc == -EACCES || rc == -EPERM)
		log_error(
			LOG_MAIN,
			"the data directory and all in it must belong to the user the server runs "
			"as: chown -R %u:%u %s",
			(unsigned)d->caps.service_uid, (unsigned)d->caps.service_gid,
			config_text(d->config, CFG_DATA_DIR));
}

static int on_workspace_open(void *arg, const struct workspace *ws, struct err *err)
{
	struct daemon *d = arg;

	return broker_register(d->broker, ws->key, ws->id, err);
}

static int on_workspace_adopt(void *arg, const struct workspace *ws, struct err *err)
{
	struct daemon *d = arg;

	return broker_adopt(d->broker, ws->key, ws->adopted, err);
}

static void on_workspace_gone(void *arg, const struct workspace *ws)
{
	struct daemon *d = arg;

	if (d->inodes != NULL) /* a deletion may be finished before the cache is there */
		inode_cache_drop_workspace(d->inodes, ws);
	if (d->hints != NULL)
		inode_hints_drop(d->hints, ws);
	(void)broker_unregister(d->broker, ws->key); /* it may never have been registered */
}

static int open_registry(struct daemon *d, struct err *err)
{
	struct ws_registry_options o = {
		.data_dir = d->caps.data_path,
		.max_workspaces = fd_share(WORKSPACE_FD_SHARE_PERCENT, UINT_MAX),
		.on_open = on_workspace_open,
		.open_adopted = on_workspace_adopt,
		.on_gone = on_workspace_gone,
		.arg = d,
	};

	config_owner(d->config, &o.owner_uid, &o.owner_gid);
	config_exports(d->config, &o.default_exports);
	return ws_registry_open(d->store, &o, &d->registry, err);
}

static int open_kernel_handle(void *arg, const struct inode_key *key)
{
	struct daemon *d = arg;

	return broker_open_handle(d->broker, key->ws, key->htype, key->bytes, key->len);
}

static int open_closed_file(void *arg, const struct inode *ino, int flags)
{
	struct daemon *d = arg;

	return broker_open_file(d->broker, ino->key.ws, ino->path_fd, flags);
}

static int open_inode_cache(struct daemon *d, struct err *err)
{
	const struct inode_cache_options o = {
		.registry = d->registry,
		.max_fds = fd_share(CACHE_FD_SHARE_PERCENT, CACHE_FDS_MAX),
		.use_kernel_handles = d->caps.can_open_handles,
		.open_handle = d->caps.can_open_handles ? open_kernel_handle : NULL,
		.open_file = open_closed_file,
		.arg = d,
		.hints = d->hints,
	};

	return inode_cache_new(&o, &d->inodes, err);
}

static int start_nfs(struct daemon *d, const uint8_t *key, struct err *err)
{
	struct nfsd_options o = {
		.bind = config_text(d->config, CFG_NFS_BIND),
		.port = (uint16_t)config_uint(d->config, CFG_NFS_PORT),
		.n_loops = (unsigned)config_uint(d->config, CFG_NFS_THREADS),
		.max_conns = fd_share(NFS_FD_SHARE_PERCENT, NFS_CONNS_MAX),
		.metadata_sync = config_bool(d->config, CFG_NFS_METADATA_SYNC),
		.registry = d->registry,
		.inodes = d->inodes,
		.handle_key = key,
	};

	config_local_uids(d->config, &o.local_uids);
	return nfsd_start(&d->loop, &o, &d->nfsd, err);
}

/* url_host() - an address as it stands in a URL: IPv6 in brackets */
static const char *url_host(char *dst, size_t dst_len, const char *host)
{
	if (strchr(host, ':') != NULL && host[0] != '[')
		(void)snprintf(dst, dst_len, "[%s]", host);
	else
		(void)snprintf(dst, dst_len, "%s", host);
	return dst;
}

/* Where clients are told to mount from; an address that means "all of mine" is no answer to that.
 */
static const char *nfs_url_host(const struct config *c, char *dst, size_t dst_len)
{
	const char *host = config_text(c, CFG_NFS_HOST);

	if (host == NULL)
		host = config_text(c, CFG_NFS_BIND);
	if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
		return NULL;
	return url_host(dst, dst_len, host);
}

static int spawn_archive(void *arg, const void *job, size_t len, const int *fds, size_t n_fds)
{
	struct daemon *d = arg;

	return helper_spawn(d->helper, job, len, fds, n_fds);
}

static void set_archive_options(struct daemon *d, struct http_archives *a)
{
	*a = (struct http_archives){
		.spawn = spawn_archive,
		.arg = d,
		.loop = &d->loop,
		.max_bytes = config_size(d->config, CFG_ARCHIVE_MAX_BYTES),
		.max_entries = config_uint(d->config, CFG_ARCHIVE_MAX_ENTRIES),
		.max_ratio = config_uint(d->config, CFG_ARCHIVE_MAX_RATIO),
		.max_jobs = (unsigned)config_uint(d->config, CFG_ARCHIVE_MAX_JOBS),
	};
}

static int start_http(struct daemon *d, struct err *err)
{
	d->http_options = (struct http_server_options){
		.host = config_text(d->config, CFG_HTTP_HOST),
		.port = (uint16_t)config_uint(d->config, CFG_HTTP_PORT),
		.socket_path = config_text(d->config, CFG_HTTP_SOCKET),
		.allowed_origins = (const char *const *)d->origins.item,
		.n_allowed_origins = d->origins.n,
		.allow_unauthenticated = config_bool(d->config, CFG_ALLOW_UNAUTHENTICATED),
		.keys = d->keys,
		.n_keys = d->key_list.n,
		.registry = d->registry,
		.store = d->store,
		.quota = d->quota,
		.nfsd = d->nfsd,
		.inodes = d->inodes,
		.data_dir = d->caps.data_path,
		.nfs_url_host = nfs_url_host(d->config, d->nfs_url_host, sizeof(d->nfs_url_host)),
		.nfs_port = nfsd_port(d->nfsd),
		.limits = { .max_conns = fd_share(HTTP_FD_SHARE_PERCENT, HTTP_CONNS_MAX),
			    .client_rate = (unsigned)config_uint(d->config, CFG_HTTP_RATE),
			    .client_active =
				    (unsigned)config_uint(d->config, CFG_HTTP_CONCURRENCY) },
	};
	config_local_uids(d->config, &d->http_options.local_uids);
	set_archive_options(d, &d->http_options.archives);
	d->http_options.uses_trash = config_uint(d->config, CFG_TRASH_TTL) > 0;
	return http_server_start(&d->loop, &d->http_options, &d->http, err);
}

/* ---- while it runs ------------------------------------------------------ */

static void on_stop_signal(uv_signal_t *h, int signum)
{
	struct daemon *d = h->data;

	if (d->is_stopping)
		return;
	log_info(LOG_MAIN, "stopping signal=%s", signum == SIGINT ? "INT" : "TERM");
	uv_stop(&d->loop);
}

static void on_broker_death(uv_poll_t *h, int status, int events)
{
	struct daemon *d = h->data;

	(void)status;
	(void)events;
	log_error(LOG_MAIN, "the broker process has ended: stopping, since file handles cannot be "
			    "opened without it");
	d->exit_code = EXIT_FAILURE;
	(void)uv_poll_stop(h);
	uv_stop(&d->loop);
}

static void housekeeping_run(uv_work_t *w)
{
	struct daemon *d = w->data;
	struct err err = { 0 };
	bool failed;

	if (d->hints == NULL)
		return;
	failed = inode_hints_flush(d->hints, &err) < 0;
	if (failed && !d->hints_failed)
		log_warn(LOG_MAIN,
			 "cannot store where files are; tried again every second error=\"%s\"",
			 err.msg);
	d->hints_failed = failed;
}

static void housekeeping_done(uv_work_t *w, int status)
{
	struct daemon *d = w->data;

	(void)status;
	d->is_housekeeping = false;
}

/* What came into the trash before this time has been there long enough. */
static uint64_t trash_until_ns(const struct daemon *d)
{
	uint64_t ttl_ns = config_uint(d->config, CFG_TRASH_TTL) * NSEC_PER_SEC;
	uint64_t now_ns = clock_real_ns();

	return now_ns - MIN(now_ns, ttl_ns);
}

static void purge_run(uv_work_t *w)
{
	struct daemon *d = w->data;

	ws_trash_purge(d->registry, trash_until_ns(d));
}

static void purge_done(uv_work_t *w, int status)
{
	struct daemon *d = w->data;

	(void)status;
	d->is_purging = false;
}

static void tell_of_debug_signal(void)
{
	if (!debug_was_toggled)
		return;
	debug_was_toggled = 0;
	log_info(LOG_MAIN, "signal=USR1 debug lines are %s",
		 log_is_debugging() ? "on" : "as configured");
}

static void on_housekeeping(uv_timer_t *t)
{
	struct daemon *d = t->data;

	tell_of_debug_signal();

	if (!d->is_purging && ws_trash_is_due(d->registry, trash_until_ns(d)))
		d->is_purging = uv_queue_work(&d->loop, &d->purge_work, purge_run, purge_done) == 0;
	if (!d->is_housekeeping)
		d->is_housekeeping = uv_queue_work(&d->loop, &d->housekeeping_work,
						   housekeeping_run, housekeeping_done) == 0;
}

static void on_debug_signal(int signum)
{
	(void)signum;
	log_toggle_debug();
	debug_was_toggled = 1;
}

static void on_second_interrupt(int signum)
{
	(void)signum;
	_exit(EXIT_INTERRUPTED);
}

static void handle_signal(int signum, void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };

	(void)sigaction(signum, &sa, NULL); /* fails only for a signal that does not exist */
}

/* The watchers are prepared one after the other; uv_init() and the like fail only when out of
 * memory. */
static int start_loop(struct daemon *d, struct err *err)
{
	int rc = uv_loop_init(&d->loop);

	if (rc < 0)
		return err_set(err, rc, "event loop: %s", uv_strerror(rc));
	d->has_loop = true;
	d->on_term.data = d->on_int.data = d->on_broker_death.data = d;
	d->housekeeping.data = d->housekeeping_work.data = d->purge_work.data = d;
	(void)uv_signal_init(&d->loop, &d->on_term);
	(void)uv_signal_init(&d->loop, &d->on_int);
	(void)uv_timer_init(&d->loop, &d->housekeeping);
	rc = uv_poll_init(&d->loop, &d->on_broker_death, broker_pidfd(d->broker));
	if (rc >= 0)
		rc = uv_poll_start(&d->on_broker_death, UV_READABLE, on_broker_death);
	if (rc >= 0)
		rc = uv_signal_start(&d->on_term, on_stop_signal, SIGTERM);
	if (rc >= 0)
		rc = uv_signal_start(&d->on_int, on_stop_signal, SIGINT);
	if (rc >= 0)
		rc = uv_timer_start(&d->housekeeping, on_housekeeping, HOUSEKEEPING_MS,
				    HOUSEKEEPING_MS);
	if (rc < 0)
		return err_set(err, rc, "event loop: %s", uv_strerror(rc));
	return 0;
}

/* ---- start and stop ----------------------------------------------------- */

static int open_data(struct daemon *d, struct err *err)
{
	int rc = store_open(d->caps.data_path, config_text(d->config, CFG_DATABASE_URL), &d->store,
			    err);

	if (rc < 0)
		return rc;
	if (!d->caps.can_open_handles)
		rc = inode_hints_open(d->store, &d->hints, err);
	if (rc >= 0)
		rc = open_registry(d, err);
	if (rc >= 0)
		rc = open_inode_cache(d, err);
	if (rc >= 0)
		rc = quota_open(d->store, d->registry, &d->quota, err);
	return rc;
}

static int start_servers(struct daemon *d, const uint8_t *key, struct err *err)
{
	int rc = start_loop(d, err);

	if (rc >= 0)
		rc = start_nfs(d, key, err);
	if (rc >= 0)
		rc = start_http(d, err);
	return rc;
}

/* What was started stays in @d also on failure; daemon_stop() takes it apart. */
static int daemon_start(struct daemon *d, struct err *err)
{
	uint8_t key[FH_KEY_LEN];
	bool is_new_key = false;
	int rc = make_data_dir(d, err);

	if (rc >= 0)
		rc = start_broker(d, err);
	if (rc < 0)
		return rc;
	rc = handle_key(d->caps.data_path, key, &is_new_key, err);
	if (rc >= 0)
		rc = open_data(d, err);
	if (rc < 0)
		hint_at_owner(d, rc);
	else if (is_new_key)
		warn_of_new_key(d);
	/* From here on files are made for clients, with the modes that they ask for. */
	(void)umask(0);
	if (rc >= 0)
		rc = start_servers(d, key, err);
	explicit_bzero(key, sizeof(key));
	return rc;
}

/* At every log level: it is what scripts wait for and read the ports from. */
static void log_ready(const struct daemon *d)
{
	char http_host[URL_HOST_MAX], nfs_host[URL_HOST_MAX];

	log_always(LOG_MAIN,
		   "ready http=%s:%u nfs=%s:%u tier=none handles=%s user=%u pid=%d version=%s",
		   url_host(http_host, sizeof(http_host), config_text(d->config, CFG_HTTP_HOST)),
		   http_server_port(d->http),
		   url_host(nfs_host, sizeof(nfs_host), config_text(d->config, CFG_NFS_BIND)),
		   nfsd_port(d->nfsd), d->caps.can_open_handles ? "kernel" : "hints",
		   (unsigned)d->caps.service_uid, (int)getpid(), WORKSPACED_VERSION);
}

static void close_handle(uv_handle_t *h, void *arg)
{
	(void)arg;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

/* Runs until what is in the pool has come back. */
static void stop_loop(struct daemon *d)
{
	if (!d->has_loop)
		return;
	uv_walk(&d->loop, close_handle, NULL);
	(void)uv_run(&d->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&d->loop);
}

/* Each part may be missing when the start failed half-way.  HTTP first: it asks the others. */
static void daemon_stop(struct daemon *d)
{
	bool is_quiet;

	d->is_stopping = true;
	if (d->has_loop)
		(void)uv_signal_stop(&d->on_int);
	handle_signal(SIGINT, on_second_interrupt);
	is_quiet = http_server_stop(d->http, STOP_DEADLINE_MS);
	is_quiet = nfsd_stop(d->nfsd, STOP_DEADLINE_MS) && is_quiet;
	if (d->is_purging) /* the next start goes on with it */
		is_quiet = uv_run(&d->loop, UV_RUN_NOWAIT) >= 0 && !d->is_purging && is_quiet;
	if (!is_quiet) {
		/* A thread is still at work in what would now be taken apart. */
		log_warn(LOG_MAIN,
			 "a call did not end in time; the next start finishes what it was doing");
		_exit(d->exit_code);
	}
	stop_loop(d);
	events_shutdown();
	quota_close(d->quota);
	inode_cache_free(d->inodes);
	if (d->hints != NULL)
		inode_hints_close(d->hints);
	if (d->registry != NULL)
		ws_registry_close(d->registry);
	if (d->store != NULL)
		store_close(d->store);
	helper_stop(d->helper);
	if (d->broker != NULL)
		broker_stop(d->broker);
}

static int run(struct daemon *d)
{
	struct err err = { 0 };
	int rc = daemon_start(d, &err);

	if (rc < 0) {
		log_error(LOG_MAIN, "cannot start: %s", err.msg);
		d->exit_code = EXIT_FAILURE;
	} else {
		log_ready(d);
		notify_systemd("READY=1");
		(void)uv_run(&d->loop, UV_RUN_DEFAULT);
		notify_systemd("STOPPING=1");
	}
	daemon_stop(d);
	if (rc >= 0)
		log_always(LOG_MAIN, "stopped exit=%d", d->exit_code);
	return d->exit_code;
}

/* ---- command line ------------------------------------------------------- */

struct args {
	const char *config_file; /* borrowed from argv */
	bool help, version, check, docs;
};

static void print_help(FILE *out)
{
	(void)fputs("usage: workspaced [--config FILE] [--check-config | --help | --version]\n"
		    "\n"
		    "Serves workspaces over NFSv3 and a control API over HTTP, until SIGTERM or "
		    "SIGINT.\n"
		    "SIGUSR1 turns debug lines on and off.\n"
		    "\n"
		    "  --config FILE   read settings from FILE: lines NAME=value, '#' begins a "
		    "comment\n"
		    "  --check-config  print the settings in force, or say what is wrong with "
		    "them; then end\n"
		    "  --version       print the version and end\n"
		    "  --help          print this and end\n"
		    "\n"
		    "Settings come from the environment, which wins over the file. An empty value "
		    "is as none.\n",
		    out);
	config_print_help(out);
}

/* parse_args() - 0, or -EINVAL after a line on stderr */
static int parse_args(int argc, char **argv, struct args *a)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{ "--help", &a->help },
		{ "--version", &a->version },
		{ "--check-config", &a->check },
		{ "--print-config-docs", &a->docs }, /* for docs/configuration.md; not for users */
	};

	for (int i = 1; i < argc; i++) {
		size_t f = 0;

		while (f < ARRAY_LEN(flags) && strcmp(argv[i], flags[f].name) != 0)
			f++;
		if (f < ARRAY_LEN(flags)) {
			*flags[f].flag = true;
		} else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
			a->config_file = argv[++i];
		} else if (strncmp(argv[i], "--config=", 9) == 0) {
			a->config_file = argv[i] + 9;
		} else {
			(void)fprintf(stderr, "workspaced: %s '%s'; see workspaced --help\n",
				      strcmp(argv[i], "--config") == 0 ? "no file behind"
								       : "unknown option",
				      argv[i]);
			return -EINVAL;
		}
	}
	return 0;
}

/* Output that could not be written is a failure too: a full disk, a closed pipe. */
static int finish_stdout(void)
{
	return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int with_config(struct daemon *d, const struct args *a)
{
	struct err err = { 0 };
	int rc = load_config(d, a->config_file, &err);

	if (rc >= 0)
		rc = split_keys(d, &err);
	if (rc >= 0)
		rc = split_list(d, CFG_ALLOWED_ORIGINS, &d->origins, &err);
	if (rc >= 0)
		rc = split_list(d, CFG_ADOPT_ROOTS, &d->adopt_roots, &err);
	if (rc < 0) {
		(void)fprintf(stderr, "workspaced: %s\n", err.msg);
		return EXIT_FAILURE;
	}
	config_log_notes(d->config);
	if (a->check) {
		config_print_values(stdout, d->config);
		return finish_stdout();
	}
	return run(d);
}

int main(int argc, char **argv)
{
	static struct daemon d; /* static: the loop and its handles are large */
	struct args a = { 0 };
	int code;

	if (parse_args(argc, argv, &a) < 0)
		return EXIT_USAGE;
	if (a.help)
		print_help(stdout);
	else if (a.version)
		(void)printf("workspaced %s\n", WORKSPACED_VERSION);
	else if (a.docs)
		config_print_docs(stdout);
	if (a.help || a.version || a.docs)
		return finish_stdout();

	/* Files get the modes that clients ask for.  What is ours is made with 0600 or 0700 by
	 * name. */
	(void)umask(0);
	handle_signal(SIGPIPE, SIG_IGN);
	handle_signal(SIGUSR1, on_debug_signal);
	code = with_config(&d, &a);
	free(d.keys);
	config_list_free(&d.key_list);
	config_list_free(&d.origins);
	config_list_free(&d.adopt_roots);
	config_free(d.config);
	return code;
}
