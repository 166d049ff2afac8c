/* SPDX-License-Identifier: MIT */
/*
 * The main process's side of the broker: a handful of requests over a socket pair.  The broker is
 * the only process that keeps privilege; it checks every request against what was registered and
 * parses nothing that came from outside.  All calls block (tens of microseconds) and may be made
 * from any pool thread; never from a loop.
 */
#ifndef BROKER_BROKER_CLIENT_H
#define BROKER_BROKER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct broker;

#define BROKER_ADOPT_ROOTS_MAX 16

struct broker_options {
	const char *data_dir;     /* exists; may be relative */
	const char *service_user; /* NULL or "": chosen as documented at broker_start() */
	/* Absolute directories below which broker_adopt() may open others; at most
	 * BROKER_ADOPT_ROOTS_MAX.  Opened once, at the start. */
	const char *const *adopt_roots;
	size_t n_adopt_roots;
};

struct broker_caps {
	bool is_root;          /* the broker runs with host root's privilege */
	bool can_open_handles; /* probed by really opening one in the data directory */
	uid_t service_uid;     /* what the main process now runs as */
	gid_t service_gid;
	/*
	 * The data directory for the rest of this process: "/proc/self/fd/N" of a descriptor that
	 * was opened with privilege and stays open for the life of the process.  The path the
	 * operator gave may lead through folders that the service user cannot enter (a clone in
	 * root's home), so everything goes through this one instead.  SQLite resolves links in a
	 * path before it opens it and would meet the closed folder after all: whoever opens a
	 * database below this path first replaces the "lstat" of SQLite's VFS (xSetSystemCall) by
	 * one that answers ENOENT.
	 */
	char data_path[32];
};

/**
 * broker_start() - fork the broker, then give up privilege in this process
 *
 * Started as root: the data directory is handed to the service user (@service_user as a name, "uid"
 * or "uid:gid"; else the user "workspaced" if it exists, else uid/gid 64055; never root), the child
 * becomes the service user too but keeps CAP_DAC_READ_SEARCH and CAP_DAC_OVERRIDE, and the caller
 * returns as the service user: no capabilities, no supplementary groups, no-new-privileges, not
 * dumpable, no core files, as many descriptors as the host allows (at most 1048576).  Started as an
 * ordinary user: the same fork and protocol; the data directory must be that user's.  Must be
 * called before any thread, socket or user file exists.  The broker ends when the socket closes,
 * and the main process is told (broker_pidfd) when the broker dies.
 *
 * Return: 0 with *@ret owned, or -errno with a sentence.
 */
int broker_start(const struct broker_options *o, struct broker **ret, struct broker_caps *ret_caps,
		 struct err *err);
void broker_stop(
	struct broker *b); /* ends it and waits; NULL is fine; descriptors handed out stay valid */

/* broker_pidfd() - becomes readable when the broker has died: the daemon then stops.  Borrowed. */
int broker_pidfd(const struct broker *b);

/* The broker opens workspaces/<id>/files itself below the data directory it was started with. */
int broker_register(struct broker *b, uint64_t ws_key, const char *ws_id, struct err *err);

/**
 * broker_adopt() - register a directory of the operator's as a workspace
 * @path:	absolute; below one of the adopt_roots, without links on the way from there
 *
 * It must be the service user's, neither hold nor lie in the data directory or another adopted
 * directory, and be on the file system of its root.  Nothing is changed in it.
 * Return: an O_PATH descriptor the caller owns, or -errno with a sentence: -EINVAL for whatever is
 * wrong with the directory.
 */
int broker_adopt(struct broker *b, uint64_t ws_key, const char *path, struct err *err);
int broker_unregister(struct broker *b, uint64_t ws_key);

/**
 * broker_open_handle() - open_by_handle_at(2) below a registered workspace, O_PATH
 *
 * A directory must lie in the registered root.  What is not a directory has no place that could be
 * checked: there the MAC of file handles keeps one workspace's handles out of another.  The object
 * is on the mount of the registered root in any case, and it has a name (a removed file is
 * -ESTALE). Return: a descriptor the caller owns, -ESTALE, -EPERM (not possible here), -ENOENT (not
 * registered), -EPIPE (the broker is gone), -errno.
 */
int broker_open_handle(struct broker *b, uint64_t ws_key, uint8_t htype, const void *bytes,
		       size_t len);

/**
 * broker_open_file() - open a regular file for its owner in spite of its mode bits
 * @path_fd:	borrowed O_PATH descriptor; must be a regular file of the service user on the file
 *system of the registered workspace
 * @flags:	O_RDONLY or O_RDWR
 *
 * For the owner's READ and WRITE of a file of mode 0000 (RFC 1813 section 4.4).  An ordinary user's
 * broker opens the mode up for a moment instead and puts it back.
 * Return: a descriptor the caller owns, -EPERM (not such a file), -EBUSY (somebody holds a lease on
 *it), -ETXTBSY, -ENOENT (not registered), -EPIPE (the broker is gone), -errno.
 */
int broker_open_file(struct broker *b, uint64_t ws_key, int path_fd, int flags);

#endif
