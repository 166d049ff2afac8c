/* SPDX-License-Identifier: MIT */
/*
 * The loop of a mount: requests come from /dev/fuse, calls go to the server, answers come back, all
 * in one thread.
 *
 * Start: ask the server for the root, mount, and only then go to the background, so that whoever
 * called has either a mount that answers or a message.
 *
 * End: the mount is gone (umount) or a signal came.  What the kernel has given us is finished
 * first, for at most DRAIN_NS: every close has already waited for its data, so what could be lost
 * when the server does not come back are writes of programs that never closed.  A second signal
 * does not wait.
 */
#include "fuse-client/fuse_serve.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "fuse-client/fuse_fs.h"
#include "fuse-client/fuse_status.h"
#include "fuse-client/nfs_mount.h"

#define REQUESTS_A_TURN 64 /* of the kernel's, before replies from the server have their turn */
#define TICK_MS         250
#define TRIM_MIN        (1u << 20) /* bytes of writes that are worth a malloc_trim(3) */
#define DRAIN_NS        (10 * NSEC_PER_SEC)

struct server {
	struct fuse_fs fs;
	uv_loop_t loop;
	uv_poll_t requests;
	uv_timer_t tick;
	uv_signal_t signals[3];
	struct fuse_status *status; /* owned; NULL when there is nowhere to put it */
	bool is_ending, must_end;
	bool wants_trim;
	uint64_t end_by_ns;
};

static const int end_signals[] = { SIGINT, SIGTERM, SIGHUP };

/* ---- requests ----------------------------------------------------------- */

static void begin_end(struct server *s)
{
	if (s->is_ending)
		return;
	s->is_ending = true;
	s->end_by_ns = clock_mono_ns() + DRAIN_NS;
	uv_poll_stop(&s->requests);
}

static void on_request(uv_poll_t *h, int status, int events)
{
	struct server *s = h->data;

	(void)events;
	for (int i = 0; status == 0 && i < REQUESTS_A_TURN; i++) {
		int n = fuse_session_receive_buf(s->fs.se, &s->fs.request);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			begin_end(s);
			return;
		}
		fuse_session_process_buf(s->fs.se, &s->fs.request);
	}
	if (status < 0 || fuse_session_exited(s->fs.se))
		begin_end(s);
}

/* What much writing has left in the allocator's hands; once, when it is over. */
static void give_memory_back(struct server *s)
{
	if (s->fs.wb.n_bytes > TRIM_MIN) {
		s->wants_trim = true;
	} else if (s->wants_trim && s->fs.wb.n_bytes == 0) {
		s->wants_trim = false;
		(void)malloc_trim(0);
	}
}

static void on_tick(uv_timer_t *t)
{
	struct server *s = t->data;

	fop_cancel_interrupted(&s->fs);
	give_memory_back(s);
	if (s->is_ending && clock_mono_ns() > s->end_by_ns)
		s->must_end = true;
}

static void on_signal(uv_signal_t *h, int signum)
{
	struct server *s = h->data;

	(void)signum;
	s->must_end = s->is_ending;
	begin_end(s);
}

/* ---- start -------------------------------------------------------------- */

static void fs_init(struct server *s, const struct fuse_options *o, const struct nfs_mount *m)
{
	struct fuse_fs *fs = &s->fs;
	uint64_t tag;

	io_random(&tag, sizeof(tag));
	*fs = (struct fuse_fs){
		.loop = &s->loop,
		.nfs = m->nfs,
		.opt = o,
		.rsize = m->rsize,
		.dtsize = m->dtsize,
		.map = { .is_on = !o->no_map,
			 .uid = o->has_uid ? o->uid : getuid(),
			 .gid = o->has_gid ? o->gid : getgid(),
			 .umask = o->umask },
	};
	list_init(&fs->ops);
	(void)snprintf(fs->hidden_prefix, sizeof(fs->hidden_prefix), ".fuse_hidden%016llx",
		       (unsigned long long)tag);
	wback_pool_init(&fs->wb, &s->loop, m->nfs, m->wsize, o->cache_size);
}

static int session_args(const struct fuse_options *o, struct fuse_args *args)
{
	char name[sizeof(o->target.host) + sizeof(o->target.path) + 32];
	char *list = NULL;
	int rc = 0;

	(void)snprintf(name, sizeof(name), "fsname=%s:%s", o->target.host, o->target.path);
	rc |= fuse_opt_add_opt(&list, "subtype=workspaced");
	rc |= fuse_opt_add_opt(&list, "default_permissions");
	rc |= fuse_opt_add_opt_escaped(&list, name);
	if (o->allow_other)
		rc |= fuse_opt_add_opt(&list, "allow_other");
	if (o->read_only)
		rc |= fuse_opt_add_opt(&list, "ro");
	rc |= fuse_opt_add_arg(args, "fuse-client");
	rc |= fuse_opt_add_arg(args, "-o");
	rc |= fuse_opt_add_arg(args, list != NULL ? list : "");
	free(list);
	return rc;
}

static int session_mount(struct server *s, const struct fuse_options *o, struct err *err)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	int rc = session_args(o, &args);

	s->fs.se = rc == 0 ? fuse_session_new(&args, &fuse_ops, sizeof(fuse_ops), &s->fs) : NULL;
	fuse_opt_free_args(&args);
	if (s->fs.se == NULL)
		return err_set(err, -ENOMEM, "no FUSE session");
	if (fuse_session_mount(s->fs.se, o->dir) != 0) {
		fuse_session_destroy(s->fs.se);
		/* libfuse and fusermount3 have said what, on stderr. */
		return err_set(err, -EPERM, "'%s' could not be mounted on", o->dir);
	}
	rc = io_set_nonblock(fuse_session_fd(s->fs.se), true);
	if (rc < 0) {
		fuse_session_unmount(s->fs.se);
		fuse_session_destroy(s->fs.se);
		return err_set(err, rc, "/dev/fuse");
	}
	return 0;
}

static void watch(struct server *s, const struct fuse_options *o)
{
	uv_poll_init(&s->loop, &s->requests, fuse_session_fd(s->fs.se));
	uv_timer_init(&s->loop, &s->tick);
	s->requests.data = s->tick.data = s;
	uv_poll_start(&s->requests, UV_READABLE, on_request);
	uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
	for (size_t i = 0; i < ARRAY_LEN(end_signals); i++) {
		uv_signal_init(&s->loop, &s->signals[i]);
		s->signals[i].data = s;
		uv_signal_start(&s->signals[i], on_signal, end_signals[i]);
	}
	s->status = fuse_status_open(&s->fs, o);
}

/* ---- end ---------------------------------------------------------------- */

/* Without a server only unwritten data is worth waiting for it. */
static bool is_drained(const struct server *s)
{
	return wback_pool_is_idle(&s->fs.wb) &&
	       (s->fs.n_ops == 0 || !rpc_client_is_up(nfs_client_rpc(s->fs.nfs)));
}

static void run(struct server *s)
{
	while (!s->must_end && !(s->is_ending && is_drained(s)))
		uv_run(&s->loop, UV_RUN_ONCE);
}

static void close_all(struct server *s)
{
	fuse_status_close(s->status);
	for (size_t i = 0; i < ARRAY_LEN(end_signals); i++)
		uv_close((uv_handle_t *)&s->signals[i], NULL);
	uv_close((uv_handle_t *)&s->requests, NULL);
	uv_close((uv_handle_t *)&s->tick, NULL);
	wback_pool_close(&s->fs.wb);
	/* Operations that still wait are told that it is over, which the kernel passes on. */
	nfs_client_close(s->fs.nfs);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	fuse_session_unmount(s->fs.se);
	fuse_session_destroy(s->fs.se);
	finode_table_fini(&s->fs.inodes);
	free(s->fs.request.mem);
}

static void give_up(struct server *s)
{
	wback_pool_close(&s->fs.wb);
	nfs_client_close(s->fs.nfs);
	uv_run(&s->loop, UV_RUN_DEFAULT);
}

static int serve(struct server *s, const struct fuse_options *o, struct err *err)
{
	struct nfs_mount m;
	nfs_fh3 root;
	int rc = nfs_mount_ask(&s->loop, o, &m, err);

	if (rc < 0)
		return rc;
	fs_init(s, o, &m);
	root.data.data_len = m.fh_len;
	root.data.data_val = (char *)m.fh;
	rc = finode_table_init(&s->fs.inodes, m.nfs, &root);
	if (rc < 0) {
		give_up(s);
		return err_set(err, rc, "no memory");
	}
	rc = session_mount(s, o, err);
	if (rc < 0) {
		give_up(s);
		finode_table_fini(&s->fs.inodes);
		return rc;
	}
	/* From here on a child goes on in our place; its descriptors are ours, its threads are not.
	 */
	if (fuse_daemonize(o->foreground) != 0 || (!o->foreground && uv_loop_fork(&s->loop) != 0))
		s->must_end = true;
	watch(s, o);
	log_info(LOG_MAIN, "mounted dir=%s", o->dir);
	run(s);
	close_all(s);
	return 0;
}

int fuse_serve(const struct fuse_options *o, struct err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int rc;

	if (s == NULL || uv_loop_init(&s->loop) < 0) {
		free(s);
		return err_set(err, -ENOMEM, "no memory");
	}
	(void)signal(SIGPIPE, SIG_IGN);
	rc = serve(s, o, err);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&s->loop);
	free(s);
	/* libuv's exit handler joins the pool's threads, which our parent had and we have not: it
	 * would wait for ever.  Nothing is buffered, and nothing else is to be done. */
	if (rc == 0 && !o->foreground)
		_exit(EXIT_SUCCESS);
	return rc;
}
