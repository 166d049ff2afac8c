/* SPDX-License-Identifier: MIT */
/*
 * What a setting's text must look like.  A start that fails for one of these costs an operator a
 * minute; a daemon that starts with a value it did not understand costs a night.
 */
#include "config_check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "workspace/workspace.h"

bool config_is_one_of(const char *words, const char *value)
{
	size_t n = strlen(value);

	if (strchr(value, '|') != NULL)
		return false;
	for (const char *w = words; w != NULL; w = strchr(w, '|')) {
		if (*w == '|')
			w++;
		if (strncmp(w, value, n) == 0 && (w[n] == '|' || w[n] == '\0'))
			return n > 0;
	}
	return false;
}

int config_parse_bool(const char *value, bool *ret)
{
	static const char *const yes[] = { "1", "true", "yes", "on" };
	static const char *const no[] = { "0", "false", "no", "off" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
			*ret = strcasecmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return -EINVAL;
}

int config_parse_address(const char *value, struct in6_addr *ret)
{
	char mapped[INET6_ADDRSTRLEN + 8];
	struct in_addr v4;

	if (inet_pton(AF_INET6, value, ret) == 1)
		return 0;
	if (inet_pton(AF_INET, value, &v4) != 1)
		return -EINVAL;
	(void)snprintf(mapped, sizeof(mapped), "::ffff:%s", value);
	return inet_pton(AF_INET6, mapped, ret) == 1 ? 0 : -EINVAL;
}

int config_check_bool(const char *value, struct err *err)
{
	bool ignored;

	if (config_parse_bool(value, &ignored) < 0)
		return err_set(err, -EINVAL, "must be 1 or 0 (or true, false, yes, no, on, off)");
	return 0;
}

int config_check_address(const char *value, struct err *err)
{
	struct in6_addr ignored;

	if (config_parse_address(value, &ignored) < 0)
		return err_set(err, -EINVAL, "must be an IPv4 or IPv6 address in numbers");
	return 0;
}

int config_check_size(const char *value, struct err *err)
{
	char digits[24];
	size_t n = strspn(value, "0123456789");
	uint64_t ignored;

	if (n == 0 || n >= sizeof(digits) ||
	    (value[n] != '\0' && (strchr("KMGT", value[n]) == NULL || value[n + 1] != '\0')))
		return err_set(err, -EINVAL,
			       "must be a number of bytes, or one with K, M, G or T behind it");
	memcpy(digits, value, n);
	digits[n] = '\0';
	if (io_parse_u64(digits, 1, UINT64_MAX >> 40, &ignored) < 0)
		return err_set(err, -EINVAL,
			       "must be a number of bytes, or one with K, M, G or T behind it");
	return 0;
}

int config_check_decimal(const char *value, struct err *err)
{
	size_t whole = strspn(value, "0123456789");
	size_t rest = strspn(value + whole, "0123456789.");

	if (whole == 0 || whole > 6 || value[whole + rest] != '\0' ||
	    (rest > 0 && value[whole] != '.') || rest == 1 ||
	    (rest > 1 && strchr(value + whole + 1, '.') != NULL))
		return err_set(err, -EINVAL, "must be a decimal number such as 2 or 0.5");
	return 0;
}

int config_check_database_url(const char *value, struct err *err)
{
	if (strncmp(value, "sqlite:", 7) != 0 || value[7 + strspn(value + 7, "/")] == '\0')
		return err_set(err, -EINVAL,
			       "must be sqlite:PATH, sqlite://PATH or sqlite:///PATH");
	return 0;
}

int config_check_url_path(const char *value, struct err *err)
{
	if (value[0] != '/' || strpbrk(value, "?# ") != NULL)
		return err_set(err, -EINVAL, "must be a path that begins with '/'");
	return 0;
}

int config_check_log(const char *value, struct err *err)
{
	/* Applied at once: the lines about the rest of the settings come out as wanted. */
	return log_configure(value, err);
}

int config_parse_owner(const char *value, uid_t *ret_uid, gid_t *ret_gid)
{
	char uid_text[16];
	const char *colon = strchr(value, ':');
	uint64_t uid, gid;

	if (colon == NULL || (size_t)(colon - value) >= sizeof(uid_text))
		return -EINVAL;
	memcpy(uid_text, value, (size_t)(colon - value));
	uid_text[colon - value] = '\0';
	/* the largest number means "leave as it is" to chown(2) */
	if (io_parse_u64(uid_text, 0, UINT32_MAX - 1, &uid) < 0 ||
	    io_parse_u64(colon + 1, 0, UINT32_MAX - 1, &gid) < 0)
		return -EINVAL;
	*ret_uid = (uid_t)uid;
	*ret_gid = (gid_t)gid;
	return 0;
}

int config_check_owner(const char *value, struct err *err)
{
	uid_t uid;
	gid_t gid;

	if (config_parse_owner(value, &uid, &gid) < 0)
		return err_set(err, -EINVAL, "must be UID:GID in numbers, such as 1000:1000");
	return 0;
}

/* next_item() - one item of a comma list without the blanks around it; false at the end */
static bool next_item(const char **at, const char **ret, size_t *ret_len)
{
	const char *p = *at, *end;

	if (p == NULL)
		return false;
	p += strspn(p, " \t\r\n");
	end = p + strcspn(p, ",");
	*at = *end == ',' ? end + 1 : NULL;
	while (end > p && strchr(" \t\r\n", end[-1]) != NULL)
		end--;
	*ret = p;
	*ret_len = (size_t)(end - p);
	return true;
}

int config_parse_uids(const char *value, struct peer_uids *set)
{
	const char *item;
	size_t len;
	char text[16];
	uint64_t uid;

	while (next_item(&value, &item, &len)) {
		if (len == 1 && *item == '*') {
			set->everyone = true;
			continue;
		}
		if (len >= sizeof(text))
			return -EINVAL;
		memcpy(text, item, len);
		text[len] = '\0';
		if (io_parse_u64(text, 0, UINT32_MAX - 1, &uid) < 0)
			return -EINVAL;
		if (set->n == PEER_UIDS_MAX)
			return -E2BIG;
		set->uid[set->n++] = (uid_t)uid;
	}
	return 0;
}

int config_check_local_uids(const char *value, struct err *err)
{
	struct peer_uids set = { .n = 2 }; /* root and our own come first */
	int rc = config_parse_uids(value, &set);

	if (rc == -E2BIG)
		return err_set(err, rc, "may list %d user numbers at most", PEER_UIDS_MAX - 2);
	if (rc < 0)
		return err_set(err, rc, "must be a comma list of user numbers, or *");
	return 0;
}

int config_check_origins(const char *value, struct err *err)
{
	const char *item;
	size_t len, scheme;

	while (next_item(&value, &item, &len)) {
		scheme = strncmp(item, "https://", 8) == 0  ? 8
			 : strncmp(item, "http://", 7) == 0 ? 7
							    : 0;
		if (scheme == 0 || len == scheme || strcspn(item + scheme, "/ ?#*,") < len - scheme)
			return err_set(err, -EINVAL,
				       "must be a comma list of origins such as "
				       "https://console.example.org, "
				       "without a path");
	}
	return 0;
}

int config_check_dirs(const char *value, struct err *err)
{
	const char *item;
	size_t len;

	while (next_item(&value, &item, &len))
		if (len < 2 || item[0] != '/')
			return err_set(err, -EINVAL,
				       "must be a comma list of absolute directories, not of '/'");
	return 0;
}

/* has_comma() - one outside of brackets */
static bool has_comma(const char *value)
{
	bool in_brackets = false;

	for (; *value != '\0'; value++) {
		if (*value == ',' && !in_brackets)
			return true;
		in_brackets = *value == '(' || (in_brackets && *value != ')');
	}
	return false;
}

int config_check_exports(const char *value, struct err *err)
{
	struct export_rules rules;

	if (export_rules_parse(value, &rules, err) < 0)
		return has_comma(value) ? err_set(err, -EINVAL,
						  "must have spaces between networks, not commas")
					: err_wrap(err, -EINVAL, "not usable");
	return 0;
}

int config_check_key_list(const char *list, struct err *err)
{
	const char *item, *colon;
	size_t len;

	while (next_item(&list, &item, &len)) {
		colon = memchr(item, ':', len);
		if (len == 0 || colon == item || colon == item + len - 1)
			return err_set(
				err, -EINVAL,
				"must be a comma list of keys or name:key, none of them empty");
		for (size_t i = 0; i < len; i++) {
			if (item[i] <= ' ' || item[i] > '~')
				return err_set(err, -EINVAL,
					       "must have keys of printable ASCII characters "
					       "without blanks");
		}
	}
	return 0;
}

int config_check_api_key(const char *value, struct err *err)
{
	if (value[0] != '@')
		return config_check_key_list(value, err);
	if (value[1] == '\0')
		return err_set(err, -EINVAL, "must name a file after the '@'");
	return 0;
}

int config_list_split(const char *text, struct config_list *ret)
{
	struct config_list l = { .text_len = strlen(text), .n = 0 };
	const char *at = text, *item;
	size_t len, n = 0;

	while (next_item(&at, &item, &len))
		n++;
	l.text = strdup(text);
	l.item = calloc(n, sizeof(*l.item));
	if (l.text == NULL || l.item == NULL) {
		config_list_free(&l);
		return -ENOMEM;
	}
	for (at = text; next_item(&at, &item, &len);) {
		l.item[l.n] = l.text + (item - text);
		l.item[l.n++][len] = '\0';
	}
	*ret = l;
	return 0;
}

void config_list_free(struct config_list *l)
{
	if (l->text != NULL)
		explicit_bzero(l->text, l->text_len);
	free(l->text);
	free(l->item);
	*l = (struct config_list){ 0 };
}
