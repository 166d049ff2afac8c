/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the arguments of any procedure of NFS and MOUNT.  What is accepted must encode again
 * to as many bytes as were read, and freeing must leave nothing behind.
 *
 * Input: the row of the table below, then the arguments.
 */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "proto/mount3.h"
#include "proto/nfs3.h"
#include "proto/nfs3_bulk.h"

typedef bool_t (*xdr_fn)(XDR *x, void *args);

#define ARGS(type)                                                                                 \
	{                                                                                          \
		(xdr_fn)(void (*)(void)) xdr_##type, sizeof(type)                                  \
	}

/* Rows are numbered by the first byte of the inputs in the corpus: append only. */
static const struct {
	xdr_fn fn;
	size_t size;
} rows[] = {
	ARGS(GETATTR3args),  ARGS(SETATTR3args), ARGS(LOOKUP3args),   ARGS(ACCESS3args),
	ARGS(READLINK3args), ARGS(READ3args),    ARGS(CREATE3args),   ARGS(MKDIR3args),
	ARGS(SYMLINK3args),  ARGS(MKNOD3args),   ARGS(REMOVE3args),   ARGS(RMDIR3args),
	ARGS(RENAME3args),   ARGS(LINK3args),    ARGS(READDIR3args),  ARGS(READDIRPLUS3args),
	ARGS(FSSTAT3args),   ARGS(FSINFO3args),  ARGS(PATHCONF3args), ARGS(COMMIT3args),
	ARGS(dirpath),
};

#define ROW_WRITE ARRAY_LEN(rows) /* WRITE has a decoder of its own */
#define INPUT_MAX 65536           /* bytes: names end at 4096, so more only costs time */

static union {
	LINK3args link;
	RENAME3args rename;
	SETATTR3args setattr;
	CREATE3args create;
	SYMLINK3args symlink;
	MKNOD3args mknod;
	READDIRPLUS3args readdirplus;
	uint8_t bytes[512];
} args;

static void run_row(size_t row, const uint8_t *p, size_t n)
{
	static char again[INPUT_MAX];
	XDR in, out;

	MUST(rows[row].size <= sizeof(args));
	memset(&args, 0, sizeof(args));
	xdrmem_create(&in, (char *)(uintptr_t)p, (u_int)n, XDR_DECODE);
	if (rows[row].fn(&in, &args)) {
		xdrmem_create(&out, again, sizeof(again), XDR_ENCODE);
		MUST(rows[row].fn(&out, &args));
		MUST(xdr_getpos(&out) == xdr_getpos(&in));
		xdr_destroy(&out);
	}
	xdr_destroy(&in);
	xdr_free((xdrproc_t)(void (*)(void))rows[row].fn, &args);
}

static void run_write(const uint8_t *p, size_t n)
{
	struct nfs3_write_args a;
	uint8_t again[128];
	size_t head;

	if (!nfs3_bulk_decode_write(p, n, &a))
		return;
	MUST(a.fh_len <= NFS3_FHSIZE && a.fh >= p && a.fh + a.fh_len <= p + n);
	MUST(a.data >= p && a.data + a.data_len <= p + n);
	head = nfs3_bulk_encode_write(again, sizeof(again), &a);
	MUST(head > 0 && a.data == p + head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t row;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	row = data[0] % (ROW_WRITE + 1);
	if (row == ROW_WRITE)
		run_write(data + 1, size - 1);
	else
		run_row(row, data + 1, size - 1);
	return 0;
}
