/* SPDX-License-Identifier: MIT */
/* The ring of a workspace's events and who reads it (see events.h). */
#include "workspace/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "workspace/events_priv.h"

/* Threads of all workspaces: they end by themselves, and all of them at shutdown. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	unsigned n_threads; /* protected by mutex */
	int stop_fd;        /* protected by mutex; an eventfd that each thread waits for too */
	bool is_stopping;   /* atomic */
} all = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.ended = PTHREAD_COND_INITIALIZER,
	.stop_fd = -1,
};

/* ---- the ring ----------------------------------------------------------- */

void event_fini(struct event *e)
{
	free(e->path);
	free(e->to);
	*e = (struct event){ 0 };
}

static size_t bytes_of(const struct event *e)
{
	return (e->path != NULL ? strlen(e->path) + 1 : 0) +
	       (e->to != NULL ? strlen(e->to) + 1 : 0);
}

static void drop_oldest(struct ws_events *e)
{
	struct event *old = &e->ring[e->first % EVENTS_RING];

	e->ring_bytes -= bytes_of(old);
	event_fini(old);
	e->first++;
}

void events_wake_locked(struct ws_events *e)
{
	struct list *pos;

	list_for_each (pos, &e->subs) {
		struct events_sub *s = list_entry(pos, struct events_sub, link);

		s->wake(s->arg);
	}
}

void events_put_locked(struct ws_events *e, const struct event *ev)
{
	struct event *slot;

	while (e->next - e->first >= EVENTS_RING ||
	       (e->next != e->first && e->ring_bytes + bytes_of(ev) > EVENTS_RING_BYTES))
		drop_oldest(e);
	slot = &e->ring[e->next % EVENTS_RING];
	*slot = *ev;
	slot->seq = e->next++;
	e->ring_bytes += bytes_of(slot);
	events_wake_locked(e);
}

void events_overflow(struct ws_events *e, const char *reason)
{
	const struct event ev = { .type = EVENT_OVERFLOW, .reason = reason };

	(void)pthread_mutex_lock(&e->mutex);
	events_put_locked(e, &ev);
	(void)pthread_mutex_unlock(&e->mutex);
}

/* Nothing is recorded from now on: what comes later cannot be resumed from here. */
static void forget_all(struct ws_events *e)
{
	while (e->first != e->next)
		drop_oldest(e);
	e->first = ++e->next;
	for (size_t i = 0; i < RECENT_SLOTS; i++) {
		free(e->recent[i].path);
		e->recent[i] = (struct recent){ 0 };
	}
	e->n_pending = e->n_lost = 0;
}

/* ---- modified files ----------------------------------------------------- */

static void tell_modified(struct ws_events *e, struct recent *r)
{
	struct event ev = { .type = EVENT_MODIFIED, .door = r->door, .kind = r->kind };

	e->n_pending -= r->is_pending;
	r->is_pending = false;
	r->due_ns = clock_mono_ns() + EVENTS_COALESCE_NS;
	ev.path = strdup(r->path);
	if (ev.path == NULL)
		ev = (struct event){ .type = EVENT_OVERFLOW, .reason = "out of memory" };
	events_put_locked(e, &ev);
}

static void take_slot(struct ws_events *e, struct recent *r)
{
	if (r->is_pending)
		tell_modified(e, r);
	free(r->path);
	*r = (struct recent){ 0 };
}

bool events_modified_locked(struct ws_events *e, enum event_door door, uint64_t ino, mode_t kind,
			    const char *path)
{
	struct recent *r = &e->recent[map_hash_u64(ino) % RECENT_SLOTS];

	if (r->ino == ino && clock_mono_ns() < r->due_ns) {
		e->n_pending += !r->is_pending;
		r->is_pending = true;
		r->door = door;
		if (e->n_pending == 1)
			events_kick_locked(e);
		return true;
	}
	if (path == NULL)
		return false;
	take_slot(e, r);
	*r = (struct recent){ .ino = ino, .kind = kind, .door = door, .path = strdup(path) };
	if (r->path != NULL)
		tell_modified(e, r);
	return true;
}

uint64_t events_flush_due_locked(struct ws_events *e, uint64_t now_ns)
{
	uint64_t soonest = UINT64_MAX;

	for (size_t i = 0; i < RECENT_SLOTS && e->n_pending > 0; i++) {
		struct recent *r = &e->recent[i];

		if (!r->is_pending)
			continue;
		if (r->due_ns <= now_ns)
			tell_modified(e, r);
		else
			soonest = MIN(soonest, r->due_ns - now_ns);
	}
	return soonest;
}

static bool is_at_or_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

void events_flush_path_locked(struct ws_events *e, const char *path)
{
	for (size_t i = 0; i < RECENT_SLOTS; i++)
		if (e->recent[i].path != NULL && is_at_or_below(e->recent[i].path, path))
			take_slot(e, &e->recent[i]);
}

/* ---- the thread --------------------------------------------------------- */

void events_kick_locked(struct ws_events *e)
{
	const uint64_t one = 1;

	if (e->wake_fd >= 0 && write(e->wake_fd, &one, sizeof(one)) < 0)
		log_debug(LOG_WS, "a kick was lost error=%s", strerror(errno));
}

bool events_is_stopping(struct ws_events *e)
{
	return __atomic_load_n(&all.is_stopping, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&e->is_closed, __ATOMIC_RELAXED);
}

bool events_thread_may_end(struct ws_events *e)
{
	bool may;

	(void)pthread_mutex_lock(&e->mutex);
	may = events_is_stopping(e) ||
	      (e->n_subs == 0 && clock_mono_ns() - e->idle_since_ns >= EVENTS_LINGER_NS);
	if (may) {
		__atomic_store_n(&e->ws->is_listened_to, false, __ATOMIC_RELAXED);
		if (!e->is_closed) /* who still listens may hear the rest */
			forget_all(e);
		e->has_thread = e->is_ready = false;
		(void)close(take_fd(&e->wake_fd));
	}
	(void)pthread_mutex_unlock(&e->mutex);
	return may;
}

void events_thread_ended(struct ws_events *e)
{
	workspace_unref(e->ws); /* may free @e */
	(void)pthread_mutex_lock(&all.mutex);
	all.n_threads--;
	(void)pthread_cond_broadcast(&all.ended);
	(void)pthread_mutex_unlock(&all.mutex);
}

static int count_thread(int *ret_stop_fd)
{
	int rc = 0;

	(void)pthread_mutex_lock(&all.mutex);
	if (all.stop_fd < 0)
		all.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (all.stop_fd < 0)
		rc = -errno;
	else
		all.n_threads++;
	*ret_stop_fd = all.stop_fd;
	(void)pthread_mutex_unlock(&all.mutex);
	return rc;
}

static int start_thread(struct ws_events *e)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc = count_thread(&e->stop_fd);

	if (rc < 0)
		return rc;
	e->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	workspace_ref(e->ws);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, events_watch_main, e);
	(void)pthread_attr_destroy(&attr);
	if (rc == 0)
		return 0;
	(void)close(take_fd(&e->wake_fd));
	(void)pthread_mutex_lock(&all.mutex);
	all.n_threads--;
	(void)pthread_mutex_unlock(&all.mutex);
	(void)__atomic_sub_fetch(&e->ws->refs, 1, __ATOMIC_ACQ_REL); /* the caller has its own */
	return -rc;
}

/* Called with the mutex held. */
static int begin_recording(struct ws_events *e)
{
	int rc = start_thread(e);

	if (rc < 0)
		return rc;
	e->has_thread = true;
	__atomic_store_n(&e->ws->is_listened_to, true, __ATOMIC_RELAXED);
	return 0;
}

void events_shutdown(void)
{
	const uint64_t one = 1;

	__atomic_store_n(&all.is_stopping, true, __ATOMIC_RELAXED);
	(void)pthread_mutex_lock(&all.mutex);
	if (all.stop_fd >= 0 && write(all.stop_fd, &one, sizeof(one)) < 0)
		log_error(LOG_WS, "cannot stop the watches error=%s", strerror(errno));
	while (all.n_threads > 0)
		(void)pthread_cond_wait(&all.ended, &all.mutex);
	if (all.stop_fd >= 0)
		(void)close(take_fd(&all.stop_fd));
	(void)pthread_mutex_unlock(&all.mutex);
	__atomic_store_n(&all.is_stopping, false, __ATOMIC_RELAXED);
}

/* ---- subscribers -------------------------------------------------------- */

static struct ws_events *events_new(struct workspace *ws)
{
	struct ws_events *e = calloc(1, sizeof(*e));

	if (e == NULL)
		return NULL;
	e->ws = ws;
	e->wake_fd = -1;
	/* microseconds: more than there ever are events, so that numbers grow over restarts */
	e->first = e->next = clock_real_ns() / 1000;
	list_init(&e->subs);
	(void)pthread_mutex_init(&e->mutex, NULL);
	return e;
}

void events_free(struct ws_events *e)
{
	if (e == NULL)
		return;
	forget_all(e);
	(void)pthread_mutex_destroy(&e->mutex);
	free(e);
}

/* The events of a workspace, made when first asked for; borrowed. */
static struct ws_events *events_of(struct workspace *ws)
{
	struct ws_events *have = __atomic_load_n(&ws->events, __ATOMIC_ACQUIRE), *made;

	if (have != NULL)
		return have;
	made = events_new(ws);
	if (made == NULL || __atomic_compare_exchange_n(&ws->events, &have, made, false,
							__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return made;
	events_free(made);
	return have;
}

static int subscribe_locked(struct ws_events *e, const struct events_from *from,
			    struct events_sub *s, struct err *err)
{
	int rc;

	if (e->is_closed)
		return err_set(err, -ENOENT, "the workspace is gone");
	if (e->n_subs >= EVENTS_SUBS_MAX)
		return err_set(err, -EBUSY, "%u others listen to this workspace already",
			       e->n_subs);
	if (!e->has_thread) {
		rc = begin_recording(e);
		if (rc < 0)
			return err_set(err, rc, "cannot watch the workspace: %s", strerror(-rc));
	}
	/* A number that was never given out is no place to go on from: as if it had been lost. */
	s->next = !from->is_resumed ? e->next : from->after < e->next ? from->after + 1 : 0;
	list_add_tail(&e->subs, &s->link);
	e->n_subs++;
	return 0;
}

int events_subscribe(struct workspace *ws, const struct events_from *from, void (*wake)(void *arg),
		     void *arg, struct events_sub **ret, struct err *err)
{
	struct ws_events *e = events_of(ws);
	struct events_sub *s = calloc(1, sizeof(*s));
	int rc;

	if (e == NULL || s == NULL) {
		free(s);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*s = (struct events_sub){ .events = e, .ws = ws, .wake = wake, .arg = arg };
	(void)pthread_mutex_lock(&e->mutex);
	rc = subscribe_locked(e, from, s, err);
	(void)pthread_mutex_unlock(&e->mutex);
	if (rc < 0) {
		free(s);
		return rc;
	}
	workspace_ref(ws);
	*ret = s;
	return 0;
}

void events_unsubscribe(struct events_sub *s)
{
	struct ws_events *e;

	if (s == NULL)
		return;
	e = s->events;
	(void)pthread_mutex_lock(&e->mutex);
	list_del(&s->link);
	e->n_subs--;
	e->idle_since_ns = clock_mono_ns();
	events_kick_locked(e);
	(void)pthread_mutex_unlock(&e->mutex);
	workspace_unref(s->ws);
	free(s);
}

bool events_is_ready(struct events_sub *s)
{
	bool is_ready;

	(void)pthread_mutex_lock(&s->events->mutex);
	is_ready = s->events->is_ready;
	(void)pthread_mutex_unlock(&s->events->mutex);
	return is_ready;
}

uint64_t events_seq(const struct events_sub *s)
{
	return s->next - 1;
}

static int copy_event(const struct event *from, struct event *ret)
{
	*ret = *from;
	ret->path = from->path != NULL ? strdup(from->path) : NULL;
	ret->to = from->to != NULL ? strdup(from->to) : NULL;
	if ((from->path != NULL && ret->path == NULL) || (from->to != NULL && ret->to == NULL)) {
		event_fini(ret);
		return -ENOMEM;
	}
	return 1;
}

static int next_locked(struct ws_events *e, struct events_sub *s, struct event *ret)
{
	int rc;

	if (s->next < e->first) {
		*ret = (struct event){ .seq = e->first - 1,
				       .type = EVENT_OVERFLOW,
				       .reason = "events are no longer kept" };
		s->next = e->first;
		return 1;
	}
	if (s->next == e->next)
		return e->is_closed ? -ENOENT : 0;
	rc = copy_event(&e->ring[s->next % EVENTS_RING], ret);
	if (rc == 1)
		s->next++;
	return rc;
}

int events_next(struct events_sub *s, struct event *ret)
{
	struct ws_events *e = s->events;
	int rc;

	(void)pthread_mutex_lock(&e->mutex);
	rc = next_locked(e, s, ret);
	(void)pthread_mutex_unlock(&e->mutex);
	return rc;
}

void events_workspace_gone(struct workspace *ws)
{
	struct ws_events *e = __atomic_load_n(&ws->events, __ATOMIC_ACQUIRE);

	if (e == NULL)
		return;
	(void)pthread_mutex_lock(&e->mutex);
	__atomic_store_n(&e->is_closed, true, __ATOMIC_RELAXED);
	events_wake_locked(e);
	events_kick_locked(e);
	(void)pthread_mutex_unlock(&e->mutex);
}
