/* SPDX-License-Identifier: MIT */
/* A registry with one workspace in a temporary data directory, and an inode cache over it. */
#ifndef TESTS_UNIT_WS_FIXTURE_H
#define TESTS_UNIT_WS_FIXTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/unit.h"
#include "workspace/fileops.h"
#include "workspace/inode.h"
#include "workspace/inode_hints.h"
#include "workspace/path.h"
#include "workspace/store.h"
#include "workspace/workspace.h"

struct ws_fixture {
	char dir[64];
	struct store *store;
	struct ws_registry *registry;
	struct inode_hints *hints; /* NULL when running as root */
	struct inode_cache *inodes;
	struct workspace *ws;
	struct inode *root;
	struct fileops owner, other;
	int files; /* the workspace's folder, as a local process sees it */
};

/* The broker's work, done by the test itself where it runs as root; else keys go by the hints. */
static inline int fixture_open_handle(void *arg, const struct inode_key *key)
{
	struct ws_fixture *f = arg;
	struct {
		struct file_handle h;
		uint8_t room[INODE_HANDLE_MAX];
	} kh;
	int fd;

	kh.h.handle_bytes = key->len;
	kh.h.handle_type = key->htype;
	memcpy(kh.h.f_handle, key->bytes, key->len);
	fd = open_by_handle_at(f->files, &kh.h, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static inline void fixture_open_cache(struct ws_fixture *f, size_t max_fds)
{
	struct inode_cache_options o = {
		.registry = f->registry,
		.max_fds = max_fds,
		.use_kernel_handles = geteuid() == 0,
		.open_handle = fixture_open_handle,
		.arg = f,
		.hints = f->hints,
	};

	assert_int_equal(inode_cache_new(&o, &f->inodes, NULL), 0);
	assert_int_equal(inode_root(f->inodes, f->ws, &f->root), 0);
	f->owner =
		(struct fileops){ .inodes = f->inodes, .acts_as_owner = true, .may_block = true };
	f->other =
		(struct fileops){ .inodes = f->inodes, .acts_as_owner = false, .may_block = true };
}

static inline void fixture_close_cache(struct ws_fixture *f)
{
	inode_unref(f->inodes, f->root);
	inode_cache_free(f->inodes);
}

static inline void fixture_open(struct ws_fixture *f)
{
	struct ws_registry_options o = { .data_dir = f->dir, .owner_uid = 1000, .owner_gid = 1000 };
	struct ws_create c = { .name = "unit" };
	struct err err = { 0 };

	memset(f->dir, 0, sizeof(f->dir));
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/ws-unit.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)umask(0);
	assert_int_equal(store_open(f->dir, NULL, &f->store, &err), 0);
	assert_int_equal(ws_registry_open(f->store, &o, &f->registry, &err), 0);
	assert_int_equal(ws_create(f->registry, &c, &f->ws, &err), 0);
	f->hints = NULL;
	if (geteuid() != 0)
		assert_int_equal(inode_hints_open(f->store, &f->hints, &err), 0);
	f->files = open(path_proc((char[PATH_PROC_LEN]){ 0 }, f->ws->root_fd),
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f->files >= 0);
	fixture_open_cache(f, 1000);
}

static inline void fixture_close(struct ws_fixture *f)
{
	struct err err = { 0 };

	fixture_close_cache(f);
	if (f->hints != NULL)
		inode_hints_close(f->hints);
	(void)close(f->files);
	workspace_unref(f->ws);
	ws_registry_close(f->registry);
	store_close(f->store);
	assert_int_equal(chdir("/tmp"), 0);
	assert_int_equal(path_remove_tree(AT_FDCWD, f->dir + 5, &err), 0);
}

/* A local process writes a file in the workspace. */
static inline void fixture_local_file(struct ws_fixture *f, const char *name, const char *text,
				      mode_t mode)
{
	int fd = openat(f->files, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

/* For cmocka: *state is a fixture of the test's own. */
static inline int fixture_setup(void **state)
{
	struct ws_fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	fixture_open(f);
	*state = f;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

static inline struct inode *fixture_lookup(struct ws_fixture *f, const char *name)
{
	struct inode *ino = NULL;

	assert_int_equal(fileops_lookup(&f->owner, f->root, name, &ino), 0);
	return ino;
}

#endif
