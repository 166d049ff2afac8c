/* SPDX-License-Identifier: MIT */
/*
 * Random operations on one file, each checked against a copy in memory.
 *
 *	fsx [--seed N] [--seconds N | --ops N] [--max BYTES] FILE
 *
 * The sizes and places are drawn so that pages, and ends of the file, are hit at their edges. Reads
 * are by read(2) and through a mapping, writes likewise and by O_APPEND; the file is cut, grown,
 * closed, opened anew, renamed, synced, and unlinked while it stays open.  The first difference
 *ends the run: what was done last, with which seed, is printed, and the same seed does the same
 *again.
 *
 * It knows nothing of what file system it runs on; tests/integration/test_fuse_fsx.py runs it in
 *mounts whose server is killed meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE      4096
#define HISTORY   64 /* operations that are printed when one fails */
#define LINE_MAX_ 96

static uint64_t rng_state;
static char path[4096], other[4096];
static int fd = -1;
static uint8_t *model; /* what the file must hold */
static size_t model_size, max_size = 2u << 20;
static uint8_t *scratch;
static uint64_t n_ops;
static char history[HISTORY][LINE_MAX_];

/* ---- chance ------------------------------------------------------------- */

static uint64_t draw(uint64_t below)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return below > 0 ? rng_state % below : 0;
}

/* A place in 0..max_size: often at a page's edge or at the end of the file. */
static size_t draw_place(void)
{
	size_t at = draw(max_size);

	switch (draw(4)) {
	case 0:
		at -= at % PAGE;
		break;
	case 1:
		at = model_size > 8 ? model_size - draw(8) : model_size;
		break;
	default:
		break;
	}
	return at < max_size ? at : max_size - 1;
}

static size_t draw_length(size_t at)
{
	static const size_t limits[] = { 16, PAGE, 3 * PAGE, 200000, 1500000 };
	size_t n = 1 + draw(limits[draw(5)]);

	return n < max_size - at ? n : max_size - at;
}

/* ---- telling ------------------------------------------------------------ */

static void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(history[n_ops % HISTORY], LINE_MAX_, fmt, ap);
	va_end(ap);
}

static void die(const char *fmt, ...)
{
	va_list ap;

	for (uint64_t i = n_ops > HISTORY ? n_ops - HISTORY + 1 : 0; i <= n_ops; i++)
		(void)fprintf(stderr, "%8llu %s\n", (unsigned long long)i, history[i % HISTORY]);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	exit(1);
}

static void check(const char *what, const uint8_t *got, size_t at, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (got[i] != model[at + i])
			die("%s: byte %zu is %02x, must be %02x", what, at + i, got[i],
			    model[at + i]);
	}
}

/* ---- operations --------------------------------------------------------- */

static void reopen(int flags)
{
	if (fd >= 0 && close(fd) < 0)
		die("close: %s", strerror(errno));
	fd = open(path, O_RDWR | O_CLOEXEC | flags, 0644);
	if (fd < 0)
		die("open: %s", strerror(errno));
}

static void grow_model(size_t to)
{
	if (to > model_size) {
		memset(model + model_size, 0, to - model_size);
		model_size = to;
	}
}

static void put(size_t at, size_t n)
{
	uint8_t seed = (uint8_t)draw(255);

	grow_model(at + n);
	for (size_t i = 0; i < n; i++)
		model[at + i] = (uint8_t)(seed + (at + i) % 251);
}

static void op_write(void)
{
	size_t at = draw_place(), n = draw_length(at);

	note("write %zu +%zu", at, n);
	put(at, n);
	for (size_t done = 0; done < n;) {
		ssize_t w = pwrite(fd, model + at + done, n - done, (off_t)(at + done));

		if (w <= 0)
			die("pwrite: %s", strerror(errno));
		done += (size_t)w;
	}
}

static void op_append(void)
{
	size_t at = model_size, n = draw_length(at < max_size ? at : max_size - 1);
	int afd;

	if (at + n > max_size)
		return;
	note("append %zu +%zu", at, n);
	afd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	put(at, n);
	if (afd < 0 || write(afd, model + at, n) != (ssize_t)n || close(afd) < 0)
		die("append: %s", strerror(errno));
}

static void op_read(void)
{
	size_t at = draw_place(), n = draw_length(at);
	size_t want = at < model_size ? (n < model_size - at ? n : model_size - at) : 0;
	ssize_t got;

	note("read %zu +%zu", at, n);
	got = pread(fd, scratch, n, (off_t)at);
	if (got != (ssize_t)want)
		die("read %zd bytes, must be %zu: %s", got, want, strerror(errno));
	check("read", scratch, at, want);
}

static void op_map(bool write)
{
	size_t at = draw_place(), n = draw_length(at), base = at - at % PAGE;
	uint8_t *p;

	if (at + n > model_size)
		return;
	note("map %s %zu +%zu", write ? "write" : "read", at, n);
	p = mmap(NULL, at - base + n, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
		 (off_t)base);
	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	if (write) {
		put(at, n);
		memcpy(p + (at - base), model + at, n);
		if (draw(2) == 0 && msync(p, at - base + n, MS_SYNC) < 0)
			die("msync: %s", strerror(errno));
	} else {
		check("map", p + (at - base), at, n);
	}
	if (munmap(p, at - base + n) < 0)
		die("munmap: %s", strerror(errno));
}

static void op_map_read(void)
{
	op_map(false);
}

static void op_map_write(void)
{
	op_map(true);
}

static void op_truncate(void)
{
	size_t to = draw(8) == 0 ? 0 : draw_place();

	note("truncate %zu", to);
	if (ftruncate(fd, (off_t)to) < 0)
		die("ftruncate: %s", strerror(errno));
	grow_model(to);
	model_size = to;
}

static void op_stat(void)
{
	struct stat st;

	note("stat");
	if (fstat(fd, &st) < 0 || (size_t)st.st_size != model_size)
		die("size is %lld, must be %zu", (long long)st.st_size, model_size);
}

static void op_sync(void)
{
	note("fsync");
	if (fsync(fd) < 0)
		die("fsync: %s", strerror(errno));
}

static void op_reopen(void)
{
	note("reopen");
	reopen(0);
}

static void op_open_truncated(void)
{
	note("open truncated");
	reopen(O_TRUNC);
	model_size = 0;
}

static void op_rename(void)
{
	char was[sizeof(path)];

	note("rename");
	if (rename(path, other) < 0)
		die("rename: %s", strerror(errno));
	memcpy(was, path, sizeof(path));
	memcpy(path, other, sizeof(path));
	memcpy(other, was, sizeof(path));
}

/* The name goes, the file stays as long as it is open; then it is written anew under its name. */
static void op_unlink_open(void)
{
	int held;

	note("unlink open");
	if (unlink(path) < 0)
		die("unlink: %s", strerror(errno));
	if (pread(fd, scratch, max_size, 0) != (ssize_t)model_size)
		die("the unlinked file has another size");
	check("unlinked", scratch, 0, model_size);
	held = fd;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		die("create: %s", strerror(errno));
	(void)close(held);
	model_size = 0;
}

static const struct {
	void (*run)(void);
	unsigned weight;
} ops[] = {
	{ op_write, 30 },   { op_read, 25 },          { op_map_read, 8 }, { op_map_write, 8 },
	{ op_truncate, 8 }, { op_append, 6 },         { op_stat, 5 },     { op_sync, 2 },
	{ op_reopen, 5 },   { op_open_truncated, 1 }, { op_rename, 1 },   { op_unlink_open, 1 },
};

static void run_one(void)
{
	unsigned total = 0, pick;
	size_t i = 0;

	for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
		total += ops[k].weight;
	pick = (unsigned)draw(total);
	while (pick >= ops[i].weight)
		pick -= ops[i++].weight;
	ops[i].run();
	n_ops++;
}

int main(int argc, char **argv)
{
	uint64_t seed = (uint64_t)time(NULL), limit = UINT64_MAX;
	time_t end = 0;
	int i = 1;

	for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
		uint64_t v = strtoull(argv[i + 1], NULL, 10);

		if (strcmp(argv[i], "--seed") == 0)
			seed = v;
		else if (strcmp(argv[i], "--ops") == 0)
			limit = v;
		else if (strcmp(argv[i], "--seconds") == 0)
			end = time(NULL) + (time_t)v;
		else if (strcmp(argv[i], "--max") == 0)
			max_size = v;
		else
			break;
	}
	if (i + 1 != argc || max_size < 2 * PAGE) {
		(void)fputs("usage: fsx [--seed N] [--seconds N | --ops N] [--max BYTES] FILE\n",
			    stderr);
		return 2;
	}
	(void)printf("seed %llu\n", (unsigned long long)seed);
	(void)fflush(stdout);
	rng_state = seed * 0x9e3779b97f4a7c15ull + 1;
	(void)snprintf(path, sizeof(path), "%s", argv[i]);
	(void)snprintf(other, sizeof(other), "%s.other", argv[i]);
	model = malloc(max_size);
	scratch = malloc(max_size);
	if (model == NULL || scratch == NULL)
		return 1;
	reopen(O_CREAT | O_TRUNC);
	while (n_ops < limit && (end == 0 || time(NULL) < end))
		run_one();
	reopen(0);
	if (pread(fd, scratch, max_size, 0) != (ssize_t)model_size)
		die("the size at the end is another");
	check("end", scratch, 0, model_size);
	(void)printf("%llu operations\n", (unsigned long long)n_ops);
	return 0;
}
