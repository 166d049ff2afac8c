/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a JSON body.  An object comes back with its nesting within the limit; a refusal
 * comes with a sentence of printable ASCII, whatever the input held.
 */
#include <errno.h>

#include "fuzz.h"
#include "proto/jsonx.h"

static void check_depth(json_t *j, unsigned depth)
{
	const char *key;
	json_t *v;
	size_t i;

	MUST(depth <= JSONX_DEPTH_MAX + 1);
	json_object_foreach(j, key, v) check_depth(v, depth + 1);
	json_array_foreach(j, i, v) check_depth(v, depth + 1);
}

static void check_sentence(const struct err *e)
{
	MUST(e->msg[0] != '\0');
	for (const char *p = e->msg; *p != '\0'; p++)
		MUST(*p >= ' ' && *p < 0x7f);
}

/* No getter may fail on a key without saying why, and none may crash. */
static void run_getters(json_t *o)
{
	struct err e = { 0 };
	const char *s;
	json_t *v;
	int64_t i;
	bool b;

	if (jsonx_get_string(o, "a", 8, &s, &e) < 0 || jsonx_get_bool(o, "b", &b, &e) < 0 ||
	    jsonx_get_int(o, "c", -8, 8, &i, &e) < 0 || jsonx_get_object(o, "d", &v, &e) < 0 ||
	    jsonx_get_array(o, "e", 8, &v, &e) < 0)
		check_sentence(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_json json_t *j = NULL;
	struct err e = { 0 };
	int rc = jsonx_parse_object((const char *)data, size, &j, &e);

	MUST(rc == 0 || rc == -EINVAL);
	if (rc < 0) {
		MUST(j == NULL);
		check_sentence(&e);
		return 0;
	}
	MUST(json_is_object(j));
	check_depth(j, 1);
	run_getters(j);
	return 0;
}
