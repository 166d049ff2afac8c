/* SPDX-License-Identifier: MIT */
/* From WORKSPACE_DATABASE_URL to the path of a database file. */
#include "workspace/store_db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_ALLOWED "allowed are sqlite:PATH, sqlite://PATH and sqlite:///PATH"

static bool has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Bytes of the scheme for the sentence; a URL may carry a password behind it, which is not
 * repeated. */
static int scheme_len(const char *url)
{
	size_t n = strcspn(url, ":");

	return n > 32 ? 32 : (int)n;
}

int store_url_path(const char *data_dir, const char *url, char **ret, struct err *err)
{
	const char *p = "workspace.db";
	size_t len;
	int n;

	if (url != NULL && url[0] != '\0') {
		if (!has_prefix(url, "sqlite:"))
			return err_set(err, -EINVAL, "database URL: '%.*s' is not supported; %s",
				       scheme_len(url), url, URL_ALLOWED);
		p = url + strlen("sqlite:");
		if (has_prefix(p, "//"))
			p += 2;
	}
	len = strcspn(p, "?#");
	if (len == 0 || p[len - 1] == '/' || p[0] == ':')
		return err_set(err, -EINVAL, "database URL must name a file; %s", URL_ALLOWED);
	if (p[0] == '/')
		n = asprintf(ret, "%.*s", (int)len, p);
	else
		n = asprintf(ret, "%s/%.*s", data_dir, (int)len, p);
	if (n < 0)
		return err_set(err, -ENOMEM, "store: out of memory");
	return 0;
}
