/* SPDX-License-Identifier: MIT */
/* Change events: what our doors tell, what the kernel's watch adds, and how a stream is read. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "tests/unit/ws_fixture.h"
#include "workspace/events.h"
#include "workspace/tree_walk.h"

#define DEADLINE_NS (20 * NSEC_PER_SEC)

static const struct events_from from_now;

static int setup(void **state)
{
	struct ws_fixture *f = calloc(1, sizeof(*f));

	fixture_open(f);
	f->owner.door = DOOR_NFS;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	events_shutdown();
	fixture_close(*state);
	free(*state);
	return 0;
}

static void on_wake(void *arg)
{
	(void)__atomic_add_fetch((unsigned *)arg, 1, __ATOMIC_RELAXED);
}

static unsigned n_wakes;

static struct events_sub *listen_from(struct ws_fixture *f, const struct events_from *from)
{
	uint64_t end = clock_mono_ns() + DEADLINE_NS;
	struct events_sub *s = NULL;

	assert_int_equal(events_subscribe(f->ws, from, on_wake, &n_wakes, &s, NULL), 0);
	while (!events_is_ready(s) && clock_mono_ns() < end)
		(void)poll(NULL, 0, 1);
	assert_true(events_is_ready(s));
	return s;
}

static struct events_sub *listen_now(struct ws_fixture *f)
{
	return listen_from(f, &from_now);
}

/* "created a/b nfs", in static memory; waits for the next event. */
static const char *next(struct events_sub *s)
{
	static const char *const types[] = { "created", "modified",   "removed",
					     "renamed", "attributes", "overflow" };
	static const char *const doors[] = { "-", "nfs", "http", "local" };
	static char text[1024];
	uint64_t end = clock_mono_ns() + DEADLINE_NS;
	struct event e;
	int rc;

	while ((rc = events_next(s, &e)) == 0 && clock_mono_ns() < end)
		(void)poll(NULL, 0, 1);
	if (rc != 1)
		return rc == 0 ? "nothing" : strerror(-rc);
	(void)snprintf(text, sizeof(text), "%s %s%s%s %s", types[e.type],
		       e.path != NULL ? e.path : "", e.to != NULL ? ">" : "",
		       e.to != NULL ? e.to : "", doors[e.door]);
	event_fini(&e);
	return text;
}

static void make(struct ws_fixture *f, struct inode *dir, const char *name)
{
	struct fileops_attr a = { .set = SET_MODE, .mode = 0640 };
	struct inode *ino;

	assert_int_equal(fileops_create(&f->owner, dir, name, CREATE_GUARDED, &a, NULL, &ino), 0);
	inode_unref(f->inodes, ino);
}

static void test_nobody_listens_and_nothing_is_kept(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s;
	struct event e;

	make(f, f->root, "a");
	assert_null(f->ws->events);
	s = listen_now(f);
	assert_int_equal(events_next(s, &e), 0);
	events_unsubscribe(s);
}

static void test_our_doors_tell_each_change_once(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f);
	struct fileops_attr mode = { .set = SET_MODE, .mode = 0600 };
	struct fileops_attr cut = { .set = SET_SIZE, .size = 1 };
	struct inode *d, *ino;

	assert_int_equal(fileops_mkdir(&f->owner, f->root, "d", &mode, &d), 0);
	make(f, d, "f");
	assert_int_equal(fileops_lookup(&f->owner, d, "f", &ino), 0);
	assert_int_equal(fileops_write(&f->owner, ino, 0, "text", 4, FILEOPS_UNSTABLE), 4);
	assert_int_equal(fileops_setattr(&f->owner, ino, &mode, NULL), 0);
	assert_int_equal(fileops_link(&f->owner, ino, f->root, "l"), 0);
	assert_int_equal(fileops_rename(&f->owner, d, "f", f->root, "g"), 0);
	assert_int_equal(fileops_setattr(&f->owner, ino, &cut, NULL), 0);
	assert_int_equal(fileops_remove(&f->owner, f->root, "l"), 0);
	assert_int_equal(fileops_rmdir(&f->owner, f->root, "d"), 0);
	fixture_local_file(f, "mark", "", 0600);
	assert_string_equal(next(s), "created d nfs");
	assert_string_equal(next(s), "created d/f nfs");
	assert_string_equal(next(s), "modified d/f nfs");
	assert_string_equal(next(s), "attributes d/f nfs");
	assert_string_equal(next(s), "created l nfs");
	assert_string_equal(next(s), "renamed d/f>g nfs");
	assert_string_equal(next(s), "modified g nfs");
	assert_string_equal(next(s), "removed l nfs");
	assert_string_equal(next(s), "removed d nfs");
	assert_string_equal(next(s), "created mark local");
	inode_unref(f->inodes, ino);
	inode_unref(f->inodes, d);
	events_unsubscribe(s);
}

static void test_what_fails_or_changes_nothing_is_not_told(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s;
	struct inode *ino;

	make(f, f->root, "a");
	ino = fixture_lookup(f, "a");
	assert_int_equal(fileops_link(&f->owner, ino, f->root, "b"), 0);
	s = listen_now(f);
	assert_int_equal(fileops_remove(&f->owner, f->root, "missing"), -ENOENT);
	assert_int_equal(fileops_rename(&f->owner, f->root, "missing", f->root, "x"), -ENOENT);
	assert_int_equal(fileops_rename(&f->owner, f->root, "a", f->root, "b"), 0); /* one file */
	assert_int_equal(fileops_write(&f->owner, ino, 0, "", 0, FILEOPS_UNSTABLE), 0);
	make(f, f->root, "mark");
	assert_string_equal(next(s), "created mark nfs");
	inode_unref(f->inodes, ino);
	events_unsubscribe(s);
}

static void test_a_hot_file_is_told_now_and_at_the_end(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f);
	uint64_t begin = clock_mono_ns();
	struct inode *ino;
	unsigned n = 0;
	struct event e;

	make(f, f->root, "f");
	ino = fixture_lookup(f, "f");
	for (int i = 0; i < 1000; i++)
		assert_int_equal(fileops_write(&f->owner, ino, 0, "x", 1, FILEOPS_UNSTABLE), 1);
	make(f, f->root, "mark");
	assert_string_equal(next(s), "created f nfs");
	assert_string_equal(next(s), "modified f nfs");
	while (strcmp(next(s), "created mark nfs") != 0)
		n++;
	assert_true(n <= (clock_mono_ns() - begin) / EVENTS_COALESCE_NS + 1);
	assert_string_equal(next(s),
			    "modified f nfs"); /* the last write came after the first told */
	assert_int_equal(events_next(s, &e), 0);
	/* what waits is told before its name goes */
	assert_int_equal(fileops_write(&f->owner, ino, 0, "x", 1, FILEOPS_UNSTABLE), 1);
	assert_int_equal(fileops_write(&f->owner, ino, 0, "x", 1, FILEOPS_UNSTABLE), 1);
	assert_int_equal(fileops_remove(&f->owner, f->root, "f"), 0);
	do {
		n = strcmp(next(s), "removed f nfs") == 0;
	} while (n == 0);
	assert_int_equal(events_next(s, &e), 0);
	inode_unref(f->inodes, ino);
	events_unsubscribe(s);
}

static void test_a_slow_reader_is_told_of_the_gap(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f);
	struct event e;
	uint64_t last;

	for (int i = 0; i < EVENTS_RING; i++) {
		make(f, f->root, "x");
		assert_int_equal(fileops_remove(&f->owner, f->root, "x"), 0);
	}
	assert_int_equal(events_next(s, &e), 1);
	assert_int_equal(e.type, EVENT_OVERFLOW);
	assert_non_null(e.reason);
	last = e.seq;
	for (int i = 0; i < EVENTS_RING; i++) {
		assert_int_equal(events_next(s, &e), 1);
		assert_int_equal(e.seq, ++last);
		assert_int_equal(e.type, i % 2 == 0 ? EVENT_CREATED : EVENT_REMOVED);
		event_fini(&e);
	}
	assert_int_equal(events_next(s, &e), 0);
	events_unsubscribe(s);
}

static void test_resuming_goes_on_where_it_ended(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f);
	struct events_from from = { .is_resumed = true };

	make(f, f->root, "a");
	assert_string_equal(next(s), "created a nfs");
	from.after = events_seq(s);
	events_unsubscribe(s);
	make(f, f->root, "b");
	s = listen_from(f, &from);
	assert_string_equal(next(s), "created b nfs");
	events_unsubscribe(s);
	from.after += 1000; /* never given out */
	s = listen_from(f, &from);
	assert_string_equal(next(s), "overflow  -");
	events_unsubscribe(s);
	/* recording ended meanwhile: what was then cannot be known */
	s = listen_now(f);
	from.after = events_seq(s);
	events_unsubscribe(s);
	events_shutdown();
	make(f, f->root, "c");
	s = listen_from(f, &from);
	assert_string_equal(next(s), "overflow  -");
	make(f, f->root, "d");
	assert_string_equal(next(s), "created d nfs");
	events_unsubscribe(s);
}

static void test_local_trees_are_followed(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s;

	assert_int_equal(mkdirat(f->files, "old", 0755), 0);
	s = listen_now(f);
	fixture_local_file(f, "old/f", "", 0600);
	assert_string_equal(next(s), "created old/f local");
	assert_string_equal(next(s), "attributes old/f local");
	assert_int_equal(renameat(f->files, "old", f->files, "new"), 0);
	fixture_local_file(f, "new/g", "", 0600);
	assert_string_equal(next(s), "renamed old>new local");
	assert_string_equal(next(s), "created new/g local");
	assert_string_equal(next(s), "attributes new/g local");
	assert_int_equal(unlinkat(f->files, "new/f", 0), 0);
	assert_int_equal(unlinkat(f->files, "new/g", 0), 0);
	assert_int_equal(unlinkat(f->files, "new", AT_REMOVEDIR), 0);
	assert_string_equal(next(s), "removed new/f local");
	assert_string_equal(next(s), "removed new/g local");
	assert_string_equal(next(s), "removed new local");
	events_unsubscribe(s);
}

#define STORM_DIRS 12
#define STORM_OPS  4000

struct storm {
	int files;
	unsigned seed;
	pthread_t thread;
};

/* "3/7/1": directories are moved below each other, made and removed, all under a dozen names. */
static void storm_path(struct storm *s, char dst[64])
{
	int depth = 1 + rand_r(&s->seed) % 4, n = 0;

	for (int i = 0; i < depth; i++)
		n += snprintf(dst + n, 64 - (size_t)n, "%s%d", i > 0 ? "/" : "",
			      rand_r(&s->seed) % STORM_DIRS);
}

static void *run_storm(void *arg)
{
	struct storm *s = arg;
	char a[64], b[64];

	for (int i = 0; i < STORM_OPS; i++) {
		storm_path(s, a);
		storm_path(s, b);
		switch (rand_r(&s->seed) % 4) {
		case 0:
			(void)unlinkat(s->files, a, AT_REMOVEDIR);
			break;
		case 1:
			(void)mkdirat(s->files, a, 0755);
			break;
		default:
			(void)renameat(s->files, a, s->files, b);
		}
	}
	return NULL;
}

struct probes {
	unsigned n, round;
};

static int make_probe(void *arg, const struct tree_entry *t)
{
	struct probes *p = arg;
	char name[32];
	int fd;

	if (!S_ISDIR(t->stx->stx_mode))
		return 0;
	fd = openat(t->dirfd, t->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	(void)snprintf(name, sizeof(name), "probe%u", p->round);
	assert_int_equal(mknodat(fd, name, S_IFREG | 0600, 0), 0);
	(void)close(fd);
	p->n++;
	return 0;
}

/* One file in each directory: true when each is told under its path, false after an overflow. */
static bool all_probes_are_told(struct ws_fixture *f, struct events_sub *s, unsigned round)
{
	uint64_t end = clock_mono_ns() + DEADLINE_NS;
	struct probes p = { .round = round };
	struct tree_walk_result res = { 0 };
	unsigned seen = 0;
	char name[32];

	(void)snprintf(name, sizeof(name), "/probe%u", round);
	assert_int_equal(tree_walk(f->ws->root_fd, make_probe, &p, &res), 0);
	assert_true(p.n > 0);
	while (seen < p.n) {
		struct event e;
		struct stat st;

		if (events_next(s, &e) != 1) {
			if (clock_mono_ns() > end)
				fail_msg("%u of %u directories are watched", seen, p.n);
			(void)poll(NULL, 0, 1);
			continue;
		}
		if (e.type == EVENT_OVERFLOW)
			return false;
		if (e.type == EVENT_CREATED && strstr(e.path, name) != NULL) {
			assert_int_equal(fstatat(f->files, e.path, &st, AT_SYMLINK_NOFOLLOW), 0);
			seen++;
		}
		event_fini(&e);
	}
	return true;
}

/* Whatever was moved where while the watch was being put up: every directory is told of under its
 * name, or an overflow says that something was missed, after which it is. */
static void test_a_storm_of_renames_leaves_the_watch_right(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f);
	struct storm storms[3] = { 0 };
	unsigned round = 0;

	for (unsigned i = 0; i < ARRAY_LEN(storms); i++) {
		storms[i] = (struct storm){ .files = f->files, .seed = i + 1 };
		assert_int_equal(pthread_create(&storms[i].thread, NULL, run_storm, &storms[i]), 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(storms); i++)
		(void)pthread_join(storms[i].thread, NULL);
	while (!all_probes_are_told(f, s, round))
		assert_true(++round < 20);
	events_unsubscribe(s);
}

static void test_a_swapped_directory_leads_nowhere(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f);

	/* what a link leads to is not watched, nor looked at */
	assert_int_equal(symlinkat("/tmp", f->files, "d"), 0);
	assert_string_equal(next(s), "created d local");
	fixture_local_file(f, "d/ws-unit-events", "", 0600);
	(void)unlinkat(f->files, "d/ws-unit-events", 0);
	fixture_local_file(f, "mark", "", 0600);
	assert_string_equal(next(s), "created mark local");
	events_unsubscribe(s);
}

static void test_the_number_of_listeners_is_bounded(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *subs[EVENTS_SUBS_MAX], *one;
	struct err err = { 0 };

	for (size_t i = 0; i < EVENTS_SUBS_MAX; i++)
		assert_int_equal(
			events_subscribe(f->ws, &from_now, on_wake, &n_wakes, &subs[i], NULL), 0);
	assert_int_equal(events_subscribe(f->ws, &from_now, on_wake, &n_wakes, &one, &err), -EBUSY);
	for (size_t i = 0; i < EVENTS_SUBS_MAX; i++)
		events_unsubscribe(subs[i]);
	assert_int_equal(events_subscribe(f->ws, &from_now, on_wake, &n_wakes, &one, NULL), 0);
	events_unsubscribe(one);
}

static void test_the_end_of_the_workspace_is_the_end_of_the_stream(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f), *other;

	make(f, f->root, "a");
	events_workspace_gone(f->ws);
	assert_string_equal(next(s), "created a nfs");
	assert_string_equal(next(s), strerror(ENOENT));
	assert_int_equal(events_subscribe(f->ws, &from_now, on_wake, &n_wakes, &other, NULL),
			 -ENOENT);
	events_unsubscribe(s);
}

static void test_a_listener_is_woken(void **state)
{
	struct ws_fixture *f = *state;
	struct events_sub *s = listen_now(f);
	unsigned before = __atomic_load_n(&n_wakes, __ATOMIC_RELAXED);

	make(f, f->root, "a");
	assert_true(__atomic_load_n(&n_wakes, __ATOMIC_RELAXED) > before);
	events_unsubscribe(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(test_nobody_listens_and_nothing_is_kept),
		T(test_our_doors_tell_each_change_once),
		T(test_what_fails_or_changes_nothing_is_not_told),
		T(test_a_hot_file_is_told_now_and_at_the_end),
		T(test_a_slow_reader_is_told_of_the_gap),
		T(test_resuming_goes_on_where_it_ended),
		T(test_local_trees_are_followed),
		T(test_a_storm_of_renames_leaves_the_watch_right),
		T(test_a_swapped_directory_leads_nowhere),
		T(test_the_number_of_listeners_is_bounded),
		T(test_the_end_of_the_workspace_is_the_end_of_the_stream),
		T(test_a_listener_is_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
