# SPDX-License-Identifier: MIT
"""Quotas: every door is charged and refused by the same account, which a count of the whole corrects."""
import contextlib
import http.client
import io
import json
import os
import tarfile
import threading
import urllib.parse

import pytest

from lib.daemon import DEADLINE, poll
from lib.nfs3 import FIFO, FILE_SYNC, S, UNSTABLE

API = "/api/v1"
KIB = 1 << 10
MIB = 1 << 20


def put(w, path, data):
    """(status, code or None) of a PUT of raw bytes."""
    conn = http.client.HTTPConnection("127.0.0.1", w.daemon.http_port, timeout=DEADLINE)
    with contextlib.closing(conn):
        conn.request("PUT", f"{API}/workspaces/{w.id}/files?path={urllib.parse.quote(path)}", data,
                     {"Content-Type": "application/octet-stream"})
        reply = conn.getresponse()
        body = reply.read()
        return reply.status, b'"code":3007' in body


def set_quota(w, n_bytes=None, n_files=None):
    return w.daemon.api("PUT", f"/workspaces/{w.id}/quota", {"bytes": n_bytes, "files": n_files})


def used(w):
    q = w.daemon.api("GET", f"/workspaces/{w.id}/quota")
    return q["used_bytes"], q["used_files"]


def counted(w):
    """The rule of counting, by another hand: inodes, and sizes of regular files in blocks of 4 KiB."""
    seen, n_bytes = set(), 0
    for top, dirs, names in os.walk(w.dir):
        for name in dirs + names:
            st = os.lstat(os.path.join(top, name))
            if st.st_ino not in seen and os.path.isfile(os.path.join(top, name)) and not os.path.islink(os.path.join(top, name)):
                n_bytes += -(-st.st_size // 4096) * 4096
            seen.add(st.st_ino)
    return n_bytes, len(seen)


def test_nfs_is_charged_credited_and_refused(w_any):
    w, n = w_any, w_any.nfs
    assert set_quota(w, MIB, 10) == {"bytes": MIB, "files": 10, "used_bytes": 0, "used_files": 0}
    f = n.mkfile(w.root, "f")
    assert used(w) == (0, 1)
    n.ok("WRITE", f, 0, bytes(5000), UNSTABLE)
    assert used(w) == (8192, 1)
    n.ok("WRITE", f, 5000, bytes(3000), FILE_SYNC)  # within what is charged
    assert used(w) == (8192, 1)
    n.ok("WRITE", f, MIB - 4096, bytes(4096), UNSTABLE)  # up to the last byte; holes count
    assert used(w) == (MIB, 1)
    assert n.write(f, MIB, b"x", UNSTABLE).status == S.DQUOT
    assert n.write(f, MIB, b"x", FILE_SYNC).status == S.DQUOT
    n.ok("WRITE", f, 100, bytes(4096), UNSTABLE)  # no growth: always
    assert n.setattr(f, size=MIB + 1).status == S.DQUOT
    assert n.attr(f).size == MIB
    n.ok("SETATTR", f, size=10)
    assert used(w) == (4096, 1)
    d = n.mkdir_(w.root, "d")
    n.ok("SYMLINK", d, "l", "f")
    n.ok("MKNOD", d, "p", FIFO, mode=0o600)
    n.ok("LINK", f, d, "f2")  # no new inode
    assert used(w) == (4096, 4) == counted(w)
    n.ok("REMOVE", w.root, "f")
    assert used(w) == (4096, 4)
    n.ok("REMOVE", d, "f2")
    n.ok("REMOVE", d, "l")
    n.ok("REMOVE", d, "p")
    n.ok("RMDIR", w.root, "d")
    assert used(w) == (0, 0) == counted(w)


def test_the_number_of_files(w):
    n = w.nfs
    set_quota(w, None, 3)
    for name in "abc":
        n.mkfile(w.root, name)
    assert n.create(w.root, "d", mode=0o644).status == S.DQUOT
    assert n.create(w.root, "d", guarded=True, mode=0o644).status == S.DQUOT
    assert n.create(w.root, "d", verf=b"12345678").status == S.DQUOT
    assert n.mkdir(w.root, "d", mode=0o755).status == S.DQUOT
    assert n.symlink(w.root, "d", "a").status == S.DQUOT
    assert n.mknod(w.root, "d", FIFO, mode=0o600).status == S.DQUOT
    # what needs no new inode goes on
    assert n.create(w.root, "a", mode=0o644).status == S.OK
    assert n.create(w.root, "a", guarded=True, mode=0o644).status == S.EXIST
    assert n.mkdir(w.root, "a", mode=0o755).status == S.EXIST
    n.ok("LINK", n.look(w.root, "a"), w.root, "a2")
    n.ok("RENAME", w.root, "b", w.root, "c")  # takes c away
    n.mkfile(w.root, "d")
    assert used(w) == (0, 3) == counted(w)


def test_http_is_charged_and_refused(w):
    set_quota(w, 64 * KIB, 5)
    assert put(w, "a/b/f", bytes(10 * KIB)) == (200, False)
    assert used(w) == (12 * KIB, 3) == counted(w)
    assert put(w, "a/b/f", bytes(4 * KIB)) == (200, False)  # replaced
    assert used(w) == (4 * KIB, 3) == counted(w)
    assert put(w, "g", bytes(64 * KIB)) == (507, True)
    assert used(w) == (4 * KIB, 3) == counted(w)
    assert put(w, "g", bytes(60 * KIB)) == (200, False)
    assert put(w, "h", b"") == (200, False)
    assert put(w, "i", b"") == (507, True)
    assert w.daemon.http("POST", f"{API}/workspaces/{w.id}/files/mkdir", {"path": "i"})[0] == 507
    assert w.daemon.http("POST", f"{API}/workspaces/{w.id}/files/mkdir", {"path": "a/b"})[0] == 200
    w.daemon.api("POST", f"/workspaces/{w.id}/files/move", {"source": "h", "destination": "g"})
    assert used(w) == (4 * KIB, 4) == counted(w)
    w.daemon.api("POST", f"/workspaces/{w.id}/files/copy", {"source": "a/b/f", "destination": "c"})
    assert used(w) == (8 * KIB, 5) == counted(w)
    assert w.daemon.http("POST", f"{API}/workspaces/{w.id}/files/copy", {"source": "c", "destination": "e"})[0] == 507
    w.daemon.api("DELETE", f"/workspaces/{w.id}/files?path=c")
    assert used(w) == (4 * KIB, 4)
    # a whole tree is counted anew, soon
    w.daemon.api("DELETE", f"/workspaces/{w.id}/files?path=a&recursive=true")
    poll("the count", lambda: used(w) == (0, 1))


def test_an_archive_is_held_to_what_is_left(w):
    set_quota(w, 100 * KIB, 50)
    w.nfs.mkfile(w.root, "f", bytes(50 * KIB))

    def unpack(size):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            info = tarfile.TarInfo("in/archive")
            info.size = size
            t.addfile(info, io.BytesIO(bytes(size)))
        conn = http.client.HTTPConnection("127.0.0.1", w.daemon.http_port, timeout=DEADLINE)
        with contextlib.closing(conn):
            conn.request("PUT", f"{API}/workspaces/{w.id}/files/archive?path=", out.getvalue(), {"Content-Type": "application/x-tar"})
            reply = conn.getresponse()
            return reply.status, json.loads(reply.read()).get("code")

    assert unpack(60 * KIB) == (507, 3007)
    assert unpack(40 * KIB) == (200, None)
    poll("the count", lambda: used(w)[0] == 92 * KIB and used(w) == counted(w))


def test_it_waits_in_the_trash(fresh):
    d = fresh()
    w = d.workspace()
    set_quota(w, 100 * KIB, 50)
    w.nfs.mkfile(w.root, "f", bytes(50 * KIB))
    poll("the usage to be stored", lambda: used(w)[0] == 52 * KIB)
    w.close()
    d.api("DELETE", f"/workspaces/{w.id}")
    d.api("POST", f"/workspaces/{w.id}/untrash")
    assert d.api("GET", f"/workspaces/{w.id}/quota")["bytes"] == 100 * KIB
    poll("the count", lambda: used(w) == (52 * KIB, 1))


def test_what_was_there_before_the_quota_counts(w):
    n = w.nfs
    f = n.mkfile(w.root, "f", bytes(10000))
    n.ok("LINK", f, w.root, "f2")
    d = n.mkdir_(w.root, "d")
    n.mkfile(d, "sparse")
    n.ok("SETATTR", n.look(d, "sparse"), size=MIB)
    assert used(w) == counted(w) == (MIB + 12288, 3)  # also without a quota
    q = set_quota(w, 100 * KIB)
    assert (q["used_bytes"], q["used_files"]) == (MIB + 12288, 3)
    # over it already: no growth, but everything else
    assert n.write(f, 100000, b"x", UNSTABLE).status == S.DQUOT
    n.ok("WRITE", f, 0, b"x", UNSTABLE)
    n.ok("SETATTR", n.look(d, "sparse"), size=0)
    n.ok("WRITE", f, 20000, b"x", UNSTABLE)
    assert w.daemon.api("DELETE", f"/workspaces/{w.id}/quota")["bytes"] is None
    n.ok("WRITE", f, 10 * MIB, b"x", UNSTABLE)
    assert used(w) == counted(w)


def test_many_clients_never_pass_the_limit(w):
    """Writers on several connections and HTTP at once, into the same and into other files, until all are refused."""
    limit, stop = 2 * MIB, []
    set_quota(w, limit, 1000)
    shared = w.nfs.mkfile(w.root, "shared")

    def writer(i):
        n = w.connect()
        own = n.mkfile(w.root, f"own{i}")
        for k in range(200):
            a = n.write(own, k * 5000, bytes(5000), UNSTABLE)
            b = n.write(shared, (k * 4 + i) * 3000, bytes(3000), UNSTABLE)
            if {a.status, b.status} == {S.DQUOT}:
                stop.append(i)
                return

    def web():
        for k in range(50):
            put(w, f"web{k % 5}", bytes(k * 1000))

    threads = [threading.Thread(target=writer, args=(i,)) for i in range(4)] + [threading.Thread(target=web)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(stop) == 4
    assert used(w) == counted(w)
    assert limit - 16 * KIB <= used(w)[0] <= limit


def test_it_is_shown_as_the_size_of_the_file_system(w):
    n = w.nfs
    before = n.ok("FSSTAT", w.root)
    set_quota(w, 10 * MIB, 100)
    n.mkfile(w.root, "f", bytes(MIB))
    s = n.ok("FSSTAT", w.root)
    assert (s.tbytes, s.fbytes, s.abytes) == (10 * MIB, 9 * MIB, 9 * MIB)
    assert (s.tfiles, s.ffiles, s.afiles) == (100, 99, 99)
    set_quota(w, 100 * KIB, None)
    s = n.ok("FSSTAT", w.root)
    assert (s.tbytes, s.fbytes, s.tfiles) == (100 * KIB, 0, before.tfiles)


def test_a_quota_from_the_beginning(w):
    made = w.daemon.api("POST", "/workspaces", {"quota": {"bytes": 1000, "files": None}})
    q = w.daemon.api("GET", f"/workspaces/{made['id']}/quota")
    assert q == {"bytes": 1000, "files": None, "used_bytes": 0, "used_files": 0}
    w.daemon.delete_workspace(made["id"])
    for bad in ({"bytes": -1}, {"bytes": "1"}, {"files": 1.5}, {"bytes": 2**63}, 5):
        assert w.daemon.http("POST", API + "/workspaces", {"quota": bad})[0] == 400, bad
        if isinstance(bad, dict):
            assert w.daemon.http("PUT", f"{API}/workspaces/{w.id}/quota", bad)[0] == 400, bad
    assert w.daemon.http("PUT", f"{API}/workspaces/00000000-0000-4000-8000-000000000000/quota", {})[1]["code"] == 7001


@pytest.mark.parametrize("kill", [True, False])
def test_it_survives_restarts_and_sees_what_happened_meanwhile(fresh, kill):
    d = fresh()
    w = d.workspace()
    set_quota(w, 100 * KIB, 50)
    w.nfs.mkfile(w.root, "f", bytes(50 * KIB))
    w.close()
    d.kill9() if kill else d.stop()
    (w.dir / "local").write_bytes(bytes(40 * KIB))
    d.start()
    w.nfs = w.connect()
    assert d.api("GET", f"/workspaces/{w.id}/quota")["bytes"] == 100 * KIB
    poll("the count", lambda: used(w) == (92 * KIB, 2))
    assert w.nfs.write(w.nfs.look(w.root, "f"), 52 * KIB, bytes(20 * KIB), UNSTABLE).status == S.DQUOT
