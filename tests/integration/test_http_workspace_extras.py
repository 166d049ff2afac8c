# SPDX-License-Identifier: MIT
"""Workspaces beyond create and delete: other names, usage, the trash, requests sent twice, backups."""
import concurrent.futures
import contextlib
import http.client
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import tarfile

import pytest

from lib.daemon import DEADLINE, poll
from lib.nfs3 import S

API = "/api/v1/workspaces"


@pytest.fixture(scope="module")
def d():
    from conftest import VARIANTS, make

    daemon = make(VARIANTS[0]).start()
    yield daemon
    daemon.destroy()


def call(d, method, path, body=None, **headers):
    """(status, headers, decoded JSON or bytes)"""
    conn = http.client.HTTPConnection("127.0.0.1", d.http_port, timeout=DEADLINE)
    with contextlib.closing(conn):
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if isinstance(body, dict):
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        conn.request(method, API + path, body, headers)
        reply = conn.getresponse()
        data = reply.read()
        return reply.status, reply.headers, json.loads(data) if "json" in reply.headers["Content-Type"] else data


def ok(d, method, path, body=None, **headers):
    status, _, value = call(d, method, path, body, **headers)
    assert status == 200, value
    return value


def code(d, *args, **kw):
    status, _, value = call(d, *args, **kw)
    return status, value["code"]


def ids(d, query=""):
    return [w["id"] for w in ok(d, "GET", query)["workspaces"]]


# ---- PATCH ----


def test_patch_changes_what_it_names(fresh):
    d = fresh()
    w = ok(d, "POST", "", {"name": "a", "metadata": {"x": "1", "y": "2"}})
    url = "/" + w["id"]
    got = ok(d, "PATCH", url, {"metadata": {"y": None, "z": "3"}})
    assert got["name"] == "a" and got["metadata"] == {"x": "1", "z": "3"} and got["updated_at"] > w["updated_at"]
    assert ok(d, "PATCH", url, {"name": "b"})["metadata"] == {"x": "1", "z": "3"}
    assert ok(d, "PATCH", url, {})["name"] == "b"
    d.restart()
    got = ok(d, "GET", url)
    assert (got["name"], got["metadata"]) == ("b", {"x": "1", "z": "3"})
    assert ok(d, "PATCH", url, {"name": None, "metadata": None})["metadata"] == {}
    assert ok(d, "GET", url)["name"] is None


def test_patch_refuses_what_create_refuses(d):
    w = ok(d, "POST", "", {"metadata": {f"k{n}": "" for n in range(64)}})
    url = "/" + w["id"]
    for body in ({"name": "x" * 256}, {"name": 7}, {"metadata": {"a": 1}}, {"metadata": []}, {"metadata": {"one more": ""}}):
        assert code(d, "PATCH", url, body) == (400, 1001), body
    assert ok(d, "PATCH", url, {"metadata": {"k0": None, "one more": ""}})["metadata"].keys() > {"one more"}
    assert code(d, "PATCH", "/nobody", {}) == (404, 7001)


def test_readers_and_writers_of_one_name(d):
    w = "/" + ok(d, "POST", "", {"name": "n0"})["id"]

    def work(n):
        ok(d, "PATCH", w, {"name": f"n{n}", "metadata": {"k": str(n)}})
        got = ok(d, "GET", w)
        assert got["name"] == "n" + got["metadata"]["k"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(80)))


# ---- usage ----


def test_usage_counts_blocks_and_each_file_once(d):
    i = d.create_workspace()
    top = d.host_dir(i)
    assert ok(d, "GET", f"/{i}/usage") == {"bytes": 0, "files": 0, "directories": 0, "complete": True}
    with d.local():
        (top / "d").mkdir()
        (top / "d" / "f").write_bytes(b"x" * 100_000)
        os.link(top / "d" / "f", top / "again")
        os.symlink("/etc/passwd", top / "link")
        with open(top / "sparse", "wb") as f:
            f.truncate(1 << 30)
    want = sum(os.lstat(top / p).st_blocks * 512 for p in ("d", "d/f", "link", "sparse"))
    assert ok(d, "GET", f"/{i}/usage") == {"bytes": want, "files": 3, "directories": 1, "complete": True}
    assert want < 1 << 29
    assert code(d, "GET", "/nobody/usage") == (404, 7001)


# ---- Idempotency-Key ----


def test_the_same_key_makes_one_workspace(fresh):
    d = fresh()
    body = {"name": "once"}
    first = ok(d, "POST", "", body, Idempotency_Key="k1")
    status, headers, again = call(d, "POST", "", body, Idempotency_Key="k1")
    assert (status, again, headers["Idempotent-Replayed"]) == (200, first, "true")
    assert code(d, "POST", "", {"name": "other"}, Idempotency_Key="k1") == (409, 1009)
    d.restart()
    assert ok(d, "POST", "", body, Idempotency_Key="k1") == first
    assert ids(d) == [first["id"]]
    assert ok(d, "POST", "", body, Idempotency_Key="k2")["id"] != first["id"]
    assert ok(d, "POST", "", body)["id"] != ok(d, "POST", "", body)["id"]
    assert code(d, "POST", "", body, Idempotency_Key="a b") == (400, 1002)
    assert code(d, "POST", "", body, Idempotency_Key="k" * 256) == (400, 1002)


def test_a_refused_request_does_not_use_its_key_up(d):
    assert code(d, "POST", "", {"name": 7}, Idempotency_Key="refused") == (400, 1001)
    assert ok(d, "POST", "", {"name": "7"}, Idempotency_Key="refused")["name"] == "7"


def test_many_at_once_with_one_key(d):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda _: ok(d, "POST", "", {"name": "x"}, Idempotency_Key="storm")["id"], range(32)))
    assert len(set(got)) == 1


# ---- the trash ----


def test_deleted_workspaces_come_back(fresh):
    d = fresh()
    w = ok(d, "POST", "", {"name": "oops", "metadata": {"k": "v"}})
    i = w["id"]
    with d.local():
        (d.host_dir(i) / "file").write_bytes(b"precious")
    assert ok(d, "DELETE", f"/{i}") == {"success": True}
    assert code(d, "GET", f"/{i}") == (404, 7001) and ids(d) == [] and not d.host_dir(i).exists()
    assert code(d, "DELETE", f"/{i}") == (404, 7001)
    (t,) = ok(d, "GET", "?trashed=true")["workspaces"]
    assert t["trashed_at"] > w["created_at"] and {**t, "trashed_at": 0} == {**w, "trashed_at": 0}
    for kill in (True, False):
        d.restart(kill)
        assert ids(d, "?trashed=true") == [i] and ids(d) == []
    assert ok(d, "POST", f"/{i}/untrash") == w
    assert (d.host_dir(i) / "file").read_bytes() == b"precious" and ids(d, "?trashed=true") == []
    assert code(d, "POST", f"/{i}/untrash") == (404, 7001)
    with contextlib.closing(d.conn()):
        d.root(i)  # it can be mounted again
    d.restart()
    assert ok(d, "GET", f"/{i}") == w


def test_handles_are_stale_in_the_trash_and_good_again_after_it(w_any):
    d, n = w_any.daemon, w_any.nfs
    f = n.mkfile(w_any.root, "kept", b"x")
    ok(d, "DELETE", f"/{w_any.id}")
    assert n.getattr(f).status == n.getattr(w_any.root).status == S.STALE
    ok(d, "POST", f"/{w_any.id}/untrash")
    assert n.data(f) == b"x" and n.names(w_any.root) == [b"kept"]


def test_purge_removes_at_once(d):
    i, k = d.create_workspace(), d.create_workspace()
    assert ok(d, "DELETE", f"/{i}?purge=true") == {"success": True}
    assert i not in ids(d, "?trashed=true")
    ok(d, "DELETE", f"/{k}")
    assert (d.data / "workspaces" / ".trash" / k).exists()
    ok(d, "DELETE", f"/{k}?purge=true")
    assert k not in ids(d, "?trashed=true") and not (d.data / "workspaces" / ".trash" / k).exists()
    assert code(d, "DELETE", f"/{k}?purge=true") == (404, 7001)
    assert code(d, "DELETE", f"/{k}?purge=maybe") == (400, 1002)


def test_the_trash_is_emptied_in_time(fresh):
    d = fresh(env=dict(WORKSPACE_TRASH_TTL="1"))
    i = d.create_workspace()
    ok(d, "DELETE", f"/{i}")
    poll("the trash to be emptied", lambda: ids(d, "?trashed=true") == [] and not os.listdir(d.data / "workspaces/.trash"))
    d.restart()
    assert ids(d, "?trashed=true") == [] and code(d, "POST", f"/{i}/untrash") == (404, 7001)


def test_without_a_trash_deletes_are_final(fresh):
    d = fresh(env=dict(WORKSPACE_TRASH_TTL="0"))
    i = d.create_workspace()
    ok(d, "DELETE", f"/{i}")
    assert ids(d, "?trashed=true") == [] and os.listdir(d.data / "workspaces/.trash") == []


def test_a_crash_between_row_and_folder(fresh):
    """The row says trashed, the folder is still (or again) at its old place."""
    d = fresh()
    i = d.create_workspace()
    ok(d, "DELETE", f"/{i}")
    d.kill9()
    with d.local():
        os.rename(d.data / "workspaces/.trash" / i, d.data / "workspaces" / i)
    d.start()
    assert ids(d, "?trashed=true") == [i] and (d.data / "workspaces/.trash" / i / "files").is_dir()
    assert ok(d, "POST", f"/{i}/untrash")["id"] == i


def test_untrash_and_purge_at_once(d):
    """One of them wins, and what it says holds."""
    for _ in range(10):
        i = d.create_workspace()
        ok(d, "DELETE", f"/{i}")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            back = pool.submit(call, d, "POST", f"/{i}/untrash")
            gone = pool.submit(call, d, "DELETE", f"/{i}?purge=true")
        if back.result()[0] == 200 and gone.result()[0] == 404:
            assert ok(d, "GET", f"/{i}")["id"] == i
        else:
            assert gone.result()[0] == 200 and code(d, "GET", f"/{i}") == (404, 7001)


# ---- backup and restore ----


def tree(top):
    out = {}
    for folder, dirs, files in os.walk(os.fsencode(top)):
        for name in dirs + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            what = os.readlink(path) if os.path.islink(path) else None if os.path.isdir(path) else open(path, "rb").read()
            out[os.path.relpath(path, os.fsencode(top))] = (st.st_mode, int(st.st_mtime) if what is None else 0, what)
    return out


def test_a_backup_becomes_another_workspace(d):
    w = ok(d, "POST", "", {"name": "b\u00e4ckup", "metadata": {"k": "v" * 3000, "l": "\n"}})
    top = d.host_dir(w["id"])
    with d.local():
        (top / "sub").mkdir()
        (top / "sub" / "tool").write_bytes(b"#!/bin/sh")
        (top / "sub" / "tool").chmod(0o755)
        os.symlink("/usr/bin/python3", top / "out")
        (top / os.fsdecode(b"\xff")).write_bytes(b"odd")
        (top / "workspaced-backup.json").write_bytes(b"of the user")
        os.utime(top / "sub", (1, 1_500_000_000))
    status, headers, data = call(d, "GET", f"/{w['id']}/backup")
    assert status == 200 and headers["Content-Disposition"] == f'attachment; filename="workspace-{w["id"][:8]}.tar"'
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as t:
        first = t.next()
        assert first.name == "workspaced-backup.json" and json.load(t.extractfile(first))["name"] == w["name"]
        assert all(m.name.startswith("files/") for m in t if m is not first)
    got = ok(d, "POST", "/restore", data)
    assert got["id"] != w["id"] and (got["name"], got["metadata"]) == (w["name"], w["metadata"])
    assert got["n_skipped"] == 0 and got["entries"] == len(tree(top))
    assert tree(d.host_dir(got["id"])) == tree(top)
    assert ok(d, "GET", f"/{got['id']}")["name"] == w["name"]
    d.root(got["id"])
    assert code(d, "GET", "/nobody/backup") == (404, 7001)


def backup(meta, *entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in (("workspaced-backup.json", meta), *entries):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_a_bad_backup_leaves_no_workspace(d):
    before = ids(d) + ids(d, "?trashed=true")
    good = b'{"workspaced_backup":1,"name":"x","metadata":{}}'
    for data in (b"junk" * 100, backup(b"{}"), backup(b"not json"), backup(good.replace(b"1", b"2")),
                 backup(good.replace(b'"x"', b"[]")), backup(good.replace(b"{}", b'{"k":1}')),
                 backup(b" " * (1 << 20) + good), backup(good, ("files/f", b"x" * 9000))[:4000],
                 backup(good)[1024:], b""):
        assert code(d, "POST", "/restore", data) == (400, 1001), data[:40]
    assert ids(d) + ids(d, "?trashed=true") == before
    got = ok(d, "POST", "/restore", backup(good, ("files/in", b"1"), ("out", b"2"), ("files/../../x", b"3"), ("/files/y", b"")))
    assert os.listdir(d.host_dir(got["id"])) == ["in"] and got["n_skipped"] == 2


def test_a_client_that_vanishes_leaves_no_workspace(d):
    def folders():
        return set(os.listdir(d.data / "workspaces"))

    before, served = folders(), ids(d)
    data = backup(b'{"workspaced_backup":1}', ("files/a", b"a"), ("files/b", b"b" * 300_000))
    head = f"POST {API}/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(head + data[:200_000])
        poll("the new workspace", lambda: len(folders()) == len(before) + 1)
    poll("it to be gone", lambda: folders() == before)
    assert ids(d) == served and d.alive()


# ---- adopting ----


@pytest.fixture
def adopting(fresh_any, reachable):
    """(daemon, root below which it may adopt, function that makes a directory of its user's there)"""
    root = reachable / "roots" / "r"
    root.mkdir(parents=True)
    probe = fresh_any(env=dict(WORKSPACE_ADOPT_ROOTS=f"{root}, {reachable}/roots/r/"))
    uid = os.stat(probe.data).st_uid

    def make(name, owner=uid):
        (root / name).mkdir(parents=True)
        if os.geteuid() == 0:
            os.chown(root / name, owner, owner)
        return str(root / name)

    return probe, root, make


def test_an_adopted_directory_is_served_and_never_removed(adopting):
    d, root, make = adopting
    path = make("project")
    with d.local():
        with open(path + "/mine", "wb") as f:
            f.write(b"from before")
    w = ok(d, "POST", "", {"name": "p", "adopt": path})
    assert w["adopted"] == path
    i = w["id"]
    status, _, data = call(d, "GET", f"/{i}/files?path=mine&raw=1")
    assert (status, data) == (200, b"from before")
    assert call(d, "PUT", f"/{i}/files?path=mine", b"now", Content_Type="application/octet-stream")[0] == 200
    assert open(path + "/mine", "rb").read() == b"now"
    d.root(i)  # mounts
    for kill in (True, False):
        d.restart(kill)
        assert ok(d, "GET", f"/{i}")["adopted"] == path
        assert call(d, "GET", f"/{i}/files?path=mine&raw=1")[2] == b"now"
    ok(d, "DELETE", f"/{i}")
    assert open(path + "/mine", "rb").read() == b"now"
    assert ok(d, "POST", f"/{i}/untrash")["adopted"] == path
    assert call(d, "GET", f"/{i}/files?path=mine&raw=1")[2] == b"now"
    ok(d, "DELETE", f"/{i}?purge=true")
    assert open(path + "/mine", "rb").read() == b"now" and code(d, "GET", f"/{i}") == (404, 7001)
    assert ok(d, "POST", "", {"adopt": path})["id"] != i  # it may be adopted again


def test_what_may_not_be_adopted(adopting):
    d, root, make = adopting
    path = make("taken/inner")
    os.symlink(path, root / "link")
    (root / "file").write_bytes(b"")
    ok(d, "POST", "", {"adopt": path})
    bad = {
        "WORKSPACE_ADOPT_ROOTS": ["/etc", str(root), f"{root}/", f"{root}/../r/x", f"{root}/a/..", f"{root}/.", str(root) + "x", "/"],
        "no such": [f"{root}/missing"],
        "link": [f"{root}/link", f"{root}/link/x"],
        "no directory": [f"{root}/file"],
        "another workspace": [path, str(root / "taken/inner")],
        "": ["", "relative", "x" * 5000, f"{root}/" + "n" * 300],
    }
    if os.geteuid() == 0:
        bad["does not belong"] = [make("stranger", 12345)]
        os.chown(root / "taken", os.stat(d.data).st_uid, -1)
        bad["another workspace"].append(str(root / "taken"))
    before = ids(d)
    for sentence, paths in bad.items():
        for p in paths:
            status, _, value = call(d, "POST", "", {"adopt": p})
            assert (status, value["code"]) == (400, 1001) and sentence in value["message"], (p, value)
    assert code(d, "POST", "", {"adopt": 7}) == (400, 1001)
    assert ids(d) == before


def test_the_data_directory_is_not_adopted(fresh, reachable):
    d = fresh()
    d.stop()
    d.env["WORKSPACE_ADOPT_ROOTS"] = str(d.base.parent)
    d.start()
    i = d.create_workspace()
    for p in (d.data, d.data / "workspaces", d.host_dir(i), d.base):
        if os.geteuid() == 0 and p == d.base:
            os.chown(p, os.stat(d.data).st_uid, -1)
        status, _, value = call(d, "POST", "", {"adopt": str(p)})
        assert status == 400 and "data directory" in value["message"], (p, value)


def test_nothing_is_adopted_unless_allowed(d, reachable):
    status, _, value = call(d, "POST", "", {"adopt": str(reachable)})
    assert status == 400 and "WORKSPACE_ADOPT_ROOTS" in value["message"]


def test_an_adopted_directory_that_went_away(adopting):
    """The workspace is skipped with a line in the log, and the others are served."""
    d, root, make = adopting
    path = make("gone")
    i, k = ok(d, "POST", "", {"adopt": path})["id"], d.create_workspace()
    d.stop()
    os.rename(path, path + ".moved")
    d.start()
    assert ids(d) == [k] and "no such directory" in d.log_text()
    d.stop()
    os.rename(path + ".moved", path)
    d.start()
    assert sorted(ids(d)) == sorted([i, k])


# ---- the manual ----


def test_the_manual_runs_as_printed(fresh, tmp_path):
    """Every sh block of docs/http-api.md, one after the other in one shell; 412 is shown there on purpose."""
    text = (pathlib.Path(__file__).parents[2] / "docs/http-api.md").read_text()
    script = "set -eu\n" + "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S))
    d = fresh()
    script = script.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{d.http_port}").replace("/tmp/demo", str(tmp_path))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    statuses = re.findall(r" status=(\d+) ", d.log_text())
    assert len(statuses) > 20 and set(statuses) <= {"200", "206", "304", "412"}, d.tail()
    assert "project/" not in done.stdout and "src/main.c" in done.stdout
    assert '"entries":3,"bytes":29' in done.stdout, done.stdout
