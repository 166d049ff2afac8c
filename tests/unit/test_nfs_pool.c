/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>

#include "unit.h"

#include "base/clock.h"
#include "nfsd/nfs_pool.h"

#define DEADLINE_MS 20000

struct job {
	struct list link;
	char source; /* 'a', 'b', ... */
};

/* What the jobs did, in order; jobs of source 'g' wait for the gate. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool is_open;
	unsigned n_started, n_done, n_running_a, most_running_a;
	char order[256];
} log_ = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, 0, 0, 0, "" };

static void run(struct list *n)
{
	struct job *j = list_entry(n, struct job, link);

	pthread_mutex_lock(&log_.mutex);
	log_.order[log_.n_started++] = j->source;
	if (j->source == 'a' && ++log_.n_running_a > log_.most_running_a)
		log_.most_running_a = log_.n_running_a;
	pthread_cond_broadcast(&log_.cond);
	while ((j->source == 'g' || j->source == 'a') && !log_.is_open)
		pthread_cond_wait(&log_.cond, &log_.mutex);
	if (j->source == 'a')
		log_.n_running_a--;
	pthread_mutex_unlock(&log_.mutex);
}

static void done(struct list *n)
{
	pthread_mutex_lock(&log_.mutex);
	log_.n_done++;
	pthread_cond_broadcast(&log_.cond);
	pthread_mutex_unlock(&log_.mutex);
}

static void wait_for(const unsigned *counter, unsigned n)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += DEADLINE_MS / 1000;
	pthread_mutex_lock(&log_.mutex);
	while (*counter < n)
		assert_int_equal(pthread_cond_timedwait(&log_.cond, &log_.mutex, &ts), 0);
	pthread_mutex_unlock(&log_.mutex);
}

static void open_gate(void)
{
	pthread_mutex_lock(&log_.mutex);
	log_.is_open = true;
	pthread_cond_broadcast(&log_.cond);
	pthread_mutex_unlock(&log_.mutex);
}

static struct nfs_pool *make(unsigned max_threads, unsigned max_per_source, unsigned full_at)
{
	struct nfs_pool_options o = { "test", max_threads, max_per_source, full_at, run, done };
	struct nfs_pool *p;

	log_.is_open = false;
	log_.n_started = log_.n_done = log_.n_running_a = log_.most_running_a = 0;
	memset(log_.order, 0, sizeof(log_.order));
	assert_int_equal(nfs_pool_new(&o, &p, NULL), 0);
	return p;
}

static void end(struct nfs_pool *p)
{
	assert_true(nfs_pool_stop(p, clock_mono_ns() + DEADLINE_MS * NSEC_PER_MS));
}

static void test_sources_take_turns(void **state)
{
	struct nfs_pool *p = make(1, 1, 100);
	struct nfs_pool_source src[3];
	struct job gate = { .source = 'g' }, b[5], c[2];

	for (int i = 0; i < 3; i++)
		nfs_pool_source_init(&src[i]);
	nfs_pool_submit(p, &src[0], &gate.link);
	wait_for(&log_.n_started, 1);
	for (int i = 0; i < 5; i++) {
		b[i].source = 'b';
		nfs_pool_submit(p, &src[1], &b[i].link);
	}
	for (int i = 0; i < 2; i++) {
		c[i].source = 'c';
		nfs_pool_submit(p, &src[2], &c[i].link);
	}
	assert_int_equal(nfs_pool_queued(p), 7);
	open_gate();
	wait_for(&log_.n_done, 8);
	assert_string_equal(log_.order, "gbcbcbbb");
	end(p);
}

static void test_one_source_leaves_threads_to_others(void **state)
{
	struct nfs_pool *p = make(4, 3, 100);
	struct nfs_pool_source a, b;
	struct job ja[10], jb = { .source = 'b' };

	nfs_pool_source_init(&a);
	nfs_pool_source_init(&b);
	for (int i = 0; i < 10; i++) {
		ja[i].source = 'a';
		nfs_pool_submit(p, &a, &ja[i].link);
	}
	wait_for(&log_.n_started, 3);
	nfs_pool_submit(p, &b, &jb.link);
	wait_for(&log_.n_done, 1); /* b's, while all of a's wait */
	open_gate();
	wait_for(&log_.n_done, 11);
	assert_int_equal(log_.most_running_a, 3);
	end(p);
}

static void test_submit_says_when_the_queue_is_full(void **state)
{
	struct nfs_pool *p = make(1, 1, 3);
	struct nfs_pool_source src;
	struct job j[5];

	nfs_pool_source_init(&src);
	for (int i = 0; i < 5; i++)
		j[i].source = 'g';
	assert_true(nfs_pool_submit(p, &src, &j[0].link));
	wait_for(&log_.n_started, 1);
	assert_true(nfs_pool_submit(p, &src, &j[1].link));
	assert_true(nfs_pool_submit(p, &src, &j[2].link));
	assert_false(nfs_pool_submit(p, &src, &j[3].link)); /* taken all the same */
	open_gate();
	wait_for(&log_.n_done, 4);
	assert_true(nfs_pool_submit(p, &src, &j[4].link));
	wait_for(&log_.n_done, 5);
	end(p);
}

static void test_stopping_does_not_wait_beyond_its_deadline(void **state)
{
	struct nfs_pool *p = make(1, 1, 3);
	struct nfs_pool_source src;
	struct job j[2] = { { .source = 'g' }, { .source = 'g' } };

	nfs_pool_source_init(&src);
	for (int i = 0; i < 2; i++)
		nfs_pool_submit(p, &src, &j[i].link);
	wait_for(&log_.n_started, 1);
	assert_false(nfs_pool_stop(p, clock_mono_ns()));
	open_gate();
	wait_for(&log_.n_done, 1);
	end(p); /* asked again, it ends; the second job never started */
	assert_int_equal(log_.n_started, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sources_take_turns),
		cmocka_unit_test(test_one_source_leaves_threads_to_others),
		cmocka_unit_test(test_submit_says_when_the_queue_is_full),
		cmocka_unit_test(test_stopping_does_not_wait_beyond_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
