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

/* clang-format off */
static const struct http_route rows[] = {
	{ HTTP_M_GET,	 API "/health",			   api_health,			 R_NO_AUTH },
	{ HTTP_M_GET,	 "/ready",			   api_ready,			 R_NO_AUTH | R_POOL },
	{ HTTP_M_GET,	 API "/ready",			   api_ready,			 R_NO_AUTH | R_POOL },
	{ HTTP_M_GET,	 "/metrics",			   api_metrics,			 R_POOL },

	{ HTTP_M_POST,	 API "/workspaces",		   api_workspaces_create,	 R_CHANGES | R_POOL },
	{ HTTP_M_GET,	 API "/workspaces",		   api_workspaces_list,		 R_POOL },
	{ HTTP_M_GET,	 API "/workspaces/{id}",	   api_workspaces_get,		 0 },
	{ HTTP_M_DELETE, API "/workspaces/{id}",	   api_workspaces_delete,	 R_CHANGES | R_POOL | R_SLOW },
	{ HTTP_M_GET,	 API "/workspaces/{id}/export",	   api_workspaces_export_get,	 0 },
	{ HTTP_M_PUT,	 API "/workspaces/{id}/export",	   api_workspaces_export_put,	 R_CHANGES | R_POOL },
	{ HTTP_M_DELETE, API "/workspaces/{id}/export",	   api_workspaces_export_delete, R_CHANGES | R_POOL },

	{ HTTP_M_GET,	 API "/workspaces/{id}/files/archive", api_archive_get,		 R_STREAM },
	{ HTTP_M_PUT,	 API "/workspaces/{id}/files/archive", api_archive_put,		 R_CHANGES | R_STREAM },
};
/* clang-format on */

const struct http_routes http_routes = {rows, ARRAY_LEN(rows)};
