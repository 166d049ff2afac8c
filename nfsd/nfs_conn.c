/* SPDX-License-Identifier: MIT */
/*
 * A client connection: bytes in, records out to nfs_dispatch.c, replies back.
 *
 * The unit of work is a turn: what one event on the socket brings is received into the loop's
 * buffer, all whole records in it are run one after the other, and their replies leave a few
 * together.  A
 * connection that is idle owns no memory but this struct.
 *
 * A turn stops when the connection has taken its share of time, or when it holds too much: replies
 * that its client does not read, calls in pools.  What was received by then and not yet worked on
 * is put into the stash, and nothing more is received until the stash is empty.  So a client can
 * make us keep only what the limits below allow, whatever it sends and however little it reads.
 */
#include "nfsd/nfs_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/peer.h"
#include "nfsd/nfs_server.h"
#include "nfsd/nfs_trace.h"

#define UNSENT_MAX     (4u << 20) /* bytes: a few of the largest replies */
#define JOBS_MAX       64u        /* calls of one connection in pools, or parked */
#define JOBS_BYTES_MAX (8u << 20) /* bytes that these hold */
#define HELD_MAX                                                                                   \
	(256u                                                                                      \
	 << 20) /* bytes of all connections: beyond, those that hold anything wait            \
		      */
#define PARTIAL_MAX      (256u << 20) /* bytes of unfinished records of all connections */
#define POOL_REPLY_GUESS (64u << 10)  /* bytes: payload of a call that goes to a pool unseen */
#define REPLIES_TOGETHER 4u /* then they leave, so that the client wakes up while we do the rest */
#define TURN_NS          (2 * NSEC_PER_MS)
#define BIG_REST         (64u << 10) /* bytes missing of a record from which it is received alone */
#define RX_BEHIND_BIG    (8u << 10)  /* ... but for this: what is behind it would be copied */
#define PROGRESS_BYTES   4096u /* less than this in a deadline's time is no progress of a record */

/* ---- may more be taken on? ---------------------------------------------- */

static size_t held_now(const struct nfs_conn *c)
{
	return c->unsent.memory + c->jobs_bytes;
}

static bool is_over_own_limit(const struct nfs_conn *c)
{
	return c->unsent.memory > UNSENT_MAX || c->n_jobs >= JOBS_MAX ||
	       c->jobs_bytes >= JOBS_BYTES_MAX || (c->is_pool_full && c->n_jobs > 0);
}

/* Those that hold nothing may go on: the rest get another chance when what they hold is gone. */
static bool is_over_common_limit(const struct nfs_conn *c)
{
	return held_now(c) > 0 && __atomic_load_n(&c->loop->d->held, __ATOMIC_RELAXED) > HELD_MAX;
}

static bool may_take_calls(const struct nfs_conn *c)
{
	return !c->is_ending && !c->is_closing && !is_over_own_limit(c) && !is_over_common_limit(c);
}

static bool has_time(const struct nfs_conn *c)
{
	return c->loop->now_ns < c->loop->turn_end_ns;
}

/*
 * Unfinished records are the peers' to fill, so waiting does not make them less: a peer that would
 * take the sum beyond its limit is sent away.  A client that meant well comes back and sends its
 * call again.
 */
static bool may_keep_partial(struct nfs_conn *c)
{
	struct nfsd *d = c->loop->d;
	size_t now = c->is_closing ? 0 : c->rec.cap;
	bool grew = now > c->partial;
	uint64_t sum;

	if (now == c->partial)
		return true;
	sum = __atomic_add_fetch(&d->partial, now - c->partial, __ATOMIC_RELAXED);
	c->partial = now;
	return !grew || sum <= PARTIAL_MAX;
}

/* Brings the sum of all connections up to date; a turn may run past it by what one turn can take.
 */
static void count_held(struct nfs_conn *c)
{
	size_t now = held_now(c);

	if (now == c->held)
		return;
	__atomic_add_fetch(&c->loop->d->held, now - c->held, __ATOMIC_RELAXED);
	c->held = now;
}

/* ---- closing ------------------------------------------------------------ */

static void free_if_unused(struct nfs_conn *c)
{
	struct nfs_loop *l = c->loop;

	if (!c->is_closing || c->has_handle || c->n_jobs > 0)
		return;
	assert(list_is_empty(&c->done));
	free(c);
	nfs_loop_conn_freed(l);
}

static void on_closed(uv_handle_t *h)
{
	struct nfs_conn *c = h->data;

	(void)close(c->fd);
	c->fd = -1;
	c->has_handle = false;
	free_if_unused(c);
}

static void drop_stash(struct nfs_conn *c)
{
	free(c->stash);
	c->stash = NULL;
	c->stash_at = c->stash_len = 0;
}

/* Memory goes now; the struct goes when its handle is closed and its last job is back. */
void nfs_conn_close(struct nfs_conn *c)
{
	struct nfs_loop *l = c->loop;

	if (c->is_closing)
		return;
	c->is_closing = true;
	list_del(&c->link);
	list_del(&c->ready);
	rpc_record_reset(&c->rec);
	drop_stash(c);
	nfs_unsent_fini(&c->unsent, l->d->payloads);
	count_held(c);
	(void)may_keep_partial(c);
	nfs_stats_add(&l->stats.conns_closed, 1);
	__atomic_sub_fetch(&l->n_conns, 1, __ATOMIC_RELAXED);
	if (c->has_handle) {
		uv_close((uv_handle_t *)&c->poll, on_closed);
		return;
	}
	(void)close(c->fd);
	c->fd = -1;
	free_if_unused(c);
}

/* ---- replies ------------------------------------------------------------ */

/* To be closed when the turn is over, not before: records that lie in its memory are still worked
 * on. */
static void mark_broken(struct nfs_conn *c)
{
	c->is_broken = true;
	c->is_ending = true;
}

static void flush(struct nfs_conn *c)
{
	struct nfs_loop *l = c->loop;
	bool had_unsent = c->unsent.n > 0;
	ssize_t sent;

	if (c->is_broken || c->is_closing) {
		nfs_turn_drop(&l->turn);
		return;
	}
	sent = nfs_out_flush(&l->turn, &c->unsent, c->fd);
	if (sent < 0) {
		mark_broken(c);
		return;
	}
	nfs_stats_add(&l->stats.bytes_out, (uint64_t)sent);
	if (sent > 0 || !had_unsent)
		c->sent_ns = l->now_ns;
}

static void resume_sending(struct nfs_conn *c)
{
	struct nfs_loop *l = c->loop;
	ssize_t sent = nfs_out_resume(&c->unsent, l->d->payloads, c->fd);

	if (sent < 0) {
		mark_broken(c);
		return;
	}
	if (sent > 0)
		c->sent_ns = c->used_ns = l->now_ns;
	nfs_stats_add(&l->stats.bytes_out, (uint64_t)sent);
}

/* Queues the reply of a finished call, counts it, and takes the job back. */
static void answer(struct nfs_conn *c, struct nfs_job *job)
{
	struct nfs_loop *l = c->loop;
	uint64_t now_ns = clock_mono_ns();

	l->now_ns = now_ns;
	if (job->row < NFS_STATS_ROWS)
		nfs_stats_call(&l->stats, job->row, now_ns - job->begin_ns, job->is_failed);
	else
		nfs_stats_add(&l->stats.rejected, 1);
	if (job->is_replay)
		nfs_stats_add(&l->stats.drc_replays, 1);
	nfs_trace(job, now_ns - job->begin_ns);
	if (!c->is_closing) {
		nfs_turn_add(&l->turn, job);
		c->n_answered++;
		if (nfs_turn_is_full(&l->turn) || c->n_answered % REPLIES_TOGETHER == 0)
			flush(c);
	}
	nfs_loop_recycle(l, job);
}

static void answer_finished(struct nfs_conn *c)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &c->done) {
		struct nfs_job *job = list_entry(pos, struct nfs_job, link);

		list_del(pos);
		c->n_jobs--;
		c->jobs_bytes -= job->charge;
		if (job->reply_len > 0)
			answer(c, job);
		else
			nfs_loop_recycle(c->loop, job);
	}
	if (c->n_jobs == 0)
		c->is_pool_full = false;
}

/* ---- calls -------------------------------------------------------------- */

static void submit(struct nfs_conn *c, struct nfs_job *job, size_t record_len)
{
	enum nfs_pool_kind kind = nfs_job_is_sync(job) ? NFS_POOL_SYNC : NFS_POOL_SCAN;

	job->charge = sizeof(*job) + record_len + MAX(job->payload_cap, POOL_REPLY_GUESS);
	c->n_jobs++;
	c->jobs_bytes += job->charge;
	nfs_stats_add(&c->loop->stats.pooled, 1);
	if (!nfs_pool_submit(c->loop->d->pools[kind], &c->src[kind], &job->link))
		c->is_pool_full = true;
}

/* @is_own: the record lies in the reader's memory, which can be taken over instead of copied. */
static void to_pool(struct nfs_conn *c, struct nfs_job *job, const uint8_t *p, size_t n,
		    bool is_own)
{
	uint8_t *own = is_own ? rpc_record_steal(&c->rec) : NULL;
	struct list waiters;

	if (nfs_dispatch_keep(job, p, n, own) == 0) {
		submit(c, job, n);
		return;
	}
	list_init(&waiters);
	nfs_dispatch_system_err(&c->loop->d->dispatch, job, &waiters);
	answer(c, job);
	nfs_loop_post_all(&waiters);
}

static void take_record(struct nfs_conn *c, const uint8_t *p, size_t n, bool is_own)
{
	struct nfs_loop *l = c->loop;
	struct nfs_job *job = nfs_loop_take_job(l);
	struct list waiters;
	enum nfs_step step;
	uint8_t *dst;
	size_t room;

	if (job == NULL) {
		c->is_ending = true;
		return;
	}
	list_init(&waiters);
	job->conn = c;
	job->call.peer = &c->peer;
	job->begin_ns = l->now_ns;
	/* Counted before, since a parked job may be another thread's when nfs_dispatch_begin()
	 * returns. */
	c->n_jobs++;
	dst = nfs_turn_room(&l->turn, &room);
	step = nfs_dispatch_begin(&l->d->dispatch, job, p, n, dst, room, &waiters);
	if (step == NFS_STEP_PARKED) {
		c->has_called = true;
		nfs_stats_add(&l->stats.drc_parked, 1);
		return;
	}
	c->n_jobs--;
	if (job->call.proc != NULL)
		c->has_called = true;
	switch (step) {
	case NFS_STEP_REPLY:
		answer(c, job);
		break;
	case NFS_STEP_POOL:
		to_pool(c, job, p, n, is_own);
		break;
	case NFS_STEP_SILENT:
		nfs_stats_add(&l->stats.drc_dropped, 1);
		nfs_loop_recycle(l, job);
		break;
	default:
		nfs_loop_recycle(l, job);
		c->is_ending = true;
	}
	nfs_loop_post_all(&waiters);
}

/* ---- receiving ---------------------------------------------------------- */

/* Works on records in @p until one is not whole or there is no room or time for more.  Return:
 * bytes used. */
static size_t take_records(struct nfs_conn *c, const uint8_t *p, size_t n)
{
	size_t at = 0;

	while (at < n && may_take_calls(c) && has_time(c)) {
		const uint8_t *record;
		size_t used, len;
		int rc = rpc_record_next(&c->rec, p + at, n - at, &used, &record, &len);

		at += used;
		if (rc < 0) {
			c->is_ending = true;
			break;
		}
		if (rc == RPC_RECORD_READY)
			take_record(c, record, len, record == c->rec.buf);
	}
	return at;
}

static void keep_for_later(struct nfs_conn *c, const uint8_t *p, size_t n)
{
	if (n == 0 || c->is_ending || c->is_closing)
		return;
	c->stash = malloc(n);
	if (c->stash == NULL) {
		c->is_ending = true;
		return;
	}
	memcpy(c->stash, p, n);
	c->stash_len = n;
}

static void take_stash(struct nfs_conn *c)
{
	c->stash_at += take_records(c, c->stash + c->stash_at, c->stash_len - c->stash_at);
	if (c->stash_at == c->stash_len || c->is_ending)
		drop_stash(c);
}

/* A record that has begun must go on arriving, and not byte by byte. */
static void note_progress(struct nfs_conn *c, size_t got, bool finished_one)
{
	c->used_ns = c->loop->now_ns;
	c->part_bytes += got;
	if (finished_one || c->part_ns == 0 || c->part_bytes >= PROGRESS_BYTES) {
		c->part_ns = c->loop->now_ns;
		c->part_bytes = 0;
	}
	if (!rpc_record_is_partial(&c->rec))
		c->part_ns = 0;
}

/*
 * One readv(2): first what an unfinished record still lacks, right where it belongs, then into the
 * loop's buffer.  Return: true when there may be more to receive at once.
 */
static bool receive(struct nfs_conn *c)
{
	struct nfs_loop *l = c->loop;
	const uint8_t *record;
	size_t rest = 0, len, room;
	uint8_t *want = rpc_record_want(&c->rec, &rest);
	struct iovec iov[2];
	bool finished = false;
	ssize_t got;
	size_t n, used;

	if (want == NULL)
		rest = 0;
	room = rest >= BIG_REST ? RX_BEHIND_BIG : NFS_RX_BYTES;
	iov[0] = (struct iovec){ .iov_base = want, .iov_len = rest };
	iov[1] = (struct iovec){ .iov_base = l->rx, .iov_len = room };
	do {
		got = readv(c->fd, want != NULL ? iov : iov + 1, want != NULL ? 2 : 1);
	} while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	if (got <= 0) {
		c->is_ending = true;
		c->is_broken = got < 0;
		return false;
	}
	nfs_stats_add(&l->stats.bytes_in, (uint64_t)got);
	n = (size_t)got;
	if (want != NULL) {
		size_t filled = MIN(n, rest);
		int rc = rpc_record_filled(&c->rec, filled, &record, &len);

		n -= filled;
		if (rc < 0) {
			c->is_ending = true;
			return false;
		}
		finished = rc == RPC_RECORD_READY;
		if (finished)
			take_record(c, record, len, true);
	}
	used = take_records(c, l->rx, n);
	keep_for_later(c, l->rx + used, n - used);
	note_progress(c, (size_t)got, finished || used > 0);
	return (size_t)got == rest + room;
}

/* ---- turns -------------------------------------------------------------- */

static void on_poll(uv_poll_t *h, int status, int events);

static void watch(struct nfs_conn *c)
{
	int events = 0;

	if (c->stash == NULL && may_take_calls(c))
		events |= UV_READABLE;
	if (c->unsent.n > 0)
		events |= UV_WRITABLE;
	if (events == c->events)
		return;
	if ((events & UV_READABLE) && !(c->events & UV_READABLE) && c->part_ns != 0)
		c->part_ns = c->loop->now_ns; /* the wait was ours */
	c->events = events;
	if (events != 0)
		(void)uv_poll_start(&c->poll, events, on_poll);
	else
		(void)uv_poll_stop(&c->poll);
}

/* After whatever happened to a connection: send, then decide what it waits for. */
static void finish_turn(struct nfs_conn *c)
{
	flush(c);
	count_held(c);
	if (c->is_closing) {
		free_if_unused(c);
		return;
	}
	if (c->is_broken || (c->is_ending && c->n_jobs == 0 && c->unsent.n == 0)) {
		nfs_conn_close(c);
		return;
	}
	if (c->is_ending)
		drop_stash(c);
	if (c->rec.buf != NULL && !rpc_record_is_partial(&c->rec))
		rpc_record_reset(&c->rec); /* idle connections own no buffers */
	if (c->stash != NULL && may_take_calls(c))
		nfs_loop_again(c->loop, &c->ready);
	watch(c);
}

static void begin_turn(struct nfs_conn *c)
{
	c->n_answered = 0;
	c->loop->turn_end_ns = c->loop->now_ns + TURN_NS;
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct nfs_conn *c = h->data;
	struct nfs_loop *l = c->loop;

	l->now_ns = clock_mono_ns();
	begin_turn(c);
	if (status < 0) {
		nfs_conn_close(c);
		return;
	}
	if (events & UV_WRITABLE)
		resume_sending(c);
	if (c->stash != NULL)
		take_stash(c);
	if (events & UV_READABLE) {
		while (c->stash == NULL && may_take_calls(c) && has_time(c) && receive(c))
			;
	}
	if (c->n_answered >= REPLIES_TOGETHER)
		nfs_loop_stay_awake(l);
	finish_turn(c);
}

void nfs_conn_go_on(struct nfs_conn *c)
{
	begin_turn(c);
	answer_finished(c);
	if (c->stash != NULL && !c->is_closing)
		take_stash(c);
	finish_turn(c);
}

/* ---- life --------------------------------------------------------------- */

struct nfs_conn *nfs_conn_new(int fd, const struct nfs_peer *peer)
{
	struct nfs_conn *c = calloc(1, sizeof(*c));

	if (c == NULL) {
		(void)close(fd);
		return NULL;
	}
	c->fd = fd;
	c->peer = *peer;
	list_init(&c->link);
	list_init(&c->ready);
	list_init(&c->touched);
	list_init(&c->done);
	for (unsigned i = 0; i < NFS_N_POOLS; i++)
		nfs_pool_source_init(&c->src[i]);
	return c;
}

void nfs_conn_discard(struct nfs_conn *c)
{
	(void)close(c->fd);
	free(c);
}

void nfs_conn_start(struct nfs_conn *c, struct nfs_loop *loop)
{
	c->loop = loop;
	c->begin_ns = c->used_ns = loop->now_ns;
	list_add_tail(&loop->conns, &c->link);
	nfs_stats_add(&loop->stats.conns_opened, 1);
	if (uv_poll_init(&loop->uv, &c->poll, c->fd) < 0) {
		nfs_conn_close(c);
		return;
	}
	c->poll.data = c;
	c->has_handle = true;
	watch(c);
}

void nfs_conn_end(struct nfs_conn *c)
{
	c->is_ending = true;
	finish_turn(c);
}

static const char *missed_deadline(struct nfs_conn *c)
{
	const struct nfs_limits *m = &c->loop->d->limits;
	uint64_t now = c->loop->now_ns;

	if (c->unsent.n > 0 && now - c->sent_ns > m->unsent_ns)
		return "replies are not taken";
	if (!(c->events & UV_READABLE))
		return NULL; /* we keep the client waiting, not it us */
	if (c->part_ns != 0 && now - c->part_ns > m->progress_ns)
		return "a call does not go on";
	if (!c->has_called && now - c->begin_ns > m->hello_ns)
		return "no call came";
	if (c->n_jobs == 0 && now - c->used_ns > m->idle_ns)
		return "idle";
	return NULL;
}

void nfs_conn_check_deadlines(struct nfs_conn *c)
{
	const char *why = missed_deadline(c);
	char peer[PEER_TEXT];

	if (why == NULL)
		return;
	log_debug(LOG_NFS, "peer=%s closed: %s",
		  peer_format(peer, sizeof(peer), &c->peer.addr, c->peer.port), why);
	nfs_stats_add(&c->loop->stats.conns_timed_out, 1);
	nfs_conn_close(c);
}
