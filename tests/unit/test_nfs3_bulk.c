/* SPDX-License-Identifier: MIT */
/* The hand-written codecs, held against what rpcgen and libtirpc make of the same values. */
#include "proto/nfs3_bulk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/wire.h"
#include "unit.h"

static const fattr3 sample_attrs = {
	.type = NF3LNK,
	.mode = 0777,
	.nlink = 3,
	.uid = 1000,
	.gid = 100,
	.size = 0x1122334455667788,
	.used = 4096,
	.rdev = { 8, 1 },
	.fsid = 0xfedcba9876543210,
	.fileid = 0xffffffffffffffff,
	.atime = { 1, 999999999 },
	.mtime = { 0xffffffff, 2 },
	.ctime = { 3, 4 },
};

/* ---- WRITE -------------------------------------------------------------- */

/* WRITE3args of RFC 1813 by libtirpc. */
static size_t tirpc_write_args(char *dst, size_t room, const struct nfs3_write_args *a)
{
	nfs_fh3 fh = { { a->fh_len, (char *)(uintptr_t)a->fh } };
	offset3 offset = a->offset;
	count3 count = a->count;
	stable_how stable = a->stable;
	char *data = (char *)(uintptr_t)a->data;
	u_int data_len = a->data_len;
	XDR x;
	size_t n;

	xdrmem_create(&x, dst, (u_int)room, XDR_ENCODE);
	assert_true(xdr_nfs_fh3(&x, &fh) && xdr_offset3(&x, &offset) && xdr_count3(&x, &count) &&
		    xdr_stable_how(&x, &stable) && xdr_bytes(&x, &data, &data_len, ~0u));
	n = xdr_getpos(&x);
	xdr_destroy(&x);
	return n;
}

static void test_write_is_read_as_libtirpc_writes_it(void **state)
{
	uint8_t fh[NFS3_FHSIZE], data[64];
	char bytes[256];

	(void)state;
	memset(fh, 'f', sizeof(fh));
	memset(data, 'd', sizeof(data));
	for (uint32_t i = 0; i <= NFS3_FHSIZE; i++) {
		const struct nfs3_write_args in = { .fh = fh,
						    .fh_len = i,
						    .offset = UINT64_MAX - i,
						    .count = 17 + i,
						    .stable = (stable_how)(i % 3),
						    .data = data,
						    .data_len = 64 - i };
		size_t n = tirpc_write_args(bytes, sizeof(bytes), &in);
		struct nfs3_write_args out;

		assert_true(nfs3_bulk_decode_write((uint8_t *)bytes, n, &out));
		assert_int_equal(out.fh_len, in.fh_len);
		assert_memory_equal(out.fh, in.fh, in.fh_len);
		assert_true(out.offset == in.offset);
		assert_int_equal(out.count, in.count);
		assert_int_equal(out.stable, in.stable);
		assert_int_equal(out.data_len, in.data_len);
		assert_memory_equal(out.data, in.data, in.data_len);
		assert_true(out.data >= (uint8_t *)bytes && out.data < (uint8_t *)bytes + n + 1);
	}
}

static void test_written_write_is_the_head_of_what_libtirpc_writes(void **state)
{
	const struct nfs3_write_args a = { .fh = (const uint8_t *)"handle",
					   .fh_len = 6,
					   .offset = 1ull << 33,
					   .count = 5,
					   .stable = DATA_SYNC,
					   .data = (const uint8_t *)"hello",
					   .data_len = 5 };
	char theirs[128];
	uint8_t ours[128];
	size_t total = tirpc_write_args(theirs, sizeof(theirs), &a);
	size_t n = nfs3_bulk_encode_write(ours, sizeof(ours), &a);

	(void)state;
	assert_int_equal(n + wire_padded(5), total);
	assert_memory_equal(ours, theirs, n);
	assert_memory_equal(theirs + n, "hello\0\0\0", 8);
	for (size_t room = 0; room < n; room++)
		assert_int_equal(nfs3_bulk_encode_write(ours, room, &a), 0);
	assert_int_equal(nfs3_bulk_encode_write(ours, n, &a), n);
}

static void test_write_that_is_cut_or_has_more_behind_is_refused(void **state)
{
	const struct nfs3_write_args a = { .fh = (const uint8_t *)"handle",
					   .fh_len = 6,
					   .count = 5,
					   .data = (const uint8_t *)"hello",
					   .data_len = 5 };
	char bytes[128] = { 0 };
	size_t n = tirpc_write_args(bytes, sizeof(bytes), &a);
	struct nfs3_write_args out;

	(void)state;
	for (size_t len = 0; len <= n + 8; len++) {
		uint8_t *copy = malloc(len > 0 ? len : 1); /* so that a read beyond it is seen */

		assert_non_null(copy);
		memcpy(copy, bytes, len);
		assert_int_equal(nfs3_bulk_decode_write(copy, len, &out), len == n);
		free(copy);
	}
}

static void test_write_with_lengths_out_of_bounds_is_refused(void **state)
{
	enum { AT_FH_LEN = 0, AT_STABLE = 24, AT_DATA_LEN = 28 };
	static const struct {
		size_t at;
		uint32_t word;
		bool ok;
	} cases[] = {
		{ AT_FH_LEN, 8, true },
		{ AT_FH_LEN, 65, false },
		{ AT_FH_LEN, 0xffffffff, false },
		{ AT_FH_LEN, 0xfffffffd, false },
		{ AT_STABLE, 2, true },
		{ AT_STABLE, 3, false },
		{ AT_STABLE, 0xffffffff, false },
		{ AT_DATA_LEN, 5, true },
		{ AT_DATA_LEN, 8, true },
		{ AT_DATA_LEN, 4, false },
		{ AT_DATA_LEN, 9, false },
		{ AT_DATA_LEN, 0xffffffff, false },
		{ AT_DATA_LEN, 0xfffffffd, false },
	};
	const struct nfs3_write_args a = { .fh = (const uint8_t *)"handle12",
					   .fh_len = 8,
					   .data = (const uint8_t *)"hello",
					   .data_len = 5 };
	char bytes[128];
	struct nfs3_write_args out;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n = tirpc_write_args(bytes, sizeof(bytes), &a);

		(void)wire_put32((uint8_t *)bytes + cases[i].at, cases[i].word);
		assert_int_equal(nfs3_bulk_decode_write((uint8_t *)bytes, n, &out), cases[i].ok);
	}
}

/* ---- directory lists ---------------------------------------------------- */

struct entry {
	uint64_t fileid, cookie;
	const char *name;
	size_t name_len;
	bool has_attrs, has_fh;
	size_t fh_len;
};

static const struct entry entries[] = {
	{ 1, 1, ".", 1, true, true, 16 },
	{ 2, 0xffffffffffffffff, "..", 2, false, true, 64 },
	{ 0xffffffffffffffff, 3, "odd \xff\n", 6, true, false, 0 },
	{ 4, 4, "four", 4, false, false, 0 },
	{ 5, 5, "nul\0in", 6, true, true, 33 },
	{ 6, 6, "", 0, true, true, 0 },
};

static const uint8_t some_fh[NFS3_FHSIZE] = "0123456789abcdef0123456789abcdef";

/* entry3 and entryplus3 of RFC 1813 by libtirpc, with the end of the list. */
static size_t tirpc_list(char *dst, size_t room, size_t n_entries, bool plus, bool eof)
{
	bool_t yes = TRUE, no = FALSE, end = eof;
	XDR x;
	size_t n;

	xdrmem_create(&x, dst, (u_int)room, XDR_ENCODE);
	for (size_t i = 0; i < n_entries; i++) {
		const struct entry *e = &entries[i];
		fileid3 fileid = e->fileid;
		cookie3 cookie = e->cookie;
		filename3 name = { (u_int)e->name_len, (char *)(uintptr_t)e->name };
		post_op_attr attrs = { .attributes_follow = e->has_attrs };
		post_op_fh3 fh = { .handle_follows = e->has_fh };

		attrs.post_op_attr_u.attributes = sample_attrs;
		fh.post_op_fh3_u.handle.data.data_len = (u_int)e->fh_len;
		fh.post_op_fh3_u.handle.data.data_val = (char *)(uintptr_t)some_fh;
		assert_true(xdr_bool(&x, &yes) && xdr_fileid3(&x, &fileid) &&
			    xdr_filename3(&x, &name) && xdr_cookie3(&x, &cookie));
		assert_true(!plus || (xdr_post_op_attr(&x, &attrs) && xdr_post_op_fh3(&x, &fh)));
	}
	assert_true(xdr_bool(&x, &no) && xdr_bool(&x, &end));
	n = xdr_getpos(&x);
	xdr_destroy(&x);
	return n;
}

static bool add(struct nfs3_dirlist *l, const struct entry *e, bool plus)
{
	if (!plus)
		return nfs3_dirlist_add(l, e->fileid, e->name, e->name_len, e->cookie);
	return nfs3_dirlist_add_plus(l, e->fileid, e->name, e->name_len, e->cookie,
				     e->has_attrs ? &sample_attrs : NULL,
				     e->has_fh ? some_fh : NULL, e->fh_len);
}

static void test_lists_are_byte_for_byte_those_of_libtirpc(void **state)
{
	char theirs[2048];
	uint8_t ours[2048];

	(void)state;
	for (int plus = 0; plus < 2; plus++) {
		for (size_t n = 0; n <= ARRAY_LEN(entries); n++) {
			size_t want = tirpc_list(theirs, sizeof(theirs), n, plus, n % 2);
			struct nfs3_dirlist l;

			memset(ours, 0xee, sizeof(ours));
			nfs3_dirlist_init(&l, ours, sizeof(ours));
			for (size_t i = 0; i < n; i++)
				assert_true(add(&l, &entries[i], plus));
			assert_int_equal(l.n_entries, n);
			assert_int_equal(nfs3_dirlist_finish(&l, n % 2), want);
			assert_memory_equal(ours, theirs, want);
		}
	}
}

static void test_list_stops_before_its_end_would_not_fit(void **state)
{
	char theirs[2048];

	(void)state;
	for (int plus = 0; plus < 2; plus++) {
		size_t whole = tirpc_list(theirs, sizeof(theirs), ARRAY_LEN(entries), plus, false);

		for (size_t max = NFS3_DIRLIST_TAIL; max <= whole + 4; max++) {
			uint8_t *dst = malloc(max); /* so that a write beyond it is seen */
			struct nfs3_dirlist l;
			size_t n = 0, len;

			assert_non_null(dst);
			nfs3_dirlist_init(&l, dst, max);
			while (n < ARRAY_LEN(entries) && add(&l, &entries[n], plus))
				n++;
			len = nfs3_dirlist_finish(&l, false);
			assert_true(len <= max);
			assert_int_equal(len, tirpc_list(theirs, sizeof(theirs), n, plus, false));
			assert_memory_equal(dst, theirs, len);
			/* The entry that was left out would really not have fitted. */
			if (n < ARRAY_LEN(entries))
				assert_true(tirpc_list(theirs, sizeof(theirs), n + 1, plus, false) >
					    max);
			free(dst);
		}
	}
}

static void test_name_of_an_absurd_length_does_not_fit(void **state)
{
	static const size_t lengths[] = { SIZE_MAX, SIZE_MAX - 3, SIZE_MAX - 31, 1u << 31 };
	uint8_t dst[256];
	struct nfs3_dirlist l;

	(void)state;
	nfs3_dirlist_init(&l, dst, sizeof(dst));
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
		assert_false(nfs3_dirlist_add(&l, 1, "x", lengths[i], 1));
	assert_int_equal(l.len, 0);
}

static void test_dirent_size_is_what_an_entry_takes(void **state)
{
	uint8_t dst[512];
	char name[256];

	(void)state;
	memset(name, 'n', sizeof(name));
	for (size_t n = 0; n <= 255; n++) {
		struct nfs3_dirlist l;

		nfs3_dirlist_init(&l, dst, sizeof(dst));
		assert_true(nfs3_dirlist_add(&l, 1, name, n, 1));
		assert_int_equal(l.len, nfs3_dirent_size(n));
	}
}

static void expect_entry(const struct nfs3_dirent *d, const struct entry *e, bool plus)
{
	assert_true(d->fileid == e->fileid && d->cookie == e->cookie);
	assert_int_equal(d->name_len, e->name_len);
	assert_memory_equal(d->name, e->name, e->name_len);
	assert_int_equal(d->has_attrs, plus && e->has_attrs);
	assert_int_equal(d->has_fh, plus && e->has_fh);
	if (d->has_attrs)
		assert_memory_equal(&d->attrs, &sample_attrs, sizeof(sample_attrs));
	if (d->has_fh) {
		assert_int_equal(d->fh_len, e->fh_len);
		assert_memory_equal(d->fh, some_fh, e->fh_len);
	}
}

static void test_client_reads_the_list_of_libtirpc(void **state)
{
	char bytes[2048];

	(void)state;
	for (int plus = 0; plus < 2; plus++) {
		size_t n = tirpc_list(bytes, sizeof(bytes), ARRAY_LEN(entries), plus, true);
		struct nfs3_dirent d;
		size_t pos = 0;
		bool eof = false;

		for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
			assert_int_equal(
				nfs3_dirlist_next((uint8_t *)bytes, n, &pos, plus, &d, &eof), 1);
			expect_entry(&d, &entries[i], plus);
		}
		assert_int_equal(nfs3_dirlist_next((uint8_t *)bytes, n, &pos, plus, &d, &eof), 0);
		assert_true(eof);
		assert_int_equal(pos, n);
	}
}

static void test_client_refuses_a_list_that_is_cut_or_has_more_behind(void **state)
{
	char bytes[2048] = { 0 };

	(void)state;
	for (int plus = 0; plus < 2; plus++) {
		size_t n = tirpc_list(bytes, sizeof(bytes), ARRAY_LEN(entries), plus, true);

		for (size_t len = 0; len <= n + 4; len++) {
			uint8_t *copy = malloc(len > 0 ? len : 1);
			struct nfs3_dirent d;
			size_t pos = 0;
			bool eof;
			int rc;

			assert_non_null(copy);
			memcpy(copy, bytes, len);
			do {
				rc = nfs3_dirlist_next(copy, len, &pos, plus, &d, &eof);
			} while (rc == 1);
			assert_int_equal(rc, len == n ? 0 : -EBADMSG);
			assert_true(pos <= len);
			free(copy);
		}
	}
}

static void test_client_refuses_words_out_of_range(void **state)
{
	/* Entry with a name of 4, attributes and a handle. */
	enum { AT_FOLLOWS = 0, AT_NAME_LEN = 12, AT_HAS_ATTRS = 28, AT_TYPE = 32, AT_HAS_FH = 116 };
	enum { AT_FH_LEN = 120 };
	static const struct {
		size_t at;
		uint32_t word;
	} cases[] = {
		{ AT_FOLLOWS, 2 },
		{ AT_NAME_LEN, 0xffffffff },
		{ AT_NAME_LEN, 0xfffffffd },
		{ AT_HAS_ATTRS, 2 },
		{ AT_TYPE, 0 },
		{ AT_TYPE, 8 },
		{ AT_HAS_FH, 0xffffffff },
		{ AT_FH_LEN, 65 },
		{ AT_FH_LEN, 0xffffffff },
	};
	uint8_t bytes[256];
	struct nfs3_dirent d;
	bool eof;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct nfs3_dirlist l;
		size_t n, pos = 0;

		nfs3_dirlist_init(&l, bytes, sizeof(bytes));
		assert_true(nfs3_dirlist_add_plus(&l, 1, "name", 4, 1, &sample_attrs, some_fh, 16));
		n = nfs3_dirlist_finish(&l, true);
		assert_int_equal(nfs3_dirlist_next(bytes, n, &pos, true, &d, &eof), 1);
		(void)wire_put32(bytes + cases[i].at, cases[i].word);
		pos = 0;
		assert_int_equal(nfs3_dirlist_next(bytes, n, &pos, true, &d, &eof), -EBADMSG);
		assert_int_equal(pos, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_is_read_as_libtirpc_writes_it),
		cmocka_unit_test(test_written_write_is_the_head_of_what_libtirpc_writes),
		cmocka_unit_test(test_write_that_is_cut_or_has_more_behind_is_refused),
		cmocka_unit_test(test_write_with_lengths_out_of_bounds_is_refused),
		cmocka_unit_test(test_lists_are_byte_for_byte_those_of_libtirpc),
		cmocka_unit_test(test_list_stops_before_its_end_would_not_fit),
		cmocka_unit_test(test_name_of_an_absurd_length_does_not_fit),
		cmocka_unit_test(test_dirent_size_is_what_an_entry_takes),
		cmocka_unit_test(test_client_reads_the_list_of_libtirpc),
		cmocka_unit_test(test_client_refuses_a_list_that_is_cut_or_has_more_behind),
		cmocka_unit_test(test_client_refuses_words_out_of_range),
	};

	return cmocka_run_group_tests_name("nfs3_bulk", tests, NULL, NULL);
}
