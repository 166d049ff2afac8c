/* SPDX-License-Identifier: MIT */
/*
 * Replies on their way out.
 *
 * Sending costs several microseconds however little is sent, more than most calls take to run.  So
 * the replies of one turn, all calls that one receive brought, leave in one sendmsg(2): small ones
 * are written one behind the other into the turn's buffer, and bulk payloads go out from where they
 * are.  When much has come together it is sent before the turn ends, so that payload memory is used
 * again while it is still in the cache.
 *
 * What the socket does not take is kept by the connection: payloads by moving their memory, small
 * replies by a copy, since the turn's buffer is the loop's.
 */
#include "nfsd/nfs_out.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/cleanup.h"

#define COPY_MAX   (8u << 10)   /* bytes: copying so much costs less than a segment of its own */
#define SEND_EARLY (256u << 10) /* bytes: about what stays in the cache of one core */
#define RESUME_IOV 64u

int nfs_turn_init(struct nfs_turn *t, struct nfs_payloads *payloads)
{
	*t = (struct nfs_turn){ .payloads = payloads };
	t->buf = malloc(NFS_TURN_BYTES);
	return t->buf != NULL ? 0 : -ENOMEM;
}

static void give_back(struct nfs_payloads *payloads, struct nfs_seg *s)
{
	if (s->cap > 0)
		nfs_payloads_put(payloads, s->mem, s->cap);
	else
		free(s->mem);
	s->mem = NULL;
}

void nfs_turn_drop(struct nfs_turn *t)
{
	for (unsigned i = 0; i < t->n_segs; i++)
		give_back(t->payloads, &t->segs[i]);
	t->n_segs = 0;
	t->used = 0;
	t->bytes = 0;
}

void nfs_turn_fini(struct nfs_turn *t)
{
	nfs_turn_drop(t);
	free(t->buf);
}

uint8_t *nfs_turn_room(struct nfs_turn *t, size_t *ret_room)
{
	*ret_room = NFS_TURN_BYTES - t->used;
	return t->buf + t->used;
}

/* One reply takes at most two segments of its own, and a stretch of the buffer before, between and
 * after. */
bool nfs_turn_is_full(const struct nfs_turn *t)
{
	return t->bytes >= SEND_EARLY || t->n_segs + 3 > NFS_TURN_SEGS ||
	       NFS_TURN_BYTES - t->used < NFS_JOB_SMALL;
}

static void add_seg(struct nfs_turn *t, uint8_t *p, size_t len, uint8_t *mem, size_t cap)
{
	assert(t->n_segs < NFS_TURN_SEGS);
	t->segs[t->n_segs++] = (struct nfs_seg){ .p = p, .len = len, .mem = mem, .cap = cap };
	t->bytes += len;
}

/* The next @len bytes of the buffer, which are filled already, belong to the stream. */
static void add_buffered(struct nfs_turn *t, size_t len)
{
	struct nfs_seg *last = t->n_segs > 0 ? &t->segs[t->n_segs - 1] : NULL;

	if (last != NULL && last->mem == NULL) {
		last->len += len;
		t->bytes += len;
	} else {
		add_seg(t, t->buf + t->used, len, NULL, 0);
	}
	t->used += len;
}

static bool copy_in(struct nfs_turn *t, const uint8_t *p, size_t len)
{
	if (len > NFS_TURN_BYTES - t->used)
		return false;
	memcpy(t->buf + t->used, p, len);
	add_buffered(t, len);
	return true;
}

static void add_head(struct nfs_turn *t, struct nfs_job *job)
{
	if (job->reply == t->buf + t->used)
		add_buffered(t, job->reply_len);
	else if (job->reply == job->heap && job->reply_len > COPY_MAX)
		add_seg(t, job->reply, job->reply_len, take_ptr(job->heap), 0);
	else if (!copy_in(t, job->reply, job->reply_len))
		add_seg(t, job->reply, job->reply_len, take_ptr(job->heap), 0);
}

static void add_payload(struct nfs_turn *t, struct nfs_job *job)
{
	size_t len = (job->call.payload_len + 3) & ~(size_t)3;

	if (len == 0 || (len <= COPY_MAX && copy_in(t, job->call.payload, len)))
		return;
	add_seg(t, job->call.payload, len, job->call.payload, job->payload_cap);
	job->call.payload = NULL;
	job->payload_cap = 0;
}

void nfs_turn_add(struct nfs_turn *t, struct nfs_job *job)
{
	add_head(t, job);
	add_payload(t, job);
}

/* ---- sending ------------------------------------------------------------ */

/* Return: bytes taken by the socket, 0 when it is full, -errno. */
static ssize_t send_segs(int fd, const struct nfs_seg *segs, size_t n)
{
	struct iovec iov[NFS_TURN_SEGS];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	ssize_t sent;

	assert(n <= NFS_TURN_SEGS);
	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){ .iov_base = segs[i].p, .iov_len = segs[i].len };
	do {
		sent = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	if (sent >= 0)
		return sent;
	return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

static size_t memory_of(const struct nfs_seg *s)
{
	return s->cap > 0 ? s->cap : s->len;
}

static int reserve(struct nfs_unsent *u, size_t more)
{
	size_t want = u->n + more;
	struct nfs_seg *p;

	if (u->first + want <= u->cap)
		return 0;
	if (u->first > 0) {
		memmove(u->segs, u->segs + u->first, u->n * sizeof(*u->segs));
		u->first = 0;
	}
	if (want <= u->cap)
		return 0;
	want = MAX(want, u->cap * 2);
	p = realloc(u->segs, want * sizeof(*p));
	if (p == NULL)
		return -ENOMEM;
	u->segs = p;
	u->cap = want;
	return 0;
}

/* Takes over a segment that was not sent, or what is left of it. */
static int keep_seg(struct nfs_unsent *u, struct nfs_seg *s)
{
	struct nfs_seg kept = *s;

	if (s->mem == NULL) {
		kept.mem = malloc(s->len);
		if (kept.mem == NULL)
			return -ENOMEM;
		memcpy(kept.mem, s->p, s->len);
		kept.p = kept.mem;
	}
	s->mem = NULL;
	u->segs[u->first + u->n++] = kept;
	u->memory += memory_of(&kept);
	return 0;
}

static int keep_rest(struct nfs_turn *t, struct nfs_unsent *u, size_t sent)
{
	unsigned i = 0;
	int rc;

	while (i < t->n_segs && sent >= t->segs[i].len)
		sent -= t->segs[i++].len;
	if (i == t->n_segs)
		return 0;
	t->segs[i].p += sent;
	t->segs[i].len -= sent;
	rc = reserve(u, t->n_segs - i);
	for (; i < t->n_segs && rc == 0; i++)
		rc = keep_seg(u, &t->segs[i]);
	return rc;
}

ssize_t nfs_out_flush(struct nfs_turn *t, struct nfs_unsent *u, int fd)
{
	ssize_t sent = 0;
	int rc;

	if (t->n_segs == 0)
		return 0;
	if (u->n == 0)
		sent = send_segs(fd, t->segs, t->n_segs);
	if (sent >= 0 && (size_t)sent < t->bytes) {
		rc = keep_rest(t, u, (size_t)sent);
		if (rc < 0)
			sent = rc;
	}
	nfs_turn_drop(t);
	return sent;
}

/* Segments that a malloc'ed copy backs shrink as they are sent, but their memory stays until the
 * end. */
static void drop_sent(struct nfs_unsent *u, struct nfs_payloads *payloads, size_t sent)
{
	while (sent > 0) {
		struct nfs_seg *s = &u->segs[u->first];
		size_t n = MIN(sent, s->len);
		size_t before = memory_of(s);

		s->p += n;
		s->len -= n;
		sent -= n;
		if (s->len > 0) {
			u->memory -= before - memory_of(s);
			return;
		}
		u->memory -= before;
		give_back(payloads, s);
		u->first++;
		u->n--;
	}
}

ssize_t nfs_out_resume(struct nfs_unsent *u, struct nfs_payloads *payloads, int fd)
{
	ssize_t sent;

	if (u->n == 0)
		return 0;
	sent = send_segs(fd, u->segs + u->first, MIN(u->n, RESUME_IOV));
	if (sent > 0)
		drop_sent(u, payloads, (size_t)sent);
	if (u->n == 0)
		nfs_unsent_fini(u, payloads);
	return sent;
}

void nfs_unsent_fini(struct nfs_unsent *u, struct nfs_payloads *payloads)
{
	for (size_t i = 0; i < u->n; i++)
		give_back(payloads, &u->segs[u->first + i]);
	free(u->segs);
	*u = (struct nfs_unsent){ 0 };
}
