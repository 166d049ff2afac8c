/* SPDX-License-Identifier: MIT */
/* Inodes found again: by hint, by a walk, over renames, restarts and races; and the walk itself. */
#include "workspace/inode_hints.h"

#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "workspace/store.h"
#include "workspace/tree_walk.h"
#include "tests/unit/data_dir.h"

struct house {
	const struct data_dir *dir;
	struct store *store;
	struct ws_registry *reg;
	struct inode_hints *hints;
	struct workspace *ws;
	int files; /* the workspace's root, as another door sees it */
};

static void start(struct house *h)
{
	struct ws_registry_options o = { .data_dir = h->dir->path };

	assert_int_equal(store_open(h->dir->path, NULL, &h->store, NULL), 0);
	assert_int_equal(ws_registry_open(h->store, &o, &h->reg, NULL), 0);
	assert_int_equal(inode_hints_open(h->store, &h->hints, NULL), 0);
}

static void up(struct house *h, const struct data_dir *dir)
{
	struct ws_create c = { 0 };

	h->dir = dir;
	start(h);
	assert_int_equal(ws_create(h->reg, &c, &h->ws, NULL), 0);
	h->files = path_open(h->ws->root_fd, "", O_RDONLY | O_DIRECTORY, 0, 0);
	assert_true(h->files >= 0);
}

static void down(struct house *h)
{
	workspace_unref(h->ws);
	inode_hints_close(h->hints);
	ws_registry_close(h->reg);
	store_close(h->store);
}

static void restart(struct house *h)
{
	char id[WS_ID_LEN + 1];

	memcpy(id, h->ws->id, sizeof(id));
	down(h);
	start(h);
	h->ws = ws_find(h->reg, id);
	assert_non_null(h->ws);
}

static void finish(struct house *h)
{
	(void)close(h->files);
	down(h);
}

struct key {
	uint64_t ino, birth_ns;
};

static struct key key_at(int dirfd, const char *name)
{
	struct statx stx;

	assert_int_equal(statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH,
			       STATX_INO | STATX_BTIME, &stx),
			 0);
	return (struct key){
		.ino = stx.stx_ino,
		.birth_ns = (stx.stx_mask & STATX_BTIME) == 0
				    ? 0
				    : (uint64_t)stx.stx_btime.tv_sec * NSEC_PER_SEC +
					      stx.stx_btime.tv_nsec,
	};
}

static struct key make_file(int dirfd, const char *path)
{
	int fd = openat(dirfd, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
	return key_at(dirfd, path);
}

static struct key make_dir(int dirfd, const char *path)
{
	assert_int_equal(mkdirat(dirfd, path, 0700), 0);
	return key_at(dirfd, path);
}

static void note(struct house *h, struct key k, struct key parent, const char *name)
{
	inode_hints_note(h->hints, h->ws, k.ino, k.birth_ns, parent.ino, name);
}

static int open_key(struct house *h, struct key k)
{
	return inode_hints_open_inode(h->hints, h->ws, k.ino, k.birth_ns);
}

static void must_find(struct house *h, struct key k)
{
	int fd = open_key(h, k);
	struct stat st;

	if (fd < 0)
		fail_msg("not found: %s", strerror(-fd));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_ino, k.ino);
	assert_int_equal(fcntl(fd, F_GETFL) & O_PATH, O_PATH);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	(void)close(fd);
}

static int count_hint(void *arg, const struct hint_row *row)
{
	(void)row;
	++*(int *)arg;
	return 0;
}

static int n_stored(struct house *h)
{
	int n = 0;

	assert_int_equal(store_hints_each(h->store, h->ws->id, count_hint, &n, NULL), 0);
	return n;
}

/* ---- finding ------------------------------------------------------------ */

static void test_root_files_folders_and_links_are_found(void **state)
{
	struct house h;
	struct key dir, file, link, fifo;

	up(&h, *state);
	dir = make_dir(h.files, "d");
	file = make_file(h.files, "d/f");
	assert_int_equal(symlinkat("/etc/passwd", h.files, "d/l"), 0);
	assert_int_equal(mkfifoat(h.files, "d/p", 0600), 0);
	link = key_at(h.files, "d/l");
	fifo = key_at(h.files, "d/p");
	must_find(&h, key_at(h.files, ""));
	must_find(&h, file); /* no hint at all: a walk */
	must_find(&h, dir);
	must_find(&h, link); /* the link itself */
	must_find(&h, fifo); /* and nothing blocks */
	finish(&h);
}

static void test_a_hint_is_enough_where_a_walk_cannot_look(void **state)
{
	struct house h;
	struct key root, dir, file;

	if (geteuid() == 0)
		skip(); /* root reads every directory */
	up(&h, *state);
	root = key_at(h.files, "");
	dir = make_dir(h.files, "d");
	file = make_file(h.files, "d/f");
	assert_int_equal(fchmodat(h.files, "d", 0100, 0), 0);
	assert_int_equal(open_key(&h, file), -EACCES); /* not -ESTALE: it may well be there */
	note(&h, dir, root, "d");
	note(&h, file, dir, "f");
	must_find(&h, file);
	finish(&h);
}

static void test_a_rename_by_another_door_is_followed(void **state)
{
	struct house h;
	struct key root, a, b, file;

	up(&h, *state);
	root = key_at(h.files, "");
	a = make_dir(h.files, "a");
	b = make_dir(h.files, "b");
	file = make_file(h.files, "a/f");
	note(&h, a, root, "a");
	note(&h, b, root, "b");
	note(&h, file, a, "f");
	must_find(&h, file);
	assert_int_equal(renameat(h.files, "a/f", h.files, "b/g"), 0);
	must_find(&h, file);
	make_file(h.files, "a/f"); /* another file under the old name */
	must_find(&h, file);
	assert_int_equal(renameat(h.files, "b", h.files, "a/deeper"), 0);
	must_find(&h, file);
	must_find(&h, b);
	restart(&h);
	must_find(&h, file);
	assert_int_equal(renameat(h.files, "a/deeper/g", h.files, "top"), 0);
	restart(&h);
	must_find(&h, file);
	finish(&h);
}

static void test_what_is_gone_is_stale(void **state)
{
	struct house h;
	struct key root, file, other;

	up(&h, *state);
	root = key_at(h.files, "");
	file = make_file(h.files, "f");
	note(&h, file, root, "f");
	assert_int_equal(unlinkat(h.files, "f", 0), 0);
	assert_int_equal(open_key(&h, file), -ESTALE);
	other = make_file(h.files, "g");
	other.birth_ns++; /* as if its number had been another file's */
	assert_int_equal(open_key(&h, other), -ESTALE);
	other.birth_ns--;
	must_find(&h, other);
	finish(&h);
}

static void test_one_of_two_links_is_enough(void **state)
{
	struct house h;
	struct key root, file;

	up(&h, *state);
	root = key_at(h.files, "");
	file = make_file(h.files, "f");
	note(&h, file, root, "f");
	assert_int_equal(linkat(h.files, "f", h.files, "g", 0), 0);
	assert_int_equal(unlinkat(h.files, "f", 0), 0);
	must_find(&h, file);
	finish(&h);
}

static void test_hints_that_lie_lead_nowhere_else(void **state)
{
	struct house h;
	struct key root, a, b, file, outside;

	up(&h, *state);
	root = key_at(h.files, "");
	a = make_dir(h.files, "a");
	b = make_dir(h.files, "b");
	file = make_file(h.files, "a/f");
	outside = key_at(h.dir->fd, "workspace.db");
	note(&h, a, b, "b"); /* a circle */
	note(&h, b, a, "a");
	note(&h, file, a, "f");
	must_find(&h, file);
	assert_int_equal(symlinkat("../../..", h.files, "up"), 0);
	note(&h, b, root, "up");
	note(&h, outside, b, "workspace.db");
	assert_int_equal(open_key(&h, outside), -ESTALE);
	note(&h, outside, root, "../../../workspace.db");
	assert_int_equal(open_key(&h, outside), -ESTALE);
	must_find(&h, b);
	finish(&h);
}

static void test_deeper_than_any_path(void **state)
{
	enum {
		LEVELS = 700
	}; /* of 20 bytes: three times PATH_MAX, and far more than descriptors kept */
	static const char name[] = "a-name-of-20-bytes--";
	struct house h;
	struct key middle = { 0 }, bottom;
	int fd;

	up(&h, *state);
	fd = fcntl(h.files, F_DUPFD_CLOEXEC, 0);
	for (int i = 0; i < LEVELS; i++) {
		int next;

		/* A second folder at each level, so that the walk has to come back up to all of
		 * them. */
		make_dir(fd, "z");
		make_dir(fd, name);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(fd);
		fd = next;
		if (i == LEVELS / 2)
			middle = make_file(fd, "z-file");
	}
	bottom = make_file(fd, "f");
	(void)close(fd);
	must_find(&h, bottom);
	must_find(&h, middle);
	restart(&h);
	must_find(&h, bottom);
	finish(&h);
}

/* ---- keeping ------------------------------------------------------------ */

static void test_notes_reach_the_store_once(void **state)
{
	struct house h;
	struct key root;

	up(&h, *state);
	root = key_at(h.files, "");
	for (uint64_t ino = 1000000; ino < 1003000; ino++) /* three batches */
		note(&h, (struct key){ ino, 1 }, root, "x");
	note(&h, (struct key){ 1000000, 2 }, root, "y"); /* the same inode number again */
	assert_int_equal(n_stored(&h), 0);
	assert_int_equal(inode_hints_flush(h.hints, NULL), 0);
	assert_int_equal(n_stored(&h), 3000);
	note(&h, (struct key){ 1000000, 2 }, root, "y");
	assert_int_equal(inode_hints_flush(h.hints, NULL), 0);
	assert_int_equal(n_stored(&h), 3000);
	finish(&h);
}

static void test_failed_writes_are_made_up_for(void **state)
{
	struct house h;
	struct key root, file;

	up(&h, *state);
	root = key_at(h.files, "");
	file = make_file(h.files, "f");
	note(&h, file, root, "f");
	data_dir_sql(h.dir, "ALTER TABLE inode_hints RENAME TO elsewhere");
	assert_true(inode_hints_flush(h.hints, NULL) < 0);
	data_dir_sql(h.dir, "ALTER TABLE elsewhere RENAME TO inode_hints");
	assert_int_equal(inode_hints_flush(h.hints, NULL), 0);
	assert_int_equal(n_stored(&h), 1);
	finish(&h);
}

static void test_a_workspace_that_is_gone_takes_its_hints_along(void **state)
{
	struct house h;
	struct key root, file;

	up(&h, *state);
	root = key_at(h.files, "");
	file = make_file(h.files, "f");
	note(&h, file, root, "f");
	assert_int_equal(ws_delete(h.reg, h.ws->id, NULL), 0);
	inode_hints_drop(h.hints, h.ws);
	note(&h, file, root, "f"); /* a call that was still under way */
	assert_int_equal(inode_hints_flush(h.hints, NULL), 0);
	assert_int_equal(n_stored(&h), 0);
	assert_int_equal(open_key(&h, file), -ESTALE);
	finish(&h);
}

/* ---- threads ------------------------------------------------------------ */

#define N_FILES 64

struct seeker {
	struct house *h;
	pthread_t thread;
	const struct key *keys; /* of N_FILES files; the odd ones are gone */
	int failed;             /* result that should not have been */
};

static void *seek_all(void *arg)
{
	struct seeker *s = arg;

	for (int i = 0; i < N_FILES && s->failed == 0; i++) {
		int fd = open_key(s->h, s->keys[i]);

		if (i % 2 == 0 ? fd < 0 : fd != -ESTALE)
			s->failed = fd < 0 ? fd : 1;
		if (fd >= 0)
			(void)close(fd);
	}
	return NULL;
}

static void test_many_seekers_share_walks_while_files_move(void **state)
{
	struct seeker seekers[8];
	struct key keys[N_FILES];
	struct house h;
	char from[32], to[32];

	up(&h, *state);
	make_dir(h.files, "a");
	make_dir(h.files, "b");
	for (int i = 0; i < N_FILES; i++) {
		(void)snprintf(from, sizeof(from), "a/%d", i);
		keys[i] = make_file(h.files, from);
	}
	for (int i = 1; i < N_FILES; i += 2) {
		(void)snprintf(from, sizeof(from), "a/%d", i);
		assert_int_equal(unlinkat(h.files, from, 0), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(seekers); i++) {
		seekers[i] = (struct seeker){ .h = &h, .keys = keys };
		assert_int_equal(pthread_create(&seekers[i].thread, NULL, seek_all, &seekers[i]),
				 0);
	}
	for (int i = 0; i < N_FILES; i += 2) { /* each once, ahead of or behind the walks */
		(void)snprintf(from, sizeof(from), "a/%d", i);
		(void)snprintf(to, sizeof(to), "b/%d", i);
		assert_int_equal(renameat(h.files, from, h.files, to), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(seekers); i++) {
		assert_int_equal(pthread_join(seekers[i].thread, NULL), 0);
		assert_int_equal(seekers[i].failed, 0);
	}
	finish(&h);
}

/* ---- the walk ----------------------------------------------------------- */

struct seen {
	int n, n_dirs;
	int move_from; /* a descriptor: move "u/x" to "v/x" when "v/y" is seen; -1: nothing */
	int stop_at;   /* entries; 0: never */
};

static int see(void *arg, const struct tree_entry *e)
{
	struct seen *s = arg;

	s->n++;
	s->n_dirs += S_ISDIR(e->stx->stx_mode);
	if (s->move_from >= 0 && strcmp(e->name, "y") == 0) {
		assert_int_equal(renameat(s->move_from, "u/x", s->move_from, "v/x"), 0);
		s->move_from = -1;
	}
	return s->n == s->stop_at ? 77 : 0;
}

static void test_a_walk_sees_each_entry_once_and_follows_nothing(void **state)
{
	struct data_dir *d = *state;
	struct tree_walk_result res;
	struct seen seen = { .move_from = -1 };

	make_dir(d->fd, "a");
	make_dir(d->fd, "a/b");
	make_file(d->fd, "a/b/f");
	assert_int_equal(symlinkat("..", d->fd, "a/b/up"), 0);
	assert_int_equal(symlinkat("/", d->fd, "slash"), 0);
	assert_int_equal(tree_walk(d->fd, see, &seen, &res), 0);
	assert_int_equal(seen.n, 5);
	assert_int_equal(seen.n_dirs, 2);
	assert_int_equal(res.n_entries, 5);
	assert_int_equal(res.first_err, 0);
	seen = (struct seen){ .move_from = -1, .stop_at = 2 };
	assert_int_equal(tree_walk(d->fd, see, &seen, &res), 77);
	assert_int_equal(seen.n, 2);
}

static void test_a_walk_knows_that_something_moved_under_it(void **state)
{
	struct data_dir *d = *state;
	struct tree_walk_result res;
	struct seen seen = { .move_from = d->fd };

	make_dir(d->fd, "u");
	make_dir(d->fd, "v");
	make_file(d->fd, "u/x");
	make_file(d->fd, "v/y");
	assert_int_equal(tree_walk(d->fd, see, &seen, &res), 0);
	assert_int_equal(seen.move_from, -1);
	assert_true(res.is_raced);
}

struct exchange {
	int root;
	int n_files;
};

/* In the first folder that is read, exchanges the other two, which wait to be read. */
static int exchange_others(void *arg, const struct tree_entry *e)
{
	struct exchange *x = arg;
	char others[3];

	if (S_ISDIR(e->stx->stx_mode))
		return 0;
	assert_int_equal(key_at(e->dirfd, "").ino, e->parent_ino);
	if (x->n_files++ > 0)
		return 0;
	(void)snprintf(others, sizeof(others), "%s",
		       e->name[0] == 'a'   ? "bc"
		       : e->name[0] == 'b' ? "ac"
					   : "ab");
	assert_int_equal(renameat2(x->root, (char[]){ others[0], 0 }, x->root,
				   (char[]){ others[1], 0 }, RENAME_EXCHANGE),
			 0);
	return 0;
}

static void test_a_walk_takes_no_folder_for_another(void **state)
{
	struct data_dir *d = *state;
	struct exchange x = { .root = d->fd };
	struct tree_walk_result res;

	make_dir(d->fd, "a");
	make_dir(d->fd, "b");
	make_dir(d->fd, "c");
	make_file(d->fd, "a/a-file");
	make_file(d->fd, "b/b-file");
	make_file(d->fd, "c/c-file");
	assert_int_equal(tree_walk(d->fd, exchange_others, &x, &res), 0);
	assert_int_equal(x.n_files, 1);
	assert_true(res.is_raced);
}

static void test_a_walk_tells_what_it_could_not_see(void **state)
{
	struct data_dir *d = *state;
	struct tree_walk_result res;
	struct seen seen = { .move_from = -1 };

	if (geteuid() == 0)
		skip(); /* root reads every directory */
	make_dir(d->fd, "a");
	assert_int_equal(fchmodat(d->fd, "a", 0, 0), 0);
	assert_int_equal(tree_walk(d->fd, see, &seen, &res), 0);
	assert_int_equal(res.first_err, -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_IN_DATA_DIR(test_root_files_folders_and_links_are_found),
		TEST_IN_DATA_DIR(test_a_hint_is_enough_where_a_walk_cannot_look),
		TEST_IN_DATA_DIR(test_a_rename_by_another_door_is_followed),
		TEST_IN_DATA_DIR(test_what_is_gone_is_stale),
		TEST_IN_DATA_DIR(test_one_of_two_links_is_enough),
		TEST_IN_DATA_DIR(test_hints_that_lie_lead_nowhere_else),
		TEST_IN_DATA_DIR(test_deeper_than_any_path),
		TEST_IN_DATA_DIR(test_notes_reach_the_store_once),
		TEST_IN_DATA_DIR(test_failed_writes_are_made_up_for),
		TEST_IN_DATA_DIR(test_a_workspace_that_is_gone_takes_its_hints_along),
		TEST_IN_DATA_DIR(test_many_seekers_share_walks_while_files_move),
		TEST_IN_DATA_DIR(test_a_walk_sees_each_entry_once_and_follows_nothing),
		TEST_IN_DATA_DIR(test_a_walk_knows_that_something_moved_under_it),
		TEST_IN_DATA_DIR(test_a_walk_takes_no_folder_for_another),
		TEST_IN_DATA_DIR(test_a_walk_tells_what_it_could_not_see),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
