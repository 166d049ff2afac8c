#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Every route of http/routes.c is in proto/openapi.yaml and the other way round; and no description there lost what
# follows a comma, as it does between braces without quotes.
set -eu
cd "$(dirname "$0")/.."
exec "${PYTHON:-/usr/bin/python3}" - http/routes.c proto/openapi.yaml <<'P'
import re, sys
import yaml

code, description = (open(p, encoding="utf-8").read() for p in sys.argv[1:])
row = re.compile(r'^\s*(\{|FILES\()\s*HTTP_M_(\w+),\s*(API)?\s*"([^"]*)"', re.M)
served = set()
for kind, method, api, path in row.findall(code):
    if kind == "{":
        served.add((method, ("/api/v1" if api else "") + path))
    else:
        served |= {(method, f"/api/v1/{of}/{{id}}/files{path}") for of in ("workspaces", "sandboxes")}
n_rows = len(re.findall(r"^\s*(?:\{|FILES\()\s*HTTP_M_", code, re.M))
assert len(row.findall(code)) == n_rows > 20, "this script does not understand every row of routes.c"

api = yaml.safe_load(description)
methods = {"get", "head", "post", "put", "patch", "delete", "options"}
described = {(m.upper(), p) for p, item in api["paths"].items() for m in item if m in methods}
for who, only in (("only in http/routes.c", served - described), ("only in proto/openapi.yaml", described - served)):
    for method, path in sorted(only):
        print(f"{who}: {method} {path}")


def keys_without_value(node, path=""):
    if isinstance(node, list):
        for item in node:
            yield from keys_without_value(item, path)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "example":
                continue
            if value is None:
                yield f"{path}/{key}"
            yield from keys_without_value(value, f"{path}/{key}")


cut = list(keys_without_value(api))
for key in cut:
    print(f"has no value, or is half of a text without quotes: {key}")
sys.exit(served != described or len(cut) > 0)
P
