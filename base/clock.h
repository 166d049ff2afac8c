/* SPDX-License-Identifier: MIT */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MS  1000000ull

uint64_t clock_mono_ns(void); /* CLOCK_MONOTONIC: for deadlines and durations */
uint64_t clock_real_ns(void); /* CLOCK_REALTIME: for what people read; may step */

/* clock_rfc3339() - "2026-01-16T08:45:01.123456+00:00" of a CLOCK_REALTIME value; @dst >= 40 bytes.
 */
#define CLOCK_RFC3339_LEN 40
char *clock_rfc3339(char *dst, size_t dst_len, uint64_t real_ns);

#endif
