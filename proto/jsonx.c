/* SPDX-License-Identifier: MIT */
/*
 * jansson checks syntax, UTF-8 and numbers, and refuses NUL characters when not asked to allow
 * them.  It goes 2048 levels deep, though, and so would everything that later walks the value:
 * nesting is counted in the bytes before they are parsed.
 *
 * Sentences are our own.  jansson's quote what the client sent, cut anywhere, and could not go into
 * a JSON answer as they are.
 */
#include "proto/jsonx.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"

/* Only brackets outside strings count.  What is no JSON may be counted wrong; the parser refuses
 * it. */
static bool is_too_deep(const char *p, size_t n)
{
	bool in_string = false;
	size_t depth = 0;

	for (size_t i = 0; i < n; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
		} else if (p[i] == '"') {
			in_string = true;
		} else if (p[i] == '{' || p[i] == '[') {
			if (++depth > JSONX_DEPTH_MAX)
				return true;
		} else if (p[i] == '}' || p[i] == ']') {
			depth -= depth > 0;
		}
	}
	return false;
}

static const char *reason_of(const json_error_t *e)
{
	switch (json_error_code(e)) {
	case json_error_premature_end_of_input:
		return "it ends too early";
	case json_error_end_of_input_expected:
		return "something follows behind the end";
	case json_error_invalid_utf8:
		return "not UTF-8";
	case json_error_duplicate_key:
		return "a key occurs twice";
	case json_error_null_character:
	case json_error_null_byte_in_key:
		return "NUL characters are not allowed";
	case json_error_numeric_overflow:
		return "a number is too large";
	default:
		return "syntax error";
	}
}

int jsonx_parse_object(const char *p, size_t n, json_t **ret, struct err *err)
{
	auto_json json_t *j = NULL;
	json_error_t e;

	if (n == 0) {
		j = json_object();
	} else if (is_too_deep(p, n)) {
		return err_set(err, -EINVAL, "JSON: nested deeper than %d levels", JSONX_DEPTH_MAX);
	} else {
		j = json_loadb(p, n, JSON_REJECT_DUPLICATES, &e);
		if (j == NULL && json_error_code(&e) != json_error_out_of_memory)
			return err_set(err, -EINVAL, "JSON, line %d column %d: %s", e.line,
				       e.column, reason_of(&e));
	}
	if (j == NULL)
		return err_set(err, -ENOMEM, "JSON: out of memory");
	if (!json_is_object(j))
		return err_set(err, -EINVAL, "JSON: must be an object");
	*ret = take_ptr(j);
	return 0;
}

/* NULL when @key is absent or null, which mean the same in every request. */
static json_t *find(json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	return json_is_null(v) ? NULL : v;
}

int jsonx_get_string(json_t *o, const char *key, size_t max_bytes, const char **ret,
		     struct err *err)
{
	json_t *v = find(o, key);

	if (v == NULL)
		return 0;
	if (!json_is_string(v) || json_string_length(v) > max_bytes)
		return err_set(err, -EINVAL, "'%s' must be a string of at most %zu bytes", key,
			       max_bytes);
	*ret = json_string_value(v);
	return 1;
}

int jsonx_get_bool(json_t *o, const char *key, bool *ret, struct err *err)
{
	json_t *v = find(o, key);

	if (v == NULL)
		return 0;
	if (!json_is_boolean(v))
		return err_set(err, -EINVAL, "'%s' must be true or false", key);
	*ret = json_is_true(v);
	return 1;
}

int jsonx_get_int(json_t *o, const char *key, int64_t min, int64_t max, int64_t *ret,
		  struct err *err)
{
	json_t *v = find(o, key);

	if (v == NULL)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
		return err_set(err, -EINVAL,
			       "'%s' must be a whole number from %" PRId64 " to %" PRId64, key, min,
			       max);
	*ret = json_integer_value(v);
	return 1;
}

int jsonx_get_object(json_t *o, const char *key, json_t **ret, struct err *err)
{
	json_t *v = find(o, key);

	if (v == NULL)
		return 0;
	if (!json_is_object(v))
		return err_set(err, -EINVAL, "'%s' must be an object", key);
	*ret = v;
	return 1;
}

int jsonx_get_array(json_t *o, const char *key, size_t max_items, json_t **ret, struct err *err)
{
	json_t *v = find(o, key);

	if (v == NULL)
		return 0;
	if (!json_is_array(v) || json_array_size(v) > max_items)
		return err_set(err, -EINVAL, "'%s' must be an array of at most %zu items", key,
			       max_items);
	*ret = v;
	return 1;
}

static bool has_word(const char *words, const char *w)
{
	size_t n = strlen(w);

	for (const char *p = words; *p != '\0'; p += strspn(p, " ")) {
		size_t len = strcspn(p, " ");

		if (len == n && memcmp(p, w, n) == 0)
			return true;
		p += len;
	}
	return false;
}

int jsonx_only(json_t *o, const char *allowed, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach(o, key, value)
	{
		if (!has_word(allowed, key))
			return err_set(err, -EINVAL, "unknown field '%.64s'; allowed are: %s", key,
				       allowed);
	}
	return 0;
}
