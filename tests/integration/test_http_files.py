# SPDX-License-Identifier: MIT
"""Files over HTTP: the contract's routes, versions, ranges, uploads that break off, and everybody who wants out."""
import contextlib
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import socket
import stat
import threading
import urllib.parse

import pytest

from lib.daemon import DEADLINE, poll

API = "/api/v1"
OCTETS = {"Content-Type": "application/octet-stream"}
MIB = 1 << 20


class Files:
    """The file routes of one workspace."""

    def __init__(self, daemon, ws, kind="workspaces"):
        self.daemon, self.base = daemon, f"{API}/{kind}/{ws}/files"

    def url(self, sub="", **query):
        return self.base + sub + ("?" + urllib.parse.urlencode(query) if query else "")

    def ask(self, method, url, body=None, headers=()):
        """(status, headers, body as bytes)"""
        headers = dict(headers)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        conn = http.client.HTTPConnection("127.0.0.1", self.daemon.http_port, timeout=DEADLINE)
        with contextlib.closing(conn):
            conn.request(method, url, body, headers)
            reply = conn.getresponse()
            return reply.status, reply.headers, reply.read()

    def code(self, method, url, body=None, headers=()):
        """(status, code) of an error in the contract's form"""
        status, _, text = self.ask(method, url, body, headers)
        value = json.loads(text)
        assert set(value) <= {"code", "message", "details"}, value
        assert isinstance(value["message"], str) and isinstance(value["code"], int)
        return status, value["code"]

    def json(self, method, url, body=None, headers=()):
        status, _, text = self.ask(method, url, body, headers)
        assert status == 200, (method, url, status, text)
        return json.loads(text)

    def put(self, path, data, headers=(), **query):
        return self.ask("PUT", self.url(path=path, **query), data, {**OCTETS, **dict(headers)})

    def raw(self, path, headers=(), method="GET"):
        return self.ask(method, self.url(path=path, raw=1), None, headers)

    def etag(self, path):
        status, headers, _ = self.raw(path, method="HEAD")
        assert status == 200
        return headers["ETag"]

    def list(self, path="", **query):
        return self.json("GET", self.url("/list", path=path, **query))

    def names(self, path="", **query):
        return [f["name"] for f in self.list(path, **query)["files"]]

    def info(self, path):
        return self.json("GET", self.url("/info", path=path))

    def post(self, sub, **body):
        return self.json("POST", self.url(sub), body)


@pytest.fixture
def f(w):
    files = Files(w.daemon, w.id)
    files.dir, files.staging, files.ws = w.dir, w.dir.parent / "staging", w
    return files


@pytest.fixture
def canary(f):
    """A file beside the workspace that nobody may read, change or remove."""
    place = f.dir.parent / "canary"
    place.mkdir()
    secret = place / "secret"
    secret.write_text("CANARY")
    if os.geteuid() == 0:
        owner = os.stat(f.dir)
        os.chown(place, owner.st_uid, owner.st_gid)
        os.chown(secret, owner.st_uid, owner.st_gid)
    yield place
    assert [p.name for p in place.iterdir()] == ["secret"] and secret.read_text() == "CANARY"


@pytest.fixture
def local(f):
    """What the test does to the files itself is done as the user they belong to."""
    with f.daemon.local():
        yield f.dir


# ---- the contract ----


def test_the_life_of_a_file(f):
    assert f.json("PUT", f.url(path="src/main.py"), {"content": "print('é')\n"}) == \
        {"success": True, "path": "src/main.py"}
    assert f.json("GET", f.url(path="/src/main.py")) == {"content": "print('é')\n"}
    info = f.info("src/main.py")
    assert set(info) == {"name", "path", "type", "size", "modified_at", "mode", "mod_time", "is_dir"}
    assert (info["name"], info["path"], info["type"], info["size"]) == ("main.py", "src/main.py", "file", 12)
    assert (info["mode"], info["is_dir"], info["mod_time"]) == ("0644", False, info["modified_at"])
    assert f.list("src/")["files"] == [info]
    assert f.info("/src")["type"] == "directory" and f.info("/src")["mode"] == "0755"
    assert f.list("")["files"][0]["path"] == "/src"
    assert f.post("/copy", source="src", destination="dst") == \
        {"success": True, "source": "src", "destination": "dst"}
    assert f.post("/move", source="dst/main.py", destination="a/b/c.py") == \
        {"success": True, "source": "dst/main.py", "destination": "a/b/c.py"}
    assert f.post("/mkdir", path="x/y/z", recursive=True) == {"success": True, "path": "x/y/z"}
    assert f.post("/mkdir", path="x/y/z") == {"success": True, "path": "x/y/z"}
    assert f.names("/") == ["a", "dst", "src", "x"]
    assert f.json("DELETE", f.url(path="a/b/c.py")) == {"success": True, "path": "a/b/c.py"}
    assert f.code("DELETE", f.url(path="x")) == (400, 3006)
    assert f.json("DELETE", f.url(path="x", recursive="true")) == {"success": True, "path": "x"}
    assert f.names() == ["a", "dst", "src"]


def test_every_route_answers_under_a_sandbox_that_is_not_there(w):
    f = Files(w.daemon, "00000000-0000-4000-8000-000000000000", "sandboxes")
    for method, url, body in [
        ("GET", f.url(path="a"), None), ("PUT", f.url(path="a"), {"content": ""}), ("DELETE", f.url(path="a"), None),
        ("GET", f.url("/list", path=""), None), ("GET", f.url("/info", path="a"), None),
        ("POST", f.url("/mkdir"), {"path": "a"}), ("POST", f.url("/move"), {"source": "a", "destination": "b"}),
        ("POST", f.url("/copy"), {"source": "a", "destination": "b"}),
    ]:
        assert f.code(method, url, body) == (404, 2001), (method, url)
    gone = Files(w.daemon, "00000000-0000-4000-8000-000000000000")
    assert gone.code("PUT", gone.url(path="a"), {"content": ""}) == (404, 7001)
    assert gone.code("GET", gone.url("/list", path="")) == (404, 7001)


def test_what_cannot_be_done_has_the_contracts_code(f):
    f.put("file", b"x")
    f.put("dir/file", b"y")
    long = "n" * 256
    cases = [
        ("GET", f.url(path="none"), None, (404, 3001)),
        ("GET", f.url(path="dir"), None, (400, 3005)),
        ("GET", f.url(path="dir", raw=1), None, (400, 3005)),
        ("GET", f.url(path="file/below"), None, (400, 3005)),
        ("GET", f.url(path=""), None, (400, 3004)),
        ("GET", f.url(path=long), None, (400, 3004)),
        ("GET", f.url(path="a/" * 2100 + "b"), None, (400, 3004)),
        ("GET", f.base + "?path=a%00b", None, (400, 3004)),
        ("GET", f.base + "?path=a%zz", None, (400, 1002)),
        ("PUT", f.url(path="dir"), {"content": ""}, (400, 3005)),
        ("PUT", f.url(path="/"), {"content": ""}, (400, 3005)),
        ("PUT", f.url(path=""), {"content": ""}, (400, 3004)),
        ("PUT", f.url(path="file/below"), {"content": ""}, (400, 3005)),
        ("PUT", f.url(path="new"), {}, (400, 1001)),
        ("PUT", f.url(path="new"), {"content": 1}, (400, 1001)),
        ("PUT", f.url(path="new", append="maybe"), {"content": ""}, (400, 1002)),
        ("DELETE", f.url(path="none"), None, (404, 3001)),
        ("DELETE", f.url(path="dir"), None, (400, 3006)),
        ("DELETE", f.url(path="/", recursive="true"), None, (400, 3004)),
        ("DELETE", f.url(path="a/..", recursive="true"), None, (400, 3004)),
        ("GET", f.url("/list", path="none"), None, (404, 3001)),
        ("GET", f.url("/list", path="file"), None, (400, 3005)),
        ("GET", f.url("/list", path="", limit=0), None, (400, 1002)),
        ("GET", f.url("/list", path="", cursor="!"), None, (400, 1002)),
        ("GET", f.url("/list", path="", glob="[a"), None, (400, 1002)),
        ("GET", f.url("/info", path="none"), None, (404, 3001)),
        ("POST", f.url("/mkdir"), {"path": "file"}, (409, 3002)),
        ("POST", f.url("/mkdir"), {"path": "file/below"}, (400, 3005)),
        ("POST", f.url("/mkdir"), {}, (400, 1001)),
        ("POST", f.url("/mkdir"), {"path": long}, (400, 3004)),
        ("POST", f.url("/move"), {"source": "none", "destination": "b"}, (404, 3001)),
        ("POST", f.url("/move"), {"source": "dir", "destination": "dir/in"}, (400, 3004)),
        ("POST", f.url("/move"), {"source": "file", "destination": "dir"}, (400, 3005)),
        ("POST", f.url("/move"), {"source": "dir", "destination": "file"}, (400, 3005)),
        ("POST", f.url("/copy"), {"source": "dir", "destination": "dir"}, (400, 3004)),
        ("POST", f.url("/copy"), {"source": "dir", "destination": "dir/a/b"}, (400, 3004)),
        ("POST", f.url("/copy"), {"source": "none", "destination": "b"}, (404, 3001)),
        ("POST", f.url("/info"), {"paths": "a"}, (400, 1001)),
    ]
    for method, url, body, want in cases:
        assert f.code(method, url, body) == want, (method, url[:200], body)
    status, _, text = f.ask("POST", f.url("/move"), {"source": "none", "destination": "b"})
    assert json.loads(text)["message"] == "File not found: none"
    assert f.code("PUT", f.url(path="t"), b"x", {"Content-Type": "text/plain"}) == (415, 1001)
    message = json.loads(f.ask("PUT", f.url(path="t"), b"bytes")[2])["message"]  # as curl -T sends them
    assert "application/octet-stream" in message
    assert f.names() == ["dir", "file"], "a refusal left something behind"
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl -d says
    assert f.ask("PUT", f.url(path="t"), b'{"content":"x"}', form)[0] == 200


@pytest.mark.parametrize("path, same", [
    ("a/b", "a/b"), ("/a/b", "a/b"), ("//a//b/", "a/b"), ("./a/./b", "a/b"), ("a/x/../b", "a/b"),
    ("a/b/c/../../b", "a/b"), ("/../a", None), ("..", None), ("a/../..", None), ("a/../../a/b", None),
    ("../../../../etc/passwd", None),
])
def test_paths_are_resolved_as_text_and_never_leave(f, path, same):
    f.put("a/b", b"here")
    if same is None:
        for method, url in [("GET", f.url(path=path)), ("DELETE", f.url(path=path)), ("GET", f.url("/list", path=path)),
                            ("GET", f.url("/info", path=path))]:
            assert f.code(method, url) == (403, 7003)
        assert f.code("PUT", f.url(path=path), {"content": "x"}) == (403, 7003)
    else:
        assert f.raw(path)[2] == b"here"


def test_an_escape_is_decoded_once(f, canary):
    assert f.code("GET", f.base + "?path=%2e%2e%2fcanary%2fsecret") == (403, 7003)
    # decoded once, these are odd names, and nothing has such a name
    assert f.code("GET", f.base + "?path=%252e%252e%252fcanary%252fsecret") == (404, 3001)
    assert f.code("GET", f.base + "?path=..%255ccanary%255csecret") == (404, 3001)
    f.put("a b+c%2e", b"odd")
    assert f.ask("GET", f.base + "?path=a+b%2Bc%252e&raw=1")[2] == b"odd"


def test_text_and_bytes(f):
    data = bytes(range(256)) * 40
    assert f.put("bin", data)[0] == 200
    assert f.raw("bin")[2] == data
    assert f.ask("GET", f.url(path="bin"), None, {"Accept": "text/html, application/octet-stream;q=0.9"})[2] == data
    assert f.code("GET", f.url(path="bin")) == (400, 1002)
    assert f.ask("PUT", f.url(path="raw", raw=1), b"any", {"Content-Type": "text/plain"})[0] == 200
    f.put("nul", b"a\0b\x1f\"\\\r\n")
    assert f.json("GET", f.url(path="nul")) == {"content": "a\0b\x1f\"\\\r\n"}
    f.put("empty", b"")
    assert f.json("GET", f.url(path="empty")) == {"content": ""}
    assert f.raw("empty")[1]["Content-Length"] == "0"


def test_any_bytes_make_a_name(f, local):
    name = b"\xff\xfe \xc3\xa9?"
    quoted = urllib.parse.quote_from_bytes(name)
    assert f.ask("PUT", f.base + "?path=d/" + quoted, b"odd", OCTETS)[0] == 200
    assert os.listdir(os.fsencode(local / "d")) == [name]
    entry = f.list("d")["files"][0]
    import base64
    assert base64.b64decode(entry["name_base64"]) == name and "\ufffd" in entry["name"]
    assert base64.b64decode(entry["path_base64"]) == b"d/" + name
    assert f.ask("GET", f.base + f"?path=d/{quoted}&raw=1")[2] == b"odd"
    moved = base64.b64encode(b"d/\xe9").decode()
    f.post("/move", source_base64=entry["path_base64"], destination_base64=moved)
    assert f.ask("DELETE", f.base + "?path=d/%e9")[0] == 200
    assert f.names("d") == []


# ---- links, FIFOs and what else is planted ----


def test_a_link_out_is_never_followed(f, local, canary):
    for name, target in [("abs", str(canary / "secret")), ("rel", "../canary/secret"), ("dirabs", str(canary)),
                         ("dirrel", "../canary"), ("proc", "/proc/self/root"), ("hop", "rel")]:
        (local / name).symlink_to(target)
    leaves = ["abs", "rel", "hop", "dirabs/secret", "dirrel/secret", "proc/etc/passwd", "proc/self"]
    for path in leaves:
        for method, url, body in [
            ("GET", f.url(path=path), None), ("GET", f.url(path=path, raw=1), None),
            ("PUT", f.url(path=path), {"content": "x"}), ("PUT", f.url(path=path, append=1), {"content": "x"}),
        ]:
            assert f.code(method, url, body) == (403, 7003), (method, path)
        assert f.code("GET", f.url("/list", path=path)) == (403, 7003)
    for path in leaves[3:]:
        assert f.code("GET", f.url("/info", path=path)) == (403, 7003)
        assert f.code("DELETE", f.url(path=path, recursive="true")) == (403, 7003)
        assert f.code("POST", f.url("/mkdir"), {"path": path + "/in"}) == (403, 7003)
        for sub in ("/move", "/copy"):
            assert f.code("POST", f.url(sub), {"source": path, "destination": "got"}) == (403, 7003)
            assert f.code("POST", f.url(sub), {"source": "abs", "destination": path + "/x"}) == (403, 7003)
    links = {e["name"]: e for e in f.list("")["files"]}
    assert all(e["type"] == "symlink" and e["broken"] for e in links.values())
    assert links["rel"]["target"] == "../canary/secret" and links["abs"]["size"] == len(str(canary / "secret"))
    for name in links:
        assert f.ask("DELETE", f.url(path=name, recursive="true"))[0] == 200  # the link itself
    assert f.names() == []


def test_a_link_inside_is_followed_and_stays(f, local):
    f.put("dir/real", b"one")
    (local / "link").symlink_to("dir/real")
    (local / "dirlink").symlink_to("dir")
    (local / "dir" / "up").symlink_to("../dir/real")
    (local / "dangling").symlink_to("dir/new")
    (local / "loop").symlink_to("loop")
    assert f.raw("link")[2] == f.raw("dirlink/real")[2] == f.raw("dir/up")[2] == b"one"
    for path in ("link", "dirlink/real", "dir/up", "dirlink/up"):
        assert f.put(path, path.encode())[0] == 200
        assert f.raw("dir/real")[2] == path.encode()
    assert (local / "link").is_symlink() and (local / "dir" / "up").is_symlink()
    assert f.put("dangling", b"made")[0] == 200
    assert f.raw("dir/new")[2] == b"made" and (local / "dangling").is_symlink()
    assert f.code("GET", f.url(path="loop")) == (400, 3004)
    assert f.put("loop", b"")[0] == 400
    assert f.put("dirlink", b"")[0] == 400
    links = {e["name"]: e for e in f.list("")["files"] if e["type"] == "symlink"}
    assert {n for n, e in links.items() if e["broken"]} == {"loop"}
    assert f.post("/mkdir", path="dirlink")["success"]
    assert f.ask("DELETE", f.url(path="dirlink", recursive="true"))[0] == 200
    assert f.names("dir") == ["new", "real", "up"]


def test_fifos_and_sockets_hang_nobody(f, local):
    os.mkfifo(local / "fifo")
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(local)  # a socket's name is short
        try:
            s.bind("sock")
        finally:
            os.chdir(here)
    (local / "shut").mkdir(mode=0)
    (local / "secret").write_text("x")
    (local / "secret").chmod(0)
    for name in ("fifo", "sock"):
        assert f.code("GET", f.url(path=name)) == (400, 3004)
        assert f.code("GET", f.url(path=name, raw=1)) == (400, 3004)
        assert f.code("PUT", f.url(path=name), {"content": "x"}) == (400, 3004)
        assert f.code("PUT", f.url(path=name, append=1), {"content": "x"}) == (400, 3004)
    entries = {e["name"]: e for e in f.list("", depth=5)["files"]}
    assert (entries["fifo"]["type"], entries["fifo"]["special"]) == ("file", "fifo")
    assert entries["sock"]["special"] == "socket" and entries["shut"]["mode"] == "0000"
    if os.stat(f.daemon.data).st_uid != 0:
        assert f.code("GET", f.url(path="secret")) == (403, 3003)
        assert f.code("GET", f.url("/list", path="shut")) == (403, 3003)
    f.post("/copy", source="fifo", destination="fifo2")
    f.post("/copy", source="sock", destination="sock2")
    assert stat.S_ISFIFO(os.lstat(local / "fifo2").st_mode) and stat.S_ISSOCK(os.lstat(local / "sock2").st_mode)
    for name in list(entries) + ["fifo2", "sock2"]:
        assert f.ask("DELETE", f.url(path=name, recursive="true"))[0] == 200


def test_a_directory_swapped_for_a_link_lets_nobody_out(f, local, canary):
    """Somebody in the workspace exchanges a directory and a link to outside while requests run."""
    (local / "a").mkdir()
    (local / "a" / "secret").write_text("inside")
    (local / "b").symlink_to("../canary")
    over = threading.Event()
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    here = os.open(local, os.O_RDONLY)

    def swap():
        while not over.is_set():
            libc.renameat2(here, b"a", here, b"b", 2)  # RENAME_EXCHANGE

    def attack():
        for i in itertools.count():
            if over.is_set():
                return
            answers.append(f.raw("a/secret"))
            for method, url, body in [
                ("PUT", f.url(path=f"a/new{i % 3}", raw=1), b"mine"),
                ("GET", f.url("/list", path="a"), None),
                ("GET", f.url("/list", path="", depth=3), None),
                ("POST", f.url("/copy"), {"source": "a", "destination": f"c{i % 3}"}),
                ("POST", f.url("/mkdir"), {"path": "a/sub"}),
                ("DELETE", f.url(path=f"a/new{i % 3}"), None),
                ("DELETE", f.url(path="a/sub", recursive="true"), None),
                ("POST", f.url("/move"), {"source": "a/secret", "destination": "m"}),
                ("POST", f.url("/move"), {"source": "m", "destination": "a/secret"}),
            ]:
                answers.append(f.ask(method, url, body))

    answers = []
    threads = [threading.Thread(target=fn) for fn in (swap, attack, attack)]
    for t in threads:
        t.start()
    try:
        poll("attacks", lambda: len(answers) > 1500)
    finally:
        over.set()
        for t in threads:
            t.join()
        os.close(here)
    assert not any(b"CANARY" in body for _, _, body in answers)
    assert not any(status >= 500 for status, _, _ in answers), {s for s, _, _ in answers}
    assert {200, 403} <= {status for status, _, _ in answers}, "the race was never on"


# ---- versions and conditions ----


def test_a_tag_follows_the_content(f, local):
    tags = set()
    for data in (b"", b"x" * 10, b"y" * 10, os.urandom(3 * MIB)):
        _, headers, _ = f.put("file", data)
        tag = headers["ETag"]
        assert tag == f.etag("file") == f.raw("file")[1]["ETag"]
        assert tag not in tags and tag.startswith('"') and not tag.startswith('"meta-')
        tags.add(tag)
    f.put("file", b"x" * 10)
    assert f.etag("file") in tags, "the same bytes have the same tag"
    assert f.ask("GET", f.url(path="file"))[1]["ETag"] == f.etag("file")
    # another writer, the same size, the old time
    before, st = f.etag("file"), os.stat(local / "file")
    (local / "file").write_bytes(b"z" * 10)
    os.utime(local / "file", ns=(st.st_atime_ns, st.st_mtime_ns))
    assert f.etag("file") != before


def test_a_large_file_has_a_labelled_tag(f, local):
    _, headers, _ = f.put("large", b"l" * (16 * MIB + 1))
    assert headers["ETag"] == f.etag("large") and headers["ETag"].startswith('"meta-')
    st = os.stat(local / "large")
    poll("the clock of the file system to go on", lambda: _touch_differs(local))
    with open(local / "large", "r+b") as out:
        out.write(b"L")
    os.utime(local / "large", ns=(st.st_atime_ns, st.st_mtime_ns))
    assert f.etag("large") != headers["ETag"]
    _, headers, _ = f.put("large", b"l" * (16 * MIB))
    assert headers["ETag"] == f.etag("large") and "meta" not in headers["ETag"]


def _touch_differs(where, seen={}):
    probe = where / "probe"
    probe.write_bytes(b"")
    now = os.stat(probe).st_ctime_ns
    return now != seen.setdefault(str(where), now)


CONDITIONS = [
    # header, value ("T" stands for the present tag), on what is there (ok?), on nothing (ok?)
    ("If-Match", '"T"', True, False),
    ("If-Match", '"wrong"', False, False),
    ("If-Match", 'W/"T"', False, False),
    ("If-Match", '"wrong", "T"', True, False),
    ("If-Match", '"a,b" ,, "T"', True, False),
    ("If-Match", "*", True, False),
    ("If-None-Match", "*", False, True),
    ("If-None-Match", '"T"', False, True),
    ("If-None-Match", 'W/"T"', False, True),
    ("If-None-Match", '"wrong"', True, True),
]


@pytest.mark.parametrize("name, value, there, absent", CONDITIONS)
def test_conditions_of_changes_and_reads(f, name, value, there, absent):
    def condition():
        return {name: value.replace("T", tag.strip('"'))}

    def code(status):
        return 412 if not status else 200

    tag = f.put("old", b"old")[1]["ETag"]
    assert f.put("old", b"new", condition())[0] == code(there)
    assert f.raw("old")[2] == (b"new" if there else b"old")
    assert f.put("sub/new", b"new", condition())[0] == code(absent)
    assert f.names() == (["old", "sub"] if absent else ["old"]), "a refusal makes no parents"
    tag = f.put("old", b"old")[1]["ETag"]
    for method in ("GET", "HEAD"):
        status, headers, body = f.raw("old", condition(), method)
        if there:
            assert status == 200
        elif name == "If-Match":
            assert status == 412
        else:
            assert (status, headers["ETag"], body) == (304, tag, b"")
    assert f.put("old", b"+", condition(), append=1)[0] == code(there)
    tag = f.put("old", b"old")[1]["ETag"]
    assert f.ask("DELETE", f.url(path="old"), None, condition())[0] == code(there)
    tag = f.put("old", b"old")[1]["ETag"]
    assert f.ask("POST", f.url("/move"), {"source": "old", "destination": "to"}, condition())[0] == code(there)


@pytest.mark.parametrize("value", ["abc", '"open', '"a" "b"', "W/a", '"a", b', "", "*, *", ","])
def test_a_malformed_condition_is_told(f, value):
    f.put("old", b"old")
    for name in ("If-Match", "If-None-Match"):
        assert f.code("PUT", f.url(path="old"), {"content": "x"}, {name: value}) == (400, 1002)
        assert f.code("GET", f.url(path="old"), None, {name: value}) == (400, 1002)
    assert f.raw("old")[2] == b"old"


@pytest.mark.parametrize("is_create", [False, True])
def test_of_twenty_writers_one_wins(f, is_create):
    for turn in range(5):
        path = f"race{turn}"
        headers = {"If-None-Match": "*"} if is_create else {"If-Match": f.put(path, b"start")[1]["ETag"]}
        barrier, answers = threading.Barrier(20), []

        def write(i):
            barrier.wait()
            answers.append((f.put(path, b"%02d" % i * 5000, headers)[0], b"%02d" % i * 5000))

        threads = [threading.Thread(target=write, args=(i,)) for i in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sorted(s for s, _ in answers) == [200] + [412] * 19
        assert f.raw(path)[2] == next(data for s, data in answers if s == 200)


def test_a_condition_is_refused_before_the_body(f):
    f.put("old", b"old")
    for headers, want in [(b'If-Match: "wrong"\r\n', b"412"), (b"If-None-Match: *\r\n", b"412"), (b"", b"100")]:
        with socket.create_connection(("127.0.0.1", f.daemon.http_port), DEADLINE) as s:
            s.sendall(b"PUT " + f.url(path="old").encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + headers +
                      b"Content-Type: application/octet-stream\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            first = s.recv(65536)
            assert first.startswith(b"HTTP/1.1 " + want), first
            if want == b"100":
                assert f.raw("old")[2] == b"old"
                s.sendall(b"new")
                assert s.recv(65536).startswith(b"HTTP/1.1 200")
    assert f.raw("old")[2] == b"new"


# ---- ranges ----

RANGES = ["0-0", "0-", "1-", "-1", "-0", "-5000", "999-", "1000-", "5-2", "0-0,2-3", "abc", "-", "",
          "18446744073709551615-", "0-18446744073709551616", "-99999999999999999999999", "0--1", " 3-4 ", "3-4x"]


def expected_range(size, text):
    """None: the whole; else (first, last), or False for 416"""
    text = text.strip(" ")
    first, dash, last = text.partition("-")
    if not dash or not (first or last) or not all(not x or (x.isascii() and x.isdigit()) for x in (first, last)):
        return None
    if not first:
        n = min(int(last), size)
        return (size - n, size - 1) if n else False
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        return False
    return int(first), min(int(last) if last else size, size - 1)


@pytest.mark.parametrize("size", [0, 1, 1000, 200_000])
def test_ranges(f, size):
    data = os.urandom(size)
    tag = f.put("file", data)[1]["ETag"]
    for text in RANGES:
        want = expected_range(size, text)
        status, headers, body = f.raw("file", {"Range": f"bytes={text}"})
        assert headers["Content-Length"] == str(len(body)) or status == 416
        if want is None:
            assert (status, body) == (200, data), text
        elif want is False:
            assert (status, headers["Content-Range"]) == (416, f"bytes */{size}"), text
            assert json.loads(body)["code"] == 3009
        else:
            a, b = want
            assert (status, headers["Content-Range"]) == (206, f"bytes {a}-{b}/{size}"), text
            assert body == data[a : b + 1] and headers["ETag"] == tag
    if size:
        assert f.raw("file", {"Range": "bytes=0-0", "If-Range": tag})[0] == 206
    for stale in ('"other"', "W/" + tag, "Sun, 06 Nov 1994 08:49:37 GMT"):
        assert f.raw("file", {"Range": "bytes=0-0", "If-Range": stale})[::2] == (200, data)
    assert f.raw("file", {"Range": "lines=0-0"})[::2] == (200, data)
    status, headers, _ = f.raw("file", {"Range": "bytes=0-0"}, "HEAD")
    assert (status, headers["Content-Length"], headers["Accept-Ranges"]) == (200, str(size), "bytes")


def test_a_range_beyond_four_gigabytes(f, local):
    size = 6 << 30
    with open(local / "huge", "wb") as out:
        out.truncate(size)
        out.seek(size - 3)
        out.write(b"end")
    status, headers, body = f.raw("huge", {"Range": "bytes=-5"})
    assert (status, body, headers["Content-Range"]) == (206, b"\0\0end", f"bytes {size - 5}-{size - 1}/{size}")
    assert f.raw("huge", {"Range": f"bytes={size - 1}-"})[2] == b"d"
    assert f.raw("huge", method="HEAD")[1]["Content-Length"] == str(size)


# ---- replacing ----


def test_readers_see_whole_versions_only(f, local):
    sizes = [1, 7, 70_000, 300_000]
    versions = {bytes([65 + i]) * n for i, n in enumerate(sizes)}
    versions_list = sorted(versions)
    f.put("file", versions_list[0])
    over, bad = threading.Event(), []

    def read_local():
        while not over.is_set():
            data = (local / "file").read_bytes()
            if data not in versions:
                bad.append(("local", len(data)))

    def read_http():
        while not over.is_set():
            status, headers, data = f.raw("file")
            if status != 200 or data not in versions:
                bad.append(("http", status, len(data)))

    readers = [threading.Thread(target=fn) for fn in (read_local, read_local, read_http)]
    for t in readers:
        t.start()
    for i in range(500):
        assert f.put("file", versions_list[i % len(versions_list)])[0] == 200
    over.set()
    for t in readers:
        t.join()
    assert bad == []
    assert list(f.staging.iterdir()) == []


def test_the_mode_is_kept_and_links_are_as_documented(f, local):
    for mode in (0o755, 0o640, 0o4755, 0o600):
        f.put("file", b"one")
        (local / "file").chmod(mode)
        f.put("file", b"two")
        assert stat.S_IMODE(os.stat(local / "file").st_mode) == mode
        f.json("PUT", f.url(path="file"), {"content": "three"})
        assert stat.S_IMODE(os.stat(local / "file").st_mode) == mode
        f.put("file", b"+", append=1)
        assert stat.S_IMODE(os.stat(local / "file").st_mode) & 0o777 == mode & 0o777
        assert f.raw("file")[2] == b"three+"
        f.ask("DELETE", f.url(path="file"))
    f.put("one", b"old")
    os.link(local / "one", local / "two")
    with open(local / "one", "rb") as opened:
        f.put("one", b"new")
        assert opened.read() == b"old" and (local / "two").read_bytes() == b"old"
    with contextlib.suppress(OSError):  # a file system without extended attributes
        os.setxattr(local / "one", "user.note", b"kept")
        f.put("one", b"newer")
        assert os.getxattr(local / "one", "user.note") == b"kept"


def test_append(f, local):
    assert f.put("log", b"one\n", append=1)[0] == 200
    ino = os.stat(local / "log").st_ino
    _, headers, _ = f.put("log", b"two\n", append=1)
    assert f.raw("log")[2] == b"one\ntwo\n" and headers["ETag"] == f.etag("log")
    assert os.stat(local / "log").st_ino == ino
    f.json("PUT", f.url(path="log", append="true"), {"content": "three\n"})
    threads = [threading.Thread(target=f.put, args=("log", b"%d" % i * 70000 + b"\n"), kwargs={"append": 1})
               for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    lines = f.raw("log")[2].split(b"\n")[3:-1]
    assert sorted(lines) == [b"%d" % i * 70000 for i in range(8)]


# ---- uploads that break off ----


def upload_part(f, path, sent, headers=b"Content-Length: 5000000\r\n"):
    s = socket.create_connection(("127.0.0.1", f.daemon.http_port), DEADLINE)
    s.sendall(b"PUT " + f.url(path=path).encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + headers +
              b"Content-Type: application/octet-stream\r\n\r\n" + sent)
    return s


def staged_fds(f):
    return [p for p in f.daemon.fds() if "/staging/" in p]


@pytest.mark.parametrize("how", ["reset", "half-close", "bad chunk"])
def test_a_broken_upload_leaves_nothing(f, how):
    f.put("file", b"old")
    chunked = how == "bad chunk"
    headers = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: 5000000\r\n"
    body = b"%x\r\n" % 2_000_000 + b"x" * 2_000_000 + b"\r\n" if chunked else b"x" * 2_000_000
    for path in ("file", "new/file"):
        s = upload_part(f, path, body, headers)
        poll("the upload to be staged", lambda: staged_fds(f))
        if how == "reset":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        elif how == "half-close":
            s.shutdown(socket.SHUT_WR)
            assert s.recv(10) == b""
        else:
            s.sendall(b"zz\r\n")
            assert s.recv(65536).startswith(b"HTTP/1.1 400")
        s.close()
        poll("the staged file to be given up", lambda: not staged_fds(f))
    assert f.raw("file")[2] == b"old" and f.names() == ["file"]
    assert list(f.staging.iterdir()) == []


def test_a_kill_in_the_middle_of_uploads_leaves_the_old_file(fresh):
    d = fresh()
    ws = d.create_workspace()
    f = Files(d, ws)
    f.put("file", b"old")
    staging = d.host_dir(ws).parent / "staging"
    (staging / "new-left").write_bytes(b"of a start before")
    socks = [upload_part(f, "file", b"x" * 2_000_000) for _ in range(3)]
    poll("uploads", lambda: len(staged_fds(f)) == 3)
    d.restart()
    for s in socks:
        s.close()
    assert f.raw("file")[2] == b"old" and f.names() == ["file"] and list(staging.iterdir()) == []


def test_a_body_comes_as_it_likes(f):
    """Byte by byte, in chunks, at once with the next request, or with the end of the stream behind it."""
    data = os.urandom(700_000)
    head = b"PUT " + f.url(path="file").encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + \
        b"Content-Type: application/octet-stream\r\n"
    chunked = b"".join(b"%x\r\n" % len(c) + c + b"\r\n" for c in (data[:1], data[1:70000], data[70000:])) + b"0\r\n\r\n"
    get = b"GET " + f.url(path="file", raw=1).encode() + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for message in (head + b"Content-Length: %d\r\n\r\n" % len(data) + data,
                    head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked):
        with socket.create_connection(("127.0.0.1", f.daemon.http_port), DEADLINE) as s:
            s.sendall(message + get)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while piece := s.recv(1 << 20):
                got += piece
        assert got.count(b"HTTP/1.1 200 OK") == 2 and got.endswith(b"\r\n\r\n" + data)
        f.ask("DELETE", f.url(path="file"))
    assert f.ask("PUT", f.url(path="none"), None, {**OCTETS, "Content-Length": "0"})[0] == 200
    with socket.create_connection(("127.0.0.1", f.daemon.http_port), DEADLINE) as s:
        s.sendall(head.replace(b"path=file", b"path=nobody") + b"\r\n")
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
    assert f.raw("none")[2] == f.raw("nobody")[2] == b""


# ---- downloads ----


def test_many_requests_share_a_connection_with_large_files(f):
    data = {n: os.urandom(n) for n in (10, 65535, 65536, 3_000_000)}
    for n, content in data.items():
        f.put(f"f{n}", content)
    conn = http.client.HTTPConnection("127.0.0.1", f.daemon.http_port, timeout=DEADLINE)
    with contextlib.closing(conn):
        for n in list(data) * 3:
            conn.request("GET", f.url(path=f"f{n}", raw=1))
            assert conn.getresponse().read() == data[n]
            conn.request("HEAD", f.url(path=f"f{n}", raw=1))
            assert conn.getresponse().read() == b""
    order = [3_000_000, 10, 65536, 65535, 3_000_000]
    with socket.create_connection(("127.0.0.1", f.daemon.http_port), DEADLINE) as s:
        s.sendall(b"".join(b"GET " + f.url(path=f"f{n}", raw=1).encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
                           for n in order))
        with s.makefile("rb") as stream:
            for n in order:
                assert stream.readline().startswith(b"HTTP/1.1 200 ")
                while (line := stream.readline()) != b"\r\n":
                    assert line.endswith(b"\r\n")
                assert stream.read(n) == data[n]


@pytest.mark.parametrize("change", ["truncate", "remove"])
def test_a_file_that_changes_while_it_is_sent_never_spoils_the_next_answer(f, local, change):
    size = 64 * MIB
    with open(local / "file", "wb") as out:
        out.truncate(size)
    get = b"GET " + f.url(path="file", raw=1).encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.settimeout(DEADLINE)
        s.connect(("127.0.0.1", f.daemon.http_port))
        s.sendall(get + b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = s.recv(65536)
        head, _, body = got.partition(b"\r\n\r\n")
        assert b"Content-Length: %d" % size in head
        if change == "truncate":
            os.truncate(local / "file", MIB)
        else:
            (local / "file").unlink()
        n, rest = len(body), b""
        assert body.count(0) == n
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(1 << 20):
                zeros = piece if n + len(piece) <= size else piece[: size - n]
                assert zeros.count(0) == len(zeros), "something else in the place of the file's bytes"
                rest += piece[len(zeros) :]
                n += len(zeros)
                if b'"healthy"' in rest:
                    break
    if change == "truncate":
        assert n < size and rest == b""
    else:
        assert n == size and rest.startswith(b"HTTP/1.1 200") and b'"healthy"' in rest


def test_large_files_cost_no_memory(f, local):
    if f.daemon.is_sanitized:
        pytest.skip("the memory of a sanitizer build says nothing")
    size = 1 << 30
    with open(local / "down", "wb") as out:
        out.truncate(size)
    f.raw("down", {"Range": "bytes=0-1000000"})
    before = f.daemon.rss()
    conn = http.client.HTTPConnection("127.0.0.1", f.daemon.http_port, timeout=60)
    with contextlib.closing(conn):
        conn.request("GET", f.url(path="down", raw=1))
        reply, n = conn.getresponse(), 0
        while piece := reply.read(4 * MIB):
            n += len(piece)
        assert n == size
        zeros = bytes(4 * MIB)
        conn.request("PUT", f.url(path="up"), (zeros for _ in range(64)), {**OCTETS, "Content-Length": str(256 * MIB)})
        assert conn.getresponse().read() == b'{"success":true,"path":"up"}\n'
    assert f.info("up")["size"] == 256 * MIB
    assert f.daemon.rss() < before + 8 * MIB


# ---- listings ----


def test_a_listing_in_pages_is_the_whole(f, local):
    names = sorted([f"n{i:05}" for i in range(2500)] + ["Z", "a", "zz", "é"], key=str.encode)
    for name in names:
        (local / name).touch()
    assert f.names() == names
    for limit in (1000, 1251, 2503, 2504, 2505):
        got, query = [], {}
        while True:
            page = f.list("", limit=limit, **query)
            got += [e["name"] for e in page["files"]]
            assert len(page["files"]) <= limit
            if "next_cursor" not in page:
                break
            query = {"cursor": page["next_cursor"]}
        assert got == names


def test_a_deep_listing_in_pages(f, local):
    for path in ["b/c/d", "b/c.txt", "a", "b/c/e.txt", "b.txt", "x/y/z/w.txt"]:
        f.put(path, b"")
    whole = ["a", "b", "b/c", "b/c/d", "b/c/e.txt", "b/c.txt", "b.txt", "x", "x/y", "x/y/z", "x/y/z/w.txt"]
    assert [e["path"] for e in f.list("/", depth=9)["files"]] == ["/" + p for p in whole]
    assert [e["path"] for e in f.list("b", depth=2)["files"]] == ["b/c", "b/c/d", "b/c/e.txt", "b/c.txt"]
    assert f.names("", depth=2) == ["a", "b", "c", "c.txt", "b.txt", "x", "y"]
    for limit in range(1, 5):
        got, query = [], {}
        while True:
            page = f.list("", depth=9, limit=limit, **query)
            got += [e["path"][1:] for e in page["files"]]
            if "next_cursor" not in page:
                break
            query = {"cursor": page["next_cursor"]}
            if page["files"][-1]["name"] == "d":
                (local / "b/c/d").unlink()  # what the cursor names may go
        assert got == whole
        f.put("b/c/d", b"")
    assert [e["path"] for e in f.list("", depth=9, glob="*.txt")["files"]] == \
        ["/b/c/e.txt", "/b/c.txt", "/b.txt", "/x/y/z/w.txt"]
    assert [e["path"] for e in f.list("", depth=9, glob="b/**")["files"]] == ["/b/c", "/b/c/d", "/b/c/e.txt", "/b/c.txt"]


def test_a_listing_bears_bad_entries_and_names_that_come_and_go(f, local):
    (local / "dangling").symlink_to("nowhere")
    (local / "loop").symlink_to("loop")
    (local / "out").symlink_to("/etc")
    (local / "shut").mkdir(mode=0)
    os.mkfifo(local / "fifo")
    stay = {"dangling", "loop", "out", "shut", "fifo"}
    over = threading.Event()

    def churn():
        for i in itertools.count():
            if over.is_set():
                return
            p = local / f"t{i % 50}"
            p.mkdir() if i % 2 else p.touch()
            p.rmdir() if i % 2 else p.unlink()

    t = threading.Thread(target=churn)
    t.start()
    try:
        for _ in range(100):
            assert stay <= set(f.names("", depth=3))
    finally:
        over.set()
        t.join()
    links = {e["name"]: e for e in f.list("")["files"]}
    assert links["out"] | {"target": "/etc", "broken": True} == links["out"]


def test_info_of_many(f):
    f.put("a/b", b"123")
    files = f.post("/info", paths=["a/b", "none", "../x", "a"])["files"]
    assert [e["path"] for e in files] == ["a/b", "none", "../x", "a"]
    assert files[0]["info"] == f.info("a/b") and files[3]["info"]["is_dir"]
    assert [(e["info"], e["code"]) for e in files[1:3]] == [(None, 3001), (None, 7003)]
    assert files[1]["message"] == "File not found: none"


# ---- moving, copying, removing ----


def test_a_move_replaces_and_keeps_one_name(f, local):
    f.put("a", b"A")
    f.put("b", b"B")
    f.post("/move", source="a", destination="b")
    assert f.names() == ["b"] and f.raw("b")[2] == b"A"
    f.post("/move", source="b", destination="b")
    os.link(local / "b", local / "c")
    f.post("/move", source="b", destination="c")  # rename(2) would leave both
    assert f.names() == ["c"]
    f.put("d/x", b"")
    f.post("/move", source="d", destination="new/deep/d")
    assert f.names("new/deep/d") == ["x"]
    (local / "link").symlink_to("c")
    f.post("/move", source="link", destination="new/link")
    assert os.readlink(local / "new/link") == "c"
    tag = f.etag("c")
    assert f.code("POST", f.url("/move"), {"source": "c", "destination": "e"}, {"If-Match": '"no"'}) == (412, 3008)
    assert f.ask("POST", f.url("/move"), {"source": "c", "destination": "e"}, {"If-Match": tag})[0] == 200


def test_a_copy_is_like_its_source(f, local):
    f.put("t/exec", b"#!/bin/sh\n")
    f.put("t/d/e/f", os.urandom(100_000))
    (local / "t/exec").chmod(0o755)
    (local / "t/d/e/f").chmod(0o640)
    (local / "t/link").symlink_to("d/e/f")
    (local / "t/out").symlink_to("/etc/passwd")
    os.mkfifo(local / "t/fifo")
    (local / "t/empty").mkdir(mode=0o700)
    (local / "t/ro").mkdir()
    (local / "t/ro/x").touch()
    (local / "t/ro").chmod(0o555)
    with open(local / "t/sparse", "wb") as out:
        out.truncate(1 << 40)
    f.post("/copy", source="t", destination="into/u")

    def tree(top):
        out = {}
        for base, dirs, files in os.walk(top):
            for name in dirs + files:
                p = pathlib.Path(base) / name
                st = os.lstat(p)
                what = os.readlink(p) if p.is_symlink() else \
                    hashlib.md5(p.read_bytes()).hexdigest() if stat.S_ISREG(st.st_mode) and st.st_size < MIB else None
                out[str(p.relative_to(top))] = (st.st_mode, what)
        return out

    assert tree(local / "t") == tree(local / "into/u")
    assert os.stat(local / "into/u/sparse").st_blocks < 100
    (local / "self").symlink_to("t/d")
    assert f.code("POST", f.url("/copy"), {"source": "t", "destination": "self/again"}) == (400, 3004)
    for top in ("t/ro", "into/u/ro"):
        (local / top).chmod(0o755)
    f.put("into/u/exec", b"other")
    f.post("/copy", source="t", destination="into/u")  # fills what is there, replaces files
    assert tree(local / "t") == tree(local / "into/u")
    f.post("/copy", source="t/exec", destination="exec")
    assert stat.S_IMODE(os.stat(local / "exec").st_mode) == 0o755
    assert f.code("POST", f.url("/copy"), {"source": "t/exec", "destination": "exec"},
                  {"If-None-Match": "*"}) == (412, 3008)


def test_a_tree_is_removed_whole_whatever_its_modes(f, local):
    deep = local / "top"
    deep.mkdir()
    here = os.open(deep, os.O_RDONLY)
    for _ in range(300):  # deeper than a path can say is not needed, but deep
        os.mkdir("d", dir_fd=here)
        down = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = down
    os.close(here)
    (local / "top/shut").mkdir()
    (local / "top/shut/x").touch()
    (local / "top/shut").chmod(0)
    (local / "top").chmod(0o555)
    (local / "keep").touch()
    (local / "link").symlink_to("top")
    assert f.ask("DELETE", f.url(path="link", recursive="true"))[0] == 200
    assert f.ask("DELETE", f.url(path="top", recursive="true"))[0] == 200
    assert f.names() == ["keep"] and list(f.staging.iterdir()) == []
