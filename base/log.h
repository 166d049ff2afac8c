/* SPDX-License-Identifier: MIT */
/*
 * One line per event on stderr: `time level topic message key=value ...`, or one JSON object per
 * line. What came from a client is escaped, so that it can never forge a second line or a key. A
 * topic's debug lines are off until asked for (`WORKSPACE_LOG=debug,nfs`, SIGUSR1).
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum log_topic {
	LOG_MAIN,
	LOG_STORE,
	LOG_WS,
	LOG_NFS,
	LOG_RPC, /* one line for each NFS call, in words */
	LOG_HTTP,
	LOG_BROKER,
	LOG_N_TOPICS
};

extern unsigned log_debug_mask_; /* bit per topic; read relaxed on hot paths */
extern enum log_level log_level_;

static inline bool log_is_on(enum log_level level, enum log_topic topic)
{
	if (level < LOG_DEBUG)
		return level <= log_level_;
	return (__atomic_load_n(&log_debug_mask_, __ATOMIC_RELAXED) & (1u << topic)) != 0;
}

/**
 * log_configure() - set level, topics and format from text such as "info", "debug,nfs,http",
 * "warn,json"
 *
 * "debug" without topics turns every topic but rpc on; a topic name alone turns its debug lines on.
 * Any thread, meant for start-up.  Return: 0 or -EINVAL with the words that are allowed in @err.
 */
int log_configure(const char *spec, struct err *err);

/* log_toggle_debug() - all topics on, or back to what was configured (async-signal-safe) */
void log_toggle_debug(void);

/* Any thread.  The line is written by one write(2), so lines of threads do not mix. */
void log_write_(enum log_level level, enum log_topic topic, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* log_is_debugging() - are the debug lines of all topics on? */
bool log_is_debugging(void);

#define log_at_(level, topic, ...)                                                                 \
	do {                                                                                       \
		if (log_is_on((level), (topic)))                                                   \
			log_write_((level), (topic), __VA_ARGS__);                                 \
	} while (0)

/* At every level: the few lines that scripts wait for.  They say "info". */
#define log_always(topic, ...) log_write_(LOG_INFO, (topic), __VA_ARGS__)

#define log_error(topic, ...) log_at_(LOG_ERROR, (topic), __VA_ARGS__)
#define log_warn(topic, ...)  log_at_(LOG_WARN, (topic), __VA_ARGS__)
#define log_info(topic, ...)  log_at_(LOG_INFO, (topic), __VA_ARGS__)
#define log_debug(topic, ...) log_at_(LOG_DEBUG, (topic), __VA_ARGS__)

/**
 * log_escape() - write client bytes so that they are one printable word
 * @dst:	at least 2 bytes; always NUL-terminated; cut when full
 *
 * Return: @dst, for use as a printf argument.
 */
const char *log_escape(char *dst, size_t dst_len, const void *src, size_t src_len);

#endif
