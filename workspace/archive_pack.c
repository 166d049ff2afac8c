/* SPDX-License-Identifier: MIT */
/*
 * Packing a directory (see archive.h).  Runs in a worker; memory does not grow with what is packed,
 * but for the names of files that have several.
 */
#include "workspace/archive_priv.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/path.h"
#include "workspace/tree_walk.h"

#define COPY_SIZE  (64u << 10)
#define OPENED_MAX 128 /* directories: each holds a descriptor */

/* A directory whose mode shuts its owner out, opened up for as long as we are in it. */
struct opened {
	int fd; /* owned: O_PATH */
	mode_t mode;
};

struct pack {
	struct arc_run *run;
	struct archive *out;                      /* owned */
	struct archive_entry *entry;              /* owned; used again for each */
	struct archive_entry_linkresolver *links; /* owned */
	struct opened *opened;                    /* owned: directories to be closed again */
	size_t n_opened, cap_opened;
	char copy[COPY_SIZE];
};

static la_ssize_t write_out(struct archive *a, void *arg, const void *p, size_t n)
{
	struct arc_run *run = arg;
	ssize_t rc = io_write_full(run->data, p, n);

	if (rc < 0) {
		archive_set_error(a, (int)-rc, "nobody reads");
		return -1;
	}
	return (la_ssize_t)n;
}

static int fail(struct pack *p, const char *what)
{
	int rc = archive_errno(p->out) > 0 ? -archive_errno(p->out) : -EIO;

	return err_set(&p->run->err, rc, "%s: %s", what, strerror(-rc));
}

/* ---- one entry ---------------------------------------------------------- */

static void fill_entry(struct pack *p, const char *path, const struct stat *st)
{
	struct archive_entry *e = archive_entry_clear(p->entry);

	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, st->st_mode & S_IFMT);
	archive_entry_set_perm(e, st->st_mode & 07777);
	archive_entry_set_uid(e, p->run->job->owner_uid);
	archive_entry_set_gid(e, p->run->job->owner_gid);
	archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
	archive_entry_set_dev(e, st->st_dev);
	archive_entry_set_ino64(e, (la_int64_t)st->st_ino);
	archive_entry_set_nlink(e, S_ISREG(st->st_mode) ? (unsigned)st->st_nlink : 1);
}

/* A zip entry says whether its name is UTF-8, and libarchive takes the locale's word for it. */
static int write_raw_header(struct pack *p)
{
	locale_t plain = (locale_t)0, before;
	int rc;

	if (p->run->job->format == ARC_ZIP &&
	    mbstowcs(NULL, archive_entry_pathname(p->entry), 0) == (size_t)-1)
		plain = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
	if (plain == (locale_t)0)
		return archive_write_header(p->out, p->entry);
	before = uselocale(plain);
	rc = archive_write_header(p->out, p->entry);
	(void)uselocale(before);
	freelocale(plain);
	return rc;
}

static int write_header(struct pack *p)
{
	int rc = write_raw_header(p);

	if (rc == ARCHIVE_OK || rc == ARCHIVE_WARN) {
		p->run->n_entries++;
		return 0;
	}
	if (rc == ARCHIVE_FATAL)
		return fail(p, "the archive cannot be written");
	arc_skip(p->run, archive_entry_pathname(p->entry), ARC_R_NAME);
	return -ENAMETOOLONG;
}

/* Exactly @size bytes, since the header has promised them: a file that shrinks is filled up. */
static int write_content(struct pack *p, int fd, uint64_t size)
{
	for (uint64_t left = size; left > 0;) {
		size_t want = (size_t)MIN(left, (uint64_t)sizeof(p->copy));
		ssize_t n = io_read_full(fd, p->copy, want);

		if (n < 0)
			return err_set(&p->run->err, (int)n, "a file cannot be read: %s",
				       strerror((int)-n));
		memset(p->copy + n, 0, want - (size_t)n);
		if (archive_write_data(p->out, p->copy, want) < 0)
			return fail(p, "the archive cannot be written");
		left -= want;
	}
	p->run->n_bytes += size;
	return 0;
}

/* The owner may read every file of his, whatever its mode says; it is opened up for a moment. */
static int open_for_owner(int path_fd, const struct stat *st)
{
	char proc[PATH_PROC_LEN];
	int fd = path_reopen(path_fd, O_RDONLY);

	if (fd != -EACCES || st->st_uid != geteuid())
		return fd;
	if (chmod(path_proc(proc, path_fd), (st->st_mode & 07777) | S_IRUSR) < 0)
		return -errno;
	fd = path_reopen(path_fd, O_RDONLY);
	(void)chmod(proc, st->st_mode & 07777);
	return fd;
}

/* Return: 0 also when the file was left out. */
static int pack_file(struct pack *p, int dirfd, const char *name, const char *path)
{
	auto_close int found = path_open(dirfd, name, O_PATH | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	auto_close int fd = -1;
	struct archive_entry *rest = NULL;
	struct stat st;
	int rc;

	if (found < 0 || fstat(found, &st) < 0 || !S_ISREG(st.st_mode))
		return 0; /* it was exchanged meanwhile */
	fd = open_for_owner(found, &st);
	if (fd < 0) {
		arc_skip(p->run, path, ARC_R_DENIED);
		return 0;
	}
	if (fstat(fd, &st) < 0)
		return -errno;
	fill_entry(p, path, &st);
	archive_entry_linkify(p->links, &p->entry, &rest);
	rc = write_header(p);
	if (rc == 0 && archive_entry_hardlink(p->entry) == NULL)
		rc = write_content(p, fd, (uint64_t)st.st_size);
	return rc == -ENAMETOOLONG ? 0 : rc;
}

static int pack_link(struct pack *p, int dirfd, const char *name, const char *path,
		     const struct stat *st)
{
	char target[PATH_MAX + 1];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
	int rc;

	if (n < 0)
		return 0; /* removed meanwhile */
	target[n] = '\0';
	fill_entry(p, path, st);
	archive_entry_set_symlink(p->entry, target);
	rc = write_header(p);
	return rc == -ENAMETOOLONG ? 0 : rc;
}

/* What is not possible here, the walk meets again and tells. */
static void open_up_dir(struct pack *p, int dirfd, const char *name)
{
	auto_close int fd =
		path_open(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	char proc[PATH_PROC_LEN];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || p->n_opened == OPENED_MAX)
		return;
	if (p->n_opened == p->cap_opened) {
		size_t cap = p->cap_opened + 16;
		struct opened *more = reallocarray(p->opened, cap, sizeof(*more));

		if (more == NULL)
			return;
		p->opened = more;
		p->cap_opened = cap;
	}
	if (chmod(path_proc(proc, fd), (st.st_mode & 07777) | S_IRUSR | S_IXUSR) == 0)
		p->opened[p->n_opened++] =
			(struct opened){ .fd = take_fd(&fd), .mode = st.st_mode & 07777 };
}

static void close_opened(struct pack *p)
{
	char proc[PATH_PROC_LEN];

	while (p->n_opened > 0) {
		const struct opened *o = &p->opened[--p->n_opened];

		(void)chmod(path_proc(proc, o->fd), o->mode);
		(void)close(o->fd);
	}
	free(p->opened);
}

static int pack_one(struct pack *p, int dirfd, const char *name, const char *path)
{
	struct stat st;
	int rc;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISREG(st.st_mode))
		return pack_file(p, dirfd, name, path);
	if (S_ISLNK(st.st_mode))
		return pack_link(p, dirfd, name, path, &st);
	if (!S_ISDIR(st.st_mode)) {
		arc_skip(p->run, path, ARC_R_SPECIAL);
		return 0;
	}
	if ((st.st_mode & (S_IRUSR | S_IXUSR)) != (S_IRUSR | S_IXUSR))
		open_up_dir(p, dirfd, name);
	fill_entry(p, path, &st);
	rc = write_header(p);
	return rc == -ENAMETOOLONG ? 0 : rc;
}

/* ---- the tree ----------------------------------------------------------- */

static int pack_entry(void *arg, const struct tree_entry *e)
{
	struct pack *p = arg;
	const char *top = (p->run->job->flags & ARC_BACKUP) != 0 ? ARC_BACKUP_DIR "/" : "";
	auto_free char *path = NULL;
	size_t len = strlen(top) + strlen(e->dir) + strlen(e->name) + 2;

	path = malloc(len);
	if (path == NULL)
		return -ENOMEM;
	(void)snprintf(path, len, "%s%s%s%s", top, e->dir, e->dir[0] != '\0' ? "/" : "", e->name);
	return pack_one(p, e->dirfd, e->name, path);
}

static int pack_tree(struct pack *p, int dir)
{
	struct tree_walk_result walk;
	int rc = tree_walk(dir, pack_entry, p, &walk);

	if (rc < 0 || walk.first_err == 0)
		return rc;
	if ((p->run->job->flags & ARC_BACKUP) != 0)
		return err_set(&p->run->err, walk.first_err,
			       "a part of the workspace cannot be read: %s",
			       strerror(-walk.first_err));
	arc_skip(p->run, "", ARC_R_DENIED);
	return 0;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static int pack_path(struct pack *p)
{
	const char *path = p->run->job->path;
	auto_close int found = path_open(p->run->root, path, O_PATH, 0, 0);
	struct stat st;

	if (found < 0 || fstat(found, &st) < 0)
		return found < 0 ? found : -errno;
	if (S_ISDIR(st.st_mode))
		return pack_tree(p, found);
	/* A single file is an archive of one entry; links that lead to it are named, not kept. */
	if (S_ISREG(st.st_mode)) {
		auto_close int fd = open_for_owner(found, &st);

		if (fd < 0)
			return fd;
		fill_entry(p, last_name(path), &st);
		archive_entry_set_nlink(p->entry, 1);
		if (write_header(p) < 0)
			return -EIO;
		return write_content(p, fd, (uint64_t)st.st_size);
	}
	return -ENXIO;
}

/* ---- formats ------------------------------------------------------------ */

static int set_format(struct pack *p)
{
	struct archive *out = p->out;
	int rc;

	if (p->run->job->format == ARC_ZIP)
		rc = archive_write_set_format_zip(out);
	else
		rc = archive_write_set_format_pax_restricted(out);
	if (rc == ARCHIVE_OK && p->run->job->format == ARC_TAR_GZ)
		rc = archive_write_add_filter_gzip(out);
	if (rc == ARCHIVE_OK)
		rc = archive_write_set_bytes_in_last_block(out, 1); /* no padding */
	if (rc == ARCHIVE_OK)
		rc = archive_write_open(out, p->run, NULL, write_out, NULL);
	archive_entry_linkresolver_set_strategy(p->links, archive_format(out));
	return rc == ARCHIVE_OK ? 0 : fail(p, "the archive cannot be begun");
}

int arc_pack(struct arc_run *run)
{
	static struct pack p; /* large; a worker does one job */
	int rc;

	p.run = run;
	p.out = archive_write_new();
	p.entry = archive_entry_new();
	p.links = archive_entry_linkresolver_new();
	if (p.out == NULL || p.entry == NULL || p.links == NULL)
		return -ENOMEM;
	rc = set_format(&p);
	if (rc == 0)
		rc = pack_path(&p);
	if (rc == 0 && archive_write_close(p.out) != ARCHIVE_OK)
		rc = fail(&p, "the archive cannot be ended");
	if (rc < 0)
		(void)archive_write_fail(p.out); /* nothing may look like an end */
	close_opened(&p);
	archive_entry_free(p.entry);
	archive_entry_linkresolver_free(p.links);
	(void)archive_write_free(p.out);
	return rc;
}
