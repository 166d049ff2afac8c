/* SPDX-License-Identifier: MIT */
/*
 * One archive on its way through the control loop: a worker process at the other end of two
 * sockets, and somebody who has bytes for it or takes them.  Control loop only.
 */
#ifndef HTTP_ARCHIVE_JOB_H
#define HTTP_ARCHIVE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/http_server.h"
#include "workspace/archive.h"

struct archive_job;

/* What the owner hears of; archive_job_close() may be called in any of them. */
struct archive_job_hooks {
	/* Bytes of the archive; false: archive_job_resume() will say when more are wanted. */
	bool (*on_data)(void *arg, const char *p, size_t n);
	/* What archive_job_write() took has gone; it takes more. */
	void (*on_drain)(void *arg);
	void (*on_skipped)(void *arg, const struct arc_note *note);
	void (*on_meta)(void *arg, const char *p, size_t n);
	/* The last word: @end->rc and its sentence.  All data came before. */
	void (*on_end)(void *arg, const struct arc_note *end);
	void *arg;
};

/**
 * archive_job_start() - have a worker do @job in the directory @root_fd
 * @hooks:	copied
 *
 * Return: 0 with *@ret owned, -EAGAIN (as many as may run), -EPIPE (no workers), -errno.
 */
int archive_job_start(const struct http_archives *a, const struct arc_job *job, int root_fd,
		      const struct archive_job_hooks *hooks, struct archive_job **ret);

/* archive_job_write() - bytes of an archive to be unpacked; copied.  0; -EAGAIN: taken, but wait
 * for on_drain before more.  After the worker's end they are dropped. */
int archive_job_write(struct archive_job *j, const void *p, size_t n);
void archive_job_write_end(struct archive_job *j); /* there are no more */

void archive_job_resume(struct archive_job *j); /* after on_data said false */

/* archive_job_close() - end it whatever it is doing; its memory goes by itself.  NULL is fine. */
void archive_job_close(struct archive_job *j);

#endif
