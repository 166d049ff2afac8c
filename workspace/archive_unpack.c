/* SPDX-License-Identifier: MIT */
/*
 * Unpacking into a directory (see archive.h).  Runs in a worker.
 *
 * Every step goes from a descriptor of a directory by one name, and no step follows a link.  A file
 * is written without a name and linked where it belongs; where something stands already, it is
 * linked under a name of its own and renamed over it.  What is over after a crash is at most one
 * file ".arc-*.part".
 *
 * Modes and times of directories come last, deepest first: a directory may be closed for writing,
 * and what is put into it changes its time.
 */
#include "workspace/archive_priv.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/path.h"

#define READ_SIZE (128u << 10)
#define DIR_MODE  0755

struct late_dir {
	char *path; /* owned */
	mode_t mode;
	struct timespec mtime;
};

struct unpack {
	struct arc_run *run;
	int dest; /* owned: where the archive goes */
	struct archive *in;
	uint64_t n_in, n_seen; /* bytes read, entries met */
	struct late_dir *dirs; /* owned */
	size_t n_dirs, cap_dirs;
	char parent_path[ARC_PATH_MAX]; /* of parent_fd; the next entry is often beside the last */
	int parent_fd;                  /* owned; -1: none */
	size_t n_first;                 /* bytes of @buf that were read to look at the format */
	int spool; /* owned; -1, or a zip archive, which is read from its end */
	char buf[READ_SIZE];
};

/* ---- limits ------------------------------------------------------------- */

/* check_room() - may @more bytes be unpacked? */
static int check_room(struct unpack *u, uint64_t more)
{
	const struct arc_limits *l = &u->run->job->limits;
	uint64_t have = u->run->n_bytes;

	if (have > l->bytes || more > l->bytes - have)
		return err_set(&u->run->err, -EFBIG, "it unpacks to more than %llu bytes",
			       (unsigned long long)l->bytes);
	if (l->ratio > 0 && have + more > ARC_RATIO_FROM && (have + more) / l->ratio > u->n_in)
		return err_set(&u->run->err, -EFBIG,
			       "it unpacks to more than %llu times its own size",
			       (unsigned long long)l->ratio);
	return 0;
}

static int check_entries(struct unpack *u)
{
	const struct arc_limits *l = &u->run->job->limits;

	if (++u->n_seen > l->entries)
		return err_set(&u->run->err, -EFBIG, "it has more than %llu entries",
			       (unsigned long long)l->entries);
	return 0;
}

/* What one entry fails of, and the others may not; 0: it ends the whole. */
static enum arc_reason reason_of(int rc)
{
	switch (-rc) {
	case ELOOP:
		return ARC_R_THROUGH_LINK;
	case ENOTDIR:
	case EISDIR:
	case EEXIST:
	case ENOTEMPTY:
		return ARC_R_IN_THE_WAY;
	case EACCES:
	case EPERM:
	case EBUSY:
	case ETXTBSY:
	case EXDEV: /* something is mounted there */
		return ARC_R_DENIED;
	case ENAMETOOLONG:
	case EINVAL:
	case EILSEQ:
	case EMLINK:
	case ENOENT: /* removed under our hands */
	case ESTALE:
		return ARC_R_REFUSED;
	case EBADMSG:
		return ARC_R_DAMAGED;
	default:
		return ARC_R_NONE;
	}
}

/* ---- directories -------------------------------------------------------- */

/* The directory @name of @dirfd, made when it is missing; -ELOOP when it is a link. */
static int enter_dir(int dirfd, const char *name)
{
	static const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
	int fd = path_open(dirfd, name, flags, 0, PATH_NOFOLLOW_ALL);
	struct stat st;

	if (fd == -ENOENT) {
		if (mkdirat(dirfd, name, DIR_MODE) < 0 && errno != EEXIST)
			return -errno;
		fd = path_open(dirfd, name, flags, 0, PATH_NOFOLLOW_ALL);
	}
	if (fd == -ENOTDIR && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISLNK(st.st_mode))
		return -ELOOP;
	return fd;
}

/* All directories of @path below @top.  Owned descriptor or -errno. */
static int enter_path(int top, const char *path)
{
	auto_close int fd = path_open(top, "", O_PATH | O_DIRECTORY, 0, PATH_NOFOLLOW_ALL);
	char name[NAME_MAX + 1];

	while (fd >= 0 && *path != '\0') {
		size_t n = strcspn(path, "/");
		int next;

		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		next = enter_dir(fd, name);
		(void)close(take_fd(&fd));
		fd = next;
		path += n;
		path += *path == '/';
	}
	return take_fd(&fd);
}

/* The directory that @path goes into, borrowed until the next call, and the name there. */
static int enter_parent(struct unpack *u, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char dir[ARC_PATH_MAX] = "";

	*ret_name = slash != NULL ? slash + 1 : path;
	if (slash == NULL)
		return u->dest;
	memcpy(dir, path, (size_t)(slash - path));
	if (u->parent_fd >= 0) {
		if (strcmp(dir, u->parent_path) == 0)
			return u->parent_fd;
		(void)close(take_fd(&u->parent_fd));
	}
	u->parent_fd = enter_path(u->dest, dir);
	memcpy(u->parent_path, dir, sizeof(dir));
	return u->parent_fd;
}

static struct timespec mtime_of(struct archive_entry *e)
{
	if (!archive_entry_mtime_is_set(e))
		return (struct timespec){ .tv_nsec = UTIME_NOW };
	return (struct timespec){ .tv_sec = archive_entry_mtime(e),
				  .tv_nsec = archive_entry_mtime_nsec(e) };
}

static int remember_dir(struct unpack *u, const char *path, mode_t mode, struct timespec mtime)
{
	if (u->n_dirs == u->cap_dirs) {
		size_t cap = u->cap_dirs == 0 ? 256 : u->cap_dirs * 2;
		struct late_dir *more = reallocarray(u->dirs, cap, sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		u->dirs = more;
		u->cap_dirs = cap;
	}
	u->dirs[u->n_dirs] = (struct late_dir){ strdup(path), mode, mtime };
	if (u->dirs[u->n_dirs].path == NULL)
		return -ENOMEM;
	u->n_dirs++;
	return 0;
}

static int unpack_dir(struct unpack *u, const char *path, struct archive_entry *e)
{
	const char *name;
	int parent = enter_parent(u, path, &name);
	auto_close int fd = -1;

	if (parent < 0)
		return parent;
	fd = enter_dir(parent, name);
	if (fd < 0)
		return fd;
	return remember_dir(u, path, archive_entry_perm(e) & 0777, mtime_of(e));
}

static void settle_dir(struct unpack *u, const struct late_dir *d)
{
	auto_close int fd = path_open(u->dest, d->path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
				      PATH_NOFOLLOW_ALL);
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, d->mtime };
	char proc[PATH_PROC_LEN];

	if (fd < 0)
		return; /* moved away meanwhile */
	(void)path_proc(proc, fd);
	if (utimensat(AT_FDCWD, proc, times, 0) < 0 || chmod(proc, d->mode) < 0)
		arc_skip(u->run, d->path, ARC_R_DENIED); /* it is there, with another mode */
}

/* ---- putting in place --------------------------------------------------- */

#define PART_NAME_LEN 32

static const char *part_name(char dst[PART_NAME_LEN])
{
	uint64_t salt;

	io_random(&salt, sizeof(salt));
	(void)snprintf(dst, PART_NAME_LEN, ".arc-%016llx.part", (unsigned long long)salt);
	return dst;
}

/* Rename over whatever is no directory; the part is gone in any case. */
static int rename_part(int dir, const char *part, const char *name)
{
	int rc = renameat(dir, part, dir, name) < 0 ? -errno : 0;

	/* also after success: renaming one name of a file over another does nothing */
	if (unlinkat(dir, part, 0) < 0 && errno != ENOENT && rc == 0)
		rc = -errno;
	return rc;
}

/* Gives the file of @fd the name @name; what stood there is replaced. */
static int link_file(int fd, int dir, const char *name)
{
	char proc[PATH_PROC_LEN], part[PART_NAME_LEN];

	(void)path_proc(proc, fd);
	if (linkat(AT_FDCWD, proc, dir, name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (linkat(AT_FDCWD, proc, dir, part_name(part), AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return rename_part(dir, part, name);
}

/* A file without a name, or, where the file system has none such, with that in @part. */
static int open_part(int dir, char part[PART_NAME_LEN])
{
	int fd = path_open(dir, "", O_TMPFILE | O_RDWR, 0600, PATH_NOFOLLOW_ALL);

	part[0] = '\0';
	if (fd != -EOPNOTSUPP && fd != -EISDIR && fd != -EINVAL)
		return fd;
	return path_open(dir, part_name(part), O_CREAT | O_EXCL | O_RDWR, 0600, PATH_NOFOLLOW_ALL);
}

/* ---- entries ------------------------------------------------------------ */

static int bad_entry(struct unpack *u, int la_rc)
{
	if (la_rc == ARCHIVE_FATAL)
		return err_set(&u->run->err, -EINVAL, "the archive is damaged or cut off");
	return -EBADMSG;
}

/* Bytes to disk; *@ret_size is how long the file has become, holes counted. */
static int write_content(struct unpack *u, struct archive_entry *e, int fd, uint64_t *ret_size)
{
	uint64_t size = 0;
	const void *p;
	la_int64_t off;
	size_t n;
	int rc;

	while ((rc = archive_read_data_block(u->in, &p, &n, &off)) == ARCHIVE_OK ||
	       rc == ARCHIVE_WARN) {
		ssize_t put;

		if (off < 0 || (uint64_t)off > INT64_MAX - n)
			return -EBADMSG;
		rc = check_room(u, MAX(size, (uint64_t)off + n));
		if (rc < 0)
			return rc;
		put = io_pwrite_full(fd, p, n, off);
		if (put < 0)
			return (int)put;
		size = MAX(size, (uint64_t)off + n);
	}
	if (rc != ARCHIVE_EOF)
		return bad_entry(u, rc);
	/* a hole at the end has no block */
	if (archive_entry_size_is_set(e) && archive_entry_size(e) > (la_int64_t)size) {
		size = (uint64_t)archive_entry_size(e);
		rc = check_room(u, size);
		if (rc < 0)
			return rc;
		if (ftruncate(fd, (off_t)size) < 0)
			return -errno;
	}
	*ret_size = size;
	return 0;
}

static int finish_file(int fd, struct archive_entry *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, mtime_of(e) };

	if (fchmod(fd, archive_entry_perm(e) & 0777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int unpack_file(struct unpack *u, const char *path, struct archive_entry *e)
{
	char part[PART_NAME_LEN] = "";
	const char *name;
	int parent = enter_parent(u, path, &name);
	auto_close int fd = -1;
	uint64_t size = 0;
	int rc;

	if (parent < 0)
		return parent;
	fd = open_part(parent, part);
	if (fd < 0)
		return fd;
	rc = write_content(u, e, fd, &size);
	if (rc == 0)
		rc = finish_file(fd, e);
	if (rc == 0)
		rc = part[0] != '\0' ? rename_part(parent, part, name)
				     : link_file(fd, parent, name);
	else if (part[0] != '\0')
		(void)unlinkat(parent, part, 0);
	if (rc == 0)
		u->run->n_bytes += size;
	return rc;
}

/* Where an entry of the archive stands, as a path in the workspace. */
static int dir_in_workspace(const struct unpack *u, const char *path, char dst[2 * ARC_PATH_MAX])
{
	const char *top = u->run->job->path, *slash = strrchr(path, '/');
	int dir_len = slash != NULL ? (int)(slash - path) : 0;
	int n = snprintf(dst, (size_t)2 * ARC_PATH_MAX, "%s/%.*s", top, dir_len, path);

	return n < 0 || n >= 2 * ARC_PATH_MAX ? -ENAMETOOLONG : 0;
}

static int unpack_link(struct unpack *u, const char *path, struct archive_entry *e)
{
	const char *target = archive_entry_symlink(e), *name;
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, mtime_of(e) };
	char dir[2 * ARC_PATH_MAX], part[PART_NAME_LEN];
	int parent, rc;

	if (target == NULL || target[0] == '\0')
		return -EBADMSG;
	rc = dir_in_workspace(u, path, dir);
	if (rc < 0)
		return rc;
	if ((u->run->job->flags & ARC_KEEP_LINKS) == 0 && arc_link_leads_out(dir, target)) {
		arc_skip(u->run, path, ARC_R_LINK_OUT);
		return 1;
	}
	parent = enter_parent(u, path, &name);
	if (parent < 0)
		return parent;
	if (symlinkat(target, parent, part_name(part)) < 0)
		return -errno;
	(void)utimensat(parent, part, times, AT_SYMLINK_NOFOLLOW);
	return rename_part(parent, part, name);
}

/* The other name must be a file that is there already, below the same directory. */
static int unpack_hardlink(struct unpack *u, const char *path, const char *other)
{
	char rel[ARC_PATH_MAX];
	enum arc_reason why;
	auto_close int fd = -1;
	const char *name;
	struct stat st;
	int parent;

	if (arc_name_parse(other, rel, &why) == 0)
		fd = path_open(u->dest, rel, O_PATH | O_NOFOLLOW, 0, PATH_NOFOLLOW_ALL);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		arc_skip(u->run, path, ARC_R_HARDLINK);
		return 1;
	}
	parent = enter_parent(u, path, &name);
	return parent < 0 ? parent : link_file(fd, parent, name);
}

/* Return: 0, 1 (left out and told), -errno. */
static int unpack_named(struct unpack *u, const char *path, struct archive_entry *e)
{
	const char *other = archive_entry_hardlink(e);

	if (other != NULL)
		return unpack_hardlink(u, path, other);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return unpack_file(u, path, e);
	case AE_IFDIR:
		return unpack_dir(u, path, e);
	case AE_IFLNK:
		return unpack_link(u, path, e);
	default:
		arc_skip(u->run, path, ARC_R_SPECIAL);
		return 1;
	}
}

/* ---- backups ------------------------------------------------------------ */

/* What the backup says of its workspace goes back as it is; the main process reads it. */
static int tell_meta(struct unpack *u)
{
	struct arc_note note = { .kind = ARC_NOTE_META };
	char piece[sizeof(note.text)];
	size_t total = 0;
	la_ssize_t n;

	while ((n = archive_read_data(u->in, piece, sizeof(piece))) > 0) {
		int rc;

		total += (size_t)n;
		if (total > ARC_META_MAX)
			return err_set(&u->run->err, -EINVAL, "its " ARC_META_NAME " is too large");
		rc = arc_tell(u->run, &note, piece, (size_t)n);
		if (rc < 0)
			return rc;
	}
	return n < 0 ? bad_entry(u, ARCHIVE_FATAL) : 0;
}

/* Return: 1 go on with *@path, 0 done with this entry, -errno. */
static int backup_entry(struct unpack *u, const char **path)
{
	static const size_t top = sizeof(ARC_BACKUP_DIR) - 1;

	if (u->n_seen == 1) {
		if (strcmp(*path, ARC_META_NAME) != 0)
			return err_set(&u->run->err, -EINVAL,
				       "it is no backup: its first entry is not " ARC_META_NAME);
		return tell_meta(u);
	}
	if (strncmp(*path, ARC_BACKUP_DIR "/", top + 1) != 0)
		return 0;
	*path += top + 1;
	return 1;
}

/* ---- the whole ---------------------------------------------------------- */

static int unpack_entry(struct unpack *u, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e), *path;
	char rel[ARC_PATH_MAX];
	enum arc_reason why = ARC_R_NAME;
	int rc = check_entries(u);

	if (rc < 0)
		return rc;
	if (name == NULL || arc_name_parse(name, rel, &why) < 0) {
		arc_skip(u->run, name != NULL ? name : "", why);
		return 0;
	}
	path = rel;
	rc = (u->run->job->flags & ARC_BACKUP) != 0 ? backup_entry(u, &path) : 1;
	if (rc <= 0)
		return rc;
	if (path[0] == '\0') /* the directory itself */
		return 0;
	rc = unpack_named(u, path, e);
	if (rc == 0)
		u->run->n_entries++;
	why = rc < 0 && u->run->err.code == 0 ? reason_of(rc) : ARC_R_NONE;
	if (why != ARC_R_NONE)
		arc_skip(u->run, path, why);
	return rc < 0 && why == ARC_R_NONE ? rc : 0;
}

static int unpack_all(struct unpack *u)
{
	struct archive_entry *e;
	int rc = 0, la;

	while (rc == 0) {
		la = archive_read_next_header(u->in, &e);
		if (la == ARCHIVE_EOF)
			break;
		if (la == ARCHIVE_RETRY)
			continue;
		if (la == ARCHIVE_FATAL)
			return bad_entry(u, la);
		if (la == ARCHIVE_FAILED)
			arc_skip(u->run, "", ARC_R_DAMAGED);
		else
			rc = unpack_entry(u, e);
	}
	if (rc == 0 && u->n_seen == 0 && (u->run->job->flags & ARC_BACKUP) != 0)
		rc = err_set(&u->run->err, -EINVAL, "it is no backup: it is empty");
	return rc;
}

/* ---- reading the body --------------------------------------------------- */

static ssize_t receive(struct unpack *u, size_t have)
{
	ssize_t n;

	do
		n = read(u->run->data, u->buf + have, sizeof(u->buf) - have);
	while (n < 0 && errno == EINTR);
	u->n_in += n > 0 ? (uint64_t)n : 0;
	return n < 0 ? -errno : n;
}

static la_ssize_t read_body(struct archive *a, void *arg, const void **ret)
{
	struct unpack *u = arg;
	ssize_t n = (ssize_t)u->n_first;

	*ret = u->buf;
	u->n_first = 0;
	if (n == 0)
		n = receive(u, 0);
	if (n < 0)
		archive_set_error(a, (int)-n, "the body cannot be read");
	return n;
}

/* A zip archive has its list of names, modes and links at its end. */
static int spool_body(struct unpack *u)
{
	ssize_t n = (ssize_t)u->n_first;

	u->spool = path_open(u->dest, "", O_TMPFILE | O_RDWR, 0600, PATH_NOFOLLOW_ALL);
	if (u->spool < 0)
		return err_set(&u->run->err, u->spool, "no room for the archive: %s",
			       strerror(-u->spool));
	for (; n > 0; n = receive(u, 0)) {
		ssize_t put;

		if (u->n_in > u->run->job->limits.bytes)
			return err_set(&u->run->err, -EFBIG, "it is longer than %llu bytes",
				       (unsigned long long)u->run->job->limits.bytes);
		put = io_write_full(u->spool, u->buf, (size_t)n);
		if (put < 0)
			return err_set(&u->run->err, (int)put, "no room for the archive: %s",
				       strerror((int)-put));
	}
	return n < 0 ? (int)n : 0;
}

/* The first bytes say what it is. */
static int look_at_body(struct unpack *u)
{
	while (u->n_first < 4) {
		ssize_t n = receive(u, u->n_first);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return err_set(&u->run->err, -EINVAL, "the body is no archive");
		u->n_first += (size_t)n;
	}
	return memcmp(u->buf, "PK", 2) == 0;
}

static int open_zip(struct unpack *u)
{
	int rc = spool_body(u);

	if (rc < 0)
		return rc;
	if (lseek(u->spool, 0, SEEK_SET) < 0)
		return -errno;
	if (archive_read_support_format_zip_seekable(u->in) != ARCHIVE_OK ||
	    archive_read_open_fd(u->in, u->spool, READ_SIZE) != ARCHIVE_OK)
		return bad_entry(u, ARCHIVE_FATAL);
	return 0;
}

static int open_tar(struct unpack *u)
{
	(void)archive_read_support_filter_gzip(u->in);
	(void)archive_read_support_filter_bzip2(u->in);
	(void)archive_read_support_filter_xz(u->in);
	(void)archive_read_support_filter_zstd(u->in);
	if (archive_read_support_format_tar(u->in) != ARCHIVE_OK ||
	    archive_read_open(u->in, u, NULL, read_body, NULL) != ARCHIVE_OK)
		return bad_entry(u, ARCHIVE_FATAL);
	return 0;
}

static int open_body(struct unpack *u)
{
	uint32_t format = u->run->job->format;
	int is_zip = look_at_body(u);

	if (is_zip < 0)
		return is_zip;
	if (format != ARC_AUTO && (format == ARC_ZIP) != (is_zip == 1))
		return err_set(&u->run->err, -EINVAL, "the body is no %s archive",
			       arc_format_names[format]);
	return is_zip == 1 ? open_zip(u) : open_tar(u);
}

/* Links in the path that the client named are followed, inside the workspace; the rest is made. */
static int open_dest(struct unpack *u)
{
	const char *path = u->run->job->path;
	int fd = path_open(u->run->root, path, O_PATH | O_DIRECTORY, 0, 0);

	if (fd == -ENOENT)
		fd = enter_path(u->run->root, path);
	u->dest = fd;
	return fd < 0 ? fd : 0;
}

int arc_unpack(struct arc_run *run)
{
	static struct unpack u; /* large; a worker does one job */
	int rc;

	u.run = run;
	u.parent_fd = u.spool = -1;
	u.in = archive_read_new();
	if (u.in == NULL)
		return -ENOMEM;
	rc = open_dest(&u);
	if (rc == 0)
		rc = open_body(&u);
	if (rc == 0)
		rc = unpack_all(&u);
	for (size_t i = u.n_dirs; i-- > 0;) {
		settle_dir(&u, &u.dirs[i]);
		free(u.dirs[i].path);
	}
	free(u.dirs);
	(void)archive_read_free(u.in);
	if (u.dest >= 0 && run->n_entries > 0) {
		auto_close int dir = path_reopen(u.dest, O_RDONLY | O_DIRECTORY);

		/* a directory that is shut even to its owner cannot be asked for */
		if (dir >= 0 && syncfs(dir) < 0 && rc == 0)
			rc = -errno;
	}
	return rc;
}
