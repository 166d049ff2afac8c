# SPDX-License-Identifier: MIT
"""Found by attacking the server: what is left to work with when descriptors are few."""
import contextlib

import pytest

from lib.daemon import poll
from lib.nfs3 import UNSTABLE, S
from lib.rpc import Closed

FEW = ["prlimit", "--nofile=512:512"]


def test_cached_files_may_all_be_read_and_written(fresh_any):
    """Files that are in the cache need more descriptors once they are read: that makes room like a new file does."""
    d = fresh_any(launcher=FEW)
    w = d.workspace()
    with d.local():
        for i in range(340):
            (w.dir / f"f{i}").write_bytes(b"data")
    found = w.nfs.many([("LOOKUP", w.root, f"f{i}") for i in range(340)])
    assert {r.status for r in found} == {S.OK}
    handles = [r.fh for r in found]
    assert {r.status for r in w.nfs.many([("READ", h, 0, 10) for h in handles])} == {S.OK}
    assert {r.status for r in w.nfs.many([("WRITE", h, 0, b"DATA", UNSTABLE) for h in handles])} == {S.OK}
    assert {r.status for r in w.nfs.many([("READ", h, 0, 10) for h in handles])} == {S.OK}
    assert d.n_fds() < 512
    w.close()


def test_connections_leave_descriptors_for_files(fresh):
    """However many connections there are, a change is done and answered, or not done."""
    d = fresh(launcher=FEW)
    w = d.workspace()
    with contextlib.ExitStack() as s:
        for _ in range(600):
            with contextlib.suppress(OSError, Closed):
                s.enter_context(d.conn()).send(100003, 3, 0)
        for i in range(20):
            r = w.nfs.mkdir(w.root, f"d{i}")
            assert r.status == S.OK, f"{r.status!r}, there: {(w.dir / f'd{i}').exists()}"
            r = w.nfs.create(w.root, f"f{i}")
            assert r.status == S.OK, f"{r.status!r}, there: {(w.dir / f'f{i}').exists()}"
            w.nfs.ok("READDIRPLUS", w.root)
        assert d.api("GET", "/workspaces")
    poll("connections to be taken again", lambda: w.connect().getattr(w.root).status == S.OK)
    w.close()


def test_workspaces_leave_descriptors_for_calls(fresh):
    """The last workspace that is let in must not take what calls in the others need."""
    d = fresh(launcher=FEW)
    w = d.workspace()
    for _ in range(600):
        status, body = d.http("POST", "/api/v1/workspaces", {})
        if status != 200:
            break
    assert status == 507 and "limit of open files" in body["message"], body
    r = w.nfs.mkdir(w.root, "d")
    assert r.status == S.OK, f"{r.status!r}, there: {(w.dir / 'd').exists()}"
    assert w.connect().getattr(w.root).status == S.OK
    w.close()
