/* SPDX-License-Identifier: MIT */
/*
 * What a client sends about a file: its path, a Range, conditions.  The first byte chooses; what is
 * accepted must have the form that the rest of the program relies on.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "http/http_range.h"
#include "workspace/files.h"

static void path(const char *text, size_t n)
{
	char rel[FILES_PATH_MAX + 1], again[FILES_PATH_MAX + 1];
	int rc = files_path_parse(text, n, rel);

	if (rc < 0) {
		MUST(rc == -EXDEV || rc == -EINVAL || rc == -ENAMETOOLONG);
		return;
	}
	MUST(strlen(rel) <= FILES_PATH_MAX && rel[0] != '/');
	MUST(files_path_parse(rel, strlen(rel), again) == 0 && strcmp(rel, again) == 0);
	for (const char *p = rel; *p != '\0';) {
		size_t part = strcspn(p, "/");

		MUST(part > 0 && part <= 255);
		MUST(strncmp(p, ".", part) != 0 && strncmp(p, "..", part) != 0);
		MUST(p[part] == '\0' || p[part + 1] != '\0');
		p += part + (p[part] == '/');
	}
}

static void range(const char *text)
{
	static const uint64_t sizes[] = { 0, 1, 1000, UINT64_MAX };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint64_t off = 0, len = 0;

		if (http_range_parse(text, sizes[i], &off, &len) != HTTP_RANGE_PART)
			continue;
		MUST(len > 0 && off < sizes[i] && len <= sizes[i] - off);
	}
}

static void condition(const char *text)
{
	struct files_condition c;
	bool none_match;

	if (files_condition_parse(&c, text, NULL) < 0)
		return;
	MUST(files_condition_check(&c, NULL, &none_match) == -EBADE && !none_match);
	(void)files_condition_check(&c, "\"a\"", &none_match);
	MUST(files_condition_parse(&c, NULL, text) == 0);
	MUST(files_condition_check(&c, NULL, &none_match) == 0);
	/* what is matched strongly is matched weakly */
	c.if_match = text;
	MUST(files_condition_check(&c, "\"a\"", &none_match) == -EBADE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = malloc(size); /* of its own size, so that reading past it shows */
	MUST(text != NULL);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] == 'p')
		path(text, size - 1);
	else if (data[0] == 'r')
		range(text);
	else
		condition(text);
	free(text);
	return 0;
}
