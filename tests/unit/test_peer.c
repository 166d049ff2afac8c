/* SPDX-License-Identifier: MIT */
/* Who is at the other end of a connection: addresses as text, and the uid behind a loopback peer.
 */
#include "base/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

#define OTHER_UID   54321u
#define NOBODYS_UID 4711u /* what an answer must not touch when there is none */
#define DEADLINE_MS 10000

static struct in6_addr addr_of(const char *text)
{
	struct in6_addr a;

	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static void test_addresses_are_told_apart(void **state)
{
	static const struct {
		const char *addr;
		bool is_loopback;
		const char *text;
	} cases[] = {
		{ "::ffff:127.0.0.1", true, "127.0.0.1:2049" },
		{ "::ffff:127.9.8.7", true, "127.9.8.7:2049" },
		{ "::ffff:10.1.2.3", false, "10.1.2.3:2049" },
		{ "::1", true, "[::1]:2049" },
		{ "::7f00:1", false, "[::127.0.0.1]:2049" }, /* the old "compatible" form */
		{ "fe80::1", false, "[fe80::1]:2049" },
	};
	char text[PEER_TEXT];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct in6_addr a = addr_of(cases[i].addr);

		assert_int_equal(peer_is_loopback(&a), cases[i].is_loopback);
		assert_string_equal(peer_format(text, sizeof(text), &a, 2049), cases[i].text);
	}
}

static void test_socket_addresses_become_ipv6(void **state)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *in4 = (struct sockaddr_in *)&ss;
	struct in6_addr a, want = addr_of("::ffff:10.1.2.3");
	in_port_t port;

	in4->sin_family = AF_INET;
	in4->sin_port = htons(999);
	assert_int_equal(inet_pton(AF_INET, "10.1.2.3", &in4->sin_addr), 1);
	assert_true(peer_addr6(&ss, &a, &port));
	assert_memory_equal(&a, &want, sizeof(a));
	assert_int_equal(port, 999);
	ss.ss_family = AF_UNIX;
	assert_false(peer_addr6(&ss, &a, &port));
}

static void test_uid_set_lets_in_only_its_members(void **state)
{
	struct peer_uids set = { .n = 2, .uid = { 0, 1000 } };

	assert_true(peer_uids_allow(&set, 0));
	assert_true(peer_uids_allow(&set, 1000));
	assert_false(peer_uids_allow(&set, 1001));
	set.n = 0;
	assert_false(peer_uids_allow(&set, 0));
	set.everyone = true;
	assert_true(peer_uids_allow(&set, 1001));
}

/* ---- connections --------------------------------------------------------------------------------
 */

struct way {
	int family;
	const char *listen_on, *connect_to, *what;
};

static const struct way ways[] = {
	{ AF_INET, "127.0.0.1", "127.0.0.1", "IPv4" },
	{ AF_INET6, "::1", "::1", "IPv6" },
	{ AF_INET6, "::", "::ffff:127.0.0.1", "IPv4-mapped" },
};

struct server {
	int fd;
	struct sockaddr_storage addr; /* what clients connect to */
	socklen_t addr_len;
};

static void put_host(struct server *s, const char *host)
{
	void *dst = s->addr.ss_family == AF_INET
			    ? (void *)&((struct sockaddr_in *)&s->addr)->sin_addr
			    : (void *)&((struct sockaddr_in6 *)&s->addr)->sin6_addr;

	assert_int_equal(inet_pton(s->addr.ss_family, host, dst), 1);
}

static bool server_open(struct server *s, const struct way *w)
{
	int off = 0;

	*s = (struct server){ .fd = socket(w->family, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	if (s->fd < 0)
		return false;
	s->addr.ss_family = (sa_family_t)w->family;
	s->addr_len =
		w->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	put_host(s, w->listen_on);
	if (w->family == AF_INET6)
		(void)setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(s->fd, (struct sockaddr *)&s->addr, s->addr_len) < 0) {
		(void)close(s->fd);
		return false;
	}
	assert_int_equal(listen(s->fd, 8), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&s->addr, &s->addr_len), 0);
	put_host(s, w->connect_to);
	return true;
}

/* Does not assert: children use it too. */
static int client_open(const struct sockaddr_storage *addr, socklen_t len)
{
	int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)addr, len) < 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

/* Both ends of a connection and the listener between them. */
struct pair {
	struct server s;
	int theirs, ours;
};

static bool pair_open(struct pair *p, const struct way *w)
{
	if (!server_open(&p->s, w)) {
		print_message("%s is not to be had here: %s\n", w->what, strerror(errno));
		return false;
	}
	p->theirs = client_open(&p->s.addr, p->s.addr_len);
	assert_true(p->theirs >= 0);
	p->ours = accept4(p->s.fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p->ours >= 0);
	return true;
}

static void pair_close(struct pair *p)
{
	(void)close(p->s.fd);
	(void)close(p->theirs);
	(void)close(p->ours);
}

static void test_own_connections_are_ours(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		struct pair p;
		uid_t uid = NOBODYS_UID;

		if (!pair_open(&p, &ways[i]))
			continue;
		assert_int_equal(peer_local_uid(p.ours, &uid), 0);
		assert_int_equal(uid, getuid());
		pair_close(&p);
	}
}

/* An IPv4 client of a dual-stack listener: our end is an IPv6 socket, theirs is not. */
static void test_ipv4_client_of_an_ipv6_listener(void **state)
{
	struct sockaddr_storage to = { 0 };
	struct sockaddr_in *in4 = (struct sockaddr_in *)&to;
	uid_t uid = NOBODYS_UID;
	struct pair p;

	if (!server_open(&p.s, &ways[2])) {
		print_message("no IPv6 here: %s\n", strerror(errno));
		skip();
	}
	in4->sin_family = AF_INET;
	in4->sin_port = ((struct sockaddr_in6 *)&p.s.addr)->sin6_port;
	in4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p.theirs = client_open(&to, sizeof(*in4));
	assert_true(p.theirs >= 0);
	p.ours = accept4(p.s.fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p.ours >= 0);
	assert_int_equal(peer_local_uid(p.ours, &uid), 0);
	assert_int_equal(uid, getuid());
	pair_close(&p);
}

static void test_unix_sockets_use_their_credentials(void **state)
{
	uid_t uid = NOBODYS_UID;
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(peer_local_uid(sv[0], &uid), 0);
	assert_int_equal(uid, getuid());
	(void)close(sv[0]);
	(void)close(sv[1]);
}

static void test_unconnected_sockets_have_no_peer(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uid_t uid;

	assert_int_equal(peer_local_uid(fd, &uid), -ENOTCONN);
	(void)close(fd);
	assert_int_equal(peer_local_uid(fd, &uid), -EBADF);
}

static void wait_for_fin(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	assert_int_equal(poll(&p, 1, DEADLINE_MS), 1);
}

/* A socket whose owner is gone has uid 0 in the kernel's tables: it must not pass for root. */
static void test_a_peer_that_closed_is_nobody(void **state)
{
	uid_t uid = NOBODYS_UID;
	struct pair p;

	assert_true(pair_open(&p, &ways[0]));
	(void)close(p.theirs);
	p.theirs = -1;
	wait_for_fin(p.ours);
	assert_int_equal(peer_local_uid(p.ours, &uid), -ENOENT);
	assert_int_equal(uid, NOBODYS_UID);
	pair_close(&p);
}

static void test_a_half_closed_peer_keeps_its_uid(void **state)
{
	uid_t uid = NOBODYS_UID;
	struct pair p;

	assert_true(pair_open(&p, &ways[0]));
	assert_int_equal(shutdown(p.theirs, SHUT_WR), 0);
	wait_for_fin(p.ours);
	assert_int_equal(peer_local_uid(p.ours, &uid), 0);
	assert_int_equal(uid, getuid());
	pair_close(&p);
}

/* A listener that took over the port of a peer that vanished is not the peer. */
/* usurp_port() - a listener on the port of the vanished other end of @p: its descriptor, or -1 when
 * another program took the port meanwhile (which a busy machine may do: then with another one) */
static int usurp_port(struct pair *p)
{
	struct sockaddr_in at = { 0 };
	socklen_t len = sizeof(at);
	int on = 1, fd;

	assert_int_equal(getsockname(p->theirs, (struct sockaddr *)&at, &len), 0);
	/* In repair mode a socket goes away without a word to the other end. */
	if (setsockopt(p->theirs, IPPROTO_TCP, TCP_REPAIR, &on, sizeof(on)) < 0) {
		print_message("needs TCP_REPAIR (CAP_NET_ADMIN): %s\n", strerror(errno));
		pair_close(p);
		skip();
	}
	(void)close(p->theirs);
	p->theirs = -1;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

static void test_a_listener_on_the_peers_port_is_not_the_peer(void **state)
{
	uid_t uid = NOBODYS_UID;
	struct pair p;
	int usurper = -1;

	for (int tries = 0; usurper < 0; tries++) {
		assert_true(tries < 50);
		assert_true(pair_open(&p, &ways[0]));
		usurper = usurp_port(&p);
		if (usurper < 0)
			pair_close(&p);
	}
	assert_int_equal(peer_local_uid(p.ours, &uid), -ENOENT);
	assert_int_equal(uid, NOBODYS_UID);
	(void)close(usurper);
	pair_close(&p);
}

/* A child of another uid that connects and holds the connection until the pipe closes. */
static pid_t spawn_other_user(const struct server *s, int hold[2])
{
	pid_t pid = fork();
	char c;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	(void)close(hold[1]);
	if (setgroups(0, NULL) < 0 || setuid(OTHER_UID) < 0 ||
	    client_open(&s->addr, s->addr_len) < 0)
		_exit(1);
	(void)!read(hold[0], &c, 1);
	_exit(0);
}

static void check_other_user(const struct way *w)
{
	uid_t uid = NOBODYS_UID;
	struct server s;
	int hold[2], ours, status;
	pid_t pid;

	if (!server_open(&s, w)) {
		print_message("%s is not to be had here: %s\n", w->what, strerror(errno));
		return;
	}
	assert_int_equal(pipe(hold), 0);
	pid = spawn_other_user(&s, hold);
	ours = accept4(s.fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(ours >= 0);
	assert_int_equal(peer_local_uid(ours, &uid), 0);
	assert_int_equal(uid, OTHER_UID);
	(void)close(hold[0]);
	(void)close(hold[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(ours);
	(void)close(s.fd);
}

static void test_another_users_connection_is_theirs(void **state)
{
	if (geteuid() != 0) {
		print_message("needs root to act as another user\n");
		skip();
	}
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		check_other_user(&ways[i]);
}

/* The question is asked from another network namespace: the peer's socket is not in sight there. */
static void test_a_peer_in_another_network_namespace_is_unknown(void **state)
{
	struct pair p;
	int status;
	pid_t pid;

	assert_true(pair_open(&p, &ways[0]));
	pid = fork();
	if (pid == 0) {
		uid_t uid;

		if (unshare(CLONE_NEWNET) < 0)
			_exit(77);
		_exit(peer_local_uid(p.ours, &uid) == -ENOENT ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	pair_close(&p);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("needs root to make a network namespace\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_are_told_apart),
		cmocka_unit_test(test_socket_addresses_become_ipv6),
		cmocka_unit_test(test_uid_set_lets_in_only_its_members),
		cmocka_unit_test(test_own_connections_are_ours),
		cmocka_unit_test(test_ipv4_client_of_an_ipv6_listener),
		cmocka_unit_test(test_unix_sockets_use_their_credentials),
		cmocka_unit_test(test_unconnected_sockets_have_no_peer),
		cmocka_unit_test(test_a_peer_that_closed_is_nobody),
		cmocka_unit_test(test_a_half_closed_peer_keeps_its_uid),
		cmocka_unit_test(test_a_listener_on_the_peers_port_is_not_the_peer),
		cmocka_unit_test(test_another_users_connection_is_theirs),
		cmocka_unit_test(test_a_peer_in_another_network_namespace_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
