/* SPDX-License-Identifier: MIT */
/*
 * What our own processes may ask of the kernel, in case somebody finds a way to run code in them.
 *
 * Three kinds of answers.  What we use is allowed, where it matters only with certain arguments.
 * What gives power over the machine, over other processes or over ids is refused with EPERM.
 * Everything else, and allowed calls with other arguments, answers ENOSYS: a newer C library that
 * tries a newer call falls back as it would on an older kernel, instead of taking EPERM for the
 * truth.
 *
 * Names are looked up when the filter is made: a call that this libseccomp or this machine does not
 * know is left out.  Most calls are allowed whatever their arguments, and the kernel answers those
 * from a bitmap without running the filter.
 */
#include "broker/seccomp_rules.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#define NR_FCHMODAT2 452 /* the same everywhere; libseccomp 2.5.4 has no name for it yet */

/* clang-format off */

/* Both processes: memory, threads' basics, messages, reading what was opened, dying. */
static const char *const basic_calls[] = {
	"brk", "close", "exit", "exit_group", "fcntl", "fstat", "futex", "getpid", "gettid",
	"getrandom", "madvise", "mremap", "munmap", "newfstatat", "openat", "read", "recvmsg",
	"restart_syscall", "rt_sigprocmask", "rt_sigreturn", "sendmsg", "stat", "statx", "write",
	"clock_gettime", "gettimeofday", "sched_yield", "rseq", "membarrier", "lseek",
};

static const char *const broker_calls[] = {
	"open_by_handle_at", "name_to_handle_at", "open", "openat2", "chmod", "fchmodat", "geteuid",
};

/* Workers: files by name below one directory, and two sockets that were handed to them. */
static const char *const worker_calls[] = {
	"openat2", "open", "getdents64", "lstat", "readv", "writev", "pread64", "pwrite64", "ftruncate",
	"fsync", "fdatasync", "syncfs", "fstatfs", "fallocate", "mkdirat", "unlinkat", "linkat",
	"symlinkat", "renameat", "renameat2", "readlinkat", "chmod", "fchmod", "utimensat", "sendto",
	"recvfrom", "shutdown", "poll", "getuid", "geteuid", "getgid", "getegid", "time",
};

/* The helper: forking, and what a worker needs to confine itself. */
static const char *const helper_calls[] = {
	"fork", "set_robust_list", "set_tid_address", "getppid", "dup2", "close_range", "prctl",
	"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	"prlimit64", "setrlimit", "getrlimit", "rt_sigaction", "setpriority",
};

static const char *const main_calls[] = {
	/* data */
	"readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2",
	"sendfile", "splice", "tee", "copy_file_range", "fsync", "fdatasync", "sync_file_range",
	"syncfs", "fallocate", "ftruncate", "truncate", "fadvise64", "readahead", "flock",
	"memfd_create", "pipe", "pipe2", "dup", "dup2", "dup3", "close_range",
	/* names and attributes */
	"open", "openat2", "creat", "lstat", "statfs", "fstatfs", "access", "faccessat", "faccessat2",
	"getdents", "getdents64", "getcwd", "umask", "mkdir", "mkdirat", "mknod", "mknodat", "rmdir",
	"unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
	"symlinkat", "readlink", "readlinkat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown",
	"fchown", "lchown", "fchownat", "utimensat", "utimes", "futimesat", "name_to_handle_at",
	"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr", "fsetxattr",
	"inotify_init1", "inotify_add_watch", "inotify_rm_watch",
	/* memory */
	"mincore", "msync", "mlock", "mlock2", "munlock",
	/* threads and scheduling */
	"futex_waitv", "set_robust_list", "get_robust_list", "set_tid_address", "getcpu",
	"sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_getscheduler",
	"sched_get_priority_max", "sched_get_priority_min", "getpriority",
	/* signals */
	"rt_sigaction", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait", "sigaltstack", "pause",
	/* time */
	"clock_getres", "clock_nanosleep", "nanosleep", "time", "times", "getitimer", "setitimer",
	"timer_create", "timer_settime", "timer_gettime", "timer_getoverrun", "timer_delete",
	"timerfd_create", "timerfd_settime", "timerfd_gettime",
	/* waiting for events */
	"epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
	"poll", "ppoll", "select", "pselect6", "eventfd", "eventfd2",
	/* sockets; making one is below */
	"socketpair", "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername",
	"getsockopt", "setsockopt", "sendto", "recvfrom", "sendmmsg", "recvmmsg", "shutdown",
	/* about ourselves */
	"wait4", "waitid", "getppid", "getpgrp", "getpgid", "getsid", "getuid", "geteuid", "getgid",
	"getegid", "getresuid", "getresgid", "getgroups", "capget", "getrusage", "getrlimit",
	"setrlimit", "sysinfo", "uname",
};

static const char *const refused_calls[] = {
	/* other programs */
	"execve", "execveat", "fork", "vfork",
	/* other processes */
	"process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd",
	"pidfd_send_signal", "kcmp", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "perf_event_open",
#ifndef __SANITIZE_ADDRESS__
	"ptrace", /* the leak checker stops its own threads by it */
#endif
	/* mounts, roots and namespaces */
	"mount", "umount", "umount2", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig",
	"fsmount", "fspick", "mount_setattr", "pivot_root", "chroot", "setns", "unshare",
	/* ids and capabilities */
	"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid",
	"setfsgid", "capset",
	/* the kernel */
	"bpf", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl",
	"add_key", "request_key", "init_module", "finit_module", "delete_module", "kexec_load",
	"kexec_file_load", "reboot", "swapon", "swapoff", "quotactl", "quotactl_fd", "acct", "syslog",
	"iopl", "ioperm", "modify_ldt", "fanotify_init", "seccomp", "personality", "lookup_dcookie",
	/* the machine's clock and name */
	"settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname",
	"vhangup",
};

/* Calls of the main process that depend on their arguments.  All of the comparisons must hold. */
struct rule {
	const char *name;
	int err;	/* 0: allowed; else what the call answers */
	unsigned n_cmp;
	struct scmp_arg_cmp cmp[2];
};

#define IS(arg, value)	      { (arg), SCMP_CMP_EQ, (value), 0 }
#define IS_NOT(arg, value)    { (arg), SCMP_CMP_NE, (value), 0 }
#define ABOVE(arg, value)     { (arg), SCMP_CMP_GT, (value), 0 }
#define BITS(arg, mask, bits) { (arg), SCMP_CMP_MASKED_EQ, (mask), (bits) }
#define WX		      (PROT_WRITE | PROT_EXEC)

static const struct rule main_rules[] = {
	/* never memory that is writable and executable at once */
	{ "mmap",     0,     1, { BITS(2, PROT_EXEC, 0) } },
	{ "mmap",     0,     1, { BITS(2, WX, PROT_EXEC) } },
	{ "mmap",     EPERM, 1, { BITS(2, WX, WX) } },
	{ "mprotect", 0,     1, { BITS(2, PROT_EXEC, 0) } },
	{ "mprotect", 0,     1, { BITS(2, WX, PROT_EXEC) } },
	{ "mprotect", EPERM, 1, { BITS(2, WX, WX) } },
	/* sockets: addresses, local ones, and the two netlink families of getaddrinfo and peer.c */
	{ "socket", 0, 1, { IS(0, AF_UNIX) } },
	{ "socket", 0, 1, { IS(0, AF_INET) } },
	{ "socket", 0, 1, { IS(0, AF_INET6) } },
	{ "socket", 0, 2, { IS(0, AF_NETLINK), IS(2, NETLINK_ROUTE) } },
	{ "socket", 0, 2, { IS(0, AF_NETLINK), IS(2, NETLINK_SOCK_DIAG) } },
	{ "socket", EAFNOSUPPORT, 1, { ABOVE(0, AF_NETLINK) } },
	/* descriptors and clones of file contents; no terminals, no devices */
	{ "ioctl", 0, 1, { IS(1, FIONREAD) } },
	{ "ioctl", 0, 1, { IS(1, FIONBIO) } },
	{ "ioctl", 0, 1, { IS(1, FIOCLEX) } },
	{ "ioctl", 0, 1, { IS(1, FIONCLEX) } },
	{ "ioctl", 0, 1, { IS(1, FICLONE) } },
	{ "ioctl", 0, 1, { IS(1, FICLONERANGE) } },
	{ "ioctl", 0, 1, { IS(1, TCGETS) } },
	/* our own limits only */
	{ "prlimit64", 0,     1, { IS(0, 0) } },
	{ "prlimit64", EPERM, 1, { IS_NOT(0, 0) } },
#ifdef __SANITIZE_ADDRESS__
	/* The leak checker runs a tracer that shares our memory, and calls prctl() and clone() for it. */
	{ "clone",      0 },
	{ "prctl",      0 },
	{ "ptrace",     0 },
	{ "arch_prctl", 0 },
#else
	{ "clone", 0,     1, { BITS(0, CLONE_THREAD, CLONE_THREAD) } },
	{ "clone", EPERM, 1, { BITS(0, CLONE_THREAD, 0) } },
	{ "prctl", 0, 1, { IS(0, PR_SET_NAME) } },
	{ "prctl", 0, 1, { IS(0, PR_GET_NAME) } },
	{ "prctl", 0, 1, { IS(0, PR_GET_DUMPABLE) } },
	{ "prctl", 0, 1, { IS(0, PR_GET_NO_NEW_PRIVS) } },
	{ "prctl", 0, 1, { IS(0, PR_GET_SECCOMP) } },
	{ "prctl", 0, 1, { IS(0, PR_CAPBSET_READ) } },
	{ "prctl", 0, 1, { IS(0, PR_SET_VMA) } },
#endif
};

#ifdef __SANITIZE_ADDRESS__
/* What the sanitizers' own code asks when it reports something in the broker. */
static const char *const sanitizer_calls[] = {
	"readlink", "sched_getaffinity", "sigaltstack", "rt_sigaction", "getrlimit", "prlimit64",
	"ioctl", "getdents64", "mprotect", "poll", "tgkill", "lstat", "access", "nanosleep",
	"clock_nanosleep", "uname", "getuid", "getppid",
};
#endif
/* clang-format on */

/* ---- making a filter ---------------------------------------------------- */

static int number_of(const char *name)
{
	int nr = seccomp_syscall_resolve_name(name);

	if (nr == __NR_SCMP_ERROR && strcmp(name, "fchmodat2") == 0)
		return NR_FCHMODAT2;
	return nr;
}

static int add(scmp_filter_ctx ctx, const struct rule *r, struct err *err)
{
	uint32_t action = r->err == 0 ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO((uint32_t)r->err);
	int nr = number_of(r->name), rc;

	if (nr == __NR_SCMP_ERROR)
		return 0;
	rc = seccomp_rule_add_array(ctx, action, nr, r->n_cmp, r->cmp);
	/* -EEXIST: the same rule again; the lists overlap */
	if (rc < 0 && rc != -EEXIST)
		return err_set(err, rc, "system call filter: rule for '%s': %s", r->name,
			       strerror(-rc));
	return 0;
}

static int add_all(scmp_filter_ctx ctx, const char *const *names, size_t n, int answer,
		   struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add(ctx, &(struct rule){ .name = names[i], .err = answer }, err);
	return rc;
}

/* Signals go to this very process, and to nobody else. */
static int add_signals(scmp_filter_ctx ctx, struct err *err)
{
	uint64_t self = (uint64_t)getpid();
	const struct rule rules[] = {
		{ "kill", 0, 1, { IS(0, self) } },
		{ "kill", EPERM, 1, { IS_NOT(0, self) } },
		{ "tgkill", 0, 1, { IS(0, self) } },
		{ "tgkill", EPERM, 1, { IS_NOT(0, self) } },
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_LEN(rules) && rc == 0; i++)
		rc = add(ctx, &rules[i], err);
	return rc;
}

static int add_main(scmp_filter_ctx ctx, struct err *err)
{
	int rc = add_all(ctx, main_calls, ARRAY_LEN(main_calls), 0, err);

	if (rc == 0)
		rc = add_all(ctx, refused_calls, ARRAY_LEN(refused_calls), EPERM, err);
	/* what the broker is there for */
	if (rc == 0)
		rc = add(ctx, &(struct rule){ .name = "open_by_handle_at", .err = EPERM }, err);
	for (size_t i = 0; i < ARRAY_LEN(main_rules) && rc == 0; i++)
		rc = add(ctx, &main_rules[i], err);
	if (rc == 0)
		rc = add_signals(ctx, err);
	return rc;
}

#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)

/* What workers and the helper have in common. */
static int add_worker(scmp_filter_ctx ctx, struct err *err)
{
	static const struct rule rules[] = {
		{ "mmap", 0, 1, { BITS(2, PROT_EXEC, 0) } },
		{ "mprotect", 0, 1, { BITS(2, PROT_EXEC, 0) } },
		{ "execve", EPERM },
		{ "execveat", EPERM },
		{ "socket", EPERM },
		{ "ptrace", EPERM },
	};
	int rc = add_all(ctx, worker_calls, ARRAY_LEN(worker_calls), 0, err);

	for (size_t i = 0; i < ARRAY_LEN(rules) && rc == 0; i++)
		rc = add(ctx, &rules[i], err);
#ifdef __SANITIZE_ADDRESS__
	if (rc == 0)
		rc = add_all(ctx, sanitizer_calls, ARRAY_LEN(sanitizer_calls), 0, err);
#endif
	return rc;
}

static int add_helper(scmp_filter_ctx ctx, struct err *err)
{
	int rc = add_all(ctx, helper_calls, ARRAY_LEN(helper_calls), 0, err);

	if (rc == 0)
		rc = add(ctx, &(struct rule){ "clone", 0, 1, { BITS(0, NEW_NAMESPACES, 0) } }, err);
	return rc < 0 ? rc : add_worker(ctx, err);
}

static int add_broker(scmp_filter_ctx ctx, struct err *err)
{
	static const struct rule rules[] = {
		{ "mmap", 0, 1, { BITS(2, PROT_EXEC, 0) } },
		{ "execve", EPERM },
		{ "socket", EPERM },
	};
	int rc = add_all(ctx, broker_calls, ARRAY_LEN(broker_calls), 0, err);

	for (size_t i = 0; i < ARRAY_LEN(rules) && rc == 0; i++)
		rc = add(ctx, &rules[i], err);
#ifdef __SANITIZE_ADDRESS__
	if (rc == 0)
		rc = add_all(ctx, sanitizer_calls, ARRAY_LEN(sanitizer_calls), 0, err);
#endif
	return rc;
}

static int set_up(scmp_filter_ctx ctx, struct err *err)
{
	int rc;

	/* A call by another architecture's numbers is no mistake of a library. */
	rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (rc == 0)
		rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
	if (rc < 0)
		return err_set(err, rc, "system call filter: %s", strerror(-rc));
	(void)seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE,
			       2); /* a tree; only a matter of speed */
	return 0;
}

static int load(int (*add_own)(scmp_filter_ctx ctx, struct err *err), struct err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int rc;

	if (ctx == NULL)
		return err_set(err, -ENOMEM, "system call filter: out of memory");
	rc = set_up(ctx, err);
	if (rc == 0)
		rc = add_all(ctx, basic_calls, ARRAY_LEN(basic_calls), 0, err);
	if (rc == 0)
		rc = add_own(ctx, err);
	if (rc == 0) {
		rc = seccomp_load(ctx);
		if (rc < 0)
			(void)err_set(err, rc, "system call filter: the kernel refused it: %s",
				      strerror(-rc));
	}
	seccomp_release(ctx);
	return rc;
}

int seccomp_rules_main(struct err *err)
{
	return load(add_main, err);
}

int seccomp_rules_broker(struct err *err)
{
	return load(add_broker, err);
}

int seccomp_rules_helper(struct err *err)
{
	return load(add_helper, err);
}

int seccomp_rules_worker(struct err *err)
{
	return load(add_worker, err);
}
