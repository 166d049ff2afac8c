# SPDX-License-Identifier: MIT
"""Found by attacking the server: memory and disk space that somebody else's calls could take for good."""
import contextlib
import http.client
import json
import os
import socket
import subprocess

import pytest

from lib.daemon import DEADLINE, IS_SANITIZED, STRANGER, as_uid, can_mount
from lib.nfs3 import UNSTABLE, S


@pytest.mark.skipif(IS_SANITIZED, reason="memory of a sanitizer build says nothing")
def test_bodies_that_mean_nothing_are_not_kept(fresh):
    """/health is everybody's to ask: a user who is let in nowhere else must not fill the memory by it."""
    d = fresh()
    before = d.rss()
    with contextlib.ExitStack() as stack:
        with as_uid(STRANGER):
            conns = [stack.enter_context(socket.create_connection(("127.0.0.1", d.http_port), DEADLINE)) for _ in range(4)]
        for s in conns:
            s.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000000\r\n\r\n")
            s.sendall(bytes(19_000_000))
        assert d.rss() - before < 16 << 20
        for s in conns:
            s.sendall(bytes(1_000_000))
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.skipif(IS_SANITIZED, reason="memory of a sanitizer build says nothing")
def test_rules_set_again_and_again_cost_nothing(w):
    conn = http.client.HTTPConnection("127.0.0.1", w.daemon.http_port, timeout=DEADLINE)

    def change(n):
        for i in range(n):
            rules = {"read_only": i % 2 == 1, "clients": ["127.0.0.1"]}
            conn.request("PUT", f"/api/v1/workspaces/{w.id}/export", json.dumps(rules))
            assert json.loads(conn.getresponse().read())

    change(300)
    before = w.daemon.rss()
    change(3000)
    conn.close()
    assert w.daemon.rss() - before < 1 << 20


@pytest.mark.skipif(not can_mount(), reason="needs root that may mount a small tmpfs")
def test_a_workspace_can_be_deleted_from_a_full_disk(fresh, reachable):
    """Deleting is how an operator makes room: it must not need some."""
    base = reachable / "small"
    base.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", base], check=True)
    try:
        d = fresh(base=base)
        w = d.workspace()
        f, at = w.nfs.mkfile(w.root, "f"), 0
        for size in (1 << 20, 4096):
            while (r := w.nfs.write(f, at, bytes(size), UNSTABLE)).status == S.OK:
                at += r.count
            assert r.status == S.NOSPC
        assert d.http("POST", "/api/v1/workspaces", {})[0] == 507
        w.close()
        # the trash needs a little room, and says what does not
        status, body = d.http("DELETE", f"/api/v1/workspaces/{w.id}")[:2]
        assert status == 507 and "purge=true" in str(body)
        assert d.http("DELETE", f"/api/v1/workspaces/{w.id}?purge=true")[0] == 200
        assert not os.path.lexists(w.dir.parent)
        assert d.create_workspace() and w.id not in str(d.api("GET", "/workspaces"))
        d.restart()
        assert w.id not in str(d.api("GET", "/workspaces"))
        d.stop()
    finally:
        subprocess.run(["umount", "-l", base], check=True)
