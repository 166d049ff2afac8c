/* SPDX-License-Identifier: MIT */
/*
 * JSON from outside, and only here.  jansson does the parsing; what is added: a limit on nesting,
 * duplicate keys refused, NUL bytes refused, and typed getters whose errors name the field and what
 * is allowed.
 */
#ifndef PROTO_JSONX_H
#define PROTO_JSONX_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

static inline void cleanup_json_(json_t **j)
{
	json_decref(*j);
}
#define auto_json __attribute__((cleanup(cleanup_json_)))

#define JSONX_DEPTH_MAX 64

/* jsonx_parse_object() - owned object, or -EINVAL with a sentence.  Empty input is {}. */
int jsonx_parse_object(const char *p, size_t n, json_t **ret, struct err *err);

/* Getters: 1 found, 0 absent or null, -EINVAL of another type or out of range ("'name' must be a
 * string of at most 255 bytes").  Results are borrowed from @o. */
int jsonx_get_string(json_t *o, const char *key, size_t max_bytes, const char **ret,
		     struct err *err);
/* jsonx_only() - 0, or -EINVAL when @o has a key that is not among the space-separated words of @allowed.
 * For objects where a misspelt key would leave a door open; elsewhere unknown keys are ignored. */
int jsonx_only(json_t *o, const char *allowed, struct err *err);
int jsonx_get_bool(json_t *o, const char *key, bool *ret, struct err *err);
int jsonx_get_int(json_t *o, const char *key, int64_t min, int64_t max, int64_t *ret,
		  struct err *err);
int jsonx_get_object(json_t *o, const char *key, json_t **ret, struct err *err);
int jsonx_get_array(json_t *o, const char *key, size_t max_items, json_t **ret, struct err *err);

#endif
