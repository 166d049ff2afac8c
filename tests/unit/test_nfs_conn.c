/* SPDX-License-Identifier: MIT */
/* The transport through real sockets: a server with fake procedures, and clients that behave badly.
 */
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "nfs_fake.h"
#include "nfsd/nfs_server.h"

#define DEADLINE_MS 20000

/* ---- the server, with a control loop of its own ------------------------- */

struct server {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	struct nfsd_options o;
	struct nfsd *d;
	uv_async_t stop;
	unsigned stop_deadline_ms;
	bool is_up;
};

static const uint8_t handle_key[32];

static void on_stop(uv_async_t *a)
{
	struct server *s = a->data;

	nfsd_stop(s->d, s->stop_deadline_ms);
	uv_close((uv_handle_t *)a, NULL);
}

static void *server_main(void *arg)
{
	struct server *s = arg;
	struct err err = { 0 };
	uv_loop_t loop;

	uv_loop_init(&loop);
	uv_async_init(&loop, &s->stop, on_stop);
	s->stop.data = s;
	if (nfsd_start_with(&loop, &s->o, &fake_programs, &s->d, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		abort();
	}
	pthread_mutex_lock(&s->mutex);
	s->is_up = true;
	pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->mutex);
	uv_run(&loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&loop) != 0)
		abort();
	return NULL;
}

static void start_with(struct server *s, struct nfsd_options o)
{
	fake_reset();
	*s = (struct server){ .o = o, .stop_deadline_ms = DEADLINE_MS };
	s->o.bind = "127.0.0.1";
	s->o.handle_key = handle_key;
	s->o.local_uids.everyone = true;
	if (s->o.n_loops == 0)
		s->o.n_loops = 2;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->cond, NULL);
	pthread_create(&s->thread, NULL, server_main, s);
	pthread_mutex_lock(&s->mutex);
	while (!s->is_up)
		pthread_cond_wait(&s->cond, &s->mutex);
	pthread_mutex_unlock(&s->mutex);
}

static void start(struct server *s)
{
	start_with(s, (struct nfsd_options){ 0 });
}

static void stop(struct server *s)
{
	uv_async_send(&s->stop);
	pthread_join(s->thread, NULL);
}

static uint64_t stat_of(struct server *s, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->d->n_loops; i++)
		sum += __atomic_load_n(
			(const uint64_t *)((const char *)&s->d->loops[i]->stats + offset),
			__ATOMIC_RELAXED);
	return sum;
}
#define STAT(s, field) stat_of((s), offsetof(struct nfs_stats, field))

/* Polls, with a deadline. */
#define wait_until(cond)                                                                           \
	do {                                                                                       \
		uint64_t until_ = clock_mono_ns() + DEADLINE_MS * NSEC_PER_MS;                     \
		while (!(cond)) {                                                                  \
			assert_true(clock_mono_ns() < until_);                                     \
			poll(NULL, 0, 1);                                                          \
		}                                                                                  \
	} while (0)

/* ---- a client ----------------------------------------------------------- */

static int client_socket(void)
{
	struct timeval tv = { .tv_sec = DEADLINE_MS / 1000 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void connect_to(const struct server *s, int fd)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(nfsd_port(s->d)) };

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
}

static int dial(const struct server *s)
{
	int fd = client_socket();

	connect_to(s, fd);
	return fd;
}

static void send_all(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t rc = send(fd, p, n, MSG_NOSIGNAL);

		assert_true(rc > 0);
		p += rc;
		n -= (size_t)rc;
	}
}

static void recv_all(int fd, uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t rc = recv(fd, p, n, 0);

		assert_true(rc > 0);
		p += rc;
		n -= (size_t)rc;
	}
}

struct reply {
	uint32_t xid, stat, v;
	size_t len;      /* of the record */
	uint8_t *record; /* owned */
};

/* One record; replies have one fragment. */
static struct reply recv_reply(int fd)
{
	struct reply r;
	uint8_t mark[4];

	recv_all(fd, mark, 4);
	assert_true(mark[0] & 0x80);
	r.len = fake_be32(mark) & 0x7fffffff;
	assert_in_range(r.len, 24, 2u << 20);
	r.record = malloc(r.len);
	recv_all(fd, r.record, r.len);
	r.xid = fake_be32(r.record);
	r.stat = fake_be32(r.record + 20);
	r.v = r.len >= 32 ? fake_be32(r.record + 28) : 0;
	return r;
}

static uint32_t recv_value(int fd, uint32_t xid)
{
	struct reply r = recv_reply(fd);

	free(r.record);
	assert_int_equal(r.xid, xid);
	assert_int_equal(r.stat, 0);
	return r.v;
}

static void send_call(int fd, uint32_t proc, uint32_t xid, uint32_t v)
{
	uint8_t call[256];

	send_all(fd, call, fake_call(call, sizeof(call), proc, xid, v));
}

static void assert_alive(int fd)
{
	send_call(fd, FAKE_ECHO, 0xfeed, 42);
	assert_int_equal(recv_value(fd, 0xfeed), 42);
}

/* The end, by FIN or by RST; before the deadline. */
static void assert_closed(int fd)
{
	uint8_t b[4096];
	ssize_t n;

	do {
		n = recv(fd, b, sizeof(b), 0);
	} while (n > 0);
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
}

/* ---- many calls --------------------------------------------------------- */

#define BURST 500

static void test_500_calls_in_one_burst_are_answered_once_each(void **state)
{
	static const uint32_t procs[] = { FAKE_ECHO, FAKE_WAITS, FAKE_READ, FAKE_ONCE, FAKE_GATED };
	static uint8_t burst[BURST * 128];
	unsigned seen[BURST] = { 0 };
	struct server s;
	size_t n = 0;
	int fd;

	start(&s);
	fd = dial(&s);
	for (uint32_t i = 0; i < BURST; i++)
		n += fake_call(burst + n, sizeof(burst) - n, procs[i % 5], i, i * 40);
	send_all(fd, burst, n);
	for (uint32_t i = 0; i < BURST; i++) {
		struct reply r = recv_reply(fd);

		assert_in_range(r.xid, 0, BURST - 1);
		seen[r.xid]++;
		if (procs[r.xid % 5] != FAKE_ONCE)
			assert_int_equal(r.v, r.xid * 40);
		if (procs[r.xid % 5] == FAKE_READ)
			assert_int_equal(r.len, 32 + r.xid * 40);
		free(r.record);
	}
	for (uint32_t i = 0; i < BURST; i++)
		assert_int_equal(seen[i], 1);
	assert_alive(fd); /* and no reply was left */
	close(fd);
	stop(&s);
}

static void test_payloads_of_all_sizes_arrive_whole(void **state)
{
	static const uint32_t sizes[] = { 1,     4096,  8192,     8193, 65536,
					  69632, 69633, 1u << 20, 3,    500000 };
	struct server s;
	int fd;

	start(&s);
	fd = dial(&s);
	for (uint32_t i = 0; i < 10; i++)
		send_call(fd, FAKE_READ, i, sizes[i]);
	for (uint32_t i = 0; i < 10; i++) {
		struct reply r = recv_reply(fd);

		assert_int_equal(r.xid, i); /* inline calls keep their order */
		assert_int_equal(r.len, 32 + (sizes[i] + 3) / 4 * 4);
		for (size_t k = 0; k < sizes[i]; k++)
			assert_int_equal(r.record[32 + k], fake_byte(sizes[i], k));
		free(r.record);
	}
	close(fd);
	stop(&s);
}

static void test_large_calls_arrive_whole_inline_and_pooled(void **state)
{
	size_t len = 1u << 20, room = len + 256;
	uint8_t *data = malloc(len), *call = malloc(room);
	struct server s;
	uint32_t sum = 0;
	int fd;

	for (size_t i = 0; i < len; i++) {
		data[i] = fake_byte(9, i);
		sum = sum * 33 + data[i];
	}
	start(&s);
	fd = dial(&s);
	for (uint32_t i = 0; i < 6; i++)
		send_all(fd, call,
			 fake_call_of(call, room, RPC_PROG_NFS, 3, FAKE_WRITE, i, i, data, len));
	for (uint32_t i = 0; i < 6; i++) {
		struct reply r = recv_reply(fd);

		assert_int_equal(r.v, sum);
		free(r.record);
	}
	close(fd);
	stop(&s);
	free(call);
	free(data);
}

static void test_a_large_result_arrives_whole(void **state)
{
	uint8_t call[256];
	struct reply r;
	struct server s;
	int fd;

	start(&s);
	fd = dial(&s);
	send_all(fd, call,
		 fake_call_of(call, sizeof(call), RPC_PROG_MOUNT, 3, FAKE_MOUNT_LIST, 1, 300000,
			      NULL, 0));
	r = recv_reply(fd);
	assert_int_equal(r.len, 24 + 4 + 300000);
	free(r.record);
	assert_alive(fd);
	close(fd);
	stop(&s);
}

/* ---- pieces ------------------------------------------------------------- */

static void test_a_stream_may_be_cut_at_every_byte(void **state)
{
	uint8_t calls[512];
	struct server s;
	size_t n;
	int fd;

	start(&s);
	fd = dial(&s);
	for (size_t cut = 1;; cut++) {
		uint64_t before = STAT(&s, bytes_in);

		n = fake_call(calls, sizeof(calls), FAKE_ECHO, 1, 11);
		n += fake_call(calls + n, sizeof(calls) - n, FAKE_WAITS, 2, 22);
		if (cut >= n)
			break;
		send_all(fd, calls, cut);
		wait_until(STAT(&s, bytes_in) == before + cut);
		send_all(fd, calls + cut, n - cut);
		assert_int_equal(recv_value(fd, 1), 11);
		assert_int_equal(recv_value(fd, 2), 22);
	}
	close(fd);
	stop(&s);
}

static void test_a_record_may_come_in_fragments(void **state)
{
	uint8_t call[256], piece[64];
	struct server s;
	size_t n, at;
	int fd;

	start(&s);
	fd = dial(&s);
	for (size_t size = 1; size < 40; size += 3) {
		n = fake_call(call, sizeof(call), FAKE_ECHO, 7, (uint32_t)size);
		for (at = 4; at < n; at += size) {
			size_t len = n - at < size ? n - at : size;

			rpc_record_mark(piece, (uint32_t)len);
			if (at + len < n)
				piece[0] &= 0x7f;
			memcpy(piece + 4, call + at, len);
			send_all(fd, piece, 4 + len);
		}
		assert_int_equal(recv_value(fd, 7), size);
	}
	close(fd);
	stop(&s);
}

static void test_bytes_that_are_no_calls_end_the_connection(void **state)
{
	static const uint8_t garbage[][12] = {
		{ 0x80, 0, 0, 4, 1, 2, 3, 4 }, /* a record too short for an xid and a type */
		{ 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4 }, /* too long */
		{ 'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P', '/', '1' },
		{ 0x80, 0, 0, 0 }, /* empty */
	};
	struct server s;

	start(&s);
	for (size_t i = 0; i < 4; i++) {
		int fd = dial(&s);

		assert_alive(fd); /* what came before is answered */
		send_all(fd, garbage[i], sizeof(garbage[i]));
		assert_closed(fd);
	}
	stop(&s);
}

static void test_half_closed_peers_get_their_answers(void **state)
{
	struct server s;
	int fd;

	start(&s);
	fd = dial(&s);
	fake_gate(false);
	send_call(fd, FAKE_GATED, 1, 10);
	send_call(fd, FAKE_ECHO, 2, 20);
	shutdown(fd, SHUT_WR);
	assert_int_equal(recv_value(fd, 2), 20);
	fake_gate(true);
	assert_int_equal(recv_value(fd, 1), 10);
	assert_closed(fd);
	stop(&s);
}

/* ---- waiting ------------------------------------------------------------ */

static void test_a_call_that_waits_does_not_hold_up_others(void **state)
{
	struct server s;
	int a, b;

	start_with(&s, (struct nfsd_options){ .n_loops = 1 });
	a = dial(&s);
	b = dial(&s);
	fake_gate(false);
	send_call(a, FAKE_GATED, 1, 1);
	send_call(a, FAKE_GATED_ONCE, 2, 2);
	wait_until(fake_waiting() == 2);
	for (int i = 0; i < 20; i++) {
		assert_alive(a);
		assert_alive(b);
		send_call(b, FAKE_WAITS, 5, 55);
		assert_int_equal(recv_value(b, 5), 55);
	}
	fake_gate(true);
	for (int i = 0; i < 2; i++) {
		struct reply r = recv_reply(a);

		assert_in_range(r.xid, 1, 2);
		free(r.record);
	}
	close(a);
	close(b);
	stop(&s);
}

/* 64 calls of one connection wait in the pool for fsync, and another connection still gets a thread
 * of it. */
static void test_one_connection_cannot_take_all_threads(void **state)
{
	struct server s;
	int a, b;

	start(&s);
	a = dial(&s);
	b = dial(&s);
	fake_gate(false);
	for (uint32_t i = 0; i < 100; i++)
		send_call(a, FAKE_GATED, i, i);
	wait_until(fake_waiting() == 12);
	send_call(b, FAKE_GATED, 1000, 0);
	wait_until(fake_waiting() == 13);
	wait_until(STAT(&s, pooled) == 64 + 1);
	assert_alive(b);
	assert_int_equal(STAT(&s, pooled), 64 + 1); /* the rest was not taken off the wire */
	fake_gate(true);
	for (uint32_t i = 0; i < 100; i++)
		free(recv_reply(a).record);
	(void)recv_value(b, 1000);
	close(a);
	close(b);
	stop(&s);
}

static void test_a_client_may_die_while_its_call_runs(void **state)
{
	struct server s;
	int fd;

	start(&s);
	fake_gate(false);
	for (uint32_t i = 0; i < 20; i++) {
		fd = dial(&s);
		send_call(fd, FAKE_GATED, i, i);
		send_call(fd, FAKE_GATED_ONCE, i, i);
		wait_until(STAT(&s, pooled) == 2 * (i + 1));
		if (i % 2 == 0) {
			struct linger l = { .l_onoff = 1 };

			setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)); /* RST */
		}
		close(fd);
	}
	fake_gate(true);
	wait_until(STAT(&s, conns_closed) == 20);
	wait_until(__atomic_load_n(&s.d->held, __ATOMIC_RELAXED) == 0);
	fd = dial(&s);
	assert_alive(fd);
	close(fd);
	stop(&s);
}

/* ---- limits ------------------------------------------------------------- */

#define GREEDY_CALLS 120

static void test_a_client_that_does_not_read_costs_bounded_memory(void **state)
{
	static uint8_t calls[GREEDY_CALLS * 128];
	struct server s;
	size_t n = 0;
	int fd, other;

	start_with(&s, (struct nfsd_options){ .n_loops = 1 });
	fd = dial(&s);
	other = dial(&s);
	for (uint32_t i = 0; i < GREEDY_CALLS; i++)
		n += fake_call(calls + n, sizeof(calls) - n, FAKE_READ, i, 1u << 20);
	send_all(fd, calls, n); /* fits the socket buffers */
	wait_until(__atomic_load_n(&s.d->held, __ATOMIC_RELAXED) > 4u << 20);
	for (int i = 0; i < 50; i++) {
		assert_alive(other);
		assert_true(__atomic_load_n(&s.d->held, __ATOMIC_RELAXED) < 8u << 20);
	}
	assert_true(STAT(&s, calls[FAKE_READ]) < GREEDY_CALLS / 2);
	for (uint32_t i = 0; i < GREEDY_CALLS; i++) {
		struct reply r = recv_reply(fd);

		assert_int_equal(r.xid, i);
		assert_int_equal(r.len, 32 + (1u << 20));
		free(r.record);
	}
	wait_until(__atomic_load_n(&s.d->held, __ATOMIC_RELAXED) == 0);
	assert_alive(fd);
	close(fd);
	close(other);
	stop(&s);
}

static void test_a_thousand_idle_connections(void **state)
{
	struct rlimit r;
	struct server s;
	int *fds;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	if (r.rlim_cur < 2200) {
		print_message("needs 2200 descriptors; the limit is %lu\n",
			      (unsigned long)r.rlim_cur);
		skip();
	}
	fds = calloc(1000, sizeof(*fds));
	start(&s);
	for (int i = 0; i < 1000; i++) {
		fds[i] = dial(&s);
		assert_alive(fds[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(s.d->loops[i]->n_conns, 500);
	for (int i = 0; i < 1000; i++)
		assert_alive(fds[i]);
	for (int i = 0; i < 1000; i++)
		close(fds[i]);
	wait_until(STAT(&s, conns_closed) == 1000);
	stop(&s);
	free(fds);
}

static void test_connections_beyond_the_limit_are_closed(void **state)
{
	struct server s;
	int a, b;

	start_with(&s, (struct nfsd_options){ .max_conns = 2 });
	a = dial(&s);
	b = dial(&s);
	assert_alive(a);
	assert_alive(b);
	assert_closed(dial(&s));
	close(a);
	wait_until(STAT(&s, conns_closed) == 1);
	a = dial(&s);
	assert_alive(a);
	close(a);
	close(b);
	stop(&s);
}

/* ---- deadlines ---------------------------------------------------------- */

static void test_without_descriptors_clients_wait_and_are_served_later(void **state)
{
	struct rlimit limit, none;
	struct server s;
	struct pollfd p;
	int fd;

	start(&s);
	getrlimit(RLIMIT_NOFILE, &limit);
	fd = client_socket();
	none = limit;
	none.rlim_cur = (rlim_t)fd + 1;
	setrlimit(RLIMIT_NOFILE, &none);
	connect_to(&s, fd);
	send_call(fd, FAKE_ECHO, 1, 5);
	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 20), 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(recv_value(fd, 1), 5);
	close(fd);
	stop(&s);
}

static void test_a_peer_that_says_nothing_is_closed(void **state)
{
	struct server s;
	int quiet, known;

	start_with(&s, (struct nfsd_options){ .hello_ms = 40 });
	known = dial(&s);
	assert_alive(known);
	quiet = dial(&s);
	assert_closed(quiet);
	assert_int_equal(STAT(&s, conns_timed_out), 1);
	assert_alive(known); /* one good call, and it may be idle */
	close(known);
	stop(&s);
}

static void test_a_call_that_does_not_go_on_closes(void **state)
{
	struct server s;
	uint8_t call[256];
	int fd;

	start_with(&s, (struct nfsd_options){ .progress_ms = 40 });
	fd = dial(&s);
	assert_alive(fd);
	(void)fake_call(call, sizeof(call), FAKE_ECHO, 1, 1);
	send_all(fd, call, 20);
	assert_closed(fd);
	assert_int_equal(STAT(&s, conns_timed_out), 1);
	stop(&s);
}

static void test_replies_that_are_not_taken_close(void **state)
{
	struct server s;
	int fd;

	start_with(&s, (struct nfsd_options){ .unsent_ms = 40 });
	fd = dial(&s);
	for (uint32_t i = 0; i < 30; i++)
		send_call(fd, FAKE_READ, i, 1u << 20);
	wait_until(STAT(&s, conns_timed_out) == 1);
	close(fd);
	wait_until(__atomic_load_n(&s.d->held, __ATOMIC_RELAXED) == 0);
	stop(&s);
}

static void test_a_call_in_a_pool_may_take_longer_than_the_deadlines(void **state)
{
	struct server s;
	int fd, quiet;

	start_with(&s, (struct nfsd_options){ .hello_ms = 40, .progress_ms = 40, .unsent_ms = 40 });
	fd = dial(&s);
	fake_gate(false);
	send_call(fd, FAKE_GATED, 1, 1);
	wait_until(fake_waiting() == 1);
	quiet = dial(&s);
	assert_closed(quiet); /* so the deadline has passed */
	fake_gate(true);
	assert_int_equal(recv_value(fd, 1), 1);
	close(fd);
	stop(&s);
}

/* ---- repeats ------------------------------------------------------------ */

static void test_a_repeat_is_answered_on_its_own_connection(void **state)
{
	struct server s;
	int a, b;

	start(&s);
	a = dial(&s);
	b = dial(&s);
	send_call(a, FAKE_ONCE, 1, 1);
	assert_int_equal(recv_value(a, 1), 1);
	send_call(a, FAKE_ONCE, 1, 1);
	assert_int_equal(recv_value(a, 1), 1);
	send_call(b, FAKE_ONCE, 1, 1);
	assert_int_equal(recv_value(b, 1), 1);
	send_call(b, FAKE_ONCE, 2, 1);
	assert_int_equal(recv_value(b, 2), 2);
	assert_int_equal(STAT(&s, drc_replays), 2);
	close(a);
	close(b);
	stop(&s);
}

static void test_repeats_of_a_running_call_are_answered_when_it_is_done(void **state)
{
	struct server s;
	int fd[7];

	start(&s);
	fake_gate(false);
	for (int i = 0; i < 7; i++)
		fd[i] = dial(&s);
	send_call(fd[0], FAKE_GATED_ONCE, 1, 1);
	wait_until(fake_waiting() == 1);
	for (int i = 1; i < 6; i++) { /* on other loops and, the last, on the same connection */
		send_call(fd[i % 5], FAKE_GATED_ONCE, 1, 1);
		wait_until(STAT(&s, drc_parked) + STAT(&s, drc_dropped) == (unsigned)i);
	}
	assert_int_equal(STAT(&s, drc_parked), 4);
	assert_int_equal(STAT(&s, drc_dropped), 1);
	close(fd[2]); /* one that waits goes away */
	fake_gate(true);
	for (int i = 0; i < 5; i++) {
		if (i != 2)
			assert_int_equal(recv_value(fd[i], 1), 1);
	}
	assert_int_equal(fake.n_runs, 1);
	assert_alive(fd[0]);
	for (int i = 0; i < 7; i++) {
		if (i != 2)
			close(fd[i]);
	}
	stop(&s);
}

/* ---- ending ------------------------------------------------------------- */

static void *open_gate_when_stopping(void *arg)
{
	struct server *s = arg;
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons(nfsd_port(s->d)) };
	int rc;

	/* The listener goes first, so a refused connection means that the server is stopping. */
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	do {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		rc = connect(fd, (struct sockaddr *)&sa, sizeof(sa));
		close(fd);
	} while (rc == 0);
	fake_gate(true);
	return NULL;
}

static void test_stopping_answers_what_runs(void **state)
{
	struct server s;
	pthread_t opener;
	int fd;

	start(&s);
	fd = dial(&s);
	fake_gate(false);
	for (uint32_t i = 0; i < 30; i++)
		send_call(fd, FAKE_GATED, i, i);
	wait_until(STAT(&s, pooled) == 30);
	pthread_create(&opener, NULL, open_gate_when_stopping, &s);
	stop(&s);
	pthread_join(opener, NULL);
	for (uint32_t i = 0; i < 30; i++)
		free(recv_reply(fd).record);
	assert_closed(fd);
}

static void test_stopping_does_not_wait_for_those_who_do_not_read(void **state)
{
	struct server s;
	int fd;

	start(&s);
	s.stop_deadline_ms = 50;
	fd = dial(&s);
	for (uint32_t i = 0; i < 30; i++)
		send_call(fd, FAKE_READ, i, 1u << 20);
	wait_until(__atomic_load_n(&s.d->held, __ATOMIC_RELAXED) > 4u << 20);
	stop(&s);
	close(fd);
}

static void test_metrics_tell_what_happened(void **state)
{
	struct nfsd_summary sum;
	struct buf out = { 0 };
	struct server s;
	int fd;

	start(&s);
	fd = dial(&s);
	for (uint32_t i = 0; i < 3; i++)
		send_call(fd, FAKE_ECHO, i, i);
	for (uint32_t i = 0; i < 3; i++)
		(void)recv_value(fd, i);
	send_call(fd, FAKE_STATUS, 9, 70);
	free(recv_reply(fd).record);
	assert_int_equal(nfsd_metrics(s.d, &out), 0);
	assert_non_null(strstr(buf_cstr(&out),
			       "workspaced_nfs_calls_total{program=\"nfs\",proc=\"ECHO\"} 3\n"));
	assert_non_null(strstr(buf_cstr(&out),
			       "workspaced_nfs_errors_total{program=\"nfs\",proc=\"STATUS\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&out),
			       "call_duration_seconds_count{program=\"nfs\",proc=\"ECHO\"} 3\n"));
	nfsd_summary(s.d, &sum);
	assert_int_equal(sum.n_conns, 1);
	assert_int_equal(sum.n_calls, 4);
	buf_free(&out);
	close(fd);
	stop(&s);
}

static void test_an_address_in_use_is_an_error_with_a_sentence(void **state)
{
	struct nfsd_options o = { .bind = "127.0.0.1", .handle_key = handle_key, .n_loops = 1 };
	struct err err = { 0 };
	struct nfsd *d = NULL;
	struct server s;
	uv_loop_t loop;

	start(&s);
	uv_loop_init(&loop);
	o.port = nfsd_port(s.d);
	assert_int_equal(nfsd_start_with(&loop, &o, &fake_programs, &d, &err), -EADDRINUSE);
	assert_non_null(strstr(err.msg, "listen on 127.0.0.1 port"));
	o.bind = "localhost";
	assert_int_equal(nfsd_start_with(&loop, &o, &fake_programs, &d, &err), -EINVAL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_500_calls_in_one_burst_are_answered_once_each),
		cmocka_unit_test(test_payloads_of_all_sizes_arrive_whole),
		cmocka_unit_test(test_large_calls_arrive_whole_inline_and_pooled),
		cmocka_unit_test(test_a_large_result_arrives_whole),
		cmocka_unit_test(test_a_stream_may_be_cut_at_every_byte),
		cmocka_unit_test(test_a_record_may_come_in_fragments),
		cmocka_unit_test(test_bytes_that_are_no_calls_end_the_connection),
		cmocka_unit_test(test_half_closed_peers_get_their_answers),
		cmocka_unit_test(test_a_call_that_waits_does_not_hold_up_others),
		cmocka_unit_test(test_one_connection_cannot_take_all_threads),
		cmocka_unit_test(test_a_client_may_die_while_its_call_runs),
		cmocka_unit_test(test_a_client_that_does_not_read_costs_bounded_memory),
		cmocka_unit_test(test_a_thousand_idle_connections),
		cmocka_unit_test(test_connections_beyond_the_limit_are_closed),
		cmocka_unit_test(test_without_descriptors_clients_wait_and_are_served_later),
		cmocka_unit_test(test_a_peer_that_says_nothing_is_closed),
		cmocka_unit_test(test_a_call_that_does_not_go_on_closes),
		cmocka_unit_test(test_replies_that_are_not_taken_close),
		cmocka_unit_test(test_a_call_in_a_pool_may_take_longer_than_the_deadlines),
		cmocka_unit_test(test_a_repeat_is_answered_on_its_own_connection),
		cmocka_unit_test(test_repeats_of_a_running_call_are_answered_when_it_is_done),
		cmocka_unit_test(test_stopping_answers_what_runs),
		cmocka_unit_test(test_stopping_does_not_wait_for_those_who_do_not_read),
		cmocka_unit_test(test_metrics_tell_what_happened),
		cmocka_unit_test(test_an_address_in_use_is_an_error_with_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
