/* SPDX-License-Identifier: MIT */
/*
 * Locks on names: a check of a version and the change that depends on it are one step for all
 * writers of this process.  An entry lives while somebody holds it or waits for it.
 *
 * The key is the directory's inode and the name in it, so that two paths to one place (by a link to
 * a directory) meet.  Holders may do disk work; they take no further lock of this kind but by
 * files_lock_take2(), which orders them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "workspace/files_priv.h"

struct lock_key {
	uint64_t dev, ino;       /* of the directory */
	char name[NAME_MAX + 1]; /* rest zero */
};

struct files_lock {
	struct map_node node;
	struct lock_key key;
	unsigned n_users; /* protected by table_mutex */
	pthread_mutex_t mutex;
};

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct map table; /* protected by table_mutex; all zero is an empty map */

static int make_key(const struct files_place *p, struct lock_key *ret)
{
	struct files_info info;
	int rc = files_info_fd(p->dirfd, &info);

	if (rc < 0)
		return rc;
	*ret = (struct lock_key){ .dev = info.dev, .ino = info.ino };
	memcpy(ret->name, p->name, strlen(p->name));
	return 0;
}

static struct files_lock *find(const struct lock_key *key, uint64_t hash)
{
	struct map_node *n = map_first(&table, hash);

	for (; n != NULL; n = map_next(n)) {
		struct files_lock *l = (struct files_lock *)n; /* node is its first member */

		if (memcmp(&l->key, key, sizeof(*key)) == 0)
			return l;
	}
	return NULL;
}

static struct files_lock *add(const struct lock_key *key, uint64_t hash)
{
	struct files_lock *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->key = *key;
	if (map_insert(&table, &l->node, hash) < 0) {
		free(l);
		return NULL;
	}
	(void)pthread_mutex_init(&l->mutex, NULL);
	return l;
}

static struct files_lock *take(const struct lock_key *key)
{
	uint64_t hash = map_hash_bytes(key, sizeof(*key));
	struct files_lock *l;

	(void)pthread_mutex_lock(&table_mutex);
	l = find(key, hash);
	if (l == NULL)
		l = add(key, hash);
	if (l != NULL)
		l->n_users++;
	(void)pthread_mutex_unlock(&table_mutex);
	if (l != NULL)
		(void)pthread_mutex_lock(&l->mutex);
	return l;
}

int files_lock_take(const struct files_place *p, struct files_lock **ret)
{
	struct lock_key key;
	int rc = make_key(p, &key);

	if (rc < 0)
		return rc;
	*ret = take(&key);
	return *ret != NULL ? 0 : -ENOMEM;
}

int files_lock_take2(const struct files_place *a, const struct files_place *b,
		     struct files_lock *ret[2])
{
	struct lock_key key[2];
	int order, rc = make_key(a, &key[0]);

	if (rc == 0)
		rc = make_key(b, &key[1]);
	if (rc < 0)
		return rc;
	order = memcmp(&key[0], &key[1], sizeof(key[0]));
	ret[0] = take(&key[order > 0]);
	ret[1] = order != 0 && ret[0] != NULL ? take(&key[order < 0]) : NULL;
	if (ret[0] != NULL && (order == 0 || ret[1] != NULL))
		return 0;
	files_lock_release(ret[0]);
	return -ENOMEM;
}

void files_lock_release(struct files_lock *l)
{
	bool is_last;

	if (l == NULL)
		return;
	(void)pthread_mutex_unlock(&l->mutex);
	(void)pthread_mutex_lock(&table_mutex);
	is_last = --l->n_users == 0;
	if (is_last)
		map_remove(&table, &l->node);
	(void)pthread_mutex_unlock(&table_mutex);
	if (!is_last)
		return;
	(void)pthread_mutex_destroy(&l->mutex);
	free(l);
}
