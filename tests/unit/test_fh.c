/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "nfsd/fh.h"
#include "tests/unit/ws_fixture.h"

struct fh_fixture {
	struct ws_fixture ws;
	struct fh_codec *codec;
};

static const uint8_t key_a[FH_KEY_LEN] = { 1 }, key_b[FH_KEY_LEN] = { 2 };

static int setup(void **state)
{
	struct fh_fixture *f = calloc(1, sizeof(*f));

	fixture_open(&f->ws);
	assert_int_equal(fh_codec_new(key_a, f->ws.registry, &f->codec), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fh_fixture *f = *state;

	fh_codec_free(f->codec);
	fixture_close(&f->ws);
	free(f);
	return 0;
}

static void test_a_handle_comes_back_as_its_key(void **state)
{
	struct fh_fixture *f = *state;
	uint8_t fh[NFS3_FHSIZE];
	struct inode_key key;
	struct workspace *ws;
	size_t n = fh_encode(f->codec, f->ws.ws, &f->ws.root->key, fh);

	assert_true(n <= NFS3_FHSIZE);
	assert_int_equal(fh_decode(f->codec, fh, n, &key, &ws), 0);
	assert_ptr_equal(ws, f->ws.ws);
	assert_memory_equal(&key, &f->ws.root->key, sizeof(key));
	workspace_unref(ws);
	assert_int_equal(fh_decode(f->codec, fh, fh_encode_root(f->codec, fh), &key, &ws), 1);
}

static void test_no_bit_may_be_changed(void **state)
{
	struct fh_fixture *f = *state;
	uint8_t fh[NFS3_FHSIZE + 1] = { 0 };
	struct inode_key key;
	struct workspace *ws;
	size_t n = fh_encode(f->codec, f->ws.ws, &f->ws.root->key, fh);

	for (size_t bit = 0; bit < n * 8; bit++) {
		int rc;

		fh[bit / 8] ^= (uint8_t)(1u << bit % 8);
		rc = fh_decode(f->codec, fh, n, &key, &ws);
		/* in the workspace's key: no such workspace; anywhere else: no handle of ours */
		assert_int_equal(rc, bit / 8 >= 4 && bit / 8 < 12 ? -ESTALE : -EBADMSG);
		fh[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t len = 0; len <= NFS3_FHSIZE; len++)
		if (len != n)
			assert_int_equal(fh_decode(f->codec, fh, len, &key, &ws), -EBADMSG);
}

static void test_handles_are_bound_to_key_and_workspace(void **state)
{
	struct fh_fixture *f = *state;
	struct ws_create c = { 0 };
	struct workspace *other, *ws;
	struct fh_codec *foreign;
	uint8_t fh[NFS3_FHSIZE];
	struct inode_key key;
	size_t n;

	/* another server's key */
	assert_int_equal(fh_codec_new(key_b, f->ws.registry, &foreign), 0);
	n = fh_encode(foreign, f->ws.ws, &f->ws.root->key, fh);
	assert_int_equal(fh_decode(f->codec, fh, n, &key, &ws), -EBADMSG);
	fh_codec_free(foreign);

	/* another workspace's key put into a good handle */
	assert_int_equal(ws_create(f->ws.registry, &c, &other, NULL), 0);
	n = fh_encode(f->codec, f->ws.ws, &f->ws.root->key, fh);
	for (int i = 0; i < 8; i++)
		fh[4 + i] = (uint8_t)(other->key >> (56 - 8 * i));
	assert_int_equal(fh_decode(f->codec, fh, n, &key, &ws), -EBADMSG);
	workspace_unref(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_handle_comes_back_as_its_key, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_no_bit_may_be_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_handles_are_bound_to_key_and_workspace, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
