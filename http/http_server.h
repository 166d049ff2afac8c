/* SPDX-License-Identifier: MIT */
/*
 * The HTTP server: one listener on the control loop, the connections it accepted, and what every
 * handler needs of the daemon.  Nothing here runs on another thread but the handlers whose route
 * says "pool" (routes.c), and those touch only their request and what is safe for any thread.
 */
#ifndef HTTP_HTTP_SERVER_H
#define HTTP_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/peer.h"

struct http_server;
struct inode_cache;
struct nfsd;
struct quota_service;
struct store;
struct ws_registry;

/* A caller who sends `Authorization: Bearer SECRET` is let in as @name; compared in constant time.
 */
struct http_api_key {
	const char *name;
	const char *secret;
};

/* 0 means the default; tests set small ones. */
struct http_limits {
	unsigned header_ms;     /* 15 s: from a request's first byte (or accept) to the end of its
				   headers */
	unsigned body_ms;       /* 30 s: a body must go on arriving */
	unsigned idle_ms;       /* 75 s: between two requests of a connection */
	unsigned write_ms;      /* 30 s: an answer must go on being taken */
	unsigned max_conns;     /* 1024: beyond it accepting pauses until a connection ends */
	size_t max_json_body;   /* bytes, 64 MiB: a larger JSON body is 413 */
	unsigned client_rate;   /* requests a second of one client: beyond it 429; 0: any */
	unsigned client_active; /* requests of one client at one time: beyond it 429; 0: any */
	size_t max_unsent; /* bytes, 256 KiB: with more waiting to be sent nothing more is read */
};

/* Workers for archives (workspace/archive.h), made outside of this process. */
struct http_archives {
	/* Has a worker do a job with descriptors of its own; 0 or -errno.  NULL: none can be had.
	 */
	int (*spawn)(void *arg, const void *job, size_t len, const int *fds, size_t n_fds);
	void *arg;
	uv_loop_t *loop; /* the control loop */
	uint64_t max_bytes, max_entries, max_ratio;
	unsigned max_jobs; /* at one time; beyond it 429 */
};

/* Everything is borrowed until http_server_stop(). */
struct http_server_options {
	const char *host; /* numeric IPv4 or IPv6 address */
	uint16_t port;    /* 0: any free one; http_server_port() tells */
	/* Path of a Unix socket to listen on as well, or NULL; a stale one is replaced. */
	const char *socket_path;

	/* who is let in; main refuses a start that binds elsewhere than loopback without any of
	 * these */
	struct peer_uids local_uids;
	const char *const *allowed_origins; /* "https://host[:port]"; exact but for case */
	size_t n_allowed_origins;
	bool allow_unauthenticated;      /* everybody, as if from an allowed loopback uid */
	const struct http_api_key *keys; /* when there is one, loopback callers need it as well */
	size_t n_keys;

	struct ws_registry *registry;
	struct store *store;
	struct quota_service *quota; /* may be NULL: quotas are not served */
	struct nfsd *nfsd;           /* may be NULL: not started */
	struct inode_cache *inodes;  /* may be NULL */
	const char *data_dir;        /* for the free bytes shown by /ready; may be NULL */
	const char *nfs_url_host;    /* WORKSPACE_NFS_HOST; NULL: 127.0.0.1 */
	uint16_t nfs_port;           /* shown in nfs_url; 0: nfs_url is null */

	struct http_limits limits;
	struct http_archives archives;
	bool uses_trash; /* DELETE of a workspace moves it there */
};

/**
 * http_server_start() - bind, listen and serve on @loop
 *
 * Control loop.  Return: 0 with *@ret owned (http_server_stop() ends it), -EADDRINUSE, -EINVAL,
 * -errno with a sentence that names the address.
 */
int http_server_start(uv_loop_t *loop, const struct http_server_options *o,
		      struct http_server **ret, struct err *err);
uint16_t http_server_port(const struct http_server *s);

/**
 * http_server_stop() - stop accepting, finish the requests that run, close, free
 * @deadline_ms:	after it connections are closed whatever they are doing
 *
 * Called on the control loop's thread while uv_run() is not on the stack: it runs the loop itself
 * until everything is closed.  NULL is fine. Return: true when all is freed; false when a pool
 * handler (the removal of a large workspace) still runs after the deadline: then the registry and
 * the store must be left open and the process may _exit().
 */
bool http_server_stop(struct http_server *s, unsigned deadline_ms);

#endif
