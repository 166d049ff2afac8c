/* SPDX-License-Identifier: MIT */
/* Archives: the parts without a worker.  What unpacking does is in tests/integration. */
#include "workspace/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/unit.h"

static void test_names_become_relative_paths(void **state)
{
	static const struct {
		const char *name, *want;
		enum arc_reason why;
	} cases[] = {
		{ "a", "a" },
		{ "./a//b/./c/", "a/b/c" },
		{ ".", "" },
		{ "./", "" },
		{ "", "" },
		{ "...", "..." },
		{ "a/..b", "a/..b" },
		{ "\xff\n \"", "\xff\n \"" },
		{ "/a", NULL, ARC_R_ABSOLUTE },
		{ "//", NULL, ARC_R_ABSOLUTE },
		{ "..", NULL, ARC_R_DOTDOT },
		{ "a/../b", NULL, ARC_R_DOTDOT },
		{ "a/..", NULL, ARC_R_DOTDOT },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char got[ARC_PATH_MAX];
		enum arc_reason why = ARC_R_NONE;
		int rc = arc_name_parse(cases[i].name, got, &why);

		assert_int_equal(rc, cases[i].want != NULL ? 0 : -EINVAL);
		assert_int_equal(why, cases[i].why);
		if (rc == 0)
			assert_string_equal(got, cases[i].want);
	}
}

static void test_long_names_are_refused_at_the_byte(void **state)
{
	char name[2 * ARC_PATH_MAX] = "", got[ARC_PATH_MAX];
	enum arc_reason why = ARC_R_NONE;

	(void)state;
	memset(name, 'n', 255);
	assert_int_equal(arc_name_parse(name, got, &why), 0);
	name[255] = 'n';
	assert_int_equal(arc_name_parse(name, got, &why), -EINVAL);
	assert_int_equal(why, ARC_R_NAME);
	for (size_t len = ARC_PATH_MAX - 3; len <= ARC_PATH_MAX + 3; len++) {
		for (size_t i = 0; i < len; i++)
			name[i] = i % 2 == 0 ? 'd' : '/';
		name[len] = '\0';
		if (arc_name_parse(name, got, &why) == 0)
			assert_true(strlen(got) < ARC_PATH_MAX && len <= ARC_PATH_MAX);
		else
			assert_true(len >= ARC_PATH_MAX - 1);
	}
}

static void test_links_that_lead_out(void **state)
{
	static const struct {
		const char *dir, *target;
		bool is_out;
	} cases[] = {
		{ "", "a", false },
		{ "", "..", true },
		{ "", "/etc", true },
		{ "a", "..", false },
		{ "a", "../..", true },
		{ "a/b", "../../c", false },
		{ "a/b", "../../../c", true },
		{ "", "a/../b", false },
		{ "", "a/../../b", true },
		{ "/a/", "../x", false },
		{ "", "./././", false },
		{ "a", "..//..", true },
		{ "", "...", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(arc_link_leads_out(cases[i].dir, cases[i].target),
				 cases[i].is_out);
}

static void test_notes_of_a_worker_are_checked(void **state)
{
	struct arc_note good = { .kind = ARC_NOTE_END, .rc = -EIO, .len = 3, .text = "abc" }, bad;

	(void)state;
	assert_true(arc_note_check(&good, ARC_NOTE_HEAD + 3));
	for (size_t n = 0; n <= sizeof(good); n++)
		if (n != ARC_NOTE_HEAD + 3)
			assert_false(arc_note_check(&good, n));
	bad = good;
	bad.kind = ARC_NOTE_N_KINDS;
	assert_false(arc_note_check(&bad, ARC_NOTE_HEAD + 3));
	bad = good;
	bad.rc = 1;
	assert_false(arc_note_check(&bad, ARC_NOTE_HEAD + 3));
	bad.rc = INT32_MIN;
	assert_false(arc_note_check(&bad, ARC_NOTE_HEAD + 3));
	bad = good;
	bad.reason = ARC_N_REASONS;
	assert_false(arc_note_check(&bad, ARC_NOTE_HEAD + 3));
	bad = good;
	bad.len = UINT32_MAX;
	assert_false(arc_note_check(&bad, ARC_NOTE_HEAD + 3));
}

/* A reader of tar archives agrees with what was written. */
static void test_a_tar_head_is_read_back(void **state)
{
	uint8_t tar[4 * ARC_TAR_BLOCK] = { 0 };
	struct archive *a = archive_read_new();
	struct archive_entry *e;

	(void)state;
	arc_tar_head(tar, ARC_META_NAME, 5, 1234567890);
	memcpy(tar + ARC_TAR_BLOCK, "hello", 5);
	assert_int_equal(archive_read_support_format_tar(a), ARCHIVE_OK);
	assert_int_equal(archive_read_open_memory(a, tar, sizeof(tar)), ARCHIVE_OK);
	assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_OK);
	assert_string_equal(archive_entry_pathname(e), ARC_META_NAME);
	assert_int_equal(archive_entry_size(e), 5);
	assert_int_equal(archive_entry_mtime(e), 1234567890);
	assert_int_equal(archive_entry_filetype(e), AE_IFREG);
	assert_int_equal(archive_read_next_header(a, &e), ARCHIVE_EOF);
	assert_int_equal(archive_read_free(a), ARCHIVE_OK);
}

static void test_formats_have_names(void **state)
{
	(void)state;
	for (int i = 0; i < ARC_N_FORMATS; i++)
		assert_int_equal(arc_format_by_name(arc_format_names[i]), i);
	assert_int_equal(arc_format_by_name("rar"), -EINVAL);
	for (unsigned i = 1; i < ARC_N_REASONS; i++)
		assert_true(arc_reason_text(i)[0] != '\0');
	assert_string_equal(arc_reason_text(UINT32_MAX), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_become_relative_paths),
		cmocka_unit_test(test_long_names_are_refused_at_the_byte),
		cmocka_unit_test(test_links_that_lead_out),
		cmocka_unit_test(test_notes_of_a_worker_are_checked),
		cmocka_unit_test(test_a_tar_head_is_read_back),
		cmocka_unit_test(test_formats_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
