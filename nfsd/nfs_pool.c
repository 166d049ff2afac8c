/* SPDX-License-Identifier: MIT */
/*
 * Pools of threads for what would make a loop wait: cold reads and lookups, directory scans, fsync.
 *
 * The queue is a list of sources (connections) that have something to do, each with a queue of its
 * own, and a thread takes one job of the first source and puts the source last.  So a client with
 * sixty scans in its queue delays another client's single lookup by one job, not by sixty; and no
 * client can occupy all threads, whatever its disk does.
 *
 * A queue has no hard end, since a job that was taken off the wire must be answered.  Its limit is
 * that a source is told when it is full, and stops reading from its client until its own jobs are
 * done: the queue is then at most `full_at` jobs and one for each source.
 */
#include "nfsd/nfs_pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define STACK_BYTES (512u << 10) /* procedures keep big buffers off the stack */

struct nfs_pool {
	struct nfs_pool_options o; /* immutable */
	pthread_mutex_t mutex;
	pthread_cond_t work;
	pthread_cond_t ended; /* by CLOCK_MONOTONIC: a thread ended */
	struct list ready; /* protected by mutex, as all below: sources with a job that may start */
	unsigned n_queued;
	unsigned n_idle;
	unsigned n_threads;
	unsigned n_ended;
	bool is_stopping;
	pthread_t *threads; /* owned; max_threads of them */
};

void nfs_pool_source_init(struct nfs_pool_source *src)
{
	list_init(&src->ready);
	list_init(&src->jobs);
	src->n_running = 0;
}

/* Puts a source that can start a job, and is not in the list, at its end.  Mutex held. */
static void make_ready(struct nfs_pool *p, struct nfs_pool_source *src)
{
	if (list_is_empty(&src->ready) && !list_is_empty(&src->jobs) &&
	    src->n_running < p->o.max_per_source)
		list_add_tail(&p->ready, &src->ready);
}

/* Mutex held.  NULL when nothing may start. */
static struct list *take_job(struct nfs_pool *p, struct nfs_pool_source **ret_src)
{
	struct nfs_pool_source *src;
	struct list *job;

	if (list_is_empty(&p->ready))
		return NULL;
	src = list_entry(p->ready.next, struct nfs_pool_source, ready);
	job = src->jobs.next;
	list_del(&src->ready);
	list_del(job);
	src->n_running++;
	p->n_queued--;
	make_ready(p, src);
	*ret_src = src;
	return job;
}

/* Mutex held; waits.  NULL: the pool stops. */
static struct list *wait_job(struct nfs_pool *p, struct nfs_pool_source **ret_src)
{
	struct list *job = NULL;

	while (!p->is_stopping && (job = take_job(p, ret_src)) == NULL) {
		p->n_idle++;
		pthread_cond_wait(&p->work, &p->mutex);
		p->n_idle--;
	}
	return job;
}

/*
 * The source is let go before done() is called, because the connection that it lies in may be freed
 * by its loop as soon as it has its last job back.
 */
static void *thread_main(void *arg)
{
	struct nfs_pool *p = arg;
	struct nfs_pool_source *src;
	struct list *job, *finished;

	pthread_mutex_lock(&p->mutex);
	while ((job = wait_job(p, &src)) != NULL) {
		pthread_mutex_unlock(&p->mutex);
		p->o.run(job);
		finished = job;
		pthread_mutex_lock(&p->mutex);
		src->n_running--;
		make_ready(p, src);
		pthread_mutex_unlock(&p->mutex);
		p->o.done(finished);
		pthread_mutex_lock(&p->mutex);
	}
	p->n_ended++;
	pthread_cond_signal(&p->ended);
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

/* Mutex held.  Signals stay with the main thread. */
static int start_thread(struct nfs_pool *p)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&p->threads[p->n_threads], &attr, thread_main, p);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return -rc;
	(void)pthread_setname_np(p->threads[p->n_threads], p->o.name);
	p->n_threads++;
	return 0;
}

static void free_pool(struct nfs_pool *p)
{
	pthread_cond_destroy(&p->ended);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->mutex);
	free(p->threads);
	free(p);
}

int nfs_pool_new(const struct nfs_pool_options *o, struct nfs_pool **ret, struct err *err)
{
	struct nfs_pool *p = calloc(1, sizeof(*p));
	pthread_condattr_t attr;
	int rc;

	assert(o->max_threads > 0 && o->max_per_source > 0);
	if (p == NULL)
		return err_set(err, -ENOMEM, "out of memory");
	p->threads = calloc(o->max_threads, sizeof(*p->threads));
	if (p->threads == NULL) {
		free(p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	p->o = *o;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->ended, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&p->ready);
	pthread_mutex_lock(&p->mutex);
	rc = start_thread(p);
	pthread_mutex_unlock(&p->mutex);
	if (rc < 0) {
		free_pool(p);
		return err_set(err, rc, "start a thread: %s", strerror(-rc));
	}
	*ret = p;
	return 0;
}

bool nfs_pool_submit(struct nfs_pool *p, struct nfs_pool_source *src, struct list *job)
{
	bool has_room, wake;

	pthread_mutex_lock(&p->mutex);
	list_add_tail(&src->jobs, job);
	p->n_queued++;
	make_ready(p, src);
	wake = p->n_idle > 0;
	/* Failing to start one more is no error: those that run will come to this job. */
	if (p->n_idle < p->n_queued && p->n_threads < p->o.max_threads && !p->is_stopping)
		(void)start_thread(p);
	has_room = p->n_queued < p->o.full_at;
	pthread_mutex_unlock(&p->mutex);
	if (wake)
		pthread_cond_signal(&p->work);
	return has_room;
}

unsigned nfs_pool_queued(struct nfs_pool *p)
{
	unsigned n;

	pthread_mutex_lock(&p->mutex);
	n = p->n_queued;
	pthread_mutex_unlock(&p->mutex);
	return n;
}

/* True when all threads are about to return. */
static bool wait_for_threads(struct nfs_pool *p, uint64_t deadline_ns)
{
	struct timespec until = {
		.tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(deadline_ns % NSEC_PER_SEC),
	};
	bool all;
	int rc = 0;

	pthread_mutex_lock(&p->mutex);
	p->is_stopping = true;
	pthread_cond_broadcast(&p->work);
	while (p->n_ended < p->n_threads && rc == 0)
		rc = pthread_cond_timedwait(&p->ended, &p->mutex, &until);
	all = p->n_ended == p->n_threads;
	pthread_mutex_unlock(&p->mutex);
	return all;
}

bool nfs_pool_stop(struct nfs_pool *p, uint64_t deadline_ns)
{
	if (p == NULL)
		return true;
	if (!wait_for_threads(p, deadline_ns)) {
		log_warn(LOG_NFS, "pool=%s has a call that does not end", p->o.name);
		return false;
	}
	for (unsigned i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	free_pool(p);
	return true;
}
