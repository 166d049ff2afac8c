/* SPDX-License-Identifier: MIT */
/*
 * The ceiling of any FUSE file system here: a folder shown through libfuse's usual way of doing it,
 * with nothing between the kernel's request and the system call.
 *
 *	passthrough FOLDER MOUNTPOINT [FUSE OPTIONS]
 *
 * Only what bench-fuse.sh does is there.
 */
#define FUSE_USE_VERSION 314
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int top;

static const char *below(const char *path)
{
	return path[1] != '\0' ? path + 1 : ".";
}

static int result(int rc)
{
	return rc < 0 ? -errno : rc;
}

static void *pt_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	conn->max_write = 1u << 20;
	cfg->kernel_cache = 0;
	cfg->use_ino = 1;
	return NULL;
}

static int pt_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fstatat(top, below(path), st, AT_SYMLINK_NOFOLLOW));
}

static int pt_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	int fd = openat(top, below(path), O_RDONLY | O_DIRECTORY);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	(void)off, (void)fi, (void)flags;
	if (d == NULL)
		return -errno;
	while ((e = readdir(d)) != NULL)
		fill(buf, e->d_name, NULL, 0, 0);
	closedir(d);
	return 0;
}

static int pt_open(const char *path, struct fuse_file_info *fi)
{
	int fd = openat(top, below(path), fi->flags);

	fi->fh = (uint64_t)fd;
	return fd < 0 ? -errno : 0;
}

static int pt_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	int fd = openat(top, below(path), fi->flags | O_CREAT, mode);

	fi->fh = (uint64_t)fd;
	return fd < 0 ? -errno : 0;
}

static int pt_read(const char *path, char *buf, size_t n, off_t off, struct fuse_file_info *fi)
{
	(void)path;
	return result((int)pread((int)fi->fh, buf, n, off));
}

static int pt_write(const char *path, const char *buf, size_t n, off_t off,
		    struct fuse_file_info *fi)
{
	(void)path;
	return result((int)pwrite((int)fi->fh, buf, n, off));
}

static int pt_fsync(const char *path, int data_only, struct fuse_file_info *fi)
{
	(void)path, (void)data_only;
	return result(fsync((int)fi->fh));
}

static int pt_release(const char *path, struct fuse_file_info *fi)
{
	(void)path;
	return result(close((int)fi->fh));
}

static int pt_unlink(const char *path)
{
	return result(unlinkat(top, below(path), 0));
}

static int pt_rmdir(const char *path)
{
	return result(unlinkat(top, below(path), AT_REMOVEDIR));
}

static int pt_mkdir(const char *path, mode_t mode)
{
	return result(mkdirat(top, below(path), mode));
}

static int pt_rename(const char *a, const char *b, unsigned flags)
{
	return flags != 0 ? -EINVAL : result(renameat(top, below(a), top, below(b)));
}

static int pt_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fchmodat(top, below(path), mode, 0));
}

static int pt_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)fi;
	return result(fchownat(top, below(path), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int pt_utimens(const char *path, const struct timespec t[2], struct fuse_file_info *fi)
{
	(void)fi;
	return result(utimensat(top, below(path), t, AT_SYMLINK_NOFOLLOW));
}

static int pt_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	if (fi != NULL)
		return result(ftruncate((int)fi->fh, size));
	int fd = openat(top, below(path), O_WRONLY),
	    rc = fd < 0 ? -errno : result(ftruncate(fd, size));

	if (fd >= 0)
		close(fd);
	return rc;
}

static const struct fuse_operations ops = {
	.init = pt_init,
	.getattr = pt_getattr,
	.readdir = pt_readdir,
	.open = pt_open,
	.create = pt_create,
	.read = pt_read,
	.write = pt_write,
	.fsync = pt_fsync,
	.release = pt_release,
	.unlink = pt_unlink,
	.rmdir = pt_rmdir,
	.mkdir = pt_mkdir,
	.rename = pt_rename,
	.chmod = pt_chmod,
	.chown = pt_chown,
	.utimens = pt_utimens,
	.truncate = pt_truncate,
};

int main(int argc, char **argv)
{
	if (argc < 3 || (top = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
		(void)fprintf(stderr, "usage: passthrough FOLDER MOUNTPOINT [FUSE OPTIONS]\n");
		return 2;
	}
	argv[1] = argv[0];
	return fuse_main(argc - 1, argv + 1, &ops, NULL);
}
