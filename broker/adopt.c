/* SPDX-License-Identifier: MIT */
/*
 * Opening a directory that the operator allowed to be made a workspace.  The name comes from a
 * client, through the main process: it is compared with the operator's roots as text, and the rest
 * is walked by the kernel from the root's descriptor, beneath it, without links and without leaving
 * its file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/broker.h"
#include "broker/broker_proto.h"

/* What of @path lies below @root; NULL: it does not. */
static const char *rest_below(const char *root, const char *path)
{
	size_t n = strlen(root);

	while (n > 0 && root[n - 1] == '/')
		n--;
	if (strncmp(path, root, n) != 0 || path[n] != '/')
		return NULL;
	path += n;
	path += strspn(path, "/");
	return *path != '\0' ? path : NULL;
}

static int open_beneath(int root, const char *rest)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, root, rest, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* "a/.." is beneath, and yet the root itself. */
static bool has_dotdot(const char *rest)
{
	while (*rest != '\0') {
		size_t n = strcspn(rest, "/");

		if ((n == 2 && rest[0] == '.' && rest[1] == '.') || (n == 1 && rest[0] == '.'))
			return true;
		rest += n;
		rest += *rest == '/';
	}
	return false;
}

int adopt_open(const struct adopt_roots *roots, const char path[4096])
{
	if (memchr(path, '\0', BROKER_PATH_MAX) == NULL || path[0] != '/')
		return -EINVAL;
	for (size_t i = 0; i < roots->n; i++) {
		const char *rest = rest_below(roots->path[i], path);

		if (rest != NULL)
			return has_dotdot(rest) ? -EPERM : open_beneath(roots->fd[i], rest);
	}
	return -EPERM;
}
