/* SPDX-License-Identifier: MIT */
/* Who is at the other end of a connection on this machine. */
#ifndef BASE_PEER_H
#define BASE_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* peer_addr6() - the address of @sa with IPv4 as ::ffff:a.b.c.d; false for other families */
bool peer_addr6(const struct sockaddr_storage *sa, struct in6_addr *ret, in_port_t *ret_port);
bool peer_is_loopback(const struct in6_addr *addr); /* 127/8 mapped, ::1 */

/* "10.1.2.3:999" or "[::1]:999"; @dst >= PEER_TEXT bytes */
#define PEER_TEXT 64
char *peer_format(char *dst, size_t dst_len, const struct in6_addr *addr, in_port_t port);

/**
 * peer_local_uid() - uid that owns the other end of a loopback TCP connection
 * @sock:	our end, connected
 *
 * Asks the kernel by sock_diag(7) for the socket whose addresses are ours reversed.  Takes some
 * tens of microseconds and does not wait for others; any thread.  A process may connect and hand
 * the socket on: the uid is that of the creator.  Unix sockets: SO_PEERCRED. Return: 0, -ENOENT (no
 * such socket here: the peer is in another network namespace or gone), -errno.
 */
int peer_local_uid(int sock, uid_t *ret);

/* A set of uids that are let in from loopback: root, the daemon's own, and WORKSPACE_LOCAL_UIDS. */
#define PEER_UIDS_MAX 64
struct peer_uids {
	bool everyone; /* "*" */
	size_t n;
	uid_t uid[PEER_UIDS_MAX];
};
bool peer_uids_allow(const struct peer_uids *set, uid_t uid);

#endif
