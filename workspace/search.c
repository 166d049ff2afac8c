/* SPDX-License-Identifier: MIT */
/*
 * The walk, the files, and the lines of a search (see search.h); search_pattern.c compares.
 *
 * One buffer holds the file that is being looked at.  A literal is sought in the whole of it, which
 * costs next to nothing for files without a match; a regular expression line by line.
 */
#include "workspace/search.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/utf8.h"
#include "workspace/path.h"
#include "workspace/search_pattern.h"
#include "workspace/tree_walk.h"

#define SNIFF_BYTES (8u << 10) /* of a file: a NUL in them makes it binary */
#define READ_BYTES  (4u << 20) /* between two looks at the clock: a few ms */
#define STOP        2          /* returned to the walk; search.result.end says why */

struct search {
	const struct search_options *o; /* borrowed */
	const struct search_ops *ops;   /* borrowed */
	void *arg;
	struct search_pattern *pattern; /* owned */
	struct search_result *result;   /* borrowed */
	struct buf path;                /* owned: of the entry being looked at, with a NUL */
	struct buf file;                /* owned: its bytes */
	struct search_line before[SEARCH_CONTEXT_MAX], after[SEARCH_CONTEXT_MAX];
};

static const char *const skip_texts[] = {
	[SEARCH_SKIP_BINARY] = "binary",
	[SEARCH_SKIP_TOO_LARGE] = "too large",
	[SEARCH_SKIP_UNREADABLE] = "unreadable",
	[SEARCH_SKIP_SPECIAL] = "not a regular file",
	[SEARCH_SKIP_COSTLY] = "the pattern needs too many steps",
	[SEARCH_SKIP_ENCODING] = "not UTF-8",
};

static const char *const end_texts[] = {
	[SEARCH_COMPLETE] = NULL,
	[SEARCH_END_RESULTS] = "result limit",
	[SEARCH_END_TIME] = "time limit",
	[SEARCH_END_CANCELLED] = "cancelled",
	[SEARCH_END_STOPPED] = "answer limit",
};

const char *search_skip_text(enum search_skip s)
{
	return skip_texts[s];
}

const char *search_end_text(enum search_end e)
{
	return end_texts[e];
}

/* Has somebody or something ended the search?  Sets why. */
static bool must_stop(void *arg)
{
	struct search *s = arg;

	if (s->result->end != SEARCH_COMPLETE)
		return true;
	if (s->o->is_cancelled != NULL && __atomic_load_n(s->o->is_cancelled, __ATOMIC_RELAXED))
		s->result->end = SEARCH_END_CANCELLED;
	else if (s->o->deadline_ns != 0 && clock_mono_ns() >= s->o->deadline_ns)
		s->result->end = SEARCH_END_TIME;
	return s->result->end != SEARCH_COMPLETE;
}

static void skip(struct search *s, enum search_skip why)
{
	s->ops->skipped(s->arg, (const char *)s->path.data, why);
}

/* ---- one line ----------------------------------------------------------- */

struct line {
	const char *p;
	size_t len;       /* without LF and the CR before it */
	const char *next; /* the line behind it */
};

static struct line line_at(const char *p, const char *end)
{
	const char *lf = memchr(p, '\n', (size_t)(end - p));
	struct line l = { .p = p };

	l.len = (size_t)((lf != NULL ? lf : end) - p);
	l.next = lf != NULL ? lf + 1 : end;
	if (l.len > 0 && p[l.len - 1] == '\r')
		l.len--;
	return l;
}

/* Forward to where a character begins, at most three bytes. */
static size_t char_start(const char *p, size_t n, size_t at)
{
	for (int i = 0; i < 3 && at < n && ((unsigned char)p[at] & 0xc0) == 0x80; i++)
		at++;
	return at;
}

/* What is shown of a line: all, or a window that has @focus in its first quarter. */
static struct search_line shown(const struct search *s, const char *p, size_t n, size_t focus)
{
	size_t max = s->o->max_line_bytes, from = 0, to;

	if (n > max && focus > max / 4 * 3)
		from = char_start(p, n, focus - max / 4);
	to = n - from > max ? char_start(p, n, from + max) : n;
	return (struct search_line){
		.p = p + from, .len = to - from, .column = from + 1, .is_cut = from > 0 || to < n
	};
}

/* The lines before @line into s->before, in the order of the file.  Return: how many. */
static size_t take_before(struct search *s, const char *line)
{
	const char *begin = (const char *)s->file.data, *at = line;
	size_t n = 0;

	while (n < s->o->before && at > begin) {
		const char *lf = memrchr(begin, '\n', (size_t)(at - 1 - begin));
		struct line l;

		at = lf != NULL ? lf + 1 : begin;
		l = line_at(at, line);
		s->before[SEARCH_CONTEXT_MAX - ++n] = shown(s, l.p, l.len, 0);
	}
	return n;
}

static size_t take_after(struct search *s, const char *at, const char *end)
{
	size_t n = 0;

	while (n < s->o->after && at < end) {
		struct line l = line_at(at, end);

		s->after[n++] = shown(s, l.p, l.len, 0);
		at = l.next;
	}
	return n;
}

/* False: the search is over. */
static bool give(struct search *s, const struct line *l, uint64_t number, size_t at, size_t len)
{
	const char *end = (const char *)s->file.data + s->file.len;
	struct search_match m = {
		.path = (const char *)s->path.data,
		.line = number,
		.column = at + 1,
		.len = len,
		.text = shown(s, l->p, l->len, at),
	};

	if (s->result->n_matches == s->o->max_results) {
		s->result->end = SEARCH_END_RESULTS;
		return false;
	}
	m.n_before = take_before(s, l->p);
	m.n_after = take_after(s, l->next, end);
	m.before = s->before + SEARCH_CONTEXT_MAX - m.n_before;
	m.after = s->after;
	s->result->n_matches++;
	if (!s->ops->match(s->arg, &m))
		s->result->end = SEARCH_END_STOPPED;
	return s->result->end == SEARCH_COMPLETE;
}

/* ---- one file ----------------------------------------------------------- */

static uint64_t count_lf(const char *p, const char *end)
{
	uint64_t n = 0;

	while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
		n++;
		p++;
	}
	return n;
}

static void find_literal(struct search *s, const char *literal, size_t len)
{
	const char *begin = (const char *)s->file.data, *end = begin + s->file.len;
	const char *from = begin, *hit;
	uint64_t number = 1;

	while (from < end && (hit = memmem(from, (size_t)(end - from), literal, len)) != NULL) {
		const char *lf = hit == begin ? NULL : memrchr(begin, '\n', (size_t)(hit - begin));
		struct line l = line_at(lf != NULL ? lf + 1 : begin, end);

		number += count_lf(from, l.p);
		if (!give(s, &l, number, (size_t)(hit - l.p), len) || must_stop(s))
			return;
		from = l.next;
		number++;
	}
}

static void find_lines(struct search *s, bool is_utf8)
{
	const char *at = (const char *)s->file.data, *end = at + s->file.len;

	for (uint64_t number = 1; at < end; number++) {
		struct line l = line_at(at, end);
		size_t raw, found, len;
		int rc;

		/* without LF but with a CR: a pattern may ask for that */
		raw = (size_t)(l.next - at) - (l.next[-1] == '\n');
		rc = search_pattern_find(s->pattern, at, raw, is_utf8, must_stop, s, &found, &len);
		if (rc == -E2BIG)
			skip(s, SEARCH_SKIP_COSTLY);
		if (rc < 0 || (rc == 1 && !give(s, &l, number, found, len)))
			return;
		if (number % 1024 == 0 && must_stop(s))
			return;
		at = l.next;
	}
}

static void find_in_file(struct search *s)
{
	const char *p = (const char *)s->file.data, *literal;
	bool is_utf8;
	size_t len;

	if (search_pattern_literal(s->pattern, &literal, &len)) {
		find_literal(s, literal, len);
		return;
	}
	is_utf8 = utf8_is_valid(p, s->file.len);
	if (search_pattern_works_on(s->pattern, is_utf8))
		find_lines(s, is_utf8);
	else
		skip(s, SEARCH_SKIP_ENCODING);
}

/* Appends up to @want bytes.  1: the end of the file, 0: not yet, -errno. */
static int read_some(struct search *s, int fd, size_t want)
{
	ssize_t n;
	int rc = buf_reserve(&s->file, want);

	if (rc < 0)
		return rc;
	n = io_pread_full(fd, s->file.data + s->file.len, want, (off_t)s->file.len);
	if (n < 0)
		return (int)n;
	s->file.len += (size_t)n;
	s->result->n_bytes += (uint64_t)n;
	return (size_t)n < want;
}

static int read_rest(struct search *s, int fd)
{
	int rc = 0;

	while (rc == 0 && s->file.len <= s->o->max_file_bytes && !must_stop(s))
		rc = read_some(s, fd,
			       MIN((size_t)READ_BYTES, s->o->max_file_bytes - s->file.len + 1));
	return rc < 0 ? rc : 0;
}

static void look_into(struct search *s, int fd)
{
	int rc;

	s->file.len = 0;
	rc = read_some(s, fd, SNIFF_BYTES);
	if (rc >= 0 && s->file.len > 0 && memchr(s->file.data, '\0', s->file.len) != NULL) {
		skip(s, SEARCH_SKIP_BINARY);
		return;
	}
	if (rc == 0)
		rc = read_rest(s, fd);
	if (rc < 0)
		skip(s, SEARCH_SKIP_UNREADABLE);
	else if (s->file.len > s->o->max_file_bytes) /* it grew, or its size was a lie */
		skip(s, SEARCH_SKIP_TOO_LARGE);
	if (rc < 0 || s->file.len > s->o->max_file_bytes || must_stop(s))
		return;
	s->result->n_files++;
	if (s->file.len > 0)
		find_in_file(s);
}

/* @path: O_PATH.  What it is is asked here, since an entry may have been exchanged. */
static void look_at(struct search *s, int path)
{
	auto_close int fd = -1;
	struct stat st;

	if (fstat(path, &st) < 0 || S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode))
		return; /* it was something else a moment ago */
	if (!S_ISREG(st.st_mode)) {
		skip(s, SEARCH_SKIP_SPECIAL);
		return;
	}
	if ((uint64_t)st.st_size > s->o->max_file_bytes) {
		skip(s, SEARCH_SKIP_TOO_LARGE);
		return;
	}
	fd = path_reopen(path, O_RDONLY | O_NONBLOCK);
	if (fd >= 0)
		look_into(s, fd);
	else if (fd != -ENOENT)
		skip(s, SEARCH_SKIP_UNREADABLE);
}

static void search_entry(struct search *s, const struct tree_entry *e)
{
	auto_close int path =
		path_open(e->dirfd, e->name, O_PATH | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);

	if (path >= 0)
		look_at(s, path);
}

/* ---- the walk ----------------------------------------------------------- */

/* "DIR/NAME", "DIR" without a name; a search without memory for a path ends as unreadable. */
static int set_path(struct search *s, const char *dir, const char *name)
{
	s->path.len = 0;
	return buf_printf(&s->path, "%s%s%s", dir, dir[0] != '\0' && name[0] != '\0' ? "/" : "",
			  name);
}

static bool matches_any(const struct search *s, const struct glob *const *globs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (glob_match(globs[i], (const char *)s->path.data, s->path.len))
			return true;
	}
	return false;
}

static int on_entry(void *arg, const struct tree_entry *e)
{
	struct search *s = arg;
	mode_t type = e->stx->stx_mode & S_IFMT;

	if (must_stop(s))
		return STOP;
	if (type == S_IFLNK)
		return 0;
	if (set_path(s, e->dir, e->name) < 0)
		return -ENOMEM;
	if (matches_any(s, s->o->exclude, s->o->n_exclude))
		return TREE_WALK_PRUNE;
	if (type == S_IFDIR)
		return s->o->max_depth > 0 && e->depth + 1 >= s->o->max_depth ? TREE_WALK_PRUNE : 0;
	if (s->o->n_include > 0 && !matches_any(s, s->o->include, s->o->n_include))
		return 0;
	if (type == S_IFREG)
		search_entry(s, e);
	else
		skip(s, SEARCH_SKIP_SPECIAL);
	return s->result->end == SEARCH_COMPLETE ? 0 : STOP;
}

static void on_unread(void *arg, const char *dir, const char *name, int rc)
{
	struct search *s = arg;

	if (set_path(s, dir, name != NULL ? name : "") == 0)
		skip(s, SEARCH_SKIP_UNREADABLE);
}

static int search_root(struct search *s, int root_fd, struct err *err)
{
	static const struct tree_walk_ops walk_ops = { .entry = on_entry, .unread = on_unread };
	struct tree_walk_result walked;
	struct stat st;
	int rc;

	if (fstat(root_fd, &st) < 0)
		return err_set(err, -errno, "search: %s", strerror(errno));
	if (S_ISDIR(st.st_mode)) {
		rc = tree_walk_with(root_fd, &walk_ops, s, &walked);
		return rc >= 0 ? 0 : err_set(err, rc, "search: %s", strerror(-rc));
	}
	rc = set_path(s, "", "");
	if (rc < 0)
		return err_set(err, rc, "out of memory");
	look_at(s, root_fd);
	return 0;
}

int search_run(int root_fd, const struct search_options *o, const struct search_ops *ops, void *arg,
	       struct search_result *ret, struct err *err)
{
	struct search s = { .o = o, .ops = ops, .arg = arg, .result = ret };
	int rc;

	*ret = (struct search_result){ .end = SEARCH_COMPLETE };
	rc = search_pattern_new(o->pattern, o->pattern_len, o->is_regex, o->ignore_case, &s.pattern,
				err);
	if (rc < 0)
		return rc;
	s.file.max = o->max_file_bytes + READ_BYTES + SNIFF_BYTES;
	rc = search_root(&s, root_fd, err);
	search_pattern_free(s.pattern);
	buf_free(&s.path);
	buf_free(&s.file);
	return rc;
}
