/* SPDX-License-Identifier: MIT */
/* What a fuzz target offers, and a check that stays in whatever the build flags say. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Called by libFuzzer, and by replay.c over a corpus.  Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold for every input. */
#define MUST(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			abort();                                                                   \
	} while (0)

#endif
