/* SPDX-License-Identifier: MIT */
/*
 * Confined workers: short-lived processes that do one job on bytes nobody vouches for, such as
 * unpacking an archive, so that a mistake in a library that reads them is not a mistake of the
 * daemon.
 *
 * The main process must not fork, and its system call filter refuses it.  A *helper* is therefore
 * forked at the start, without threads, descriptors or capabilities; it does nothing but fork a
 * worker for each job it is sent.  A worker keeps the descriptors of its job and nothing else; its
 * filter lets it read, write and name files, and Landlock (kernel 5.19) shuts out every file that
 * is not below the job's first descriptor.
 */
#ifndef BROKER_HELPER_H
#define BROKER_HELPER_H

#include <stddef.h>

#include "base/err.h"

#define HELPER_JOB_MAX 16384 /* bytes of one job */
#define HELPER_FDS_MAX 4     /* descriptors of one job */

struct helper;

/**
 * helper_fn - a worker's whole life; it ends when this returns
 * @job:	borrowed; as it was given to helper_spawn()
 * @fds:	owned; the first is the directory it may work in
 */
typedef void (*helper_fn)(const void *job, size_t len, const int *fds, size_t n_fds);

/**
 * helper_start() - fork the helper
 * @run:	what each worker does
 *
 * After privilege was given up (the helper inherits what is left), before any thread and before
 * seccomp_rules_main().  The helper and its workers end with the main process.
 * Return: 0 with *@ret owned, or -errno.
 */
int helper_start(helper_fn run, struct helper **ret, struct err *err);
void helper_stop(struct helper *h); /* ends it and waits for it; workers end by themselves */

/**
 * helper_spawn() - have a worker do a job
 * @fds:	borrowed; copies of them travel
 *
 * Waits for nothing; any thread.  A worker that could not be made shows as the end of the job's
 * sockets.  Return: 0, -EAGAIN (too many are waiting to be made), -EPIPE (the helper is gone).
 */
int helper_spawn(struct helper *h, const void *job, size_t len, const int *fds, size_t n_fds);

#endif
