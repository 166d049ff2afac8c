/* SPDX-License-Identifier: MIT */
/*
 * Who has mounted what, for MOUNT's DUMP (RFC 1813 appendix I).  Advisory, as everywhere: a client
 * that goes away without UMNT stays in it until it mounts again or the table is full and the oldest
 * entry goes. In memory only.  Any thread.
 */
#ifndef NFSD_MOUNT_TABLE_H
#define NFSD_MOUNT_TABLE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define MOUNT_TABLE_MAX 1024

struct mount_table;

int mount_table_new(struct mount_table **ret);
void mount_table_free(struct mount_table *m);
/* Twice the same is once. Memory running out only means that DUMP does not show it. */
void mount_table_add(struct mount_table *m, const struct in6_addr *addr, const char *path,
		     size_t len);
void mount_table_remove(struct mount_table *m, const struct in6_addr *addr, const char *path,
			size_t len);
void mount_table_remove_all(struct mount_table *m, const struct in6_addr *addr);
/* Entries of @addr, newest last; stops when @fn returns false. */
void mount_table_each(struct mount_table *m, const struct in6_addr *addr,
		      bool (*fn)(void *arg, const char *path, size_t len), void *arg);

#endif
