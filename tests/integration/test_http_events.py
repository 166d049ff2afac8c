# SPDX-License-Identifier: MIT
"""Server-sent events of what changes in a workspace, by whichever door."""
import base64
import contextlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.parse

import pytest

from lib.daemon import DEADLINE, poll
from lib.nfs3 import FIFO, S, UNSTABLE

API = "/api/v1"


class Stream:
    """One stream of events; a thread reads it into `lines` as it comes."""

    def __init__(self, w, last=None):
        self.w, self.ids, self.events, self.comments, self.is_over = w, [], [], [], False
        self.conn = http.client.HTTPConnection("127.0.0.1", w.daemon.http_port, timeout=None)
        self.conn.request("GET", f"{API}/workspaces/{w.id}/events", headers={"Last-Event-ID": str(last)} if last else {})
        self.reply = self.conn.getresponse()
        assert self.reply.status == 200, self.reply.read()
        assert self.reply.getheader("Content-Type") == "text/event-stream"
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        poll("the first id", lambda: self.ids)

    def read(self):
        data = None
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            while line := self.reply.readline():
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "id":
                    self.ids.append(int(value))
                elif key == "data":
                    data = json.loads(value)
                    assert data["seq"] == self.ids[-1]
                    self.events.append(data)
                elif key == "":
                    self.comments.append(value)
        self.is_over = True

    def told(self, **want):
        return [e for e in self.events if all(e.get(k) == v for k, v in want.items())]

    def wait(self, **want):
        return poll(f"the event {want} in {self.events[-20:]}", lambda: self.told(**want))[0]

    def marks(self, name):
        """Everything that was changed before is told once this local file is."""
        with self.w.daemon.local():
            (self.w.dir / name).write_bytes(b"")
        self.wait(path=name, type="created")
        return [e for e in self.events if not e.get("path", "").startswith("mark")]

    def close(self):
        with contextlib.suppress(OSError, AttributeError):
            self.conn.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join(DEADLINE)
        self.conn.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def short(events):
    return [(e["type"], e["path"], *([e["to"]] if "to" in e else []), e["kind"], e["door"]) for e in events]


def files(w, method, path, body=None, rest="", **headers):
    conn = http.client.HTTPConnection("127.0.0.1", w.daemon.http_port, timeout=DEADLINE)
    with contextlib.closing(conn):
        query = f"?path={urllib.parse.quote(path)}" if path is not None else ""
        if isinstance(body, dict):
            body, headers = json.dumps(body), {"Content-Type": "application/json"}
        conn.request(method, f"{API}/workspaces/{w.id}/files{rest}{query}", body, headers)
        reply = conn.getresponse()
        text = reply.read()
        assert reply.status == 200, text
        return text


def test_each_nfs_change_is_told_once(w_any):
    """Names, data and attributes by NFS: what, where, of which kind, and by which door; the kernel's echo is not told."""
    w, n = w_any, w_any.nfs
    with Stream(w) as s:
        d = n.mkdir_(w.root, "d")
        f = n.mkfile(d, "f", b"data")
        n.ok("SYMLINK", d, "l", "f")
        n.ok("MKNOD", d, "p", FIFO, mode=0o600)
        n.ok("LINK", f, w.root, "f2")
        n.ok("SETATTR", f, mode=0o600)
        n.ok("RENAME", d, "f", w.root, "g")
        n.ok("REMOVE", w.root, "f2")
        n.ok("REMOVE", d, "l")
        n.ok("REMOVE", d, "p")
        n.ok("RMDIR", w.root, "d")
        s.wait(type="removed", path="d")
        got = short(s.marks("mark"))
    assert got == [
        ("created", "d", "directory", "nfs"),
        ("created", "d/f", "file", "nfs"),
        ("modified", "d/f", "file", "nfs"),
        ("created", "d/l", "symlink", "nfs"),
        ("created", "d/p", "other", "nfs"),
        ("created", "f2", "file", "nfs"),
        ("attributes", "d/f", "file", "nfs"),
        ("renamed", "d/f", "g", "file", "nfs"),
        ("removed", "f2", "file", "nfs"),
        ("removed", "d/l", "symlink", "nfs"),
        ("removed", "d/p", "other", "nfs"),
        ("removed", "d", "directory", "nfs"),
    ]


def test_each_http_change_is_told_once(w):
    with Stream(w) as s:
        files(w, "PUT", "a/b/f", b"one", **{"Content-Type": "application/octet-stream"})
        files(w, "PUT", "a/b/f", b"two", **{"Content-Type": "application/octet-stream"})
        files(w, "POST", None, {"path": "a/c"}, "/mkdir")
        files(w, "POST", None, {"source": "a/b/f", "destination": "a/c/g"}, "/move")
        files(w, "DELETE", "a/c/g")
        s.wait(type="removed", path="a/c/g")
        got = short(s.marks("mark"))
    assert got == [
        ("created", "a", "directory", "http"),
        ("created", "a/b", "directory", "http"),
        ("created", "a/b/f", "file", "http"),
        ("modified", "a/b/f", "file", "http"),
        ("created", "a/c", "directory", "http"),
        ("renamed", "a/b/f", "a/c/g", "file", "http"),
        ("removed", "a/c/g", "file", "http"),
    ]


def test_local_changes_are_told(w_any):
    w = w_any
    with Stream(w) as s, w.daemon.local():
        (w.dir / "a").write_text("x")
        s.wait(type="modified", path="a")
        os.rename(w.dir / "a", w.dir / "b")
        os.symlink("b", w.dir / "l")
        s.wait(type="created", path="l")
        os.chmod(w.dir / "b", 0o600)
        s.wait(type="attributes", path="b")
        os.unlink(w.dir / "b")
        s.wait(type="removed", path="b")
        got = short(s.events)
    assert got == [
        ("created", "a", "file", "local"),
        ("modified", "a", "file", "local"),
        ("renamed", "a", "b", "file", "local"),
        ("created", "l", "symlink", "local"),
        ("attributes", "b", "file", "local"),
        ("removed", "b", "other", "local"),
    ]


def test_what_is_in_new_directories_is_told_too(w):
    """Trees made at once, moved in from elsewhere, and changed below directories that were renamed."""
    with Stream(w) as s, w.daemon.local():
        names = {f"d{i}/e/f{j}" for i in range(20) for j in range(20)}
        for i in range(20):
            (w.dir / f"d{i}" / "e").mkdir(parents=True)
            for j in range(20):
                (w.dir / f"d{i}" / "e" / f"f{j}").touch()
        poll("all files", lambda: names <= {e.get("path") for e in s.told(type="created")})
        os.rename(w.dir / "d3", w.dir / "moved")
        (w.dir / "moved" / "e" / "new").touch()
        s.wait(type="renamed", path="d3", to="moved")
        s.wait(type="created", path="moved/e/new")
        assert not s.told(type="overflow")
        outside = w.dir.parent / "staging" / "tree"  # on the same file system, outside of what is watched
        (outside / "sub").mkdir(parents=True)
        (outside / "sub" / "f").touch()
        os.rename(outside, w.dir / "came")
        s.wait(type="created", path="came/sub/f")
        os.rename(w.dir / "came", outside)
        assert s.wait(type="removed", path="came")["kind"] == "directory"
        (outside / "sub" / "unseen").touch()
        s.marks("mark")
        assert not s.told(path="came/sub/unseen")


def test_doors_mixed_lose_and_double_nothing(w):
    """NFS and a local process at work in the same directories: each creation once, with its door."""
    n = w.nfs
    with Stream(w) as s:
        dirs = [n.mkdir_(w.root, f"d{i}") for i in range(8)]

        def local():
            with w.daemon.local():
                for i in range(400):
                    (w.dir / f"d{i % 8}" / f"local{i}").touch()

        t = threading.Thread(target=local)
        t.start()
        for i in range(400):
            assert n.create(dirs[i % 8], f"nfs{i}", mode=0o644).status == S.OK
        t.join()
        names = {f"d{i % 8}/local{i}" for i in range(400)} | {f"d{i % 8}/nfs{i}" for i in range(400)}
        poll("all", lambda: len(s.told(type="created")) >= 808)
        made = [(e["path"], e["door"]) for e in s.marks("mark") if e["type"] == "created" and "/" in e["path"]]
    assert sorted(p for p, _ in made) == sorted(names)
    assert all(("nfs" in p) == (door == "nfs") for p, door in made)


def test_many_writes_are_few_events_and_the_last_is_told(w):
    n = w.nfs
    f = n.mkfile(w.root, "f")
    with Stream(w) as s:
        begin = time.monotonic()
        for i in range(300):
            n.ok("WRITE", f, i, b"x", UNSTABLE)
        took = time.monotonic() - begin
        last = s.wait(type="modified", path="f")["seq"]
        # the one after the last write comes when the pause is over; then there is silence
        poll("the last", lambda: time.monotonic() - begin > took + 0.5)
        told = s.told(type="modified")
        assert 1 <= len(told) <= took / 0.1 + 2, (len(told), took)
        assert told[0]["seq"] == last


def test_resume_after_the_last_id(w):
    n = w.nfs
    with Stream(w) as s:
        n.mkfile(w.root, "a")
        seq = s.wait(type="created", path="a")["seq"]
    n.mkfile(w.root, "b")  # nobody listens, yet it is recorded for a while
    n.mkfile(w.root, "c")
    with Stream(w, last=seq) as s:
        s.wait(path="c")
        assert [(e["path"], e["seq"]) for e in s.events] == [("b", seq + 1), ("c", seq + 2)]


@pytest.mark.parametrize("last", [1, 2**53 - 1])
def test_resume_from_what_is_not_known_is_an_overflow(w, last):
    n = w.nfs
    with Stream(w, last=last) as s:
        assert s.wait(type="overflow")["reason"]
        n.mkfile(w.root, "a")
        s.wait(path="a")
        assert [e["type"] for e in s.events] == ["overflow", "created"]


def test_numbers_grow_over_a_restart(fresh):
    d = fresh()
    w = d.workspace()
    with Stream(w) as s:
        w.nfs.mkfile(w.root, "a")
        seq = s.wait(path="a")["seq"]
    w.restart()
    with Stream(w, last=seq) as s:
        assert s.wait(type="overflow")["seq"] >= seq
        w.nfs.mkfile(w.root, "b")
        assert s.wait(path="b")["seq"] > seq


def test_a_handle_from_before_a_restart_gives_a_path(fresh):
    """The file was opened by its handle alone: its name is looked for."""
    d = fresh()
    w = d.workspace()
    sub = w.nfs.mkdir_(w.root, "sub")
    f = w.nfs.mkfile(sub, "f", b"data")
    w.restart()
    with Stream(w) as s:
        w.nfs.ok("WRITE", f, 0, b"x", UNSTABLE)
        s.wait(type="modified", path="sub/f")


def test_a_slow_client_is_told_of_what_it_lost(w):
    """It reads nothing while more happens than is kept: an overflow, and then what is kept, and the server is well."""
    n, d = w.nfs, w.root
    for _ in range(6):
        d = n.mkdir_(d, "x" * 250)
    f = n.mkfile(d, "f")
    before = w.daemon.rss()
    with socket.socket() as k:
        k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        k.connect(("127.0.0.1", w.daemon.http_port))
        k.settimeout(DEADLINE)
        k.sendall(f"GET {API}/workspaces/{w.id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        first = k.recv(100)
        for _ in range(70):
            n.many([("LINK", f, d, "link"), ("REMOVE", d, "link")] * 50)
        n.mkfile(w.root, "last")
        k.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        data = first
        while b'"path":"last"' not in data[-2000:]:
            piece = k.recv(1 << 20)
            assert piece
            data += piece
    assert data.count(b'"type":"overflow"') == 1
    assert w.daemon.is_sanitized or w.daemon.rss() - before < 64 << 20


def test_names_of_any_bytes(w):
    name = b"\xff\xfe x"
    with Stream(w) as s:
        w.nfs.mkfile(w.root, name)
        e = poll("it", lambda: [e for e in s.events if "path_base64" in e])[0]
        assert base64.b64decode(e["path_base64"]) == name


def test_the_stream_ends_with_the_workspace(fresh):
    d = fresh()
    w = d.workspace()
    with Stream(w) as s:
        d.delete_workspace(w.id)
        poll("the end", lambda: s.is_over)


def test_the_daemon_stops_while_somebody_listens(fresh):
    d = fresh()
    w = d.workspace()
    with Stream(w) as s:
        begin = time.monotonic()
        d.stop()
        assert time.monotonic() - begin < 5  # not the deadline of requests that hang
        poll("the end", lambda: s.is_over)


def test_clients_that_go_leave_nothing_behind(w):
    w.nfs.mkfile(w.root, "f")
    with Stream(w):
        pass
    before = w.daemon.n_fds()
    for _ in range(20):
        with Stream(w):
            pass
    poll("the descriptors", lambda: w.daemon.n_fds() <= before)


def test_refusals(w):
    d, path = w.daemon, f"{API}/workspaces/{w.id}/events"
    assert d.http("GET", f"{API}/workspaces/00000000-0000-4000-8000-000000000000/events")[1]["code"] == 7001
    assert d.http("GET", path + "?last_event_id=x")[1]["code"] == 1002
    assert d.http("HEAD", path)[0] == 200
    streams = [Stream(w) for _ in range(64)]
    assert d.http("GET", path)[0] == 429
    for s in streams:
        s.close()
