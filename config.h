/* SPDX-License-Identifier: MIT */
/*
 * The daemon's settings: one table with name, type, default and help.  Parsing, --help,
 * --check-config and the table in docs/configuration.md all come from it, so a new setting is one
 * row.
 *
 * A setting comes from the environment, or from a file of the same names, or is its default; the
 * environment wins over the file.  Every value is checked when it is read, so the getters cannot
 * fail. Main thread, at start-up; after that a struct config is only read.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/peer.h"
#include "config_check.h"
#include "workspace/workspace.h"

enum config_id {
	CFG_DATA_DIR,
	CFG_WORKSPACE_DIR, /* another name of CFG_DATA_DIR; never has a value of its own */
	CFG_DATABASE_URL,
	CFG_SERVICE_USER,
	CFG_OWNER,
	CFG_LOCAL_UIDS,
	CFG_ALLOW_UNAUTHENTICATED,
	CFG_LOG,
	CFG_HTTP_HOST,
	CFG_HTTP_PORT,
	CFG_HTTP_SOCKET,
	CFG_HTTP_RATE,
	CFG_HTTP_CONCURRENCY,
	CFG_API_KEY,
	CFG_ALLOWED_ORIGINS,
	CFG_ARCHIVE_MAX_BYTES,
	CFG_ARCHIVE_MAX_ENTRIES,
	CFG_ARCHIVE_MAX_RATIO,
	CFG_ARCHIVE_MAX_JOBS,
	CFG_TRASH_TTL,
	CFG_ADOPT_ROOTS,
	CFG_NFS_MODE,
	CFG_NFS_BIND,
	CFG_NFS_PORT,
	CFG_NFS_HOST,
	CFG_NFS_THREADS,
	CFG_NFS_EXPORTS,
	CFG_NFS_METADATA_SYNC,
	CFG_MIN_SANDBOX_TIER,
	CFG_MAX_SANDBOXES,
	CFG_TEMPLATES,
	CFG_SANDBOX_NETWORK,
	CFG_ALLOW_NETWORK,
	CFG_SANDBOX_MEMORY,
	CFG_SANDBOX_CPU,
	CFG_SANDBOX_PIDS,
	CFG_ON_RESTART,
	CFG_AGENT_TIMEOUT,
	CFG_AGENT_SERVER_ADDR,
	CFG_MAX_IDLE_TIME,
	CFG_PTY_REQUIRE_KEY,
	CFG_WORKSPACE_HOST_DIR,
	CFG_BASE_IMAGE,
	CFG_DOCKER_HOST,
	CFG_DOCKER_SOCKET,
	CFG_DOCKER_NETWORK,
	CFG_SANDBOX_EXTRA_HOSTS,
	CFG_MCP_MODE,
	CFG_MCP_PATH,
	CFG_MCP_PROFILE,
	CFG_GRPC_HOST,
	CFG_GRPC_PORT,
	CFG_N
};

struct config;

int config_new(struct config **ret); /* every setting at its default; 0 or -ENOMEM */
void config_free(struct config *c);  /* overwrites secrets */

/**
 * config_load_file() - settings from a file of NAME=value lines
 *
 * Blank lines and lines that begin with '#' are skipped; one pair of quotes around a value is taken
 * off; no other syntax.  An unknown name and a name given twice are errors.  A relative @path is
 * below the current directory.  Return: 0, or -errno with a sentence that names file and line.
 */
int config_load_file(struct config *c, const char *path, struct err *err);

/* config_load_env() - settings from "NAME=value" strings, NULL at the end; unknown names are left
 * alone */
int config_load_env(struct config *c, char *const *env, struct err *err);

/* config_check() - what a single value does not show: an address open to others without protection
 */
int config_check(const struct config *c, struct err *err);

/* config_warn_unknown() - one log line for each WORKSPACE_* in @env that is no setting, with the
 * nearest one */
void config_warn_unknown(char *const *env);

/* config_nearest() - the setting that was probably meant: a few letters to change, or the
 * beginning is the same; NULL when none is near.  Static storage. */
const char *config_nearest(const char *name);

/* Values; text is borrowed for the life of @c and NULL when the setting has neither value nor
 * default. */
const char *config_text(const struct config *c, enum config_id id);
uint64_t config_uint(const struct config *c, enum config_id id);
uint64_t config_size(const struct config *c, enum config_id id); /* bytes: "64G" is 2^36 */
bool config_bool(const struct config *c, enum config_id id);
bool config_is_loopback(const struct config *c, enum config_id id); /* of an address */
void config_owner(const struct config *c, uid_t *ret_uid, gid_t *ret_gid);

/* config_local_uids() - root, this process's own user and WORKSPACE_LOCAL_UIDS; everyone where no
 * authentication is asked for */
void config_local_uids(const struct config *c, struct peer_uids *ret);
/* config_exports() - WORKSPACE_NFS_EXPORTS; all networks where it is unset and no authentication is
 * asked for */
void config_exports(const struct config *c, struct export_rules *ret);

/**
 * config_api_keys() - WORKSPACE_API_KEY as a list of "key" and "name:key", "@FILE" read
 * @ret:	owned by the caller; no items when no key is set
 *
 * Before privilege is given up, so that the file may be root's alone.  Return: 0 or -errno with a
 * sentence.
 */
int config_api_keys(const struct config *c, struct config_list *ret, struct err *err);

/* config_log_notes() - what an operator should know of settings that are valid: those that nothing
 * uses yet, an address open to everybody, a URL that others cannot use.  One line each. */
void config_log_notes(const struct config *c);

void config_print_help(FILE *out); /* the part of --help about settings */
void config_print_docs(FILE *out); /* the table in docs/configuration.md */
/* config_print_values() - --check-config: a file that can be read back; secrets are left out */
void config_print_values(FILE *out, const struct config *c);

#endif
