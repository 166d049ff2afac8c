/* SPDX-License-Identifier: MIT */
/*
 * The API's description of itself: /openapi.yaml for programs, /docs for people.
 *
 * Both are part of the program, so that they always tell of the daemon that serves them and nothing
 * need be installed beside it.  The page is made of the description when the daemon is built
 * (scripts/make-docs-page.py).
 */
#include "http/api.h"

#include "http/docs_style.h"

/* EMBED() - the bytes of a file, found along the compiler's -I, as name[] up to name_end[] */
#define EMBED(name, file)                                                                          \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n" #name                   \
		"_end:\n.popsection\n");                                                           \
	extern const char name[] __attribute__((visibility("hidden")));                            \
	extern const char name##_end[] __attribute__((visibility("hidden")))

EMBED(api_docs_openapi, "proto/openapi.yaml");
EMBED(api_docs_page, "http/docs.html");

/* Only the page's own style sheet: no script, no frame, nothing from anywhere. */
#define POLICY                                                                                     \
	"default-src 'none'; style-src '" DOCS_STYLE_HASH                                          \
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static void answer(struct http_request *req, const char *type, const char *from, const char *to)
{
	if (buf_append(&req->res.body, from, (size_t)(to - from)) < 0) {
		http_response_error(req, HTTP_CODE_INTERNAL, "out of memory");
		return;
	}
	req->res.type = type;
	req->res.status = 200;
	http_response_header(req, "X-Content-Type-Options", "nosniff");
}

void api_openapi(struct http_request *req)
{
	answer(req, "application/yaml", api_docs_openapi, api_docs_openapi_end);
}

void api_docs(struct http_request *req)
{
	answer(req, "text/html; charset=utf-8", api_docs_page, api_docs_page_end);
	http_response_header(req, "Content-Security-Policy", POLICY);
}
