/* SPDX-License-Identifier: MIT */
/* What the files of the archive worker share (see archive.h). */
#ifndef WORKSPACE_ARCHIVE_PRIV_H
#define WORKSPACE_ARCHIVE_PRIV_H

#include "base/err.h"
#include "workspace/archive.h"

struct arc_run {
	const struct arc_job *job; /* borrowed */
	int root, data, note;      /* borrowed descriptors */
	uint64_t n_entries, n_bytes, n_skipped;
	struct err err; /* why the whole job failed */
};

/* arc_skip() - tell of an entry that is left out */
void arc_skip(struct arc_run *run, const char *name, enum arc_reason why);
/* arc_tell() - send a note; 0 or -errno */
int arc_tell(const struct arc_run *run, struct arc_note *note, const void *text, size_t len);

int arc_pack(struct arc_run *run);
int arc_unpack(struct arc_run *run);

#endif
