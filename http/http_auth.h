/* SPDX-License-Identifier: MIT */
/*
 * Who may ask, and from which web pages.  Deny by default.
 *
 * Two separate questions.  *Caller*: an API key when one is configured, else the uid that owns a
 * loopback peer's socket.  *Page*: a browser adds the page's Origin (and Sec-Fetch-Site) to what a
 * page sends, and the name it dialled as Host; so a page of another site is recognised although the
 * browser itself runs as an allowed user.  Programs that are not browsers send neither and are not
 * affected.
 */
#ifndef HTTP_HTTP_AUTH_H
#define HTTP_HTTP_AUTH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/peer.h"
#include "http/http_server.h"

/* Who is at the other end, as far as the connection tells; immutable after accept. */
struct http_peer {
	char text[PEER_TEXT]; /* for the log */
	/* IPv4 as ::ffff:a.b.c.d; of a Unix socket the uid at its other end, in the last 4 bytes */
	struct in6_addr addr;
	bool is_unix;
	bool is_loopback; /* or a Unix socket */
	bool uid_ok;      /* loopback, and the kernel named a uid that is let in */
	bool has_uid;     /* ... named one at all */
	uid_t uid;
};

struct http_auth;

/* http_auth_new() - @o is borrowed until http_auth_free(); 0, -ENOMEM, -EINVAL (an origin or key is
 * unusable) */
int http_auth_new(const struct http_server_options *o, struct http_auth **ret, struct err *err);
void http_auth_free(struct http_auth *a);

/* http_auth_caller() - is this caller let in?  @authorization: value of the header, or NULL.  Any
 * thread. */
bool http_auth_caller(const struct http_auth *a, const struct http_peer *peer,
		      const char *authorization);

struct http_page {
	const char *host, *origin, *sec_fetch_site; /* values of the headers; NULL: not sent */
};

enum http_page_verdict {
	HTTP_PAGE_OK,
	HTTP_PAGE_BAD_HOST,   /* refuse on every route */
	HTTP_PAGE_BAD_ORIGIN, /* refuse on every route that changes or runs something */
};

/**
 * http_auth_page() - judge Host, Origin and Sec-Fetch-Site
 * @ret_cors:	set to true when the origin is one of the configured ones: the answer names it
 *
 * Pure.  Bound to loopback, a Host must be localhost, 127.x.x.x, [::1] or the host of an allowed
 * origin (any port: tunnels change it; case and one trailing dot do not matter).  An Origin is ours
 * when it is the address in Host (number or localhost, the same port), since a name may be made to
 * point at us.
 */
enum http_page_verdict http_auth_page(const struct http_auth *a, const struct http_page *page,
				      bool *ret_cors);

#endif
