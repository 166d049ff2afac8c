/* SPDX-License-Identifier: MIT */
/*
 * The start of the broker and the main process's end of its socket.
 *
 * The data directory is opened before privilege is given up and used through that descriptor ever
 * after, by both processes: an operator may keep it where the service user cannot go.
 */
#include "broker/broker_client.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "broker/broker.h"
#include "broker/broker_proto.h"

/* The leak checker at the end of a sanitized program traces its own threads, which a process that
 * is not dumpable forbids. */
#ifdef __SANITIZE_ADDRESS__
#define MAIN_IS_DUMPABLE true
#else
#define MAIN_IS_DUMPABLE false
#endif

struct broker {
	pthread_mutex_t mutex; /* one request and its reply at a time */
	int sock;              /* owned; protected by mutex */
	int pidfd;             /* owned */
	pid_t pid;
};

/* ---- requests ----------------------------------------------------------- */

/* Return: what the broker answered, or -EPIPE when it is gone. */
static int exchange(struct broker *b, const void *req, size_t req_len, int in_fd, int *ret_fd)
{
	struct broker_reply reply = { 0 };
	size_t n_fds = 1;
	int fd = -1;
	ssize_t n = io_send_fds(b->sock, req, req_len, &in_fd, in_fd >= 0 ? 1 : 0);

	if (n < 0)
		return n == -ECONNRESET ? -EPIPE : (int)n;
	n = io_recv_fds(b->sock, &reply, sizeof(reply), &fd, &n_fds);
	if (n == 0 || n == -ECONNRESET)
		return -EPIPE;
	if (n < 0)
		return (int)n;
	if (n == sizeof(reply) && reply.rc == 0 && (n_fds == 1) == (ret_fd != NULL)) {
		if (ret_fd != NULL)
			*ret_fd = fd;
		return 0;
	}
	/* The kernel leaves a descriptor out when we have too many open: the reply then has none.
	 */
	if (n_fds == 1)
		(void)close(fd);
	if (n == sizeof(reply) && reply.rc == 0)
		return -EMFILE;
	return n == sizeof(reply) && reply.rc < 0 ? reply.rc : -EPROTO;
}

static int ask(struct broker *b, const struct broker_request *req, int in_fd, int *ret_fd)
{
	int rc;

	pthread_mutex_lock(&b->mutex);
	rc = exchange(b, req, sizeof(*req), in_fd, ret_fd);
	pthread_mutex_unlock(&b->mutex);
	return rc;
}

int broker_register(struct broker *b, uint64_t ws_key, const char *ws_id, struct err *err)
{
	struct broker_request req = { .op = BROKER_REGISTER, .ws_key = ws_key };
	size_t n = strlen(ws_id);
	int rc;

	if (n > sizeof(req.bytes))
		return err_set(err, -EINVAL, "that is no workspace id");
	memcpy(req.bytes, ws_id, n);
	req.n_bytes = (uint32_t)n;
	rc = ask(b, &req, -1, NULL);
	if (rc < 0)
		return err_set(err, rc, "workspace '%s': the broker cannot register it: %s", ws_id,
			       strerror(-rc));
	return 0;
}

/* What the broker's refusals mean to whoever named the directory. */
static const struct {
	int rc;
	const char *text;
} adopt_refusals[] = {
	{ -ENOENT, "there is no such directory" },
	{ -ENOTDIR, "it is no directory" },
	{ -ELOOP, "a link is on the way to it" },
	{ -EPERM, "it is not below one of WORKSPACE_ADOPT_ROOTS" },
	{ -EACCES,
	  "it does not belong to the user the server runs as: hand it over, with all in it" },
	{ -EBUSY, "it holds, or lies in, the data directory or another workspace" },
	{ -EXDEV, "it is on another file system than the directory of WORKSPACE_ADOPT_ROOTS" },
	{ -EOPNOTSUPP, "its file system has no file handles" },
	{ -ENAMETOOLONG, "its path is too long" },
};

static int explain_adopt(int rc, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(adopt_refusals); i++)
		if (adopt_refusals[i].rc == rc)
			return err_set(err, -EINVAL, "'adopt': %s", adopt_refusals[i].text);
	return err_set(err, rc, "'adopt': %s", strerror(-rc));
}

int broker_adopt(struct broker *b, uint64_t ws_key, const char *path, struct err *err)
{
	struct broker_adopt req = { .head = { .op = BROKER_ADOPT, .ws_key = ws_key } };
	size_t n = strlen(path);
	int fd, rc;

	if (n >= sizeof(req.path))
		return explain_adopt(-ENAMETOOLONG, err);
	memcpy(req.path, path, n);
	pthread_mutex_lock(&b->mutex);
	rc = exchange(b, &req, sizeof(req), -1, &fd);
	pthread_mutex_unlock(&b->mutex);
	return rc < 0 ? explain_adopt(rc, err) : fd;
}

int broker_unregister(struct broker *b, uint64_t ws_key)
{
	struct broker_request req = { .op = BROKER_UNREGISTER, .ws_key = ws_key };

	return ask(b, &req, -1, NULL);
}

int broker_open_handle(struct broker *b, uint64_t ws_key, uint8_t htype, const void *bytes,
		       size_t len)
{
	struct broker_request req = { .op = BROKER_OPEN_HANDLE, .ws_key = ws_key, .htype = htype };
	int fd, rc;

	if (len > sizeof(req.bytes))
		return -EINVAL;
	memcpy(req.bytes, bytes, len);
	req.n_bytes = (uint32_t)len;
	rc = ask(b, &req, -1, &fd);
	return rc < 0 ? rc : fd;
}

int broker_open_file(struct broker *b, uint64_t ws_key, int path_fd, int flags)
{
	struct broker_request req = { .op = BROKER_OPEN_FILE,
				      .ws_key = ws_key,
				      .flags = (uint32_t)flags };
	int fd, rc;

	assert(path_fd >= 0);
	rc = ask(b, &req, path_fd, &fd);
	return rc < 0 ? rc : fd;
}

int broker_pidfd(const struct broker *b)
{
	return b->pidfd;
}

/* ---- start and stop ----------------------------------------------------- */

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

void broker_stop(struct broker *b)
{
	if (b == NULL)
		return;
	(void)close(b->sock); /* which is what ends the broker */
	reap(b->pid);
	(void)close(b->pidfd);
	pthread_mutex_destroy(&b->mutex);
	free(b);
}

/* Wait until the broker has given up what it does not need. */
static int hear_hello(int sock, struct err *err)
{
	struct broker_hello hello;
	size_t n_fds = 0;
	ssize_t n = io_recv_fds(sock, &hello, sizeof(hello), NULL, &n_fds);

	if (n != sizeof(hello))
		return err_set(err, -EPIPE, "it died at its start");
	if (hello.rc == 0)
		return 0;
	hello.msg[sizeof(hello.msg) - 1] = '\0';
	if (hello.msg[0] == '\0')
		return err_set(err, hello.rc, "%s", strerror(-hello.rc));
	return err_set(err, hello.rc, "%s", hello.msg);
}

static int fork_broker(struct broker *b, int data_fd, const struct service_user *user,
		       const struct adopt_roots *roots, struct err *err)
{
	struct broker_setup setup = {
		.data_fd = data_fd, .parent = getpid(), .user = user, .roots = *roots
	};
	int sv[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_set(err, -errno, "cannot make a socket pair: %s", strerror(errno));
	setup.sock = sv[1];
	b->pid = fork();
	if (b->pid == 0)
		broker_run(&setup);
	(void)close(sv[1]);
	if (b->pid < 0) {
		rc = err_set(err, -errno, "cannot fork: %s", strerror(errno));
		goto fail_close;
	}
	b->pidfd = pidfd_open(b->pid, 0);
	if (b->pidfd < 0) {
		rc = err_set(err, -errno, "cannot watch it: %s", strerror(errno));
		goto fail_reap;
	}
	rc = hear_hello(sv[0], err);
	if (rc < 0)
		goto fail_reap;
	b->sock = sv[0];
	return 0;

fail_reap:
	(void)close(sv[0]);
	reap(b->pid);
	if (b->pidfd >= 0)
		(void)close(b->pidfd);
	return rc;
fail_close:
	(void)close(sv[0]);
	return rc;
}

static int broker_new(int data_fd, const struct service_user *user, const struct adopt_roots *roots,
		      struct broker **ret, struct err *err)
{
	struct broker *b = calloc(1, sizeof(*b));
	int rc;

	if (b == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&b->mutex, NULL);
	rc = fork_broker(b, data_fd, user, roots, err);
	if (rc < 0) {
		pthread_mutex_destroy(&b->mutex);
		free(b);
		return err_wrap(err, rc, "broker");
	}
	*ret = b;
	return 0;
}

static int open_data_dir(const char *path, const struct service_user *user, struct err *err)
{
	auto_close int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return err_set(err, -errno, "data directory: %s", strerror(errno));
	rc = data_dir_prepare(fd, user, err);
	if (rc < 0)
		return err_wrap(err, rc, "data directory");
	return take_fd(&fd);
}

/* Links in the operator's own paths are followed, now. */
static int open_adopt_roots(const struct broker_options *o, struct adopt_roots *ret,
			    struct err *err)
{
	if (o->n_adopt_roots > BROKER_ADOPT_ROOTS_MAX)
		return err_set(err, -EINVAL, "more than %d directories to adopt from",
			       BROKER_ADOPT_ROOTS_MAX);
	ret->path = o->adopt_roots;
	for (; ret->n < o->n_adopt_roots; ret->n++) {
		const char *path = ret->path[ret->n];

		ret->fd[ret->n] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (ret->fd[ret->n] < 0)
			return err_set(err, -errno, "directory '%s' to adopt from: %s", path,
				       strerror(errno));
	}
	return 0;
}

static void close_adopt_roots(struct adopt_roots *roots)
{
	while (roots->n > 0)
		(void)close(roots->fd[--roots->n]);
}

static int give_up_privilege(const struct service_user *user, struct err *err)
{
	int rc = privilege_drop(user, NULL, 0, err);

	return rc < 0 ? rc : privilege_hide(MAIN_IS_DUMPABLE, err);
}

static void fill_caps(struct broker *b, bool is_root, int data_fd, struct broker_caps *ret)
{
	struct broker_request probe = { .op = BROKER_PROBE_HANDLES };

	*ret = (struct broker_caps){
		.is_root = is_root,
		.can_open_handles = ask(b, &probe, -1, NULL) == 0,
		.service_uid = geteuid(),
		.service_gid = getegid(),
	};
	(void)snprintf(ret->data_path, sizeof(ret->data_path), "/proc/self/fd/%d", data_fd);
}

/* The one thing of /proc that everything later hangs on; chroots and odd containers may not have
 * it. */
static int check_data_path(const char *path, struct err *err)
{
	if (access(path, R_OK | W_OK | X_OK) < 0)
		return err_set(err, -errno,
			       "data directory: cannot be used through /proc/self/fd: %s",
			       strerror(errno));
	return 0;
}

int broker_start(const struct broker_options *o, struct broker **ret, struct broker_caps *ret_caps,
		 struct err *err)
{
	bool is_root = geteuid() == 0;
	auto_close int data_fd = -1;
	struct service_user user;
	struct adopt_roots roots = { 0 };
	struct broker_caps caps;
	struct broker *b = NULL;
	int rc;

	if (is_root) {
		rc = privilege_service_user(o->service_user, &user, err);
		if (rc < 0)
			return rc;
	}
	privilege_raise_nofile();
	data_fd = open_data_dir(o->data_dir, is_root ? &user : NULL, err);
	if (data_fd < 0)
		return data_fd;
	rc = open_adopt_roots(o, &roots, err);
	if (rc == 0)
		rc = broker_new(data_fd, is_root ? &user : NULL, &roots, &b, err);
	close_adopt_roots(&roots);
	if (rc < 0)
		return rc;
	rc = give_up_privilege(is_root ? &user : NULL, err);
	if (rc < 0)
		goto fail_stop;
	fill_caps(b, is_root, data_fd, &caps);
	rc = check_data_path(caps.data_path, err);
	if (rc < 0)
		goto fail_stop;
	(void)take_fd(&data_fd); /* stays open for good: see broker_caps */
	*ret_caps = caps;
	*ret = b;
	return 0;

fail_stop:
	broker_stop(b);
	return rc;
}
