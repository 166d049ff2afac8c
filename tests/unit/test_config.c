/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"

#define SECRET "hunter2-never-shown"

/* @env as for config_load_env(), which has the type of environ(7) */
static struct config *config_of(const char *const *env)
{
	struct config *c;
	struct err err = { 0 };

	assert_int_equal(config_new(&c), 0);
	if (config_load_env(c, (char *const *)env, &err) < 0)
		fail_msg("%s", err.msg);
	return c;
}

/* Sets @ret_msg (256 bytes) to the sentence, or to "" on success. */
static int try_env(const char *entry, char *ret_msg)
{
	const char *env[] = { entry, NULL };
	struct err err = { 0 };
	struct config *c;
	int rc;

	assert_int_equal(config_new(&c), 0);
	rc = config_load_env(c, (char *const *)env, &err);
	if (rc == 0)
		rc = config_check(c, &err);
	(void)snprintf(ret_msg, 256, "%s", rc < 0 ? err.msg : "");
	config_free(c);
	return rc;
}

static int load_text(struct config *c, const char *text, size_t len, struct err *err)
{
	char path[] = "/tmp/test_config.XXXXXX";
	int fd = mkstemp(path);
	int rc;

	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, text, len), len);
	assert_int_equal(close(fd), 0);
	rc = config_load_file(c, path, err);
	(void)unlink(path);
	return rc;
}

static char *printed(void (*print)(FILE *, const struct config *), const struct config *c)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	print(f, c);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* ---- the names and what they may be ------------------------------------- */

/* One good value for every name that clients' scripts may set. */
static const char *const good[] = {
	"WORKSPACE_HTTP_HOST=127.0.0.1",
	"WORKSPACE_HTTP_HOST=::1",
	"WORKSPACE_HTTP_PORT=0",
	"WORKSPACE_HTTP_PORT=65535",
	"WORKSPACE_HTTP_SOCKET=/run/workspaced.sock",
	"WORKSPACE_GRPC_HOST=0.0.0.0",
	"WORKSPACE_GRPC_PORT=9090",
	"WORKSPACE_DATABASE_URL=sqlite:workspace.db",
	"WORKSPACE_DATABASE_URL=sqlite://sub/workspace.db?mode=rwc",
	"WORKSPACE_DATABASE_URL=sqlite:///var/lib/w.db",
	"WORKSPACE_DATA_DIR=/var/lib/workspace",
	"WORKSPACE_WORKSPACE_DIR=/var/lib/workspace",
	"WORKSPACE_WORKSPACE_HOST_DIR=/srv",
	"WORKSPACE_BASE_IMAGE=debian:12",
	"WORKSPACE_DOCKER_HOST=unix:///var/run/docker.sock",
	"WORKSPACE_DOCKER_SOCKET=/var/run/docker.sock",
	"WORKSPACE_DOCKER_NETWORK=bridge",
	"WORKSPACE_SANDBOX_EXTRA_HOSTS=a:10.0.0.1",
	"WORKSPACE_AGENT_TIMEOUT=30",
	"WORKSPACE_AGENT_SERVER_ADDR=10.0.0.1:7000",
	"WORKSPACE_MAX_IDLE_TIME=0",
	"WORKSPACE_NFS_MODE=embedded",
	"WORKSPACE_NFS_PORT=2049",
	"WORKSPACE_NFS_HOST=files.example.org",
	"WORKSPACE_NFS_BIND=127.0.0.53",
	"WORKSPACE_NFS_THREADS=2",
	"WORKSPACE_NFS_EXPORTS=10.0.0.0/8(ro) 192.168.1.5 mode=match",
	"WORKSPACE_NFS_METADATA_SYNC=yes",
	"WORKSPACE_MCP_MODE=disabled",
	"WORKSPACE_MCP_PATH=/mcp",
	"WORKSPACE_MCP_PROFILE=full",
	"WORKSPACE_API_KEY=" SECRET,
	"WORKSPACE_API_KEY=ci:" SECRET ", dev:other",
	"WORKSPACE_API_KEY=@/etc/workspaced.keys",
	"WORKSPACE_SERVICE_USER=nobody",
	"WORKSPACE_OWNER=0:0",
	"WORKSPACE_LOCAL_UIDS=1000, 1001",
	"WORKSPACE_LOCAL_UIDS=*",
	"WORKSPACE_ALLOWED_ORIGINS=https://a.example.org, http://localhost:3000",
	"WORKSPACE_ALLOW_UNAUTHENTICATED=1",
	"WORKSPACE_PTY_REQUIRE_KEY=false",
	"WORKSPACE_LOG=info",
	"WORKSPACE_MIN_SANDBOX_TIER=namespace",
	"WORKSPACE_MAX_SANDBOXES=5",
	"WORKSPACE_TEMPLATES=default",
	"WORKSPACE_SANDBOX_NETWORK=off",
	"WORKSPACE_ALLOW_NETWORK=no",
	"WORKSPACE_SANDBOX_MEMORY=512M",
	"WORKSPACE_SANDBOX_CPU=0.5",
	"WORKSPACE_SANDBOX_PIDS=100",
	"WORKSPACE_ON_RESTART=stop",
	"WORKSPACE_HTTP_PORT=", /* empty is as none */
	"PATH=/bin",
};

static void test_every_documented_name_takes_a_good_value(void **state)
{
	char msg[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		if (try_env(good[i], msg) != 0)
			fail_msg("%s: %s", good[i], msg);
	}
}

/* The entry, and words that the sentence must have. */
static const char *const bad[][2] = {
	{ "WORKSPACE_HTTP_PORT=65536", "0 to 65535" },
	{ "WORKSPACE_HTTP_PORT=-1", "0 to 65535" },
	{ "WORKSPACE_HTTP_PORT=8080x", "0 to 65535" },
	{ "WORKSPACE_HTTP_PORT= 8080", "0 to 65535" },
	{ "WORKSPACE_HTTP_HOST=localhost", "in numbers" },
	{ "WORKSPACE_NFS_BIND=10.0.0", "in numbers" },
	{ "WORKSPACE_DATABASE_URL=postgres://db", "sqlite:PATH" },
	{ "WORKSPACE_DATABASE_URL=sqlite://", "sqlite:PATH" },
	{ "WORKSPACE_OWNER=1000", "UID:GID" },
	{ "WORKSPACE_OWNER=1000:4294967295", "UID:GID" },
	{ "WORKSPACE_LOCAL_UIDS=root", "user numbers" },
	{ "WORKSPACE_LOCAL_UIDS=1000,,1001", "user numbers" },
	{ "WORKSPACE_ALLOW_UNAUTHENTICATED=maybe", "1 or 0" },
	{ "WORKSPACE_LOG=loud", "WORKSPACE_LOG" },
	{ "WORKSPACE_API_KEY=a:" SECRET ",,", "comma list" },
	{ "WORKSPACE_API_KEY=a b" SECRET, "printable" },
	{ "WORKSPACE_API_KEY=" SECRET ":", "comma list" },
	{ "WORKSPACE_API_KEY=@", "file" },
	{ "WORKSPACE_ALLOWED_ORIGINS=https://a.example.org/", "without a path" },
	{ "WORKSPACE_ALLOWED_ORIGINS=*", "origins" },
	{ "WORKSPACE_NFS_MODE=kernel", "embedded" },
	{ "WORKSPACE_NFS_EXPORTS=10.0.0.1/8", "WORKSPACE_NFS_EXPORTS" },
	{ "WORKSPACE_NFS_EXPORTS=10.0.0.0/8,10.1.0.0/16", "spaces between networks" },
	{ "WORKSPACE_MCP_PROFILE=developer|full", "executor|developer|full" },
	{ "WORKSPACE_MCP_PROFILE=dev", "executor|developer|full" },
	{ "WORKSPACE_MCP_PATH=mcp", "begins with '/'" },
	{ "WORKSPACE_SANDBOX_MEMORY=512MB", "K, M, G or T" },
	{ "WORKSPACE_SANDBOX_MEMORY=M", "K, M, G or T" },
	{ "WORKSPACE_SANDBOX_CPU=1.2.3", "decimal" },
	{ "WORKSPACE_SANDBOX_CPU=.5", "decimal" },
};

static void test_a_bad_value_is_one_sentence_without_the_value(void **state)
{
	char msg[256], name[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (try_env(bad[i][0], msg) == 0)
			fail_msg("%s was taken", bad[i][0]);
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(bad[i][0], "="), bad[i][0]);
		if (strstr(msg, name) == NULL || strstr(msg, bad[i][1]) == NULL ||
		    strchr(msg, '\n'))
			fail_msg("%s: %s", bad[i][0], msg);
		assert_null(strstr(msg, SECRET));
	}
}

static void test_the_nearest_name_is_found(void **state)
{
	(void)state;
	assert_string_equal(config_nearest("WORKSPACE_HTTP_PROT"), "WORKSPACE_HTTP_PORT");
	assert_string_equal(config_nearest("WORKSPACE_APIKEY"), "WORKSPACE_API_KEY");
	assert_string_equal(config_nearest("NFS_EXPORT"), "WORKSPACE_NFS_EXPORTS");
	assert_null(config_nearest("WORKSPACE_SOMETHING_ELSE"));
	assert_null(config_nearest("PATH"));
	assert_null(config_nearest("WORKSPACE_FOO"));
}

/* ---- where a value comes from ------------------------------------------- */

static const char file_text[] = "# a comment\n"
				"\n"
				"  WORKSPACE_HTTP_PORT = 81 \r\n"
				"WORKSPACE_NFS_PORT=\"82\"\n"
				"WORKSPACE_NFS_HOST='a=b'\n"
				"WORKSPACE_MCP_PATH=\n";

static void test_a_file_gives_values_and_the_environment_wins(void **state)
{
	const char *env[] = { "WORKSPACE_NFS_PORT=83", NULL };
	struct err err = { 0 };
	struct config *c;

	(void)state;
	assert_int_equal(config_new(&c), 0);
	assert_int_equal(load_text(c, file_text, strlen(file_text), &err), 0);
	assert_int_equal(config_load_env(c, (char *const *)env, &err), 0);
	assert_int_equal(config_uint(c, CFG_HTTP_PORT), 81);
	assert_int_equal(config_uint(c, CFG_NFS_PORT), 83);
	assert_string_equal(config_text(c, CFG_NFS_HOST), "a=b");
	assert_string_equal(config_text(c, CFG_MCP_PATH), "/mcp");
	assert_null(config_text(c, CFG_API_KEY));
	config_free(c);
}

static const char *const bad_files[][2] = {
	{ "WORKSPACE_HTTP_PORT=1\nWORKSPACE_HTTP_PROT=2\n",
	  "line 2: 'WORKSPACE_HTTP_PROT' is no setting" },
	{ "WORKSPACE_HTTP_PROT=2\n", "nearest one is WORKSPACE_HTTP_PORT" },
	{ "PATH=/bin\n", "is no setting" },
	{ "WORKSPACE_HTTP_PORT=1\nWORKSPACE_HTTP_PORT=1\n", "given twice" },
	{ "WORKSPACE_HTTP_PORT\n", "NAME=value" },
	{ "export WORKSPACE_HTTP_PORT=1\n", "leave out 'export'" },
	{ "WORKSPACE_SOMETHING_ELSE=1\n", "--help lists them" },
	{ "\n\nWORKSPACE_API_KEY=x " SECRET "\n", "line 3: WORKSPACE_API_KEY" },
};

static void test_a_bad_file_is_refused_by_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		struct err err = { 0 };
		struct config *c;

		assert_int_equal(config_new(&c), 0);
		assert_true(load_text(c, bad_files[i][0], strlen(bad_files[i][0]), &err) < 0);
		if (strstr(err.msg, bad_files[i][1]) == NULL)
			fail_msg("'%s': %s", bad_files[i][0], err.msg);
		assert_null(strstr(err.msg, SECRET));
		config_free(c);
	}
}

static void test_a_nul_byte_in_a_file_is_refused(void **state)
{
	static const char text[] = "WORKSPACE_HTTP_PORT=1\n\0WORKSPACE_NFS_PORT=2\n";
	struct err err = { 0 };
	struct config *c;

	(void)state;
	assert_int_equal(config_new(&c), 0);
	assert_true(load_text(c, text, sizeof(text) - 1, &err) < 0);
	config_free(c);
}

static void test_a_missing_file_is_an_error(void **state)
{
	struct err err = { 0 };
	struct config *c;

	(void)state;
	assert_int_equal(config_new(&c), 0);
	assert_true(config_load_file(c, "/nonexistent/workspaced.conf", &err) < 0);
	assert_non_null(strstr(err.msg, "/nonexistent/workspaced.conf"));
	config_free(c);
}

static void test_two_names_of_the_data_directory_must_agree(void **state)
{
	const char *other_name[] = { "WORKSPACE_WORKSPACE_DIR=/a", NULL };
	const char *same[] = { "WORKSPACE_WORKSPACE_DIR=/a", "WORKSPACE_DATA_DIR=/a", NULL };
	const char *different[] = { "WORKSPACE_WORKSPACE_DIR=/a", "WORKSPACE_DATA_DIR=/b", NULL };
	struct err err = { 0 };
	struct config *c;

	(void)state;
	c = config_of(other_name);
	assert_string_equal(config_text(c, CFG_DATA_DIR), "/a");
	config_free(c);
	c = config_of(same);
	assert_string_equal(config_text(c, CFG_DATA_DIR), "/a");
	config_free(c);
	assert_int_equal(config_new(&c), 0);
	assert_true(config_load_env(c, (char *const *)different, &err) < 0);
	assert_non_null(strstr(err.msg, "say different things"));
	config_free(c);
}

/* ---- what only shows together ------------------------------------------- */

static const struct {
	const char *env[4];
	bool is_ok;
} binds[] = {
	{ { "WORKSPACE_HTTP_HOST=127.8.8.8", "WORKSPACE_NFS_BIND=::1" }, true },
	{ { "WORKSPACE_HTTP_HOST=::ffff:127.0.0.1" }, true },
	{ { "WORKSPACE_HTTP_HOST=0.0.0.0" }, false },
	{ { "WORKSPACE_HTTP_HOST=::" }, false },
	{ { "WORKSPACE_HTTP_HOST=10.1.2.3", "WORKSPACE_API_KEY=k" }, true },
	{ { "WORKSPACE_HTTP_HOST=10.1.2.3", "WORKSPACE_NFS_EXPORTS=10.0.0.0/8" }, false },
	{ { "WORKSPACE_HTTP_HOST=10.1.2.3", "WORKSPACE_ALLOW_UNAUTHENTICATED=1" }, true },
	{ { "WORKSPACE_NFS_BIND=0.0.0.0" }, false },
	{ { "WORKSPACE_NFS_BIND=0.0.0.0", "WORKSPACE_API_KEY=k" }, false },
	{ { "WORKSPACE_NFS_BIND=0.0.0.0", "WORKSPACE_NFS_EXPORTS=10.0.0.0/8" }, true },
	{ { "WORKSPACE_NFS_BIND=0.0.0.0", "WORKSPACE_ALLOW_UNAUTHENTICATED=1" }, true },
};

static void test_an_open_address_needs_protection(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(binds); i++) {
		struct config *c = config_of(binds[i].env);
		struct err err = { 0 };
		int rc = config_check(c, &err);

		if ((rc == 0) != binds[i].is_ok)
			fail_msg("case %zu: %d %s", i, rc, err.msg);
		if (rc < 0)
			assert_non_null(strstr(err.msg, "ALLOW_UNAUTHENTICATED"));
		config_free(c);
	}
}

static void test_local_uids_hold_root_and_ourselves(void **state)
{
	const char *env[] = { "WORKSPACE_LOCAL_UIDS=7,8", NULL };
	const char *all[] = { "WORKSPACE_ALLOW_UNAUTHENTICATED=1", NULL };
	struct config *c = config_of(env);
	struct peer_uids set;

	(void)state;
	config_local_uids(c, &set);
	assert_true(peer_uids_allow(&set, 0));
	assert_true(peer_uids_allow(&set, geteuid()));
	assert_true(peer_uids_allow(&set, 8));
	assert_false(peer_uids_allow(&set, 424242));
	config_free(c);
	c = config_of(all);
	config_local_uids(c, &set);
	assert_true(peer_uids_allow(&set, 424242));
	config_free(c);
}

/* ---- keys --------------------------------------------------------------- */

static void test_keys_come_from_a_list_or_a_file(void **state)
{
	char path[] = "/tmp/test_config.XXXXXX", entry[64];
	const char *listed[] = { "WORKSPACE_API_KEY=one, name:two", NULL };
	const char *in_file[] = { entry, NULL };
	struct config *c = config_of(listed);
	struct config_list keys;
	struct err err = { 0 };
	int fd;

	(void)state;
	assert_int_equal(config_api_keys(c, &keys, &err), 0);
	assert_int_equal(keys.n, 2);
	assert_string_equal(keys.item[1], "name:two");
	config_list_free(&keys);
	config_free(c);

	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "one\nname:two\n", 13), 13);
	(void)snprintf(entry, sizeof(entry), "WORKSPACE_API_KEY=@%s", path);
	c = config_of(in_file);
	assert_int_equal(config_api_keys(c, &keys, &err), 0);
	assert_int_equal(keys.n, 2);
	assert_string_equal(keys.item[0], "one");
	config_list_free(&keys);

	assert_int_equal(pwrite(fd, "a b:" SECRET ",", 5 + strlen(SECRET), 0), 5 + strlen(SECRET));
	assert_true(config_api_keys(c, &keys, &err) < 0);
	assert_null(strstr(err.msg, SECRET));
	assert_int_equal(keys.n, 0);
	(void)unlink(path);
	assert_true(config_api_keys(c, &keys, &err) < 0);
	assert_non_null(strstr(err.msg, "WORKSPACE_API_KEY"));
	(void)close(fd);
	config_free(c);
}

/* ---- what is printed ---------------------------------------------------- */

static void test_printed_values_have_no_secret(void **state)
{
	const char *env[] = { "WORKSPACE_API_KEY=" SECRET, "WORKSPACE_HTTP_PORT=81", NULL };
	struct config *c = config_of(env);
	auto_free char *text = printed(config_print_values, c);

	(void)state;
	assert_null(strstr(text, SECRET));
	assert_non_null(strstr(text, "# environment, not shown: WORKSPACE_API_KEY\n"));
	assert_non_null(strstr(text, "# environment:\nWORKSPACE_HTTP_PORT=81\n"));
	assert_non_null(strstr(text, "# default:\nWORKSPACE_NFS_PORT=2049\n"));
	assert_non_null(strstr(text, "# unset: WORKSPACE_LOCAL_UIDS\n"));
	config_free(c);
}

static void test_printed_values_can_be_read_back(void **state)
{
	const char *env[] = { "WORKSPACE_HTTP_PORT=81", "WORKSPACE_NFS_HOST=\"a b\"",
			      "WORKSPACE_DATA_DIR= /x ", NULL };
	struct config *c = config_of(env), *again;
	auto_free char *text = printed(config_print_values, c);
	struct err err = { 0 };

	(void)state;
	assert_int_equal(config_new(&again), 0);
	if (load_text(again, text, strlen(text), &err) < 0)
		fail_msg("%s", err.msg);
	for (int i = 0; i < CFG_N; i++) {
		if (config_text(c, i) == NULL)
			assert_null(config_text(again, i));
		else
			assert_string_equal(config_text(again, i), config_text(c, i));
	}
	config_free(again);
	config_free(c);
}

static void print_docs(FILE *out, const struct config *c)
{
	(void)c;
	config_print_docs(out);
}

/* The page is written by hand around the table: `workspaced --print-config-docs` prints the table
 * anew. */
static void test_the_docs_have_the_table_of_today(void **state)
{
	auto_free char *table = printed(print_docs, NULL);
	auto_free char *page = NULL;
	struct err err = { 0 };
	size_t len;

	(void)state;
	if (io_read_file(AT_FDCWD, "docs/configuration.md", 1u << 20, &page, &len, &err) < 0)
		fail_msg("run from the top of the tree: %s", err.msg);
	if (strstr(page, table) == NULL)
		fail_msg("docs/configuration.md is not what `workspaced --print-config-docs` "
			 "prints");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_documented_name_takes_a_good_value),
		cmocka_unit_test(test_a_bad_value_is_one_sentence_without_the_value),
		cmocka_unit_test(test_the_nearest_name_is_found),
		cmocka_unit_test(test_a_file_gives_values_and_the_environment_wins),
		cmocka_unit_test(test_a_bad_file_is_refused_by_line),
		cmocka_unit_test(test_a_nul_byte_in_a_file_is_refused),
		cmocka_unit_test(test_a_missing_file_is_an_error),
		cmocka_unit_test(test_two_names_of_the_data_directory_must_agree),
		cmocka_unit_test(test_an_open_address_needs_protection),
		cmocka_unit_test(test_local_uids_hold_root_and_ourselves),
		cmocka_unit_test(test_keys_come_from_a_list_or_a_file),
		cmocka_unit_test(test_printed_values_have_no_secret),
		cmocka_unit_test(test_printed_values_can_be_read_back),
		cmocka_unit_test(test_the_docs_have_the_table_of_today),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
