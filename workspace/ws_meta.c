/* SPDX-License-Identifier: MIT */
/* Name and metadata of a workspace (see ws_meta.h). */
#include "workspace/ws_meta.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/jsonx.h"

/* ---- UTF-8 -------------------------------------------------------------- */

/* By the number of leading one bits of the first byte; smaller code points would be overlong. */
static const struct utf8_form {
	uint8_t lead_mask, lead_bits;
	uint32_t min;
} utf8_forms[] = {
	{ 0x80, 0x00, 0x0 },
	{ 0xe0, 0xc0, 0x80 },
	{ 0xf0, 0xe0, 0x800 },
	{ 0xf8, 0xf0, 0x10000 },
};

/* One code point from NUL-terminated text.  Return: bytes used, 0 when it is not UTF-8. */
static size_t utf8_next(const char *s, uint32_t *ret)
{
	const uint8_t *p = (const uint8_t *)s;

	for (size_t i = 0; i < sizeof(utf8_forms) / sizeof(utf8_forms[0]); i++) {
		const struct utf8_form *f = &utf8_forms[i];
		uint32_t c;

		if ((p[0] & f->lead_mask) != f->lead_bits)
			continue;
		c = p[0] & (uint8_t)~f->lead_mask;
		for (size_t k = 1; k <= i; k++) {
			if ((p[k] & 0xc0) != 0x80) /* also ends at the NUL */
				return 0;
			c = c << 6 | (p[k] & 0x3f);
		}
		if (c < f->min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
			return 0;
		*ret = c;
		return i + 1;
	}
	return 0;
}

static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f);
}

enum text_rule { TEXT_UTF8, TEXT_UTF8_PRINTABLE };

static bool text_is_ok(const char *s, enum text_rule rule)
{
	uint32_t c = 0;

	while (*s != '\0') {
		size_t n = utf8_next(s, &c);

		if (n == 0 || (rule == TEXT_UTF8_PRINTABLE && is_control(c)))
			return false;
		s += n;
	}
	return true;
}

/* ---- what is acceptable ------------------------------------------------- */

int ws_name_check(const char *name, struct err *err)
{
	if (strlen(name) > WS_NAME_MAX)
		return err_set(err, -EINVAL, "'name' must be at most %d bytes", WS_NAME_MAX);
	if (!text_is_ok(name, TEXT_UTF8_PRINTABLE))
		return err_set(err, -EINVAL, "'name' must be UTF-8 without control characters");
	return 0;
}

static int check_pair(const struct ws_pair *p, struct err *err)
{
	if (strlen(p->key) > WS_META_KEY_MAX)
		return err_set(err, -EINVAL, "a key in 'metadata' must be at most %d bytes",
			       WS_META_KEY_MAX);
	if (!text_is_ok(p->key, TEXT_UTF8_PRINTABLE))
		return err_set(err, -EINVAL,
			       "a key in 'metadata' must be UTF-8 without control characters");
	if (strlen(p->value) > WS_META_VALUE_MAX)
		return err_set(err, -EINVAL, "'metadata.%s' must be at most %d bytes", p->key,
			       WS_META_VALUE_MAX);
	if (!text_is_ok(p->value, TEXT_UTF8))
		return err_set(err, -EINVAL, "'metadata.%s' must be UTF-8", p->key);
	return 0;
}

int ws_meta_check(const struct ws_pair *pairs, size_t n, struct err *err)
{
	if (n > WS_META_PAIRS_MAX)
		return err_set(err, -EINVAL, "'metadata' must have at most %d pairs",
			       WS_META_PAIRS_MAX);
	for (size_t i = 0; i < n; i++) {
		int rc = check_pair(&pairs[i], err);

		if (rc < 0)
			return rc;
		for (size_t k = 0; k < i; k++)
			if (strcmp(pairs[k].key, pairs[i].key) == 0)
				return err_set(err, -EINVAL, "'metadata.%s' is given twice",
					       pairs[i].key);
	}
	return 0;
}

/* ---- memory and JSON ---------------------------------------------------- */

void ws_meta_free(struct ws_pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(pairs[i].key);
		free(pairs[i].value);
	}
	free(pairs);
}

static bool set_pair(struct ws_pair *dst, const char *key, const char *value)
{
	dst->key = strdup(key);
	dst->value = strdup(value);
	return dst->key != NULL && dst->value != NULL;
}

int ws_meta_copy(const struct ws_pair *pairs, size_t n, struct ws_pair **ret)
{
	struct ws_pair *copy = NULL;

	if (n > 0) {
		copy = calloc(n, sizeof(*copy));
		if (copy == NULL)
			return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		if (!set_pair(&copy[i], pairs[i].key, pairs[i].value)) {
			ws_meta_free(copy, n);
			return -ENOMEM;
		}
	}
	*ret = copy;
	return 0;
}

char *ws_meta_to_json(const struct ws_pair *pairs, size_t n)
{
	auto_json json_t *o = json_object();

	for (size_t i = 0; i < n; i++)
		if (json_object_set_new(o, pairs[i].key, json_string(pairs[i].value)) < 0)
			return NULL;
	return json_dumps(o, JSON_COMPACT);
}

int ws_meta_from_json(const char *json, struct ws_pair **ret, size_t *ret_n, struct err *err)
{
	struct ws_pair pairs[WS_META_PAIRS_MAX]; /* borrows from o */
	auto_json json_t *o = NULL;
	const char *key;
	json_t *value;
	size_t n = 0;
	int rc = jsonx_parse_object(json, strlen(json), &o, err);

	if (rc < 0)
		return rc;
	json_object_foreach(o, key, value)
	{
		if (n == WS_META_PAIRS_MAX || !json_is_string(value))
			return err_set(err, -EINVAL, "metadata must be at most %d texts",
				       WS_META_PAIRS_MAX);
		pairs[n].key = (char *)(uintptr_t)key;
		pairs[n].value = (char *)(uintptr_t)json_string_value(value);
		n++;
	}
	rc = ws_meta_copy(pairs, n, ret);
	if (rc < 0)
		return err_set(err, rc, "out of memory");
	*ret_n = n;
	return 0;
}
