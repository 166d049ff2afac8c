/* SPDX-License-Identifier: MIT */
/*
 * One mounted file system, and one operation of the kernel's on it.  Shared by the fuse_*.c files;
 * everything belongs to the thread of the loop.
 */
#ifndef FUSE_CLIENT_FUSE_FS_H
#define FUSE_CLIENT_FUSE_FS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include <fuse3/fuse_lowlevel.h>

#include "base/list.h"
#include "fuse-client/fuse_attr.h"
#include "fuse-client/fuse_inode.h"
#include "fuse-client/fuse_options.h"
#include "fuse-client/nfs_client.h"
#include "fuse-client/wback.h"

#define FUSE_IO_MAX (1u << 20) /* bytes: what one request of the kernel's may carry */

struct fuse_fs {
	uv_loop_t *loop;
	struct fuse_session *se;
	struct nfs_client *nfs;
	const struct fuse_options *opt;
	struct fuse_attr_map map;
	struct finode_table inodes;
	struct wback_pool wb;
	uint32_t rsize, dtsize; /* bytes: of READ and of a page of a directory */
	bool no_readdirplus;    /* the server said so */
	struct list ops;        /* struct fop, all that are not finished */
	size_t n_ops;
	uint64_t n_requests;     /* of the kernel's, ever */
	uint64_t n_open;         /* regular files */
	struct fuse_buf request; /* the one being handled; fuse_io may take its memory */
	char hidden_prefix[40];  /* of names that unlinked open files get in the root folder */
	uint64_t n_hidden;
};

struct fop;
typedef void (*fop_next)(struct fop *op, const struct nfs_result *r);

struct fop {
	struct list link;
	struct fuse_fs *fs;
	fuse_req_t req; /* NULL once answered */
	const char *what;
	uint64_t start_ns, interrupted_ns;
	fop_next next;
	void (*on_interrupt)(struct fop *op); /* NULL: answer EINTR */
	void (*on_free)(struct fop *op);      /* NULL: nothing besides */

	/* A change under way: who is changed by the call (references), by which procedure. */
	struct finode *changing[2];
	uint64_t token[2];
	uint32_t change_proc;

	/* What an operation needs between its calls. */
	struct finode *ino, *ino2; /* references */
	char *name, *name2;        /* owned */
	struct fuse_file_info fi;
	mode_t mode;
	bool wants_plus;
	int to_set;
	sattr3 attrs;
	uint64_t off, age_ns; /* age: of attributes that were kept */
	size_t size, n_done;
	unsigned n_parts;
	uint8_t *buf; /* owned */
	uint8_t fh[NFS3_FHSIZE];
	u_int fh_len;
	int err;
};

/**
 * fop_new() - begin an operation
 * @ino:	a reference is taken; NULL for none
 *
 * Return: NULL when there is no memory; @req is then answered.
 */
struct fop *fop_new(fuse_req_t req, const char *what, struct finode *ino);
/* fop_name() - keep a name for a later call; false (and the operation is over) without memory */
bool fop_name(struct fop *op, char **slot, const char *name);

/* fop_send() - the next call of the operation; the last thing that is done with @op */
void fop_send(struct fop *op, uint32_t proc, const void *args, fop_next next);

/* fop_change() - the same for a call that changes @a, whose attributes the result has, and @b, of
 * which it may say nothing; @b may be NULL */
void fop_change(struct fop *op, uint32_t proc, const void *args, fop_next next, struct finode *a,
		struct finode *b);

/* Each ends the operation and frees it.  If it was interrupted, nobody is told. */
void fop_err(struct fop *op, int err); /* 0 or -errno */
void fop_free(struct fop *op);         /* answered by other means, or without an answer */
void fop_attr(struct fop *op, struct finode *ino, const fattr3 *a, uint64_t sent_seq);
void fop_entry(struct fop *op, const nfs_fh3 *fh, const fattr3 *a, uint64_t sent_seq);

/* fop_param() - an entry for the kernel; the inode gets a reference that the caller gives back */
struct finode *fop_param(struct fuse_fs *fs, const nfs_fh3 *fh, const fattr3 *a, uint64_t sent_seq,
			 struct fuse_entry_param *ret);
/* fop_keep_fh() - remember a handle that a result lends; fop_kept_fh() - it */
void fop_keep_fh(struct fop *op, const nfs_fh3 *fh);
nfs_fh3 fop_kept_fh(struct fop *op);
/* fop_lookup() - LOOKUP @dir/@name and end the operation with the entry */
void fop_lookup(struct fop *op, struct finode *dir, const char *name);

void fop_cancel_interrupted(struct fuse_fs *fs); /* for a timer */

struct fuse_fs *fop_fs(fuse_req_t req);
struct finode *fop_inode(fuse_req_t req, fuse_ino_t ino);
diropargs3 fop_where(struct finode *dir, const char *name);
/* The attributes a result may have; NULL when it has none. */
static inline const fattr3 *fop_post(const post_op_attr *a)
{
	return a->attributes_follow ? &a->post_op_attr_u.attributes : NULL;
}

/* ---- operations, for the table in fuse_ops.c ---------------------------- */
void fuse_meta_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void fuse_meta_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n);
void fuse_meta_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *f);
void fuse_meta_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fuse_meta_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		       struct fuse_file_info *fi);
void fuse_meta_readlink(fuse_req_t req, fuse_ino_t ino);
void fuse_meta_statfs(fuse_req_t req, fuse_ino_t ino);

void fuse_name_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void fuse_name_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void fuse_name_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void fuse_name_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void fuse_name_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi);

void fuse_remove_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void fuse_remove_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void fuse_remove_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t parent2,
			const char *name2, unsigned flags);
/* fuse_remove_hidden() - the last open of an unlinked file is gone: remove its hidden name */
void fuse_remove_hidden(struct fuse_fs *fs, struct finode *ino);
bool fuse_remove_is_hidden(const struct fuse_fs *fs, const char *name, size_t len);

void fuse_io_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* Of an open's flags; FLUSH has none, so an open file's fh keeps the answer. */
bool fuse_io_is_writable(const struct fuse_file_info *fi);
void fuse_io_opened(struct fuse_fs *fs, struct finode *ino); /* counts; CREATE does so too */
void fuse_io_closed(struct fuse_fs *fs, struct finode *ino);
void fuse_io_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		  struct fuse_file_info *fi);
void fuse_io_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
		   struct fuse_file_info *fi);
void fuse_io_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fuse_io_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi);
void fuse_io_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

void fuse_dir_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fuse_dir_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		   struct fuse_file_info *fi);
void fuse_dir_read_plus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			struct fuse_file_info *fi);
void fuse_dir_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fuse_dir_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi);

extern const struct fuse_lowlevel_ops fuse_ops;

#endif
