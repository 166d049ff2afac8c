/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set_(struct err *err, int code, const char *at, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL)
		return code;
	err->code = code;
	err->at = at;
	va_start(ap, fmt);
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

int err_wrap_(struct err *err, int code, const char *at, const char *fmt, ...)
{
	char head[sizeof(err->msg)];
	char tail[sizeof(err->msg)];
	va_list ap;
	int n;

	if (err == NULL)
		return code;
	va_start(ap, fmt);
	n = vsnprintf(head, sizeof(head), fmt, ap);
	va_end(ap);
	if (n < 0)
		head[0] = '\0';
	if (err->code == 0 || err->msg[0] == '\0') {
		err->at = at;
		(void)snprintf(tail, sizeof(tail), "%s", strerror(-code));
	} else {
		memcpy(tail, err->msg, sizeof(tail));
	}
	err->code = code;
	/* Cutting the end of a long chain is meant: a reader needs the outer context first. */
	n = snprintf(err->msg, sizeof(err->msg), "%.100s: %.128s", head, tail);
	(void)n;
	return code;
}
