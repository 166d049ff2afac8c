/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the entries of a READDIR or READDIRPLUS reply, as a client reads them.  What is
 * accepted must lie inside the input, and the server's writer must make as many bytes of it.
 *
 * Input: even first byte READDIR, odd READDIRPLUS, then the list.
 */
#include <errno.h>

#include "fuzz.h"
#include "proto/nfs3_bulk.h"

static bool is_inside(const void *q, size_t len, const uint8_t *p, size_t n)
{
	const uint8_t *start = q;

	return start >= p && len <= n && start <= p + (n - len);
}

static bool add(struct nfs3_dirlist *l, const struct nfs3_dirent *d, bool plus)
{
	if (!plus)
		return nfs3_dirlist_add(l, d->fileid, d->name, d->name_len, d->cookie);
	return nfs3_dirlist_add_plus(l, d->fileid, d->name, d->name_len, d->cookie,
				     d->has_attrs ? &d->attrs : NULL, d->has_fh ? d->fh : NULL,
				     d->fh_len);
}

static void read_list(const uint8_t *p, size_t n, bool plus)
{
	size_t room = n > NFS3_DIRLIST_TAIL ? n : NFS3_DIRLIST_TAIL;
	uint8_t *again = malloc(room);
	struct nfs3_dirlist l;
	struct nfs3_dirent d;
	size_t pos = 0;
	bool eof = false;
	int rc;

	MUST(again != NULL);
	nfs3_dirlist_init(&l, again, room);
	while ((rc = nfs3_dirlist_next(p, n, &pos, plus, &d, &eof)) == 1) {
		MUST(pos <= n);
		MUST(is_inside(d.name, d.name_len, p, n));
		MUST(!d.has_fh || (d.fh_len <= NFS3_FHSIZE && is_inside(d.fh, d.fh_len, p, n)));
		/* Where the tail is missing in the input the last entry finds no room for one. */
		if (!add(&l, &d, plus))
			MUST(n - pos < NFS3_DIRLIST_TAIL);
		else
			MUST(l.len == pos);
	}
	MUST(rc == 0 || rc == -EBADMSG);
	if (rc == 0)
		MUST(pos == n && nfs3_dirlist_finish(&l, eof) == n);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0)
		read_list(data + 1, size - 1, data[0] % 2 != 0);
	return 0;
}
