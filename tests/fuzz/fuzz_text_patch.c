/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a patch of any text: the first byte says how long the text is (times 8), the rest is
 * the patch.  Whatever it is, what does not land changes nothing.  And the input cut in two halves:
 * the diff of one to the other, as a patch, leads from one to the other.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "fuzz.h"
#include "workspace/text_diff.h"
#include "workspace/text_patch.h"

/* Return: hunks that landed; all of them when @must_land. */
static void apply(const struct text_patch *patch, const char *text, size_t n, bool must_land,
		  struct buf *ret)
{
	auto_free struct text_patch_outcome *outcomes = calloc(patch->n_hunks, sizeof(*outcomes));
	size_t n_landed = 0, n_seen = 0;

	MUST(outcomes != NULL);
	MUST(text_patch_apply(patch, text, n, ret, outcomes, &n_landed) == 0);
	for (size_t i = 0; i < patch->n_hunks; i++) {
		MUST(outcomes[i].has_landed == (outcomes[i].reason[0] == '\0'));
		n_seen += outcomes[i].has_landed;
	}
	MUST(n_seen == n_landed);
	MUST(!must_land || n_landed == patch->n_hunks);
	if (n_landed == 0)
		MUST(ret->len == n && (n == 0 || memcmp(ret->data, text, n) == 0));
}

static void run_patch(const char *text, size_t n, const char *p, size_t len)
{
	struct text_patch patch;
	struct buf out = { 0 };
	struct err err = { 0 };
	int rc = text_patch_parse(p, len, &patch, &err);

	MUST(rc == 0 || rc == -EINVAL || rc == -EMSGSIZE);
	MUST(rc == 0 ? patch.n_hunks > 0 : err.msg[0] != '\0');
	if (rc < 0)
		return;
	apply(&patch, text, n, false, &out);
	text_patch_fini(&patch);
	buf_free(&out);
}

static void run_round_trip(const char *a, size_t a_len, const char *b, size_t b_len)
{
	struct buf diff = { 0 }, out = { 0 };
	struct text_patch patch;
	struct err err = { 0 };
	int rc = text_diff(a, a_len, b, b_len, "f", &diff);

	MUST(rc == 0);
	if (diff.len == 0) {
		MUST(a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0));
		return;
	}
	rc = text_patch_parse((const char *)diff.data, diff.len, &patch, &err);
	MUST(rc == 0 || rc == -EMSGSIZE);
	if (rc == 0) {
		apply(&patch, a, a_len, true, &out);
		MUST(out.len == b_len && (b_len == 0 || memcmp(out.data, b, b_len) == 0));
		text_patch_fini(&patch);
	}
	buf_free(&diff);
	buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data + 1;
	size_t n;

	if (size == 0)
		return 0;
	n = (size_t)data[0] * 8;
	if (n > size - 1)
		n = size - 1;
	run_patch(p, n, p + n, size - 1 - n);
	run_round_trip(p, (size - 1) / 2, p + (size - 1) / 2, size - 1 - (size - 1) / 2);
	return 0;
}
