/* SPDX-License-Identifier: MIT */
/* Private to broker/: what broker_start() is made of. */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "broker/broker_client.h"

struct service_user {
	uid_t uid;
	gid_t gid;
};

/* ---- privilege.c: all of these run while there is one thread ------------ */

/**
 * privilege_service_user() - whom to become
 * @spec:	a name, "uid" or "uid:gid"; NULL or "": "workspaced" if there is such a user, else
 * 64055
 *
 * Return: 0, -ENOENT (no such user), -EINVAL (root, or not understood).
 */
int privilege_service_user(const char *spec, struct service_user *ret, struct err *err);

/**
 * privilege_drop() - become @user and keep of the capabilities held only @keep
 * @user:	NULL: stay who we are (an ordinary user)
 * @keep, @n_keep: CAP_... numbers; those not held are left out without an error
 *
 * Also: no supplementary groups (as root), empty bounding and ambient sets, no-new-privileges.
 */
int privilege_drop(const struct service_user *user, const unsigned *keep, size_t n_keep,
		   struct err *err);

/* privilege_hide() - other processes of this uid may not trace, read or dump us; no core files.
 * After privilege_drop(), since the kernel forgets it with every change of ids. */
int privilege_hide(bool is_dumpable, struct err *err);

/* privilege_raise_nofile() - as many descriptors as the host allows, at most 1048576; best effort
 */
void privilege_raise_nofile(void);

/* ---- data_dir.c --------------------------------------------------------- */

/**
 * data_dir_prepare() - make the data directory the service user's, mode 0700
 * @fd:		the directory, O_PATH
 * @user:	NULL: an ordinary user, who must own it already
 *
 * As root, a directory that is not the service user's is handed over with all in it; links are not
 * followed and other mounts not entered.  The top changes hands last, so that a handover which was
 * cut short starts again.  Blocks long on a large directory, once.
 */
int data_dir_prepare(int fd, const struct service_user *user, struct err *err);

/* Directories below which others may be adopted as workspaces. */
struct adopt_roots {
	const char *const *path;        /* borrowed; absolute, as the operator wrote them */
	int fd[BROKER_ADOPT_ROOTS_MAX]; /* O_PATH */
	size_t n;
};

/* ---- adopt.c ------------------------------------------------------------ */

/**
 * adopt_open() - a directory strictly below one of @roots, for reading
 * @path:	absolute text, perhaps without a NUL at its end: not trusted
 *
 * Return: a descriptor the caller owns; -EPERM (below none), -ELOOP (a link), -EXDEV (another
 * mount), -EINVAL, -errno.
 */
int adopt_open(const struct adopt_roots *roots, const char path[4096]);

/* ---- broker.c ----------------------------------------------------------- */

struct broker_setup {
	int sock;                        /* our end of the socket pair */
	int data_fd;                     /* the data directory, O_PATH */
	pid_t parent;                    /* the main process */
	const struct service_user *user; /* borrowed; NULL: an ordinary user */
	struct adopt_roots roots;
};

/* broker_run() - be the broker until the main process is gone; called in the forked child */
_Noreturn void broker_run(const struct broker_setup *setup);

#endif
