/* SPDX-License-Identifier: MIT */
/*
 * Which function answers which request of the kernel's, and what the kernel is asked to do itself.
 *
 * Left out on purpose:
 *  - access: mounts have default_permissions, so the kernel checks mode bits of attributes it has;
 *  - getlk, setlk, flock: the kernel then keeps locks among the processes of this machine;
 *  - fallocate: a server of NFS v3 can promise no room, and pretending would be found out by the
 *    database that relied on it; the kernel says EOPNOTSUPP and programs write zeros;
 *  - lseek, copy_file_range, extended attributes: not in NFS v3; the kernel falls back or refuses.
 */
#include "base/cleanup.h"
#include "fuse-client/fuse_fs.h"

#define BACKGROUND_MAX                                                                             \
	64 /* requests that the kernel may have with us for read-ahead and the like */

static void init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	conn->max_write = FUSE_IO_MAX;
	conn->max_background = BACKGROUND_MAX;
	conn->congestion_threshold = BACKGROUND_MAX * 3 / 4;
	/* Clearing set-id bits after a write is the kernel's: it asks for a SETATTR. */
	conn->want &= ~(unsigned)FUSE_CAP_HANDLE_KILLPRIV;
	/* A link's text never changes under one handle. */
	conn->want |= conn->capable & FUSE_CAP_CACHE_SYMLINKS;
}

const struct fuse_lowlevel_ops fuse_ops = {
	.init = init,
	.lookup = fuse_meta_lookup,
	.forget = fuse_meta_forget,
	.forget_multi = fuse_meta_forget_multi,
	.getattr = fuse_meta_getattr,
	.setattr = fuse_meta_setattr,
	.readlink = fuse_meta_readlink,
	.statfs = fuse_meta_statfs,
	.mknod = fuse_name_mknod,
	.mkdir = fuse_name_mkdir,
	.symlink = fuse_name_symlink,
	.link = fuse_name_link,
	.create = fuse_name_create,
	.unlink = fuse_remove_unlink,
	.rmdir = fuse_remove_rmdir,
	.rename = fuse_remove_rename,
	.open = fuse_io_open,
	.read = fuse_io_read,
	.write = fuse_io_write,
	.flush = fuse_io_flush,
	.fsync = fuse_io_fsync,
	.release = fuse_io_release,
	.opendir = fuse_dir_open,
	.readdir = fuse_dir_read,
	.readdirplus = fuse_dir_read_plus,
	.releasedir = fuse_dir_release,
	.fsyncdir = fuse_dir_fsync,
};
