/* SPDX-License-Identifier: MIT */
/* See http_listen.h. */
#include "http/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/peer.h"

#define LISTEN_BACKLOG 511

/* ---- TCP ---------------------------------------------------------------- */

static int parse_address(const char *host, uint16_t port, struct sockaddr_storage *ret,
			 socklen_t *ret_len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	*ret = (struct sockaddr_storage){ 0 };
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		*ret_len = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		*ret_len = sizeof(*v6);
		return 0;
	}
	return -EINVAL;
}

static uint16_t bound_port(int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct in6_addr addr;
	in_port_t port = 0;

	if (getsockname(fd, (struct sockaddr *)&sa, &len) == 0)
		(void)peer_addr6(&sa, &addr, &port);
	return port;
}

int http_listen_tcp(const char *host, uint16_t port, uint16_t *ret_port, struct err *err)
{
	struct sockaddr_storage sa;
	socklen_t len;
	auto_close int fd = -1;
	int one = 1, zero = 0;

	if (parse_address(host, port, &sa, &len) < 0)
		return err_set(err, -EINVAL,
			       "http server: '%.64s' is not a numeric IPv4 or IPv6 address", host);
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, -errno, "http server: socket: %s", strerror(errno));
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (sa.ss_family == AF_INET6) /* "::" listens on both */
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return err_set(err, -errno,
			       "http server: cannot listen on %s port %u (WORKSPACE_HTTP_HOST, "
			       "WORKSPACE_HTTP_PORT): %s",
			       host, (unsigned)port, strerror(errno));
	*ret_port = bound_port(fd);
	return take_fd(&fd);
}

/* ---- a Unix socket ------------------------------------------------------ */

/* is_stale() - a socket file that nobody listens on: left by a daemon that was killed */
static bool is_stale(const struct sockaddr_un *sun)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct stat st;

	return fd >= 0 && lstat(sun->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) < 0 && errno == ECONNREFUSED;
}

int http_listen_unix(const char *path, struct err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_set(err, -errno, "http server: socket: %s", strerror(errno));
	if (path[0] == '\0' || strlen(path) >= sizeof(sun.sun_path))
		return err_set(err, -ENAMETOOLONG,
			       "http server: the path of the Unix socket must have 1 to %zu bytes",
			       sizeof(sun.sun_path) - 1);
	memcpy(sun.sun_path, path, strlen(path));
	if (is_stale(&sun))
		(void)unlink(path);
	if (bind(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0 || chmod(path, 0666) < 0 ||
	    listen(fd, LISTEN_BACKLOG) < 0)
		return err_set(err, -errno,
			       "http server: cannot listen on the Unix socket %.100s "
			       "(WORKSPACE_HTTP_SOCKET): %s",
			       path, strerror(errno));
	return take_fd(&fd);
}

/* ---- who has connected -------------------------------------------------- */

static void learn_unix_peer(const struct http_server_options *o, int fd, struct http_peer *ret)
{
	uint32_t uid32;
	uid_t uid;

	ret->is_unix = ret->is_loopback = true;
	if (peer_local_uid(fd, &uid) < 0)
		return;
	uid32 = htonl(uid);
	memcpy(&ret->addr.s6_addr[12], &uid32, sizeof(uid32));
	ret->has_uid = true;
	ret->uid = uid;
	(void)snprintf(ret->text, sizeof(ret->text), "unix:%u", (unsigned)uid);
	ret->uid_ok = peer_uids_allow(&o->local_uids, uid);
}

void http_listen_peer(const struct http_server_options *o, int fd,
		      const struct sockaddr_storage *sa, struct http_peer *ret)
{
	bool is_asked = o->n_keys == 0 && !o->allow_unauthenticated;
	in_port_t port;
	uid_t uid;

	*ret = (struct http_peer){ .text = "?" };
	if (sa->ss_family == AF_UNIX) {
		learn_unix_peer(o, fd, ret);
		return;
	}
	if (!peer_addr6(sa, &ret->addr, &port))
		return;
	(void)peer_format(ret->text, sizeof(ret->text), &ret->addr, port);
	ret->is_loopback = peer_is_loopback(&ret->addr);
	if (!ret->is_loopback || !is_asked || peer_local_uid(fd, &uid) < 0)
		return;
	ret->has_uid = true;
	ret->uid = uid;
	ret->uid_ok = peer_uids_allow(&o->local_uids, uid);
}
