/* SPDX-License-Identifier: MIT */
/*
 * fuse-client: the commands.  Called under the name mount.fuse.workspaced it is mount(8)'s helper.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "fuse-client/fuse_api.h"
#include "fuse-client/fuse_options.h"
#include "fuse-client/fuse_serve.h"
#include "fuse-client/fuse_status.h"
#include "fuse-client/fuse_umount.h"

enum { EXIT_USAGE = 2 };

static int complain(const struct err *err)
{
	(void)fprintf(stderr, "fuse-client: %s\n", err->msg);
	return err->code == -EINVAL ? EXIT_USAGE : EXIT_FAILURE;
}

static void help(FILE *f)
{
	(void)fputs("usage: fuse-client mount [OPTIONS] HOST[:PORT]:/ID[/SUB] DIR\n"
		    "       fuse-client mount [OPTIONS] nfs://HOST:PORT/ID[/SUB] DIR\n"
		    "       fuse-client mount [OPTIONS] --api URL --workspace NAME DIR\n"
		    "       fuse-client umount [--lazy] DIR\n"
		    "       fuse-client status [--json]\n"
		    "       fuse-client --help | --version\n"
		    "\n"
		    "Options of mount:\n",
		    f);
	fuse_options_print_help(f);
	(void)fputs("  -o LIST                      the same options, as in fstab: a,b=c\n", f);
}

/* ---- commands ----------------------------------------------------------- */

/* The directory as it will still be found after the process has left its own. */
static int settle_dir(struct fuse_options *o, char path[PATH_MAX], struct err *err)
{
	int rc = fuse_umount_prepare(o->dir, err);

	if (rc < 0)
		return rc;
	if (realpath(o->dir, path) == NULL)
		return err_set(err, -errno, "'%s': %s", o->dir, strerror(errno));
	o->dir = path;
	return 0;
}

static int mount_with(struct fuse_options o)
{
	struct err err = { 0 };
	char path[PATH_MAX];
	int rc = log_configure(o.trace ? "debug,rpc,nfs,main" : "info", &err);

	if (rc == 0)
		rc = settle_dir(&o, path, &err);
	if (rc == 0 && o.workspace != NULL)
		rc = fuse_api_resolve(&o, &err);
	if (rc == 0)
		rc = fuse_serve(&o, &err);
	return rc < 0 ? complain(&err) : EXIT_SUCCESS;
}

static int cmd_mount(int argc, char **argv)
{
	struct fuse_options o;
	struct err err = { 0 };

	fuse_options_init(&o);
	if (fuse_options_parse(argc, argv, &o, &err) < 0)
		return complain(&err);
	return mount_with(o);
}

static int cmd_helper(int argc, char **argv)
{
	struct fuse_options o;
	struct err err = { 0 };

	fuse_options_init(&o);
	if (fuse_options_parse_helper(argc, argv, &o, &err) < 0)
		return complain(&err);
	return mount_with(o);
}

static int cmd_umount(int argc, char **argv)
{
	const char *dir = NULL;
	bool lazy = false;
	struct err err = { 0 };

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--lazy") == 0 || strcmp(argv[i], "-z") == 0) {
			lazy = true;
		} else if (argv[i][0] == '-' || dir != NULL) {
			(void)err_set(&err, -EINVAL, "umount [--lazy] DIR");
			return complain(&err);
		} else {
			dir = argv[i];
		}
	}
	if (dir == NULL) {
		(void)err_set(&err, -EINVAL, "umount [--lazy] DIR");
		return complain(&err);
	}
	return fuse_umount(dir, lazy, &err) < 0 ? complain(&err) : EXIT_SUCCESS;
}

static int cmd_status(int argc, char **argv)
{
	bool as_json = argc == 1 && strcmp(argv[0], "--json") == 0;
	struct err err = { 0 };

	if (argc > 1 || (argc == 1 && !as_json)) {
		(void)err_set(&err, -EINVAL, "status [--json]");
		return complain(&err);
	}
	return fuse_status_print(as_json, &err) < 0 ? complain(&err) : EXIT_SUCCESS;
}

static int cmd_help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	help(stdout);
	return EXIT_SUCCESS;
}

static int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	(void)puts("fuse-client " WORKSPACED_VERSION);
	return EXIT_SUCCESS;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "mount", cmd_mount },   { "umount", cmd_umount },     { "unmount", cmd_umount },
	{ "status", cmd_status }, { "--help", cmd_help },       { "-h", cmd_help },
	{ "help", cmd_help },     { "--version", cmd_version },
};

int main(int argc, char **argv)
{
	const char *self = argc > 0 ? strrchr(argv[0], '/') : NULL;

	self = self != NULL ? self + 1 : argc > 0 ? argv[0] : "";
	if (strncmp(self, "mount.", strlen("mount.")) == 0)
		return cmd_helper(argc - 1, argv + 1);
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(commands); i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 2, argv + 2);
	}
	help(stderr);
	return EXIT_USAGE;
}
