/* SPDX-License-Identifier: MIT */
/* Both clocks go through the vDSO: no system call, fit for hot paths. */
#include "base/clock.h"

#include <stdio.h>

static uint64_t now_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts); /* cannot fail for these two clocks */
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

uint64_t clock_real_ns(void)
{
	return now_ns(CLOCK_REALTIME);
}

char *clock_rfc3339(char *dst, size_t dst_len, uint64_t real_ns)
{
	time_t sec = (time_t)(real_ns / NSEC_PER_SEC);
	unsigned usec = (unsigned)(real_ns % NSEC_PER_SEC / 1000);
	struct tm tm;

	/* 64 bits of nanoseconds end in the year 2554: the year always has four digits. */
	(void)gmtime_r(&sec, &tm);
	(void)snprintf(dst, dst_len, "%04d-%02d-%02dT%02d:%02d:%02d.%06u+00:00", tm.tm_year + 1900,
		       tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, usec);
	return dst;
}
