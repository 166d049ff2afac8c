/* SPDX-License-Identifier: MIT */
/* The sockets that the HTTP server accepts from, and who is at the other end of what they give. */
#ifndef HTTP_HTTP_LISTEN_H
#define HTTP_HTTP_LISTEN_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "http/http_auth.h"
#include "http/http_server.h"

/* Each returns a listening, non-blocking descriptor that the caller owns, or -errno with a
 * sentence. */
int http_listen_tcp(const char *host, uint16_t port, uint16_t *ret_port, struct err *err);

/* http_listen_unix() - a socket file for everybody to connect to: who may ask is decided by their
 * uid. One that nobody listens on any more is replaced; anything else at @path is -EADDRINUSE. */
int http_listen_unix(const char *path, struct err *err);

/* http_listen_peer() - who has connected, with what @o says of uids.  Control loop. */
void http_listen_peer(const struct http_server_options *o, int fd,
		      const struct sockaddr_storage *sa, struct http_peer *ret);

#endif
