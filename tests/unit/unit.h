/* SPDX-License-Identifier: MIT */
/* What every unit test includes: cmocka wants its system headers first, in this order. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
