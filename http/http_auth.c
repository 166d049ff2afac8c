/* SPDX-License-Identifier: MIT */
/* See http_auth.h. */
#include "http/http_auth.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"

#define DIGEST_LEN                                                                                 \
	32 /* bytes of BLAKE2b; keys are compared by digest, so that lengths do not show */

struct host_port {
	char host[256]; /* lower case, without trailing dot, brackets kept */
	uint16_t port;  /* 0: not given */
};

struct origin {
	struct host_port at;
	bool is_https;
};

struct http_auth {
	bool allow_everyone;
	bool is_bound_to_loopback;
	size_t n_keys, n_origins;
	uint8_t (*keys)[DIGEST_LEN]; /* owned */
	struct origin *origins;      /* owned */
};

/* ---- hosts and origins -------------------------------------------------- */

static bool parse_port(const char *p, uint16_t *ret)
{
	uint64_t v;

	if (io_parse_u64(p, 1, 65535, &v) < 0)
		return false;
	*ret = (uint16_t)v;
	return true;
}

static bool copy_host(const char *p, size_t n, struct host_port *ret)
{
	if (n > 1 && p[n - 1] == '.')
		n--;
	if (n == 0 || n >= sizeof(ret->host))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)p[i]) && strchr("-._[]:", p[i]) == NULL)
			return false;
		ret->host[i] = (char)tolower((unsigned char)p[i]);
	}
	ret->host[n] = '\0';
	return true;
}

/* parse_host_port() - "name", "name:80", "[::1]:80"; the whole text */
static bool parse_host_port(const char *text, struct host_port *ret)
{
	const char *end = text[0] == '[' ? strchr(text, ']') : text + strcspn(text, ":");

	if (end == NULL)
		return false;
	end += text[0] == '[';
	ret->port = 0;
	if (*end == ':' && !parse_port(end + 1, &ret->port))
		return false;
	if (*end != ':' && *end != '\0')
		return false;
	return copy_host(text, (size_t)(end - text), ret);
}

static bool parse_origin(const char *text, struct origin *ret)
{
	if (strncasecmp(text, "http://", 7) == 0)
		ret->is_https = false;
	else if (strncasecmp(text, "https://", 8) == 0)
		ret->is_https = true;
	else
		return false; /* "null" among others */
	if (!parse_host_port(text + (ret->is_https ? 8 : 7), &ret->at))
		return false;
	if (ret->at.port == 0)
		ret->at.port = ret->is_https ? 443 : 80;
	return true;
}

static bool is_ipv4(const char *host, struct in_addr *ret)
{
	return inet_pton(AF_INET, host, ret) == 1;
}

static bool is_ipv6(const char *host, struct in6_addr *ret)
{
	char text[INET6_ADDRSTRLEN];
	size_t n = strlen(host);

	if (n < 4 || n - 2 >= sizeof(text) || host[0] != '[' || host[n - 1] != ']')
		return false;
	memcpy(text, host + 1, n - 2);
	text[n - 2] = '\0';
	return inet_pton(AF_INET6, text, ret) == 1;
}

static bool is_loopback_host(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (strcmp(host, "localhost") == 0)
		return true;
	if (is_ipv4(host, &v4))
		return ntohl(v4.s_addr) >> 24 == 127;
	return is_ipv6(host, &v6) && peer_is_loopback(&v6);
}

/* A host that nobody else can make point at us by DNS. */
static bool is_unspoofable(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	return strcmp(host, "localhost") == 0 || is_ipv4(host, &v4) || is_ipv6(host, &v6);
}

static bool host_is_ours(const struct http_auth *a, const struct host_port *host)
{
	if (!a->is_bound_to_loopback || is_loopback_host(host->host))
		return true;
	for (size_t i = 0; i < a->n_origins; i++)
		if (strcmp(a->origins[i].at.host, host->host) == 0)
			return true;
	return false;
}

static bool origin_is_listed(const struct http_auth *a, const struct origin *o)
{
	for (size_t i = 0; i < a->n_origins; i++)
		if (a->origins[i].is_https == o->is_https && a->origins[i].at.port == o->at.port &&
		    strcmp(a->origins[i].at.host, o->at.host) == 0)
			return true;
	return false;
}

static bool origin_is_ours(const struct origin *o, const struct host_port *host)
{
	uint16_t port = host->port != 0 ? host->port : o->is_https ? 443 : 80;

	return is_unspoofable(o->at.host) && o->at.port == port &&
	       strcmp(o->at.host, host->host) == 0;
}

enum http_page_verdict http_auth_page(const struct http_auth *a, const struct http_page *page,
				      bool *ret_cors)
{
	struct host_port host = { 0 };
	struct origin origin;

	*ret_cors = false;
	if (page->host != NULL && (!parse_host_port(page->host, &host) || !host_is_ours(a, &host)))
		return HTTP_PAGE_BAD_HOST;
	if (page->origin != NULL) {
		if (!parse_origin(page->origin, &origin))
			return HTTP_PAGE_BAD_ORIGIN;
		if (origin_is_listed(a, &origin)) {
			*ret_cors = true;
			return HTTP_PAGE_OK;
		}
		if (!origin_is_ours(&origin, &host))
			return HTTP_PAGE_BAD_ORIGIN;
	}
	if (page->sec_fetch_site != NULL && (strcasecmp(page->sec_fetch_site, "cross-site") == 0 ||
					     strcasecmp(page->sec_fetch_site, "same-site") == 0))
		return HTTP_PAGE_BAD_ORIGIN;
	return HTTP_PAGE_OK;
}

/* ---- callers ------------------------------------------------------------ */

static void digest(uint8_t out[DIGEST_LEN], const char *secret, size_t n)
{
	(void)crypto_generichash(out, DIGEST_LEN, (const unsigned char *)secret, n, NULL, 0);
}

static bool key_matches(const struct http_auth *a, const char *authorization)
{
	uint8_t got[DIGEST_LEN];
	const char *secret;
	int hit = 0;

	if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
		return false;
	secret = authorization + 7 + strspn(authorization + 7, " ");
	digest(got, secret, strlen(secret));
	for (size_t i = 0; i < a->n_keys; i++) /* all of them: the time tells nothing of which */
		hit |= sodium_memcmp(got, a->keys[i], DIGEST_LEN) == 0;
	return hit != 0;
}

bool http_auth_caller(const struct http_auth *a, const struct http_peer *peer,
		      const char *authorization)
{
	if (a->n_keys > 0)
		return key_matches(a, authorization);
	return a->allow_everyone || (peer->is_loopback && peer->uid_ok);
}

/* ---- setting up --------------------------------------------------------- */

static int load_keys(struct http_auth *a, const struct http_server_options *o, struct err *err)
{
	a->keys = calloc(o->n_keys + 1, sizeof(*a->keys));
	if (a->keys == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < o->n_keys; i++) {
		if (o->keys[i].secret == NULL || o->keys[i].secret[0] == '\0')
			return err_set(err, -EINVAL, "API key %zu is empty", i + 1);
		digest(a->keys[i], o->keys[i].secret, strlen(o->keys[i].secret));
	}
	a->n_keys = o->n_keys;
	return 0;
}

static int load_origins(struct http_auth *a, const struct http_server_options *o, struct err *err)
{
	a->origins = calloc(o->n_allowed_origins + 1, sizeof(*a->origins));
	if (a->origins == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < o->n_allowed_origins; i++)
		if (!parse_origin(o->allowed_origins[i], &a->origins[i]))
			return err_set(err, -EINVAL,
				       "allowed origin '%.100s' must be http(s)://host[:port]",
				       o->allowed_origins[i]);
	a->n_origins = o->n_allowed_origins;
	return 0;
}

static bool bind_is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (host == NULL || inet_pton(AF_INET, host, &v4) == 1)
		return host == NULL || ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, host, &v6) == 1 && peer_is_loopback(&v6);
}

int http_auth_new(const struct http_server_options *o, struct http_auth **ret, struct err *err)
{
	struct http_auth *a = calloc(1, sizeof(*a));
	int rc;

	if (a == NULL || sodium_init() < 0) {
		free(a);
		return err_set(err, -ENOMEM, "out of memory");
	}
	a->allow_everyone = o->allow_unauthenticated;
	a->is_bound_to_loopback = bind_is_loopback(o->host);
	rc = load_keys(a, o, err);
	if (rc == 0)
		rc = load_origins(a, o, err);
	if (rc < 0) {
		http_auth_free(a);
		return rc;
	}
	*ret = a;
	return 0;
}

void http_auth_free(struct http_auth *a)
{
	if (a == NULL)
		return;
	free(a->keys);
	free(a->origins);
	free(a);
}
