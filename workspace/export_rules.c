/* SPDX-License-Identifier: MIT */
/* Export rules as text, as JSON, and asked about an address (see export_rules.h). */
#include "workspace/export_rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/peer.h"
#include "proto/jsonx.h"

#define V4_MAPPED_BITS 96 /* bits before an IPv4 address in its mapped form */
#define WORD_MAX       80 /* bytes: the longest IPv6 network with "(ro)" and room */

static const char *const mode_names[] = { [EXPORT_SQUASH] = "squash", [EXPORT_MATCH] = "match" };

/* ---- one network -------------------------------------------------------- */

static bool is_v4_mapped(const struct in6_addr *addr)
{
	return IN6_IS_ADDR_V4MAPPED(addr);
}

/* Address without a prefix; *@ret_bits is how many bits the text form has (32 or 128). */
static bool parse_addr(const char *text, struct in6_addr *ret, unsigned *ret_bits)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		*ret = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
		memcpy(&ret->s6_addr[12], &v4, sizeof(v4));
		*ret_bits = 32;
		return true;
	}
	*ret_bits = 128;
	return inet_pton(AF_INET6, text, ret) == 1;
}

static bool has_bit(const struct in6_addr *addr, unsigned bit)
{
	return (addr->s6_addr[bit / 8] & (0x80u >> (bit % 8))) != 0;
}

static bool has_host_bits(const struct in6_addr *addr, unsigned prefix)
{
	for (unsigned bit = prefix; bit < 128; bit++)
		if (has_bit(addr, bit))
			return true;
	return false;
}

static int refuse_net(const char *text, const char *why, struct err *err)
{
	return err_set(err, -EINVAL,
		       "network '%.60s': %s; allowed are an address, ADDRESS/BITS, or '*'", text,
		       why);
}

int export_net_parse(const char *text, struct export_net *ret, struct err *err)
{
	struct export_net net = { 0 };
	char addr[WORD_MAX];
	const char *slash = strchr(text, '/');
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
	unsigned bits;
	uint64_t prefix;

	if (strcmp(text, "*") == 0) {
		*ret = net;
		return 0;
	}
	if (len >= sizeof(addr))
		return refuse_net(text, "too long", err);
	memcpy(addr, text, len);
	addr[len] = '\0';
	if (!parse_addr(addr, &net.addr, &bits))
		return refuse_net(text, "not an IPv4 or IPv6 address", err);
	prefix = bits;
	if (slash != NULL && io_parse_u64(slash + 1, 0, bits, &prefix) < 0)
		return refuse_net(text, "the number of bits is out of range", err);
	prefix += 128 - bits;
	if (has_host_bits(&net.addr, (unsigned)prefix))
		return refuse_net(text, "bits behind the prefix are set", err);
	net.prefix = (uint8_t)prefix;
	*ret = net;
	return 0;
}

char *export_net_format(char *dst, size_t dst_len, const struct export_net *net)
{
	char addr[INET6_ADDRSTRLEN] = "";
	bool v4 = is_v4_mapped(&net->addr) && net->prefix >= V4_MAPPED_BITS;
	unsigned bits = v4 ? net->prefix - V4_MAPPED_BITS : net->prefix;

	if (net->prefix == 0) {
		(void)snprintf(dst, dst_len, "*");
		return dst;
	}
	if (v4)
		(void)inet_ntop(AF_INET, &net->addr.s6_addr[12], addr, sizeof(addr));
	else
		(void)inet_ntop(AF_INET6, &net->addr, addr, sizeof(addr));
	if (net->prefix == 128)
		(void)snprintf(dst, dst_len, "%s", addr);
	else
		(void)snprintf(dst, dst_len, "%s/%u", addr, bits);
	return dst;
}

/* ---- a set of rules as text --------------------------------------------- */

static int add_net(struct export_rules *r, const struct export_net *net, struct err *err)
{
	if (r->n_nets == EXPORT_NETS_MAX)
		return err_set(err, -EINVAL, "export rules: at most %d networks", EXPORT_NETS_MAX);
	r->nets[r->n_nets++] = *net;
	return 0;
}

static int parse_mode(const char *name, enum export_mode *ret, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(mode_names); i++) {
		if (strcmp(name, mode_names[i]) == 0) {
			*ret = (enum export_mode)i;
			return 0;
		}
	}
	return err_set(err, -EINVAL, "export rules: mode '%.40s' must be squash or match", name);
}

/* "10.0.0.0/8(ro)": cuts the options off @word. */
static int parse_net_word(char *word, struct export_rules *r, struct err *err)
{
	struct export_net net;
	bool read_only = false;
	char *open = strchr(word, '(');
	int rc;

	if (open != NULL) {
		if (strcmp(open, "(ro)") == 0)
			read_only = true;
		else if (strcmp(open, "(rw)") != 0)
			return err_set(err, -EINVAL,
				       "export rules: '%.70s': options are (ro) or (rw)", word);
		*open = '\0';
	}
	rc = export_net_parse(word, &net, err);
	if (rc < 0)
		return err_wrap(err, rc, "export rules");
	net.read_only = read_only;
	return add_net(r, &net, err);
}

static int parse_word(char *word, struct export_rules *r, struct err *err)
{
	static const char mode_key[] = "mode=";

	if (strcmp(word, "ro") == 0) {
		r->read_only = true;
		return 0;
	}
	if (strncmp(word, mode_key, strlen(mode_key)) == 0)
		return parse_mode(word + strlen(mode_key), &r->mode, err);
	return parse_net_word(word, r, err);
}

int export_rules_parse(const char *text, struct export_rules *ret, struct err *err)
{
	static const char blanks[] = " \t\n";
	struct export_rules r = { .mode = EXPORT_SQUASH };

	for (const char *p = text + strspn(text, blanks); *p != '\0'; p += strspn(p, blanks)) {
		size_t len = strcspn(p, blanks);
		char word[WORD_MAX];
		int rc;

		if (len >= sizeof(word))
			return err_set(err, -EINVAL, "export rules: '%.40s...' is too long", p);
		memcpy(word, p, len);
		word[len] = '\0';
		rc = parse_word(word, &r, err);
		if (rc < 0)
			return rc;
		p += len;
	}
	*ret = r;
	return 0;
}

/* ---- as JSON ------------------------------------------------------------ */

static int net_from_json(json_t *item, struct export_net *ret, struct err *err)
{
	const char *text = json_string_value(item);
	bool read_only = false;
	int rc;

	if (text == NULL) {
		if (!json_is_object(item))
			return err_set(err, -EINVAL,
				       "'clients' must hold texts or objects with 'network'");
		rc = jsonx_only(item, "network read_only", err);
		if (rc == 0)
			rc = jsonx_get_string(item, "network", WORD_MAX - 1, &text, err);
		if (rc == 0)
			return err_set(err, -EINVAL, "'network' is missing in 'clients'");
		if (rc > 0)
			rc = jsonx_get_bool(item, "read_only", &read_only, err);
		if (rc < 0)
			return rc;
	}
	rc = export_net_parse(text, ret, err);
	ret->read_only = read_only;
	return rc;
}

static int nets_from_json(json_t *list, struct export_rules *r, struct err *err)
{
	struct export_net net;
	json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		int rc = net_from_json(item, &net, err);

		if (rc == 0)
			rc = add_net(r, &net, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int export_rules_from_json(json_t *o, struct export_rules *ret, struct err *err)
{
	struct export_rules r = { .mode = EXPORT_SQUASH };
	const char *mode = NULL;
	json_t *list = NULL;
	/* a misspelt "clients" must not leave a workspace open that was meant to be closed */
	int rc = jsonx_only(o, "mode read_only clients default is_default", err);

	if (rc == 0)
		rc = jsonx_get_string(o, "mode", 16, &mode, err);
	if (rc > 0)
		rc = parse_mode(mode, &r.mode, err);
	if (rc >= 0)
		rc = jsonx_get_bool(o, "read_only", &r.read_only, err);
	if (rc >= 0)
		rc = jsonx_get_array(o, "clients", EXPORT_NETS_MAX, &list, err);
	if (rc > 0)
		rc = nets_from_json(list, &r, err);
	if (rc < 0)
		return rc;
	*ret = r;
	return 0;
}

static json_t *net_to_json(const struct export_net *net)
{
	char text[EXPORT_NET_TEXT];

	return json_pack("{s:s, s:b}", "network", export_net_format(text, sizeof(text), net),
			 "read_only", net->read_only);
}

json_t *export_rules_to_json(const struct export_rules *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < r->n_nets; i++) {
		if (json_array_append_new(list, net_to_json(&r->nets[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:s, s:b, s:o}", "mode", mode_names[r->mode], "read_only", r->read_only,
			 "clients", list);
}

/* ---- asked about an address --------------------------------------------- */

static bool net_contains(const struct export_net *net, const struct in6_addr *addr)
{
	unsigned bytes = net->prefix / 8;
	unsigned rest = net->prefix % 8;
	unsigned mask = 0xff00u >> rest & 0xffu;

	if (memcmp(addr->s6_addr, net->addr.s6_addr, bytes) != 0)
		return false;
	return rest == 0 || ((addr->s6_addr[bytes] ^ net->addr.s6_addr[bytes]) & mask) == 0;
}

bool export_rules_match(const struct export_rules *r, const struct in6_addr *addr,
			bool *ret_read_only)
{
	int best = -1;
	bool read_only = false;

	if (r->n_nets == 0) {
		*ret_read_only = r->read_only;
		return peer_is_loopback(addr);
	}
	for (unsigned i = 0; i < r->n_nets; i++) {
		const struct export_net *net = &r->nets[i];

		if ((int)net->prefix < best || !net_contains(net, addr))
			continue;
		/* The same network twice: the stricter of the two. */
		read_only = net->read_only || ((int)net->prefix == best && read_only);
		best = net->prefix;
	}
	if (best < 0)
		return false;
	*ret_read_only = r->read_only || read_only;
	return true;
}

static bool nets_are_same(const struct export_net *a, const struct export_net *b)
{
	return a->prefix == b->prefix && a->read_only == b->read_only &&
	       memcmp(&a->addr, &b->addr, sizeof(a->addr)) == 0;
}

bool export_rules_are_same(const struct export_rules *a, const struct export_rules *b)
{
	if (a->mode != b->mode || a->read_only != b->read_only || a->n_nets != b->n_nets)
		return false;
	for (unsigned i = 0; i < a->n_nets; i++)
		if (!nets_are_same(&a->nets[i], &b->nets[i]))
			return false;
	return true;
}
