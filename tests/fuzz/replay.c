/* SPDX-License-Identifier: MIT */
/*
 * main() of a fuzz target that was built without libFuzzer: runs every file that is given, and
 * every file of every folder that is given.  A crash or a broken property ends the program, after
 * its name was printed; having found nothing to run is a failure too.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "fuzz.h"

#define INPUT_MAX (16u << 20) /* bytes: more than any input that a fuzzer keeps */

/* 1 when @name was run. */
static int run_file(int dirfd, const char *name)
{
	auto_free char *text = NULL;
	auto_free uint8_t *exact = NULL;
	struct err err = { 0 };
	size_t n;

	if (io_read_file(dirfd, name, INPUT_MAX, &text, &n, &err) < 0) {
		(void)fprintf(stderr, "replay: %s\n", err.msg);
		exit(1);
	}
	/* The NUL behind what was read would hide a read beyond the end from the sanitizer. */
	exact = malloc(n > 0 ? n : 1);
	MUST(exact != NULL);
	memcpy(exact, text, n);
	(void)fprintf(stderr, "%s\n", name);
	(void)LLVMFuzzerTestOneInput(exact, n);
	return 1;
}

static int run_path(const char *path)
{
	auto_closedir DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	if (d == NULL)
		return run_file(AT_FDCWD, path);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.')
			n += run_file(dirfd(d), e->d_name);
	}
	return n;
}

int main(int argc, char **argv)
{
	int n = 0;

	for (int i = 1; i < argc; i++)
		n += run_path(argv[i]);
	(void)printf("%d inputs\n", n);
	return n > 0 ? 0 : 1;
}
