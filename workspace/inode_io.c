/* SPDX-License-Identifier: MIT */
/*
 * Descriptors for data (see inode.h): opened when first needed, shared by all calls on the file,
 * closed early when they can write.  And the fsync that many callers share.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "workspace/inode.h"
#include "workspace/inode_priv.h"
#include "workspace/path.h"

void inode_io_put(struct inode_io *io)
{
	if (__atomic_sub_fetch(&io->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	(void)close(io->fd);
	free(io);
}

/* While one that can write is open the kernel refuses to execute the file: what is executable is
 * opened for each use. */
static bool may_keep_writer(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & 0111) == 0;
}

static struct inode_io *make_io(int fd)
{
	struct inode_io *io = calloc(1, sizeof(*io));

	if (io != NULL)
		*io = (struct inode_io){ .fd = fd, .refs = 1, .nowait_ok = true };
	return io;
}

static int open_data(struct inode_cache *c, struct inode *ino, int flags, bool may_block)
{
	/* O_NONBLOCK: a lease that somebody took on the file would make open(2) wait until it is
	 * broken. */
	int fd = path_reopen(ino->path_fd, flags | O_NONBLOCK);

	if (fd == -EAGAIN)
		return may_block ? -EINPROGRESS : -EAGAIN;
	if (fd != -EACCES || c->o.open_file == NULL)
		return fd;
	return may_block ? c->o.open_file(c->o.arg, ino, flags) : -EAGAIN;
}

/* Keep @io in the entry too, unless another thread was first. */
static void install_io(struct inode_cache *c, struct inode *ino, struct inode_io *io,
		       bool is_writer)
{
	struct shard *s = inode_shard(c, ino->node.hash);
	struct inode_io **slot = is_writer ? &ino->wr : &ino->rd;

	pthread_mutex_lock(&s->mutex);
	if (*slot == NULL && !ino->is_dead) {
		__atomic_add_fetch(&io->refs, 1, __ATOMIC_RELAXED);
		*slot = io;
		inode_count_fds(c, 1);
		if (is_writer) {
			ino->wr_used_ns = clock_mono_ns();
			list_add_tail(&s->writers, &ino->wr_list);
		}
	}
	pthread_mutex_unlock(&s->mutex);
	inode_evict_down(c);
}

int inode_io_get(struct inode_cache *c, struct inode *ino, bool for_write, bool may_block,
		 struct inode_io **ret)
{
	struct shard *s = inode_shard(c, ino->node.hash);
	struct inode_io *io;
	int fd;

	if (!S_ISREG(ino->type))
		return S_ISDIR(ino->type) ? -EISDIR : -EINVAL;
	pthread_mutex_lock(&s->mutex);
	io = !for_write && ino->rd != NULL ? ino->rd : ino->wr;
	if (io != NULL) {
		__atomic_add_fetch(&io->refs, 1, __ATOMIC_RELAXED);
		if (for_write)
			ino->wr_used_ns = clock_mono_ns();
	}
	pthread_mutex_unlock(&s->mutex);
	if (io != NULL) {
		*ret = io;
		return 0;
	}
	fd = open_data(c, ino, for_write ? O_RDWR : O_RDONLY, may_block);
	if (fd < 0)
		return fd;
	io = make_io(fd);
	if (io == NULL) {
		(void)close(fd);
		return -ENOMEM;
	}
	if (!for_write || may_keep_writer(fd))
		install_io(c, ino, io, for_write);
	*ret = io;
	return 0;
}

void inode_io_adopt(struct inode_cache *c, struct inode *ino, int fd)
{
	struct inode_io *io;

	if (!may_keep_writer(fd)) {
		(void)close(fd);
		return;
	}
	io = make_io(fd);
	if (io == NULL) {
		(void)close(fd);
		return;
	}
	install_io(c, ino, io, true);
	inode_io_put(io);
}

void inode_io_forget_write(struct inode_cache *c, struct inode *ino)
{
	struct shard *s = inode_shard(c, ino->node.hash);
	struct inode_io *io;

	pthread_mutex_lock(&s->mutex);
	io = inode_detach_io(c, &ino->wr);
	list_del(&ino->wr_list);
	pthread_mutex_unlock(&s->mutex);
	if (io != NULL)
		inode_io_put(io);
}

/* ---- group commit ------------------------------------------------------- */

void inode_sync_free(struct inode_sync *s)
{
	if (s == NULL)
		return;
	pthread_mutex_destroy(&s->mutex);
	pthread_cond_destroy(&s->done_cond);
	free(s);
}

static struct inode_sync *sync_of(struct inode *ino)
{
	struct inode_sync *s = __atomic_load_n(&ino->sync, __ATOMIC_ACQUIRE);
	struct inode_sync *expected = NULL;

	if (s != NULL)
		return s;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->done_cond, NULL);
	if (__atomic_compare_exchange_n(&ino->sync, &expected, s, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return s;
	inode_sync_free(s);
	return expected;
}

/* @ret_lost: set when it was the flush that failed: what was written may be gone. */
static int sync_now(struct inode_cache *c, struct inode *ino, bool *ret_lost)
{
	struct inode_io *io;
	int fd, rc;

	if (S_ISREG(ino->type)) {
		/* The writer's own descriptor, where there is one, is sure to see an error of its
		 * writes. */
		rc = inode_io_get(c, ino, false, true, &io);
		if (rc < 0)
			return rc;
		rc = fsync(io->fd) < 0 ? -errno : 0;
		*ret_lost = rc < 0;
		inode_io_put(io);
		return rc;
	}
	if (!S_ISDIR(ino->type))
		return 0;
	fd = path_open(ino->path_fd, ".", O_RDONLY | O_DIRECTORY, 0, 0);
	if (fd < 0)
		return fd;
	rc = fsync(fd) < 0 ? -errno : 0;
	*ret_lost = rc < 0;
	(void)close(fd);
	return rc;
}

/*
 * The kernel marks pages that it could not write clean and tells the error once.  So everybody who
 * has asked by now gets it: an fsync of their own would succeed although their data is lost.  Those
 * who have not asked yet see the counts, which change before anybody can flush this file again.
 */
static void note_failure(struct inode_cache *c, struct inode_sync *s, int rc, bool is_lost)
{
	s->done = s->failed_upto = s->n_asked;
	s->failed_rc = rc;
	if (!is_lost)
		return;
	(void)__atomic_add_fetch(&s->n_lost, 1, __ATOMIC_ACQ_REL);
	(void)__atomic_add_fetch(&c->n_lost, 1, __ATOMIC_ACQ_REL);
}

uint64_t inode_lost_flushes(struct inode *ino)
{
	const struct inode_sync *s = __atomic_load_n(&ino->sync, __ATOMIC_ACQUIRE);

	return s != NULL ? __atomic_load_n(&s->n_lost, __ATOMIC_ACQUIRE) : 0;
}

uint64_t inode_cache_lost_flushes(const struct inode_cache *c)
{
	return __atomic_load_n(&c->n_lost, __ATOMIC_ACQUIRE);
}

int inode_sync(struct inode_cache *c, struct inode *ino)
{
	struct inode_sync *s = sync_of(ino);
	uint64_t ticket, covers;
	bool is_lost = false;
	int rc = 0;

	if (s == NULL)
		return -ENOMEM;
	pthread_mutex_lock(&s->mutex);
	ticket = ++s->n_asked;
	while (s->done < ticket && s->is_running)
		pthread_cond_wait(&s->done_cond, &s->mutex);
	if (s->done < ticket) {
		/* This one leads: its fsync answers everybody who has asked by now. */
		s->is_running = true;
		covers = s->n_asked;
		pthread_mutex_unlock(&s->mutex);
		rc = sync_now(c, ino, &is_lost);
		pthread_mutex_lock(&s->mutex);
		s->is_running = false;
		if (rc < 0)
			note_failure(c, s, rc, is_lost);
		else
			s->done = covers;
		pthread_cond_broadcast(&s->done_cond);
	} else if (ticket <= s->failed_upto) {
		rc = s->failed_rc;
	}
	pthread_mutex_unlock(&s->mutex);
	return rc;
}
