/* SPDX-License-Identifier: MIT */
/*
 * The uid behind a loopback TCP connection, by sock_diag(7).
 *
 * The kernel is asked for exactly one socket: the one whose local address is our peer's and whose
 * remote address is ours.  What it answers is believed only in part, because three answers would
 * name the wrong person:
 *
 *  - A peer that has closed its end leaves a socket without an owner, or a mere time-wait entry.
 * The kernel shows uid 0 for both.  Whoever connects, sends and closes at once would pass for root.
 * Such sockets have inode number 0; the kernel reads the uid before the inode number, and a socket
 * never gets its owner back, so an answer with an inode number has a true uid.
 *  - When no connection matches, the kernel's lookup goes on to listeners.  The addresses and the
 * state of the answer are therefore compared with what was asked.
 *  - A socket of another network namespace is not found at all: -ENOENT, never a guess.
 */
#include "base/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* One end of a connection. */
struct end {
	struct in6_addr addr; /* IPv4 as ::ffff:a.b.c.d */
	in_port_t port;       /* host order */
};

bool peer_addr6(const struct sockaddr_storage *sa, struct in6_addr *ret, in_port_t *ret_port)
{
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

	if (sa->ss_family == AF_INET) {
		memset(ret, 0, sizeof(*ret));
		ret->s6_addr[10] = 0xff;
		ret->s6_addr[11] = 0xff;
		memcpy(&ret->s6_addr[12], &in4->sin_addr, 4);
		*ret_port = ntohs(in4->sin_port);
		return true;
	}
	if (sa->ss_family == AF_INET6) {
		*ret = in6->sin6_addr;
		*ret_port = ntohs(in6->sin6_port);
		return true;
	}
	return false;
}

bool peer_is_loopback(const struct in6_addr *addr)
{
	if (IN6_IS_ADDR_V4MAPPED(addr))
		return addr->s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(addr);
}

char *peer_format(char *dst, size_t dst_len, const struct in6_addr *addr, in_port_t port)
{
	char text[INET6_ADDRSTRLEN];
	bool is_v4 = IN6_IS_ADDR_V4MAPPED(addr);
	const void *src = is_v4 ? (const void *)&addr->s6_addr[12] : (const void *)addr;

	if (inet_ntop(is_v4 ? AF_INET : AF_INET6, src, text, sizeof(text)) == NULL)
		text[0] = '\0';
	(void)snprintf(dst, dst_len, is_v4 ? "%s:%u" : "[%s]:%u", text, (unsigned)port);
	return dst;
}

bool peer_uids_allow(const struct peer_uids *set, uid_t uid)
{
	if (set->everyone)
		return true;
	for (size_t i = 0; i < set->n; i++) {
		if (set->uid[i] == uid)
			return true;
	}
	return false;
}

/* ---- sock_diag --------------------------------------------------------------------------------
 */

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 req;
};

union answer {
	struct nlmsghdr head;
	char bytes[4096]; /* one socket without extensions takes some 150 */
};

static void put_addr(__be32 dst[4], const struct in6_addr *addr, int family)
{
	if (family == AF_INET)
		memcpy(dst, &addr->s6_addr[12], 4);
	else
		memcpy(dst, addr, 16);
}

static struct in6_addr get_addr(const __be32 src[4], int family)
{
	struct in6_addr addr = { 0 };

	if (family == AF_INET) {
		addr.s6_addr[10] = 0xff;
		addr.s6_addr[11] = 0xff;
		memcpy(&addr.s6_addr[12], src, 4);
	} else {
		memcpy(&addr, src, 16);
	}
	return addr;
}

static bool is_end(const struct end *e, const __be32 addr[4], __be16 port, int family)
{
	struct in6_addr a = get_addr(addr, family);

	return ntohs(port) == e->port && memcmp(&a, &e->addr, sizeof(a)) == 0;
}

static int ask(int nl, int family, const struct end *theirs, const struct end *ours)
{
	struct question q = {
		.head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST,
			  .nlmsg_seq = (unsigned)family },
		.req = { .sdiag_family = (unsigned char)family,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = ~0u,
			 .id = { .idiag_sport = htons(theirs->port),
				 .idiag_dport = htons(ours->port),
				 .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	put_addr(q.req.id.idiag_src, &theirs->addr, family);
	put_addr(q.req.id.idiag_dst, &ours->addr, family);
	if (sendto(nl, &q, sizeof(q), MSG_NOSIGNAL, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	return 0;
}

/* The kernel answers within the send, so there is nothing to wait for. */
static int hear(int nl, int family, union answer *a)
{
	struct sockaddr_nl from = { 0 };
	socklen_t from_len = sizeof(from);
	ssize_t n = recvfrom(nl, a, sizeof(*a), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);

	if (n < 0)
		return errno == EAGAIN ? -EIO : -errno;
	if (from_len != sizeof(from) || from.nl_pid != 0 || !NLMSG_OK(&a->head, (size_t)n) ||
	    a->head.nlmsg_seq != (unsigned)family)
		return -EPROTO;
	if (a->head.nlmsg_type == NLMSG_ERROR) {
		const struct nlmsgerr *e = NLMSG_DATA(&a->head);

		if (a->head.nlmsg_len < NLMSG_LENGTH(sizeof(*e)) || e->error >= 0)
			return -EPROTO;
		return e->error;
	}
	if (a->head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    a->head.nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
		return -EPROTO;
	return 0;
}

static int find_uid(int family, const struct end *theirs, const struct end *ours, uid_t *ret)
{
	auto_close int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	const struct inet_diag_msg *m;
	union answer a;
	int rc;

	if (nl < 0)
		return -errno;
	rc = ask(nl, family, theirs, ours);
	if (rc < 0)
		return rc;
	rc = hear(nl, family, &a);
	if (rc < 0)
		return rc;
	m = NLMSG_DATA(&a.head);
	if (m->idiag_state == TCP_LISTEN || m->idiag_inode == 0)
		return -ENOENT; /* see the essay: such an answer's uid is not the peer's */
	if (!is_end(theirs, m->id.idiag_src, m->id.idiag_sport, m->idiag_family) ||
	    !is_end(ours, m->id.idiag_dst, m->id.idiag_dport, m->idiag_family))
		return -ENOENT;
	*ret = m->idiag_uid;
	return 0;
}

static int unix_uid(int sock, uid_t *ret)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*ret = cred.uid;
	return 0;
}

int peer_local_uid(int sock, uid_t *ret)
{
	struct sockaddr_storage us = { 0 }, them = { 0 };
	socklen_t us_len = sizeof(us), them_len = sizeof(them);
	struct end ours, theirs;

	if (getsockname(sock, (struct sockaddr *)&us, &us_len) < 0 ||
	    getpeername(sock, (struct sockaddr *)&them, &them_len) < 0)
		return -errno;
	if (us.ss_family == AF_UNIX)
		return unix_uid(sock, ret);
	if (!peer_addr6(&us, &ours.addr, &ours.port) ||
	    !peer_addr6(&them, &theirs.addr, &theirs.port))
		return -EAFNOSUPPORT;
	/* An IPv6 socket that talks IPv4 is found among the IPv4 ones, whichever end it is. */
	if (IN6_IS_ADDR_V4MAPPED(&ours.addr) && IN6_IS_ADDR_V4MAPPED(&theirs.addr))
		return find_uid(AF_INET, &theirs, &ours, ret);
	return find_uid(AF_INET6, &theirs, &ours, ret);
}
