/* SPDX-License-Identifier: MIT */
/*
 * See http_server.h.  Sockets are watched with uv_poll_t and read and written with calls of our
 * own: one recv(2) into a buffer shared by all connections, one send(2) for all answers of a turn.
 */
#include "http/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/http_conn.h"
#include "http/http_core.h"
#include "http/http_listen.h"

#define ACCEPT_BATCH   64 /* connections taken before others get their turn */
#define LISTEN_BACKLOG 511
#define SLOW_MAX       2 /* pool threads that removals of workspaces may hold; libuv's pool has four */
#define TICK_MS_MAX    1000 /* how late a deadline may be noticed */
#define TICK_MS_MIN    10

#define LISTENERS_MAX 2 /* TCP, and a Unix socket if wanted */

struct listener {
	struct http_server *server;
	uv_poll_t poll;
	int fd; /* owned */
};

struct http_server {
	struct http_core core;
	struct http_server_options options; /* a copy: its pointers are borrowed */
	uv_loop_t *loop;
	struct listener listeners[LISTENERS_MAX];
	unsigned n_listeners;
	bool is_accepting;
	uint16_t port;
	uv_timer_t tick;
	unsigned open_handles; /* listeners and tick */
	struct list sockets;
	unsigned n_conns;
	uint64_t n_accepted;
	uint64_t paused_ns; /* clock_mono_ns() of the last line that said so */
	unsigned n_pool;    /* requests given to the pool or waiting for it */
	unsigned n_slow;    /* of those with R_SLOW, how many run */
	struct list slow_queue;
	char read_buf[HTTP_READ_SIZE];
};

struct http_socket {
	struct http_conn conn;
	struct http_server *server;
	uv_poll_t poll;
	int fd; /* owned */
	struct list link;
};

static void watch_listener(struct http_server *s);

/* ---- the pool ----------------------------------------------------------- */

static void on_work(uv_work_t *w)
{
	http_conn_pool_run(container_of(w, struct http_request, work));
}

static void on_work_done(uv_work_t *w, int status);

static void start_work(struct http_server *s, struct http_request *req)
{
	s->n_slow += req->is_slow;
	(void)uv_queue_work(s->loop, &req->work, on_work,
			    on_work_done); /* fails only without a function */
}

static void on_work_done(uv_work_t *w, int status)
{
	struct http_request *req = container_of(w, struct http_request, work);
	struct http_server *s = container_of(req->core, struct http_server, core);

	(void)status; /* nothing is ever cancelled */
	s->n_pool--;
	s->n_slow -= req->is_slow;
	http_conn_handler_done(&s->core, req);
	if (s->n_slow < SLOW_MAX && !list_is_empty(&s->slow_queue)) {
		req = list_entry(s->slow_queue.next, struct http_request, link);
		list_del(&req->link);
		start_work(s, req);
	}
}

static bool run_in_pool(struct http_core *core, struct http_request *req)
{
	struct http_server *s = container_of(core, struct http_server, core);

	/* Clients that went away leave requests behind: these must not pile up. */
	if (s->n_pool >= 2 * core->limits.max_conns)
		return false;
	s->n_pool++;
	req->is_slow = req->step_run == NULL && req->is_slow;
	if (req->is_slow && s->n_slow == SLOW_MAX)
		list_add_tail(&s->slow_queue, &req->link);
	else
		start_work(s, req);
	return true;
}

/* ---- one socket --------------------------------------------------------- */

static struct http_socket *socket_of(struct http_conn *c)
{
	return container_of(c, struct http_socket, conn);
}

static ssize_t socket_send(struct http_conn *c, const void *p, size_t n)
{
	ssize_t sent;

	do
		sent = send(socket_of(c)->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent >= 0 ? sent : errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

/* ---- files -------------------------------------------------------------- */

#define SLICE_BYTES (8u << 20) /* of a file that one turn in the pool sends at most */
#define SLICE_WAIT_MS                                                                              \
	1 /* a reader that keeps up takes more within it; a slow one is left to the loop */

/* send_slice() - some of the file, by sendfile(2): cold blocks are waited for here and not on the
 * loop */
static void send_slice(struct http_request *req)
{
	off_t off = (off_t)req->res.file_off;
	size_t want = (size_t)MIN(req->res.file_left, SLICE_BYTES), done = 0;
	struct pollfd p = { .fd = req->file_sock, .events = POLLOUT };
	ssize_t result = 0;

	while (done < want) {
		ssize_t n = sendfile(req->file_sock, req->res.file_fd, &off, want - done);

		result = n < 0 ? -errno : n;
		if (n > 0)
			done += (size_t)n;
		else if (result != -EAGAIN || poll(&p, 1, SLICE_WAIT_MS) <= 0)
			break;
	}
	req->file_result = done > 0 ? (ssize_t)done : result;
	(void)close(req->file_sock);
}

static void on_slice_sent(struct http_request *req)
{
	http_conn_file_sent(req, req->file_result);
}

/* The descriptor is doubled, since the connection may be closed while the pool sends. */
static ssize_t socket_send_file(struct http_conn *c, struct http_request *req)
{
	req->file_sock = fcntl(socket_of(c)->fd, F_DUPFD_CLOEXEC, 0);
	if (req->file_sock < 0)
		return -errno;
	if (http_conn_begin_step(req, send_slice, on_slice_sent))
		return -EINPROGRESS;
	(void)close(req->file_sock);
	return -EAGAIN;
}

static void on_socket_ready(uv_poll_t *poll, int status, int events)
{
	struct http_socket *k = poll->data;
	struct http_server *s = k->server;

	if (status < 0) {
		http_conn_abort(&k->conn);
		return;
	}
	if (events & UV_WRITABLE)
		http_conn_writable(&k->conn);
	if (events & UV_READABLE && k->conn.state != CONN_CLOSED) {
		ssize_t n = recv(k->fd, s->read_buf, sizeof(s->read_buf), MSG_DONTWAIT);

		if (n > 0)
			http_conn_feed(&k->conn, s->read_buf, (size_t)n);
		else if (n == 0)
			http_conn_eof(&k->conn);
		else if (errno != EAGAIN && errno != EINTR)
			http_conn_abort(&k->conn);
	}
}

static void socket_watch(struct http_conn *c, bool readable, bool writable)
{
	struct http_socket *k = socket_of(c);
	int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);

	if (events != 0)
		(void)uv_poll_start(&k->poll, events, on_socket_ready);
	else
		(void)uv_poll_stop(&k->poll);
}

static void socket_shutdown(struct http_conn *c)
{
	(void)shutdown(socket_of(c)->fd, SHUT_WR);
}

static void on_socket_closed(uv_handle_t *h)
{
	struct http_socket *k = h->data;
	struct http_server *s = k->server;

	http_conn_fini(&k->conn);
	list_del(&k->link);
	free(k);
	s->n_conns--;
	http_stats_conns(s->core.stats, s->n_conns, s->n_accepted);
	watch_listener(s);
}

static void socket_close(struct http_conn *c)
{
	struct http_socket *k = socket_of(c);

	uv_close((uv_handle_t *)&k->poll, on_socket_closed); /* takes it out of epoll at once */
	/* A transfer in the pool holds the socket open: it has to end all the same. */
	(void)shutdown(k->fd, SHUT_RDWR);
	(void)close(take_fd(&k->fd));
}

static const struct http_conn_ops socket_ops = {
	.send = socket_send,
	.watch = socket_watch,
	.shutdown = socket_shutdown,
	.send_file = socket_send_file,
	.close = socket_close,
};

/* ---- accepting ---------------------------------------------------------- */

/* add_socket() - takes @fd */
static void add_socket(struct http_server *s, int fd, const struct sockaddr_storage *sa)
{
	struct http_socket *k = calloc(1, sizeof(*k));
	struct http_peer peer;
	int one = 1;

	if (k == NULL || uv_poll_init(s->loop, &k->poll, fd) < 0) {
		free(k);
		(void)close(fd);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	k->server = s;
	k->fd = fd;
	k->poll.data = k;
	list_add_tail(&s->sockets, &k->link);
	s->n_conns++;
	s->n_accepted++;
	http_stats_conns(s->core.stats, s->n_conns, s->n_accepted);
	http_listen_peer(&s->options, fd, sa, &peer);
	http_conn_init(&k->conn, &s->core, &socket_ops, &peer);
}

static void run_tick(struct http_server *s);

static void stop_listeners(struct http_server *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++)
		(void)uv_poll_stop(&s->listeners[i].poll);
	s->is_accepting = false;
}

/* Tried again by the tick, or when a connection of ours ends: the descriptors may be used by
 * others. */
static void pause_accepting(struct http_server *s, int why)
{
	uint64_t now_ns = clock_mono_ns();

	if (s->paused_ns == 0 || now_ns - s->paused_ns >= NSEC_PER_SEC) { /* not a line for each */
		log_warn(LOG_HTTP, "accepting pauses reason=%s connections=%u", strerror(why),
			 s->n_conns);
		s->paused_ns = now_ns;
	}
	stop_listeners(s);
	run_tick(s);
}

static bool is_out_of_resources(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_listener_ready(uv_poll_t *poll, int status, int events)
{
	const struct listener *l = poll->data;
	struct http_server *s = l->server;

	(void)events;
	for (int i = 0; status == 0 && i < ACCEPT_BATCH && s->n_conns < s->core.limits.max_conns;
	     i++) {
		struct sockaddr_storage sa;
		socklen_t len = sizeof(sa);
		int fd = accept4(l->fd, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			add_socket(s, fd, &sa);
			continue;
		}
		if (is_out_of_resources(errno)) {
			pause_accepting(s, errno);
			return;
		}
		if (errno != EINTR && errno != ECONNABORTED)
			break;
	}
	watch_listener(s);
}

static void on_tick(uv_timer_t *t)
{
	struct http_server *s = t->data;

	http_core_tick(&s->core, clock_mono_ns());
	if (!s->core.is_stopping && !s->is_accepting)
		watch_listener(s);
	if (s->n_conns == 0 && s->is_accepting)
		(void)uv_timer_stop(t);
}

static unsigned tick_ms(const struct http_limits *l)
{
	unsigned shortest = MIN(MIN(l->header_ms, l->body_ms), MIN(l->idle_ms, l->write_ms));

	return MAX(MIN(shortest / 4, TICK_MS_MAX), TICK_MS_MIN);
}

static void run_tick(struct http_server *s)
{
	unsigned ms = tick_ms(&s->core.limits);

	if (!uv_is_active((uv_handle_t *)&s->tick))
		(void)uv_timer_start(&s->tick, on_tick, ms, ms);
}

/* watch_listener() - accept while there is room; the tick runs while there is something to expire
 */
static void watch_listener(struct http_server *s)
{
	bool wants = !s->core.is_stopping && s->n_conns < s->core.limits.max_conns;

	if (s->core.is_stopping)
		return;
	if (wants != s->is_accepting) {
		if (!wants)
			stop_listeners(s);
		for (unsigned i = 0; wants && i < s->n_listeners; i++)
			(void)uv_poll_start(&s->listeners[i].poll, UV_READABLE, on_listener_ready);
		s->is_accepting = wants;
	}
	if (s->n_conns > 0 || !wants)
		run_tick(s);
}

/* ---- start and stop ----------------------------------------------------- */

/* add_listener() - takes @fd, which may be a negative errno */
static int add_listener(struct http_server *s, int fd, struct err *err)
{
	struct listener *l = &s->listeners[s->n_listeners];
	int rc;

	if (fd < 0)
		return fd;
	rc = uv_poll_init(s->loop, &l->poll, fd);
	if (rc < 0) {
		(void)close(fd);
		return err_set(err, rc, "http: %s", uv_strerror(rc));
	}
	l->poll.data = l;
	l->server = s;
	l->fd = fd;
	s->n_listeners++;
	s->open_handles++;
	return 0;
}

static int open_listeners(struct http_server *s, struct err *err)
{
	const struct http_server_options *o = &s->options;
	int rc = add_listener(
		s, http_listen_tcp(o->host != NULL ? o->host : "127.0.0.1", o->port, &s->port, err),
		err);

	if (rc == 0 && o->socket_path != NULL)
		rc = add_listener(s, http_listen_unix(o->socket_path, err), err);
	return rc;
}

static void on_handle_closed(uv_handle_t *h);

static void close_listeners(struct http_server *s)
{
	for (unsigned i = 0; i < s->n_listeners; i++) {
		uv_close((uv_handle_t *)&s->listeners[i].poll, on_handle_closed);
		(void)close(take_fd(&s->listeners[i].fd));
	}
	if (s->options.socket_path != NULL && s->n_listeners == LISTENERS_MAX)
		(void)unlink(s->options.socket_path);
}

int http_server_start(uv_loop_t *loop, const struct http_server_options *o,
		      struct http_server **ret, struct err *err)
{
	struct http_server *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL)
		return err_set(err, -ENOMEM, "http: out of memory");
	s->loop = loop;
	s->options = *o;
	list_init(&s->sockets);
	list_init(&s->slow_queue);
	rc = http_core_init(&s->core, &s->options, &http_routes, err);
	if (rc < 0) {
		free(s);
		return rc;
	}
	s->core.run_in_pool = run_in_pool;
	s->core.loop = loop;
	(void)uv_timer_init(loop, &s->tick);
	s->tick.data = s;
	s->open_handles = 1;
	rc = open_listeners(s, err);
	if (rc < 0) {
		(void)http_server_stop(s, 0);
		return rc;
	}
	watch_listener(s);
	*ret = s;
	return 0;
}

uint16_t http_server_port(const struct http_server *s)
{
	return s->port;
}

/* Of a listener or the tick. */
static void on_handle_closed(uv_handle_t *h)
{
	struct http_server *s =
		h->type == UV_TIMER ? h->data : ((struct listener *)h->data)->server;

	s->open_handles--;
}

static void each_socket(struct http_server *s, void (*fn)(struct http_conn *c))
{
	struct list *pos, *tmp;

	/* fn() may close the connection; its memory is freed later, from the loop */
	list_for_each_safe (pos, tmp, &s->sockets) {
		struct http_socket *k = list_entry(pos, struct http_socket, link);

		if (k->conn.state != CONN_CLOSED)
			fn(&k->conn);
	}
}

bool http_server_stop(struct http_server *s, unsigned deadline_ms)
{
	uint64_t begin = clock_mono_ns();

	if (s == NULL)
		return true;
	s->core.is_stopping = true;
	close_listeners(s);
	(void)uv_timer_start(&s->tick, on_tick, TICK_MS_MIN,
			     TICK_MS_MIN); /* also wakes us for the deadline */
	s->is_accepting = false;
	each_socket(s, http_conn_drain);
	while (s->n_conns + s->n_pool > 0 && clock_mono_ns() - begin < deadline_ms * NSEC_PER_MS)
		(void)uv_run(s->loop, UV_RUN_ONCE);
	each_socket(s, http_conn_abort);
	while (s->n_conns > 0)
		(void)uv_run(s->loop, UV_RUN_ONCE);
	if (s->n_pool > 0) {
		log_warn(LOG_HTTP, "stopped while requests still run requests=%u", s->n_pool);
		return false;
	}
	uv_close((uv_handle_t *)&s->tick, on_handle_closed);
	while (s->open_handles > 0)
		(void)uv_run(s->loop, UV_RUN_ONCE);
	http_core_fini(&s->core);
	free(s);
	return true;
}
