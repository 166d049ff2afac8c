/* SPDX-License-Identifier: MIT */
/*
 * What a confined worker cannot do.  Each check is made by a worker itself, which tells the errno
 * it got.  Without the helper's chain of filters every one of them would succeed here, as root or
 * not.
 */
#include "broker/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "tests/unit/data_dir.h"

enum check {
	CHECK_WRITE_INSIDE,
	CHECK_OPEN_OUTSIDE,
	CHECK_LINK_OUT,
	CHECK_SOCKET,
	CHECK_FORK,
	CHECK_EXEC,
	CHECK_KILL,
	CHECK_PTRACE,
	CHECK_EXECUTABLE_MEMORY,
	CHECK_DIE,
	N_CHECKS
};

static int result(long rc)
{
	return rc < 0 ? errno : 0;
}

static int check_open_outside(int dir)
{
	int rc = result(openat(dir, "../outside", O_RDONLY | O_CLOEXEC));

	return rc != 0 ? rc : result(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static int run_check(enum check c, int dir)
{
	switch (c) {
	case CHECK_WRITE_INSIDE:
		return result(openat(dir, "made", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	case CHECK_OPEN_OUTSIDE:
		return check_open_outside(dir);
	case CHECK_LINK_OUT:
		return result(linkat(dir, "made", dir, "../stolen", 0));
	case CHECK_SOCKET:
		return result(socket(AF_INET, SOCK_STREAM, 0));
	case CHECK_FORK:
		return result(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	case CHECK_EXEC:
		return result(execve("/bin/true", (char *[]){ NULL }, NULL));
	case CHECK_KILL:
		return result(kill(getppid(), 0));
	case CHECK_PTRACE:
		return result(syscall(SYS_ptrace, 16 /* attach */, 1, 0, 0));
	case CHECK_EXECUTABLE_MEMORY:
		return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0) == MAP_FAILED
			       ? errno
			       : 0;
	case CHECK_DIE:
		_exit(7);
	case N_CHECKS:
		break;
	}
	return 0;
}

static void worker(const void *job, size_t len, const int *fds, size_t n_fds)
{
	const enum check *c = job;
	int got;

	if (len != sizeof(*c) || n_fds != 2)
		return;
	got = run_check(*c, fds[0]);
	(void)!write(fds[1], &got, sizeof(got));
}

/* What the worker got, or -1 when it said nothing. */
static int ask(struct helper *h, enum check c, int dir)
{
	int sv[2], got = -1;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(helper_spawn(h, &c, sizeof(c), (const int[]){ dir, sv[1] }, 2), 0);
	(void)close(sv[1]);
	if (io_read_full(sv[0], &got, sizeof(got)) != sizeof(got))
		got = -1;
	(void)close(sv[0]);
	return got;
}

static bool has_landlock(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 2;
}

static void test_a_worker_is_shut_in(void **state)
{
	/* clang-format off */
	static const struct { enum check check; int want; } cases[] = {
		{ CHECK_WRITE_INSIDE, 0 }, { CHECK_SOCKET, EPERM },   { CHECK_FORK, ENOSYS },
		{ CHECK_EXEC, EPERM },     { CHECK_KILL, ENOSYS },    { CHECK_PTRACE, EPERM },
		{ CHECK_EXECUTABLE_MEMORY, ENOSYS },
	};
	/* clang-format on */
	const struct data_dir *d = *state;
	struct helper *h = NULL;
	auto_close int inside = -1;

	assert_int_equal(mkdirat(d->fd, "inside", 0700), 0);
	inside = openat(d->fd, "inside", O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)close(openat(d->fd, "outside", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(helper_start(worker, &h, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(ask(h, cases[i].check, inside), cases[i].want);
	if (has_landlock()) {
		assert_int_equal(ask(h, CHECK_OPEN_OUTSIDE, inside), EACCES);
		assert_true(ask(h, CHECK_LINK_OUT, inside) > 0);
		assert_int_not_equal(faccessat(d->fd, "stolen", F_OK, 0), 0);
	}
	helper_stop(h);
}

static void test_one_dead_worker_is_nobody_elses_trouble(void **state)
{
	const struct data_dir *d = *state;
	struct helper *h = NULL;

	assert_int_equal(helper_start(worker, &h, NULL), 0);
	for (int i = 0; i < 50; i++)
		assert_int_equal(ask(h, CHECK_DIE, d->fd), -1);
	assert_int_equal(ask(h, CHECK_WRITE_INSIDE, d->fd), 0);
	helper_stop(h);
}

/* Which is the helper; it stays to be waited for. */
static void kill_only_child(void)
{
	char path[64];
	auto_free char *text = NULL;
	size_t len;
	uint64_t pid = 0;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	assert_int_equal(io_read_file(AT_FDCWD, path, 64, &text, &len, NULL), 0);
	text[strcspn(text, " ")] = '\0';
	assert_int_equal(io_parse_u64(text, 2, UINT32_MAX, &pid), 0);
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
}

static void test_a_helper_that_is_gone_is_told_of(void **state)
{
	const struct data_dir *d = *state;
	enum check c = CHECK_WRITE_INSIDE;
	struct helper *h = NULL;

	assert_int_equal(helper_start(worker, &h, NULL), 0);
	assert_int_equal(helper_spawn(h, &c, 0, (const int[]){ d->fd }, 1), -EINVAL);
	assert_int_equal(helper_spawn(h, &c, sizeof(c), NULL, 0), -EINVAL);
	kill_only_child();
	assert_int_equal(helper_spawn(h, &c, sizeof(c), (const int[]){ d->fd }, 1), -EPIPE);
	helper_stop(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_DATA_DIR(test_a_worker_is_shut_in),
		TEST_IN_DATA_DIR(test_one_dead_worker_is_nobody_elses_trouble),
		TEST_IN_DATA_DIR(test_a_helper_that_is_gone_is_told_of),
	};

	/* A helper inherits no_new_privs from whoever starts it, which a filter needs. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
