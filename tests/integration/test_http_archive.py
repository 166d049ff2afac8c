# SPDX-License-Identifier: MIT
"""Archives over HTTP: a tree goes out and comes back as it was, and no archive reaches beyond its workspace."""
import contextlib
import ctypes
import gzip
import http.client
import io
import json
import os
import pathlib
import socket
import stat
import tarfile
import threading
import urllib.parse
import zipfile

import pytest

from lib.daemon import DEADLINE, poll

API = "/api/v1/workspaces"
ODD = [b"plain", b"with blank and \"quotes\"", b"\xff\xfe bytes", "äöü ☃".encode(), b"-dash", b"new\nline", b"x" * 255]


@pytest.fixture(scope="module")
def d():
    from conftest import VARIANTS, make

    daemon = make(VARIANTS[0]).start()
    yield daemon
    daemon.destroy()


@pytest.fixture
def ws(d):
    """(id, folder on the local side)"""
    i = d.create_workspace()
    yield i, d.host_dir(i)
    assert d.alive()
    d.check_log()
    d.delete_workspace(i)


def call(d, method, path, body=None, headers=()):
    """(status, headers, bytes)"""
    conn = http.client.HTTPConnection("127.0.0.1", d.http_port, timeout=DEADLINE)
    with contextlib.closing(conn):
        conn.request(method, API + path, body, dict(headers))
        reply = conn.getresponse()
        return reply.status, reply.headers, reply.read()


def url(ws, **query):
    return f"/{ws}/files/archive?" + urllib.parse.urlencode(query)


def put(d, ws, data, **query):
    status, _, text = call(d, "PUT", url(ws, **query), data)
    return status, json.loads(text)


def get(d, ws, **query):
    status, headers, data = call(d, "GET", url(ws, **query))
    assert status == 200, data
    return data


def tar_of(*entries, mode="w"):
    """entries: (name, what); what: bytes, or a dict of TarInfo's fields"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape") as t:
        for name, what in entries:
            info = tarfile.TarInfo(name)
            fields = dict(data=what) if isinstance(what, bytes) else dict(what)
            data = fields.pop("data", b"")
            info.size = len(data)
            for k, v in fields.items():
                setattr(info, k, v)
            t.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


def link(target):
    return dict(type=tarfile.SYMTYPE, linkname=target)


def hard(target):
    return dict(type=tarfile.LNKTYPE, linkname=target)


def snapshot(top):
    """{relative path as bytes: what there is to compare}"""
    top, out = os.fsencode(top), {}
    inodes = {}
    for folder, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(folder, name)
            rel, st = os.path.relpath(path, top), os.lstat(path)
            kind, perm = stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode)
            if kind == stat.S_IFLNK:
                out[rel] = ("link", os.readlink(path))
            elif kind == stat.S_IFDIR:
                out[rel] = ("dir", perm, int(st.st_mtime))
            else:
                same = inodes.setdefault(st.st_ino, rel) if st.st_nlink > 1 else rel
                out[rel] = ("file", perm, int(st.st_mtime), pathlib.Path(os.fsdecode(path)).read_bytes(), same)
    return out


def plant(d, top):
    """A tree with all that a workspace may hold and a tar archive can."""
    with d.local():
        os.umask(0)
        for i, name in enumerate(ODD):
            (pathlib.Path(os.fsdecode(os.path.join(os.fsencode(top), name)))).write_bytes(bytes([i]) * i)
        deep = top / "a" / "b" / "c"
        deep.mkdir(parents=True)
        (deep / "tool").write_bytes(b"#!/bin/sh\n")
        (deep / "tool").chmod(0o751)
        (deep / "secret").write_bytes(b"s")
        (deep / "secret").chmod(0o600)
        (top / "empty").mkdir(mode=0o700)
        os.symlink("b/c/tool", top / "a" / "shortcut")
        os.symlink("nowhere", top / "dangling")
        (top / "closed").mkdir()
        (top / "closed" / "in it").write_bytes(b"x")
        (top / "closed").chmod(0o555)
        os.utime(deep / "tool", (1_600_000_000, 1_500_000_000))
        os.utime(top / "empty", (1_600_000_000, 1_400_000_000))


# ---- out and in ----


@pytest.mark.parametrize("fmt", ["tar", "tar.gz"])
def test_a_tree_comes_back_as_it_was(d, ws, fmt):
    i, top = ws
    plant(d, top)
    with d.local():
        os.link(top / "plain", top / "a" / "second name")
    data = get(d, i, format=fmt)
    other = d.create_workspace()
    status, told = put(d, other, data)
    assert status == 200 and told["skipped"] == [] and told["n_skipped"] == 0, told
    assert snapshot(d.host_dir(other)) == snapshot(top)
    assert told["entries"] == len(snapshot(top))
    d.delete_workspace(other)


def test_zip_keeps_links_and_exec_bits(d, ws):
    i, top = ws
    plant(d, top)
    data = get(d, i, format="zip")
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        assert z.testzip() is None
    status, told = put(d, i, data, path="copy", format="zip")
    assert status == 200 and told["skipped"] == [], told
    was, now = snapshot(top), snapshot(top / "copy")
    for rel in (b"a/b/c/tool", b"a/b/c/secret", b"a/shortcut", "äöü ☃".encode(), b"empty"):
        assert now[rel][:2] == was[rel][:2], rel


def test_foreign_programs_read_and_write_them(d, ws):
    i, top = ws
    plant(d, top)
    with tarfile.open(fileobj=io.BytesIO(get(d, i)), errors="surrogateescape", encoding="utf-8") as t:
        names = {os.fsencode(n) for n in t.getnames()}
        assert {n for n in snapshot(top) if n != b"."} == names
        assert {m.uid for m in t} == {1000}  # the owner that every door shows
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        assert put(d, i, tar_of(("x/y", mode.encode()), mode=mode), path="in")[0] == 200
        assert (top / "in/x/y").read_bytes() == mode.encode()


def test_a_part_and_a_single_file(d, ws):
    i, top = ws
    plant(d, top)
    status, headers, data = call(d, "GET", url(i, path="/a/./x/../b"))
    assert status == 200 and headers["Content-Disposition"] == 'attachment; filename="b.tar"'
    assert headers["Content-Type"] == "application/x-tar" and headers["Transfer-Encoding"] == "chunked"
    assert sorted(tarfile.open(fileobj=io.BytesIO(data)).getnames()) == ["c", "c/secret", "c/tool"]
    data = get(d, i, path="a/b/c/tool", format="zip")
    assert zipfile.ZipFile(io.BytesIO(data)).namelist() == ["tool"]
    status, _, data = call(d, "HEAD", url(i))
    assert (status, data) == (200, b"")
    empty = d.create_workspace()
    assert tarfile.open(fileobj=io.BytesIO(get(d, empty))).getnames() == []
    d.delete_workspace(empty)


def test_sockets_and_fifos_are_left_out_without_waiting(d, ws):
    i, top = ws
    with d.local():
        os.mkfifo(top / "fifo")
        (top / "file").write_bytes(b"1")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.relpath(top / "sock"))
    assert tarfile.open(fileobj=io.BytesIO(get(d, i))).getnames() == ["file"]


def test_a_file_that_shuts_its_owner_out_is_packed(d, ws):
    i, top = ws
    with d.local():
        (top / "shut").write_bytes(b"still mine")
        (top / "shut").chmod(0)
    with tarfile.open(fileobj=io.BytesIO(get(d, i))) as t:
        assert t.extractfile("shut").read() == b"still mine"
    assert stat.S_IMODE(os.stat(top / "shut").st_mode) == 0


def test_directories_that_shut_their_owner_out_are_packed(d, ws):
    i, top = ws
    with d.local():
        for mode in (0o000, 0o300, 0o600):
            (top / f"d{mode}" / "sub").mkdir(parents=True)
            (top / f"d{mode}" / "sub" / "f").write_bytes(b"in it")
            (top / f"d{mode}").chmod(mode)
    other = d.create_workspace()
    status, told = put(d, other, get(d, i))
    assert status == 200 and told["entries"] == 9 and told["skipped"] == []
    for mode in (0o000, 0o300, 0o600):
        for w in (top, d.host_dir(other)):
            assert stat.S_IMODE(os.stat(w / f"d{mode}").st_mode) == mode
    with d.local():
        os.chmod(d.host_dir(other) / "d0", 0o700)
        assert (d.host_dir(other) / "d0/sub/f").read_bytes() == b"in it"
    assert call(d, "GET", f"/{i}/backup")[0] == 200
    d.delete_workspace(other)


def test_what_stands_there_is_replaced_or_kept(d, ws):
    i, top = ws
    with d.local():
        (top / "file").write_bytes(b"old")
        (top / "dir").mkdir()
        (top / "dir/kept").write_bytes(b"kept")
        os.symlink("file", top / "link")
    data = tar_of(("file", b"new"), ("link", b"now a file"), ("dir", b"no"), ("dir/kept/x", b"no"), ("dir/more", b"more"))
    status, told = put(d, i, data)
    assert status == 200 and [s["path"] for s in told["skipped"]] == ["dir", "dir/kept/x"]
    assert (top / "file").read_bytes() == b"new" and not (top / "link").is_symlink()
    assert (top / "dir/kept").read_bytes() == b"kept" and (top / "dir/more").read_bytes() == b"more"
    assert not [n for n in os.listdir(top) if n.startswith(".arc-")]


def test_sparse_and_large_files_stream(d, ws):
    i, top = ws
    with d.local():
        with open(top / "large", "wb") as f:
            for n in range(64):
                f.write(bytes([n]) * (1 << 20))
    before = d.rss()
    data = get(d, i)
    status, told = put(d, i, data, path="copy")
    assert status == 200 and told["bytes"] == 64 << 20
    assert (top / "copy/large").read_bytes() == (top / "large").read_bytes()
    assert d.is_sanitized or d.rss() - before < 16 << 20  # a sanitizer keeps what was freed


# ---- evil ones ----


@pytest.fixture
def canary(d, ws):
    """Beside the workspace's files, where the daemon's own user could write; must stay as it is."""
    i, top = ws
    with d.local():
        path = top.parent / "logs" / "canary"
        path.write_bytes(b"untouched")
    outside = sorted(p for p in d.base.rglob("*") if top not in p.parents)
    yield path
    assert path.read_bytes() == b"untouched" and stat.S_IMODE(path.stat().st_mode) & 0o7000 == 0
    assert path.stat().st_nlink == 1
    now = sorted(p for p in d.base.rglob("*") if top not in p.parents)
    assert [p for p in now if p not in outside and p.suffix not in (".db-wal", ".db-shm")] == []


def test_no_entry_leaves_the_workspace(d, ws, canary):
    i, top = ws
    evil = [
        ("/etc/evil", b"x"), (str(canary), b"x"), ("../logs/canary", b"x"), ("a/../../logs/canary", b"x"),
        ("a/..", dict(type=tarfile.DIRTYPE)), ("..", dict(type=tarfile.DIRTYPE)),
        ("good", b"landed"),
    ]
    status, told = put(d, i, tar_of(*evil))
    assert status == 200 and told["entries"] == 1 and told["n_skipped"] == len(evil) - 1
    assert {s["reason"] for s in told["skipped"]} == {"its name is absolute", "its name has a '..' in it"}
    assert os.listdir(top) == ["good"]


@pytest.mark.parametrize("keep", ["inside", "keep"])
def test_links_are_never_followed(d, ws, canary, keep):
    """A link, then files through it; kept links are made, and still nothing goes through them."""
    i, top = ws
    with d.local():
        os.symlink(canary.parent, top / "planted")
    data = tar_of(
        ("abs", link(str(canary.parent))), ("abs/canary", b"x"), ("up", link("../logs")), ("up/canary", b"x"),
        ("file", link("../logs/canary")), ("file", b"a file now"), ("in", link("real")), ("in/x", b"x"),
        ("planted/canary", b"x"), ("planted", dict(type=tarfile.DIRTYPE)), ("fine", link("file")),
        ("deep/er/ok", link("../../file")), ("deep/er/out", link("../../../logs")),
    )
    status, told = put(d, i, data, links=keep)
    assert status == 200, told
    skipped = {s["path"] for s in told["skipped"]}
    if keep == "keep":
        assert os.readlink(top / "abs") == str(canary.parent) and "abs/canary" in skipped and "up/canary" in skipped
    else:
        assert {"abs", "up", "deep/er/out"} <= skipped and not (top / "abs").is_symlink()
    assert {"in/x", "planted/canary"} <= skipped
    assert (top / "file").read_bytes() == b"a file now" and os.readlink(top / "fine") == "file"
    assert os.readlink(top / "deep/er/ok") == "../../file"
    assert sorted(os.listdir(canary.parent)) == ["canary"]


def test_hard_links_stay_inside(d, ws, canary):
    i, top = ws
    with d.local():
        os.symlink(canary, top / "planted")
        (top / "sub").mkdir()
    data = tar_of(("sub/a", b"a"), ("h1", hard("sub/a")), ("h2", hard(str(canary))), ("h3", hard("../logs/canary")),
                  ("h4", hard("planted")), ("h5", hard("sub")), ("h1", hard("sub/a")), ("h6", hard("missing")))
    status, told = put(d, i, data)
    assert status == 200 and [s["path"] for s in told["skipped"]] == ["h2", "h3", "h4", "h5", "h6"], told
    assert os.stat(top / "h1").st_ino == os.stat(top / "sub/a").st_ino


def test_devices_and_set_id_bits_are_not_made(d, ws):
    i, top = ws
    data = tar_of(("null", dict(type=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666)),
                  ("disk", dict(type=tarfile.BLKTYPE, devmajor=8, devminor=0)), ("fifo", dict(type=tarfile.FIFOTYPE)),
                  ("su", dict(mode=0o6755, uid=0, gid=0, data=b"x")), ("d", dict(type=tarfile.DIRTYPE, mode=0o7777)))
    status, told = put(d, i, data)
    assert status == 200 and [s["path"] for s in told["skipped"]] == ["null", "disk", "fifo"]
    assert sorted(os.listdir(top)) == ["d", "su"]
    assert stat.S_IMODE(os.stat(top / "su").st_mode) == 0o755 and stat.S_IMODE(os.stat(top / "d").st_mode) == 0o777
    assert os.stat(top / "su").st_uid == os.stat(top).st_uid


def test_evil_zips(d, ws, canary):
    i, top = ws
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("../logs/canary", b"x")
        z.writestr(str(canary), b"x")
        z.writestr("ok", b"ok")
        info = zipfile.ZipInfo("out")
        info.external_attr, info.create_system = (stat.S_IFLNK | 0o777) << 16, 3
        z.writestr(info, "../logs")
        z.writestr("out/canary", b"x")
    status, told = put(d, i, out.getvalue())
    assert status == 200 and told["n_skipped"] >= 3, told
    assert (top / "ok").read_bytes() == b"ok" and not (top / "out").is_symlink()


def test_what_is_no_archive_is_told_so(d, ws):
    i, top = ws
    for body in (b"hello, this is no archive at all" * 40, b"PK\3\4" + b"\0" * 100, gzip.compress(b"no tar" * 500),
                 tar_of(("f", b"x" * 5000))[:3000]):
        status, told = put(d, i, body)
        assert (status, told["code"]) == (400, 1001), told
    assert put(d, i, tar_of(("f", b"x")), format="zip")[0] == 400
    assert put(d, i, b"x")[0] == 400
    assert put(d, i, b"", format="tar")[0] == 400
    assert os.listdir(top) == []


def test_refusals_name_what_is_wrong(d, ws):
    i, top = ws
    for method in ("GET", "PUT"):
        body = tar_of(("f", b"x")) if method == "PUT" else None
        for query, want in (("path=../x", (403, 7003)), ("format=rar", (400, 1002)), ("path=%00", (400, 3004)),
                            ("path=" + "n" * 256, (400, 3004)), ("links=out", (400, 1002))):
            status, _, text = call(d, method, f"/{i}/files/archive?{query}", body)
            assert (status, json.loads(text)["code"]) == want, (method, query, text)
        status, _, text = call(d, method, "/00000000-0000-4000-8000-000000000000/files/archive", body)
        assert (status, json.loads(text)["code"]) == (404, 7001)
    status, _, text = call(d, "GET", url(i, path="missing"))
    assert (status, json.loads(text)["code"]) == (404, 3001)
    status, _, text = call(d, "PUT", url(i), tar_of(("f", b"x")), [("Origin", "https://evil.example")])
    assert (status, json.loads(text)["code"]) == (403, 1007) and os.listdir(top) == []


def test_bombs_end_at_the_limits(fresh):
    d = fresh(env=dict(WORKSPACE_ARCHIVE_MAX_BYTES="1M", WORKSPACE_ARCHIVE_MAX_ENTRIES="50"))
    i = d.create_workspace()
    big = tar_of(("ok", b"ok"), ("big", b"\0" * (3 << 20)), mode="w:gz")
    status, told = put(d, i, big)
    assert (status, told["code"]) == (413, 1006) and "1 entries with 2 bytes are in place" in told["details"], told
    assert os.listdir(d.host_dir(i)) == ["ok"]
    status, told = put(d, i, tar_of(*[(f"f{n}", b"") for n in range(60)]), path="many")
    assert (status, told["code"]) == (413, 1006) and "50 entries" in told["details"]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("zeros", b"\0" * (8 << 20))
    assert put(d, i, out.getvalue(), path="z")[0] == 413
    # a header that promises a hole of 2^40 bytes
    head = tarfile.TarInfo("huge")
    head.size = 1 << 40
    assert put(d, i, head.tobuf(tarfile.GNU_FORMAT), path="h")[0] in (400, 413)
    assert not (d.host_dir(i) / "h/huge").exists()


def test_too_many_at_once_are_sent_away(fresh):
    d = fresh(env=dict(WORKSPACE_ARCHIVE_MAX_JOBS="1"))
    i = d.create_workspace()
    head = f"PUT {API}{url(i)} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(head + b"x")
        poll("the slot to be taken", lambda: call(d, "GET", url(i))[0] == 429)
    poll("the slot to come back", lambda: call(d, "GET", url(i))[0] == 200)


# ---- people who leave ----


def test_a_client_that_vanishes_leaves_no_half_file(d, ws):
    i, top = ws
    data = tar_of(("whole", b"w"), ("half", b"h" * 500_000))
    head = f"PUT {API}{url(i)} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(head + data[:300_000])
        poll("the first file", lambda: (top / "whole").exists())
    poll("the worker to go", lambda: not workers(d))
    assert os.listdir(top) == ["whole"]


@pytest.mark.parametrize("path", ["/restore", None])
def test_a_malformed_body_ends_the_worker(d, ws, path):
    i, top = ws
    before = call(d, "GET", "")[2]
    method = "POST" if path else "PUT"
    head = f"{method} {API}{path or url(i)} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(head + b"3\r\nabc\r\n")
        poll("the worker", lambda: workers(d))
        s.sendall(b"zz\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 400")
    poll("the worker to go", lambda: not workers(d))
    poll("nothing to be left", lambda: call(d, "GET", "")[2] == before)
    assert os.listdir(top) == []


def workers(d):
    """Archive workers of this daemon: grandchildren of its main process."""
    out = []
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (p / "comm").read_text().strip() != "workspaced-job":
                continue
            parent = (p / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if pathlib.Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1] == str(d.pid):
                out.append(int(p.name))
    return out


def test_a_reader_that_vanishes_ends_the_worker(d, ws):
    i, top = ws
    with d.local(), open(top / "large", "wb") as f:
        f.truncate(1 << 30)
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(f"GET {API}{url(i)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        assert workers(d)
    poll("the worker to go", lambda: not workers(d))
    assert call(d, "GET", "")[0] == 200


def test_a_cut_archive_does_not_look_whole(d, ws):
    """The worker dies in the middle: the connection ends without the last chunk."""
    i, top = ws
    with d.local(), open(top / "large", "wb") as f:
        f.truncate(1 << 30)
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(f"GET {API}{url(i)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        got = s.recv(65536)
        for pid in workers(d):
            os.kill(pid, 9)
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(1 << 20):
                got = got[-64:] + piece
    assert not got.endswith(b"0\r\n\r\n")
    assert call(d, "GET", url(i, path="missing"))[0] == 404


def test_a_worker_is_confined(d, ws):
    """No capability, no new privilege, a filter, and no descriptor but its three."""
    i, _ = ws
    head = f"PUT {API}{url(i)} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(head + b"x")
        pid, status = poll("a worker behind its filters", lambda: confined_worker(d))
        assert "CapEff:\t0000000000000000" in status and "CapPrm:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
        if os.geteuid() == 0:
            names = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
            assert sum(n.startswith("socket:") for n in names) == 2, names
            assert sum(str(d.data) in n for n in names) <= 2 and not [n for n in names if n.endswith(".db")]


def confined_worker(d):
    """(pid, /proc/PID/status) of the only worker, once it has the helper's filter and its own."""
    with contextlib.suppress(OSError, ValueError):
        (pid,) = workers(d)
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        if "Seccomp_filters:\t2" in text:
            return pid, text


def test_archives_while_files_come_and_go(d, ws):
    """A directory swapped for a link in a loop while archives go in and out: nothing outside is read or written."""
    i, top = ws
    stop = threading.Event()
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    with d.local():
        (top / "d").mkdir()
        secret = top.parent / "logs"
        (secret / "f").write_bytes(b"secret")
        os.symlink(secret, top / "l")

    def swap():
        while not stop.is_set():
            if exchange(-100, bytes(top / "d"), -100, bytes(top / "l"), 2) != 0:  # RENAME_EXCHANGE
                return

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(15):
            assert put(d, i, tar_of(("d/f", b"mine"), ("d/g", b"mine")))[0] == 200
            assert b"secret" not in get(d, i)
        assert thread.is_alive()
    finally:
        stop.set()
        thread.join()
    assert (secret / "f").read_bytes() == b"secret" and os.listdir(secret) == ["f"]
