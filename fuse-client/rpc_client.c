/* SPDX-License-Identifier: MIT */
/*
 * The client's half of ONC RPC over TCP, built so that a server may be restarted under it.
 *
 * A call is bound to one connection and stays in one of its two lists until it is answered:
 *
 *	rpc_client_send --> unsent --all bytes written--> sent --reply with its xid--> done()
 *	                      ^------- connection broke --------'
 *
 * Whatever a broken connection had not answered is sent again on its successor, in the old order
 * and with the old xids: a server with a duplicate request cache then answers a REMOVE that it has
 * done already with the reply that was lost, instead of with NOENT.  So nothing is done twice by
 * us, and nothing is given up unless the mount is soft.
 *
 * Broken means: closed, reset, not acknowledged for RX_SILENCE_NS (TCP_USER_TIMEOUT), or connected
 * and silent for that long while calls wait, which is a server that hangs or a path that swallows.
 *
 * Flushing is done once for each turn of the loop (uv_prepare), which puts the small calls of a
 * turn into one sendmsg(2).  Large replies are received straight into the record's memory.
 */
#include "fuse-client/rpc_client.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "proto/rpc_record.h"
#include "proto/wire.h"

#define RX_SILENCE_NS  (60 * NSEC_PER_SEC)
#define TX_SILENCE_MS  30000
#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 2000
#define TICK_MS        500
#define IOV_MAX_OURS   64
#define RECV_ROOM      (64u << 10) /* bytes: small replies of one turn; large ones bypass it */
#define RECV_TURN      (4u << 20) /* bytes taken from one connection before others have their turn */

enum conn_state { CONN_WAITING, CONN_RESOLVING, CONN_CONNECTING, CONN_UP };

/* A socket and its watcher: apart from the connection, since libuv gives a handle back late. */
struct rpc_socket {
	uv_poll_t poll;
	int fd;
	struct rpc_client *client;
	struct rpc_conn *conn; /* NULL once given up */
};

struct rpc_conn {
	struct rpc_client *client;
	enum conn_state state;
	struct rpc_socket *socket; /* owned while CONNECTING or UP */
	uv_timer_t backoff;
	uv_getaddrinfo_t resolve;
	unsigned n_failures; /* attempts since the last success */
	unsigned n_addrs;    /* of the last resolution */
	struct list unsent, sent;
	size_t send_off; /* bytes of the first unsent call that have left */
	size_t n_calls;  /* in both lists */
	struct rpc_record record;
	uint64_t last_rx_ns;
	bool wants_write;
};

struct rpc_client {
	uv_loop_t *loop;
	char *host;
	char port[8];
	struct rpc_conn conn[RPC_CLIENT_CONNS_MAX];
	unsigned n_conns;
	unsigned n_handles; /* not yet closed; the last one frees us */
	bool is_impatient, is_closing;
	uint64_t timeout_ns;
	uint32_t next_xid;
	struct map calls; /* by xid */
	uv_prepare_t flush;
	uv_timer_t tick;
	struct rpc_client_stats stats;
	char last_error[160];
	uint8_t recv_buf[RECV_ROOM];
};

static void conn_begin(struct rpc_conn *cn);
static void conn_break(struct rpc_conn *cn, int err, const char *doing);

/* ---- calls -------------------------------------------------------------- */

static void call_end(struct rpc_client *c, struct rpc_call *call, int err, const uint8_t *body,
		     size_t len)
{
	list_del(&call->link);
	map_remove(&c->calls, &call->node);
	call->conn->n_calls--;
	call->done(call, err, body, len);
}

static struct rpc_call *call_by_xid(struct rpc_client *c, uint32_t xid)
{
	struct map_node *n = map_first(&c->calls, map_hash_u64(xid));

	for (; n != NULL; n = map_next(n)) {
		struct rpc_call *call = container_of(n, struct rpc_call, node);

		if (call->xid == xid)
			return call;
	}
	return NULL;
}

/* Every call of one list, each of which may send others from its done(): those wait elsewhere. */
static void fail_list(struct rpc_client *c, struct list *calls, int err)
{
	struct list taken;

	list_init(&taken);
	while (!list_is_empty(calls)) {
		struct list *l = calls->next;

		list_del(l);
		list_add_tail(&taken, l);
	}
	while (!list_is_empty(&taken))
		call_end(c, list_entry(taken.next, struct rpc_call, link), err, NULL, 0);
}

static void fail_all(struct rpc_client *c, int err)
{
	for (unsigned i = 0; i < c->n_conns; i++) {
		c->conn[i].send_off = 0;
		fail_list(c, &c->conn[i].sent, err);
		fail_list(c, &c->conn[i].unsent, err);
	}
}

uint32_t rpc_client_next_xid(struct rpc_client *c)
{
	return c->next_xid++;
}

/* A connection that stands before one that does not, and of those the one with the least to do. */
static struct rpc_conn *choose(struct rpc_client *c)
{
	struct rpc_conn *best = &c->conn[0];

	for (unsigned i = 1; i < c->n_conns; i++) {
		struct rpc_conn *cn = &c->conn[i];
		bool up = cn->state == CONN_UP, best_up = best->state == CONN_UP;

		if (up != best_up ? up : cn->n_calls < best->n_calls)
			best = cn;
	}
	return best;
}

void rpc_client_send(struct rpc_client *c, struct rpc_call *call, uint32_t xid)
{
	struct rpc_conn *cn = choose(c);
	size_t len = call->head_len - RPC_CALL_MARK + wire_padded(call->payload_len);

	call->xid = xid;
	call->conn = cn;
	call->start_ns = clock_mono_ns();
	rpc_record_mark(call->head, (uint32_t)len);
	/* Cannot fail: the table was made with buckets, and a map that cannot grow chains. */
	(void)map_insert(&c->calls, &call->node, map_hash_u64(xid));
	list_add_tail(&cn->unsent, &call->link);
	cn->n_calls++;
	c->stats.n_calls++;
}

/* ---- sending ------------------------------------------------------------ */

static size_t call_bytes(const struct rpc_call *call)
{
	return call->head_len + wire_padded(call->payload_len);
}

/* The parts of one call from its byte @skip on; returns how many of @iov were used, at most 3. */
static unsigned call_parts(const struct rpc_call *call, size_t skip, struct iovec *iov)
{
	static const uint8_t zeros[4];
	const struct iovec parts[] = {
		{ .iov_base = call->head, .iov_len = call->head_len },
		{ .iov_base = (void *)(uintptr_t)call->payload, .iov_len = call->payload_len },
		{ .iov_base = (void *)(uintptr_t)zeros,
		  .iov_len = wire_padded(call->payload_len) - call->payload_len },
	};
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		size_t cut = MIN(skip, parts[i].iov_len);

		skip -= cut;
		if (parts[i].iov_len == cut)
			continue;
		iov[n].iov_base = (uint8_t *)parts[i].iov_base + cut;
		iov[n++].iov_len = parts[i].iov_len - cut;
	}
	return n;
}

static void sent_bytes(struct rpc_conn *cn, size_t n)
{
	cn->client->stats.bytes_sent += n;
	cn->send_off += n;
	while (!list_is_empty(&cn->unsent)) {
		struct rpc_call *call = list_entry(cn->unsent.next, struct rpc_call, link);

		if (cn->send_off < call_bytes(call))
			break;
		cn->send_off -= call_bytes(call);
		list_del(&call->link);
		list_add_tail(&cn->sent, &call->link);
	}
}

static void watch(struct rpc_conn *cn, bool write);

static void conn_flush(struct rpc_conn *cn)
{
	while (cn->state == CONN_UP && !list_is_empty(&cn->unsent)) {
		struct iovec iov[IOV_MAX_OURS];
		struct msghdr msg = { .msg_iov = iov };
		size_t skip = cn->send_off;
		struct list *l;
		ssize_t n;

		list_for_each (l, &cn->unsent) {
			if (msg.msg_iovlen + 3 > IOV_MAX_OURS)
				break;
			msg.msg_iovlen += call_parts(list_entry(l, struct rpc_call, link), skip,
						     iov + msg.msg_iovlen);
			skip = 0;
		}
		n = sendmsg(cn->socket->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			watch(cn, true);
			return;
		}
		if (n < 0) {
			conn_break(cn, -errno, "send");
			return;
		}
		sent_bytes(cn, (size_t)n);
	}
	if (cn->state == CONN_UP)
		watch(cn, false);
}

static void on_flush(uv_prepare_t *h)
{
	struct rpc_client *c = h->data;

	for (unsigned i = 0; i < c->n_conns; i++) {
		if (!c->conn[i].wants_write)
			conn_flush(&c->conn[i]);
	}
}

/* ---- receiving ---------------------------------------------------------- */

enum { MSG_REPLY = 1, REPLY_ACCEPTED = 0 };

/* From a reply's words to an errno; *ret_skip is the length of a good reply's header. */
static int reply_error(const uint8_t *p, size_t n, size_t *ret_skip)
{
	size_t verf_len;

	if (n < 12)
		return -EPROTO;
	if (wire_get32(p + 8) != REPLY_ACCEPTED)
		return -EACCES;
	if (n < 24)
		return -EPROTO;
	verf_len = wire_get32(p + 16);
	if (verf_len > RPC_CRED_MAX || wire_padded(verf_len) > n - 24)
		return -EPROTO;
	*ret_skip = 24 + wire_padded(verf_len);
	return wire_get32(p + 20 + wire_padded(verf_len)) == RPC_ACCEPT_OK ? 0 : -EPROTO;
}

/* False when the bytes are no reply at all: this is not an RPC server, or we have lost the thread.
 */
static bool take_reply(struct rpc_client *c, const uint8_t *p, size_t n)
{
	struct rpc_call *call;
	size_t skip = 0;
	int err;

	if (n < 8 || wire_get32(p + 4) != MSG_REPLY)
		return false;
	call = call_by_xid(c, wire_get32(p));
	if (call == NULL)
		return true; /* timed out meanwhile */
	err = reply_error(p, n, &skip);
	if (call->conn->send_off > 0 && call->conn->unsent.next == &call->link)
		return false; /* answered before it was asked */
	call_end(c, call, err, err < 0 ? NULL : p + skip, err < 0 ? 0 : n - skip);
	return true;
}

/* Small records: as many as @n bytes hold.  False when the stream is not to be trusted. */
static bool take_bytes(struct rpc_conn *cn, const uint8_t *p, size_t n)
{
	while (n > 0) {
		const uint8_t *rec;
		size_t used, len;
		int rc = rpc_record_next(&cn->record, p, n, &used, &rec, &len);

		if (rc < 0)
			return false;
		p += used;
		n -= used;
		if (rc == RPC_RECORD_READY && !take_reply(cn->client, rec, len))
			return false;
	}
	return true;
}

/* One recv(2), into the record that is under way if there is one.  Bytes, 0 at the end, -errno. */
static ssize_t receive_once(struct rpc_conn *cn)
{
	struct rpc_client *c = cn->client;
	size_t room = sizeof(c->recv_buf), len;
	uint8_t *direct = rpc_record_want(&cn->record, &room);
	const uint8_t *rec;
	ssize_t n;

	if (direct == NULL)
		room = sizeof(c->recv_buf);
	n = recv(cn->socket->fd, direct != NULL ? direct : c->recv_buf, room, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	c->stats.bytes_received += (uint64_t)n;
	if (direct == NULL)
		return take_bytes(cn, c->recv_buf, (size_t)n) ? n : -EPROTO;
	switch (rpc_record_filled(&cn->record, (size_t)n, &rec, &len)) {
	case RPC_RECORD_NONE:
		return n;
	case RPC_RECORD_READY:
		return take_reply(c, rec, len) ? n : -EPROTO;
	default:
		return -EPROTO;
	}
}

static void conn_receive(struct rpc_conn *cn)
{
	size_t total = 0;

	cn->last_rx_ns = clock_mono_ns();
	while (cn->state == CONN_UP && total < RECV_TURN) {
		ssize_t n = receive_once(cn);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			conn_break(cn, n == 0 ? -ECONNRESET : (int)n, "receive");
			return;
		}
		total += (size_t)n;
	}
}

/* ---- the life of a connection ------------------------------------------- */

static void client_free(struct rpc_client *c)
{
	map_fini(&c->calls);
	free(c->host);
	free(c);
}

static void handle_closed(struct rpc_client *c)
{
	if (--c->n_handles == 0)
		client_free(c);
}

static void on_handle_closed(uv_handle_t *h)
{
	handle_closed(h->data);
}

static void on_socket_closed(uv_handle_t *h)
{
	struct rpc_socket *s = container_of(h, struct rpc_socket, poll);
	struct rpc_client *c = s->client;

	(void)close(s->fd);
	free(s);
	handle_closed(c);
}

static void socket_give_up(struct rpc_conn *cn)
{
	if (cn->socket == NULL)
		return;
	cn->socket->conn = NULL;
	uv_close((uv_handle_t *)&cn->socket->poll, on_socket_closed);
	cn->socket = NULL;
	cn->wants_write = false;
}

static void on_backoff(uv_timer_t *t)
{
	conn_begin(container_of(t, struct rpc_conn, backoff));
}

static uint64_t backoff_ms(const struct rpc_conn *cn)
{
	unsigned rounds = cn->n_failures / MAX(cn->n_addrs, 1u);
	uint64_t ms = BACKOFF_MIN_MS << MIN(rounds, 6u);

	/* The next address of a round that has just begun costs nothing to try. */
	return rounds == 0 ? 0 : MIN(ms, (uint64_t)BACKOFF_MAX_MS);
}

/* What was sent and not answered goes before what was not sent, in its old order. */
static void requeue(struct rpc_conn *cn)
{
	while (!list_is_empty(&cn->sent)) {
		struct list *l = cn->sent.prev;

		list_del(l);
		list_add_head(&cn->unsent, l);
		cn->client->stats.n_resent++;
	}
	cn->send_off = 0;
	rpc_record_reset(&cn->record);
}

static void conn_break(struct rpc_conn *cn, int err, const char *doing)
{
	struct rpc_client *c = cn->client;
	bool was_up = cn->state == CONN_UP;

	if (c->is_closing)
		return;
	(void)snprintf(c->last_error, sizeof(c->last_error), "%s:%s: %s: %s", c->host, c->port,
		       doing, strerror(-err));
	if (was_up)
		log_warn(LOG_NFS, "connection lost server=%s:%s error=\"%s: %s\"", c->host, c->port,
			 doing, strerror(-err));
	socket_give_up(cn);
	requeue(cn);
	cn->state = CONN_WAITING;
	cn->n_failures = was_up ? 0 : cn->n_failures + 1;
	if (c->is_impatient && (was_up || cn->n_failures >= MAX(cn->n_addrs, 1u)))
		fail_all(c, err);
	if (!c->is_closing)
		uv_timer_start(&cn->backoff, on_backoff, backoff_ms(cn), 0);
}

static void conn_up(struct rpc_conn *cn)
{
	struct rpc_client *c = cn->client;

	if (cn->n_failures > 0 || c->stats.n_connects >= c->n_conns)
		log_info(LOG_NFS, "connected server=%s:%s", c->host, c->port);
	cn->state = CONN_UP;
	cn->n_failures = 0;
	cn->last_rx_ns = clock_mono_ns();
	c->stats.n_connects++;
	cn->wants_write = true; /* so that watch() changes what connect(2) waited for */
	watch(cn, false);
	conn_flush(cn);
}

static void conn_finish_connect(struct rpc_conn *cn)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(cn->socket->fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	if (err != 0)
		conn_break(cn, -err, "connect");
	else
		conn_up(cn);
}

static void on_socket(uv_poll_t *h, int status, int events)
{
	struct rpc_conn *cn = container_of(h, struct rpc_socket, poll)->conn;

	if (cn == NULL)
		return;
	if (cn->state == CONN_CONNECTING) {
		conn_finish_connect(cn);
		return;
	}
	if (status < 0) {
		conn_break(cn, status, "poll");
		return;
	}
	if (events & UV_READABLE)
		conn_receive(cn);
	if ((events & UV_WRITABLE) && cn->state == CONN_UP)
		conn_flush(cn);
}

static void watch(struct rpc_conn *cn, bool write)
{
	if (cn->wants_write == write)
		return;
	cn->wants_write = write;
	(void)uv_poll_start(&cn->socket->poll, UV_READABLE | (write ? UV_WRITABLE : 0), on_socket);
}

static void set_socket_options(int fd)
{
	const int on = 1, silence = TX_SILENCE_MS;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof(silence));
}

/* 0 and *ret_in_progress, or -errno; the watcher owns the descriptor from then on. */
static int socket_open(struct rpc_conn *cn, const struct addrinfo *ai)
{
	auto_close int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct rpc_socket *s;

	if (fd < 0)
		return -errno;
	set_socket_options(fd);
	if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0 && errno != EINPROGRESS)
		return -errno;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	if (uv_poll_init(cn->client->loop, &s->poll, fd) < 0) {
		free(s);
		return -EIO;
	}
	s->fd = take_fd(&fd);
	s->conn = cn;
	s->client = cn->client;
	cn->client->n_handles++;
	cn->socket = s;
	cn->state = CONN_CONNECTING;
	(void)uv_poll_start(&s->poll, UV_WRITABLE, on_socket);
	return 0;
}

/* The address that is this attempt's turn; a list that is empty has none. */
static const struct addrinfo *pick_address(struct rpc_conn *cn, const struct addrinfo *list)
{
	unsigned pick;

	cn->n_addrs = 0;
	for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next)
		cn->n_addrs++;
	pick = cn->n_failures % MAX(cn->n_addrs, 1u);
	while (pick-- > 0)
		list = list->ai_next;
	return list;
}

static void on_resolved(uv_getaddrinfo_t *rq, int status, struct addrinfo *res)
{
	struct rpc_conn *cn = container_of(rq, struct rpc_conn, resolve);
	struct rpc_client *c = cn->client;
	const struct addrinfo *ai;
	int rc;

	if (c->is_closing) {
		uv_freeaddrinfo(res);
		handle_closed(c);
		return;
	}
	handle_closed(c);
	ai = pick_address(cn, status < 0 ? NULL : res);
	rc = ai != NULL ? socket_open(cn, ai) : -EHOSTUNREACH;
	uv_freeaddrinfo(res);
	if (rc < 0)
		conn_break(cn, rc, ai != NULL ? "connect" : "resolve");
}

static void conn_begin(struct rpc_conn *cn)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	struct rpc_client *c = cn->client;

	cn->state = CONN_RESOLVING;
	/* The request counts as a handle: it must not outlive us. */
	c->n_handles++;
	if (uv_getaddrinfo(c->loop, &cn->resolve, on_resolved, c->host, c->port, &hints) < 0) {
		c->n_handles--;
		conn_break(cn, -ENOMEM, "resolve");
	}
}

/* ---- time --------------------------------------------------------------- */

static void expire_list(struct rpc_client *c, struct list *calls, uint64_t now_ns)
{
	struct list *l, *tmp, old;

	list_init(&old);
	list_for_each_safe (l, tmp, calls) {
		if (now_ns - list_entry(l, struct rpc_call, link)->start_ns < c->timeout_ns)
			continue;
		list_del(l);
		list_add_tail(&old, l);
	}
	fail_list(c, &old, -ETIMEDOUT);
}

static void expire(struct rpc_conn *cn, uint64_t now_ns)
{
	/* A call of which a part has left cannot be taken out of the stream. */
	if (cn->send_off > 0 && !list_is_empty(&cn->unsent) &&
	    now_ns - list_entry(cn->unsent.next, struct rpc_call, link)->start_ns >=
		    cn->client->timeout_ns)
		conn_break(cn, -ETIMEDOUT, "send");
	expire_list(cn->client, &cn->sent, now_ns);
	expire_list(cn->client, &cn->unsent, now_ns);
}

static bool is_silent(const struct rpc_conn *cn, uint64_t now_ns)
{
	uint64_t since;

	if (cn->state != CONN_UP || list_is_empty(&cn->sent))
		return false;
	since = MAX(cn->last_rx_ns, list_entry(cn->sent.next, struct rpc_call, link)->start_ns);
	return now_ns > since + RX_SILENCE_NS;
}

static void on_tick(uv_timer_t *t)
{
	struct rpc_client *c = t->data;
	uint64_t now_ns = clock_mono_ns();

	for (unsigned i = 0; i < c->n_conns && !c->is_closing; i++) {
		if (is_silent(&c->conn[i], now_ns))
			conn_break(&c->conn[i], -ETIMEDOUT, "wait for a reply");
		if (c->timeout_ns > 0)
			expire(&c->conn[i], now_ns);
	}
}

/* ---- the whole ---------------------------------------------------------- */

static void conn_init(struct rpc_client *c, struct rpc_conn *cn)
{
	cn->client = c;
	list_init(&cn->unsent);
	list_init(&cn->sent);
	uv_timer_init(c->loop, &cn->backoff);
	cn->backoff.data = c;
	c->n_handles++;
	conn_begin(cn);
}

int rpc_client_new(uv_loop_t *loop, const struct rpc_client_options *o, struct rpc_client **ret)
{
	struct rpc_client *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	c->host = strdup(o->host);
	if (c->host == NULL || map_init(&c->calls, 64) < 0) {
		free(c->host);
		free(c);
		return -ENOMEM;
	}
	(void)snprintf(c->port, sizeof(c->port), "%u", o->port);
	c->loop = loop;
	c->n_conns = MIN(MAX(o->n_conns, 1u), (unsigned)RPC_CLIENT_CONNS_MAX);
	c->is_impatient = true;
	c->timeout_ns = o->timeout_ms * NSEC_PER_MS;
	/* Random, so that a client started anew does not meet the replies to its predecessor. */
	io_random(&c->next_xid, sizeof(c->next_xid));
	uv_prepare_init(loop, &c->flush);
	uv_timer_init(loop, &c->tick);
	c->flush.data = c->tick.data = c;
	c->n_handles = 2;
	uv_prepare_start(&c->flush, on_flush);
	uv_timer_start(&c->tick, on_tick, TICK_MS, TICK_MS);
	for (unsigned i = 0; i < c->n_conns; i++)
		conn_init(c, &c->conn[i]);
	*ret = c;
	return 0;
}

void rpc_client_be_patient(struct rpc_client *c, uint64_t timeout_ms)
{
	c->is_impatient = false;
	c->timeout_ns = timeout_ms * NSEC_PER_MS;
}

bool rpc_client_is_up(const struct rpc_client *c)
{
	for (unsigned i = 0; i < c->n_conns; i++) {
		if (c->conn[i].state == CONN_UP)
			return true;
	}
	return false;
}

const char *rpc_client_last_error(const struct rpc_client *c)
{
	return c->last_error;
}

void rpc_client_stats(const struct rpc_client *c, struct rpc_client_stats *ret)
{
	*ret = c->stats;
	ret->n_conns = c->n_conns;
	ret->n_up = 0;
	ret->n_pending = c->calls.n_nodes;
	for (unsigned i = 0; i < c->n_conns; i++)
		ret->n_up += c->conn[i].state == CONN_UP;
}

void rpc_client_close(struct rpc_client *c)
{
	if (c == NULL || c->is_closing)
		return;
	c->is_closing = true;
	for (unsigned i = 0; i < c->n_conns; i++) {
		struct rpc_conn *cn = &c->conn[i];

		socket_give_up(cn);
		rpc_record_reset(&cn->record);
		cn->state = CONN_WAITING;
	}
	fail_all(c, -ESHUTDOWN);
	for (unsigned i = 0; i < c->n_conns; i++)
		uv_close((uv_handle_t *)&c->conn[i].backoff, on_handle_closed);
	uv_close((uv_handle_t *)&c->flush, on_handle_closed);
	uv_close((uv_handle_t *)&c->tick, on_handle_closed);
}
