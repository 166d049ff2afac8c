/* SPDX-License-Identifier: MIT */
/* The command line of `fuse-client mount`, and that of mount(8)'s helper. */
#include "fuse-client/fuse_options.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/unit.h"

static void test_targets_are_read_in_every_form(void **state)
{
	static const struct {
		const char *text, *host, *path;
		uint16_t port;
	} good[] = {
		{ "h:/id", "h", "/id", 2049 },
		{ "h:99:/id", "h", "/id", 99 },
		{ "127.0.0.1:2050:/id/sub/", "127.0.0.1", "/id/sub", 2050 },
		{ "[::1]:/id", "::1", "/id", 2049 },
		{ "[fe80::1]:77:/id", "fe80::1", "/id", 77 },
		{ "nfs://h/id", "h", "/id", 2049 },
		{ "nfs://h:80/id", "h", "/id", 80 },
		{ "nfs://[::1]:80/id", "::1", "/id", 80 },
		{ "h:/", "h", "/", 2049 },
		{ "h:/a:/b", "h", "/a:/b", 2049 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct fuse_target t;

		assert_int_equal(fuse_options_parse_target(good[i].text, &t, NULL), 0);
		assert_string_equal(t.host, good[i].host);
		assert_string_equal(t.path, good[i].path);
		assert_int_equal(t.port, good[i].port);
	}
}

static void test_targets_that_are_none_are_refused(void **state)
{
	static const char *const bad[] = {
		"",       "h",       "/id",       ":/id",    "h:0:/id", "h:65536:/id",    "h:x:/id",
		"h::/id", "nfs://h", "nfs:///id", "a/b:/id", "[]:/id",  "h:123456789:/id"
	};
	char longer[2 * FUSE_TARGET_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct fuse_target t;
		struct err err = { 0 };

		assert_int_equal(fuse_options_parse_target(bad[i], &t, &err), -EINVAL);
		assert_true(err.msg[0] != '\0');
	}
	memset(longer, 'x', sizeof(longer));
	memcpy(longer, "h:/", 3);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(fuse_options_parse_target(longer, &(struct fuse_target){ 0 }, NULL),
			 -EINVAL);
}

/* Words of one line, cut at spaces in @line, and parsed. */
static int parse(char *line, bool helper, struct fuse_options *o, struct err *err)
{
	static char *argv[32];
	int argc = 0;

	for (char *w; (w = strsep(&line, " ")) != NULL;)
		argv[argc++] = w;
	argv[argc] = NULL;
	fuse_options_init(o);
	return helper ? fuse_options_parse_helper(argc, argv, o, err)
		      : fuse_options_parse(argc, argv, o, err);
}

static void test_options_in_any_place_and_form(void **state)
{
	char line[] = "-f h:/id --uid=7 --gid 0 dir --cache-size 8M --soft --timeout 3 --umask 027 "
		      "--attr-timeout 0.5 -o ro,allow_other,entry_timeout=2 --connections 5";
	struct fuse_options o;

	(void)state;
	assert_int_equal(parse(line, false, &o, NULL), 0);
	assert_string_equal(o.target.path, "/id");
	assert_string_equal(o.dir, "dir");
	assert_true(o.foreground && o.soft && o.read_only && o.allow_other && !o.no_map);
	assert_true(o.has_uid && o.has_gid && o.uid == 7 && o.gid == 0);
	assert_int_equal(o.cache_size, 8 << 20);
	assert_int_equal(o.timeout_s, 3);
	assert_int_equal(o.umask, 027);
	assert_int_equal(o.n_conns, 5);
	assert_true(o.attr_timeout == 0.5 && o.entry_timeout == 2.0 && o.negative_timeout == 1.0);
}

static void test_a_trace_stays_in_the_foreground(void **state)
{
	char line[] = "-d h:/id dir";
	struct fuse_options o;

	(void)state;
	assert_int_equal(parse(line, false, &o, NULL), 0);
	assert_true(o.trace && o.foreground);
}

static void test_by_name_there_is_no_target(void **state)
{
	char line[] = "--api http://x --workspace w dir";
	struct fuse_options o;

	(void)state;
	assert_int_equal(parse(line, false, &o, NULL), 0);
	assert_string_equal(o.workspace, "w");
	assert_string_equal(o.dir, "dir");
	assert_false(o.has_target);
}

static void test_wrong_lines_are_refused(void **state)
{
	static const char *const bad[] = {
		"h:/id",
		"dir",
		"h:/id dir more",
		"h:/id dir --uid",
		"h:/id dir --uid x",
		"h:/id dir --uid 4294967295",
		"h:/id dir --soft=1",
		"h:/id dir --cache-size 1K",
		"h:/id dir --cache-size M",
		"h:/id dir --connections 17",
		"h:/id dir --umask 8",
		"h:/id dir --attr-timeout -1",
		"h:/id dir --attr-timeout nan",
		"h:/id dir --frob",
		"h:/id dir -o frob",
		"h:/id dir -o",
		"h:/id dir -o uid",
		"--workspace w dir",
		"--api http://x h:/id dir",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct fuse_options o;
		struct err err = { 0 };
		char line[128];

		(void)snprintf(line, sizeof(line), "%s", bad[i]);
		assert_int_equal(parse(line, false, &o, &err), -EINVAL);
		assert_true(err.msg[0] != '\0');
	}
}

static void test_the_helper_skips_what_is_for_mount8(void **state)
{
	char line[] = "h:/id dir -s -n -t fuse.workspaced -o "
		      "rw,nosuid,_netdev,x-systemd.automount,soft,timeout=9,no_map";
	struct fuse_options o;

	(void)state;
	assert_int_equal(parse(line, true, &o, NULL), 0);
	assert_string_equal(o.dir, "dir");
	assert_true(o.soft && o.no_map && !o.read_only);
	assert_int_equal(o.timeout_s, 9);
}

static void test_the_helper_mounts_by_name(void **state)
{
	char line[] = "none dir -o api=http://x,workspace=w";
	struct fuse_options o;

	(void)state;
	assert_int_equal(parse(line, true, &o, NULL), 0);
	assert_string_equal(o.workspace, "w");
	assert_string_equal(o.dir, "dir");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets_are_read_in_every_form),
		cmocka_unit_test(test_targets_that_are_none_are_refused),
		cmocka_unit_test(test_options_in_any_place_and_form),
		cmocka_unit_test(test_a_trace_stays_in_the_foreground),
		cmocka_unit_test(test_by_name_there_is_no_target),
		cmocka_unit_test(test_wrong_lines_are_refused),
		cmocka_unit_test(test_the_helper_skips_what_is_for_mount8),
		cmocka_unit_test(test_the_helper_mounts_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
