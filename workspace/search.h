/* SPDX-License-Identifier: MIT */
/*
 * Finding lines in the files of a tree that users built, with a pattern that users wrote: neither
 * may crash us, hang us, or lead us out of the tree.
 *
 * Links are not followed and other mounts not entered; FIFOs, sockets and devices are never opened.
 * A file is read into memory, never mapped: it may shrink meanwhile.  What was not looked into is
 * named with its reason, so that "no match" can be trusted.
 *
 * A pattern is compared with each line by itself; a line ends with LF, and a CR before that is not
 * shown and does not keep `$` from matching.  Case and `.` follow UTF-8 when pattern and file are
 * valid UTF-8, else both are bytes.  Regular expressions are PCRE2's; how much work one may make is
 * bounded for each line and in all.
 *
 * Any thread; blocks for as long as the time limit says, and a moment longer.
 */
#ifndef WORKSPACE_SEARCH_H
#define WORKSPACE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workspace/glob.h"

#define SEARCH_LITERAL_MAX (64u << 10) /* bytes of a literal pattern */
#define SEARCH_REGEX_MAX   (16u << 10) /* bytes: what PCRE2 makes of it is bounded by itself */
#define SEARCH_CONTEXT_MAX 20          /* lines before, and lines after */
#define SEARCH_GLOBS_MAX   16          /* of each kind */

struct search_options {
	const char *pattern; /* borrowed; any bytes but LF in a literal */
	size_t pattern_len;
	bool is_regex, ignore_case;
	/* borrowed; paths are relative to the root of the search.  Files must match one of
	 * @include, if there is any; what matches one of @exclude is left out, a directory with all
	 * below it. */
	const struct glob *const *include, *const *exclude;
	size_t n_include, n_exclude;
	size_t max_depth;         /* 1: the files of the root itself; 0: all */
	unsigned before, after;   /* lines of context, at most SEARCH_CONTEXT_MAX */
	uint64_t max_results;     /* matching lines; > 0 */
	size_t max_file_bytes;    /* > 0; larger files are named and skipped */
	size_t max_line_bytes;    /* > 0; of a line as it is shown */
	uint64_t deadline_ns;     /* CLOCK_MONOTONIC; 0: none */
	const bool *is_cancelled; /* atomic; may be NULL; looked at all the time */
};

/* A line as it is shown, or the part of it around the match. */
struct search_line {
	const char *p; /* borrowed until the callback returns */
	size_t len;    /* bytes */
	size_t column; /* of the first byte in its line, from 1 */
	bool is_cut;   /* there is more of the line, before or behind */
};

struct search_match {
	const char *path;   /* relative to the root; "" when the root is a file; any bytes */
	uint64_t line;      /* from 1 */
	size_t column, len; /* bytes: of the first match in the line, from 1 */
	struct search_line text;
	const struct search_line *before, *after;
	size_t n_before, n_after;
};

enum search_skip {
	SEARCH_SKIP_BINARY,     /* NUL in the first 8 KiB */
	SEARCH_SKIP_TOO_LARGE,  /* more than max_file_bytes */
	SEARCH_SKIP_UNREADABLE, /* also a directory, or what is left of it */
	SEARCH_SKIP_SPECIAL,    /* FIFO, socket, device */
	SEARCH_SKIP_COSTLY,     /* the pattern needs too many steps; matches so far were given */
	SEARCH_SKIP_ENCODING,   /* not UTF-8, and the pattern has no meaning over bytes */
};
const char *search_skip_text(enum search_skip s); /* "binary", "too large", ... */

struct search_ops {
	/* false: enough, stop. */
	bool (*match)(void *arg, const struct search_match *m);
	void (*skipped)(void *arg, const char *path, enum search_skip why);
};

enum search_end {
	SEARCH_COMPLETE,
	SEARCH_END_RESULTS, /* there are more than max_results */
	SEARCH_END_TIME,
	SEARCH_END_CANCELLED,
	SEARCH_END_STOPPED, /* ops->match said so */
};
const char *search_end_text(enum search_end e); /* "result limit", ...; NULL for complete */

struct search_result {
	uint64_t n_files;   /* looked through */
	uint64_t n_matches; /* given to ops->match */
	uint64_t n_bytes;   /* read */
	enum search_end end;
};

/**
 * search_run() - walk and search
 * @root_fd:	borrowed; a directory or a regular file, may be O_PATH
 *
 * Return: 0 (@ret says whether all was seen), -EINVAL (the pattern; PCRE2's sentence and where), or
 * -errno when the root cannot be read.
 */
int search_run(int root_fd, const struct search_options *o, const struct search_ops *ops, void *arg,
	       struct search_result *ret, struct err *err);

#endif
