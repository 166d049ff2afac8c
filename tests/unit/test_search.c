/* SPDX-License-Identifier: MIT */
/* Search: lines and columns, what is left out and named, and that nothing hangs it. */
#include "workspace/search.h"

#include <errno.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "data_dir.h"

#define NOBODY 65534

static int make_tree(void **state)
{
	struct data_dir *t;

	if (data_dir_make(state) < 0)
		return -1;
	t = *state;
	return fchmod(t->fd, 0755);
}

static void put(struct data_dir *t, const char *name, const void *p, size_t n)
{
	auto_close int fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, p, n), n);
}

static void puts_in(struct data_dir *t, const char *name, const char *text)
{
	put(t, name, text, strlen(text));
}

static void make_dir(struct data_dir *t, const char *name)
{
	assert_int_equal(mkdirat(t->fd, name, 0755), 0);
}

/* ---- a search whose results become sorted text -------------------------- */

struct found {
	char *lines[512]; /* owned */
	size_t n;
	size_t n_skipped;
	uint64_t stop_after; /* 0: never */
	struct search_result result;
	struct err err;
};

static void note(struct found *f, struct buf *b)
{
	assert_in_range(f->n, 0, ARRAY_LEN(f->lines) - 1);
	f->lines[f->n++] = strdup(buf_cstr(b));
	buf_free(b);
}

static void put_lines(struct buf *b, const char *mark, const struct search_line *l, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_printf(b, "%s%.*s", mark, (int)l[i].len, l[i].p), 0);
}

/* "path:line:column:text", with "...+N" for cut text from column N, "<" before and ">" after. */
static bool on_match(void *arg, const struct search_match *m)
{
	struct found *f = arg;
	struct buf b = { 0 };

	assert_int_equal(buf_printf(&b, "%s:%u:%zu:%.*s", m->path, (unsigned)m->line, m->column,
				    (int)m->text.len, m->text.p),
			 0);
	if (m->text.is_cut)
		assert_int_equal(buf_printf(&b, "...+%zu", m->text.column), 0);
	put_lines(&b, "<", m->before, m->n_before);
	put_lines(&b, ">", m->after, m->n_after);
	note(f, &b);
	return f->stop_after == 0 || f->n < f->stop_after;
}

static void on_skipped(void *arg, const char *path, enum search_skip why)
{
	struct found *f = arg;
	struct buf b = { 0 };

	assert_int_equal(buf_printf(&b, "skip %s: %s", path, search_skip_text(why)), 0);
	note(f, &b);
	f->n_skipped++;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static const struct search_ops ops = { .match = on_match, .skipped = on_skipped };

static const struct search_options defaults = { .max_results = 100,
						.max_file_bytes = 16u << 20,
						.max_line_bytes = 40 };

static int run_options(struct data_dir *t, const struct search_options *o, struct found *f)
{
	int rc;

	f->n = f->n_skipped = 0;
	f->err = (struct err){ 0 };
	rc = search_run(t->fd, o, &ops, f, &f->result, &f->err);
	qsort(f->lines, f->n, sizeof(f->lines[0]), compare);
	return rc;
}

static void forget(struct found *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->lines[i]);
	f->n = 0;
}

static void expect(struct data_dir *t, const struct search_options *o, const char *const *want,
		   size_t n)
{
	struct found f = { 0 };

	if (run_options(t, o, &f) != 0)
		fail_msg("%.*s: %s", (int)o->pattern_len, o->pattern, f.err.msg);
	for (size_t i = 0; i < f.n || i < n; i++) {
		const char *have = i < f.n ? f.lines[i] : "(none)";

		if (strcmp(have, i < n ? want[i] : "(none)") != 0)
			fail_msg("%.*s: '%s' instead of '%s'", (int)o->pattern_len, o->pattern,
				 have, i < n ? want[i] : "(none)");
	}
	assert_int_equal(f.result.end, SEARCH_COMPLETE);
	forget(&f);
}

#define EXPECT(t, o, ...)                                                                          \
	do {                                                                                       \
		static const char *const want_[] = { __VA_ARGS__ };                                \
		expect((t), (o), want_, ARRAY_LEN(want_));                                         \
	} while (0)

static struct search_options pattern(const char *p, bool is_regex, bool ignore_case)
{
	struct search_options o = defaults;

	o.pattern = p;
	o.pattern_len = strlen(p);
	o.is_regex = is_regex;
	o.ignore_case = ignore_case;
	return o;
}

/* ---- what is found ------------------------------------------------------ */

static void test_patterns_find_lines_and_columns(void **state)
{
	struct data_dir *t = *state;
	static const char text[] =
		"one Word\r\n-e --help [x\n\nword word\ncaf\xc3\xa9 CAF\xc3\x89\n"
		"raw \xff byte\nlast";
	static const struct {
		const char *pattern;
		bool is_regex, ignore_case;
		const char *want; /* without "f:", joined with '|' */
	} cases[] = {
		{ "word", false, false, "4:1:word word" },
		{ "word", false, true, "1:5:one Word|4:1:word word" },
		{ "Word", false, false, "1:5:one Word" },
		{ "-e", false, false, "2:1:-e --help [x" },
		{ "--help", false, false, "2:4:-e --help [x" },
		{ "[", false, false, "2:11:-e --help [x" },
		{ "[", false, true, "2:11:-e --help [x" },
		{ "x$", true, false, "2:12:-e --help [x" },
		{ "Word$", true, false, "1:5:one Word" },
		{ "d\\r", true, false, "1:8:one Word" },
		{ "^$", true, false, "3:1:" },
		{ "^w.*d$", true, false, "4:1:word word" },
		{ "(?i)^W", true, false, "4:1:word word" },
		{ "last", false, false, "7:1:last" },
		{ "\xff", false, false, "6:5:raw \xff byte" },
		{ "\xff", true, false, "6:5:raw \xff byte" },
		{ "\\xff", true, false, "6:5:raw \xff byte" },
		{ "a\\nb", true, false, "" },
		{ "nowhere", false, false, "" },
		{ "(?<=wor)d w", true, false, "4:4:word word" },
	};

	puts_in(t, "f", text);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct search_options o =
			pattern(cases[i].pattern, cases[i].is_regex, cases[i].ignore_case);
		struct found f = { 0 };
		struct buf have = { 0 };

		if (run_options(t, &o, &f) != 0)
			fail_msg("%s: %s", cases[i].pattern, f.err.msg);
		for (size_t k = 0; k < f.n; k++)
			assert_int_equal(
				buf_printf(&have, "%s%s", k > 0 ? "|" : "", f.lines[k] + 2), 0);
		if (strcmp(buf_cstr(&have), cases[i].want) != 0)
			fail_msg("%s: '%s'", cases[i].pattern, (char *)have.data);
		buf_free(&have);
		forget(&f);
	}
}

static void test_case_of_utf8_is_that_of_characters(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("CAF\xc3\x89", false, true);

	puts_in(t, "f", "caf\xc3\xa9\n");
	EXPECT(t, &o, "f:1:1:caf\xc3\xa9");
	o = pattern("^.....$", true, false); /* five characters, six bytes */
	puts_in(t, "f", "caf\xc3\xa9.\n");
	EXPECT(t, &o, "f:1:1:caf\xc3\xa9.");
}

static void test_a_pattern_without_meaning_over_bytes_names_the_file(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("\\x{20ac}|a", true, false);

	puts_in(t, "latin1", "a\xe9\n");
	puts_in(t, "utf8", "1 \xe2\x82\xac\n");
	EXPECT(t, &o, "skip latin1: not UTF-8", "utf8:1:3:1 \xe2\x82\xac");
}

static void test_context_stops_at_the_ends_of_the_file(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("x", false, false);

	puts_in(t, "f", "x1\na\r\nb\nx2\n\nx3");
	o.before = 2;
	o.after = 1;
	EXPECT(t, &o, "f:1:1:x1>a", "f:4:1:x2<a<b>", "f:6:1:x3<x2<");
}

static void test_long_lines_are_cut_around_the_match(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("needle", false, false);
	char text[1001];

	memset(text, '.', sizeof(text));
	memcpy(text + 500, "needle", 6);
	text[1000] = '\n';
	put(t, "f", text, sizeof(text));
	EXPECT(t, &o,
	       "f:1:501:..........needle........................"
	       "...+491");
	memcpy(text + 500, "......", 6);
	memcpy(text, "needle", 6);
	put(t, "f", text, sizeof(text));
	EXPECT(t, &o,
	       "f:1:1:needle.................................."
	       "...+1");
	/* never in the middle of a character */
	for (size_t i = 6; i < 1000; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	o.max_line_bytes = 9;
	put(t, "f", text, sizeof(text));
	EXPECT(t, &o, "f:1:1:needle\xc3\xa9\xc3\xa9...+1");
}

/* ---- which files -------------------------------------------------------- */

static struct glob *glob_of(const char *p)
{
	struct glob *g;

	assert_int_equal(glob_new(p, strlen(p), &g, NULL), 0);
	return g;
}

static void test_globs_and_depth_choose_files(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("x", false, false);
	const struct glob *include[1], *exclude[1];

	make_dir(t, "d");
	make_dir(t, "d/e");
	make_dir(t, ".git");
	puts_in(t, "a.c", "x\n");
	puts_in(t, "d/b.c", "x\n");
	puts_in(t, "d/e/c.h", "x\n");
	puts_in(t, ".git/c.c", "x\n");
	EXPECT(t, &o, ".git/c.c:1:1:x", "a.c:1:1:x", "d/b.c:1:1:x", "d/e/c.h:1:1:x");
	o.max_depth = 1;
	EXPECT(t, &o, "a.c:1:1:x");
	o.max_depth = 2;
	EXPECT(t, &o, ".git/c.c:1:1:x", "a.c:1:1:x", "d/b.c:1:1:x");
	o.max_depth = 0;
	include[0] = glob_of("*.c");
	exclude[0] = glob_of(".git/");
	o.include = include;
	o.exclude = exclude;
	o.n_include = o.n_exclude = 1;
	EXPECT(t, &o, "a.c:1:1:x", "d/b.c:1:1:x");
	o.n_include = 0;
	EXPECT(t, &o, "a.c:1:1:x", "d/b.c:1:1:x", "d/e/c.h:1:1:x");
	glob_free((struct glob *)include[0]);
	glob_free((struct glob *)exclude[0]);
}

static void make_socket(struct data_dir *t, const char *name)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", t->path, name);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
}

static void make_large(struct data_dir *t, const char *name, off_t size)
{
	auto_close int fd = openat(t->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
}

static void test_what_is_not_searched_is_named_and_links_are_not_followed(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("x", false, false);

	make_dir(t, "d");
	puts_in(t, "d/f", "x\n");
	put(t, "nul", "x\0x\n", 4);
	assert_int_equal(mkfifoat(t->fd, "fifo", 0666), 0);
	make_socket(t, "socket");
	make_large(t, "large", (off_t)2 << 30);
	puts_in(t, "name \xff\n", "x\n");
	puts_in(t, "empty", "");
	assert_int_equal(symlinkat("d", t->fd, "link"), 0);
	assert_int_equal(symlinkat("d/f", t->fd, "d/link"), 0);
	assert_int_equal(symlinkat(".", t->fd, "loop"), 0);
	assert_int_equal(symlinkat("/etc/passwd", t->fd, "out"), 0);
	assert_int_equal(symlinkat("nowhere", t->fd, "dangling"), 0);
	EXPECT(t, &o, "d/f:1:1:x", "name \xff\n:1:1:x", "skip fifo: not a regular file",
	       "skip large: too large", "skip nul: binary", "skip socket: not a regular file");
}

static void test_what_may_not_be_read_is_named(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("x", false, false);
	static const char *const want[] = { "f:1:1:x", "skip closed: unreadable",
					    "skip secret: unreadable" };

	puts_in(t, "f", "x\n");
	puts_in(t, "secret", "x\n");
	make_dir(t, "closed");
	puts_in(t, "closed/f", "x\n");
	assert_int_equal(fchmodat(t->fd, "secret", 0, 0), 0);
	assert_int_equal(fchmodat(t->fd, "closed", 0, 0), 0);
	if (geteuid() == 0)
		(void)setfsuid(NOBODY); /* takes what root may read in spite of mode bits */
	expect(t, &o, want, ARRAY_LEN(want));
	if (geteuid() == 0)
		(void)setfsuid(0);
}

static void test_the_root_may_be_a_file(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("x", false, false);
	struct data_dir file = { .fd = -1 };

	puts_in(t, "f", "a\nx\n");
	file.fd = openat(t->fd, "f", O_PATH | O_CLOEXEC);
	EXPECT(&file, &o, ":2:1:x");
	(void)close(file.fd);
}

/* ---- ends --------------------------------------------------------------- */

static void test_bad_patterns_are_refused_with_the_reason(void **state)
{
	struct data_dir *t = *state;
	static const struct {
		const char *pattern;
		bool is_regex;
		const char *says;
	} cases[] = {
		{ "", false, "is empty" },
		{ "", true, "is empty" },
		{ "a\nb", false, "line end" },
		{ "[", true, "at byte 1: missing terminating ]" },
		{ "(a", true, "missing closing parenthesis" },
		{ "*", true, "quantifier does not follow" },
		{ "a\\Cb", true, "\\C is disabled" },
		{ "\xff(", true, "missing closing parenthesis" },
		{ "(((a{1000}){1000}){1000})", true, "too large" },
	};
	struct found f = { 0 };
	struct search_options o;
	char *text = malloc(SEARCH_LITERAL_MAX + 1);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		o = pattern(cases[i].pattern, cases[i].is_regex, false);
		assert_int_equal(run_options(t, &o, &f), -EINVAL);
		if (strstr(f.err.msg, cases[i].says) == NULL)
			fail_msg("%s: %s", cases[i].pattern, f.err.msg);
	}
	assert_non_null(text);
	memset(text, 'a', SEARCH_LITERAL_MAX + 1);
	o = pattern("", false, false);
	o.pattern = text;
	o.pattern_len = SEARCH_LITERAL_MAX + 1;
	assert_int_equal(run_options(t, &o, &f), -EINVAL);
	o.pattern_len--;
	assert_int_equal(run_options(t, &o, &f), 0);
	o.is_regex = true;
	o.pattern_len = SEARCH_REGEX_MAX + 1;
	assert_int_equal(run_options(t, &o, &f), -EINVAL);
	free(text);
}

static void test_limits_end_a_search_and_say_so(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("x", false, false);
	struct found f = { 0 };
	bool is_cancelled = true;

	puts_in(t, "f", "x\nx\nx\n");
	o.max_results = 3; /* exactly all: nothing is missing */
	assert_int_equal(run_options(t, &o, &f), 0);
	assert_int_equal(f.n, 3);
	assert_int_equal(f.result.end, SEARCH_COMPLETE);
	forget(&f);
	o.max_results = 2;
	assert_int_equal(run_options(t, &o, &f), 0);
	assert_int_equal(f.n, 2);
	assert_int_equal(f.result.end, SEARCH_END_RESULTS);
	forget(&f);
	f.stop_after = 1;
	assert_int_equal(run_options(t, &o, &f), 0);
	assert_int_equal(f.n, 1);
	assert_int_equal(f.result.end, SEARCH_END_STOPPED);
	forget(&f);
	o.is_cancelled = &is_cancelled;
	assert_int_equal(run_options(t, &o, &f), 0);
	assert_int_equal(f.n, 0);
	assert_int_equal(f.result.end, SEARCH_END_CANCELLED);
	o.is_cancelled = NULL;
	o.deadline_ns = 1;
	assert_int_equal(run_options(t, &o, &f), 0);
	assert_int_equal(f.n, 0);
	assert_int_equal(f.result.end, SEARCH_END_TIME);
}

/* Backtracking would take 2^n steps: the line is given up, and the next file is searched. */
static void test_an_evil_pattern_does_not_hang(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("^(a+)+$", true, false);
	size_t n = 1u << 20;
	char *text = malloc(n);

	assert_non_null(text);
	memset(text, 'a', n);
	text[n - 1] = 'b';
	put(t, "evil", text, n);
	puts_in(t, "fine", "aaa\n");
	EXPECT(t, &o, "fine:1:1:aaa", "skip evil: the pattern needs too many steps");
	free(text);
}

/* Each place alone stays within its limit, all together would take minutes. */
static void test_the_deadline_holds_within_a_line(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("a.*?[cd]", true, false);
	size_t n = 1u << 19;
	char *text = malloc(n);
	struct found f = { 0 };

	assert_non_null(text);
	memset(text, 'a', n);
	put(t, "evil", text, n);
	puts_in(t, "never", "ac\n");
	o.deadline_ns = clock_mono_ns() + 50 * NSEC_PER_MS;
	assert_int_equal(run_options(t, &o, &f), 0);
	assert_int_equal(f.result.end, SEARCH_END_TIME);
	forget(&f);
	free(text);
}

/* Slices that scan the rest of the line must not make that the square of its length. */
static void test_a_tame_pattern_passes_a_huge_line(void **state)
{
	struct data_dir *t = *state;
	struct search_options o = pattern("NEEDLE", false, true);
	size_t n = 12u << 20;
	char *text = malloc(n);

	assert_non_null(text);
	memset(text, 'x', n);
	memcpy(text + n - 6, "needle", 6);
	put(t, "f", text, n);
	o.max_line_bytes = 8;
	EXPECT(t, &o, "f:1:12582907:xxneedle...+12582905");
	free(text);
}

/* A line of several slices: a match is found wherever it begins, once, also behind characters of
 * several bytes. */
static void test_long_lines_are_searched_to_their_end(void **state)
{
	struct data_dir *t = *state;
	char text[3000];

	for (size_t at = 0; at + 8 < sizeof(text); at += 127) {
		struct search_options o = pattern("n.{2}dle$|needle", true, false);
		struct found f = { 0 };

		for (size_t i = 0; i + 1 < sizeof(text); i += 2)
			memcpy(text + i, "\xc3\xa9", 2);
		at &= ~(size_t)1;
		memcpy(text + at, "needle", 6);
		put(t, "f", text, sizeof(text));
		assert_int_equal(run_options(t, &o, &f), 0);
		assert_int_equal(f.n, 1);
		assert_int_equal(
			strtoul(strrchr(f.lines[0], ':') == NULL ? "" : f.lines[0] + 4, NULL, 10),
			at + 1);
		forget(&f);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_tree, data_dir_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_patterns_find_lines_and_columns),
		TEST(test_case_of_utf8_is_that_of_characters),
		TEST(test_a_pattern_without_meaning_over_bytes_names_the_file),
		TEST(test_context_stops_at_the_ends_of_the_file),
		TEST(test_long_lines_are_cut_around_the_match),
		TEST(test_globs_and_depth_choose_files),
		TEST(test_what_is_not_searched_is_named_and_links_are_not_followed),
		TEST(test_what_may_not_be_read_is_named),
		TEST(test_the_root_may_be_a_file),
		TEST(test_bad_patterns_are_refused_with_the_reason),
		TEST(test_limits_end_a_search_and_say_so),
		TEST(test_an_evil_pattern_does_not_hang),
		TEST(test_the_deadline_holds_within_a_line),
		TEST(test_a_tame_pattern_passes_a_huge_line),
		TEST(test_long_lines_are_searched_to_their_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
