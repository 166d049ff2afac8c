/* SPDX-License-Identifier: MIT */
/*
 * The writer of log lines.  A line is put together on the stack and leaves by one write(2), so that
 * lines of threads and of the broker, which shares our stderr, do not mix and no lock is taken.
 * Callers escape client bytes with log_escape(); as a second line of defence control characters
 * never get out of here.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define LINE_MAX_BYTES 2048 /* below PIPE_BUF (4096): a pipe takes it whole or not at all */
#define MSG_MAX_BYTES  1536 /* leaves room for the head, and for some escapes in JSON */

#define ALL_TOPICS     ((1u << LOG_N_TOPICS) - 1)
#define DEFAULT_TOPICS (ALL_TOPICS & ~(1u << LOG_RPC)) /* a line for each call only when named */

unsigned log_debug_mask_;
enum log_level log_level_ = LOG_INFO;

static unsigned configured_mask; /* what log_toggle_debug() goes back to */
static bool as_json;

static const char *const level_names[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};

static const char *const topic_names[LOG_N_TOPICS] = {
	[LOG_MAIN] = "main", [LOG_STORE] = "store", [LOG_WS] = "ws",         [LOG_NFS] = "nfs",
	[LOG_RPC] = "rpc",   [LOG_HTTP] = "http",   [LOG_BROKER] = "broker",
};

static int find_name(const char *const *names, size_t n_names, const char *word, size_t len)
{
	for (size_t i = 0; i < n_names; i++) {
		if (strlen(names[i]) == len && memcmp(names[i], word, len) == 0)
			return (int)i;
	}
	return -1;
}

struct settings {
	enum log_level level;
	unsigned mask;
	bool json;
};

static int apply_word(struct settings *s, const char *word, size_t len, struct err *err)
{
	char shown[32];
	int i;

	i = find_name(level_names, ARRAY_LEN(level_names), word, len);
	if (i >= 0) {
		s->level = (enum log_level)i;
		return 0;
	}
	i = find_name(topic_names, ARRAY_LEN(topic_names), word, len);
	if (i >= 0) {
		s->mask |= 1u << i;
		return 0;
	}
	if (len == 4 && memcmp(word, "json", 4) == 0) {
		s->json = true;
		return 0;
	}
	return err_set(
		err, -EINVAL,
		"log: unknown word '%s' (allowed: error, warn, info, debug, json, and the topics "
		"main, store, ws, nfs, rpc, http, broker)",
		log_escape(shown, sizeof(shown), word, len));
}

int log_configure(const char *spec, struct err *err)
{
	struct settings s = { .level = LOG_INFO };
	const char *p = spec;

	for (;;) {
		size_t len = strcspn(p, ", ");

		if (len > 0) {
			int rc = apply_word(&s, p, len, err);

			if (rc < 0)
				return rc;
		}
		if (p[len] == '\0')
			break;
		p += len + 1;
	}
	if (s.level == LOG_DEBUG && s.mask == 0)
		s.mask = DEFAULT_TOPICS;
	log_level_ = s.level;
	as_json = s.json;
	configured_mask = s.mask;
	__atomic_store_n(&log_debug_mask_, s.mask, __ATOMIC_RELAXED);
	return 0;
}

void log_toggle_debug(void)
{
	unsigned now = __atomic_load_n(&log_debug_mask_, __ATOMIC_RELAXED);

	__atomic_store_n(&log_debug_mask_, now == ALL_TOPICS ? configured_mask : ALL_TOPICS,
			 __ATOMIC_RELAXED);
}

bool log_is_debugging(void)
{
	return __atomic_load_n(&log_debug_mask_, __ATOMIC_RELAXED) == ALL_TOPICS;
}

/* A line under construction.  What does not fit is dropped; the last byte is kept for the newline.
 */
struct line {
	char text[LINE_MAX_BYTES];
	size_t len;
};

static void put(struct line *l, const char *s, size_t n)
{
	size_t room = sizeof(l->text) - 1 - l->len;

	if (n > room)
		n = room;
	memcpy(l->text + l->len, s, n);
	l->len += n;
}

static void puts_line(struct line *l, const char *s)
{
	put(l, s, strlen(s));
}

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c != 0x7f;
}

static void put_text(struct line *l, const char *s)
{
	for (; *s != '\0'; s++)
		put(l, is_plain((unsigned char)*s) ? s : "?", 1);
}

/* Length of the UTF-8 sequence at @s (ASCII included), 0 when the bytes are none.  Overlong forms
 * and surrogates are refused too: a JSON reader would refuse the whole line. */
static size_t utf8_len(const char *str)
{
	const unsigned char *s = (const unsigned char *)str;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0; /* also stops at the terminating NUL */
	}
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/* The closing quote and brace must always fit: a cut string is still JSON. */
static void put_json_text(struct line *l, const char *s)
{
	const size_t keep = sizeof("\\\\\"}") - 1;

	while (*s != '\0' && l->len + 4 + keep < sizeof(l->text)) {
		size_t n = utf8_len(s);

		if (*s == '"' || *s == '\\') {
			put(l, "\\", 1);
			put(l, s, 1);
		} else if (n == 0 || !is_plain((unsigned char)*s)) {
			put(l, "?", 1);
		} else {
			put(l, s, n);
		}
		s += n > 0 ? n : 1;
	}
}

void log_write_(enum log_level level, enum log_topic topic, const char *fmt, ...)
{
	int saved_errno = errno; /* callers log between a failed call and strerror(errno) */
	char msg[MSG_MAX_BYTES];
	char when[CLOCK_RFC3339_LEN];
	struct line l = { .len = 0 };
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(msg, sizeof(msg), fmt, ap) < 0)
		msg[0] = '\0';
	va_end(ap);
	(void)clock_rfc3339(when, sizeof(when), clock_real_ns());

	puts_line(&l, as_json ? "{\"time\":\"" : "");
	puts_line(&l, when);
	puts_line(&l, as_json ? "\",\"level\":\"" : " ");
	puts_line(&l, level_names[level]);
	puts_line(&l, as_json ? "\",\"topic\":\"" : " ");
	puts_line(&l, topic_names[topic]);
	if (as_json) {
		puts_line(&l, "\",\"message\":\"");
		put_json_text(&l, msg);
		puts_line(&l, "\"}");
	} else {
		puts_line(&l, " ");
		put_text(&l, msg);
	}
	l.text[l.len++] = '\n';
	/* When stderr is gone or full there is nowhere left to say so. */
	if (write(STDERR_FILENO, l.text, l.len) < 0)
		errno = 0;
	errno = saved_errno;
}

static bool is_word_byte(unsigned char c)
{
	return c > 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '=';
}

const char *log_escape(char *dst, size_t dst_len, const void *src, size_t src_len)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *p = src;
	size_t len = 0;

	for (size_t i = 0; i < src_len; i++) {
		size_t n = is_word_byte(p[i]) ? 1 : 4;

		if (n >= dst_len - len)
			break;
		if (n == 1) {
			dst[len++] = (char)p[i];
			continue;
		}
		dst[len++] = '\\';
		dst[len++] = 'x';
		dst[len++] = hex[p[i] >> 4];
		dst[len++] = hex[p[i] & 15];
	}
	dst[len] = '\0';
	return dst;
}
