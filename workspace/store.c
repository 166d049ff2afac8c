/* SPDX-License-Identifier: MIT */
/*
 * Opening the store, and what its tables share (see store.h).  One connection behind one mutex:
 * SQLite has one writer at a time anyway, and creating workspaces is bound by fsync, not by this
 * lock. synchronous=FULL makes a commit in WAL mode survive a power cut.
 */
#include "workspace/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "workspace/store_db.h"

#define BUSY_TIMEOUT_MS 5000 /* for an operator's sqlite3 shell or a backup beside us */
#define PID_TEXT_MAX    32   /* bytes of a lock file that are looked at */

/* ---- errors and statements ---------------------------------------------- */

static int errno_of(int sqlite_code)
{
	switch (sqlite_code & 0xff) {
	case SQLITE_CONSTRAINT:
		return (sqlite_code == SQLITE_CONSTRAINT_UNIQUE ||
			sqlite_code == SQLITE_CONSTRAINT_PRIMARYKEY)
			       ? -EEXIST
			       : -EINVAL;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CANTOPEN:
	case SQLITE_PERM:
		return -EACCES;
	default:
		return -EIO;
	}
}

int store_fail(sqlite3 *db, const char *what, struct err *err)
{
	return err_set(err, errno_of(sqlite3_extended_errcode(db)), "store: %s: %s", what,
		       sqlite3_errmsg(db));
}

int store_prepare(sqlite3 *db, const char *sql, const char *what, sqlite3_stmt **ret,
		  struct err *err)
{
	if (sqlite3_prepare_v2(db, sql, -1, ret, NULL) != SQLITE_OK)
		return store_fail(db, what, err);
	return 0;
}

int store_exec(sqlite3 *db, const char *sql, const char *what, struct err *err)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		return store_fail(db, what, err);
	return 0;
}

int store_write(struct store *s, const char *what,
		int (*fn)(sqlite3 *db, void *arg, struct err *err), void *arg, struct err *err)
{
	int rc;

	(void)pthread_mutex_lock(&s->mutex);
	rc = store_exec(s->db, "BEGIN IMMEDIATE", what, err);
	if (rc < 0)
		goto out;
	rc = fn(s->db, arg, err);
	if (rc >= 0) {
		int committed = store_exec(s->db, "COMMIT", what, err);

		if (committed < 0)
			rc = committed;
	}
	/* Some failures (a full disk) have rolled back already; then this fails and harms nothing.
	 */
	if (rc < 0)
		(void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
out:
	(void)pthread_mutex_unlock(&s->mutex);
	return rc;
}

/* ---- one daemon for one data directory ---------------------------------- */

static int refuse_second(int fd, const char *what, struct err *err)
{
	char text[PID_TEXT_MAX + 1] = { 0 };
	uint64_t pid = 0;
	ssize_t n = io_pread_full(fd, text, PID_TEXT_MAX, 0);

	if (n > 0)
		text[strcspn(text, "\n")] = '\0';
	if (n > 0 && io_parse_u64(text, 1, INT32_MAX, &pid) == 0)
		return err_set(err, -EBUSY, "the %s is in use by another workspaced (process %llu)",
			       what, (unsigned long long)pid);
	return err_set(err, -EBUSY, "the %s is in use by another workspaced", what);
}

/* The lock is the flock, not the file: the file stays, so that nobody locks a name that is gone. */
static int take_lock(const char *path, const char *what, int *ret_fd, struct err *err)
{
	auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	char text[PID_TEXT_MAX];
	int n;

	if (fd < 0)
		return err_set(err, -errno, "the %s cannot be locked: %s", what, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return refuse_second(fd, what, err);
		return err_set(err, -errno, "the %s cannot be locked: %s", what, strerror(errno));
	}
	n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) < 0 || io_pwrite_full(fd, text, (size_t)n, 0) != n)
		return err_set(err, -EIO, "the %s: its lock file cannot be written", what);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int lock_all(struct store *s, const char *data_dir, const char *db_path, struct err *err)
{
	auto_free char *lock = NULL;
	auto_free char *db_lock = NULL;
	size_t dir_len = strlen(data_dir);
	int rc;

	if (asprintf(&lock, "%s/lock", data_dir) < 0 || asprintf(&db_lock, "%s.lock", db_path) < 0)
		return err_set(err, -ENOMEM, "store: out of memory");
	rc = take_lock(lock, "data directory", &s->lock_fd, err);
	if (rc < 0)
		return rc;
	if (strncmp(db_path, data_dir, dir_len) == 0 && db_path[dir_len] == '/')
		return 0;
	return take_lock(db_lock, "database", &s->db_lock_fd, err);
}

/* ---- opening ------------------------------------------------------------ */

/* A folder of ours that others may enter is closed to them; a shared one (/tmp) is left as it is.
 */
static int make_private_dir(const char *path, struct err *err)
{
	auto_close int fd = -1;
	struct stat st;
	int rc = io_mkdir_p(path, 0700, err);

	if (rc < 0)
		return rc;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "data directory: %s", strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & S_ISVTX) != 0 || (st.st_mode & 077) == 0)
		return 0;
	if (fchmod(fd, 0700) < 0)
		return err_set(err, -errno, "data directory: %s", strerror(errno));
	return 0;
}

/* Made here and not by sqlite, so that it is never readable by others; -wal and -shm take its mode.
 */
static int make_private_file(const char *path, struct err *err)
{
	auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "store: open the database: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "store: the database is not a regular file");
	if (st.st_uid == geteuid() && (st.st_mode & 077) != 0 && fchmod(fd, 0600) < 0)
		return err_set(err, -errno, "store: open the database: %s", strerror(errno));
	return 0;
}

static int make_parent(const char *db_path, struct err *err)
{
	auto_free char *dir = strdup(db_path);
	char *slash;

	if (dir == NULL)
		return err_set(err, -ENOMEM, "store: out of memory");
	slash = strrchr(dir, '/');
	if (slash == NULL || slash == dir)
		return 0;
	*slash = '\0';
	return io_mkdir_p(dir, 0700, err);
}

/* WAL needs shared memory maps; a few network file systems have none.  The rollback journal is as
 * safe. */
static int use_wal(sqlite3 *db, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	const char *mode;
	int rc = store_prepare(db, "PRAGMA journal_mode = WAL", "open the database", &st, err);

	if (rc < 0)
		return rc;
	if (sqlite3_step(st) != SQLITE_ROW)
		return store_fail(db, "open the database", err);
	mode = (const char *)sqlite3_column_text(st, 0);
	if (mode == NULL || strcmp(mode, "wal") != 0)
		log_warn(LOG_STORE, "no write-ahead log on this file system journal=%s",
			 mode != NULL ? mode : "?");
	return 0;
}

/*
 * The data directory may be named as a descriptor, "/proc/self/fd/N", because the path to it leads
 * through folders that this user cannot enter.  SQLite would resolve the links in that name and
 * meet the closed folder after all; told that there is nothing to resolve, it opens the name as it
 * is.
 */
static int lstat_outside_proc(const char *path, struct stat *st)
{
	if (strncmp(path, "/proc", 5) == 0) {
		errno = ENOENT;
		return -1;
	}
	return lstat(path, st);
}

static void keep_names_of_descriptors(void)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	if (vfs != NULL && vfs->iVersion >= 3 && vfs->xSetSystemCall != NULL)
		(void)vfs->xSetSystemCall(vfs, "lstat", (sqlite3_syscall_ptr)lstat_outside_proc);
}

static int open_database(struct store *s, const char *path, struct err *err)
{
	const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	int rc;

	keep_names_of_descriptors();
	rc = sqlite3_open_v2(path, &s->db, flags, NULL);
	if (s->db == NULL)
		return err_set(err, -ENOMEM, "store: out of memory");
	if (rc != SQLITE_OK)
		return store_fail(s->db, "open the database", err);
	(void)sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
	rc = use_wal(s->db, err);
	if (rc < 0)
		return rc;
	rc = store_exec(s->db,
			"PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
			"PRAGMA trusted_schema = OFF",
			"open the database", err);
	if (rc < 0)
		return rc;
	return store_migrate(s->db, err);
}

int store_open(const char *data_dir, const char *url, struct store **ret, struct err *err)
{
	auto_free char *path = NULL;
	struct store *s;
	int rc = store_url_path(data_dir, url, &path, err);

	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return err_set(err, -ENOMEM, "store: out of memory");
	(void)pthread_mutex_init(&s->mutex, NULL);
	s->lock_fd = -1;
	s->db_lock_fd = -1;

	rc = make_private_dir(data_dir, err);
	if (rc == 0)
		rc = make_parent(path, err);
	if (rc == 0)
		rc = lock_all(s, data_dir, path, err);
	if (rc == 0)
		rc = make_private_file(path, err);
	if (rc == 0)
		rc = open_database(s, path, err);
	if (rc < 0) {
		store_close(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void store_close(struct store *s)
{
	if (s == NULL)
		return;
	/* The last connection that closes also writes the log back into the database. */
	(void)sqlite3_close(s->db);
	if (s->db_lock_fd >= 0)
		(void)close(s->db_lock_fd);
	if (s->lock_fd >= 0)
		(void)close(s->lock_fd);
	(void)pthread_mutex_destroy(&s->mutex);
	free(s);
}

/* ---- is it well? -------------------------------------------------------- */

/* A real, committed write: a full disk or a read-only remount shows in nothing less. */
static int write_probe(sqlite3 *db, void *arg, struct err *err)
{
	auto_stmt sqlite3_stmt *st = NULL;
	int rc = store_prepare(db, "INSERT OR REPLACE INTO probe (id, at_ns) VALUES (1, ?)",
			       "check", &st, err);

	if (rc < 0)
		return rc;
	(void)store_bind_u64(st, 1, clock_real_ns());
	return sqlite3_step(st) == SQLITE_DONE ? 0 : store_fail(db, "check", err);
}

int store_check(struct store *s, struct err *err)
{
	return store_write(s, "check", write_probe, NULL, err);
}
