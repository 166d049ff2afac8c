/* SPDX-License-Identifier: MIT */
/*
 * The broker: the one process that keeps privilege after the start.
 *
 * It exists for two things an unprivileged process cannot do: open a kernel file handle
 * (open_by_handle_at(2) wants CAP_DAC_READ_SEARCH), and open a file of the owner whose mode bits
 * shut the owner out.  It runs as the service user, not as root, with just these two capabilities:
 * what belongs to root by ownership (settings in /proc/sys, chmod, chown, signals) is then out of
 * its reach too, and the capabilities do the same work under any uid.  The main process has the
 * same uid but fewer capabilities and the broker is not dumpable, so it can be killed from there
 * but not traced or read.
 *
 * Nothing that came over a network is parsed here.  The requests are structs of fixed size; a
 * client's bytes occur only as the body of a file handle whose MAC was checked, and that body is
 * handed to the kernel as it is.  Still the broker does not trust the main process: it opens the
 * folders of workspaces itself, below the data directory it was started with, and gives out nothing
 * but descriptors of what lies on their mount.
 *
 * One thread, one request at a time.
 */
#include "broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/list.h"
#include "base/map.h"
#include "broker/broker_proto.h"
#include "broker/seccomp_rules.h"

#define SOCK_FD  3
#define DATA_FD  4
#define ROOTS_FD 5  /* and those behind it */
#define ID_LEN   36 /* a UUID as text */
/* Steps up from a directory to the root of its workspace.  A path of PATH_MAX has at most 2048
 * folders; deeper trees can be built, but their folders are then not served after they left the
 * cache. */
#define DEPTH_MAX 4096

static const unsigned kept_caps[] = { CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE };

struct broker_state {
	uid_t service_uid;
	struct map roots; /* struct root by its key */
	struct adopt_roots adopt;
};

/* A registered workspace. */
struct root {
	struct map_node node;
	uint64_t key;
	int fd;          /* owned: workspaces/<id>/files */
	struct statx st; /* of @fd */
	bool is_adopted; /* lies elsewhere than in the data directory */
};

/* ---- what lies where ---------------------------------------------------- */

static int look(int fd, struct statx *ret)
{
	unsigned mask = STATX_BASIC_STATS | STATX_MNT_ID;

	return statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, mask, ret) < 0 ? -errno : 0;
}

static bool is_same_dev(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor;
}

static bool is_same_object(const struct statx *a, const struct statx *b)
{
	return is_same_dev(a, b) && a->stx_ino == b->stx_ino;
}

/* The mount says more than the device number: overlayfs shows files under another device than their
 * folders, and one file system may be mounted in two places.  Kernels before 5.8 do not tell it. */
static bool is_same_mount(const struct statx *a, const struct statx *b)
{
	if ((a->stx_mask & b->stx_mask & STATX_MNT_ID) != 0)
		return a->stx_mnt_id == b->stx_mnt_id;
	return is_same_dev(a, b);
}

/*
 * Is the directory @fd the root or below it?  Walks "..", since a path from /proc may be cut or
 * stale.
 *
 * Renames may happen during the walk.  They cannot mislead it: nobody can move a directory into or
 * out of a workspace's files (the main process moves only what it made itself, sandboxes and
 * clients see nothing else), so a directory that was inside has only parents inside, whenever we
 * look, and one that was outside only parents outside.  In the worst case a directory that is moved
 * deeper again and again exceeds the bound and is answered ESTALE.
 */
static int check_beneath(const struct root *root, int fd, struct statx st)
{
	auto_close int cur = -1;

	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		struct statx up;
		int next, rc;

		if (is_same_object(&st, &root->st))
			return 0;
		next = openat(cur < 0 ? fd : cur, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (next < 0)
			return -errno;
		if (cur >= 0)
			(void)close(cur);
		cur = next;
		rc = look(cur, &up);
		if (rc < 0)
			return rc;
		if (is_same_object(&up, &st))
			return -ESTALE; /* "/" */
		st = up;
	}
	return -ESTALE;
}

/* ---- workspaces --------------------------------------------------------- */

static struct root *find_root(const struct broker_state *b, uint64_t key)
{
	struct map_node *n = map_first(&b->roots, map_hash_u64(key));

	for (; n != NULL; n = map_next(n)) {
		struct root *root = container_of(n, struct root, node);

		if (root->key == key)
			return root;
	}
	return NULL;
}

/* Lower-case UUID, the only form ids have: no way to write a path with it. */
static bool is_id(const uint8_t *p, size_t n)
{
	if (n != ID_LEN)
		return false;
	for (size_t i = 0; i < ID_LEN; i++) {
		bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
		bool is_hex = (p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f');

		if (is_dash ? p[i] != '-' : !is_hex)
			return false;
	}
	return true;
}

/* Three fixed steps, none of which follows a link: that is all the beneath that is needed here. */
static int open_files(const char *id)
{
	static const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	auto_close int all = openat(DATA_FD, "workspaces", O_PATH | flags);
	auto_close int one = -1;
	int fd;

	if (all < 0)
		return -errno;
	one = openat(all, id, O_PATH | flags);
	if (one < 0)
		return -errno;
	/* open_by_handle_at() does not take an O_PATH descriptor.  An owner without privilege may
	 * have been shut out by the mode bits; without privilege there are no handles to open
	 * either. */
	fd = openat(one, "files", O_RDONLY | flags);
	if (fd < 0 && errno == EACCES)
		fd = openat(one, "files", O_PATH | flags);
	return fd < 0 ? -errno : fd;
}

/* Takes @fd. */
static int add_root(struct broker_state *b, uint64_t key, int fd, bool is_adopted)
{
	struct root *root = calloc(1, sizeof(*root));
	int rc = -ENOMEM;

	if (root == NULL)
		goto fail_close;
	root->key = key;
	root->fd = fd;
	root->is_adopted = is_adopted;
	rc = look(fd, &root->st);
	if (rc == 0)
		rc = map_insert(&b->roots, &root->node, map_hash_u64(root->key));
	if (rc == 0)
		return 0;
	free(root);
fail_close:
	(void)close(fd);
	return rc;
}

static int op_register(struct broker_state *b, const struct broker_request *req, int in_fd,
		       int *ret_fd)
{
	char id[ID_LEN + 1] = "";
	int fd;

	if (!is_id(req->bytes, req->n_bytes))
		return -EINVAL;
	if (find_root(b, req->ws_key) != NULL)
		return -EEXIST;
	memcpy(id, req->bytes, ID_LEN);
	fd = open_files(id);
	return fd < 0 ? fd : add_root(b, req->ws_key, fd, false);
}

static int op_unregister(struct broker_state *b, const struct broker_request *req, int in_fd,
			 int *ret_fd)
{
	struct root *root = find_root(b, req->ws_key);

	if (root == NULL)
		return -ENOENT;
	map_remove(&b->roots, &root->node);
	(void)close(root->fd);
	free(root);
	return 0;
}

/* ---- opening ------------------------------------------------------------ */

union handle {
	struct file_handle head;
	uint8_t room[sizeof(struct file_handle) + BROKER_BYTES_MAX];
};

static int probe_handles(int dir_fd)
{
	auto_close int dir = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = -1;
	union handle h = { .head.handle_bytes = BROKER_BYTES_MAX };
	int mount_id;

	if (dir < 0)
		return -errno;
	if (name_to_handle_at(dir, "", &h.head, &mount_id, AT_EMPTY_PATH) < 0)
		return -errno;
	fd = open_by_handle_at(dir, &h.head, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : 0;
}

static int op_probe_handles(struct broker_state *b, const struct broker_request *req, int in_fd,
			    int *ret_fd)
{
	return probe_handles(DATA_FD);
}

static int op_open_handle(struct broker_state *b, const struct broker_request *req, int in_fd,
			  int *ret_fd)
{
	const struct root *root = find_root(b, req->ws_key);
	auto_close int fd = -1;
	union handle h = { .head = { .handle_bytes = req->n_bytes, .handle_type = req->htype } };
	struct statx st;
	int rc;

	if (root == NULL)
		return -ENOENT;
	if (req->n_bytes == 0)
		return -EINVAL;
	memcpy(h.head.f_handle, req->bytes, req->n_bytes);
	fd = open_by_handle_at(root->fd, &h.head, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = look(fd, &st);
	if (rc < 0)
		return rc;
	if (st.stx_nlink == 0 || !is_same_mount(&st, &root->st))
		return -ESTALE;
	if (S_ISDIR(st.stx_mode)) {
		rc = check_beneath(root, fd, st);
		if (rc < 0)
			return rc;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Without privilege the owner's mode bits are opened up for the moment of the open.  A crash in
 * between leaves the file readable and writable for its owner, who could have had that anyway. */
static int open_up(const char *proc, const struct statx *st, int flags)
{
	mode_t mode = st->stx_mode & 07777;
	int fd, rc;

	if (st->stx_uid != geteuid())
		return -EACCES;
	if (chmod(proc, mode | S_IRUSR | S_IWUSR) < 0)
		return -errno;
	fd = open(proc, flags);
	rc = fd < 0 ? -errno : fd;
	if (chmod(proc, mode) < 0 && fd >= 0) {
		rc = -errno;
		(void)close(fd);
	}
	return rc;
}

/* O_NONBLOCK: a lease that somebody in a sandbox holds must not make the broker wait.
 * The name in /proc leads to the very file of the descriptor, which cannot be exchanged meanwhile.
 */
static int reopen(int path_fd, const struct statx *st, int flags)
{
	char proc[32];
	int fd, rc;

	(void)snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path_fd);
	flags |= O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	fd = open(proc, flags);
	rc = fd < 0 ? -errno : fd;
	if (rc == -EACCES)
		rc = open_up(proc, st, flags);
	if (rc == -EWOULDBLOCK)
		return -EBUSY;
	if (rc >= 0)
		(void)fcntl(rc, F_SETFL, 0);
	return rc;
}

static int op_open_file(struct broker_state *b, const struct broker_request *req, int in_fd,
			int *ret_fd)
{
	const struct root *root = find_root(b, req->ws_key);
	struct statx st;
	int rc, fl;

	if (root == NULL)
		return -ENOENT;
	if (req->flags != O_RDONLY && req->flags != O_RDWR)
		return -EINVAL;
	fl = fcntl(in_fd, F_GETFL);
	if (fl < 0 || (fl & O_PATH) == 0)
		return -EINVAL;
	rc = look(in_fd, &st);
	if (rc < 0)
		return rc;
	if (!S_ISREG(st.stx_mode) || st.stx_uid != b->service_uid || !is_same_mount(&st, &root->st))
		return -EPERM;
	rc = reopen(in_fd, &st, (int)req->flags);
	if (rc < 0)
		return rc;
	*ret_fd = rc;
	return 0;
}

/* ---- adopting ----------------------------------------------------------- */

/* Is @fd at or below @top?  Every answer but a clear no is a yes. */
static bool may_be_beneath(const struct statx *top, int fd)
{
	struct root root = { .st = *top };
	struct statx st;

	return look(fd, &st) < 0 || check_beneath(&root, fd, st) != -ESTALE;
}

struct overlap {
	int fd;
	struct statx st;
	bool found;
};

static bool look_for_overlap(struct map_node *n, void *arg)
{
	const struct root *root = container_of(n, struct root, node);
	struct overlap *o = arg;

	if (root->is_adopted)
		o->found = may_be_beneath(&root->st, o->fd) || may_be_beneath(&o->st, root->fd);
	return !o->found;
}

/* Two workspaces must not share a file, and none may show the data directory. */
static int check_overlap(struct broker_state *b, int fd)
{
	struct overlap o = { .fd = fd };
	struct statx data;
	int rc = look(fd, &o.st);

	if (rc == 0)
		rc = look(DATA_FD, &data);
	if (rc < 0)
		return rc;
	if (may_be_beneath(&data, fd) || may_be_beneath(&o.st, DATA_FD))
		return -EBUSY;
	map_each(&b->roots, look_for_overlap, &o);
	return o.found ? -EBUSY : 0;
}

static int check_adoptable(struct broker_state *b, int fd)
{
	struct statx st;
	int rc = look(fd, &st);

	if (rc < 0)
		return rc;
	if (st.stx_uid != b->service_uid)
		return -EACCES;
	rc = check_overlap(b, fd);
	if (rc == 0 && probe_handles(DATA_FD) == 0 && probe_handles(fd) < 0)
		rc = -EOPNOTSUPP; /* the server relies on them */
	return rc;
}

static int op_adopt(struct broker_state *b, const struct broker_request *req, int in_fd,
		    int *ret_fd)
{
	const struct broker_adopt *a = container_of(req, struct broker_adopt, head);
	auto_close int fd = -1;
	int rc;

	if (find_root(b, req->ws_key) != NULL)
		return -EEXIST;
	fd = adopt_open(&b->adopt, a->path);
	rc = fd < 0 ? fd : check_adoptable(b, fd);
	if (rc < 0)
		return rc;
	*ret_fd = openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd < 0)
		return -errno;
	return add_root(b, req->ws_key, take_fd(&fd), true);
}

/* ---- serving ------------------------------------------------------------ */

struct op {
	int (*run)(struct broker_state *b, const struct broker_request *req, int in_fd,
		   int *ret_fd);
	bool takes_fd;
};

/* clang-format off */
static const struct op ops[BROKER_N_OPS] = {
	[BROKER_PROBE_HANDLES] = { op_probe_handles, false },
	[BROKER_REGISTER]      = { op_register,      false },
	[BROKER_UNREGISTER]    = { op_unregister,    false },
	[BROKER_OPEN_HANDLE]   = { op_open_handle,   false },
	[BROKER_OPEN_FILE]     = { op_open_file,     true  },
	[BROKER_ADOPT]         = { op_adopt,         false },
};
/* clang-format on */

static int run_op(struct broker_state *b, const struct broker_request *req, int in_fd, int *ret_fd)
{
	if (req->op >= BROKER_N_OPS || req->n_bytes > BROKER_BYTES_MAX)
		return -EINVAL;
	if (ops[req->op].takes_fd != (in_fd >= 0))
		return -EINVAL;
	return ops[req->op].run(b, req, in_fd, ret_fd);
}

/* One request.  Return: 1, 0 when the main process is gone, -errno of the socket. */
static int serve_one(struct broker_state *b)
{
	struct broker_adopt req; /* the longest there is */
	struct broker_reply reply;
	auto_close int in_fd = -1;
	auto_close int out_fd = -1;
	size_t n_fds = 1;
	ssize_t n = io_recv_fds(SOCK_FD, &req, sizeof(req), &in_fd, &n_fds);

	if (n_fds == 0)
		in_fd = -1; /* none came, or it was closed again with a packet that was too long */
	if (n == 0)
		return 0;
	if (n < 0 && n != -EMSGSIZE)
		return (int)n;
	reply.rc = -EINVAL;
	if (n == (ssize_t)(req.head.op == BROKER_ADOPT ? sizeof(req) : sizeof(req.head)))
		reply.rc = run_op(b, &req.head, in_fd, &out_fd);
	if (reply.rc < 0 && out_fd >= 0)
		(void)close(take_fd(&out_fd));
	n = io_send_fds(SOCK_FD, &reply, sizeof(reply), &out_fd, out_fd >= 0 ? 1 : 0);
	return n < 0 ? (int)n : 1;
}

/* ---- becoming the broker ------------------------------------------------ */

/* Descriptors 0 to 2, the socket and the data directory, and no other. */
static int settle_descriptors(const struct broker_setup *setup)
{
	const int min = ROOTS_FD + BROKER_ADOPT_ROOTS_MAX; /* out of the way of what comes last */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int sock = fcntl(setup->sock, F_DUPFD_CLOEXEC, min);
	int data = fcntl(setup->data_fd, F_DUPFD_CLOEXEC, min);
	int roots[BROKER_ADOPT_ROOTS_MAX];

	if (null < 0 || sock < 0 || data < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		return -errno;
	for (size_t i = 0; i < setup->roots.n; i++) {
		roots[i] = fcntl(setup->roots.fd[i], F_DUPFD_CLOEXEC, min);
		if (roots[i] < 0)
			return -errno;
	}
	if (dup3(sock, SOCK_FD, O_CLOEXEC) < 0 || dup3(data, DATA_FD, O_CLOEXEC) < 0)
		return -errno;
	for (size_t i = 0; i < setup->roots.n; i++)
		if (dup3(roots[i], ROOTS_FD + (int)i, O_CLOEXEC) < 0)
			return -errno;
	closefrom(ROOTS_FD + (int)setup->roots.n);
	return 0;
}

/* Ctrl-C in the terminal goes to the whole group; the broker ends after the main process, by its
 * socket. */
static void settle_signals(void)
{
	static const int ignored[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2
	};
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int settle(const struct broker_setup *setup, struct err *err)
{
	int rc;

	settle_signals();
	(void)prctl(PR_SET_NAME, "workspaced-brk", 0, 0, 0);
	(void)umask(077);
	if (chdir("/") < 0)
		return err_set(err, -errno, "cannot change to the root folder: %s",
			       strerror(errno));
	rc = privilege_drop(setup->user, kept_caps, ARRAY_LEN(kept_caps), err);
	if (rc < 0)
		return rc;
	rc = privilege_hide(false, err);
	if (rc < 0)
		return rc;
	/* After the change of ids, which would undo it.  The parent may be gone already. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_set(err, -errno, "cannot follow the main process: %s", strerror(errno));
	if (getppid() != setup->parent)
		return err_set(err, -ESRCH, "the main process is gone");
	return seccomp_rules_broker(err);
}

_Noreturn void broker_run(const struct broker_setup *setup)
{
	struct broker_state b = { 0 };
	struct broker_hello hello = { 0 };
	struct err err = { 0 };
	int rc = settle_descriptors(setup);

	if (rc < 0)
		_exit(1); /* the main process sees its socket end */
	hello.rc = settle(setup, &err);
	if (hello.rc == 0)
		hello.rc = map_init(&b.roots, 0);
	memcpy(hello.msg, err.msg, sizeof(hello.msg));
	b.service_uid = geteuid();
	b.adopt = setup->roots;
	for (size_t i = 0; i < b.adopt.n; i++)
		b.adopt.fd[i] = ROOTS_FD + (int)i;
	rc = (int)io_send_fds(SOCK_FD, &hello, sizeof(hello), NULL, 0);
	while (rc > 0 && hello.rc == 0)
		rc = serve_one(&b);
	_exit(rc == 0 ? 0 : 1);
}
