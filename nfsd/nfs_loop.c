/* SPDX-License-Identifier: MIT */
/*
 * An NFS loop: a thread with a libuv loop that owns connections and runs their calls.
 *
 * Other threads reach it in one way: they put something into a list under its mutex and wake it.
 * What comes that way is new connections, jobs that a pool has finished, and the wish to stop.
 *
 * Ending: a loop that is asked to stop reads no more, waits until every call that was taken is
 * answered and sent, and closes.  At the deadline it closes what is left; if calls are then still
 * running in a pool, their connections and the loop's lists stay in memory, since those calls will
 * come back to them.
 */
#include "nfsd/nfs_loop.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "nfsd/nfs_conn.h"
#include "nfsd/nfs_server.h"

#define TICK_MAX_MS    1000u
#define TICK_MIN_MS    5u
#define DRAIN_TICK_MS  10u
#define AWAKE_NS       50000u /* see nfs_loop_stay_awake(); longer costs CPU time and gains nothing */
#define SWEEP_MS       500u
#define WRITER_IDLE_NS (1000 * NSEC_PER_MS) /* see inode_cache_sweep() */
#define QUIET_TICKS    5u
#define FREE_JOBS_MAX  128u /* about 1.5 KiB each */

/* ---- jobs --------------------------------------------------------------- */

struct nfs_job *nfs_loop_take_job(struct nfs_loop *l)
{
	struct list *n = l->free_jobs.next;
	struct nfs_job *job;

	if (n == &l->free_jobs) {
		job = nfs_job_new(&l->d->dispatch);
		if (job != NULL)
			job->loop = l;
		return job;
	}
	list_del(n);
	l->n_free_jobs--;
	return list_entry(n, struct nfs_job, link);
}

void nfs_loop_recycle(struct nfs_loop *l, struct nfs_job *job)
{
	if (l->n_free_jobs >= FREE_JOBS_MAX) {
		nfs_job_free(&l->d->dispatch, job);
		return;
	}
	nfs_job_reset(&l->d->dispatch, job);
	job->loop = l;
	list_add_head(&l->free_jobs, &job->link);
	l->n_free_jobs++;
}

/* ---- from other threads ------------------------------------------------- */

/*
 * The wake-up is sent with the mutex held: the loop may end only after it has taken what is in its
 * lists, so its handle is alive here.
 */
static void put_and_wake(struct nfs_loop *l, struct list *list, struct list *n)
{
	bool was_empty;

	pthread_mutex_lock(&l->mutex);
	was_empty = list_is_empty(list);
	list_add_tail(list, n);
	if (was_empty && !l->is_sealed)
		(void)uv_async_send(&l->wake);
	pthread_mutex_unlock(&l->mutex);
}

void nfs_loop_post(struct nfs_job *job)
{
	put_and_wake(job->loop, &job->loop->done, &job->link);
}

void nfs_loop_post_all(struct list *jobs)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, jobs) {
		list_del(pos);
		nfs_loop_post(list_entry(pos, struct nfs_job, link));
	}
}

void nfs_loop_add_conn(struct nfs_loop *l, struct nfs_conn *c)
{
	__atomic_add_fetch(&l->n_conns, 1, __ATOMIC_RELAXED);
	put_and_wake(l, &l->arrivals, &c->link);
}

void nfs_loop_ask_stop(struct nfs_loop *l, uint64_t deadline_ns)
{
	pthread_mutex_lock(&l->mutex);
	l->stop_deadline_ns = deadline_ns;
	if (!l->is_sealed)
		(void)uv_async_send(&l->wake);
	pthread_mutex_unlock(&l->mutex);
}

static void move_all(struct list *to, struct list *from)
{
	list_init(to);
	if (list_is_empty(from))
		return;
	*to = *from;
	to->next->prev = to;
	to->prev->next = to;
	list_init(from);
}

static void start_arrivals(struct nfs_loop *l, struct list *arrivals)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, arrivals) {
		struct nfs_conn *c = list_entry(pos, struct nfs_conn, link);

		list_del(pos);
		if (l->is_draining) {
			nfs_conn_discard(c);
			__atomic_sub_fetch(&l->n_conns, 1, __ATOMIC_RELAXED);
			continue;
		}
		l->n_alive++;
		nfs_conn_start(c, l);
	}
}

/* Finished jobs are first given to their connections, so that each sends all it has at once. */
static void hand_out(struct nfs_loop *l, struct list *done)
{
	struct list touched, *pos, *tmp;

	list_init(&touched);
	list_for_each_safe (pos, tmp, done) {
		struct nfs_conn *c = list_entry(pos, struct nfs_job, link)->conn;

		list_del(pos);
		list_add_tail(&c->done, pos);
		if (list_is_empty(&c->touched))
			list_add_tail(&touched, &c->touched);
	}
	while (!list_is_empty(&touched)) {
		struct nfs_conn *c = list_entry(touched.next, struct nfs_conn, touched);

		list_del(&c->touched);
		nfs_conn_go_on(c);
	}
}

static void end_if_drained(struct nfs_loop *l)
{
	if (!l->is_draining || l->n_alive > 0 || uv_is_closing((uv_handle_t *)&l->wake))
		return;
	pthread_mutex_lock(&l->mutex);
	l->is_sealed = list_is_empty(&l->arrivals);
	pthread_mutex_unlock(&l->mutex);
	if (!l->is_sealed)
		return; /* woken for them already */
	uv_close((uv_handle_t *)&l->wake, NULL);
	uv_close((uv_handle_t *)&l->tick, NULL);
	uv_close((uv_handle_t *)&l->again, NULL);
	uv_close((uv_handle_t *)&l->awake, NULL);
	if (l->index == 0)
		uv_close((uv_handle_t *)&l->sweep, NULL);
}

static void on_tick(uv_timer_t *t);
static void on_sweep(uv_timer_t *t);

static void start_draining(struct nfs_loop *l)
{
	struct list *pos, *tmp;

	l->is_draining = true;
	(void)uv_timer_start(&l->tick, on_tick, DRAIN_TICK_MS, DRAIN_TICK_MS);
	list_for_each_safe (pos, tmp, &l->conns)
		nfs_conn_end(list_entry(pos, struct nfs_conn, link));
	end_if_drained(l);
}

static void on_wake(uv_async_t *a)
{
	struct nfs_loop *l = a->data;
	struct list arrivals, done;
	bool stop;

	pthread_mutex_lock(&l->mutex);
	move_all(&arrivals, &l->arrivals);
	move_all(&done, &l->done);
	stop = l->stop_deadline_ns != 0;
	pthread_mutex_unlock(&l->mutex);
	l->now_ns = clock_mono_ns();
	start_arrivals(l, &arrivals);
	hand_out(l, &done);
	if (stop && !l->is_draining)
		start_draining(l);
	end_if_drained(l);
}

/* ---- timers ------------------------------------------------------------- */

static void close_all(struct nfs_loop *l)
{
	while (!list_is_empty(&l->conns))
		nfs_conn_close(list_entry(l->conns.next, struct nfs_conn, link));
}

/* At the deadline: the first tick closes connections, and when some still have jobs the next gives
 * up. */
static void give_up(struct nfs_loop *l)
{
	bool had_conns = !list_is_empty(&l->conns);

	close_all(l);
	if (had_conns || l->n_alive == 0)
		return;
	log_warn(LOG_NFS, "loop=%u left %u connections with running calls behind", l->index,
		 l->n_alive);
	pthread_mutex_lock(&l->mutex);
	l->is_sealed = true;
	pthread_mutex_unlock(&l->mutex);
	l->is_abandoned = true;
	uv_stop(&l->uv);
}

/*
 * Freed memory is kept through a load (see nfsd_start_with()) and given back some seconds after it,
 * once: walking the heaps takes milliseconds.
 */
static void trim_when_quiet(struct nfs_loop *l)
{
	unsigned n_loops = __atomic_load_n(&l->d->n_loops, __ATOMIC_ACQUIRE);
	uint64_t n = 0;

	for (unsigned i = 0; i < n_loops; i++)
		n += __atomic_load_n(&l->d->loops[i]->stats.bytes_in, __ATOMIC_RELAXED);
	if (n != l->quiet_bytes) {
		l->quiet_bytes = n;
		l->n_quiet = 0;
	} else if (l->n_quiet <= QUIET_TICKS && ++l->n_quiet == QUIET_TICKS) {
		(void)malloc_trim(0);
	}
}

/* Once in a while, by one loop for all. */
static void tidy(struct nfs_loop *l)
{
	trim_when_quiet(l);
	drc_expire(l->d->drc, l->now_ns);
	nfs_payloads_trim(l->d->payloads);
}

static void on_tick(uv_timer_t *t)
{
	struct nfs_loop *l = t->data;
	struct list *pos, *tmp;

	l->now_ns = clock_mono_ns();
	list_for_each_safe (pos, tmp, &l->conns)
		nfs_conn_check_deadlines(list_entry(pos, struct nfs_conn, link));
	if (l->index == 0)
		tidy(l);
	if (l->is_draining && l->now_ns >= l->stop_deadline_ns)
		give_up(l);
}

/* In a thread of libuv's: closing the last descriptor of a large removed file frees its blocks. */
static void sweep(uv_work_t *w)
{
	struct nfs_loop *l = w->data;

	inode_cache_sweep(l->d->shared.inodes, WRITER_IDLE_NS);
}

static void swept(uv_work_t *w, int status)
{
	struct nfs_loop *l = w->data;

	(void)status;
	if (!uv_is_closing((uv_handle_t *)&l->sweep))
		(void)uv_timer_start(&l->sweep, on_sweep, SWEEP_MS, 0);
}

static void on_sweep(uv_timer_t *t)
{
	struct nfs_loop *l = t->data;

	l->sweep_work.data = l;
	(void)uv_queue_work(&l->uv, &l->sweep_work, sweep, swept);
}

/* ---- connections with more to do ---------------------------------------- */

static void on_again(uv_idle_t *i)
{
	struct nfs_loop *l = i->data;
	struct list round;

	move_all(&round, &l->ready);
	l->now_ns = clock_mono_ns();
	while (!list_is_empty(&round)) {
		struct nfs_conn *c = list_entry(round.next, struct nfs_conn, ready);

		list_del(&c->ready);
		nfs_conn_go_on(c);
	}
	if (list_is_empty(&l->ready))
		(void)uv_idle_stop(&l->again);
}

static void on_awake(uv_idle_t *i)
{
	struct nfs_loop *l = i->data;

	if (clock_mono_ns() - l->busy_ns > AWAKE_NS)
		(void)uv_idle_stop(&l->awake);
}

/*
 * While an idle handle is active the loop asks for events without sleeping.  Being woken takes 40 us on the
 * machines measured, which is as long as forty GETATTRs: a client that keeps many calls in flight sends the next ones
 * sooner than that.
 */
void nfs_loop_stay_awake(struct nfs_loop *l)
{
	l->busy_ns = l->now_ns;
	if (!uv_is_active((uv_handle_t *)&l->awake))
		(void)uv_idle_start(&l->awake, on_awake);
}

void nfs_loop_again(struct nfs_loop *l, struct list *ready)
{
	if (!list_is_empty(ready))
		return;
	list_add_tail(&l->ready, ready);
	(void)uv_idle_start(&l->again, on_again);
}

void nfs_loop_conn_freed(struct nfs_loop *l)
{
	l->n_alive--;
	end_if_drained(l);
}

/* ---- life --------------------------------------------------------------- */

static void *thread_main(void *arg)
{
	struct nfs_loop *l = arg;

	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
	return NULL;
}

/* The deadlines are coarse: a tick is at most a quarter of the shortest. */
static uint64_t tick_ms(const struct nfs_limits *m)
{
	uint64_t ms = MIN(MIN(m->hello_ns, m->progress_ns), m->unsent_ns) / 4 / NSEC_PER_MS;

	return MAX(MIN(ms, TICK_MAX_MS), TICK_MIN_MS);
}

static int init_handles(struct nfs_loop *l)
{
	uint64_t ms = tick_ms(&l->d->limits);
	int rc;

	rc = uv_loop_init(&l->uv);
	if (rc < 0)
		return rc;
	rc = uv_async_init(&l->uv, &l->wake, on_wake);
	if (rc < 0) {
		(void)uv_loop_close(&l->uv);
		return rc;
	}
	l->wake.data = l->tick.data = l->sweep.data = l->again.data = l->awake.data = l;
	(void)uv_timer_init(&l->uv, &l->tick);
	(void)uv_timer_start(&l->tick, on_tick, ms, ms);
	(void)uv_idle_init(&l->uv, &l->again);
	(void)uv_idle_init(&l->uv, &l->awake);
	if (l->index == 0) {
		(void)uv_timer_init(&l->uv, &l->sweep);
		if (l->d->shared.inodes != NULL)
			(void)uv_timer_start(&l->sweep, on_sweep, SWEEP_MS, 0);
	}
	return 0;
}

static void fini_handles(struct nfs_loop *l)
{
	uv_close((uv_handle_t *)&l->wake, NULL);
	uv_close((uv_handle_t *)&l->tick, NULL);
	uv_close((uv_handle_t *)&l->again, NULL);
	uv_close((uv_handle_t *)&l->awake, NULL);
	if (l->index == 0)
		uv_close((uv_handle_t *)&l->sweep, NULL);
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
	(void)uv_loop_close(&l->uv);
}

/* Signals stay with the main thread. */
static int start_thread(struct nfs_loop *l)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&l->thread, NULL, thread_main, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		(void)pthread_setname_np(l->thread, "nfs-loop");
	return -rc;
}

static void free_memory(struct nfs_loop *l)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &l->free_jobs)
		nfs_job_free(&l->d->dispatch, list_entry(pos, struct nfs_job, link));
	nfs_turn_fini(&l->turn);
	pthread_mutex_destroy(&l->mutex);
	free(l->rx);
	free(l);
}

int nfs_loop_start(struct nfsd *d, unsigned index, struct nfs_loop **ret, struct err *err)
{
	struct nfs_loop *l = calloc(1, sizeof(*l));
	int rc;

	if (l == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	l->d = d;
	l->index = index;
	pthread_mutex_init(&l->mutex, NULL);
	list_init(&l->arrivals);
	list_init(&l->done);
	list_init(&l->conns);
	list_init(&l->ready);
	list_init(&l->free_jobs);
	l->rx = malloc(NFS_RX_BYTES);
	rc = l->rx != NULL ? nfs_turn_init(&l->turn, d->payloads) : -ENOMEM;
	if (rc < 0)
		goto fail_memory;
	rc = init_handles(l);
	if (rc < 0)
		goto fail_memory;
	rc = start_thread(l);
	if (rc < 0)
		goto fail_handles;
	*ret = l;
	return 0;

fail_handles:
	fini_handles(l);
fail_memory:
	free_memory(l);
	return err_set(err, rc, "start a loop: %s", strerror(-rc));
}

bool nfs_loop_join(struct nfs_loop *l)
{
	pthread_join(l->thread, NULL);
	return !l->is_abandoned;
}

void nfs_loop_free(struct nfs_loop *l)
{
	if (l == NULL)
		return;
	(void)uv_loop_close(&l->uv);
	free_memory(l);
}
