/* SPDX-License-Identifier: MIT */
/*
 * Whole files and trees by path: what HTTP and MCP do in a workspace.  fileops.h works on inodes,
 * as NFS asks; here a caller names a path, wants a file replaced as a whole or not at all, and says
 * what version of it he has seen.
 *
 * Paths.  A client's path becomes a *relative path* by files_path_parse(): leading and doubled "/"
 * and "." vanish, ".." takes the component before it away (as text: also behind a link), and one
 * that would leave the root is -EXDEV.  "" is the root.  What links in it mean is decided by the
 * kernel through workspace/path.h, so that an absolute link, or one that leads out, is -EXDEV as
 * well.
 *
 * Replacing.  New content is written to a file without a name, or with one in the workspace's
 * staging folder, synced, given the mode and extended attributes of the file it replaces, and
 * renamed over it: a reader sees the old file or the new one.  The new file is another inode:
 * other hard links, and whoever has the old one open, keep the old content.  A link as the last
 * component is followed, inside the workspace, and what it leads to is replaced; the link stays.
 *
 * Versions.  An ETag is strong and made of the content up to FILES_ETAG_CONTENT_MAX bytes; that of
 * a larger file is made of its metadata (inode, size, change times) and begins with "meta-".
 * Conditions are checked under a lock on the name that all writers through this file take, so that
 * of two with the same If-Match one wins.  NFS clients and commands in sandboxes take no such lock:
 * a write of theirs in the instant between check and rename is lost.
 *
 * Errors beside the usual: -EXDEV leaves the workspace, -EBADE condition failed, -ENXIO neither a
 * regular file nor a directory.  status_of() has the HTTP answer of each.
 * All functions: any thread but a loop's; they block.
 */
#ifndef WORKSPACE_FILES_H
#define WORKSPACE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "workspace/workspace.h"

#define FILES_PATH_MAX         4095        /* bytes: PATH_MAX without the NUL */
#define FILES_ETAG_CONTENT_MAX (16u << 20) /* bytes: also the largest file that can be edited */
#define FILES_ETAG_LEN         80          /* bytes with quotes and NUL */

/* ---- paths -------------------------------------------------------------- */

/**
 * files_path_parse() - a client's text into a relative path
 * @dst:	"" for the root, else "a/b" without "." and ".."
 *
 * Pure.  Return: 0, -EXDEV ("..": leaves the root), -EINVAL (NUL inside), -ENAMETOOLONG (a
 * component over 255 bytes, or all of it over FILES_PATH_MAX).
 */
int files_path_parse(const char *text, size_t len, char dst[FILES_PATH_MAX + 1]);

/* ---- what is there ------------------------------------------------------ */

struct files_info {
	mode_t mode; /* type and permission bits */
	uint64_t size, ino;
	uint64_t dev; /* of the file system */
	uint32_t nlink;
	struct timespec mtime, ctime;
};

/* files_info_fd() - of an open file; 0 or -errno */
int files_info_fd(int fd, struct files_info *ret);

/* files_info_at() - of a name in an open directory, links not followed; 0 or -errno */
int files_info_at(int dirfd, const char *name, struct files_info *ret);

/* files_stat() - of a path; the last component is not followed.  @rel as of files_path_parse(). */
int files_stat(struct workspace *ws, const char *rel, struct files_info *ret);

/* files_open_dir() - a directory for reading, links followed inside the workspace.  fd, -ENOTDIR, …
 */
int files_open_dir(struct workspace *ws, const char *rel);

/**
 * files_open_read() - a regular file for reading, links followed inside the workspace
 *
 * FIFOs, sockets and devices are recognised before they are opened: -ENXIO.
 * Return: a descriptor the caller owns with *@ret (may be NULL) filled in; -EISDIR, -ENOENT,
 * -EXDEV, …
 */
int files_open_read(struct workspace *ws, const char *rel, struct files_info *ret);

/* ---- versions ----------------------------------------------------------- */

/* Both write a quoted, strong tag into @dst (FILES_ETAG_LEN bytes) and return it.  Pure. */
const char *files_etag_of_content(char *dst, const void *p, size_t n);
const char *files_etag_of_meta(char *dst, const struct files_info *info);

/* files_etag_fd() - the tag of an open regular file: of its content when it is small enough (it is
 * read), else of @info.  0 or -errno. */
int files_etag_fd(int fd, const struct files_info *info, char dst[FILES_ETAG_LEN]);

/* The values of If-Match and If-None-Match; NULL: not sent.  Borrowed. */
struct files_condition {
	const char *if_match, *if_none_match;
};

/* files_condition_parse() - keep them after a check of their syntax: 0 or -EINVAL.  Pure. */
int files_condition_parse(struct files_condition *c, const char *if_match,
			  const char *if_none_match);

/**
 * files_condition_check() - may a change go on (RFC 9110 section 13.2.2)?
 * @etag:	of what is there now; NULL: nothing is there
 *
 * If-Match compares strongly (W/"x" never matches), If-None-Match weakly.  @c may be NULL.  Pure.
 * Return: 0, or -EBADE; @ret_none_match (may be NULL) is set when it was If-None-Match that failed,
 * which is 304 for a read.
 */
int files_condition_check(const struct files_condition *c, const char *etag, bool *ret_none_match);

/* ---- reading whole ------------------------------------------------------ */

/**
 * files_read_whole() - all of a regular file
 * @max:	bytes; a larger file is -EFBIG
 * @ret:	empty before; its memory is the caller's, also after an error
 * @etag:	FILES_ETAG_LEN bytes, of exactly the bytes in @ret; may be NULL
 * @ret_info:	may be NULL
 *
 * Read again when it changed meanwhile, a few times; a file that never holds still is given as
 * read.
 */
int files_read_whole(struct workspace *ws, const char *rel, size_t max, struct buf *ret, char *etag,
		     struct files_info *ret_info);

/**
 * files_read_cached() - a small regular file whole, if nothing has to be waited for
 * @dst:	@max bytes; *@ret_n are filled in
 *
 * The one function here that a loop may call.  Return: 0; -EAGAIN: files_open_read() is to tell,
 * which may wait (also for files over @max and for what is no regular file); -ENOENT, -EXDEV,
 * -errno.
 */
int files_read_cached(struct workspace *ws, const char *rel, void *dst, size_t max, size_t *ret_n);

/* ---- new content -------------------------------------------------------- */

struct files_staged; /* new content on its way; nothing is seen of it before files_replace() */

int files_stage_open(struct workspace *ws, struct files_staged **ret); /* owned */
/* files_stage_write() - append all of @p; 0, -ENOSPC, -EDQUOT, -EIO, ... */
int files_stage_write(struct files_staged *s, const void *p, size_t n);
/* files_stage_fd() - borrowed, for other ways to write; at its end when files_replace() is called
 */
int files_stage_fd(struct files_staged *s);
void files_stage_free(
	struct files_staged *s); /* dropped unless it was put in place; NULL is fine */

struct files_result {
	char etag[FILES_ETAG_LEN];
	struct files_info info;
	bool is_new; /* nothing was there before */
};

enum files_replace_flags {
	FILES_APPEND = 1u << 0,   /* put behind what is there, in place (same inode), or create */
	FILES_EXISTING = 1u << 1, /* -ENOENT when nothing is there; no parents are made */
};

/**
 * files_replace() - put staged content in place
 * @c:		may be NULL; checked under the name's lock
 * @flags:	enum files_replace_flags
 *
 * Parents are made (0755).  A new file is 0644; a replaced one keeps its mode, set-id bits
 * included, since the caller acts as its owner.  Synced before the rename; the rename itself is as
 * durable as the file system's journal makes it: after a power cut the old file or the whole new
 * one is there.
 * @s is used up on success, and is to be freed in any case.
 *
 * Return: 0, -EBADE, -EISDIR (a directory or the root), -ENOTDIR, -ENXIO (a FIFO, socket or device
 * is there), -EXDEV, -EACCES, -ENOSPC, -EDQUOT, -errno.
 */
int files_replace(struct workspace *ws, const char *rel, struct files_staged *s,
		  const struct files_condition *c, unsigned flags, struct files_result *ret);

/* files_write_whole() - stage and replace in one: @p of @n bytes are the new content */
int files_write_whole(struct workspace *ws, const char *rel, const void *p, size_t n,
		      const struct files_condition *c, unsigned flags, struct files_result *ret);

/* files_check() - would @c hold now?  For an early answer, before a body is read: 0, -EBADE,
 * -errno. */
int files_check(struct workspace *ws, const char *rel, const struct files_condition *c);

/* ---- names -------------------------------------------------------------- */

/* files_mkdir() - 0 also when it is there; -EEXIST when it is no directory; -ENOENT without parents
 * unless @parents */
int files_mkdir(struct workspace *ws, const char *rel, bool parents);

/* files_remove() - a link itself, a file, an empty directory, or all in it.  The root is -EINVAL.
 */
int files_remove(struct workspace *ws, const char *rel, bool recursive,
		 const struct files_condition *c);

/**
 * files_move() - rename; parents of @to are made
 *
 * Replaces a file or an empty directory by one of its kind.  @c is about @from.
 * Return: 0; -ENOENT with *@ret_is_from true names the source; -EINVAL into itself; -EISDIR,
 * -ENOTDIR, -ENOTEMPTY by what stands at @to.
 */
int files_move(struct workspace *ws, const char *from, const char *to,
	       const struct files_condition *c, bool *ret_is_from);

/**
 * files_copy() - a file, link, FIFO, socket, or a directory with all in it
 *
 * Links as links, modes kept, FIFOs and sockets made anew, other mounts not entered, devices left
 * out.  A file appears whole under its name; a tree grows by and by.  A directory that is there is
 * filled, files in it are replaced.  Into itself: -EINVAL.  @c is about @to.
 */
int files_copy(struct workspace *ws, const char *from, const char *to,
	       const struct files_condition *c, bool *ret_is_from);

#endif
