/* SPDX-License-Identifier: MIT */
/*
 * Names and link targets of archives, and notes of a worker.  A name that is taken is a relative
 * path that stays below where it starts, and parses to itself.
 */
#include <string.h>

#include "fuzz.h"
#include "workspace/archive.h"

static void check_path(const char *path)
{
	char again[ARC_PATH_MAX];
	enum arc_reason why;
	size_t n;

	MUST(path[0] != '/' && strlen(path) < ARC_PATH_MAX);
	MUST(arc_name_parse(path, again, &why) == 0 && strcmp(path, again) == 0);
	while (*path != '\0') {
		n = strcspn(path, "/");
		MUST(n > 0 && n <= 255);
		MUST(!(n == 1 && path[0] == '.') && !(n == 2 && path[0] == '.' && path[1] == '.'));
		path += n;
		path += *path == '/';
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[16384];
	static struct arc_note note;
	char path[ARC_PATH_MAX];
	enum arc_reason why = ARC_R_NONE;
	size_t n = size < sizeof(text) - 1 ? size : sizeof(text) - 1;

	if (size == 0)
		return 0;
	memcpy(text, data, n);
	text[n] = '\0';
	if (arc_name_parse(text, path, &why) == 0) {
		check_path(path);
		MUST(!arc_link_leads_out("", path));
	} else {
		MUST(why != ARC_R_NONE && why < ARC_N_REASONS);
	}
	if (text[0] == '/')
		MUST(arc_link_leads_out(text, text));
	memcpy(&note, data, size < sizeof(note) ? size : sizeof(note));
	if (arc_note_check(&note, size))
		MUST(size <= sizeof(note) && note.len <= sizeof(note.text));
	return 0;
}
