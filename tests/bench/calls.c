/* SPDX-License-Identifier: MIT */
/*
 * calls WHAT N - run one NFS call N times through the dispatcher, without sockets: record in, reply out.
 *
 * For `valgrind --tool=callgrind`, which counts instructions in user space and gives the same number however busy
 * the machine is.  tests/bench/instructions.sh runs it twice with different N and divides the difference.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "nfsd/fh.h"
#include "nfsd/nfs_server.h"
#include "tests/unit/ws_fixture.h"

#define FILE_BYTES 4096

/* valgrind 3.19 does not know openat2(2); what is counted here resolves nothing that could lead out. */
long syscall(long number, ...)
{
	const struct open_how *how;
	const char *path;
	va_list ap;
	int dirfd;

	if (number != SYS_openat2) {
		errno = ENOSYS;
		return -1;
	}
	va_start(ap, number);
	dirfd = va_arg(ap, int);
	path = va_arg(ap, const char *);
	how = va_arg(ap, const struct open_how *);
	va_end(ap);
	return openat(dirfd, path, (int)how->flags, (mode_t)how->mode);
}

static const struct nfs_programs programs = { .nfs = nfs3_procs, .mount = mount3_procs };

static size_t put_u32(uint8_t *p, uint32_t v)
{
	v = htonl(v);
	memcpy(p, &v, 4);
	return 4;
}

static size_t put_opaque(uint8_t *p, const void *bytes, size_t n)
{
	size_t at = put_u32(p, (uint32_t)n);

	memcpy(p + at, bytes, n);
	return at + ((n + 3) & ~(size_t)3);
}

/* Arguments of @what; 0: no such call. */
static size_t put_args(uint8_t *p, const char *what, struct ws_fixture *f, struct fh_codec *fh,
		       uint32_t *ret_proc)
{
	uint8_t file[NFS3_FHSIZE], root[NFS3_FHSIZE];
	struct inode *ino = fixture_lookup(f, "file");
	size_t file_len = fh_encode(fh, f->ws, &ino->key, file);
	size_t root_len = fh_encode(fh, f->ws, &f->root->key, root);
	size_t n = 0;

	inode_unref(f->inodes, ino);
	if (strcmp(what, "getattr") == 0) {
		*ret_proc = NFSPROC3_GETATTR;
		n += put_opaque(p, file, file_len);
	} else if (strcmp(what, "lookup") == 0) {
		*ret_proc = NFSPROC3_LOOKUP;
		n += put_opaque(p, root, root_len);
		n += put_opaque(p + n, "file", 4);
	} else if (strcmp(what, "read4k") == 0) {
		*ret_proc = NFSPROC3_READ;
		n += put_opaque(p, file, file_len);
		n += put_u32(p + n, 0);
		n += put_u32(p + n, 0);
		n += put_u32(p + n, FILE_BYTES);
	}
	return n;
}

int main(int argc, char **argv)
{
	struct nfs_peer peer = { .is_loopback = true, .has_local_uid = true, .local_uid_ok = true };
	static const uint8_t key[FH_KEY_LEN];
	struct ws_fixture f = { 0 };
	struct rpc_call_header h = { .xid = 1, .prog = RPC_PROG_NFS, .vers = 3 };
	uint8_t args[256], record[512], room[NFS_JOB_SMALL];
	char text[FILE_BYTES + 1];
	struct nfsd *d = calloc(1, sizeof(*d));
	struct nfs_job *job;
	struct list waiters;
	long n = argc == 3 ? atol(argv[2]) : 0;
	size_t len;

	if (n <= 0 || d == NULL) {
		fputs("usage: calls getattr|lookup|read4k N\n", stderr);
		return 2;
	}
	fixture_open(&f);
	memset(text, 'x', FILE_BYTES);
	text[FILE_BYTES] = '\0';
	fixture_local_file(&f, "file", text, 0644);
	d->shared = (struct nfsd_shared){ .registry = f.registry, .inodes = f.inodes };
	assert_int_equal(fh_codec_new(key, f.registry, &d->shared.fh), 0);
	nfs_dispatch_init(&d->dispatch, &programs);
	assert_int_equal(nfs_payloads_new(&d->payloads), 0);
	assert_int_equal(drc_new(&(struct drc_options){ 0 }, &d->drc), 0);
	d->dispatch.nfsd = d;
	d->dispatch.drc = d->drc;
	d->dispatch.payloads = d->payloads;
	peer.addr.s6_addr[15] = 1;

	h.cred.flavor = RPC_AUTH_SYS;
	h.args = args;
	h.args_len = put_args(args, argv[1], &f, d->shared.fh, &h.proc);
	len = rpc_write_call(record, sizeof(record), &h, "bench");
	memcpy(record + len, args, h.args_len);
	len += h.args_len;
	job = nfs_job_new(&d->dispatch);
	for (long i = 0; i < n; i++) {
		list_init(&waiters);
		job->call.peer = &peer;
		job->begin_ns = clock_mono_ns();
		assert_int_equal(nfs_dispatch_begin(&d->dispatch, job, record, len, room,
						    sizeof(room), &waiters),
				 NFS_STEP_REPLY);
		assert_false(job->is_failed);
		nfs_job_reset(&d->dispatch, job);
	}
	nfs_job_free(&d->dispatch, job);
	drc_free(d->drc);
	nfs_payloads_free(d->payloads);
	fh_codec_free(d->shared.fh);
	free(d);
	fixture_close(&f);
	return 0;
}
