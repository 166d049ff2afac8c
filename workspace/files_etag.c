/* SPDX-License-Identifier: MIT */
/*
 * Versions of files and conditions on them (RFC 9110 sections 8.8.3 and 13).
 *
 * The hash is BLAKE2b of 128 bits: nobody can make two contents with one tag by any means known,
 * and it takes a fraction of the time of sending the bytes.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "workspace/files_priv.h"

#define TAG_BYTES FILES_HASH_BYTES

static const char *format_tag(char *dst, const char *label, const unsigned char hash[TAG_BYTES])
{
	char hex[2 * TAG_BYTES + 1];

	(void)sodium_bin2hex(hex, sizeof(hex), hash, TAG_BYTES);
	(void)snprintf(dst, FILES_ETAG_LEN, "\"%s%s\"", label, hex);
	return dst;
}

const char *files_etag_of_content(char *dst, const void *p, size_t n)
{
	unsigned char hash[TAG_BYTES];

	(void)crypto_generichash(hash, sizeof(hash), p, n, NULL, 0);
	return format_tag(dst, "", hash);
}

const char *files_etag_of_meta(char *dst, const struct files_info *info)
{
	const uint64_t facts[] = {
		info->dev,
		info->ino,
		info->size,
		(uint64_t)info->mtime.tv_sec,
		(uint64_t)info->mtime.tv_nsec,
		(uint64_t)info->ctime.tv_sec,
		(uint64_t)info->ctime.tv_nsec,
	};
	unsigned char hash[TAG_BYTES];

	(void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)facts, sizeof(facts),
				 NULL, 0);
	return format_tag(dst, "meta-", hash);
}

void files_etag_final(struct crypto_generichash_blake2b_state *state, char dst[FILES_ETAG_LEN])
{
	unsigned char hash[TAG_BYTES];

	(void)crypto_generichash_final(state, hash, sizeof(hash));
	(void)format_tag(dst, "", hash);
}

int files_etag_fd(int fd, const struct files_info *info, char dst[FILES_ETAG_LEN])
{
	crypto_generichash_state state;
	auto_free unsigned char *p = NULL;
	uint64_t off = 0;

	if (info->size > FILES_ETAG_CONTENT_MAX) {
		(void)files_etag_of_meta(dst, info);
		return 0;
	}
	p = malloc(FILES_IO_SIZE);
	if (p == NULL)
		return -ENOMEM;
	(void)crypto_generichash_init(&state, NULL, 0, TAG_BYTES);
	while (off < info->size) {
		ssize_t n = io_pread_full(fd, p, MIN(FILES_IO_SIZE, info->size - off), (off_t)off);

		if (n < 0)
			return (int)n;
		if (n == 0) /* it shrank meanwhile: the tag is that of what was there */
			break;
		(void)crypto_generichash_update(&state, p, (size_t)n);
		off += (uint64_t)n;
	}
	files_etag_final(&state, dst);
	return 0;
}

/* ---- If-Match and If-None-Match ----------------------------------------- */

struct tag {
	const char *p; /* with its quotes */
	size_t n;
	bool is_weak;
};

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* etagc of RFC 9110 section 8.8.3: no quotes, no blanks, no controls */
static bool is_tag_char(unsigned char c)
{
	return c == 0x21 || (c >= 0x23 && c != 0x7f);
}

/* next_tag() - 1 with the next entity-tag of a list, 0 at its end, -EINVAL */
static int next_tag(const char **pos, struct tag *ret)
{
	const char *p = skip_blanks(*pos), *end;

	while (*p == ',') /* empty elements of a list are allowed (section 5.6.1) */
		p = skip_blanks(p + 1);
	*pos = p;
	if (*p == '\0')
		return 0;
	ret->is_weak = p[0] == 'W' && p[1] == '/';
	p += ret->is_weak ? 2 : 0;
	if (*p != '"')
		return -EINVAL;
	for (end = p + 1; is_tag_char((unsigned char)*end);)
		end++;
	if (*end != '"')
		return -EINVAL;
	ret->p = p;
	ret->n = (size_t)(end + 1 - p);
	p = skip_blanks(end + 1);
	if (*p != '\0' && *p != ',')
		return -EINVAL;
	*pos = p;
	return 1;
}

static bool is_any(const char *value)
{
	const char *p = skip_blanks(value);

	return p[0] == '*' && *skip_blanks(p + 1) == '\0';
}

static int check_syntax(const char *value)
{
	const char *pos = value;
	struct tag tag;
	int n_tags = 0, rc;

	if (value == NULL || is_any(value))
		return 0;
	while ((rc = next_tag(&pos, &tag)) == 1)
		n_tags++;
	return rc < 0 || n_tags == 0 ? -EINVAL : 0;
}

/* matches() - is @etag (NULL: nothing is there) one of those in @value? */
static bool matches(const char *value, const char *etag, bool is_strong)
{
	const char *pos = value;
	struct tag tag;

	if (etag == NULL)
		return false;
	if (is_any(value))
		return true;
	while (next_tag(&pos, &tag) == 1)
		if (!(is_strong && tag.is_weak) && tag.n == strlen(etag) &&
		    memcmp(tag.p, etag, tag.n) == 0)
			return true;
	return false;
}

int files_condition_parse(struct files_condition *c, const char *if_match,
			  const char *if_none_match)
{
	if (check_syntax(if_match) < 0 || check_syntax(if_none_match) < 0)
		return -EINVAL;
	*c = (struct files_condition){ .if_match = if_match, .if_none_match = if_none_match };
	return 0;
}

int files_condition_check(const struct files_condition *c, const char *etag, bool *ret_none_match)
{
	if (ret_none_match != NULL)
		*ret_none_match = false;
	if (c == NULL)
		return 0;
	if (c->if_match != NULL && !matches(c->if_match, etag, true))
		return -EBADE;
	if (c->if_none_match != NULL && matches(c->if_none_match, etag, false)) {
		if (ret_none_match != NULL)
			*ret_none_match = true;
		return -EBADE;
	}
	return 0;
}
