/* SPDX-License-Identifier: MIT */
/*
 * Giving up privilege, for the main process and the broker alike.
 *
 * The order is forced by the kernel: groups and the bounding set need capabilities that the change
 * of uid takes away; a change of ids clears what hides a process; no_new_privs comes before any
 * filter. What was given up is checked afterwards, because a set-id call that failed unnoticed is
 * the classic way to go on as root.
 */
#include "broker/broker.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define DEFAULT_USER "workspaced"
#define DEFAULT_ID   64055u /* in Debian's 60000-64999: allocated to no package, free of adduser */
#define NOFILE_WANT  1048576u    /* the kernel's default for fs.nr_open */
#define ID_MAX       4294967294u /* (uid_t)-1 means "no change" to the kernel */

/* ---- whom to become ----------------------------------------------------- */

static int user_by_name(const char *name, struct service_user *ret)
{
	struct passwd *pw;

	errno = 0;
	pw = getpwnam(name);
	if (pw == NULL)
		return errno == 0 ? -ENOENT : -errno;
	*ret = (struct service_user){ .uid = pw->pw_uid, .gid = pw->pw_gid };
	return 0;
}

/* "uid" or "uid:gid".  Without a gid the user's own group, or for a uid without an entry its
 * number. */
static int user_by_number(const char *spec, struct service_user *ret)
{
	char uid_text[16];
	const char *colon = strchr(spec, ':');
	size_t n = colon != NULL ? (size_t)(colon - spec) : strlen(spec);
	struct passwd *pw;
	uint64_t uid, gid;

	if (n >= sizeof(uid_text))
		return -EINVAL;
	memcpy(uid_text, spec, n);
	uid_text[n] = '\0';
	if (io_parse_u64(uid_text, 0, ID_MAX, &uid) < 0)
		return -EINVAL;
	pw = getpwuid((uid_t)uid);
	gid = pw != NULL ? pw->pw_gid : uid;
	if (colon != NULL && io_parse_u64(colon + 1, 0, ID_MAX, &gid) < 0)
		return -EINVAL;
	*ret = (struct service_user){ .uid = (uid_t)uid, .gid = (gid_t)gid };
	return 0;
}

int privilege_service_user(const char *spec, struct service_user *ret, struct err *err)
{
	struct service_user user;
	int rc;

	if (spec == NULL || spec[0] == '\0') {
		rc = user_by_name(DEFAULT_USER, &user);
		if (rc < 0)
			user = (struct service_user){ .uid = DEFAULT_ID, .gid = DEFAULT_ID };
	} else if (spec[0] >= '0' && spec[0] <= '9') {
		rc = user_by_number(spec, &user);
		if (rc < 0)
			return err_set(err, rc, "service user '%s' is neither uid nor uid:gid",
				       spec);
	} else {
		rc = user_by_name(spec, &user);
		if (rc == -ENOENT)
			return err_set(err, rc, "there is no service user '%s'", spec);
		if (rc < 0)
			return err_set(err, rc, "service user '%s': %s", spec, strerror(-rc));
	}
	if (user.uid == 0 || user.gid == 0)
		return err_set(err, -EINVAL,
			       "the service user must not be root or in root's group");
	*ret = user;
	return 0;
}

/* ---- giving up ---------------------------------------------------------- */

static int become(const struct service_user *user, struct err *err)
{
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "cannot keep capabilities: %s", strerror(errno));
	if (setgroups(0, NULL) < 0)
		return err_set(err, -errno, "cannot leave root's groups: %s", strerror(errno));
	if (setresgid(user->gid, user->gid, user->gid) < 0)
		return err_set(err, -errno, "cannot become group %u: %s", user->gid,
			       strerror(errno));
	if (setresuid(user->uid, user->uid, user->uid) < 0)
		return err_set(err, -errno, "cannot become user %u: %s", user->uid,
			       strerror(errno));
	if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
		return err_set(err, -errno, "cannot stop keeping capabilities: %s",
			       strerror(errno));
	return 0;
}

/* Needs CAP_SETPCAP.  Where that is missing (ordinary users, some containers) the set stays as it
 * is: nothing can be gained from it without execve() under no_new_privs. */
static void empty_bounding_set(void)
{
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return;
	}
}

static int reduce_capabilities(const unsigned *keep, size_t n_keep, struct err *err)
{
	bool held[CAP_LAST_CAP + 1] = { false };

	if (capng_get_caps_process() < 0)
		return err_set(err, -EIO, "cannot read our capabilities");
	for (size_t i = 0; i < n_keep; i++)
		held[keep[i]] = capng_have_capability(CAPNG_PERMITTED, keep[i]) != 0;
	capng_clear(CAPNG_SELECT_CAPS);
	for (size_t i = 0; i < n_keep; i++) {
		if (held[keep[i]])
			(void)capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, keep[i]);
	}
	/* Emptying the inheritable set empties the ambient one. */
	if (capng_apply(CAPNG_SELECT_CAPS) < 0)
		return err_set(err, -EPERM, "cannot give up capabilities");
	return 0;
}

static int check_dropped(const struct service_user *user, size_t n_keep, struct err *err)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;

	if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0)
		return err_set(err, -errno, "cannot read our ids: %s", strerror(errno));
	if (user != NULL && (r != user->uid || e != r || s != r || rg != user->gid || eg != rg ||
			     sg != rg || getgroups(0, NULL) != 0))
		return err_set(err, -EPERM, "root's ids were not given up");
	if (user != NULL && setresuid(-1, 0, -1) == 0)
		return err_set(err, -EPERM, "root's ids can still be had back");
	if (capng_get_caps_process() < 0)
		return err_set(err, -EIO, "cannot read our capabilities");
	if (n_keep == 0 && capng_have_capabilities(CAPNG_SELECT_CAPS) != CAPNG_NONE)
		return err_set(err, -EPERM, "capabilities were not given up");
	return 0;
}

int privilege_drop(const struct service_user *user, const unsigned *keep, size_t n_keep,
		   struct err *err)
{
	int rc;

	empty_bounding_set();
	rc = user != NULL ? become(user, err) : 0;
	if (rc < 0)
		return rc;
	rc = reduce_capabilities(keep, n_keep, err);
	if (rc < 0)
		return rc;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "cannot set no_new_privs: %s", strerror(errno));
	return check_dropped(user, n_keep, err);
}

int privilege_hide(bool is_dumpable, struct err *err)
{
	struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_set(err, -errno, "cannot switch core files off: %s", strerror(errno));
	if (prctl(PR_SET_DUMPABLE, is_dumpable ? 1 : 0, 0, 0, 0) < 0)
		return err_set(err, -errno, "cannot hide from other processes: %s",
			       strerror(errno));
	return 0;
}

void privilege_raise_nofile(void)
{
	auto_free char *text = NULL;
	uint64_t max = NOFILE_WANT;
	struct rlimit rl;
	size_t len;

	if (getrlimit(RLIMIT_NOFILE, &rl) < 0)
		return;
	if (io_read_file(AT_FDCWD, "/proc/sys/fs/nr_open", 64, &text, &len, NULL) == 0) {
		text[strcspn(text, "\n")] = '\0';
		(void)io_parse_u64(text, 1, NOFILE_WANT, &max);
	}
	if (rl.rlim_max < max) {
		struct rlimit more = { max, max };

		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			return;
	}
	rl.rlim_cur = MIN(rl.rlim_max, (rlim_t)max);
	(void)setrlimit(RLIMIT_NOFILE, &rl);
}
