/* SPDX-License-Identifier: MIT */
/* Charging and crediting (see quota.h).  Counting and storing are in quota_service.c. */
#include "workspace/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"

void quota_free(struct ws_quota *q)
{
	if (q == NULL)
		return;
	for (size_t i = 0; i < QUOTA_STRIPES; i++)
		(void)pthread_mutex_destroy(&q->sizes[i]);
	(void)pthread_mutex_destroy(&q->counting);
	(void)pthread_mutex_destroy(&q->mutex);
	free(q);
}

int64_t quota_blocks(uint64_t size)
{
	if (size > QUOTA_MAX)
		return (int64_t)QUOTA_MAX;
	return (int64_t)((size + QUOTA_BLOCK - 1) / QUOTA_BLOCK * QUOTA_BLOCK);
}

/* ---- the account -------------------------------------------------------- */

static bool is_over(int64_t used, int64_t more, uint64_t limit)
{
	return more > 0 && limit != QUOTA_UNLIMITED && used + more > (int64_t)limit;
}

static int charge_locked(struct ws_quota *q, int64_t bytes, int64_t files)
{
	if (is_over(q->used.bytes, bytes, q->limits.bytes) ||
	    is_over(q->used.files, files, q->limits.files))
		return -EDQUOT;
	q->used.bytes += bytes;
	q->used.files += files;
	q->charged.bytes += bytes;
	q->charged.files += files;
	return 0;
}

static void credit_locked(struct ws_quota *q, int64_t bytes, int64_t files)
{
	q->used.bytes -= bytes;
	q->used.files -= files;
	q->credited.bytes += bytes;
	q->credited.files += files;
}

int quota_take_(struct quota_op *op, int64_t bytes, int64_t files)
{
	struct ws_quota *q = op->quota;
	int rc;

	(void)pthread_mutex_lock(&q->mutex);
	rc = charge_locked(q, bytes, files);
	if (rc == 0) {
		op->charged.bytes += bytes;
		op->charged.files += files;
		q->pending.bytes += bytes;
		q->pending.files += files;
	}
	(void)pthread_mutex_unlock(&q->mutex);
	return rc;
}

static void end_locked(struct quota_op *op, struct quota_amount unused)
{
	op->quota->pending.bytes -= op->charged.bytes;
	op->quota->pending.files -= op->charged.files;
	credit_locked(op->quota, unused.bytes, unused.files);
}

void quota_end_(struct quota_op *op, bool done)
{
	const struct quota_amount none = { 0 };

	(void)pthread_mutex_lock(&op->quota->mutex);
	end_locked(op, done ? none : op->charged);
	(void)pthread_mutex_unlock(&op->quota->mutex);
	*op = (struct quota_op){ 0 };
}

void quota_credit_(struct ws_quota *q, struct quota_amount amount)
{
	if (amount.bytes == 0 && amount.files == 0)
		return;
	(void)pthread_mutex_lock(&q->mutex);
	credit_locked(q, amount.bytes, amount.files);
	(void)pthread_mutex_unlock(&q->mutex);
}

int quota_charge(const struct workspace *ws, int64_t bytes)
{
	struct ws_quota *q = quota_of(ws);
	int rc;

	if (q == NULL || bytes == 0)
		return 0;
	(void)pthread_mutex_lock(&q->mutex);
	rc = charge_locked(q, bytes, 0);
	(void)pthread_mutex_unlock(&q->mutex);
	return rc;
}

void quota_credit(const struct workspace *ws, int64_t bytes)
{
	struct ws_quota *q = quota_of(ws);

	if (q != NULL)
		quota_credit_(q, (struct quota_amount){ .bytes = bytes });
}

void quota_tree_changed(const struct workspace *ws)
{
	struct ws_quota *q = quota_of(ws);

	if (q == NULL)
		return;
	(void)pthread_mutex_lock(&q->mutex);
	q->wants_count = true;
	(void)pthread_mutex_unlock(&q->mutex);
}

/* ---- sizes -------------------------------------------------------------- */

static int lock_size(struct quota_op *op, uint64_t ino, bool may_block)
{
	pthread_mutex_t *lock = &op->quota->sizes[ino % QUOTA_STRIPES];

	if (may_block)
		(void)pthread_mutex_lock(lock);
	else if (pthread_mutex_trylock(lock) != 0)
		return -EAGAIN;
	op->size_lock = lock;
	return 0;
}

static int begin_locked(struct quota_op *op, uint64_t end)
{
	struct stat st;

	if (fstat(op->fd, &st) < 0)
		return -errno;
	op->size_before = (uint64_t)st.st_size;
	if (end <= op->size_before)
		return 0;
	return quota_take_(op, quota_blocks(end) - quota_blocks(op->size_before), 0);
}

int quota_size_begin_(struct quota_op *op, int fd, uint64_t end, bool may_block)
{
	struct stat st;
	int rc = fstat(fd, &st) < 0 ? -errno : 0;

	op->fd = fd;
	if (rc == 0)
		rc = lock_size(op, st.st_ino, may_block);
	if (rc == 0)
		rc = begin_locked(op, end);
	if (rc < 0) {
		if (op->size_lock != NULL)
			(void)pthread_mutex_unlock(op->size_lock);
		*op = (struct quota_op){ 0 };
	}
	return rc;
}

void quota_size_end_(struct quota_op *op)
{
	struct quota_amount unused = op->charged;
	struct stat st;

	if (fstat(op->fd, &st) == 0)
		unused.bytes -= quota_blocks((uint64_t)st.st_size) - quota_blocks(op->size_before);
	(void)pthread_mutex_lock(&op->quota->mutex);
	end_locked(op, unused);
	(void)pthread_mutex_unlock(&op->quota->mutex);
	(void)pthread_mutex_unlock(op->size_lock);
	*op = (struct quota_op){ 0 };
}

void quota_look_(struct quota_victim *v, int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (!S_ISDIR(st.st_mode) && st.st_nlink > 1)
		return;
	v->amount.files = 1;
	if (S_ISREG(st.st_mode))
		v->amount.bytes = quota_blocks((uint64_t)st.st_size);
}

/* ---- as a file system --------------------------------------------------- */

static uint64_t left(uint64_t limit, int64_t used)
{
	uint64_t u = used > 0 ? (uint64_t)used : 0;

	return limit > u ? limit - u : 0;
}

static uint64_t room_of(uint64_t limit, int64_t used)
{
	return limit == QUOTA_UNLIMITED ? limit : left(limit, used);
}

struct quota_limits quota_room(const struct workspace *ws)
{
	struct quota_limits room = { QUOTA_UNLIMITED, QUOTA_UNLIMITED };
	struct ws_quota *q = quota_of(ws);

	if (q == NULL)
		return room;
	(void)pthread_mutex_lock(&q->mutex);
	room.bytes = room_of(q->limits.bytes, q->used.bytes);
	room.files = room_of(q->limits.files, q->used.files);
	(void)pthread_mutex_unlock(&q->mutex);
	return room;
}

void quota_statvfs(const struct workspace *ws, struct statvfs *st)
{
	struct ws_quota *q = quota_of(ws);
	struct quota_usage u;

	if (q == NULL)
		return;
	(void)pthread_mutex_lock(&q->mutex);
	u = (struct quota_usage){ .limits = q->limits, .used = q->used };
	(void)pthread_mutex_unlock(&q->mutex);
	if (u.limits.bytes != QUOTA_UNLIMITED && st->f_frsize > 0) {
		st->f_blocks = u.limits.bytes / st->f_frsize;
		st->f_bfree = MIN(st->f_bavail, left(u.limits.bytes, u.used.bytes) / st->f_frsize);
		st->f_bavail = st->f_bfree;
	}
	if (u.limits.files != QUOTA_UNLIMITED) {
		st->f_files = u.limits.files;
		st->f_ffree = MIN(st->f_favail, left(u.limits.files, u.used.files));
		st->f_favail = st->f_ffree;
	}
}
