/* SPDX-License-Identifier: MIT */
/*
 * UTF-8 (RFC 3629) in bytes that may be anything: names of files and lines of text are what users
 * made them.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_RAW 0x110000u /* + byte: stands for a byte that is no part of a character */

/* utf8_take() - the character at @p, or UTF8_RAW + its first byte; @n > 0; *@ret_len bytes taken */
uint32_t utf8_take(const char *p, size_t n, size_t *ret_len);

bool utf8_is_valid(const char *p, size_t n);

#endif
