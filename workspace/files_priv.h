/* SPDX-License-Identifier: MIT */
/* Shared by files*.c alone: where in the tree a change happens, and the lock on that name. */
#ifndef WORKSPACE_FILES_PRIV_H
#define WORKSPACE_FILES_PRIV_H

#include <limits.h>

#include "workspace/files.h"

#define FILES_DIR_MODE   0755
#define FILES_FILE_MODE  0644
#define FILES_STAGE_MODE 0600         /* until it is put in place nobody else reads it */
#define FILES_IO_SIZE    (256u << 10) /* bytes of the buffer for copies */

/* ---- places ------------------------------------------------------------- */

/* A name in an open directory, whether something is there or not. */
struct files_place {
	int dirfd; /* owned; O_PATH; -1 when there is none */
	char name[NAME_MAX + 1];
};

#define FILES_PLACE_NONE                                                                           \
	{                                                                                          \
		.dirfd = -1                                                                        \
	}

enum files_place_flags {
	PLACE_FOLLOW = 1u << 0,  /* where a link as the last component leads */
	PLACE_PARENTS = 1u << 1, /* make the directories above that are missing */
};

/* files_place_find() - 0; -ENOENT (a directory above is missing), -EISDIR (the root, or a link that
 * leads to a directory), -EXDEV, -ENOTDIR, -errno */
int files_place_find(struct workspace *ws, const char *rel, unsigned flags,
		     struct files_place *ret);
void files_place_fini(struct files_place *p);
#define auto_place __attribute__((cleanup(files_place_fini)))

/* files_open_at() - an O_PATH descriptor of what is at a place, links not followed, with *@ret
 * filled in */
int files_open_at(const struct files_place *p, struct files_info *ret);

/* files_make_dir() - one new directory, charged and told: 0, -EEXIST, -EDQUOT, -errno */
int files_make_dir(struct workspace *ws, int dirfd, const char *name, mode_t mode);

/* files_make_dirs() - the directory @dir of the workspace with all above it: an O_PATH descriptor
 */
int files_make_dirs(struct workspace *ws, const char *dir);

/* ---- locks (files_lock.c) ----------------------------------------------- */

struct files_lock; /* on a name in a directory, known by its inode: paths may lead there by links */

/* Wait until nobody else holds it.  0, -ENOMEM, -errno. */
int files_lock_take(const struct files_place *p, struct files_lock **ret);
/* files_lock_take2() - two places, in an order that is the same for everybody; may be the same
 * place */
int files_lock_take2(const struct files_place *a, const struct files_place *b,
		     struct files_lock *ret[2]);
void files_lock_release(struct files_lock *l); /* NULL is fine */

/* ---- conditions --------------------------------------------------------- */

/* files_check_place() - is @c fulfilled by what is at @p now?  To be asked under its lock. */
int files_check_place(const struct files_place *p, const struct files_condition *c);

/* ---- tags (files_etag.c) ------------------------------------------------ */

#define FILES_HASH_BYTES 16
struct crypto_generichash_blake2b_state;
/* files_etag_final() - the tag of what went through a hash begun with FILES_HASH_BYTES */
void files_etag_final(struct crypto_generichash_blake2b_state *state, char dst[FILES_ETAG_LEN]);

/* ---- putting in place (files_replace.c) --------------------------------- */

/* files_stage_charge() - before as many bytes are written to files_stage_fd(): 0 or -EDQUOT; given
 * back with the stage unless it is put in place */
int files_stage_charge(struct files_staged *s, uint64_t size);

enum files_put_flags {
	PUT_SYNC = 1u << 0, /* on disk before it gets the name */
	PUT_MODE = 1u << 1, /* @mode, whatever was there; else that of what was there, or 0644 */
};

/* files_put_at() - give a staged file its mode and attributes and rename it to @p.  @ret may be
 * NULL. */
int files_put_at(struct files_staged *s, const struct files_place *p, unsigned flags, mode_t mode,
		 struct files_result *ret);

/* ---- copies (files_copy.c) ---------------------------------------------- */

/* files_copy_bytes() - from one file's position 0 to the end behind another's; shares blocks where
 * the file system can.  0 or -errno. */
int files_copy_bytes(int from, int to);

#endif
