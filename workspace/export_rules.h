/* SPDX-License-Identifier: MIT */
/*
 * Who may mount a workspace, and as whom: a small set of networks with options.  A value without
 * memory of its own, so that it can be copied, published and compared freely.  Text is what an
 * operator writes in WORKSPACE_NFS_EXPORTS, JSON is what the API takes and the store keeps.  All
 * functions: any thread.
 */
#ifndef WORKSPACE_EXPORT_RULES_H
#define WORKSPACE_EXPORT_RULES_H

#include <jansson.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum export_mode {
	EXPORT_SQUASH, /* any uid of an allowed client acts as the owner */
	EXPORT_MATCH,  /* uid 0 and the owner's uid do, others by the mode's "other" bits */
};

struct export_net {
	struct in6_addr addr; /* IPv4 as ::ffff:a.b.c.d */
	uint8_t prefix;       /* bits of the 128: an IPv4 /24 is 120 */
	bool read_only;
};

#define EXPORT_NETS_MAX 32 /* more than anybody lists by hand; each is compared on every call */

/* Immutable once published: a change replaces the whole. */
struct export_rules {
	enum export_mode mode;
	bool read_only;
	unsigned n_nets; /* 0: loopback clients only */
	struct export_net nets[EXPORT_NETS_MAX];
};

/**
 * export_net_parse() - "10.0.0.0/8", "192.168.1.7", "fd00::/8" or "*" (everyone)
 *
 * Host bits that are set are refused, since they usually are a mistake.
 * Return: 0, or -EINVAL with what is allowed in @err.
 */
int export_net_parse(const char *text, struct export_net *ret, struct err *err);

/* export_net_format() - the text that export_net_parse() takes; @dst >= EXPORT_NET_TEXT bytes;
 * returns @dst */
#define EXPORT_NET_TEXT 64
char *export_net_format(char *dst, size_t dst_len, const struct export_net *net);

/**
 * export_rules_parse() - the value of WORKSPACE_NFS_EXPORTS: rules for workspaces without their own
 *
 * Space-separated networks, each with optional options in brackets:
 * "10.0.0.0/8(ro) 192.168.1.5(rw)"; a word "mode=squash" or "mode=match", or "ro", applies to all.
 *
 * Return: 0, or -EINVAL with a sentence that names the word.
 */
int export_rules_parse(const char *text, struct export_rules *ret, struct err *err);

/**
 * export_rules_from_json() - rules from {"mode":"squash","read_only":false,"clients":[]}
 * @o:		borrowed; what is absent is as in the line above.  A network is
 *		{"network":"10.0.0.0/8","read_only":true} or its text alone.
 *
 * Return: 0, or -EINVAL with a sentence that names the field.
 */
int export_rules_from_json(json_t *o, struct export_rules *ret, struct err *err);
json_t *export_rules_to_json(const struct export_rules *r); /* owned; NULL when out of memory */

/**
 * export_rules_match() - does a client address pass?
 * @addr:		IPv4-mapped for IPv4
 * @ret_read_only:	set on true: by the whole export or by the longest matching network
 *
 * Pure.
 */
bool export_rules_match(const struct export_rules *r, const struct in6_addr *addr,
			bool *ret_read_only);

/* export_rules_are_same() - the same networks in the same order, and the same options; pure */
bool export_rules_are_same(const struct export_rules *a, const struct export_rules *b);

#endif
