/* SPDX-License-Identifier: MIT */
/*
 * Archives of a directory in a workspace: packing it, and unpacking one into it.
 *
 * libarchive does the reading and writing of formats, in a confined worker process
 * (broker/helper.h): what comes in may have been made to break whoever reads it.  The main process
 * hands over a job and three descriptors, moves bytes through a socket, and believes nothing of
 * what comes back but what arc_note_check() has looked at.
 *
 * What an archive can do is put files, directories, links and hard links below the directory it is
 * unpacked into, and nothing else.  No link is ever followed on the way, whether it stood there
 * before or came with the archive; names that are absolute or hold ".." are left out; so are
 * devices, FIFOs and sockets; of the mode only the nine permission bits are taken, and nothing of
 * owners, access lists and attributes.  Each file appears whole or not at all.
 */
#ifndef WORKSPACE_ARCHIVE_H
#define WORKSPACE_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARC_PATH_MAX    4096       /* bytes with NUL: PATH_MAX */
#define ARC_SKIPPED_MAX 1000       /* entries left out that are named; further ones are counted */
#define ARC_META_MAX    (1u << 20) /* bytes of what a backup says of its workspace */
#define ARC_META_NAME   "workspaced-backup.json" /* first entry of a backup; its files are below: */
#define ARC_BACKUP_DIR  "files"

enum arc_op { ARC_PACK, ARC_UNPACK };

enum arc_format { ARC_AUTO, ARC_TAR, ARC_TAR_GZ, ARC_ZIP, ARC_N_FORMATS };
extern const char *const arc_format_names[ARC_N_FORMATS];
int arc_format_by_name(const char *name); /* or -EINVAL */

enum arc_flags {
	ARC_KEEP_LINKS = 1u << 0, /* unpack symbolic links that lead out of the workspace too */
	ARC_BACKUP = 1u << 1, /* entries are below ARC_BACKUP_DIR; unpack: ARC_META_NAME first */
};

/* Of what is unpacked: beyond one of them unpacking ends with -EFBIG. */
struct arc_limits {
	uint64_t bytes;   /* of files, holes counted */
	uint64_t entries; /* in the archive */
	uint64_t ratio;   /* bytes out for one byte in, from ARC_RATIO_FROM on; 0: none */
};
#define ARC_RATIO_FROM (256u << 20) /* bytes: less is no bomb, whatever it was packed into */

struct arc_job {
	uint32_t op, format, flags;
	uint32_t owner_uid, owner_gid; /* written into tar headers */
	struct arc_limits limits;
	char path[ARC_PATH_MAX]; /* relative to the workspace; unpack: made when it is missing */
};

/* The descriptors of a job. */
enum arc_fd {
	ARC_FD_ROOT, /* of the workspace; all the worker can reach */
	ARC_FD_DATA, /* stream socket: the archive, out or in; in: ends with shutdown(2) */
	ARC_FD_NOTE, /* SOCK_SEQPACKET: struct arc_note */
	ARC_N_FDS
};

/* arc_worker() - the worker's side of a job; a helper_fn */
void arc_worker(const void *job, size_t len, const int *fds, size_t n_fds);

/* ---- what a worker tells ------------------------------------------------ */

enum arc_note_kind {
	ARC_NOTE_SKIPPED, /* text: the entry's name, @reason: why */
	ARC_NOTE_META,    /* text: a piece of ARC_META_NAME */
	ARC_NOTE_END,     /* @rc; text: a sentence when it is negative */
	ARC_NOTE_N_KINDS
};

enum arc_reason {
	ARC_R_NONE,
	ARC_R_ABSOLUTE,
	ARC_R_DOTDOT,
	ARC_R_NAME,
	ARC_R_LINK_OUT,
	ARC_R_THROUGH_LINK,
	ARC_R_HARDLINK,
	ARC_R_SPECIAL,
	ARC_R_IN_THE_WAY,
	ARC_R_DENIED,
	ARC_R_DAMAGED,
	ARC_R_REFUSED,
	ARC_N_REASONS
};
const char *arc_reason_text(unsigned reason);

struct arc_note {
	uint32_t kind; /* enum arc_note_kind */
	int32_t rc;
	uint32_t reason; /* enum arc_reason */
	uint32_t len;    /* bytes of @text in use */
	/* ARC_NOTE_END only */
	uint64_t n_entries; /* packed, or put in place */
	uint64_t n_bytes;   /* of files */
	uint64_t n_skipped; /* named or not */
	char text[ARC_PATH_MAX];
};
#define ARC_NOTE_HEAD offsetof(struct arc_note, text)

/* arc_note_check() - is a packet of @n bytes a note?  Pure. */
bool arc_note_check(const struct arc_note *note, size_t n);

/* ---- pure parts --------------------------------------------------------- */

/**
 * arc_name_parse() - an entry's name into a relative path
 * @dst:	"a/b"; "" for the directory itself ("./")
 *
 * Return: 0, or -EINVAL with *@ret_why.
 */
int arc_name_parse(const char *name, char dst[ARC_PATH_MAX], enum arc_reason *ret_why);

/* arc_link_leads_out() - does a link in the directory @dir (relative to the workspace) lead out of
 * it, as text?  Links on the way are not known here; whoever follows it checks again. */
bool arc_link_leads_out(const char *dir, const char *target);

/* arc_tar_head() - the 512 bytes before the @size bytes of a regular file in a tar archive */
#define ARC_TAR_BLOCK 512
void arc_tar_head(uint8_t dst[ARC_TAR_BLOCK], const char *name, uint64_t size, uint64_t mtime_s);

#endif
