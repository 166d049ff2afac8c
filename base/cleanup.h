/* SPDX-License-Identifier: MIT */
/*
 * Scope-bound cleanup for straight-line code: `auto_close int fd = -1;`.  Give a value up with
 * take_fd(&fd) or take_ptr(p); then nothing is cleaned up.  Functions with several stages that undo
 * in reverse order use goto instead; the two are not mixed for one resource.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

static inline void cleanup_closedir_(DIR **d)
{
	if (*d != NULL)
		(void)closedir(*d);
}

#define auto_free     __attribute__((cleanup(cleanup_free_)))
#define auto_close    __attribute__((cleanup(cleanup_close_)))
#define auto_closedir __attribute__((cleanup(cleanup_closedir_)))

static inline int take_fd(int *fd)
{
	int got = *fd;

	*fd = -1;
	return got;
}

#define take_ptr(p)                                                                                \
	({                                                                                         \
		__typeof__(p) got_ = (p);                                                          \
		(p) = NULL;                                                                        \
		got_;                                                                              \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#undef MIN /* <sys/param.h>, which <rpc/rpc.h> includes, has both too */
#undef MAX
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
