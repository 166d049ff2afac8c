# SPDX-License-Identifier: MIT
"""A client of one workspace's file routes that shows answers as they came."""
import contextlib
import http.client
import json
import urllib.parse

from .daemon import DEADLINE


class Files:
    def __init__(self, daemon, ws, kind="workspaces"):
        self.daemon, self.base = daemon, f"/api/v1/{kind}/{ws}/files"

    def ask(self, method, sub="", query=(), body=None, headers=()):
        """(status, headers, decoded JSON); query values may be bytes."""
        url = self.base + sub + ("?" + urllib.parse.urlencode(dict(query)) if query else "")
        headers = dict(headers)
        if body is not None:
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        conn = http.client.HTTPConnection("127.0.0.1", self.daemon.http_port, timeout=DEADLINE)
        with contextlib.closing(conn):
            conn.request(method, url, body, headers)
            reply = conn.getresponse()
            return reply.status, reply.headers, json.loads(reply.read())

    def post(self, sub, body, **headers):
        """(status, answer) of a POST; header names with _ for -"""
        status, _, value = self.ask("POST", sub, (), body, {k.replace("_", "-"): v for k, v in headers.items()})
        return status, value

    def edit(self, path, old, new, headers=(), **more):
        status, _, value = self.ask("POST", "/edit", (), dict(path=path, old_string=old, new_string=new, **more), headers)
        return status, value

    def patch(self, path, text, headers=(), **more):
        status, _, value = self.ask("POST", "/patch", (), dict(path=path, patch=text, **more), headers)
        return status, value

    def search(self, pattern, **query):
        """(status, answer)"""
        status, _, value = self.ask("GET", "/search", dict(pattern=pattern, **query))
        return status, value

    def found(self, pattern, **query):
        """What a search that must succeed found: [(path, line, column, text)]"""
        status, value = self.search(pattern, **query)
        assert status == 200, value
        return [(m["path"], m["line"], m["column"], m["text"]) for m in value["matches"]]
