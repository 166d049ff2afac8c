/* SPDX-License-Identifier: MIT */
/*
 * Root may unmount; everybody else asks fusermount3, which is set-uid for that.  A mount whose
 * process was killed answers ENOTCONN ("Transport endpoint is not connected") until somebody takes
 * it away; whether it is ours is told by its type in /proc/self/mountinfo, which can be read
 * without touching the mount.
 */
#include "fuse-client/fuse_umount.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define MOUNTINFO_MAX (16u << 20) /* bytes */
#define OUR_TYPE      "fuse.workspaced"

extern char **environ;

/* An absolute path without links, though its last part may be dead: that is not touched. */
static int absolute(const char *dir, char dst[PATH_MAX], struct err *err)
{
	auto_free char *copy = strdup(dir), *copy2 = strdup(dir);
	char parent[PATH_MAX];

	if (copy == NULL || copy2 == NULL)
		return err_set(err, -ENOMEM, "no memory");
	if (realpath(dir, dst) != NULL)
		return 0;
	if (errno != ENOTCONN && errno != EACCES)
		return err_set(err, -errno, "'%s': %s", dir, strerror(errno));
	if (realpath(dirname(copy), parent) == NULL)
		return err_set(err, -errno, "'%s': %s", dir, strerror(errno));
	if (snprintf(dst, PATH_MAX, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent,
		     basename(copy2)) >= PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "'%.100s' is too long", dir);
	return 0;
}

/* mountinfo writes space, tab, newline and backslash of paths as \ooo. */
static void unescape(char *s)
{
	char *to = s;

	while (*s != '\0') {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] != '\0' && s[3] != '\0') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

/* One line: "36 35 0:40 / /mnt/x rw,nosuid - fuse.workspaced host:/id rw,..." (proc(5)). */
static bool line_is(char *line, const char *path, bool *ret_ours)
{
	char *type = strstr(line, " - ");
	char *field = line, *word = NULL;

	if (type == NULL)
		return false;
	for (int i = 0; i < 5; i++)
		word = strsep(&field, " ");
	if (word == NULL)
		return false;
	unescape(word);
	type += 3;
	*ret_ours = strncmp(type, OUR_TYPE " ", strlen(OUR_TYPE " ")) == 0;
	return strcmp(word, path) == 0;
}

/* What is on top at @path: 1 ours, 0 somebody else's or nothing, -errno. */
static int is_ours(const char *path, struct err *err)
{
	auto_free char *text = NULL;
	bool ours = false, found = false;
	char *rest, *line;
	size_t len;
	int rc = io_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, &len, err);

	if (rc < 0)
		return rc;
	rest = text;
	while ((line = strsep(&rest, "\n")) != NULL) {
		bool line_ours;

		if (line_is(line, path, &line_ours)) {
			found = true;
			ours = line_ours;
		}
	}
	return found && ours;
}

static int run_fusermount(const char *path, bool lazy, struct err *err)
{
	const char *const plain[] = { "fusermount3", "-u", "--", path, NULL };
	const char *const lazily[] = { "fusermount3", "-u", "-z", "--", path, NULL };
	char *const *words = (char *const *)(lazy ? lazily : plain);
	pid_t pid;
	int rc = posix_spawnp(&pid, "fusermount3", NULL, NULL, words, environ);
	int status;

	if (rc != 0)
		return err_set(err, -rc, "fusermount3: %s", strerror(rc));
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return err_set(err, -errno, "fusermount3: %s", strerror(errno));
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(err, -EBUSY, "fusermount3 could not unmount '%s'%s", path,
			       lazy ? "" : "; if it is in use, --lazy takes it away all the same");
	return 0;
}

static int undo(const char *path, bool lazy, struct err *err)
{
	if (geteuid() != 0)
		return run_fusermount(path, lazy, err);
	if (umount2(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
		return 0;
	if (errno == EBUSY)
		return err_set(err, -EBUSY, "'%s' is in use; --lazy takes it away all the same",
			       path);
	return err_set(err, -errno, "'%s': %s", path, strerror(errno));
}

/* Attributes may be cached, an open always reaches the process; ours answers it without the server.
 */
static bool is_dead(const char *path)
{
	auto_close int fd = io_open_dir(AT_FDCWD, path);

	return fd == -ENOTCONN;
}

int fuse_umount(const char *dir, bool lazy, struct err *err)
{
	char path[PATH_MAX];
	int rc = absolute(dir, path, err);

	if (rc == 0)
		rc = is_ours(path, err);
	if (rc < 0)
		return rc;
	if (rc == 0)
		return err_set(err, -EINVAL, "'%s' is not a mount of fuse-client", path);
	/* Nothing can be lost by a dead one, and a shell that stands in it keeps it busy. */
	return undo(path, lazy || is_dead(path), err);
}

int fuse_umount_prepare(const char *dir, struct err *err)
{
	char path[PATH_MAX];
	struct stat st;
	int rc = absolute(dir, path, err);

	if (rc == 0)
		rc = is_ours(path, err);
	if (rc < 0)
		return rc;
	if (rc > 0 && !is_dead(path))
		return err_set(err, -EBUSY, "something of ours is mounted on '%s' already", path);
	if (rc > 0)
		rc = undo(path, true, err);
	if (rc < 0)
		return rc;
	if (stat(path, &st) < 0)
		return err_set(err, -errno, "'%s': %s", path, strerror(errno));
	return S_ISDIR(st.st_mode) ? 0 : err_set(err, -ENOTDIR, "'%s' is not a directory", path);
}
