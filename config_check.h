/* SPDX-License-Identifier: MIT */
/*
 * Texts of settings: parsers, and checks whose sentence goes on after the setting's name ("must be
 * ..."). A sentence never repeats the value, which may be a secret.  Pure but for
 * config_check_log(); any thread.
 */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/peer.h"

/* Each returns 0 or -EINVAL. */
int config_parse_bool(const char *value, bool *ret);
int config_parse_owner(const char *value, uid_t *ret_uid, gid_t *ret_gid); /* "1000:1000" */
/* IPv4 comes out as ::ffff:a.b.c.d, so that one test serves both families. */
int config_parse_address(const char *value, struct in6_addr *ret);
/* Adds the uids of a comma list to @set; "*" sets everyone.  -E2BIG when it is full. */
int config_parse_uids(const char *value, struct peer_uids *set);

/* The items of a comma list, with the blanks around each taken off. */
struct config_list {
	char **item; /* owned; the texts lie in @text */
	char *text;  /* owned */
	size_t text_len;
	size_t n;
};
int config_list_split(const char *text, struct config_list *ret); /* 0 or -ENOMEM */
void config_list_free(struct config_list *l);                     /* overwrites the text */

/* config_is_one_of() - is @value one of @words, which '|' separates? */
bool config_is_one_of(const char *words, const char *value);

typedef int config_check_fn(const char *value, struct err *err);
config_check_fn config_check_bool, config_check_address, config_check_size, config_check_decimal,
	config_check_database_url, config_check_url_path, config_check_owner,
	config_check_local_uids, config_check_origins, config_check_exports, config_check_api_key,
	config_check_dirs, config_check_key_list, /* what is behind "@FILE" */
	config_check_log; /* also applies it: lines about the other settings then come out as wanted
			   */

#endif
