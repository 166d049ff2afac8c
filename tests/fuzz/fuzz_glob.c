/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a pattern and a path, cut at the first LF.  A pattern is taken or refused with a
 * sentence; a path whose special characters are escaped matches itself.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "workspace/glob.h"

static void must_match_itself(const char *path, size_t n)
{
	struct buf pattern = { 0 };
	struct glob *g;

	if (n == 0 || n >= GLOB_PATTERN_MAX / 2 || path[0] == '/' || path[n - 1] == '/')
		return;
	MUST(buf_append(&pattern, "/", 1) == 0);
	for (size_t i = 0; i < n; i++) {
		if (memchr("*?[]{},\\", path[i], 8) != NULL)
			MUST(buf_append(&pattern, "\\", 1) == 0);
		MUST(buf_append(&pattern, path + i, 1) == 0);
	}
	MUST(glob_new((const char *)pattern.data, pattern.len, &g, NULL) == 0);
	MUST(glob_match(g, path, n));
	glob_free(g);
	buf_free(&pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *lf = memchr(p, '\n', size), *path;
	size_t n = lf != NULL ? (size_t)(lf - p) : size, path_len;
	struct glob *g;
	struct err err = { 0 };
	int rc;

	path = lf != NULL ? lf + 1 : p + size;
	path_len = (size_t)(p + size - path);
	rc = glob_new(p, n, &g, &err);
	MUST(rc == 0 || rc == -EINVAL);
	MUST(rc == 0 || err.msg[0] != '\0');
	if (rc == 0) {
		(void)glob_match(g, path, path_len);
		glob_free(g);
	}
	must_match_itself(path, path_len);
	return 0;
}
