/* SPDX-License-Identifier: MIT */
/*
 * The inode cache: one entry per file, directory or link that a door has touched, with its
 * descriptors.
 *
 * An entry is found by its key, which is what a file handle carries: the workspace, and either the
 * kernel's own handle (name_to_handle_at) or, where those cannot be opened, inode number and birth
 * time.  A key stays valid over renames by any door and over restarts of the server.
 *
 * The entry holds an O_PATH descriptor, so that attributes cost one system call, and up to two
 * descriptors for data, opened when first needed.  A descriptor that can write is closed soon after
 * its last use: while one is open the kernel refuses to execute the file (ETXTBSY), and a sandbox
 * beside us may want to run what a client just wrote.
 *
 * All functions may be called from any thread.  With @may_block false a function that would wait
 * for the disk or for the broker returns -EAGAIN instead; the caller repeats it in a pool.
 */
#ifndef WORKSPACE_INODE_H
#define WORKSPACE_INODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "workspace/workspace.h"

#define INODE_HANDLE_MAX                                                                           \
	32 /* bytes: overlayfs has the longest kernel handle that fits an NFS handle */

enum inode_key_kind {
	INODE_KEY_KERNEL = 1, /* bytes = f_handle of name_to_handle_at(2), htype = handle_type */
	INODE_KEY_BIRTH =
		2, /* bytes = inode number, birth time in ns, generation; 8 bytes big-endian each */
};

/* Compared as memory: unused bytes are 0. */
struct inode_key {
	uint64_t ws; /* struct workspace .key */
	uint8_t kind;
	uint8_t htype;
	uint8_t len; /* bytes used of @bytes */
	uint8_t zero;
	uint32_t fs; /* low half of a hash of the file system's identity: a restored data directory
			is STALE */
	uint8_t bytes[INODE_HANDLE_MAX];
};

struct inode {
	struct inode_key key; /* immutable */
	struct workspace *ws; /* immutable; owned reference */
	uint64_t ino;         /* immutable */
	mode_t type;          /* immutable: S_IFREG, ... */
	int path_fd;          /* immutable; owned; O_PATH */
	/* the rest is inode.c's */
	int refs;     /* atomic; the cache holds one while the entry is in it */
	bool is_used; /* atomic: touched since the clock hand last passed */
	bool is_dead; /* protected by the shard's mutex: out of the cache, freed with its last
			 reference */
	struct map_node node;
	struct list clock;
	struct inode_io *rd, *wr; /* protected by the shard's mutex */
	struct list wr_list;      /* linked while wr is set */
	uint64_t wr_used_ns;      /* protected by the shard's mutex */
	struct inode_sync *sync;  /* atomic; group commit, made when first needed */
};

struct inode_cache;

struct inode_cache_options {
	struct ws_registry *registry; /* borrowed */
	size_t max_fds; /* descriptors the cache may hold; the least recently used go first */
	bool use_kernel_handles; /* false: INODE_KEY_BIRTH with the hints below */
	/* Opens a kernel handle of a registered workspace as O_PATH; blocks.  NULL: not to be had.
	 */
	int (*open_handle)(void *arg, const struct inode_key *key);
	/* Opens a regular file of a registered workspace in spite of its mode bits; blocks; may be
	 * NULL. */
	int (*open_file)(void *arg, const struct inode *ino, int flags);
	void *arg;
	struct inode_hints *hints; /* borrowed; needed when use_kernel_handles is false */
};

int inode_cache_new(const struct inode_cache_options *o, struct inode_cache **ret, struct err *err);
void inode_cache_free(struct inode_cache *c);

/* inode_cache_drop_workspace() - forget every entry of a workspace that is gone */
void inode_cache_drop_workspace(struct inode_cache *c, const struct workspace *ws);

/* inode_cache_sweep() - close writing descriptors idle since @idle_ns, and look through a part of
 * the cache for files that another door removed, whose space our descriptors would keep; called
 * twice a second */
void inode_cache_sweep(struct inode_cache *c, uint64_t idle_ns);

/* inode_forget() - out of the cache: the object was removed or is not what it was */
void inode_forget(struct inode_cache *c, struct inode *ino);
/* inode_forget_key() - the same by key, if it is cached and has no link left */
void inode_forget_key(struct inode_cache *c, const struct inode_key *key);

struct inode_cache_stats {
	uint64_t hits, misses, evictions;
	size_t n_inodes, n_fds;
};
void inode_cache_stats(struct inode_cache *c, struct inode_cache_stats *ret);

/* inode_root() - the workspace's root directory.  0, -ESTALE (gone), -errno. */
int inode_root(struct inode_cache *c, struct workspace *ws, struct inode **ret);

/**
 * inode_from_key() - the inode a handle names
 *
 * Return: 0 with an owned reference, -EAGAIN, -ESTALE (removed, recycled, another file system, or
 * the workspace is gone), -errno of the disk.
 */
int inode_from_key(struct inode_cache *c, const struct inode_key *key, bool may_block,
		   struct inode **ret);

/**
 * inode_lookup() - a name in a directory
 * @name:	one component: not ".", "..", empty, and without '/' or NUL (the caller checked)
 *
 * Links are not followed.  Return: 0 with an owned reference, -EAGAIN, -ENOENT, -EXDEV (something
 * is mounted there), -errno.
 */
int inode_lookup(struct inode_cache *c, struct inode *dir, const char *name, bool may_block,
		 struct inode **ret);

/* inode_parent() - "..": the root's parent is the root.  Blocks. */
int inode_parent(struct inode_cache *c, struct inode *dir, struct inode **ret);

/* inode_key_at() - key of a name without opening it, for READDIRPLUS; 0, -ENOENT, -EXDEV, -errno */
int inode_key_at(struct inode_cache *c, struct inode *dir, const char *name, struct inode_key *ret);

/* inode_adopt() - the inode behind an O_PATH descriptor (taken) that was opened as @name in @dir;
 * @name may be NULL when it lies somewhere below @dir */
int inode_adopt(struct inode_cache *c, struct inode *dir, const char *name, int path_fd,
		struct inode **ret);

/* inode_io_adopt() - hand over a descriptor opened O_RDWR by a create (takes @fd), to be the cached
 * one */
void inode_io_adopt(struct inode_cache *c, struct inode *ino, int fd);

void inode_ref(struct inode *ino);
void inode_unref(struct inode_cache *c, struct inode *ino);

/* ---- descriptors for data ----------------------------------------------- */

struct inode_io {
	int fd;
	int refs;       /* atomic */
	bool nowait_ok; /* preadv2(RWF_NOWAIT) has not been refused for this descriptor */
};

/**
 * inode_io_get() - a descriptor of a regular file for reading, or for reading and writing
 *
 * Give it back with inode_io_put().  Return: 0, -EAGAIN, -EISDIR, -EINVAL (not a regular file),
 * -EACCES, -errno.
 */
int inode_io_get(struct inode_cache *c, struct inode *ino, bool for_write, bool may_block,
		 struct inode_io **ret);
void inode_io_put(struct inode_io *io);

/* inode_io_forget_write() - close the cached writing descriptor once its users are done */
void inode_io_forget_write(struct inode_cache *c, struct inode *ino);

/**
 * inode_sync() - fsync with group commit: callers that arrive during one share the next
 *
 * Blocks.  When a flush fails, all who have asked by then get its error.  Return: 0, -errno.
 */
int inode_sync(struct inode_cache *c, struct inode *ino);

/* Flushes that failed so far, of one inode as long as it is cached, and of all.  Data that was
 * written before a look at these is safe when a flush succeeds and the number is still the same. */
uint64_t inode_lost_flushes(struct inode *ino);
uint64_t inode_cache_lost_flushes(const struct inode_cache *c);

#endif
