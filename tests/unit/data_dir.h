/* SPDX-License-Identifier: MIT */
/* A temporary data directory for tests of the store and of what stands on it. */
#ifndef TESTS_UNIT_DATA_DIR_H
#define TESTS_UNIT_DATA_DIR_H

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/unit.h"
#include "workspace/path.h"

struct data_dir {
	char path[64];
	int fd; /* of it */
};

static inline int data_dir_make(void **state)
{
	struct data_dir *d = calloc(1, sizeof(*d));
	const char *tmp = getenv("TMPDIR");

	if (d == NULL)
		return -1;
	(void)snprintf(d->path, sizeof(d->path), "%.40s/ws-test.XXXXXX",
		       tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(d->path) == NULL)
		return -1;
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = d;
	return d->fd < 0 ? -1 : 0;
}

static inline int data_dir_remove(void **state)
{
	struct data_dir *d = *state;
	auto_close int parent = openat(d->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = path_remove_tree(parent, strrchr(d->path, '/') + 1, NULL);

	(void)close(d->fd);
	free(d);
	return rc;
}

/* Changes the database behind the store's back. */
static inline void data_dir_sql(const struct data_dir *d, const char *sql)
{
	char path[96];
	sqlite3 *db = NULL;

	(void)snprintf(path, sizeof(path), "%s/workspace.db", d->path);
	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

#define TEST_IN_DATA_DIR(f) cmocka_unit_test_setup_teardown(f, data_dir_make, data_dir_remove)

#endif
