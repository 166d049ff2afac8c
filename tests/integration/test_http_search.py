# SPDX-License-Identifier: MIT
"""Search over HTTP: what is found, what is skipped and named, and that no pattern or tree hurts anybody."""
import base64
import os
import socket
import struct
import threading
import time

import pytest

from lib import nfs3
from lib.daemon import DEADLINE, IS_ROOT
from lib.files import Files


@pytest.fixture
def f(w):
    files = Files(w.daemon, w.id)
    files.w = w
    return files


def put(w, files):
    """Files {name: bytes} on the local side; folders as needed."""
    with w.daemon.local():
        for name, data in files.items():
            path = os.path.join(os.fsencode(w.dir), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.write(data)


TREE = {"a.c": b"int x;\r\nint needle;\r\n\r\nend\r\n", "d/b.h": b"needle\n", "d/e/c.c": b"Needle\nneedle needle\n",
        ".git/config": b"needle\n", "z": b"nothing\n"}


def test_lines_columns_and_context(f):
    put(f.w, TREE)
    status, value = f.search("needle", context=1)
    assert status == 200, value
    assert [(m["path"], m["line"], m["column"]) for m in value["matches"]] == [
        ("/.git/config", 1, 1), ("/a.c", 2, 5), ("/d/b.h", 1, 1), ("/d/e/c.c", 2, 1)]
    assert value["matches"][1]["text"] == "int needle;"
    assert value["matches"][1]["before"] == ["int x;"] and value["matches"][1]["after"] == [""]
    assert value["truncated"] is False and value["truncated_by"] is None
    assert value["skipped"] == [] and value["files_searched"] == 5
    assert f.search("needle", before=2, after=0)[1]["matches"][3]["before"] == ["Needle"]


@pytest.mark.parametrize(
    "query, paths",
    [
        (dict(glob="*.c"), ["/a.c", "/d/e/c.c"]),
        (dict(glob="/*.c"), ["/a.c"]),
        (dict(glob="**/e/*"), ["/d/e/c.c"]),
        (dict(glob="*.{c,h}", exclude="e/"), ["/a.c", "/d/b.h"]),
        (dict(exclude=".git"), ["/a.c", "/d/b.h", "/d/e/c.c"]),
        (dict(depth=1), ["/a.c"]),
        (dict(depth=2, exclude=".git"), ["/a.c", "/d/b.h"]),
        (dict(path="d"), ["d/b.h", "d/e/c.c"]),
        (dict(path="/d/"), ["/d/b.h", "/d/e/c.c"]),
        (dict(path="d/b.h"), ["d/b.h"]),
        (dict(path="z"), []),
    ],
)
def test_where_is_searched(f, query, paths):
    put(f.w, TREE)
    assert [m[0] for m in f.found("needle", **query)] == paths


@pytest.mark.parametrize(
    "pattern, query, hits",
    [
        ("-e", {}, [1]),
        ("--help", {}, [1]),
        ("[", {}, [2]),
        ("a+b c", {}, [2]),
        ("(a+)+$", {}, [3]),
        ("^w\\w+d$", dict(regex="true"), [4]),
        ("WORLD", dict(ignore_case="1"), [4]),
        ("WORLD", {}, []),
        ("(?i)w.RLD", dict(regex=1), [4]),
        ("é", {}, [5]),
        ("É", dict(ignore_case="true"), [5]),
        (b"\xff", {}, [6]),
        ("\\xff", dict(regex=1), [6]),
    ],
)
def test_patterns_are_data(f, pattern, query, hits):
    put(f.w, {"t": b"x -e --help\n[ a+b c\n(a+)+$\nworld\n"})
    put(f.w, {"u": "é\n".encode()})
    put(f.w, {"v": b"\xff\n"})
    base = {"t": 0, "u": 4, "v": 5}
    assert [base[path[1:]] + line for path, line, _, _ in f.found(pattern, **query)] == hits


@pytest.mark.parametrize(
    "pattern, query, says",
    [
        ("[", dict(regex=1), "missing terminating ]"),
        ("(", dict(regex=1), "at byte 1"),
        ("", {}, "is empty"),
        ("", dict(regex=1), "is empty"),
        ("a\nb", {}, "line end"),
        ("a" * 65537, {}, "more than 65536 bytes"),
        ("a" * 65536, dict(regex=1), "more than 16384 bytes"),
        ("a", dict(glob="["), "'glob': the pattern has a '['"),
        ("a", dict(exclude="{a"), "'exclude': the pattern has a '{'"),
        ("a", dict(limit=0), "'limit' must be a number from 1 to"),
        ("a", dict(context=21), "'context' must be a number from 0 to 20"),
        ("a", dict(timeout_ms="x"), "'timeout_ms' must be a number"),
        ("a", dict(regex="maybe"), "'regex' must be true or false"),
    ],
)
def test_what_cannot_be_searched_for_is_refused_with_the_reason(f, pattern, query, says):
    put(f.w, {"t": b"a\n"})
    status, value = f.search(pattern, **query)
    assert (status, value["code"]) == (400, 1002), value
    assert says in value["message"]


def test_a_pattern_of_64_kib_is_searched_for(f):
    put(f.w, {"t": b"b" + b"a" * 65536 + b"b"})
    assert [(m[1], m[2]) for m in f.found("a" * 65536)] == [(1, 2)]


def test_paths_that_cannot_be_searched(f):
    with f.w.daemon.local():
        (f.w.dir / "out").symlink_to("/etc")
        os.mkfifo(f.w.dir / "fifo")
    for path, want in {"nothing": (404, 3001), "..": (403, 7003), "out": (403, 7003)}.items():
        status, value = f.search("a", path=path)
        assert (status, value["code"]) == want, value
    assert f.search("a", path="fifo")[0] == 400
    status, _, value = f.ask("GET", "/search")
    assert (status, value["code"]) == (400, 1002)


def evil_tree(w):
    put(w, {"fine": b"needle\n", "d/fine": b"needle\n", "binary": b"a\0needle\n", b"name \xff": b"needle \xff\n",
            "closed/x": b"needle\n", "secret": b"needle\n", ".git/x": b"needle\n", "long": b"a" * 100000 + b"needle\n"})
    with w.daemon.local():
        os.mkfifo(w.dir / "fifo")
        with socket.socket(socket.AF_UNIX) as s:
            at = os.open(w.dir, os.O_PATH)
            s.bind(f"/proc/self/fd/{at}/socket")
            os.close(at)
        (w.dir / "loop").symlink_to(".")
        (w.dir / "d/up").symlink_to("..")
        (w.dir / "dangling").symlink_to("nowhere")
        (w.dir / "out").symlink_to("/etc/passwd")
        with open(w.dir / "huge", "wb") as huge:
            huge.truncate(2 << 30)
        os.chmod(w.dir / "closed", 0)
        os.chmod(w.dir / "secret", 0)


def test_an_evil_tree_is_searched_and_what_was_skipped_is_named(f):
    evil_tree(f.w)
    status, value = f.search("needle")
    assert status == 200, value
    assert {m["path"] for m in value["matches"]} == {"/fine", "/d/fine", "/name \ufffd", "/.git/x", "/long"}
    assert {(s["path"], s["reason"]) for s in value["skipped"]} == {
        ("/binary", "binary"), ("/fifo", "not a regular file"), ("/socket", "not a regular file"),
        ("/huge", "too large"), ("/closed", "unreadable"), ("/secret", "unreadable")}
    assert value["skipped_total"] == 6
    by_path = {m["path"]: m for m in value["matches"]}
    odd = by_path["/name \ufffd"]
    assert base64.b64decode(odd["path_base64"]) == b"/name \xff"
    assert odd["text"] == "needle \ufffd" and odd["encoding_errors"] is True
    long = by_path["/long"]
    assert long["cut"] is True and long["column"] == 100001 and len(long["text"]) <= 1000
    assert long["text"].find("needle") == long["column"] - long["text_column"]
    assert "cut" not in by_path["/fine"] and "path_base64" not in by_path["/fine"]
    with f.w.daemon.local():
        os.chmod(f.w.dir / "closed", 0o755)


def test_limits_are_kept_and_named(f):
    put(f.w, {f"d{i}/t": b"needle\n" * 20 for i in range(20)})
    status, value = f.search("needle", limit=10)
    assert len(value["matches"]) == 10
    assert value["truncated"] is True and value["truncated_by"] == "result limit"
    status, value = f.search("needle", limit=400)
    assert len(value["matches"]) == 400 and value["truncated"] is False
    status, value = f.search("needle", max_file_bytes=20)
    assert value["matches"] == [] and value["skipped_total"] == 20
    put(f.w, {"many": (b"needle" + b"x" * 990 + b"\n") * 4000})
    status, value = f.search("needle", limit=10000, context=2, path="many")
    assert value["truncated_by"] == "answer limit" and 0 < len(value["matches"]) < 10000


def test_an_evil_pattern_ends_in_time(f):
    put(f.w, {"evil": b"a" * (1 << 20) + b"b\n", "fine": b"aaa\n"})
    status, value = f.search("^(a+)+$", regex=1)
    assert status == 200
    assert [m["path"] for m in value["matches"]] == ["/fine"]
    assert value["skipped"] == [dict(path="/evil", reason="the pattern needs too many steps")]
    put(f.w, {"evil": b"a" * (1 << 19)})  # each place in it stays within the limit
    status, value = f.search("a.*?[cd]", regex=1, timeout_ms=1)
    assert status == 200 and value["truncated_by"] == "time limit"


def test_many_searches_leave_the_others_their_threads(f):
    """Ten that take their whole time each, two at once: meanwhile files and NFS answer, long before those are through."""
    put(f.w, {"evil": b"a" * (1 << 19), "t": b"hello\n"})
    ended = []

    def search(_):
        status, value = f.search("a.*?[cd]", regex=1, path="evil", timeout_ms=300)
        ended.append((status, value["truncated_by"], time.monotonic()))

    threads = [threading.Thread(target=search, args=(i,)) for i in range(10)]
    for t in threads:
        t.start()
    seen = []
    for _ in range(20):
        status, _, value = f.ask("GET", "", dict(path="t"))
        assert (status, value["content"]) == (200, "hello\n")
        fh = f.w.nfs.lookup(f.w.root, b"t")
        assert fh.status == nfs3.S.OK and f.w.nfs.read(fh.fh, 0, 10).data == b"hello\n"
        seen.append(time.monotonic())
    for t in threads:
        t.join(DEADLINE)
    assert [e[:2] for e in ended] == [(200, "time limit")] * 10
    assert seen[-1] < max(e[2] for e in ended)  # nobody waited for the searches


def test_searches_whose_clients_are_gone_end(f):
    """Two that would take a minute hold all the threads that searches may; then their clients break off."""
    put(f.w, {"evil": b"a" * (1 << 19), "t": b"hello\n"})
    url = f"{f.base}/search?pattern=a.*%3F%5Bcd%5D&regex=1&path=evil&timeout_ms=60000"
    gone = [socket.create_connection(("127.0.0.1", f.daemon.http_port), DEADLINE) for _ in range(2)]
    for s in gone:
        s.sendall(f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    for _ in range(2):  # answered by the same loop: it has read what came before
        assert f.daemon.http("GET", "/api/v1/health")[0] == 200
    for s in gone:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
        s.close()
    assert f.found("hello", path="t") == [("t", 1, 1, "hello")]  # else the client's deadline ends this test


def test_names_that_come_and_go_break_nothing(f):
    put(f.w, {f"keep/{i}": b"needle\n" for i in range(50)})
    stop = threading.Event()

    def churn():
        i = 0
        while not stop.is_set():
            name = f.w.dir / f"keep/tmp{i % 7}"
            name.write_bytes(b"needle\n")
            os.rename(name, f.w.dir / f"keep/moved{i % 5}")
            os.unlink(f.w.dir / f"keep/moved{i % 5}")
            i += 1

    t = threading.Thread(target=churn)
    t.start()
    try:
        for _ in range(20):
            status, value = f.search("needle", limit=1000)
            assert status == 200, value
            assert {f"/keep/{i}" for i in range(50)} <= {m["path"] for m in value["matches"]}
            assert {s["reason"] for s in value["skipped"]} <= {"unreadable"} if not IS_ROOT else True
    finally:
        stop.set()
        t.join()
