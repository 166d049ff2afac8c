/* SPDX-License-Identifier: MIT */
/* See helper.h. */
#include "broker/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <locale.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "broker/seccomp_rules.h"

#define SOCK_FD 3 /* of the helper */

#define WORKER_MEMORY_MAX  (1ull << 30) /* bytes of address space: some decoders want 100 MiB */
#define WORKER_CPU_SECONDS 7200 /* a large archive takes minutes; a loop in a decoder ends */
#define WORKER_NICE        10   /* whoever waits for NFS goes first */
#define WORKER_FILES_MAX   400  /* descriptors: a walk of a tree holds 130 */

struct helper {
	int sock; /* owned; not blocking */
	pid_t pid;
};

/* ---- Landlock ----------------------------------------------------------- */

/* Rights that came after the headers of Debian 12. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif
#define LANDLOCK_ABI_REFER    2 /* before it, links and renames between folders are refused */
#define LANDLOCK_ABI_TRUNCATE 3

#define WORKER_RIGHTS                                                                              \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |                            \
	 LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR |                             \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |                            \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define OTHER_RIGHTS                                                                               \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |                               \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |                             \
	 LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* No file but those below @dir_fd.  0 also where the kernel has no Landlock that could do it. */
static int shut_out_other_files(int dir_fd)
{
	uint64_t below = WORKER_RIGHTS;
	struct landlock_ruleset_attr all = { .handled_access_fs = WORKER_RIGHTS | OTHER_RIGHTS };
	struct landlock_path_beneath_attr rule = { .parent_fd = dir_fd };
	auto_close int rules = -1;
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < LANDLOCK_ABI_REFER)
		return 0;
	if (abi >= LANDLOCK_ABI_TRUNCATE) {
		below |= LANDLOCK_ACCESS_FS_TRUNCATE;
		all.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	}
	rule.allowed_access = below;
	rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all.handled_access_fs), 0);
	if (rules < 0)
		return -errno;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ||
	    syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return -errno;
	return 0;
}

/* ---- a worker ----------------------------------------------------------- */

static int limit(__rlimit_resource_t what, uint64_t max)
{
	struct rlimit rl = { (rlim_t)max, (rlim_t)max };

	return setrlimit(what, &rl) < 0 ? -errno : 0;
}

static int confine(int dir_fd)
{
	int rc = setpriority(PRIO_PROCESS, 0, WORKER_NICE) < 0 ? -errno : limit(RLIMIT_CORE, 0);

	if (rc == 0)
		rc = limit(RLIMIT_CPU, WORKER_CPU_SECONDS);
	if (rc == 0)
		rc = limit(RLIMIT_NOFILE, WORKER_FILES_MAX);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which map terabytes */
	if (rc == 0)
		rc = limit(RLIMIT_AS, WORKER_MEMORY_MAX);
#endif
	if (rc == 0)
		rc = shut_out_other_files(dir_fd);
	return rc < 0 ? rc : seccomp_rules_worker(NULL);
}

static _Noreturn void be_worker(helper_fn run, pid_t parent, const void *job, size_t len,
				const int *fds, size_t n_fds)
{
	(void)close(SOCK_FD);
	(void)prctl(PR_SET_NAME, "workspaced-job", 0, 0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    confine(fds[0]) < 0)
		_exit(1); /* the other side sees its sockets end */
	run(job, len, fds, n_fds);
	_exit(0);
}

/* ---- the helper --------------------------------------------------------- */

/* One job.  Return: false when the main process is gone. */
static bool serve_one(helper_fn run)
{
	static uint8_t job[HELPER_JOB_MAX] __attribute__((aligned(16)));
	int fds[HELPER_FDS_MAX];
	size_t n_fds = HELPER_FDS_MAX;
	ssize_t n = io_recv_fds(SOCK_FD, job, sizeof(job), fds, &n_fds);
	pid_t self = getpid();

	if (n <= 0)
		return false;
	if (n_fds > 0 && fork() == 0)
		be_worker(run, self, job, (size_t)n, fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		(void)close(fds[i]);
	return true;
}

/* Descriptors 0 to 2 and the socket, and no other: above all not the broker's. */
static int settle_descriptors(int sock)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		return -errno;
	if (sock != SOCK_FD && dup3(sock, SOCK_FD, O_CLOEXEC) < 0)
		return -errno;
	closefrom(SOCK_FD + 1);
	return 0;
}

/* Ctrl-C in the terminal goes to the whole group; the helper ends after the main process. */
static void settle_signals(void)
{
	static const int ignored[] = { SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
				       SIGUSR1, SIGUSR2, SIGXFSZ, SIGCHLD /* no zombies */ };
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL);
	for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void be_helper(helper_fn run, int sock, pid_t parent)
{
	if (settle_descriptors(sock) < 0)
		_exit(1);
	settle_signals();
	(void)prctl(PR_SET_NAME, "workspaced-hlp", 0, 0, 0);
	/* Names in archives are UTF-8; where there is no such locale they are taken as bytes. */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	(void)umask(0);
	if (chdir("/") < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    getppid() != parent || seccomp_rules_helper(NULL) < 0)
		_exit(1);
	while (serve_one(run))
		;
	_exit(0);
}

/* ---- the main process's side -------------------------------------------- */

int helper_start(helper_fn run, struct helper **ret, struct err *err)
{
	struct helper *h = calloc(1, sizeof(*h));
	pid_t parent = getpid();
	int sv[2];

	if (h == NULL)
		return err_set(err, -ENOMEM, "helper: out of memory");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
		int rc = err_set(err, -errno, "helper: socket pair: %s", strerror(errno));

		free(h);
		return rc;
	}
	h->pid = fork();
	if (h->pid == 0)
		be_helper(run, sv[1], parent);
	(void)close(sv[1]);
	h->sock = sv[0];
	if (h->pid < 0 || io_set_nonblock(h->sock, true) < 0) {
		int rc = err_set(err, -errno, "helper: cannot be started: %s", strerror(errno));

		helper_stop(h);
		return rc;
	}
	*ret = h;
	return 0;
}

void helper_stop(struct helper *h)
{
	if (h == NULL)
		return;
	(void)close(h->sock); /* which is what ends it */
	while (h->pid > 0 && waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(h);
}

int helper_spawn(struct helper *h, const void *job, size_t len, const int *fds, size_t n_fds)
{
	ssize_t n;

	if (len == 0 || len > HELPER_JOB_MAX || n_fds == 0 || n_fds > HELPER_FDS_MAX)
		return -EINVAL;
	n = io_send_fds(h->sock, job, len, fds, n_fds);
	if (n == -ECONNRESET)
		return -EPIPE;
	return n < 0 ? (int)n : 0;
}
