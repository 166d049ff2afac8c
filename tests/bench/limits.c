/*
 * limits - what this machine itself can do: the ceilings that an NFS server
 * on loopback runs against.  Prints one line of JSON for each limit, with the
 * median, the least and the greatest of the repeats.
 *
 *   limits [-d DIR] [-s SECONDS] [-r REPEATS] [NAME...]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB      (1024 * 1024)
#define FILE_MIB 256
enum { REQ = 128, REP = 120 };

static const char *dir = ".";
static double secs = 1;
static int repeats = 5;
static char *buf;
static int dfd, bigfd;
static bool have_big;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static void die(const char *w)
{
	perror(w);
	exit(2);
}
static uint32_t rs = 1234567;
static uint32_t rnd(void)
{
	rs ^= rs << 13;
	rs ^= rs >> 17;
	rs ^= rs << 5;
	return rs;
}
static void need_big(void)
{
	if (have_big)
		return;
	bigfd = openat(dfd, "limits.big", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (bigfd < 0)
		die("limits.big");
	for (int i = 0; i < FILE_MIB; i++)
		if (pwrite(bigfd, buf, MIB, (off_t)i * MIB) != MIB)
			die("write");
	fsync(bigfd);
	have_big = true;
}

/* A TCP connection over loopback; the child has the far end. */
static void pin(int cpu);
static int child_cpu = -1;
static pid_t pair(int *mine, void (*child)(int, int), int arg)
{
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof a;
	if (l < 0 || bind(l, (struct sockaddr *)&a, sizeof a) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&a, &n))
		die("listen");
	pid_t p = fork();
	if (p < 0)
		die("fork");
	if (p == 0) {
		if (child_cpu >= 0)
			pin(child_cpu);
		int c = accept(l, NULL, NULL), one = 1;
		if (c < 0)
			_exit(1);
		setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		child(c, arg);
		_exit(0);
	}
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	if (connect(s, (struct sockaddr *)&a, sizeof a))
		die("connect");
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	close(l);
	*mine = s;
	return p;
}
static void echo(int c, int batch)
{
	static char b[65536], r[65536];
	size_t have = 0;
	for (;;) {
		ssize_t n = recv(c, b, sizeof b, 0);
		if (n <= 0)
			return;
		have += (size_t)n;
		size_t k = have / REQ;
		have %= REQ;
		if (batch) {
			if (k && send(c, r, k * REP, 0) < 0)
				return;
		} else {
			for (size_t i = 0; i < k; i++)
				if (send(c, r, REP, 0) < 0)
					return;
		}
	}
}
static double pingpong(int depth, int batch)
{
	int s;
	pid_t p = pair(&s, echo, batch);
	static char out[65536], in[65536];
	size_t have = 0;
	uint64_t ops = 0;
	if (send(s, out, (size_t)depth * REQ, 0) < 0)
		die("send");
	double t0 = now(), t = t0;
	while (t - t0 < secs) {
		for (int i = 0; i < 64; i++) {
			ssize_t n = recv(s, in, sizeof in, 0);
			if (n <= 0)
				die("recv");
			have += (size_t)n;
			size_t k = have / REP;
			have %= REP;
			ops += k;
			if (k && send(s, out, k * REQ, 0) < 0)
				die("send");
		}
		t = now();
	}
	close(s);
	waitpid(p, NULL, 0);
	return (double)ops / (t - t0);
}
static void pin(int cpu)
{
	cpu_set_t s;
	CPU_ZERO(&s);
	if (cpu >= 0)
		CPU_SET((size_t)cpu, &s);
	else
		for (size_t i = 0; i < CPU_SETSIZE; i++)
			CPU_SET(i, &s);
	sched_setaffinity(0, sizeof s, &s);
}
static double pinned(int depth, int batch, int me, int it)
{
	pin(me);
	child_cpu = it;
	double r = pingpong(depth, batch);
	child_cpu = -1;
	pin(-1);
	return r;
}
static double pp1(void)
{
	return pingpong(1, 1);
}
static double pp1same(void)
{
	return pinned(1, 1, 0, 0);
}
static double pp1other(void)
{
	return pinned(1, 1, 0, 1);
}
static double pp32b(void)
{
	return pingpong(32, 1);
}
static double pp32same(void)
{
	return pinned(32, 1, 0, 0);
}
static double pp32other(void)
{
	return pinned(32, 1, 0, 1);
}
static double pp32s(void)
{
	return pingpong(32, 0);
}

/* Two threads that wake each other through eventfds: round trips. */
static int ev[2], peer_cpu;
static void *waker(void *x)
{
	(void)x;
	uint64_t v;
	pin(peer_cpu);
	while (read(ev[0], &v, 8) == 8 && v < 1000)
		if (write(ev[1], &v, 8) != 8)
			break;
	return NULL;
}
static double wake(int it)
{
	ev[0] = eventfd(0, EFD_CLOEXEC);
	ev[1] = eventfd(0, EFD_CLOEXEC);
	peer_cpu = it;
	pin(0);
	pthread_t th;
	if (pthread_create(&th, NULL, waker, NULL))
		die("pthread_create");
	uint64_t ops = 0, v;
	double t0 = now(), t = t0;
	while (t - t0 < secs) {
		for (int i = 0; i < 64; i++) {
			v = 1;
			if (write(ev[0], &v, 8) != 8 || read(ev[1], &v, 8) != 8)
				die("eventfd");
		}
		ops += 64;
		t = now();
	}
	v = 1000;
	if (write(ev[0], &v, 8) != 8)
		die("eventfd");
	pthread_join(th, NULL);
	close(ev[0]);
	close(ev[1]);
	pin(-1);
	return (double)ops / (t - t0);
}
static double wake_same(void)
{
	return wake(0);
}
static double wake_other(void)
{
	return wake(1);
}

static void sink(int c, int how)
{
	char *b = malloc(MIB);
	while (recv(c, b, 256 * 1024, how) > 0) {
	}
}
static double stream(int how, bool sf)
{
	if (sf)
		need_big();
	int s;
	pid_t p = pair(&s, sink, how);
	uint64_t bytes = 0;
	off_t off = 0;
	double t0 = now(), t = t0;
	while (t - t0 < secs) {
		for (int i = 0; i < 16; i++) {
			ssize_t n = sf ? sendfile(s, bigfd, &off, MIB) : send(s, buf, MIB, 0);
			if (n < 0)
				die("send");
			if (off >= (off_t)FILE_MIB * MIB)
				off = 0;
			bytes += (uint64_t)n;
		}
		t = now();
	}
	close(s);
	waitpid(p, NULL, 0);
	return (double)bytes / 1e6 / (t - t0);
}
static double st_copy(void)
{
	return stream(0, false);
}
static double st_trunc(void)
{
	return stream(MSG_TRUNC, false);
}
static double st_sf(void)
{
	return stream(0, true);
}
static double st_sftrunc(void)
{
	return stream(MSG_TRUNC, true);
}

#define LOOP(n, ...)                                                                               \
	uint64_t ops = 0;                                                                          \
	double t0 = now(), t = t0;                                                                 \
	while (t - t0 < secs) {                                                                    \
		for (int i_ = 0; i_ < (n); i_++) {                                                 \
			__VA_ARGS__;                                                               \
			ops++;                                                                     \
		}                                                                                  \
		t = now();                                                                         \
	}                                                                                          \
	return (double)ops / (t - t0)

static double rd4k(void)
{
	need_big();
	LOOP(64, {
		struct iovec v = { buf, 4096 };
		if (preadv(bigfd, &v, 1, (off_t)(rnd() % (FILE_MIB * 256)) * 4096) != 4096)
			die("preadv");
	});
}
static double rd1m(void)
{
	need_big();
	off_t off = 0;
	LOOP(8, {
		struct iovec v = { buf, MIB };
		if (preadv(bigfd, &v, 1, off) != MIB)
			die("preadv");
		off = (off + MIB) % ((off_t)FILE_MIB * MIB);
	});
}
static double wr4k(void)
{
	need_big();
	LOOP(64, {
		if (pwrite(bigfd, buf, 4096, (off_t)(rnd() % (FILE_MIB * 256)) * 4096) != 4096)
			die("pwrite");
	});
}
static double wr1m(void)
{
	need_big();
	off_t off = 0;
	LOOP(8, {
		if (pwrite(bigfd, buf, MIB, off) != MIB)
			die("pwrite");
		off = (off + MIB) % ((off_t)FILE_MIB * MIB);
	});
}
static double fstat_(void)
{
	need_big();
	struct stat s;
	LOOP(64, {
		if (fstat(bigfd, &s))
			die("fstat");
	});
}
static double fstatat_(void)
{
	need_big();
	struct stat s;
	LOOP(64, {
		if (fstatat(dfd, "limits.big", &s, AT_SYMLINK_NOFOLLOW))
			die("fstatat");
	});
}
static double openclose(void)
{
	need_big();
	LOOP(64, {
		int f = openat(dfd, "limits.big", O_RDONLY | O_CLOEXEC);
		if (f < 0)
			die("open");
		close(f);
	});
}
/* create + write 4 KiB + close, then (outside the clock) unlink */
static int sub(void)
{
	mkdirat(dfd, "limits.d", 0700);
	int d = openat(dfd, "limits.d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d < 0)
		die("limits.d");
	return d;
}
static double mk(bool data, bool sync, bool rm_timed)
{
	int d = sub();
	uint64_t ops = 0;
	double spent = 0;
	char n[32];
	while (spent < secs) {
		enum { BATCH = 2000 };
		int lim = sync ? 50 : BATCH;
		double t0 = now();
		for (int i = 0; i < lim; i++) {
			snprintf(n, sizeof n, "f%06d", i);
			int f = openat(d, n, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
			if (f < 0)
				die("create");
			if (data && write(f, buf, 4096) != 4096)
				die("write");
			if (sync && fsync(f))
				die("fsync");
			close(f);
			if (rm_timed && unlinkat(d, n, 0))
				die("unlink");
		}
		spent += now() - t0;
		ops += (uint64_t)lim;
		if (!rm_timed)
			for (int i = 0; i < lim; i++) {
				snprintf(n, sizeof n, "f%06d", i);
				unlinkat(d, n, 0);
			}
	}
	close(d);
	unlinkat(dfd, "limits.d", AT_REMOVEDIR);
	return (double)ops / spent;
}
static double mk4k(void)
{
	return mk(true, false, false);
}
static double mksync(void)
{
	return mk(true, true, false);
}
static double mkrm(void)
{
	return mk(false, false, true);
}
static double mkdirrm(void)
{
	int d = sub();
	LOOP(64, {
		if (mkdirat(d, "x", 0700) || unlinkat(d, "x", AT_REMOVEDIR))
			die("mkdir");
	});
}
static double rename_(void)
{
	int d = sub();
	int f = openat(d, "a", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(f);
	double r;
	{
		uint64_t ops = 0;
		double t0 = now(), t = t0;
		while (t - t0 < secs) {
			for (int i = 0; i < 32; i++) {
				if (renameat(d, "a", d, "b") || renameat(d, "b", d, "a"))
					die("rename");
				ops += 2;
			}
			t = now();
		}
		r = (double)ops / (t - t0);
	}
	unlinkat(d, "a", 0);
	close(d);
	unlinkat(dfd, "limits.d", AT_REMOVEDIR);
	return r;
}
/* list 10,000 names; ask each for its attributes (statx) or also for its handle, as READDIRPLUS must */
enum { NAMES, ATTRS, ATTRS_AND_HANDLE };
static double list(int what)
{
	int d = sub();
	char n[32];
	for (int i = 0; i < 10000; i++) {
		snprintf(n, sizeof n, "f%06d", i);
		close(openat(d, n, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
	uint64_t ops = 0;
	double t0 = now(), t = t0;
	while (t - t0 < secs) {
		DIR *p = fdopendir(openat(d, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		if (!p)
			die("opendir");
		struct statx s;
		struct {
			struct file_handle h;
			char room[64];
		} fh;
		int mnt;
		for (struct dirent *e; (e = readdir(p)); ops++) {
			if (what != NAMES)
				statx(d, e->d_name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &s);
			if (what == ATTRS_AND_HANDLE) {
				fh.h.handle_bytes = sizeof fh.room;
				if (name_to_handle_at(d, e->d_name, &fh.h, &mnt, 0))
					die("name_to_handle_at");
			}
		}
		closedir(p);
		t = now();
	}
	for (int i = 0; i < 10000; i++) {
		snprintf(n, sizeof n, "f%06d", i);
		unlinkat(d, n, 0);
	}
	close(d);
	unlinkat(dfd, "limits.d", AT_REMOVEDIR);
	return (double)ops / (t - t0);
}
static double lsh(void)
{
	return list(ATTRS_AND_HANDLE);
}
static double lsl(void)
{
	return list(ATTRS);
}
static double ls(void)
{
	return list(NAMES);
}
static double fsync4k(void)
{
	need_big();
	LOOP(4, {
		if (pwrite(bigfd, buf, 4096, (off_t)(rnd() % (FILE_MIB * 256)) * 4096) != 4096)
			die("pwrite");
		if (fdatasync(bigfd))
			die("fdatasync");
	});
}
static double fsyncdir(void)
{
	int d = sub();
	char n[32];
	int i = 0;
	double r;
	{
		uint64_t ops = 0;
		double t0 = now(), t = t0;
		while (t - t0 < secs) {
			snprintf(n, sizeof n, "f%06d", i++);
			close(openat(d, n, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
			if (fsync(d))
				die("fsync");
			ops++;
			t = now();
		}
		r = (double)ops / (t - t0);
	}
	while (i > 0) {
		snprintf(n, sizeof n, "f%06d", --i);
		unlinkat(d, n, 0);
	}
	close(d);
	unlinkat(dfd, "limits.d", AT_REMOVEDIR);
	return r;
}
static double seqsync(void)
{
	need_big();
	uint64_t b = 0;
	double t0 = now(), t = t0;
	do {
		for (int i = 0; i < FILE_MIB; i++)
			if (pwrite(bigfd, buf, MIB, (off_t)i * MIB) != MIB)
				die("pwrite");
		if (fsync(bigfd))
			die("fsync");
		b += (uint64_t)FILE_MIB * MIB;
		t = now();
	} while (t - t0 < secs);
	return (double)b / 1e6 / (t - t0);
}

static const struct {
	const char *name, *unit;
	double (*fn)(void);
} L[] = {
	{ "wake-thread-same-cpu", "round trip/s", wake_same },
	{ "wake-thread-other-cpu", "round trip/s", wake_other },
	{ "tcp-pingpong-1", "op/s", pp1 },
	{ "tcp-pingpong-1-same-cpu", "op/s", pp1same },
	{ "tcp-pingpong-1-other-cpu", "op/s", pp1other },
	{ "tcp-pingpong-32-batched", "op/s", pp32b },
	{ "tcp-pingpong-32-same-cpu", "op/s", pp32same },
	{ "tcp-pingpong-32-other-cpu", "op/s", pp32other },
	{ "tcp-pingpong-32-single-sends", "op/s", pp32s },
	{ "tcp-stream", "MB/s", st_copy },
	{ "tcp-stream-discard", "MB/s", st_trunc },
	{ "tcp-sendfile", "MB/s", st_sf },
	{ "tcp-sendfile-discard", "MB/s", st_sftrunc },
	{ "preadv-4k-random", "op/s", rd4k },
	{ "preadv-1m", "op/s", rd1m },
	{ "pwrite-4k-random", "op/s", wr4k },
	{ "pwrite-1m", "op/s", wr1m },
	{ "fstat", "op/s", fstat_ },
	{ "fstatat", "op/s", fstatat_ },
	{ "open-close", "op/s", openclose },
	{ "create-write4k-close", "op/s", mk4k },
	{ "create-close-unlink", "pair/s", mkrm },
	{ "mkdir-rmdir", "pair/s", mkdirrm },
	{ "rename", "op/s", rename_ },
	{ "list-10k", "entry/s", ls },
	{ "list-and-stat-10k", "entry/s", lsl },
	{ "list-stat-handle-10k", "entry/s", lsh },
	{ "pwrite4k-fdatasync", "op/s", fsync4k },
	{ "create-write4k-fsync-close", "op/s", mksync },
	{ "create-fsync-directory", "op/s", fsyncdir },
	{ "write-256m-fsync", "MB/s", seqsync },
};
static int cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}
int main(int argc, char **argv)
{
	for (int c; (c = getopt(argc, argv, "d:s:r:")) != -1;) {
		if (c == 'd')
			dir = optarg;
		else if (c == 's')
			secs = atof(optarg);
		else if (c == 'r')
			repeats = atoi(optarg);
		else
			return 2;
	}
	if (repeats < 1 || repeats > 100)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	buf = aligned_alloc(4096, MIB);
	memset(buf, 0x5a, MIB);
	dfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dfd < 0)
		die(dir);
	for (size_t i = 0; i < sizeof L / sizeof L[0]; i++) {
		bool want = optind >= argc;
		for (int k = optind; k < argc; k++)
			if (!strcmp(argv[k], L[i].name))
				want = true;
		if (!want)
			continue;
		double v[100];
		for (int r = 0; r < repeats; r++)
			v[r] = L[i].fn();
		qsort(v, (size_t)repeats, sizeof v[0], cmp);
		printf("{\"limit\":\"%s\",\"unit\":\"%s\",\"median\":%.1f,\"min\":%.1f,\"max\":%."
		       "1f,\"repeats\":%d}\n",
		       L[i].name, L[i].unit, v[repeats / 2], v[0], v[repeats - 1], repeats);
		fflush(stdout);
	}
	if (have_big)
		unlinkat(dfd, "limits.big", 0);
	return 0;
}
