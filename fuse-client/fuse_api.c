/* SPDX-License-Identifier: MIT */
/*
 * One GET of the control API.  libcurl does the HTTP: what a URL may be on a person's machine
 * (proxies, TLS, names) is its business.
 */
#include "fuse-client/fuse_api.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "proto/jsonx.h"

#define REPLY_MAX   (16u << 20) /* bytes of a list of workspaces */
#define KEY_MAX     4096
#define TIMEOUT_SEC 15L

static bool is_wanted(json_t *w, const char *workspace)
{
	const char *id = NULL, *name = NULL;

	(void)jsonx_get_string(w, "id", FUSE_TARGET_MAX, &id, NULL);
	(void)jsonx_get_string(w, "name", FUSE_TARGET_MAX, &name, NULL);
	return (id != NULL && strcmp(id, workspace) == 0) ||
	       (name != NULL && strcmp(name, workspace) == 0);
}

int fuse_api_pick(const char *body, size_t len, const char *workspace, struct fuse_target *ret,
		  struct err *err)
{
	auto_json json_t *top = NULL;
	json_t *list, *w, *found = NULL;
	const char *url;
	size_t i;
	int rc = jsonx_parse_object(body, len, &top, err);

	if (rc == 0)
		rc = jsonx_get_array(top, "workspaces", SIZE_MAX, &list, err);
	if (rc <= 0)
		return err_set(err, -EBADMSG, "the API's answer is not a list of workspaces");
	json_array_foreach(list, i, w)
	{
		if (!is_wanted(w, workspace))
			continue;
		if (found != NULL)
			return err_set(err, -ENOTUNIQ,
				       "several workspaces are named '%s'; give the id", workspace);
		found = w;
	}
	if (found == NULL)
		return err_set(err, -ENOENT, "there is no workspace '%s'", workspace);
	if (jsonx_get_string(found, "nfs_url", FUSE_TARGET_MAX, &url, err) <= 0)
		return err_set(err, -ENOENT, "workspace '%s' has no NFS address", workspace);
	return fuse_options_parse_target(url, ret, err);
}

static size_t on_data(char *p, size_t size, size_t n, void *arg)
{
	return buf_append(arg, p, size * n) == 0 ? size * n : 0;
}

/* "Authorization: Bearer KEY", owned; NULL without a key. */
static int auth_header(const struct fuse_options *o, struct curl_slist **ret, struct err *err)
{
	const char *env = getenv("WORKSPACE_API_KEY");
	auto_free char *key = NULL;
	char line[KEY_MAX + 32];
	size_t len;
	int rc;

	if (o->api_key_file != NULL) {
		rc = io_read_file(AT_FDCWD, o->api_key_file, KEY_MAX, &key, &len, err);
		if (rc < 0)
			return rc;
		key[strcspn(key, "\r\n")] = '\0';
		env = key;
	}
	if (env == NULL || env[0] == '\0')
		return 0;
	if (snprintf(line, sizeof(line), "Authorization: Bearer %s", env) >= (int)sizeof(line))
		return err_set(err, -EINVAL, "the API key is too long");
	*ret = curl_slist_append(NULL, line);
	return *ret != NULL ? 0 : err_set(err, -ENOMEM, "no memory");
}

static int get(CURL *c, const char *url, struct curl_slist *headers, struct buf *body,
	       struct err *err)
{
	char why[CURL_ERROR_SIZE] = "";
	long status = 0;
	CURLcode rc;

	(void)curl_easy_setopt(c, CURLOPT_URL, url);
	(void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	(void)curl_easy_setopt(c, CURLOPT_TIMEOUT, TIMEOUT_SEC);
	(void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
	(void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
	(void)curl_easy_setopt(c, CURLOPT_WRITEDATA, body);
	rc = curl_easy_perform(c);
	if (rc != CURLE_OK)
		return err_set(err, -EIO, "%s: %s", url, why[0] ? why : curl_easy_strerror(rc));
	(void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	if (status == 401 || status == 403)
		return err_set(err, -EACCES, "%s: the API wants a key (--api-key-file)", url);
	if (status != 200)
		return err_set(err, -EIO, "%s: the API answered %ld", url, status);
	return 0;
}

int fuse_api_resolve(struct fuse_options *o, struct err *err)
{
	struct curl_slist *headers = NULL;
	struct buf body = { .max = REPLY_MAX };
	size_t n = strlen(o->api);
	char url[FUSE_TARGET_MAX];
	CURL *c;
	int rc;

	while (n > 0 && o->api[n - 1] == '/')
		n--;
	if (snprintf(url, sizeof(url), "%.*s/api/v1/workspaces", (int)n, o->api) >=
	    (int)sizeof(url))
		return err_set(err, -EINVAL, "--api is too long");
	c = curl_easy_init();
	if (c == NULL)
		return err_set(err, -ENOMEM, "no memory");
	rc = auth_header(o, &headers, err);
	if (rc == 0)
		rc = get(c, url, headers, &body, err);
	if (rc == 0)
		rc = fuse_api_pick((const char *)body.data, body.len, o->workspace, &o->target,
				   err);
	curl_slist_free_all(headers);
	curl_easy_cleanup(c);
	buf_free(&body);
	return rc;
}
