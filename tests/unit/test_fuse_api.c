/* SPDX-License-Identifier: MIT */
/* Choosing a workspace from the control API's answer. */
#include "fuse-client/fuse_api.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/unit/unit.h"

static const char list[] =
	"{\"workspaces\":[{\"id\":\"i1\",\"name\":\"one\",\"nfs_url\":\"nfs://h:99/i1\"},"
	"{\"id\":\"i2\",\"name\":\"two\",\"nfs_url\":null},"
	"{\"id\":\"i3\",\"name\":\"twin\",\"nfs_url\":\"nfs://h:99/i3\"},"
	"{\"id\":\"i4\",\"name\":\"twin\",\"nfs_url\":\"nfs://h:99/i4\"},"
	"{\"id\":\"i5\",\"name\":null,\"nfs_url\":\"nfs://h:99/i5\"}],\"total\":5}";

static void test_by_name_or_id(void **state)
{
	static const struct {
		const char *wanted, *path;
	} good[] = { { "one", "/i1" }, { "i1", "/i1" }, { "i4", "/i4" }, { "i5", "/i5" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct fuse_target t;

		assert_int_equal(fuse_api_pick(list, strlen(list), good[i].wanted, &t, NULL), 0);
		assert_string_equal(t.path, good[i].path);
		assert_int_equal(t.port, 99);
	}
}

static void test_what_cannot_be_chosen_is_refused(void **state)
{
	static const struct {
		const char *body, *wanted;
		int rc;
	} bad[] = {
		{ list, "none", -ENOENT },
		{ list, "two", -ENOENT },
		{ list, "twin", -ENOTUNIQ },
		{ "{}", "one", -EBADMSG },
		{ "[]", "one", -EBADMSG },
		{ "<html>", "one", -EBADMSG },
		{ "{\"workspaces\":3}", "one", -EBADMSG },
		{ "{\"workspaces\":[1,null,\"x\"]}", "one", -ENOENT },
		{ "{\"workspaces\":[{\"id\":\"one\",\"nfs_url\":\"http://h/\"}]}", "one", -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct fuse_target t;
		struct err err = { 0 };

		assert_int_equal(
			fuse_api_pick(bad[i].body, strlen(bad[i].body), bad[i].wanted, &t, &err),
			bad[i].rc);
		assert_true(err.msg[0] != '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_name_or_id),
		cmocka_unit_test(test_what_cannot_be_chosen_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
