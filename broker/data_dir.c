/* SPDX-License-Identifier: MIT */
/*
 * Handing the data directory to the service user, at the first start as root.
 *
 * Until then it may have belonged to somebody else (root made it, or an ordinary user ran the
 * server in it), who may even be changing it while we walk.  Every entry is therefore opened first
 * (O_PATH, links not followed), then judged, then changed through its descriptor, so that nothing
 * can be put in its place between the look and the change.
 */
#include "broker/broker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DEPTH_MAX                                                                                  \
	2048 /* folders below each other: each holds a descriptor and a stack frame in the walk */

struct handover {
	const struct service_user *user;
	uid_t old_uid; /* who owned the directory */
	dev_t dev;     /* its file system */
	unsigned n_deep;
	struct err *err;
};

static int hand_over(struct handover *h, int fd)
{
	if (fchownat(fd, "", h->user->uid, h->user->gid, AT_EMPTY_PATH) < 0)
		return err_set(h->err, -errno, "cannot hand a file over to user %u: %s",
			       h->user->uid, strerror(errno));
	return 0;
}

static int walk(struct handover *h, int dir_path_fd);

static int visit(struct handover *h, int dir_fd, const char *name)
{
	auto_close int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0 && errno == ENOENT)
		return 0; /* removed meanwhile */
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(h->err, -errno, "cannot look at a file in it: %s", strerror(errno));
	if (st.st_dev != h->dev)
		return 0; /* another mount: the operator's own business */
	/* A second name for somebody else's file may have been planted here: leave it. */
	if (!S_ISDIR(st.st_mode) && st.st_nlink > 1 && st.st_uid != h->old_uid)
		return 0;
	if (S_ISDIR(st.st_mode)) {
		rc = walk(h, fd);
		if (rc < 0)
			return rc;
	}
	return hand_over(h, fd);
}

static int walk(struct handover *h, int dir_path_fd)
{
	int fd = openat(dir_path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int rc = 0;

	if (dir == NULL) {
		rc = -errno;
		if (fd >= 0)
			(void)close(fd);
		return err_set(h->err, rc, "cannot list a folder in it: %s", strerror(-rc));
	}
	if (h->n_deep == DEPTH_MAX)
		return err_set(h->err, -ELOOP, "more than %d folders below each other", DEPTH_MAX);
	h->n_deep++;
	while (rc == 0 && (errno = 0, e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = visit(h, dirfd(dir), e->d_name);
	}
	h->n_deep--;
	if (rc == 0 && errno != 0)
		return err_set(h->err, -errno, "cannot list a folder in it: %s", strerror(errno));
	return rc;
}

static int set_private(int fd, struct err *err)
{
	auto_close int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 || fchmod(dir, 0700) < 0)
		return err_set(err, -errno, "cannot set its mode to 0700: %s", strerror(errno));
	return 0;
}

int data_dir_prepare(int fd, const struct service_user *user, struct err *err)
{
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "cannot look at it: %s", strerror(errno));
	if (user == NULL && st.st_uid != geteuid())
		return err_set(err, -EACCES,
			       "it belongs to user %u, but the server was started by user %u",
			       st.st_uid, geteuid());
	if ((st.st_mode & 07777) != 0700) {
		rc = set_private(fd, err);
		if (rc < 0)
			return rc;
	}
	if (user != NULL && st.st_uid != user->uid) {
		struct handover h = {
			.user = user, .old_uid = st.st_uid, .dev = st.st_dev, .err = err
		};

		rc = walk(&h, fd);
		return rc < 0 ? rc : hand_over(&h, fd);
	}
	return 0;
}
