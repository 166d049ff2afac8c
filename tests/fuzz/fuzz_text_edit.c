/* SPDX-License-Identifier: MIT */
/*
 * Any text with any edit.  The first three bytes say where the old text ends, where the new one
 * ends and whether all is replaced; then come old, new and the text.  What is not a match is
 * unchanged: with one replacement the result is head + new + tail; and the diff leads there.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "workspace/text_diff.h"
#include "workspace/text_edit.h"

static void check_one(const char *text, size_t n, const struct text_edit *e, const struct buf *out)
{
	const char *at = memmem(text, n, e->old_text, e->old_len);
	size_t head;

	MUST(at != NULL);
	head = (size_t)(at - text);
	MUST(out->len == n - e->old_len + e->new_len);
	MUST(memcmp(out->data, text, head) == 0);
	MUST(e->new_len == 0 || memcmp(out->data + head, e->new_text, e->new_len) == 0);
	MUST(memcmp(out->data + head + e->new_len, at + e->old_len, n - head - e->old_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf out = { .max = 1u << 20 }, diff = { .max = 1u << 20 };
	struct text_edit e;
	struct err err = { 0 };
	const char *text;
	size_t n, n_replaced = 0;
	int rc;

	if (size < 3 || size - 3 < (size_t)data[0] + data[1])
		return 0;
	e = (struct text_edit){ .old_text = (const char *)data + 3,
				.old_len = data[0],
				.new_text = (const char *)data + 3 + data[0],
				.new_len = data[1],
				.replace_all = (data[2] & 1) != 0 };
	text = e.new_text + e.new_len;
	n = size - 3 - e.old_len - e.new_len;
	MUST(buf_reserve(&out, 1) == 0);
	rc = text_edit_apply(text, n, &e, &out, &n_replaced, &err);
	MUST(rc == 0 || rc == -EINVAL || rc == -ENOMSG || rc == -ENOTUNIQ || rc == -EMSGSIZE);
	MUST(rc == 0 ? n_replaced > 0 : err.msg[0] != '\0' && out.len == 0);
	if (rc == 0 && n_replaced == 1)
		check_one(text, n, &e, &out);
	if (rc == 0)
		MUST(text_diff(text, n, (const char *)out.data, out.len, "f", &diff) == 0 &&
		     diff.len > 0);
	buf_free(&out);
	buf_free(&diff);
	return 0;
}
