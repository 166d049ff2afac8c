/* SPDX-License-Identifier: MIT */
/*
 * The broker from the main process's side.  broker_start() gives up privilege for good, so each
 * case runs in a child, which ends with 0, or 1 after saying which line failed.  As root the cases
 * act as the service user, in a data directory that this user cannot reach by its path.
 */
#include "broker/broker_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "broker/broker.h"
#include "broker/broker_proto.h"
#include "broker/seccomp_rules.h"
#include "workspace/path.h"

#define ID          "01234567-89ab-4cde-8f01-23456789abcd"
#define OTHER_ID    "11111111-89ab-4cde-8f01-23456789abcd"
#define KEY         7u
#define OTHER_KEY   8u
#define SERVICE_UID 54321u
#define DEADLINE_MS 10000

#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)dprintf(2, "line %d: %s (errno %d)\n", __LINE__, #cond, errno);      \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static char closed[64]; /* mode 0700: as root, the service user cannot pass */
static char data[128];  /* the data directory, in it */

static bool is_root(void)
{
	return geteuid() == 0;
}

static int make_tree(void **state)
{
	static const char *const dirs[] = { "",
					    "/workspaces",
					    "/workspaces/" ID,
					    "/workspaces/" ID "/files",
					    "/workspaces/" ID "/files/d",
					    "/workspaces/" ID "/files/d/e",
					    "/workspaces/" ID "/staging",
					    "/workspaces/" OTHER_ID,
					    "/workspaces/" OTHER_ID "/files" };
	static const char *const files[] = { "/workspaces/" ID "/files/f",
					     "/workspaces/" OTHER_ID "/files/f" };
	char path[256];

	strcpy(closed, "/tmp/broker-XXXXXX");
	if (mkdtemp(closed) == NULL)
		return -1;
	(void)snprintf(data, sizeof(data), "%s/data", closed);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", data, dirs[i]);
		if (mkdir(path, 0755) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		int fd;

		(void)snprintf(path, sizeof(path), "%s%s", data, files[i]);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0 || write(fd, "hello", 5) != 5 || close(fd) < 0)
			return -1;
	}
	return 0;
}

static int remove_tree(void **state)
{
	auto_close int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return path_remove_tree(tmp, strrchr(closed, '/') + 1, NULL);
}

static void run_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static struct broker *broker;
static struct broker_caps caps;
static int files_fd; /* the workspace's files, as the main process has them */

/* What main() does: start, filter, register. */
static int start(void)
{
	struct broker_options o = { .data_dir = data, .service_user = is_root() ? "54321" : NULL };
	struct err err = { 0 };
	int at, rc = broker_start(&o, &broker, &caps, &err);

	if (rc < 0)
		(void)dprintf(2, "%s\n", err.msg);
	MUST(rc == 0);
	rc = seccomp_rules_main(&err);
	if (rc < 0)
		(void)dprintf(2, "%s\n", err.msg);
	MUST(rc == 0);
	MUST(broker_register(broker, KEY, ID, &err) == 0);
	at = open(caps.data_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	MUST(at >= 0);
	files_fd = openat(at, "workspaces/" ID "/files", O_PATH | O_DIRECTORY | O_CLOEXEC);
	MUST(files_fd >= 0);
	return close(at);
}

/* ---- privilege ---------------------------------------------------------- */

/* The number behind "Name:" in /proc/PID/status, read in @base. */
static uint64_t status_of(pid_t pid, const char *name, int base)
{
	auto_free char *text = NULL;
	char path[64];
	size_t len;
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (io_read_file(AT_FDCWD, path, 65536, &text, &len, NULL) < 0)
		return UINT64_MAX;
	at = strstr(text, name);
	return at == NULL ? UINT64_MAX : strtoull(at + strlen(name), NULL, base);
}

static pid_t broker_pid(void)
{
	char path[64];
	auto_free char *text = NULL;
	size_t len;
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", broker_pidfd(broker));
	if (io_read_file(AT_FDCWD, path, 4096, &text, &len, NULL) < 0)
		return -1;
	at = strstr(text, "\nPid:");
	return at == NULL ? -1 : (pid_t)strtol(at + 5, NULL, 10);
}

static int check_main_has_no_privilege(void)
{
	struct rlimit rl;

	MUST(start() == 0);
	MUST(caps.is_root == (getuid() == SERVICE_UID));
	MUST(caps.service_uid == geteuid() && caps.service_gid == getegid());
	MUST(status_of(getpid(), "\nCapPrm:", 16) == 0);
	MUST(status_of(getpid(), "\nCapEff:", 16) == 0);
	MUST(status_of(getpid(), "\nCapInh:", 16) == 0);
	MUST(status_of(getpid(), "\nCapAmb:", 16) == 0);
	MUST(status_of(getpid(), "\nNoNewPrivs:", 10) == 1);
	MUST(status_of(getpid(), "\nSeccomp:", 10) == 2);
	if (caps.is_root) {
		MUST(status_of(getpid(), "\nCapBnd:", 16) == 0);
		MUST(getgroups(0, NULL) == 0);
	}
	MUST(setresuid(0, 0, 0) == -1);
	MUST(getrlimit(RLIMIT_CORE, &rl) == 0 && rl.rlim_max == 0);
	MUST(getrlimit(RLIMIT_NOFILE, &rl) == 0);
	MUST(rl.rlim_cur == rl.rlim_max || rl.rlim_cur == 1048576);
#ifndef __SANITIZE_ADDRESS__
	MUST(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
#endif
	broker_stop(broker);
	return 0;
}

static void test_main_has_no_privilege(void **state)
{
	run_child(check_main_has_no_privilege);
}

static int check_broker_has_two_capabilities(void)
{
	static const uint64_t both = 1u << 1 | 1u << 2; /* DAC_OVERRIDE, DAC_READ_SEARCH */
	uint64_t had = status_of(getpid(), "\nCapPrm:", 16) & both;
	pid_t pid;

	MUST(start() == 0);
	pid = broker_pid();
	MUST(pid > 0);
	MUST(status_of(pid, "\nUid:", 10) == geteuid());
	MUST(status_of(pid, "\nCapPrm:", 16) == had);
	MUST(status_of(pid, "\nCapEff:", 16) == had);
	MUST(status_of(pid, "\nNoNewPrivs:", 10) == 1);
	MUST(status_of(pid, "\nSeccomp:", 10) == 2);
	if (caps.is_root) {
		MUST(status_of(pid, "\nCapBnd:", 16) == 0);
		MUST(caps.can_open_handles || had != both);
	}
	broker_stop(broker);
	return 0;
}

static void test_broker_has_two_capabilities(void **state)
{
	run_child(check_broker_has_two_capabilities);
}

/* Its descriptors and memory are shut to a process of the same uid. */
static int check_broker_is_hidden(void)
{
	struct broker_options o = { .data_dir = data, .service_user = is_root() ? "54321" : NULL };
	struct err err = { 0 };
	char path[64];
	pid_t pid;

	MUST(broker_start(&o, &broker, &caps, &err) == 0); /* without the filter */
	pid = broker_pid();
	MUST(ptrace(PTRACE_SEIZE, pid, NULL, NULL) == -1 && errno == EPERM);
	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	MUST(open(path, O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES);
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/3", pid);
	MUST(open(path, O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES);
	broker_stop(broker);
	return 0;
}

static void test_broker_is_hidden(void **state)
{
	run_child(check_broker_is_hidden);
}

/* The broker has 0 to 2, its socket, the data directory and one workspace, whatever was open
 * before. Looked at by an onlooker with privilege. */
static int check_broker_closed_the_rest(void)
{
	int to_child[2], to_parent[2], n = 0;
	struct dirent *e;
	char path[64], c;
	pid_t pid, onlooked;
	DIR *d;

	MUST(pipe(to_child) == 0 && pipe(to_parent) == 0);
	pid = fork();
	if (pid == 0) {
		(void)close(to_child[1]); /* so that the end of the onlooker is ours too */
		MUST(start() == 0);
		onlooked = broker_pid();
		MUST(write(to_parent[1], &onlooked, sizeof(onlooked)) == sizeof(onlooked));
		(void)!read(to_child[0], &c, 1);
		_exit(0);
	}
	(void)close(to_child[0]);
	(void)close(to_parent[1]);
	MUST(read(to_parent[0], &onlooked, sizeof(onlooked)) == sizeof(onlooked));
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", onlooked);
	d = opendir(path);
	MUST(d != NULL);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.')
			n++;
	}
	(void)closedir(d);
	MUST(n == 6);
	(void)close(to_child[1]);
	return waitpid(pid, NULL, 0) == pid ? 0 : 1;
}

static void test_broker_closed_the_rest(void **state)
{
	if (!is_root()) {
		print_message("needs root to look at a process that is not dumpable\n");
		skip();
	}
	run_child(check_broker_closed_the_rest);
}

/* ---- the data directory ------------------------------------------------- */

static int check_handover(void)
{
	char path[256];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/link", data);
	MUST(symlink("/etc/hostname", path) == 0);
	MUST(start() == 0);
	MUST(fstatat(AT_FDCWD, caps.data_path, &st, 0) == 0);
	MUST(st.st_uid == SERVICE_UID && st.st_gid == SERVICE_UID && (st.st_mode & 07777) == 0700);
	MUST(fstatat(files_fd, "d/e", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == SERVICE_UID);
	MUST(fstatat(files_fd, "f", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == SERVICE_UID);
	MUST(fstatat(files_fd, "../../../link", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	     st.st_uid == SERVICE_UID);
	MUST(stat("/etc/hostname", &st) < 0 || st.st_uid != SERVICE_UID);
	broker_stop(broker);
	return 0;
}

static void test_data_directory_is_handed_over(void **state)
{
	if (!is_root()) {
		print_message("needs root to hand files over\n");
		skip();
	}
	run_child(check_handover);
}

/* A second name for another's file, planted by the former owner of the directory. */
static int check_planted_link(void)
{
	char path[256], outside[256];
	struct stat st;
	int fd;

	(void)snprintf(outside, sizeof(outside), "%s/roots-own", closed);
	fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	MUST(fd >= 0 && close(fd) == 0);
	(void)snprintf(path, sizeof(path), "%s/planted", data);
	MUST(link(outside, path) == 0);
	MUST(chown(data, 1234, 1234) == 0); /* the directory is another user's */
	MUST(start() == 0);
	MUST(fstatat(files_fd, "../../../planted", &st, AT_SYMLINK_NOFOLLOW) == 0);
	MUST(st.st_uid == 0);
	MUST(fstatat(files_fd, "../../../workspaces", &st, 0) == 0 && st.st_uid == SERVICE_UID);
	broker_stop(broker);
	return 0;
}

static void test_a_planted_hard_link_is_left_alone(void **state)
{
	if (!is_root()) {
		print_message("needs root to hand files over\n");
		skip();
	}
	run_child(check_planted_link);
}

/* Nothing is walked once the top is the service user's. */
static int check_second_start(void)
{
	char path[256];
	struct stat st;

	MUST(chown(data, SERVICE_UID, SERVICE_UID) == 0);
	(void)snprintf(path, sizeof(path), "%s/workspaces/%s/staging", data, ID);
	MUST(start() == 0);
	MUST(fstatat(files_fd, "../staging", &st, 0) == 0 && st.st_uid == 0);
	broker_stop(broker);
	return 0;
}

static void test_only_the_first_start_hands_over(void **state)
{
	if (!is_root()) {
		print_message("needs root to hand files over\n");
		skip();
	}
	run_child(check_second_start);
}

/* SQLite in WAL mode through data_path, as its comment in the header says. */
static int no_links(const char *path, struct stat *st)
{
	errno = ENOENT;
	return -1;
}

static int check_sqlite(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	struct stat st;
	char path[128];
	sqlite3 *db;

	MUST(start() == 0);
	MUST(vfs->xSetSystemCall(vfs, "lstat", (sqlite3_syscall_ptr)no_links) == SQLITE_OK);
	(void)snprintf(path, sizeof(path), "%s/workspace.db", caps.data_path);
	MUST(sqlite3_open(path, &db) == SQLITE_OK);
	MUST(sqlite3_exec(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)",
			  NULL, NULL, NULL) == SQLITE_OK);
	MUST(fstatat(files_fd, "../../../workspace.db-wal", &st, 0) == 0 && st.st_size > 0);
	MUST(sqlite3_close(db) == SQLITE_OK);
	broker_stop(broker);
	return 0;
}

static void test_sqlite_works_through_the_data_path(void **state)
{
	run_child(check_sqlite);
}

static int check_bad_starts(void)
{
	static const struct {
		const char *user;
		int rc;
	} users[] = {
		{ "no-such-user-here", -ENOENT },
		{ "0", -EINVAL },
		{ "root", -EINVAL },
		{ "12x", -EINVAL },
		{ "1000:0", -EINVAL },
		{ "1000:x", -EINVAL },
		{ "4294967295", -EINVAL },
		{ "1:2:3", -EINVAL },
	};
	struct broker_options o = { .data_dir = "/nothing/here" };
	struct service_user user;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(users); i++) {
		err.msg[0] = '\0';
		MUST(privilege_service_user(users[i].user, &user, &err) == users[i].rc);
		MUST(err.msg[0] != '\0');
	}
	MUST(privilege_service_user("1234:5678", &user, &err) == 0);
	MUST(user.uid == 1234 && user.gid == 5678);
	MUST(privilege_service_user("54321", &user, &err) == 0);
	MUST(user.uid == 54321 && user.gid == 54321);
	MUST(broker_start(&o, &broker, &caps, &err) == -ENOENT);
	return 0;
}

static void test_bad_settings_are_refused_with_a_sentence(void **state)
{
	run_child(check_bad_starts);
}

static int check_foreign_directory(void)
{
	struct broker_options o = { .data_dir = "/" };
	struct err err = { 0 };

	if (is_root())
		MUST(setresuid(SERVICE_UID, SERVICE_UID, SERVICE_UID) == 0);
	MUST(broker_start(&o, &broker, &caps, &err) == -EACCES);
	MUST(strstr(err.msg, "belongs to user 0") != NULL);
	return 0;
}

static void test_an_ordinary_user_needs_an_own_directory(void **state)
{
	run_child(check_foreign_directory);
}

/* ---- registering -------------------------------------------------------- */

static int check_registering(void)
{
	static const char *const bad[] = { "",
					   "..",
					   "01234567-89ab-4cde-8f01-23456789abc",
					   "01234567-89ab-4cde-8f01-23456789abcde",
					   "01234567-89AB-4cde-8f01-23456789abcd",
					   "0123456789ab-4cde-8f01-23456789abcd-",
					   "../../../../../../../etc/something/x",
					   "g1234567-89ab-4cde-8f01-23456789abcd" };
	static const char linked[] = "22222222-89ab-4cde-8f01-23456789abcd";
	char path[64];
	struct err err;

	MUST(start() == 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		MUST(broker_register(broker, OTHER_KEY, bad[i], &err) == -EINVAL);
	MUST(broker_register(broker, KEY, OTHER_ID, &err) == -EEXIST);
	MUST(broker_register(broker, 99, "33333333-89ab-4cde-8f01-23456789abcd", &err) == -ENOENT);
	(void)snprintf(path, sizeof(path), "../../%s", linked);
	MUST(symlinkat(OTHER_ID, files_fd, path) == 0); /* a link is no workspace */
	MUST(broker_register(broker, 99, linked, &err) == -ENOTDIR);
	MUST(broker_unregister(broker, KEY) == 0);
	MUST(broker_unregister(broker, KEY) == -ENOENT);
	MUST(broker_open_file(broker, KEY, files_fd, O_RDONLY) == -ENOENT);
	MUST(broker_open_handle(broker, KEY, 1, "12345678", 8) == -ENOENT);
	MUST(broker_register(broker, KEY, ID, &err) == 0);
	broker_stop(broker);
	return 0;
}

static void test_only_workspaces_are_registered(void **state)
{
	run_child(check_registering);
}

/* ---- handles ------------------------------------------------------------ */

struct handle {
	struct file_handle head;
	uint8_t room[MAX_HANDLE_SZ];
};

static int handle_of(const char *name, struct handle *h)
{
	int mount_id;

	h->head.handle_bytes = MAX_HANDLE_SZ;
	return name_to_handle_at(files_fd, name, &h->head, &mount_id, 0);
}

static int open_handle(uint64_t key, const struct handle *h)
{
	return broker_open_handle(broker, key, (uint8_t)h->head.handle_type, h->head.f_handle,
				  h->head.handle_bytes);
}

static bool is_name(int fd, const char *name)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(files_fd, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int check_handles(void)
{
	static const char *const inside[] = { ".", "d", "d/e", "f" };
	static const char *const outside[] = { "..", "../staging", "../..",
					       "../../" OTHER_ID "/files", "../../.." };
	struct handle h;
	int fd;

	MUST(start() == 0);
	MUST(handle_of("f", &h) == 0);
	if (!caps.can_open_handles) {
		MUST(open_handle(KEY, &h) == -EPERM);
		broker_stop(broker);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(inside); i++) {
		MUST(handle_of(inside[i], &h) == 0);
		fd = open_handle(KEY, &h);
		MUST(fd >= 0 && is_name(fd, inside[i]));
		MUST((fcntl(fd, F_GETFL) & O_PATH) != 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
		MUST(close(fd) == 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(outside); i++) {
		MUST(handle_of(outside[i], &h) == 0);
		MUST(open_handle(KEY, &h) == -ESTALE);
	}
	/* a rename does not matter, a removal does */
	MUST(handle_of("d/e", &h) == 0);
	MUST(renameat(files_fd, "d/e", files_fd, "moved") == 0);
	fd = open_handle(KEY, &h);
	MUST(fd >= 0 && is_name(fd, "moved") && close(fd) == 0);
	MUST(unlinkat(files_fd, "moved", AT_REMOVEDIR) == 0);
	MUST(open_handle(KEY, &h) == -ESTALE);
	/* a removed file that is still open is gone for whoever comes by handle */
	MUST(handle_of("f", &h) == 0);
	fd = openat(files_fd, "f", O_RDONLY | O_CLOEXEC);
	MUST(fd >= 0 && unlinkat(files_fd, "f", 0) == 0);
	MUST(open_handle(KEY, &h) == -ESTALE);
	/* garbage */
	MUST(broker_open_handle(broker, KEY, 1, "", 0) == -EINVAL);
	MUST(broker_open_handle(broker, KEY, 1, h.head.f_handle, sizeof(h.room) + 1) == -EINVAL);
	memset(h.head.f_handle, 0xff, h.head.handle_bytes);
	MUST(open_handle(KEY, &h) < 0);
	broker_stop(broker);
	return 0;
}

static void test_handles_open_what_is_inside(void **state)
{
	run_child(check_handles);
}

/* Deeper than a path can say. */
static int check_deep(void)
{
	char name[201];
	struct handle h;
	int mount_id, fd, cur;

	MUST(start() == 0);
	if (!caps.can_open_handles) {
		broker_stop(broker);
		return 0;
	}
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	cur = dup(files_fd);
	for (int i = 0; i < 30; i++) {
		MUST(mkdirat(cur, name, 0700) == 0);
		fd = openat(cur, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		MUST(fd >= 0 && close(cur) == 0);
		cur = fd;
	}
	h.head.handle_bytes = MAX_HANDLE_SZ;
	MUST(name_to_handle_at(cur, "", &h.head, &mount_id, AT_EMPTY_PATH) == 0);
	fd = open_handle(KEY, &h);
	MUST(fd >= 0);
	broker_stop(broker);
	return 0;
}

static void test_deep_directories_are_found_inside(void **state)
{
	run_child(check_deep);
}

/* ---- files without permission bits -------------------------------------- */

static int check_files(void)
{
	struct stat st;
	char got[5];
	int path_fd, fd;

	MUST(start() == 0);
	MUST(fchmodat(files_fd, "f", 0, 0) == 0);
	path_fd = openat(files_fd, "f", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	MUST(path_fd >= 0);
	MUST(openat(files_fd, "f", O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES);
	fd = broker_open_file(broker, KEY, path_fd, O_RDWR);
	MUST(fd >= 0);
	MUST(read(fd, got, 5) == 5 && memcmp(got, "hello", 5) == 0);
	MUST(write(fd, "!", 1) == 1);
	MUST((fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_RDWR);
	MUST(close(fd) == 0);
	fd = broker_open_file(broker, KEY, path_fd, O_RDONLY);
	MUST(fd >= 0 && write(fd, "!", 1) == -1 && errno == EBADF);
	MUST(fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0 && st.st_size == 6);
	/* no other flags, no other kinds of descriptors */
	MUST(broker_open_file(broker, KEY, path_fd, O_RDWR | O_TRUNC) == -EINVAL);
	MUST(broker_open_file(broker, KEY, path_fd, O_RDWR | O_APPEND) == -EINVAL);
	MUST(broker_open_file(broker, KEY, fd, O_RDWR) == -EINVAL);
	MUST(broker_open_file(broker, KEY, files_fd, O_RDONLY) == -EPERM);
	MUST(mkfifoat(files_fd, "p", 0600) == 0 && symlinkat("/etc/shadow", files_fd, "s") == 0);
	path_fd = openat(files_fd, "p", O_PATH | O_CLOEXEC);
	MUST(broker_open_file(broker, KEY, path_fd, O_RDONLY) == -EPERM);
	path_fd = openat(files_fd, "s", O_PATH | O_NOFOLLOW | O_CLOEXEC);
	MUST(broker_open_file(broker, KEY, path_fd, O_RDONLY) == -EPERM);
	path_fd = open("/etc/passwd", O_PATH | O_CLOEXEC); /* somebody else's */
	MUST(broker_open_file(broker, KEY, path_fd, O_RDONLY) == -EPERM);
	broker_stop(broker);
	return 0;
}

static void test_mode_bits_do_not_shut_the_owner_out(void **state)
{
	run_child(check_files);
}

/* The service user's, but on another mount. */
static int check_other_mount(void)
{
	char path[128];
	int path_fd, fd;

	(void)snprintf(path, sizeof(path), "/dev/shm/broker-test-%d", getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0);
	if (fd < 0)
		return 77;
	if (is_root())
		MUST(fchown(fd, SERVICE_UID, SERVICE_UID) == 0);
	path_fd = open(path, O_PATH | O_CLOEXEC);
	MUST(unlink(path) == 0 && path_fd >= 0);
	MUST(start() == 0);
	MUST(broker_open_file(broker, KEY, path_fd, O_RDONLY) == -EPERM);
	broker_stop(broker);
	return 0;
}

static void test_files_of_another_mount_are_refused(void **state)
{
	if (access("/dev/shm", W_OK) < 0) {
		print_message("needs a second file system at /dev/shm\n");
		skip();
	}
	run_child(check_other_mount);
}

/* ---- hostile requests, life and death ----------------------------------- */

/* The socket as a main process under somebody's control would use it: the broker itself, without
 * client. */
static int check_raw_requests(void)
{
	struct broker_setup setup = { .parent = getpid() };
	struct broker_request req;
	struct broker_reply reply;
	struct broker_hello hello;
	char big[4096] = { 0 };
	int sv[2], fds[2], got[1], status;
	size_t n;
	pid_t pid;

	if (is_root())
		MUST(chown(data, SERVICE_UID, SERVICE_UID) == 0 &&
		     setresuid(SERVICE_UID, SERVICE_UID, SERVICE_UID) == 0);
	setup.data_fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) == 0);
	setup.sock = sv[1];
	pid = fork();
	if (pid == 0)
		broker_run(&setup);
	MUST(close(sv[1]) == 0);
	n = 0;
	MUST(io_recv_fds(sv[0], &hello, sizeof(hello), NULL, &n) == sizeof(hello));
	MUST(hello.rc == 0);
	fds[0] = fds[1] = setup.data_fd;
	for (unsigned i = 0; i < 7; i++) {
		memset(&req, 0, sizeof(req));
		req.op = i == 0 ? BROKER_N_OPS : i == 1 ? UINT32_MAX : BROKER_OPEN_FILE;
		if (i == 2) {
			req.op = BROKER_REGISTER;
			req.n_bytes = UINT32_MAX;
		}
		switch (i) {
		case 3: /* too short */
			MUST(io_send_fds(sv[0], &req, 3, fds, 1) > 0);
			break;
		case 4: /* too long */
			MUST(io_send_fds(sv[0], big, sizeof(big), fds, 2) > 0);
			break;
		case 5: /* a descriptor that nobody asked for */
			req.op = BROKER_UNREGISTER;
			MUST(io_send_fds(sv[0], &req, sizeof(req), fds, 1) > 0);
			break;
		default: /* 6: none where one is needed */
			MUST(io_send_fds(sv[0], &req, sizeof(req), NULL, 0) > 0);
		}
		n = 1;
		MUST(io_recv_fds(sv[0], &reply, sizeof(reply), got, &n) == sizeof(reply));
		MUST(reply.rc == -EINVAL && n == 0);
	}
	MUST(close(sv[0]) == 0);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

static void test_malformed_requests_are_answered_einval(void **state)
{
	run_child(check_raw_requests);
}

static int check_death(void)
{
	struct pollfd p;
	struct broker_options o = { .data_dir = data, .service_user = is_root() ? "54321" : NULL };
	struct err err;
	pid_t pid;

	MUST(broker_start(&o, &broker, &caps, &err) ==
	     0); /* without the filter, which forbids kill() */
	p = (struct pollfd){ .fd = broker_pidfd(broker), .events = POLLIN };
	pid = broker_pid();
	MUST(kill(pid, SIGINT) == 0 && kill(pid, SIGTERM) == 0 && kill(pid, SIGHUP) == 0);
	MUST(broker_register(broker, KEY, ID, &err) == 0); /* Ctrl-C is not for the broker */
	MUST(poll(&p, 1, 0) == 0);
	MUST(kill(pid, SIGKILL) == 0);
	MUST(poll(&p, 1, DEADLINE_MS) == 1);
	MUST(broker_unregister(broker, KEY) == -EPIPE);
	MUST(broker_register(broker, KEY, ID, &err) == -EPIPE);
	broker_stop(broker);
	return 0;
}

static void test_main_hears_of_the_brokers_death(void **state)
{
	run_child(check_death);
}

/* The main process is killed: a copy of the broker's pidfd tells us that it followed. */
static int check_orphan(void)
{
	int sv[2], pidfd;
	struct pollfd p;
	size_t n = 1;
	pid_t pid;
	char c = 0;

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) == 0);
	pid = fork();
	if (pid == 0) {
		MUST(start() == 0);
		pidfd = broker_pidfd(broker);
		MUST(io_send_fds(sv[1], &c, 1, &pidfd, 1) == 1);
		for (;;)
			(void)pause();
	}
	(void)close(sv[1]);
	MUST(io_recv_fds(sv[0], &c, 1, &pidfd, &n) == 1 && n == 1);
	p = (struct pollfd){ .fd = pidfd, .events = POLLIN };
	MUST(poll(&p, 1, 0) == 0);
	MUST(kill(pid, SIGKILL) == 0);
	MUST(poll(&p, 1, DEADLINE_MS) == 1);
	return waitpid(pid, NULL, 0) == pid ? 0 : 1;
}

static void test_broker_dies_with_the_main_process(void **state)
{
	run_child(check_orphan);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_tree, remove_tree)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_main_has_no_privilege),
		CASE(test_broker_has_two_capabilities),
		CASE(test_broker_is_hidden),
		CASE(test_broker_closed_the_rest),
		CASE(test_data_directory_is_handed_over),
		CASE(test_a_planted_hard_link_is_left_alone),
		CASE(test_only_the_first_start_hands_over),
		CASE(test_sqlite_works_through_the_data_path),
		CASE(test_bad_settings_are_refused_with_a_sentence),
		CASE(test_an_ordinary_user_needs_an_own_directory),
		CASE(test_only_workspaces_are_registered),
		CASE(test_handles_open_what_is_inside),
		CASE(test_deep_directories_are_found_inside),
		CASE(test_mode_bits_do_not_shut_the_owner_out),
		CASE(test_files_of_another_mount_are_refused),
		CASE(test_malformed_requests_are_answered_einval),
		CASE(test_main_hears_of_the_brokers_death),
		CASE(test_broker_dies_with_the_main_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
