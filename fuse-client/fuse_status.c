/* SPDX-License-Identifier: MIT */
/*
 * Each mount's process listens on a socket, named by its pid, in a folder that only its user can
 * enter; whoever connects is sent one JSON object.  There is no state on disk that could be wrong:
 * a socket that nobody answers on is what a killed process left, and is removed by the next asker.
 */
#include "fuse-client/fuse_status.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "fuse-client/fuse_fs.h"
#include "proto/jsonx.h"

#define REPLY_MAX (64u << 10) /* bytes */
#define ASK_MS    2000        /* how long a mount may take to answer */

struct fuse_status {
	uv_pipe_t pipe;
	struct fuse_fs *fs;
	const struct fuse_options *o;
	char path[108];
};

/* The folder of this user's sockets; made if need be.  False if it is not ours alone. */
static bool status_dir(char *dst, size_t n)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	struct stat st;

	if (run != NULL && run[0] == '/')
		(void)snprintf(dst, n, "%.70s/fuse-client", run);
	else if (geteuid() == 0)
		(void)snprintf(dst, n, "/run/fuse-client");
	else
		(void)snprintf(dst, n, "/tmp/fuse-client-%u", geteuid());
	if (mkdir(dst, 0700) < 0 && errno != EEXIST)
		return false;
	return lstat(dst, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 077) == 0;
}

/* ---- the mount's side --------------------------------------------------- */

static json_t *rpc_counts(struct fuse_fs *fs)
{
	json_t *o = json_object();

	for (uint32_t i = 0; i < NFS_N_PROCS; i++) {
		if (nfs_client_count(fs->nfs, i) > 0)
			(void)json_object_set_new(
				o, nfs_proc_name(i),
				json_integer((json_int_t)nfs_client_count(fs->nfs, i)));
	}
	return o;
}

static json_t *describe(const struct fuse_status *s)
{
	struct fuse_fs *fs = s->fs;
	struct rpc_client *rpc = nfs_client_rpc(fs->nfs);
	struct rpc_client_stats st;

#define NUMBER(x) ((json_int_t)(x))
	rpc_client_stats(rpc, &st);
	return json_pack(
		"{s:s, s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
		"s:I, s:s, s:o}",
		"dir", s->o->dir, "server", s->o->target.host, "port", (int)s->o->target.port,
		"path", s->o->target.path, "pid", NUMBER(getpid()), "connections",
		NUMBER(st.n_conns), "connected", NUMBER(st.n_up), "connects", NUMBER(st.n_connects),
		"calls_pending", NUMBER(st.n_pending), "calls_resent", NUMBER(st.n_resent),
		"bytes_sent", NUMBER(st.bytes_sent), "bytes_received", NUMBER(st.bytes_received),
		"requests", NUMBER(fs->n_requests), "inodes", NUMBER(fs->inodes.n_inodes),
		"open_files", NUMBER(fs->n_open), "uncommitted_bytes", NUMBER(fs->wb.n_bytes),
		"replayed_bytes", NUMBER(fs->wb.n_replayed), "last_error",
		rpc_client_last_error(rpc), "calls", rpc_counts(fs));
#undef NUMBER
}

struct answer {
	uv_pipe_t pipe;
	uv_write_t write;
	char *text; /* owned */
};

static void on_answer_closed(uv_handle_t *h)
{
	struct answer *a = container_of(h, struct answer, pipe);

	free(a->text);
	free(a);
}

static void on_answered(uv_write_t *w, int status)
{
	struct answer *a = container_of(w, struct answer, write);

	(void)status;
	uv_close((uv_handle_t *)&a->pipe, on_answer_closed);
}

static void on_asked(uv_stream_t *h, int status)
{
	struct fuse_status *s = h->data;
	struct answer *a = status == 0 ? calloc(1, sizeof(*a)) : NULL;
	json_t *j;
	uv_buf_t buf;

	if (a == NULL)
		return;
	uv_pipe_init(s->fs->loop, &a->pipe, 0);
	if (uv_accept(h, (uv_stream_t *)&a->pipe) == 0) {
		j = describe(s);
		a->text = json_dumps(j, JSON_COMPACT);
		json_decref(j);
	}
	buf = uv_buf_init(a->text, a->text != NULL ? (unsigned)strlen(a->text) : 0);
	if (a->text == NULL ||
	    uv_write(&a->write, (uv_stream_t *)&a->pipe, &buf, 1, on_answered) < 0)
		uv_close((uv_handle_t *)&a->pipe, on_answer_closed);
}

static void on_status_closed(uv_handle_t *h)
{
	struct fuse_status *s = h->data;

	(void)unlink(s->path);
	free(s);
}

struct fuse_status *fuse_status_open(struct fuse_fs *fs, const struct fuse_options *o)
{
	struct fuse_status *s = calloc(1, sizeof(*s));
	char dir[96];

	if (s == NULL || !status_dir(dir, sizeof(dir))) {
		free(s);
		return NULL;
	}
	s->fs = fs;
	s->o = o;
	(void)snprintf(s->path, sizeof(s->path), "%s/%d.sock", dir, (int)getpid());
	(void)unlink(s->path); /* of a predecessor with our pid */
	uv_pipe_init(fs->loop, &s->pipe, 0);
	s->pipe.data = s;
	if (uv_pipe_bind(&s->pipe, s->path) < 0 ||
	    uv_listen((uv_stream_t *)&s->pipe, 8, on_asked) < 0) {
		uv_close((uv_handle_t *)&s->pipe, on_status_closed);
		return NULL;
	}
	return s;
}

void fuse_status_close(struct fuse_status *s)
{
	if (s != NULL)
		uv_close((uv_handle_t *)&s->pipe, on_status_closed);
}

/* ---- the asker's side --------------------------------------------------- */

/* The object of one socket, owned; NULL when nobody answers. */
static json_t *ask(const char *dir, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = ASK_MS / 1000 };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	auto_free char *text = malloc(REPLY_MAX);
	json_t *j = NULL;
	ssize_t n;

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%.60s/%.40s", dir, name);
	if (fd < 0 || text == NULL)
		return NULL;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == ECONNREFUSED)
			(void)unlink(addr.sun_path);
		return NULL;
	}
	n = io_read_full(fd, text, REPLY_MAX);
	if (n <= 0 || jsonx_parse_object(text, (size_t)n, &j, NULL) < 0)
		return NULL;
	return j;
}

static long long number_of(json_t *j, const char *key)
{
	return (long long)json_integer_value(json_object_get(j, key));
}

static void print_one(json_t *j)
{
	(void)printf("%s\n  server       %s:%lld%s\n", json_string_value(json_object_get(j, "dir")),
		     json_string_value(json_object_get(j, "server")), number_of(j, "port"),
		     json_string_value(json_object_get(j, "path")));
	(void)printf("  connections  %lld of %lld, pid %lld\n", number_of(j, "connected"),
		     number_of(j, "connections"), number_of(j, "pid"));
	(void)printf("  calls        %lld pending, %lld sent again\n",
		     number_of(j, "calls_pending"), number_of(j, "calls_resent"));
	(void)printf("  bytes        %lld sent, %lld received, %lld not yet committed\n",
		     number_of(j, "bytes_sent"), number_of(j, "bytes_received"),
		     number_of(j, "uncommitted_bytes"));
	(void)printf("  kernel       %lld requests, %lld inodes, %lld open files\n",
		     number_of(j, "requests"), number_of(j, "inodes"), number_of(j, "open_files"));
}

static int collect(json_t *list, struct err *err)
{
	auto_closedir DIR *d = NULL;
	struct dirent *e;
	char dir[96];
	int fd;

	if (!status_dir(dir, sizeof(dir)))
		return err_set(err, -EACCES, "'%s' is not this user's alone", dir);
	fd = io_open_dir(AT_FDCWD, dir);
	d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL)
		return err_set(err, -errno, "'%s': %s", dir, strerror(errno));
	while ((e = readdir(d)) != NULL) {
		json_t *j = e->d_name[0] != '.' ? ask(dir, e->d_name) : NULL;

		if (j != NULL)
			(void)json_array_append_new(list, j);
	}
	return 0;
}

int fuse_status_print(bool as_json, struct err *err)
{
	auto_json json_t *list = json_array();
	int rc = collect(list, err);
	size_t i;
	json_t *j;

	if (rc < 0)
		return rc;
	if (as_json) {
		(void)json_dumpf(list, stdout, JSON_INDENT(2));
		(void)putchar('\n');
		return 0;
	}
	json_array_foreach(list, i, j) print_one(j);
	if (json_array_size(list) == 0)
		(void)puts("nothing is mounted by this user");
	return 0;
}
