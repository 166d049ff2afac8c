/* SPDX-License-Identifier: MIT */
#include "nfsd/mount_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

struct mount_entry {
	struct list link;
	struct in6_addr addr;
	size_t len;
	char path[];
};

struct mount_table {
	pthread_mutex_t mutex;
	struct list entries; /* oldest first; protected by mutex */
	size_t n;
};

int mount_table_new(struct mount_table **ret)
{
	struct mount_table *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return -ENOMEM;
	pthread_mutex_init(&m->mutex, NULL);
	list_init(&m->entries);
	*ret = m;
	return 0;
}

static void drop(struct mount_table *m, struct mount_entry *e)
{
	list_del(&e->link);
	free(e);
	m->n--;
}

void mount_table_free(struct mount_table *m)
{
	if (m == NULL)
		return;
	while (!list_is_empty(&m->entries))
		drop(m, list_entry(m->entries.next, struct mount_entry, link));
	pthread_mutex_destroy(&m->mutex);
	free(m);
}

static bool is_of(const struct mount_entry *e, const struct in6_addr *addr)
{
	return memcmp(&e->addr, addr, sizeof(*addr)) == 0;
}

static void remove_locked(struct mount_table *m, const struct in6_addr *addr, const char *path,
			  size_t len)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &m->entries) {
		struct mount_entry *e = list_entry(pos, struct mount_entry, link);

		if (is_of(e, addr) &&
		    (path == NULL || (e->len == len && memcmp(e->path, path, len) == 0)))
			drop(m, e);
	}
}

void mount_table_add(struct mount_table *m, const struct in6_addr *addr, const char *path,
		     size_t len)
{
	struct mount_entry *e = malloc(sizeof(*e) + len);

	if (e == NULL)
		return;
	e->addr = *addr;
	e->len = len;
	memcpy(e->path, path, len);
	pthread_mutex_lock(&m->mutex);
	remove_locked(m, addr, path, len);
	if (m->n >= MOUNT_TABLE_MAX)
		drop(m, list_entry(m->entries.next, struct mount_entry, link));
	list_add_tail(&m->entries, &e->link);
	m->n++;
	pthread_mutex_unlock(&m->mutex);
}

void mount_table_remove(struct mount_table *m, const struct in6_addr *addr, const char *path,
			size_t len)
{
	pthread_mutex_lock(&m->mutex);
	remove_locked(m, addr, path, len);
	pthread_mutex_unlock(&m->mutex);
}

void mount_table_remove_all(struct mount_table *m, const struct in6_addr *addr)
{
	mount_table_remove(m, addr, NULL, 0);
}

void mount_table_each(struct mount_table *m, const struct in6_addr *addr,
		      bool (*fn)(void *arg, const char *path, size_t len), void *arg)
{
	struct list *pos;

	pthread_mutex_lock(&m->mutex);
	list_for_each (pos, &m->entries) {
		struct mount_entry *e = list_entry(pos, struct mount_entry, link);

		if (is_of(e, addr) && !fn(arg, e->path, e->len))
			break;
	}
	pthread_mutex_unlock(&m->mutex);
}
