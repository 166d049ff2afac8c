/* SPDX-License-Identifier: MIT */
/* Files by path: paths as text, tags, conditions, replacing, and the lock on a name. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>

#include "tests/unit/ws_fixture.h"
#include "workspace/files.h"
#include "workspace/files_priv.h"

/* ---- pure --------------------------------------------------------------- */

static void test_paths_are_normalised_and_kept_inside(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *rel;
	} cases[] = {
		{ "", 0, "" },
		{ "/", 0, "" },
		{ ".", 0, "" },
		{ "a", 0, "a" },
		{ "/a//b/./c/", 0, "a/b/c" },
		{ "a/../b", 0, "b" },
		{ "a/b/..", 0, "a" },
		{ "a/..", 0, "" },
		{ "...", 0, "..." },
		{ "..a/b..", 0, "..a/b.." },
		{ "..", -EXDEV, NULL },
		{ "a/../..", -EXDEV, NULL },
		{ "/../a", -EXDEV, NULL },
		{ "a/b/../../../c", -EXDEV, NULL },
	};
	char rel[FILES_PATH_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(files_path_parse(cases[i].text, strlen(cases[i].text), rel),
				 cases[i].rc);
		if (cases[i].rc == 0)
			assert_string_equal(rel, cases[i].rel);
	}
	assert_int_equal(files_path_parse("a\0b", 3, rel), -EINVAL);
}

static void test_paths_have_limits(void **state)
{
	char text[2 * FILES_PATH_MAX], rel[FILES_PATH_MAX + 1];

	(void)state;
	memset(text, 'n', sizeof(text));
	assert_int_equal(files_path_parse(text, NAME_MAX, rel), 0);
	assert_int_equal(files_path_parse(text, NAME_MAX + 1, rel), -ENAMETOOLONG);
	for (size_t i = 1; i < sizeof(text); i += 2)
		text[i] = '/';
	/* "n/n/n..." keeps a slash for each name but the last */
	assert_int_equal(files_path_parse(text, FILES_PATH_MAX, rel), 0);
	assert_int_equal(strlen(rel), FILES_PATH_MAX);
	assert_int_equal(files_path_parse(text, FILES_PATH_MAX + 2, rel), -ENAMETOOLONG);
	/* what vanishes does not count */
	memset(text, '/', sizeof(text));
	text[sizeof(text) - 1] = 'a';
	assert_int_equal(files_path_parse(text, sizeof(text), rel), 0);
	assert_string_equal(rel, "a");
}

static void test_conditions_are_read_strictly(void **state)
{
	static const char *const good[] = { "*",       " * ",     "\"\"",
					    "\"a\"",   "W/\"a\"", "\"a\" , W/\"b\"",
					    ",\"a\",", "\"a,b\"", "\"\xff\"" };
	static const char *const bad[] = { "",         " ",           ",",        "a",  "\"a",
					   "a\"",      "\"a\" \"b\"", "w/\"a\"",  "W/", "*, \"a\"",
					   "\"a\", *", "\"a b\"",     "\"a\x7f\"" };
	struct files_condition c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(files_condition_parse(&c, good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(files_condition_parse(&c, bad[i], NULL), -EINVAL);
		assert_int_equal(files_condition_parse(&c, NULL, bad[i]), -EINVAL);
	}
}

static int judge(const char *if_match, const char *if_none_match, const char *etag, bool *none)
{
	struct files_condition c;

	assert_int_equal(files_condition_parse(&c, if_match, if_none_match), 0);
	return files_condition_check(&c, etag, none);
}

static void test_conditions_compare_as_rfc_9110_says(void **state)
{
	bool none;

	(void)state;
	assert_int_equal(judge(NULL, NULL, NULL, &none), 0);
	assert_int_equal(judge("*", NULL, "\"a\"", &none), 0);
	assert_int_equal(judge("*", NULL, NULL, &none), -EBADE);
	assert_false(none);
	assert_int_equal(judge("\"b\", \"a\"", NULL, "\"a\"", &none), 0);
	assert_int_equal(judge("\"ab\"", NULL, "\"a\"", &none), -EBADE);
	assert_int_equal(judge("W/\"a\"", NULL, "\"a\"", &none), -EBADE);
	assert_int_equal(judge("\"a\"", NULL, NULL, &none), -EBADE);
	assert_int_equal(judge(NULL, "*", NULL, &none), 0);
	assert_int_equal(judge(NULL, "*", "\"a\"", &none), -EBADE);
	assert_true(none);
	assert_int_equal(judge(NULL, "W/\"a\"", "\"a\"", &none), -EBADE);
	assert_int_equal(judge(NULL, "\"b\"", "\"a\"", &none), 0);
	/* If-Match comes first: what fails is told as its failure */
	assert_int_equal(judge("\"b\"", "\"a\"", "\"a\"", &none), -EBADE);
	assert_false(none);
}

/* ---- with a workspace --------------------------------------------------- */

static int set_up(void **state)
{
	static struct ws_fixture f;

	fixture_open(&f);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	fixture_close(*state);
	return 0;
}

static void assert_content(struct ws_fixture *f, const char *rel, const char *want)
{
	struct buf b = { 0 };

	assert_int_equal(files_read_whole(f->ws, rel, 1000, &b, NULL, NULL), 0);
	assert_int_equal(b.len, strlen(want));
	assert_memory_equal(b.data, want, b.len);
	buf_free(&b);
}

static void test_a_tag_is_the_same_however_it_is_made(void **state)
{
	struct ws_fixture *f = *state;
	struct files_result r;
	struct files_staged *s;
	char etag[FILES_ETAG_LEN];
	struct buf b = { 0 };

	assert_int_equal(files_write_whole(f->ws, "a", "hello", 5, NULL, 0, &r), 0);
	assert_true(r.is_new);
	assert_string_equal(r.etag, files_etag_of_content(etag, "hello", 5));
	assert_int_equal(files_read_whole(f->ws, "a", 5, &b, etag, NULL), 0);
	assert_string_equal(r.etag, etag);
	assert_int_equal(files_read_whole(f->ws, "a", 4, &b, etag, NULL), -EFBIG);
	buf_free(&b);
	/* staged past files_stage_write(): the hash has not seen it */
	assert_int_equal(files_stage_open(f->ws, &s), 0);
	assert_int_equal(write(files_stage_fd(s), "hello", 5), 5);
	assert_int_equal(files_replace(f->ws, "b", s, NULL, 0, &r), 0);
	assert_string_equal(r.etag, etag);
	files_stage_free(s);
}

static void test_what_replaces_and_what_must_be_there(void **state)
{
	struct ws_fixture *f = *state;
	const struct files_condition create = { .if_none_match = "*" };
	struct files_result r;

	assert_int_equal(files_write_whole(f->ws, "d/a", "1", 1, NULL, FILES_EXISTING, &r),
			 -ENOENT);
	assert_int_equal(files_write_whole(f->ws, "d/a", "1", 1, &create, 0, &r), 0);
	assert_int_equal(files_write_whole(f->ws, "d/a", "2", 1, &create, 0, &r), -EBADE);
	assert_int_equal(files_write_whole(f->ws, "d/a", "2", 1, NULL, FILES_EXISTING, &r), 0);
	assert_false(r.is_new);
	assert_content(f, "d/a", "2");
	assert_int_equal(files_write_whole(f->ws, "d/a", "3", 1, NULL, FILES_APPEND, &r), 0);
	assert_content(f, "d/a", "23");
	assert_int_equal(files_write_whole(f->ws, "d", "", 0, NULL, 0, &r), -EISDIR);
	assert_int_equal(files_write_whole(f->ws, "", "", 0, NULL, 0, &r), -EISDIR);
	assert_int_equal(files_write_whole(f->ws, "d/a/b", "", 0, NULL, 0, &r), -ENOTDIR);
	assert_int_equal(files_check(f->ws, "d/none", &create), 0);
	assert_int_equal(files_check(f->ws, "d/a", &create), -EBADE);
}

static void test_a_link_may_lead_anywhere_inside(void **state)
{
	struct ws_fixture *f = *state;
	struct files_result r;

	assert_int_equal(files_mkdir(f->ws, "x/y", true), 0);
	assert_int_equal(symlinkat("../z/new", f->files, "x/up"), 0);
	assert_int_equal(symlinkat("x/y", f->files, "dir"), 0);
	assert_int_equal(symlinkat("../../out", f->files, "x/out"), 0);
	assert_int_equal(symlinkat("/tmp/out", f->files, "abs"), 0);
	assert_int_equal(files_write_whole(f->ws, "x/up", "1", 1, NULL, 0, &r), 0);
	assert_content(f, "z/new", "1");
	/* the kernel walks the link, so that its ".." is that of the directory it leads to */
	assert_int_equal(symlinkat("dir/../from", f->files, "hop"), 0);
	assert_int_equal(files_write_whole(f->ws, "hop", "2", 1, NULL, 0, &r), 0);
	assert_content(f, "x/from", "2");
	assert_int_equal(files_write_whole(f->ws, "x/out", "", 0, NULL, 0, &r), -EXDEV);
	assert_int_equal(files_write_whole(f->ws, "abs", "", 0, NULL, 0, &r), -EXDEV);
	assert_int_equal(files_mkdir(f->ws, "abs/x", true), -EXDEV);
}

/* ---- locks -------------------------------------------------------------- */

struct racer {
	struct ws_fixture *f;
	const char *paths[2];
	unsigned n;
};

/* Adds 1 to a number in a file, 200 times, by versions: what loses tries again. */
static void *count_up(void *arg)
{
	struct racer *r = arg;

	while (r->n < 200) {
		char etag[FILES_ETAG_LEN], text[16];
		struct files_condition c = { .if_match = etag };
		struct files_result result;
		struct buf b = { 0 };
		int rc, n;

		if (files_read_whole(r->f->ws, r->paths[r->n % 2], 16, &b, etag, NULL) < 0)
			break;
		n = snprintf(text, sizeof(text), "%d", atoi(buf_cstr(&b)) + 1);
		buf_free(&b);
		rc = files_write_whole(r->f->ws, r->paths[r->n % 2], text, (size_t)n, &c, 0,
				       &result);
		if (rc == 0)
			r->n++;
		else if (rc != -EBADE)
			break;
	}
	return NULL;
}

static void test_no_update_is_lost_by_whatever_path(void **state)
{
	struct ws_fixture *f = *state;
	struct racer racers[4];
	pthread_t threads[4];

	fixture_local_file(f, "n", "0", 0644);
	assert_int_equal(mkdirat(f->files, "d", 0755), 0);
	assert_int_equal(symlinkat("../n", f->files, "d/link"), 0);
	assert_int_equal(symlinkat("d", f->files, "e"), 0);
	for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
		racers[i] =
			(struct racer){ f, { i % 2 ? "n" : "e/link", i / 2 ? "d/link" : "n" }, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, count_up, &racers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(racers[i].n, 200);
	}
	assert_content(f, "n", "800");
}

static void *move_around(void *arg)
{
	struct racer *r = arg;
	bool is_from;

	for (unsigned i = 0; i < 500; i++) {
		int rc = files_move(r->f->ws, r->paths[i % 2], r->paths[1 - i % 2], NULL, &is_from);

		if (rc < 0 && rc != -ENOENT)
			return NULL;
		r->n++;
	}
	return NULL;
}

static void test_moves_in_both_directions_do_not_wait_for_each_other(void **state)
{
	struct ws_fixture *f = *state;
	struct racer racers[2] = { { f, { "a", "b" }, 0 }, { f, { "b", "a" }, 0 } };
	struct files_info info;
	pthread_t threads[2];

	fixture_local_file(f, "a", "x", 0644);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, move_around, &racers[i]), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(racers[i].n, 500);
	}
	assert_int_equal(files_stat(f->ws, "a", &info) + files_stat(f->ws, "b", &info), -ENOENT);
}

/* ---- copies ------------------------------------------------------------- */

static void test_a_copy_keeps_modes_that_shut_us_out_and_holes(void **state)
{
	struct ws_fixture *f = *state;
	struct files_info info;
	bool is_from;
	int fd;

	assert_int_equal(files_mkdir(f->ws, "t/ro/deep", true), 0);
	fixture_local_file(f, "t/ro/deep/x", "x", 0400);
	assert_int_equal(fchmodat(f->files, "t/ro/deep", 0555, 0), 0);
	assert_int_equal(fchmodat(f->files, "t/ro", 0500, 0), 0);
	fd = openat(f->files, "t/sparse", O_CREAT | O_WRONLY, 0644);
	assert_int_equal(ftruncate(fd, 1ll << 40), 0);
	assert_int_equal(pwrite(fd, "end", 3, (1ll << 40) - 3), 3);
	(void)close(fd);
	assert_int_equal(files_copy(f->ws, "t", "u", NULL, &is_from), 0);
	assert_int_equal(files_stat(f->ws, "u/ro/deep", &info), 0);
	assert_int_equal(info.mode & 07777, 0555);
	assert_int_equal(files_stat(f->ws, "u/ro", &info), 0);
	assert_int_equal(info.mode & 07777, 0500);
	assert_content(f, "u/ro/deep/x", "x");
	assert_int_equal(files_stat(f->ws, "u/sparse", &info), 0);
	assert_int_equal(info.size, 1ll << 40);
	assert_int_equal(files_remove(f->ws, "u", true, NULL), 0);
	assert_int_equal(files_stat(f->ws, "u", &info), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths_are_normalised_and_kept_inside),
		cmocka_unit_test(test_paths_have_limits),
		cmocka_unit_test(test_conditions_are_read_strictly),
		cmocka_unit_test(test_conditions_compare_as_rfc_9110_says),
#define IN_WORKSPACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
		IN_WORKSPACE(test_a_tag_is_the_same_however_it_is_made),
		IN_WORKSPACE(test_what_replaces_and_what_must_be_there),
		IN_WORKSPACE(test_a_link_may_lead_anywhere_inside),
		IN_WORKSPACE(test_no_update_is_lost_by_whatever_path),
		IN_WORKSPACE(test_moves_in_both_directions_do_not_wait_for_each_other),
		IN_WORKSPACE(test_a_copy_keeps_modes_that_shut_us_out_and_holes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
