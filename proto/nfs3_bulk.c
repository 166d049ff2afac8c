/* SPDX-License-Identifier: MIT */
/*
 * Codecs by hand for what is large or hot.  Layouts are those of RFC 1813:
 *
 *   WRITE3args  fh<64>, offset, count, stable, data<>                             (section 3.3.7)
 *   entry3      1, fileid, name<>, cookie                                         (section 3.3.16)
 *   entryplus3  1, fileid, name<>, cookie, post_op_attr, post_op_fh3              (section 3.3.17)
 *   a list ends with 0 and eof
 *
 * Reading goes through a cursor that turns bad once and stays so: a codec reads all its fields in a
 * row and looks once, at the end, whether they were there.
 */
#include "proto/nfs3_bulk.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "proto/wire.h"

#define FATTR3_LEN 84 /* bytes: 5 words, 8 double words and times */
#define ENTRY_LEN  24 /* bytes of an entry but for the name: 1, fileid, name length, cookie */

struct cursor {
	const uint8_t *p;
	size_t left;
	bool is_bad;
};

static const uint8_t *take(struct cursor *c, size_t n)
{
	static const uint8_t zeros[8]; /* what the fields of a bad cursor read as */
	const uint8_t *p = c->p;

	if (n > c->left) {
		c->is_bad = true;
		c->left = 0;
		return zeros;
	}
	c->p += n;
	c->left -= n;
	return p;
}

static uint32_t take32(struct cursor *c)
{
	return wire_get32(take(c, 4));
}

static uint64_t take64(struct cursor *c)
{
	return wire_get64(take(c, 8));
}

/* An opaque of at most @max bytes with its padding; its length goes to *@ret_len. */
static const uint8_t *take_opaque(struct cursor *c, uint32_t max, uint32_t *ret_len)
{
	uint32_t n = take32(c);

	if (n > max || n > c->left) {
		c->is_bad = true;
		n = 0;
	}
	*ret_len = n;
	return take(c, wire_padded(n));
}

/* A word that may only be one of 0..@max, such as a bool or an enum. */
static uint32_t take_choice(struct cursor *c, uint32_t max)
{
	uint32_t v = take32(c);

	if (v > max) {
		c->is_bad = true;
		return 0;
	}
	return v;
}

/* ---- WRITE -------------------------------------------------------------- */

bool nfs3_bulk_decode_write(const uint8_t *p, size_t n, void *args)
{
	struct nfs3_write_args *a = args;
	struct cursor c = { .p = p, .left = n };

	a->fh = take_opaque(&c, NFS3_FHSIZE, &a->fh_len);
	a->offset = take64(&c);
	a->count = take32(&c);
	a->stable = (stable_how)take_choice(&c, FILE_SYNC);
	a->data = take_opaque(&c, UINT32_MAX, &a->data_len);
	return !c.is_bad && c.left == 0;
}

size_t nfs3_bulk_encode_write(uint8_t *dst, size_t dst_len, const struct nfs3_write_args *a)
{
	uint8_t *p = dst;

	assert(a->fh_len <= NFS3_FHSIZE);
	if (dst_len < 4 + wire_padded(a->fh_len) + 8 + 4 + 4 + 4)
		return 0;
	p = wire_put32(p, a->fh_len);
	p = wire_put_bytes(p, a->fh, a->fh_len);
	p = wire_put64(p, a->offset);
	p = wire_put32(p, a->count);
	p = wire_put32(p, (uint32_t)a->stable);
	p = wire_put32(p, a->data_len);
	return (size_t)(p - dst);
}

/* ---- directory lists, written ------------------------------------------- */

void nfs3_dirlist_init(struct nfs3_dirlist *l, uint8_t *dst, size_t max)
{
	assert(max >= NFS3_DIRLIST_TAIL);
	*l = (struct nfs3_dirlist){ .dst = dst, .max = max };
}

size_t nfs3_dirent_size(size_t name_len)
{
	return ENTRY_LEN + wire_padded(name_len);
}

static bool fits(const struct nfs3_dirlist *l, size_t name_len, size_t more)
{
	size_t room = l->max - l->len - NFS3_DIRLIST_TAIL;

	/* The name first: with a length from anywhere the sum could wrap. */
	return name_len <= room && nfs3_dirent_size(name_len) + more <= room;
}

static uint8_t *put_entry(uint8_t *p, uint64_t fileid, const char *name, size_t name_len,
			  uint64_t cookie)
{
	p = wire_put32(p, 1);
	p = wire_put64(p, fileid);
	p = wire_put32(p, (uint32_t)name_len);
	p = wire_put_bytes(p, name, name_len);
	return wire_put64(p, cookie);
}

static uint8_t *put_time(uint8_t *p, const nfstime3 *t)
{
	p = wire_put32(p, t->seconds);
	return wire_put32(p, t->nseconds);
}

static uint8_t *put_fattr(uint8_t *p, const fattr3 *a)
{
	p = wire_put32(p, (uint32_t)a->type);
	p = wire_put32(p, a->mode);
	p = wire_put32(p, a->nlink);
	p = wire_put32(p, a->uid);
	p = wire_put32(p, a->gid);
	p = wire_put64(p, a->size);
	p = wire_put64(p, a->used);
	p = wire_put32(p, a->rdev.specdata1);
	p = wire_put32(p, a->rdev.specdata2);
	p = wire_put64(p, a->fsid);
	p = wire_put64(p, a->fileid);
	p = put_time(p, &a->atime);
	p = put_time(p, &a->mtime);
	return put_time(p, &a->ctime);
}

bool nfs3_dirlist_add(struct nfs3_dirlist *l, uint64_t fileid, const char *name, size_t name_len,
		      uint64_t cookie)
{
	if (!fits(l, name_len, 0))
		return false;
	l->len = (size_t)(put_entry(l->dst + l->len, fileid, name, name_len, cookie) - l->dst);
	l->n_entries++;
	return true;
}

bool nfs3_dirlist_add_plus(struct nfs3_dirlist *l, uint64_t fileid, const char *name,
			   size_t name_len, uint64_t cookie, const fattr3 *attrs, const uint8_t *fh,
			   size_t fh_len)
{
	size_t more = 4 + (attrs != NULL ? FATTR3_LEN : 0) + 4 +
		      (fh != NULL ? 4 + wire_padded(fh_len) : 0);
	uint8_t *p = l->dst + l->len;

	assert(fh_len <= NFS3_FHSIZE);
	if (!fits(l, name_len, more))
		return false;
	p = put_entry(p, fileid, name, name_len, cookie);
	p = wire_put32(p, attrs != NULL);
	if (attrs != NULL)
		p = put_fattr(p, attrs);
	p = wire_put32(p, fh != NULL);
	if (fh != NULL) {
		p = wire_put32(p, (uint32_t)fh_len);
		p = wire_put_bytes(p, fh, fh_len);
	}
	l->len = (size_t)(p - l->dst);
	l->n_entries++;
	return true;
}

size_t nfs3_dirlist_finish(struct nfs3_dirlist *l, bool eof)
{
	uint8_t *p = l->dst + l->len;

	p = wire_put32(p, 0);
	p = wire_put32(p, eof);
	l->len = (size_t)(p - l->dst);
	return l->len;
}

/* ---- directory lists, read ---------------------------------------------- */

static void take_time(struct cursor *c, nfstime3 *t)
{
	t->seconds = take32(c);
	t->nseconds = take32(c);
}

static void take_fattr(struct cursor *c, fattr3 *a)
{
	a->type = (ftype3)take_choice(c, NF3FIFO);
	if (a->type < NF3REG)
		c->is_bad = true;
	a->mode = take32(c);
	a->nlink = take32(c);
	a->uid = take32(c);
	a->gid = take32(c);
	a->size = take64(c);
	a->used = take64(c);
	a->rdev.specdata1 = take32(c);
	a->rdev.specdata2 = take32(c);
	a->fsid = take64(c);
	a->fileid = take64(c);
	take_time(c, &a->atime);
	take_time(c, &a->mtime);
	take_time(c, &a->ctime);
}

static void take_dirent(struct cursor *c, bool plus, struct nfs3_dirent *e)
{
	*e = (struct nfs3_dirent){ .fileid = take64(c) };
	e->name = (const char *)take_opaque(c, UINT32_MAX, &e->name_len);
	e->cookie = take64(c);
	if (!plus)
		return;
	e->has_attrs = take_choice(c, 1) != 0;
	if (e->has_attrs)
		take_fattr(c, &e->attrs);
	e->has_fh = take_choice(c, 1) != 0;
	if (e->has_fh)
		e->fh = take_opaque(c, NFS3_FHSIZE, &e->fh_len);
}

int nfs3_dirlist_next(const uint8_t *p, size_t n, size_t *pos, bool plus, struct nfs3_dirent *ret,
		      bool *ret_eof)
{
	struct cursor c = { .p = p + *pos, .left = n - *pos };
	bool follows = take_choice(&c, 1) != 0;
	bool eof = false;

	if (follows)
		take_dirent(&c, plus, ret);
	else
		eof = take_choice(&c, 1) != 0;
	if (c.is_bad || (!follows && c.left > 0))
		return -EBADMSG;
	*pos = n - c.left;
	if (!follows)
		*ret_eof = eof;
	return follows;
}
