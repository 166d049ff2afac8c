/* SPDX-License-Identifier: MIT */
/*
 * The filters, from inside: each case runs in a child that loads one and makes calls.  A child ends
 * with the line number of the first thing that was not as it should be (so that no assert of the
 * test library runs under a filter), or 0.
 */
#include "broker/seccomp_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <uv.h>

#include "base/cleanup.h"

#define SKIPPED 255

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)dprintf(2, "line %d: %s (errno %d)\n", __LINE__, #cond, errno);      \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* Run @fn in a child of its own behind the filter that @load sets up. */
static void in_child(int (*load)(struct err *err), int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = { 0 };

		if (load(&err) < 0) {
			(void)dprintf(2, "%s\n", err.msg);
			_exit(SKIPPED);
		}
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED) {
		print_message("needs a kernel with system call filters\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- refused ------------------------------------------------------------ */

static int check_refused(void)
{
	static const struct {
		long nr;
		const char *name;
	} calls[] = {
		{ SYS_execveat, "execveat" },
		{ SYS_execve, "execve" },
#ifndef __SANITIZE_ADDRESS__
		{ SYS_ptrace, "ptrace" },
#endif
		{ SYS_mount, "mount" },
		{ SYS_umount2, "umount2" },
		{ SYS_fsopen, "fsopen" },
		{ SYS_open_tree, "open_tree" },
		{ SYS_move_mount, "move_mount" },
		{ SYS_mount_setattr, "mount_setattr" },
		{ SYS_pivot_root, "pivot_root" },
		{ SYS_chroot, "chroot" },
		{ SYS_setns, "setns" },
		{ SYS_unshare, "unshare" },
		{ SYS_bpf, "bpf" },
		{ SYS_keyctl, "keyctl" },
		{ SYS_add_key, "add_key" },
		{ SYS_request_key, "request_key" },
		{ SYS_perf_event_open, "perf_event_open" },
		{ SYS_init_module, "init_module" },
		{ SYS_finit_module, "finit_module" },
		{ SYS_delete_module, "delete_module" },
		{ SYS_kexec_load, "kexec_load" },
		{ SYS_process_vm_readv, "process_vm_readv" },
		{ SYS_process_vm_writev, "process_vm_writev" },
		{ SYS_pidfd_getfd, "pidfd_getfd" },
		{ SYS_open_by_handle_at, "open_by_handle_at" },
		{ SYS_userfaultfd, "userfaultfd" },
		{ SYS_io_uring_setup, "io_uring_setup" },
		{ SYS_reboot, "reboot" },
		{ SYS_swapon, "swapon" },
		{ SYS_setuid, "setuid" },
		{ SYS_setresuid, "setresuid" },
		{ SYS_setresgid, "setresgid" },
		{ SYS_setgroups, "setgroups" },
		{ SYS_capset, "capset" },
		{ SYS_seccomp, "seccomp" },
		{ SYS_personality, "personality" },
		{ SYS_clock_settime, "clock_settime" },
	};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		errno = 0;
		if (syscall(calls[i].nr, -1L, -1L, -1L, -1L, -1L, -1L) != -1 || errno != EPERM) {
			(void)dprintf(2, "%s: errno %d\n", calls[i].name, errno);
			return 1;
		}
	}
	return 0;
}

static int check_unknown(void)
{
	errno = 0;
	MUST(syscall(1000) == -1 && errno == ENOSYS);
	errno = 0;
	MUST(syscall(SYS_clone3, NULL, 0) == -1 &&
	     errno == ENOSYS); /* so that glibc uses clone() */
	errno = 0;
	MUST(syscall(SYS_landlock_create_ruleset, NULL, 0, 1) == -1 && errno == ENOSYS);
	return 0;
}

static int check_arguments(void)
{
	void *p;
	int fd;

#ifndef __SANITIZE_ADDRESS__
	MUST(fork() == -1 && errno == EPERM);
	MUST(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == -1 && errno == ENOSYS);
	MUST(prctl(PR_SET_NAME, "renamed", 0, 0, 0) == 0);
#endif
	MUST(socket(AF_PACKET, SOCK_RAW, 0) == -1 && errno == EAFNOSUPPORT);
	MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER) == -1 && errno == ENOSYS);
	MUST(socket(40 /* AF_VSOCK */, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	MUST(fd >= 0);
	MUST(close(fd) == 0);
	MUST(kill(1, 0) == -1 && errno == EPERM);
	MUST(kill(-1, 0) == -1 && errno == EPERM);
	MUST(kill(getpid(), 0) == 0);
	MUST(syscall(SYS_tgkill, 1, 1, 0) == -1 && errno == EPERM);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0);
	MUST(p == MAP_FAILED && errno == EPERM);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(p != MAP_FAILED);
	MUST(mprotect(p, 4096, PROT_WRITE | PROT_EXEC) == -1 && errno == EPERM);
	MUST(mprotect(p, 4096, PROT_READ) == 0);
	MUST(munmap(p, 4096) == 0);
	return 0;
}

static void test_main_is_refused_power(void **state)
{
	in_child(seccomp_rules_main, check_refused);
}

static void test_main_gets_enosys_for_what_is_unknown(void **state)
{
	in_child(seccomp_rules_main, check_unknown);
}

static void test_main_is_held_to_harmless_arguments(void **state)
{
	in_child(seccomp_rules_main, check_arguments);
}

/* ---- allowed ------------------------------------------------------------ */

static char *dir; /* of the test's own; made by setup() */

static int work_with_files(int at)
{
	static char page[8192];
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };
	struct iovec iov = { page, sizeof(page) };
	union {
		struct file_handle head;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} h = { .head.handle_bytes = MAX_HANDLE_SZ };
	struct statx stx;
	struct rlimit rl;
	int mount_id, fd = openat(at, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	MUST(fd >= 0);
	MUST(pwritev2(fd, &iov, 1, 0, 0) == sizeof(page));
	MUST(preadv2(fd, &iov, 1, 0, 0) == sizeof(page));
	MUST(fsync(fd) == 0 && fdatasync(fd) == 0 && ftruncate(fd, 100) == 0);
	MUST(fchmod(fd, 0640) == 0 && fchown(fd, getuid(), -1) == 0);
	MUST(fchownat(fd, "", -1, -1, AT_EMPTY_PATH) == 0);
	MUST(futimens(fd, times) == 0);
	MUST(statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &stx) == 0 && stx.stx_size == 100);
	MUST(linkat(at, "f", at, "g", 0) == 0 && renameat2(AT_FDCWD, "/x/y", at, "z", 0) == -1);
	MUST(errno == ENOENT);
	MUST(symlinkat("f", at, "s") == 0 && mkdirat(at, "d", 0700) == 0);
	MUST(mknodat(at, "p", S_IFIFO | 0600, 0) == 0);
	MUST(name_to_handle_at(at, "f", &h.head, &mount_id, 0) == 0 || errno == EOPNOTSUPP);
	MUST(getrlimit(RLIMIT_NOFILE, &rl) == 0 && setrlimit(RLIMIT_NOFILE, &rl) == 0);
	(void)syscall(SYS_openat2, at, "f", NULL, 0);
	MUST(errno == EINVAL); /* it was let through to complain of its arguments */
	return close(fd);
}

static int work_with_sqlite(void)
{
	char path[256];
	sqlite3 *db;

	(void)snprintf(path, sizeof(path), "%s/workspace.db", dir);
	MUST(sqlite3_open(path, &db) == SQLITE_OK);
	MUST(sqlite3_exec(db,
			  "PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1);"
			  "PRAGMA wal_checkpoint(TRUNCATE); SELECT * FROM t;",
			  NULL, NULL, NULL) == SQLITE_OK);
	return sqlite3_close(db) == SQLITE_OK ? 0 : 1;
}

static void nothing(uv_work_t *w)
{
	w->data = w;
}

static void on_signal(uv_signal_t *s, int sig)
{
	uv_close((uv_handle_t *)s, NULL);
}

static void on_timer(uv_timer_t *t)
{
	(void)raise(SIGUSR1);
	uv_close((uv_handle_t *)t, NULL);
}

static void on_async(uv_async_t *a)
{
	uv_close((uv_handle_t *)a, NULL);
}

static int work_with_libuv(void)
{
	struct sockaddr_in any;
	uv_work_t work = { 0 };
	uv_timer_t timer;
	uv_signal_t sig;
	uv_async_t async;
	uv_tcp_t tcp;
	uv_loop_t loop;

	MUST(uv_loop_init(&loop) == 0);
	MUST(uv_ip4_addr("127.0.0.1", 0, &any) == 0);
	MUST(uv_tcp_init(&loop, &tcp) == 0);
	MUST(uv_tcp_bind(&tcp, (struct sockaddr *)&any, 0) == 0);
	MUST(uv_listen((uv_stream_t *)&tcp, 8, NULL) == 0);
	uv_close((uv_handle_t *)&tcp, NULL);
	MUST(uv_queue_work(&loop, &work, nothing, NULL) == 0);
	MUST(uv_signal_init(&loop, &sig) == 0 && uv_signal_start(&sig, on_signal, SIGUSR1) == 0);
	MUST(uv_timer_init(&loop, &timer) == 0 && uv_timer_start(&timer, on_timer, 1, 0) == 0);
	MUST(uv_async_init(&loop, &async, on_async) == 0 && uv_async_send(&async) == 0);
	MUST(uv_run(&loop, UV_RUN_DEFAULT) == 0);
	MUST(work.data == &work);
	MUST(uv_loop_close(&loop) == 0);
	return 0;
}

static void *allocate_much(void *arg)
{
	void *p[64];

	for (size_t i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = malloc((i + 1) * 8192);
		if (p[i] == NULL)
			return NULL;
		memset(p[i], 1, (i + 1) * 8192);
	}
	for (size_t i = 0; i < ARRAY_LEN(p); i++)
		free(p[i]);
	return arg;
}

static int work_with_threads(void)
{
	pthread_t t[4];
	int arg[4];
	void *got;

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		MUST(pthread_create(&t[i], NULL, allocate_much, &arg[i]) == 0);
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		MUST(pthread_join(t[i], &got) == 0);
		MUST(got == &arg[i]);
	}
	return 0;
}

static int check_work(void)
{
	int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	MUST(at >= 0);
	MUST(work_with_threads() == 0);
	MUST(work_with_libuv() == 0);
	MUST(work_with_sqlite() == 0);
	return work_with_files(at);
}

static void test_main_can_do_its_work(void **state)
{
	in_child(seccomp_rules_main, check_work);
}

/* The filter also binds threads that were there before it. */
static pthread_barrier_t barrier;

static void *try_unshare(void *arg)
{
	(void)pthread_barrier_wait(&barrier);
	errno = 0;
	return unshare(CLONE_FS) == -1 && errno == EPERM ? arg : NULL;
}

static int check_threads(void)
{
	struct err err = { 0 };
	pthread_t t;
	void *got;

	MUST(pthread_barrier_init(&barrier, NULL, 2) == 0);
	MUST(pthread_create(&t, NULL, try_unshare, &err) == 0);
	MUST(seccomp_rules_main(&err) == 0);
	(void)pthread_barrier_wait(&barrier);
	MUST(pthread_join(t, &got) == 0);
	MUST(got == &err);
	return 0;
}

static int load_nothing(struct err *err)
{
	return 0;
}

static void test_threads_of_before_are_bound_too(void **state)
{
	in_child(load_nothing, check_threads);
}

/* Leaves by exit(), so that a sanitized build looks for leaks, which it does under the filter. */
static int leave_by_exit(void)
{
	exit(0);
}

static void test_main_can_end(void **state)
{
	in_child(seccomp_rules_main, leave_by_exit);
}

/* ---- the broker --------------------------------------------------------- */

static int check_broker(void)
{
	char *no_args[] = { NULL };
	void *p = malloc(1 << 20);

	MUST(p != NULL);
	free(p);
	MUST(socket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EPERM);
	MUST(execve("/bin/true", no_args, no_args) == -1 && errno == EPERM);
	MUST(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == -1 && errno == ENOSYS);
	MUST(unlinkat(AT_FDCWD, "/nothing/there", 0) == -1 && errno == ENOSYS);
	MUST(setresuid(-1, -1, -1) == -1 && errno == ENOSYS);
	MUST(syscall(SYS_open_by_handle_at, -1, NULL, 0) == -1 && errno != ENOSYS && errno != 0);
	return 0;
}

static void test_broker_has_little(void **state)
{
	in_child(seccomp_rules_broker, check_broker);
}

static int setup(void **state)
{
	static char template[] = "/tmp/seccomp-rules-XXXXXX";

	dir = mkdtemp(template);
	return dir != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = { "f", "g", "s", "p", "workspace.db" };
	int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlinkat(at, names[i], 0);
	(void)unlinkat(at, "d", AT_REMOVEDIR);
	(void)close(at);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_main_is_refused_power),
		cmocka_unit_test(test_main_gets_enosys_for_what_is_unknown),
		cmocka_unit_test(test_main_is_held_to_harmless_arguments),
		cmocka_unit_test(test_main_can_do_its_work),
		cmocka_unit_test(test_threads_of_before_are_bound_too),
		cmocka_unit_test(test_main_can_end),
		cmocka_unit_test(test_broker_has_little),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
