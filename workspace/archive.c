/* SPDX-License-Identifier: MIT */
/* Names, notes and the worker's frame (see archive.h). */
#include "workspace/archive.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "workspace/archive_priv.h"
#include "workspace/path.h"

const char *const arc_format_names[ARC_N_FORMATS] = {
	[ARC_AUTO] = "auto",
	[ARC_TAR] = "tar",
	[ARC_TAR_GZ] = "tar.gz",
	[ARC_ZIP] = "zip",
};

int arc_format_by_name(const char *name)
{
	for (int i = 0; i < ARC_N_FORMATS; i++)
		if (strcmp(arc_format_names[i], name) == 0)
			return i;
	return -EINVAL;
}

const char *arc_reason_text(unsigned reason)
{
	static const char *const texts[ARC_N_REASONS] = {
		[ARC_R_NONE] = "",
		[ARC_R_ABSOLUTE] = "its name is absolute",
		[ARC_R_DOTDOT] = "its name has a '..' in it",
		[ARC_R_NAME] = "its name is empty or too long",
		[ARC_R_LINK_OUT] = "a link that leads out of the workspace",
		[ARC_R_THROUGH_LINK] = "its path leads through a link",
		[ARC_R_HARDLINK] = "a hard link to what is no file of this directory",
		[ARC_R_SPECIAL] = "neither a file, a directory nor a link",
		[ARC_R_IN_THE_WAY] = "something of another kind is in its way",
		[ARC_R_DENIED] = "permission denied",
		[ARC_R_DAMAGED] = "it cannot be read",
		[ARC_R_REFUSED] = "the file system refuses it",
	};

	return reason < ARC_N_REASONS ? texts[reason] : "";
}

/* ---- names -------------------------------------------------------------- */

int arc_name_parse(const char *name, char dst[ARC_PATH_MAX], enum arc_reason *ret_why)
{
	size_t len = 0;

	if (name[0] == '/') {
		*ret_why = ARC_R_ABSOLUTE;
		return -EINVAL;
	}
	while (*name != '\0') {
		size_t n = strcspn(name, "/");

		if (n == 2 && name[0] == '.' && name[1] == '.') {
			*ret_why = ARC_R_DOTDOT;
			return -EINVAL;
		}
		if (n > 0 && !(n == 1 && name[0] == '.')) {
			/* with the separator before it and the NUL behind it */
			if (path_name_check(name, n) < 0 || n + 2 > ARC_PATH_MAX - len) {
				*ret_why = ARC_R_NAME;
				return -EINVAL;
			}
			if (len > 0)
				dst[len++] = '/';
			memcpy(dst + len, name, n);
			len += n;
		}
		name += n;
		name += *name == '/';
	}
	dst[len] = '\0';
	return 0;
}

static size_t depth_of(const char *path)
{
	size_t depth = 0;

	while (*path != '\0') {
		size_t n = strcspn(path, "/");

		depth += n > 0;
		path += n;
		path += *path == '/';
	}
	return depth;
}

bool arc_link_leads_out(const char *dir, const char *target)
{
	size_t depth = depth_of(dir);

	if (target[0] == '/')
		return true;
	while (*target != '\0') {
		size_t n = strcspn(target, "/");

		if (n == 2 && target[0] == '.' && target[1] == '.') {
			if (depth == 0)
				return true;
			depth--;
		} else if (n > 0 && !(n == 1 && target[0] == '.')) {
			depth++;
		}
		target += n;
		target += *target == '/';
	}
	return false;
}

void arc_tar_head(uint8_t dst[ARC_TAR_BLOCK], const char *name, uint64_t size, uint64_t mtime_s)
{
	/* POSIX ustar: where each field begins */
	enum { NAME = 0, MODE = 100, UID = 108, GID = 116, SIZE = 124, MTIME = 136, SUM = 148 };
	enum { TYPE = 156, MAGIC = 257 };
	char *p = (char *)dst;
	unsigned sum = 0;

	memset(dst, 0, ARC_TAR_BLOCK);
	(void)snprintf(p + NAME, 100, "%s", name);
	(void)snprintf(p + MODE, 8, "%07o", 0644u);
	(void)snprintf(p + UID, 8, "%07o", 0u);
	(void)snprintf(p + GID, 8, "%07o", 0u);
	(void)snprintf(p + SIZE, 12, "%011llo", (unsigned long long)(size & 077777777777ull));
	(void)snprintf(p + MTIME, 12, "%011llo", (unsigned long long)(mtime_s & 077777777777ull));
	memset(p + SUM, ' ', 8);
	p[TYPE] = '0';
	memcpy(p + MAGIC,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < ARC_TAR_BLOCK; i++)
		sum += dst[i];
	(void)snprintf(p + SUM, 7, "%06o", sum);
}

/* ---- notes -------------------------------------------------------------- */

bool arc_note_check(const struct arc_note *note, size_t n)
{
	return n >= ARC_NOTE_HEAD && note->kind < ARC_NOTE_N_KINDS && note->rc <= 0 &&
	       note->rc > -4096 && note->reason < ARC_N_REASONS &&
	       note->len <= sizeof(note->text) && n == ARC_NOTE_HEAD + note->len;
}

int arc_tell(const struct arc_run *run, struct arc_note *note, const void *text, size_t len)
{
	ssize_t n;

	note->len = (uint32_t)MIN(len, sizeof(note->text));
	memcpy(note->text, text, note->len);
	do
		n = send(run->note, note, ARC_NOTE_HEAD + note->len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

void arc_skip(struct arc_run *run, const char *name, enum arc_reason why)
{
	struct arc_note note = { .kind = ARC_NOTE_SKIPPED, .reason = why };

	if (++run->n_skipped <= ARC_SKIPPED_MAX)
		(void)arc_tell(run, &note, name, strlen(name)); /* nobody listens: END fails too */
}

/* ---- the worker's frame ------------------------------------------------- */

void arc_worker(const void *p, size_t len, const int *fds, size_t n_fds)
{
	const struct arc_job *job = p;
	struct arc_run run = { .job = job };
	struct arc_note end = { .kind = ARC_NOTE_END };

	if (len != sizeof(*job) || n_fds != ARC_N_FDS || job->path[ARC_PATH_MAX - 1] != '\0')
		return;
	run.root = fds[ARC_FD_ROOT];
	run.data = fds[ARC_FD_DATA];
	run.note = fds[ARC_FD_NOTE];
	end.rc = job->op == ARC_PACK ? arc_pack(&run) : arc_unpack(&run);
	end.n_entries = run.n_entries;
	end.n_bytes = run.n_bytes;
	end.n_skipped = run.n_skipped;
	(void)shutdown(run.data, SHUT_RDWR);
	(void)arc_tell(&run, &end, run.err.msg, strlen(run.err.msg));
}
