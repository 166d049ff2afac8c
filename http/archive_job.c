/* SPDX-License-Identifier: MIT */
/*
 * See archive_job.h.  The worker is not trusted: its notes are checked, and whatever it does with
 * its sockets ends at most this one job.
 */
#include "http/archive_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/io.h"

#define READ_SIZE     (64u << 10)
#define PENDING_LIMIT (64u << 10) /* bytes not yet taken by the worker: more wait at the client */

struct archive_job {
	struct archive_job_hooks hooks;
	uv_poll_t data, note;
	int data_fd, note_fd; /* owned */
	unsigned n_handles;   /* not yet closed */
	struct buf pending;   /* to be written from pending_pos on */
	size_t pending_pos;
	bool is_closing, is_packing, is_paused;
	bool data_ended;  /* the worker sends no more, or takes no more */
	bool input_ended; /* archive_job_write_end() */
	bool is_shut;
	bool has_end; /* of the worker: @end, or it died */
	struct arc_note end;
};

static unsigned n_jobs; /* of the control loop */

/* ---- its end ------------------------------------------------------------ */

static void on_closed(uv_handle_t *h)
{
	struct archive_job *j = h->data;

	if (--j->n_handles > 0)
		return;
	(void)close(j->data_fd);
	(void)close(j->note_fd);
	buf_free(&j->pending);
	free(j);
}

void archive_job_close(struct archive_job *j)
{
	if (j == NULL || j->is_closing)
		return;
	j->is_closing = true;
	n_jobs--;
	uv_close((uv_handle_t *)&j->data, on_closed);
	uv_close((uv_handle_t *)&j->note, on_closed);
	/* the worker hears of it now, not when the loop comes round */
	(void)shutdown(j->data_fd, SHUT_RDWR);
	(void)shutdown(j->note_fd, SHUT_RDWR);
}

static void maybe_end(struct archive_job *j)
{
	if (j->is_closing || !j->has_end || (j->is_packing && !j->data_ended))
		return;
	(void)uv_poll_stop(&j->data);
	(void)uv_poll_stop(&j->note);
	j->hooks.on_end(j->hooks.arg, &j->end);
}

/* ---- data --------------------------------------------------------------- */

static void on_data_ready(uv_poll_t *poll, int status, int events);

static size_t unwritten(const struct archive_job *j)
{
	return j->pending.len - j->pending_pos;
}

static void watch_data(struct archive_job *j)
{
	int events = 0;

	if (j->is_closing)
		return;
	if (!j->data_ended && j->is_packing && !j->is_paused)
		events = UV_READABLE;
	if (!j->data_ended && !j->is_packing && unwritten(j) > 0)
		events = UV_WRITABLE;
	if (events == 0)
		(void)uv_poll_stop(&j->data);
	else
		(void)uv_poll_start(&j->data, events, on_data_ready);
}

/* One piece for each turn of the loop, so that others get theirs. */
static void read_data(struct archive_job *j)
{
	static char piece[READ_SIZE]; /* one loop, and nothing keeps it */
	ssize_t n = recv(j->data_fd, piece, sizeof(piece), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		j->data_ended = true;
	else if (!j->hooks.on_data(j->hooks.arg, piece, (size_t)n))
		j->is_paused = true;
	watch_data(j);
	maybe_end(j);
}

static void drop_pending(struct archive_job *j)
{
	buf_reset(&j->pending);
	j->pending_pos = 0;
}

static void flush(struct archive_job *j)
{
	while (unwritten(j) > 0 && !j->data_ended) {
		ssize_t n = send(j->data_fd, j->pending.data + j->pending_pos, unwritten(j),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			j->data_ended = true; /* it has seen enough; its note says why */
		else
			j->pending_pos += (size_t)n;
	}
	drop_pending(j);
	if (j->input_ended && !j->is_shut) {
		j->is_shut = true;
		(void)shutdown(j->data_fd, SHUT_WR);
	}
}

static void write_data(struct archive_job *j)
{
	flush(j);
	watch_data(j);
	if (unwritten(j) == 0 && !j->input_ended)
		j->hooks.on_drain(j->hooks.arg);
}

static void on_data_ready(uv_poll_t *poll, int status, int events)
{
	struct archive_job *j = poll->data;

	(void)status; /* reading or writing will say */
	if (j->is_packing)
		read_data(j);
	else
		write_data(j);
}

int archive_job_write(struct archive_job *j, const void *p, size_t n)
{
	int rc;

	if (j->data_ended)
		return 0;
	j->pending.max = PENDING_LIMIT + n + j->pending.len;
	rc = buf_append(&j->pending, p, n);
	if (rc < 0)
		return rc;
	flush(j);
	watch_data(j);
	return unwritten(j) > 0 ? -EAGAIN : 0;
}

void archive_job_write_end(struct archive_job *j)
{
	j->input_ended = true;
	flush(j);
	watch_data(j);
}

void archive_job_resume(struct archive_job *j)
{
	j->is_paused = false;
	watch_data(j);
}

/* ---- notes -------------------------------------------------------------- */

static void take_note(struct archive_job *j, const struct arc_note *note)
{
	switch ((enum arc_note_kind)note->kind) {
	case ARC_NOTE_SKIPPED:
		if (j->hooks.on_skipped != NULL)
			j->hooks.on_skipped(j->hooks.arg, note);
		break;
	case ARC_NOTE_META:
		if (j->hooks.on_meta != NULL)
			j->hooks.on_meta(j->hooks.arg, note->text, note->len);
		break;
	case ARC_NOTE_END:
	case ARC_NOTE_N_KINDS:
		j->end = *note;
		j->has_end = true;
		break;
	}
}

static void on_note_ready(uv_poll_t *poll, int status, int events)
{
	static const char died[] = "the process that handles archives ended early";
	struct archive_job *j = poll->data;
	struct arc_note note;
	ssize_t n = recv(j->note_fd, &note, sizeof(note), MSG_DONTWAIT);

	(void)status;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && arc_note_check(&note, (size_t)n)) {
		take_note(j, &note);
	} else {
		j->end = (struct arc_note){ .kind = ARC_NOTE_END,
					    .rc = -EPROTO,
					    .len = sizeof(died) - 1 };
		memcpy(j->end.text, died, sizeof(died));
		j->has_end = true;
	}
	if (j->has_end && !j->is_closing)
		(void)uv_poll_stop(&j->note);
	maybe_end(j);
}

/* ---- its start ---------------------------------------------------------- */

/* The worker's ends are blocking, ours are not. */
static int make_sockets(int data[2], int note[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, note) < 0) {
		int rc = -errno;

		(void)close(data[0]);
		(void)close(data[1]);
		return rc;
	}
	return 0;
}

static int watch(struct archive_job *j, uv_loop_t *loop)
{
	int rc = uv_poll_init(loop, &j->data, j->data_fd);

	if (rc < 0)
		return rc;
	j->n_handles++;
	j->data.data = j->note.data = j;
	rc = uv_poll_init(loop, &j->note, j->note_fd);
	if (rc < 0)
		return rc;
	j->n_handles++;
	return 0;
}

static struct archive_job *job_new(const struct archive_job_hooks *hooks, bool is_packing)
{
	struct archive_job *j = calloc(1, sizeof(*j));

	if (j != NULL) {
		j->hooks = *hooks;
		j->is_packing = is_packing;
	}
	return j;
}

int archive_job_start(const struct http_archives *a, const struct arc_job *job, int root_fd,
		      const struct archive_job_hooks *hooks, struct archive_job **ret)
{
	struct archive_job *j;
	int data[2], note[2], rc;

	if (a->spawn == NULL)
		return -EPIPE;
	if (n_jobs >= a->max_jobs)
		return -EAGAIN;
	j = job_new(hooks, job->op == ARC_PACK);
	if (j == NULL)
		return -ENOMEM;
	rc = make_sockets(data, note);
	if (rc < 0) {
		free(j);
		return rc;
	}
	j->data_fd = data[0];
	j->note_fd = note[0];
	rc = a->spawn(a->arg, job, sizeof(*job), (const int[]){ root_fd, data[1], note[1] },
		      ARC_N_FDS);
	(void)close(data[1]);
	(void)close(note[1]);
	if (rc == 0)
		rc = watch(j, a->loop);
	if (rc < 0) {
		if (j->n_handles > 0) { /* the loop has it */
			uv_close((uv_handle_t *)&j->data, on_closed);
			return rc;
		}
		(void)close(j->data_fd);
		(void)close(j->note_fd);
		free(j);
		return rc;
	}
	n_jobs++;
	(void)uv_poll_start(&j->note, UV_READABLE, on_note_ready);
	watch_data(j);
	*ret = j;
	return 0;
}
