/* SPDX-License-Identifier: MIT */
/*
 * The main process's side of the broker: a handful of requests over a socket pair.  The broker is the
 * only process that keeps privilege; it checks every request against what was registered and parses
 * nothing that came from outside.  All calls block (tens of microseconds) and may be made from any pool
 * thread; never from a loop.
 */
#ifndef BROKER_BROKER_CLIENT_H
#define BROKER_BROKER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct broker;

struct broker_options {
	const char *data_dir; /* absolute, exists */
	const char *service_user; /* NULL or "": chosen as documented at broker_start() */
};

struct broker_caps {
	bool is_root;		  /* the broker runs with host root's privilege */
	bool can_open_handles;	  /* probed by really opening one in the data directory */
	uid_t service_uid;	  /* what the main process now runs as */
	gid_t service_gid;
};

/**
 * broker_start() - fork the broker, then give up privilege in this process
 *
 * Started as root: the data directory is handed to the service user (WORKSPACE_SERVICE_USER, else the user
 * "workspaced" if it exists, else uid/gid 64055), the child keeps CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE
 * and nothing else, and the caller returns as the service user: no capabilities, no supplementary groups,
 * no-new-privileges, not dumpable.  Started as an ordinary user: the same fork and protocol, nothing to
 * give up.  Must be called before any thread, socket or user file exists.  The broker ends when the
 * socket closes, and the main process is told (broker_fd) when the broker dies.
 *
 * Return: 0 with *@ret owned, or -errno with a sentence.
 */
int broker_start(const struct broker_options *o, struct broker **ret, struct broker_caps *ret_caps, struct err *err);
void broker_stop(struct broker *b); /* asks it to end and waits; any descriptors handed out stay valid */

/* broker_pidfd() - becomes readable when the broker has died: the daemon then stops.  Borrowed. */
int broker_pidfd(const struct broker *b);

/* The broker opens workspaces/<id>/files itself below the data directory it was started with. */
int broker_register(struct broker *b, uint64_t ws_key, const char *ws_id, struct err *err);
int broker_unregister(struct broker *b, uint64_t ws_key);

/**
 * broker_open_handle() - open_by_handle_at(2) below a registered workspace, O_PATH
 *
 * A directory must lie in the registered root; the opened object must be on its file system.
 * Return: a descriptor the caller owns, -ESTALE, -EPERM (not possible here), -errno.
 */
int broker_open_handle(struct broker *b, uint64_t ws_key, uint8_t htype, const void *bytes, size_t len);

/**
 * broker_open_file() - open a regular file for its owner in spite of its mode bits
 * @path_fd:	borrowed O_PATH descriptor; must be a regular file of the service user on the file system
 *		of the registered workspace
 * @flags:	O_RDONLY or O_RDWR
 *
 * For the owner's READ and WRITE of a file of mode 0000 (RFC 1813 section 4.4).  An ordinary user's
 * broker opens the mode up for a moment instead and puts it back.
 */
int broker_open_file(struct broker *b, uint64_t ws_key, int path_fd, int flags);

#endif
