/* SPDX-License-Identifier: MIT */
/* Files by path (see files.h): making directories, removing, renaming. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/events.h"
#include "workspace/files_priv.h"
#include "workspace/path.h"
#include "workspace/quota.h"

/* ---- directories -------------------------------------------------------- */

int files_mkdir(struct workspace *ws, const char *rel, bool parents)
{
	auto_place struct files_place p = FILES_PLACE_NONE;
	int fd, rc;

	if (rel[0] == '\0')
		return 0;
	rc = files_place_find(ws, rel, parents ? PLACE_PARENTS : 0, &p);
	if (rc < 0)
		return rc;
	rc = files_make_dir(ws, p.dirfd, p.name, FILES_DIR_MODE);
	if (rc != -EEXIST)
		return rc;
	fd = path_open(ws->root_fd, rel, O_PATH | O_DIRECTORY, 0, 0);
	if (fd >= 0)
		(void)close(fd);
	return fd >= 0 ? 0 : fd == -EXDEV ? -EXDEV : -EEXIST;
}

/* ---- removing ----------------------------------------------------------- */

/* open_up() - moving a directory changes its "..", for which its owner needs to write in it */
static int open_up(const struct files_place *p)
{
	char proc[PATH_PROC_LEN];
	struct files_info info;
	auto_close int fd = files_open_at(p, &info);

	if (fd < 0)
		return fd;
	if (!S_ISDIR(info.mode))
		return -ENOTDIR;
	return chmod(path_proc(proc, fd), (info.mode & 07777) | 0700) < 0 ? -errno : 0;
}

/* set_aside() - a whole tree into the staging folder, in one step: it is gone for everybody */
static int set_aside(const struct files_place *p, int staging, char name[NAME_MAX + 1])
{
	uint64_t r;
	int rc;

	io_random(&r, sizeof(r));
	(void)snprintf(name, NAME_MAX, "gone-%016llx", (unsigned long long)r);
	if (renameat(p->dirfd, p->name, staging, name) == 0)
		return 0;
	if (errno != EACCES)
		return -errno;
	rc = open_up(p);
	if (rc < 0)
		return rc;
	return renameat(p->dirfd, p->name, staging, name) < 0 ? -errno : 0;
}

/* remove_one() - what is at @p; a directory that is not empty is -ENOTEMPTY */
static int remove_one(const struct workspace *ws, const struct files_place *p)
{
	struct quota_victim victim;

	quota_look(&victim, ws, p->dirfd, p->name);
	if (unlinkat(p->dirfd, p->name, 0) < 0) {
		if (errno != EISDIR)
			return -errno;
		if (unlinkat(p->dirfd, p->name, AT_REMOVEDIR) < 0)
			return errno == EEXIST ? -ENOTEMPTY : -errno;
	}
	quota_victim_gone(ws, &victim);
	return 0;
}

/* take_away() - under the lock: remove, or set aside what takes longer; @aside is "" when nothing
 * is left */
static int take_away(const struct workspace *ws, const struct files_place *p,
		     const struct files_condition *c, int staging, char aside[NAME_MAX + 1])
{
	struct files_lock *lock;
	int rc = files_lock_take(p, &lock);

	if (rc < 0)
		return rc;
	rc = files_check_place(p, c);
	if (rc == 0)
		rc = remove_one(ws, p);
	if (rc == -ENOTEMPTY && staging >= 0)
		rc = set_aside(p, staging, aside);
	files_lock_release(lock);
	return rc;
}

int files_remove(struct workspace *ws, const char *rel, bool recursive,
		 const struct files_condition *c)
{
	auto_place struct files_place p = FILES_PLACE_NONE;
	auto_event_op struct event_op op = event_op_begin(ws, DOOR_HTTP);
	auto_close int staging = -1;
	char aside[NAME_MAX + 1] = "";
	int rc;

	if (rel[0] == '\0')
		return -EINVAL;
	rc = files_place_find(ws, rel, 0, &p);
	if (rc < 0)
		return rc;
	if (recursive) {
		staging = workspace_open_staging(ws);
		if (staging < 0)
			return staging;
	}
	event_op_look(&op, p.dirfd, p.name);
	rc = take_away(ws, &p, c, staging, aside);
	if (rc == 0)
		event_op_name(&op, EVENT_REMOVED, p.dirfd, p.name);
	event_op_end(&op); /* what follows may take long */
	/* What cannot be removed from the staging folder now is removed at the next start. */
	if (rc == 0 && aside[0] != '\0') {
		(void)path_remove_tree(staging, aside, NULL);
		quota_tree_changed(ws);
	}
	return rc;
}

/* ---- renaming ----------------------------------------------------------- */

/* is_below() - is @rel what is at @dir or inside it?  As text. */
static bool is_below(const char *dir, const char *rel)
{
	size_t n = strlen(dir);

	return strncmp(dir, rel, n) == 0 && (rel[n] == '\0' || rel[n] == '/' || n == 0);
}

/* rename_locked() - two names of one file: rename(2) would leave both */
static int rename_locked(const struct workspace *ws, const struct files_place *from,
			 const struct files_place *to)
{
	struct quota_victim victim;
	struct files_info a, b;
	int rc = files_info_at(from->dirfd, from->name, &a);

	if (rc < 0)
		return rc;
	if (files_info_at(to->dirfd, to->name, &b) == 0 && a.ino == b.ino && a.dev == b.dev &&
	    !S_ISDIR(a.mode))
		return unlinkat(from->dirfd, from->name, 0) < 0 ? -errno : 0;
	quota_look(&victim, ws, to->dirfd, to->name);
	if (renameat(from->dirfd, from->name, to->dirfd, to->name) == 0) {
		quota_victim_gone(ws, &victim);
		return 0;
	}
	return errno == EEXIST ? -ENOTEMPTY : -errno;
}

/* find_source() - a source that is not there is told of before anything is made at the destination
 */
static int find_source(struct workspace *ws, const char *from, struct files_place *ret)
{
	struct files_info info;
	int rc = from[0] != '\0' ? files_place_find(ws, from, 0, ret) : -EINVAL;

	return rc == 0 ? files_info_at(ret->dirfd, ret->name, &info) : rc;
}

int files_move(struct workspace *ws, const char *from, const char *to,
	       const struct files_condition *c, bool *ret_is_from)
{
	auto_place struct files_place p_from = FILES_PLACE_NONE;
	auto_place struct files_place p_to = FILES_PLACE_NONE;
	auto_event_op struct event_op op = event_op_begin(ws, DOOR_HTTP);
	struct files_lock *locks[2];
	int rc = find_source(ws, from, &p_from);

	*ret_is_from = true;
	if (rc == 0 && strcmp(from, to) == 0)
		return files_check_place(&p_from, c);
	if (rc < 0)
		return rc;
	*ret_is_from = false;
	if (is_below(from, to))
		return -EINVAL;
	rc = files_place_find(ws, to, PLACE_PARENTS, &p_to);
	if (rc == 0)
		rc = files_lock_take2(&p_from, &p_to, locks);
	if (rc < 0)
		return rc;
	rc = files_check_place(&p_from, c);
	*ret_is_from = rc < 0;
	if (rc == 0) {
		rc = rename_locked(ws, &p_from, &p_to);
		if (rc == 0)
			event_op_rename(&op, p_from.dirfd, p_from.name, p_to.dirfd, p_to.name);
		*ret_is_from = rc == -ENOENT;
	}
	files_lock_release(locks[0]);
	files_lock_release(locks[1]);
	return rc;
}
