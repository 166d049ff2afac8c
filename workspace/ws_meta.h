/* SPDX-License-Identifier: MIT */
/*
 * Name and metadata of a workspace: what is acceptable, and their form in the store.  Pure
 * functions.
 */
#ifndef WORKSPACE_WS_META_H
#define WORKSPACE_WS_META_H

#include <stddef.h>

#include "base/err.h"
#include "workspace/workspace.h"

/* ws_name_check() - 0, or -EINVAL with a sentence: UTF-8 of at most WS_NAME_MAX bytes, no control
 * characters */
int ws_name_check(const char *name, struct err *err);

/* ws_meta_check() - 0, or -EINVAL with a sentence that names the pair and the limit it passes */
int ws_meta_check(const struct ws_pair *pairs, size_t n, struct err *err);

/* ws_meta_to_json() - owned text of an object of strings; NULL when out of memory */
char *ws_meta_to_json(const struct ws_pair *pairs, size_t n);

/* ws_meta_from_json() - owned pairs (ws_meta_free()), or -EINVAL when @json is not what
 * ws_meta_to_json() writes */
int ws_meta_from_json(const char *json, struct ws_pair **ret, size_t *ret_n, struct err *err);

void ws_meta_free(struct ws_pair *pairs, size_t n);

/* ws_meta_copy() - owned copy in *@ret; 0 or -ENOMEM */
int ws_meta_copy(const struct ws_pair *pairs, size_t n, struct ws_pair **ret);

#endif
