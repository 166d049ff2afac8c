/* SPDX-License-Identifier: MIT */
/*
 * What the command line of `fuse-client mount` (and of mount(8), which calls us as a helper) asks
 * for: see fuse_options.c, whose table is the one place where an option is described.
 */
#ifndef FUSE_CLIENT_FUSE_OPTIONS_H
#define FUSE_CLIENT_FUSE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"

#define FUSE_TARGET_MAX 1024 /* bytes of a host or a path in a target */

struct fuse_target {
	char host[256];
	uint16_t port;
	char path[FUSE_TARGET_MAX]; /* begins with '/', no '/' at its end but for the root */
};

struct fuse_options {
	struct fuse_target target;
	bool has_target;
	const char *dir; /* borrowed from the command line, as all text here */

	const char *api, *workspace, *api_key_file;
	uint16_t mount_port; /* of the MOUNT program; 0: the target's port */

	bool foreground, trace, read_only, allow_other, no_map, soft;
	bool has_uid, has_gid;
	uid_t uid;
	gid_t gid;
	mode_t umask;
	unsigned n_conns;
	uint64_t timeout_s;       /* of --soft */
	uint64_t mount_timeout_s; /* how long the server may take to answer the mount */
	double attr_timeout, entry_timeout, negative_timeout; /* seconds */
	uint64_t cache_size; /* bytes of written data that may be held until it is committed */
};

void fuse_options_init(struct fuse_options *o);

/**
 * fuse_options_parse_target() - "HOST[:PORT]:/PATH" or "nfs://HOST[:PORT]/PATH"
 *
 * An IPv6 address stands in brackets.  The port is 2049 when none is given.  Pure.
 * Return: 0 or -EINVAL with a sentence.
 */
int fuse_options_parse_target(const char *text, struct fuse_target *ret, struct err *err);

/* fuse_options_parse() - the words behind `mount`; pure but for the words that are kept in @o */
int fuse_options_parse(int argc, char **argv, struct fuse_options *o, struct err *err);

/**
 * fuse_options_parse_helper() - the words that mount(8) calls a helper with
 *
 * SPEC DIR [-sfnv] [-t TYPE] [-o a,b=c]; words meant for mount(8) itself are skipped.
 * @argv's texts are changed: the list behind -o is cut into its words.
 */
int fuse_options_parse_helper(int argc, char **argv, struct fuse_options *o, struct err *err);

void fuse_options_print_help(FILE *f); /* the table, for --help */

#endif
