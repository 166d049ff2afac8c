/* SPDX-License-Identifier: MIT */
/* Log lines: which of them are written, and that no client text can forge one. */
#include "base/log.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit.h"

static char captured[8192];

static FILE *capture_file;
static int saved_stderr;

static void capture_begin(void)
{
	capture_file = tmpfile();
	assert_non_null(capture_file);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(dup2(fileno(capture_file), STDERR_FILENO) >= 0);
}

static const char *capture_end(void)
{
	size_t n;

	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	close(saved_stderr);
	rewind(capture_file);
	n = fread(captured, 1, sizeof(captured) - 1, capture_file);
	captured[n] = '\0';
	(void)fclose(capture_file);
	return captured;
}

static int reset_log(void **state)
{
	(void)state;
	return log_configure("info", NULL);
}

static void test_spec_turns_on_what_it_names(void **state)
{
	static const struct {
		const char *spec;
		bool warn, info, debug_nfs, debug_http, debug_rpc;
	} cases[] = {
		{ "error", false, false, false, false, false },
		{ "warn", true, false, false, false, false },
		{ "info", true, true, false, false, false },
		{ "", true, true, false, false, false },
		{ "debug", true, true, true, true, false },
		{ "debug,rpc", true, true, false, false, true },
		{ "debug,nfs,http", true, true, true, true, false },
		{ "nfs", true, true, true, false, false },
		{ "warn,nfs", true, false, true, false, false },
		{ "json, http", true, true, false, true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(log_configure(cases[i].spec, NULL), 0);
		assert_true(log_is_on(LOG_ERROR, LOG_NFS));
		assert_int_equal(log_is_on(LOG_WARN, LOG_NFS), cases[i].warn);
		assert_int_equal(log_is_on(LOG_INFO, LOG_NFS), cases[i].info);
		assert_int_equal(log_is_on(LOG_DEBUG, LOG_NFS), cases[i].debug_nfs);
		assert_int_equal(log_is_on(LOG_DEBUG, LOG_HTTP), cases[i].debug_http);
		assert_int_equal(log_is_on(LOG_DEBUG, LOG_RPC), cases[i].debug_rpc);
	}
}

static void test_unknown_word_is_refused_and_changes_nothing(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(log_configure("warn", NULL), 0);
	assert_int_equal(log_configure("debug,nsf", &e), -EINVAL);
	assert_non_null(strstr(e.msg, "'nsf'"));
	assert_non_null(strstr(e.msg, "broker"));
	assert_false(log_is_on(LOG_INFO, LOG_MAIN));
	assert_false(log_is_on(LOG_DEBUG, LOG_MAIN));
}

static void test_toggle_turns_all_on_and_goes_back(void **state)
{
	(void)state;
	assert_int_equal(log_configure("nfs", NULL), 0);
	log_toggle_debug();
	assert_true(log_is_on(LOG_DEBUG, LOG_RPC));
	log_toggle_debug();
	assert_false(log_is_on(LOG_DEBUG, LOG_RPC));
	assert_true(log_is_on(LOG_DEBUG, LOG_NFS));
}

static void test_line_has_time_level_topic_and_message(void **state)
{
	char rest[128];
	const char *line;

	(void)state;
	capture_begin();
	log_warn(LOG_HTTP, "slow request path=%s ms=%d", "/x", 12);
	log_debug(LOG_HTTP, "not asked for");
	line = capture_end();
	assert_int_equal(sscanf(line, "%*d-%*d-%*dT%*d:%*d:%*d.%*6d+00:00 %127[^\n]", rest), 1);
	assert_string_equal(rest, "warn http slow request path=/x ms=12");
	assert_string_equal(strchr(line, '\n'), "\n");
}

static void test_control_characters_never_make_a_second_line(void **state)
{
	(void)state;
	capture_begin();
	log_error(LOG_MAIN, "bad name=%s", "a\nb\r\033[2J\x7f");
	assert_non_null(strstr(capture_end(), "name=a?b??[2J?\n"));
	assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
}

static void test_an_overlong_message_is_cut_to_one_line(void **state)
{
	static char longer[5000];

	(void)state;
	memset(longer, 'y', sizeof(longer) - 1);
	for (int json = 0; json < 2; json++) {
		assert_int_equal(log_configure(json ? "json" : "info", NULL), 0);
		capture_begin();
		log_error(LOG_MAIN, "%s", longer);
		assert_true(strlen(capture_end()) <= 2048);
		assert_ptr_equal(strchr(captured, '\n'), captured + strlen(captured) - 1);
	}
}

static void test_json_lines_parse_whatever_the_message_holds(void **state)
{
	static char quotes[3000];
	static const struct {
		const char *msg, *read_back; /* NULL: only that it parses */
	} cases[] = {
		{ "plain key=1", "plain key=1" },
		{ "quote \" and \\ here", "quote \" and \\ here" },
		{ "line\nbreak", "line?break" },
		{ "caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xf0\x9f\x98\x80" },
		{ "broken \xc3( \xff \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80", NULL },
		{ "cut \xe2\x82", NULL },
		{ quotes, NULL },
	};

	(void)state;
	memset(quotes, '"', sizeof(quotes) - 1);
	assert_int_equal(log_configure("json", NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *j;

		capture_begin();
		log_info(LOG_STORE, "%s", cases[i].msg);
		j = json_loads(capture_end(), JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(j);
		assert_string_equal(json_string_value(json_object_get(j, "level")), "info");
		assert_string_equal(json_string_value(json_object_get(j, "topic")), "store");
		if (cases[i].read_back != NULL)
			assert_string_equal(json_string_value(json_object_get(j, "message")),
					    cases[i].read_back);
		json_decref(j);
	}
}

static void test_logging_leaves_errno_alone(void **state)
{
	(void)state;
	capture_begin();
	errno = EXDEV;
	log_error(LOG_MAIN, "x");
	assert_int_equal(errno, EXDEV);
	(void)capture_end();
}

static void test_escape_gives_one_word_that_cannot_be_mistaken(void **state)
{
	static const struct {
		const char *src;
		size_t n;
		const char *want;
	} cases[] = {
		{ "a.txt", 5, "a.txt" },
		{ "a b", 3, "a\\x20b" },
		{ "k=v", 3, "k\\x3dv" },
		{ "q\"\\", 3, "q\\x22\\x5c" },
		{ "a\n\0b", 4, "a\\x0a\\x00b" },
		{ "\x7f\xc3\xa9", 3, "\\x7f\\xc3\\xa9" },
		{ "", 0, "" },
	};
	char dst[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_string_equal(log_escape(dst, sizeof(dst), cases[i].src, cases[i].n),
				    cases[i].want);
}

static void test_escape_is_cut_between_escapes_and_always_ended(void **state)
{
	char dst[16];

	(void)state;
	for (size_t n = 2; n <= sizeof(dst); n++) {
		memset(dst, 'Z', sizeof(dst));
		assert_true(strlen(log_escape(dst, n, "a\n\n\n\n", 5)) == 1 + (n - 2) / 4 * 4);
		if (n < sizeof(dst))
			assert_int_equal(dst[n], 'Z');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_spec_turns_on_what_it_names, reset_log),
		cmocka_unit_test_setup(test_unknown_word_is_refused_and_changes_nothing, reset_log),
		cmocka_unit_test_setup(test_toggle_turns_all_on_and_goes_back, reset_log),
		cmocka_unit_test_setup(test_line_has_time_level_topic_and_message, reset_log),
		cmocka_unit_test_setup(test_control_characters_never_make_a_second_line, reset_log),
		cmocka_unit_test_setup(test_an_overlong_message_is_cut_to_one_line, reset_log),
		cmocka_unit_test_setup(test_json_lines_parse_whatever_the_message_holds, reset_log),
		cmocka_unit_test_setup(test_logging_leaves_errno_alone, reset_log),
		cmocka_unit_test_setup(test_escape_gives_one_word_that_cannot_be_mistaken,
				       reset_log),
		cmocka_unit_test_setup(test_escape_is_cut_between_escapes_and_always_ended,
				       reset_log),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
