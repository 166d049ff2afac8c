/* SPDX-License-Identifier: MIT */
/* File handles on the wire (see fh.h). */
#include "nfsd/fh.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define FH_VERSION   1
#define FH_KIND_ROOT 0

_Static_assert(FH_HEAD_LEN + INODE_HANDLE_MAX + FH_MAC_LEN <= NFS3_FHSIZE,
	       "the longest handle must fit");
_Static_assert(crypto_shorthash_siphashx24_BYTES == FH_MAC_LEN, "MAC length");

struct fh_codec {
	struct ws_registry *registry; /* borrowed */
	uint8_t mac_key[crypto_shorthash_siphashx24_KEYBYTES];
};

int fh_codec_new(const uint8_t key[FH_KEY_LEN], struct ws_registry *registry, struct fh_codec **ret)
{
	static const char context[] = "workspaced file handle";
	struct fh_codec *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	c->registry = registry;
	/* The stored key may serve other purposes later: each has a key of its own derived from it.
	 */
	crypto_generichash(c->mac_key, sizeof(c->mac_key), (const uint8_t *)context,
			   sizeof(context), key, FH_KEY_LEN);
	*ret = c;
	return 0;
}

void fh_codec_free(struct fh_codec *c)
{
	if (c == NULL)
		return;
	sodium_memzero(c, sizeof(*c));
	free(c);
}

static void put_be(uint8_t *p, uint64_t v, int n)
{
	for (int i = n - 1; i >= 0; i--, v >>= 8)
		p[i] = (uint8_t)v;
}

static uint64_t get_be(const uint8_t *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

static void mac(const struct fh_codec *c, const uint8_t *fh, size_t n, const uint8_t uuid[16],
		uint8_t ret[FH_MAC_LEN])
{
	uint8_t text[FH_HEAD_LEN + INODE_HANDLE_MAX + 16];

	memcpy(text, fh, n);
	memcpy(text + n, uuid, 16);
	crypto_shorthash_siphashx24(ret, text, n + 16, c->mac_key);
}

static const uint8_t no_uuid[16];

static size_t finish(const struct fh_codec *c, uint8_t *dst, size_t n, const uint8_t uuid[16])
{
	mac(c, dst, n, uuid, dst + n);
	return n + FH_MAC_LEN;
}

size_t fh_encode(const struct fh_codec *c, const struct workspace *ws, const struct inode_key *key,
		 uint8_t *dst)
{
	dst[0] = FH_VERSION;
	dst[1] = key->kind;
	dst[2] = key->htype;
	dst[3] = key->len;
	put_be(dst + 4, key->ws, 8);
	put_be(dst + 12, key->fs, 4);
	memcpy(dst + FH_HEAD_LEN, key->bytes, key->len);
	return finish(c, dst, FH_HEAD_LEN + key->len, ws->uuid);
}

size_t fh_encode_root(const struct fh_codec *c, uint8_t *dst)
{
	memset(dst, 0, FH_HEAD_LEN);
	dst[0] = FH_VERSION;
	dst[1] = FH_KIND_ROOT;
	return finish(c, dst, FH_HEAD_LEN, no_uuid);
}

static bool shape_is_ok(const uint8_t *p, size_t n)
{
	if (n < FH_HEAD_LEN + FH_MAC_LEN || n > NFS3_FHSIZE || p[0] != FH_VERSION)
		return false;
	if (p[1] != FH_KIND_ROOT && p[1] != INODE_KEY_KERNEL && p[1] != INODE_KEY_BIRTH)
		return false;
	return p[3] <= INODE_HANDLE_MAX && n == FH_HEAD_LEN + (size_t)p[3] + FH_MAC_LEN;
}

int fh_decode(const struct fh_codec *c, const uint8_t *p, size_t n, struct inode_key *ret_key,
	      struct workspace **ret_ws)
{
	uint8_t want[FH_MAC_LEN];
	struct workspace *ws = NULL;

	if (!shape_is_ok(p, n))
		return -EBADMSG;
	if (p[1] != FH_KIND_ROOT) {
		ws = ws_find_key(c->registry, get_be(p + 4, 8));
		/* Without its uuid the MAC cannot be checked: a handle of a workspace that is gone
		 * and one that was made up look the same. */
		if (ws == NULL)
			return -ESTALE;
	}
	mac(c, p, n - FH_MAC_LEN, ws != NULL ? ws->uuid : no_uuid, want);
	if (sodium_memcmp(want, p + n - FH_MAC_LEN, FH_MAC_LEN) != 0) {
		if (ws != NULL)
			workspace_unref(ws);
		return -EBADMSG;
	}
	if (ws == NULL)
		return 1;
	memset(ret_key, 0, sizeof(*ret_key));
	ret_key->ws = ws->key;
	ret_key->kind = p[1];
	ret_key->htype = p[2];
	ret_key->len = p[3];
	ret_key->fs = (uint32_t)get_be(p + 12, 4);
	memcpy(ret_key->bytes, p + FH_HEAD_LEN, p[3]);
	*ret_ws = ws;
	return 0;
}
