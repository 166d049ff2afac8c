/* SPDX-License-Identifier: MIT */
/* The handlers named in routes.c.  Each fills in req->res; where it runs stands in its route's row.
 */
#ifndef HTTP_API_H
#define HTTP_API_H

#include "http/http_request.h"

/* api_health.c */
void api_health(struct http_request *req);
void api_ready(struct http_request *req);
void api_metrics(struct http_request *req);

/* api_docs.c */
void api_openapi(struct http_request *req);
void api_docs(struct http_request *req);

/* api_workspaces.c */
void api_workspaces_create(struct http_request *req);
void api_workspaces_list(struct http_request *req);
void api_workspaces_get(struct http_request *req);
void api_workspaces_delete(struct http_request *req);
void api_workspaces_export_get(struct http_request *req);
void api_workspaces_export_put(struct http_request *req);
void api_workspaces_export_delete(struct http_request *req);

/* api_quota.c */
void api_quota_get(struct http_request *req);
void api_quota_put(struct http_request *req);
void api_quota_delete(struct http_request *req);

/* api_events.c */
void api_events(struct http_request *req);

/* api_extras.c */
void api_workspaces_list_trash(struct http_request *req);
void api_workspaces_patch(struct http_request *req);
void api_workspaces_usage(struct http_request *req);
void api_workspaces_untrash(struct http_request *req);

/* api_backup.c; streams */
void api_workspaces_backup(struct http_request *req);
void api_workspaces_restore(struct http_request *req);

/* api_files*.c; each under /workspaces/{id} and under /sandboxes/{id} */
void api_files_get(struct http_request *req);
void api_files_put(struct http_request *req);
void api_files_delete(struct http_request *req);
void api_files_list(struct http_request *req);
void api_files_info(struct http_request *req);
void api_files_info_many(struct http_request *req);
void api_files_mkdir(struct http_request *req);
void api_files_move(struct http_request *req);
void api_files_copy(struct http_request *req);

/* api_edit.c, api_search.c; likewise */
void api_files_edit(struct http_request *req);
void api_files_patch(struct http_request *req);
void api_files_search(struct http_request *req);

/* api_archive.c; streams, under both as well */
void api_archive_get(struct http_request *req);
void api_archive_put(struct http_request *req);

#endif
