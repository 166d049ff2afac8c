/* SPDX-License-Identifier: MIT */
/*
 * The whole HTTP API on one screen.  What a route may be asked by whom, and where its handler runs,
 * stands in its row; router.c enforces it.  Anything not in the table is 404, or 405 with Allow.
 * proto/openapi.yaml describes the same for people and generators.
 */
#include "base/cleanup.h"
#include "http/api.h"
#include "http/router.h"

#define API "/api/v1"

/* Files answer under a workspace, and under a sandbox for the workspace that it has. */
#define FILES(method, rest, run, flags)                                                            \
	{ method, API "/workspaces/{id}/files" rest, run, flags },                                 \
	{                                                                                          \
		method, API "/sandboxes/{id}/files" rest, run, flags                               \
	}

/* clang-format off */
static const struct http_route rows[] = {
	{ HTTP_M_GET,	 API "/health",			   api_health,			 R_NO_AUTH },
	{ HTTP_M_GET,	 "/ready",			   api_ready,			 R_NO_AUTH | R_POOL },
	{ HTTP_M_GET,	 API "/ready",			   api_ready,			 R_NO_AUTH | R_POOL },
	{ HTTP_M_GET,	 "/metrics",			   api_metrics,			 R_POOL },
	{ HTTP_M_GET,	 "/openapi.yaml",		   api_openapi,			 0 },
	{ HTTP_M_GET,	 "/docs",			   api_docs,			 0 },

	{ HTTP_M_POST,	 API "/workspaces",		   api_workspaces_create,	 R_CHANGES | R_POOL },
	{ HTTP_M_GET,	 API "/workspaces",		   api_workspaces_list,		 R_POOL },
	{ HTTP_M_GET,	 API "/workspaces/{id}",	   api_workspaces_get,		 0 },
	{ HTTP_M_DELETE, API "/workspaces/{id}",	   api_workspaces_delete,	 R_CHANGES | R_POOL | R_SLOW },
	{ HTTP_M_PATCH,	 API "/workspaces/{id}",	   api_workspaces_patch,	 R_CHANGES | R_POOL },
	{ HTTP_M_GET,	 API "/workspaces/{id}/usage",	   api_workspaces_usage,	 R_POOL | R_SLOW },
	{ HTTP_M_POST,	 API "/workspaces/{id}/untrash",   api_workspaces_untrash,	 R_CHANGES | R_POOL },
	{ HTTP_M_GET,	 API "/workspaces/{id}/backup",	   api_workspaces_backup,	 R_STREAM },
	{ HTTP_M_POST,	 API "/workspaces/restore",	   api_workspaces_restore,	 R_CHANGES | R_STREAM },
	{ HTTP_M_GET,	 API "/workspaces/{id}/export",	   api_workspaces_export_get,	 0 },
	{ HTTP_M_PUT,	 API "/workspaces/{id}/export",	   api_workspaces_export_put,	 R_CHANGES | R_POOL },
	{ HTTP_M_DELETE, API "/workspaces/{id}/export",	   api_workspaces_export_delete, R_CHANGES | R_POOL },
	{ HTTP_M_GET,	 API "/workspaces/{id}/quota",	   api_quota_get,		 R_POOL | R_SLOW },
	{ HTTP_M_PUT,	 API "/workspaces/{id}/quota",	   api_quota_put,		 R_CHANGES | R_POOL | R_SLOW },
	{ HTTP_M_DELETE, API "/workspaces/{id}/quota",	   api_quota_delete,		 R_CHANGES | R_POOL | R_SLOW },
	{ HTTP_M_GET,	 API "/workspaces/{id}/events",	   api_events,			 R_STREAM },

	FILES(HTTP_M_GET,    "",       api_files_get,	    R_POOL | R_TRY),
	FILES(HTTP_M_PUT,    "",       api_files_put,	    R_CHANGES | R_STREAM),
	FILES(HTTP_M_DELETE, "",       api_files_delete,    R_CHANGES | R_POOL | R_SLOW_IF_DEEP),
	FILES(HTTP_M_GET,    "/list",  api_files_list,	    R_POOL | R_SLOW_IF_DEEP),
	FILES(HTTP_M_GET,    "/info",  api_files_info,	    R_POOL),
	FILES(HTTP_M_POST,   "/info",  api_files_info_many, R_POOL),
	FILES(HTTP_M_POST,   "/mkdir", api_files_mkdir,	    R_CHANGES | R_POOL),
	FILES(HTTP_M_POST,   "/move",  api_files_move,	    R_CHANGES | R_POOL),
	FILES(HTTP_M_POST,   "/copy",  api_files_copy,	    R_CHANGES | R_POOL | R_SLOW),
	FILES(HTTP_M_POST,   "/edit",  api_files_edit,	    R_CHANGES | R_POOL),
	FILES(HTTP_M_POST,   "/patch", api_files_patch,	    R_CHANGES | R_POOL),
	FILES(HTTP_M_GET,    "/search", api_files_search,   R_POOL | R_SLOW),
	FILES(HTTP_M_GET,    "/archive", api_archive_get,   R_STREAM),
	FILES(HTTP_M_PUT,    "/archive", api_archive_put,   R_CHANGES | R_STREAM),
};
/* clang-format on */

const struct http_routes http_routes = { rows, ARRAY_LEN(rows) };
