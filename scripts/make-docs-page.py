#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Makes the page that the daemon serves at /docs out of proto/openapi.yaml; called by the Makefile.

    make-docs-page.py OPENAPI PAGE.html STYLE.h

The page is plain HTML: no script, nothing to fetch.  STYLE.h has the hash of its style sheet, which is all
that the page's Content-Security-Policy lets in.
"""
import base64
import hashlib
import html
import json
import re
import sys

import yaml

METHODS = ("get", "head", "post", "put", "patch", "delete")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
code, pre, h3 { font-family: ui-monospace, monospace; font-size: 0.9rem }
pre { background: #f4f4f4; padding: 0.6rem; overflow-x: auto; white-space: pre-wrap }
section { border-top: 1px solid #ccc; margin-top: 2rem }
table { border-collapse: collapse; margin: 0.5rem 0 }
td, th { border: 1px solid #ccc; padding: 0.2rem 0.6rem; text-align: left; vertical-align: top }
nav li { list-style: none } nav ul { padding: 0 }
b.m { display: inline-block; min-width: 4.5rem }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } pre { background: #262626 } a { color: #8bf } }
"""


def text(s):
    """Escaped, with `code`."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(" ".join(str(s or "").split())))


def prose(s):
    return "".join(f"<p>{text(p)}</p>\n" for p in re.split(r"\n\s*\n", s or "") if p.strip())


def table(head, rows):
    if not rows:
        return ""
    line = "".join(f"<th>{h}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>\n" for row in rows)
    return f"<table><tr>{line}</tr>\n{body}</table>\n"


# ---- schemas, as a notation of their own ----


def limits(s):
    words = [f"{k} {json.dumps(s[k])}" for k in ("minimum", "maximum", "minLength", "maxLength", "maxItems", "default") if k in s]
    return f" ({html.escape(', '.join(words))})" if words else ""


def members(s, pad):
    required = s.get("required", [])
    lines = []
    for name, sub in s.get("properties", {}).items():
        note = f"  <i>{text(sub['description'])}</i>" if "description" in sub else ""
        mark = "" if name in required else "?"
        lines.append(f"{pad}  {html.escape(name)}{mark}: {schema(sub, pad + '  ')}{note}")
    extra = s.get("additionalProperties")
    if isinstance(extra, dict):
        lines.append(f"{pad}  ...: {schema(extra, pad + '  ')}")
    return "{\n" + "\n".join(lines) + f"\n{pad}}}" if lines else "{}"


def schema(s, pad=""):
    """HTML for inside <pre>; what is optional has a ? behind its name."""
    if "$ref" in s:
        name = s["$ref"].rsplit("/", 1)[1]
        return f'<a href="#schema-{name}">{name}</a>'
    for key, word in (("allOf", " and "), ("anyOf", " or ")):
        if key in s and "properties" not in s:
            return word.join(schema(sub, pad) for sub in s[key])
    if "const" in s:
        return html.escape(json.dumps(s["const"]))
    if "enum" in s:
        return " | ".join(html.escape(json.dumps(v)) for v in s["enum"]) + limits(s)
    kinds = s.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    shown = [members(s, pad) if k == "object" else f"[{schema(s.get('items', {}), pad)}]" if k == "array" else k for k in kinds]
    return " | ".join(shown) + limits(s)


# ---- operations ----


class Page:
    def __init__(self, api):
        self.api = api

    def resolve(self, node):
        while "$ref" in node:
            ref, node = node["$ref"], self.api
            for step in ref.lstrip("#/").split("/"):
                node = node[step]
        return node

    def content(self, node):
        parts = []
        for kind, media in node.get("content", {}).items():
            shown = schema(media["schema"]) if media.get("schema") else "bytes"
            parts.append(f"<code>{html.escape(kind)}</code><pre>{shown}</pre>")
            if "example" in media:
                example = media["example"] if isinstance(media["example"], str) else json.dumps(media["example"], indent=2)
                parts.append(f"<p>Example:</p><pre>{html.escape(example)}</pre>")
        return "".join(parts)

    def responses(self, op):
        rows = []
        for status, r in op["responses"].items():
            r = self.resolve(r)
            is_error = int(status) >= 400 and "application/json" in r.get("content", {})
            shown = '<a href="#schema-Error">Error</a>' if is_error and status != "503" else self.content(r)
            rows.append((status, text(r["description"]), shown))
        return table(("Status", "", "Body"), rows)

    def operation(self, path, method, item):
        op = item[method]
        params = [self.resolve(p) for p in item.get("parameters", []) + op.get("parameters", [])]
        rows = []
        for p in params:
            shown = f"<code>{schema(p.get('schema', {}))}</code>"
            rows.append((f"<code>{html.escape(p['name'])}</code>", p["in"] + (", required" if p.get("required") else ""),
                         shown, text(p.get("description"))))
        out = [f'<section id="{op["operationId"]}"><h3>{method.upper()} {html.escape(path)}</h3>']
        out += [f"<p><b>{text(op['summary'])}</b></p>", prose(op.get("description")), table(("Parameter", "In", "Type", ""), rows)]
        if "requestBody" in op:
            out.append("<h4>Body</h4>" + self.content(self.resolve(op["requestBody"])))
        return "\n".join(out) + "<h4>Answers</h4>" + self.responses(op) + "</section>\n"

    def html(self):
        info = self.api["info"]
        ops = [(p, m, item) for p, item in self.api["paths"].items() for m in METHODS if m in item]
        nav = "".join(
            f'<li><a href="#{item[m]["operationId"]}"><code><b class="m">{m.upper()}</b>{html.escape(p)}</code></a></li>\n'
            for p, m, item in ops
        )
        schemas = "".join(
            f'<section id="schema-{name}"><h3>{name}</h3>{prose(s.get("description"))}<pre>{schema(s)}</pre></section>\n'
            for name, s in self.api["components"]["schemas"].items()
        )
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{text(info["title"])}</title>\n'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n<body>\n'
            f'<h1>{text(info["title"])} {text(info["version"])}</h1>\n{prose(info["description"])}'
            '<p>For programs: <a href="/openapi.yaml">openapi.yaml</a>. A <code>?</code> marks what may be absent.</p>\n'
            f"<nav><ul>\n{nav}</ul></nav>\n" + "".join(self.operation(*op) for op in ops) + f"<h2>Schemas</h2>\n{schemas}</body></html>\n"
        )


def main():
    source, page, header = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        made = Page(yaml.safe_load(f)).html()
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    with open(page, "w", encoding="utf-8") as f:
        f.write(made)
    with open(header, "w", encoding="utf-8") as f:
        f.write(f'#define DOCS_STYLE_HASH "sha256-{digest}"\n')


main()
