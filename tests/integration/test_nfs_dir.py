# SPDX-License-Identifier: MIT
"""Directory listing, one test for each field report of the group NFS-DIR and its siblings."""
import os
import socket
import unicodedata

import pytest

from lib.daemon import IS_ROOT
from lib.nfs3 import CHR, DIR, FIFO, LNK, REG, SOCK, S

DOTS = [b".", b".."]


def fill(w, count, sub="d", form="{:05}"):
    """A directory with `count` empty files made on the local side; its handle and their names."""
    d = w.nfs.mkdir_(w.root, sub)
    names = [form.format(i).encode() for i in range(count)]
    with w.daemon.local():
        fd = os.open(w.dir / sub, os.O_RDONLY | os.O_DIRECTORY)
        for n in names:
            os.close(os.open(n, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
        os.close(fd)
    return d, names


@pytest.mark.parametrize("proc, limits", [
    ("READDIR", dict(count=512)), ("READDIR", dict(count=4096)), ("READDIR", dict(count=1 << 20)),
    ("READDIRPLUS", dict(dircount=512, maxcount=1024)), ("READDIRPLUS", dict(dircount=4096, maxcount=32768)),
    ("READDIRPLUS", dict(dircount=1 << 20, maxcount=1 << 20)),
])  # fmt: skip
def test_B023_every_name_once(w_any, proc, limits):
    """Whatever the page size, the list goes on after the cookie given and holds every name once."""
    d, names = fill(w_any, 2500)
    assert sorted(e.name for e in w_any.nfs.walk(d, proc, **limits)) == sorted(names + DOTS)


def test_B023_readdir_and_readdirplus_share_cookies(w_any):
    """The Linux client mixes both calls in one walk: each takes the other's cookies."""
    d, names = fill(w_any, 1000)
    n, got, cookie, verf, turn = w_any.nfs, [], 0, bytes(8), 0
    while True:
        r = n.ok("READDIR", d, cookie, verf, 700) if turn % 2 else n.ok("READDIRPLUS", d, cookie, verf, 700, 2000)
        got += [e.name for e in r.entries]
        if r.eof:
            break
        cookie, verf, turn = r.entries[-1].cookie, r.verf, turn + 1
    assert sorted(got) == sorted(names + DOTS)


def test_B023_resume_at_any_entry(w_any):
    """Each entry's cookie, not only the last of a page, leads to the entry behind it; again and again."""
    d, _ = fill(w_any, 60)
    whole = w_any.nfs.walk(d)
    calls = [("READDIR", d, e.cookie, bytes(8), 4096) for e in whole]
    for _ in range(2):
        for i, r in enumerate(w_any.nfs.many(calls)):
            assert [e.name for e in r.entries] == [e.name for e in whole[i + 1 :]] and r.eof


def test_B024_hard_links_and_page_sizes(w_any):
    """Cookies belong to names, not to files: with 50 names of one inode no page size loses or repeats one."""
    d, names = fill(w_any, 200, form="{:03}")
    with w_any.daemon.local():
        for i in range(50):
            link = f"{i * 4:03}-link"
            os.link(w_any.dir / "d/000", w_any.dir / "d" / link)
            names.append(link.encode())
    want = sorted(names + DOTS)
    for size in range(300, 4096, 17):
        got = w_any.nfs.walk(d, count=size)
        assert sorted(e.name for e in got) == want, f"count={size}"
        assert len({e.cookie for e in got}) == len(got)
    for size in range(400, 4096, 101):
        got = w_any.nfs.walk(d, "READDIRPLUS", dircount=size, maxcount=size)
        assert sorted(e.name for e in got) == want, f"maxcount={size}"
    ids = {e.name: e.fileid for e in got}
    assert ids[b"000"] == ids[b"000-link"] == ids[b"196-link"] != ids[b"001"]


SIZES = (0, 1, 24, 64, 103, 104, 128, 200, 512, 4096, 65536, 0xFFFFFFFF)


def info_bytes(e):
    return 8 + 4 + len(e.name) + -len(e.name) % 4 + 8


@pytest.mark.parametrize("name", ["n" * 255, "short"], ids=["255", "short"])
def test_B027_limits_of_a_reply(w, name):
    """A reply is never larger than asked for; a page that is not the end is never empty but TOOSMALL."""
    n, d = w.nfs, w.nfs.mkdir_(w.root, "d")
    for i in range(40):
        n.mkfile(d, name[:-2] + f"{i:02}")
    cookies = [0] + [e.cookie for e in n.walk(d)][:3]
    for cookie in cookies:
        for count in SIZES:
            r = n.readdir(d, cookie, count=count)
            assert r.status == S.TOOSMALL or (r.status == S.OK and r.size - 4 <= count and (r.entries or r.eof)), count
            assert count < 512 or r.status == S.OK
            assert count >= 104 or r.status == S.TOOSMALL
            for dircount in SIZES:
                r = n.readdirplus(d, cookie, dircount=dircount, maxcount=count)
                what = f"cookie={cookie} dircount={dircount} maxcount={count}: {r.status!r} {r.size}"
                if r.status == S.OK:
                    assert r.size - 4 <= count and (r.entries or r.eof), what
                    first = info_bytes(r.entries[0]) if r.entries else 0
                    assert sum(map(info_bytes, r.entries)) <= max(dircount, first), what
                else:
                    assert r.status == S.TOOSMALL and min(count, dircount) <= 512, what
    assert n.readdirplus(d, dircount=0xFFFFFFFF, maxcount=0xFFFFFFFF).size <= (1 << 20) + 4096


def test_B027_empty_directory_and_end(w_any):
    """An empty directory lists its two dots; past the last entry there is an empty page with eof."""
    n, d = w_any.nfs, w_any.nfs.mkdir_(w_any.root, "d")
    for proc in ("READDIR", "READDIRPLUS"):
        r = n.ok(proc, d)
        assert sorted(e.name for e in r.entries) == DOTS and r.eof
        again = n.ok(proc, d, r.entries[-1].cookie, r.verf)
        assert again.entries == [] and again.eof


@pytest.mark.parametrize("cookie", [1, 2, 3, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("verf", [bytes(8), b"\xff" * 8], ids=["verf0", "verfF"])
def test_B027_cookies_of_nobody(w, cookie, verf):
    """A cookie that was never given out is BAD_COOKIE or some place in the list, never an error of the disk."""
    fill(w, 10)
    for d in (w.nfs.look(w.root, "d"), w.daemon.mnt("/").fh):
        for proc in ("READDIR", "READDIRPLUS"):
            assert w.nfs.call(proc, d, cookie, verf).status in (S.OK, S.BAD_COOKIE)
    w.nfs.ok("READDIR", d)


COUNT_B029 = 50000


def test_B029_very_large_directory(w_any):
    """Many thousand entries are listed once each in about as many pages as their bytes need; memory stays flat."""
    d, names = fill(w_any, COUNT_B029)
    n, before = w_any.nfs, w_any.daemon.rss()
    assert sorted(e.name for e in n.walk(d, count=32768)) == sorted(names + DOTS)
    cookie, verf, got, pages = 0, bytes(8), [], 0
    while True:
        r = n.ok("READDIRPLUS", d, cookie, verf, 65536, 65536)
        got, pages = got + [e.name for e in r.entries], pages + 1
        if r.eof:
            break
        cookie, verf = r.entries[-1].cookie, r.verf
    assert sorted(got) == sorted(names + DOTS)
    assert pages < COUNT_B029 * 220 // 65536 * 2
    assert w_any.daemon.is_sanitized or w_any.daemon.rss() - before < 64 << 20


def test_B029_deleted_while_listed(w_any):
    """rm -r of a large directory: each page is removed before the next is asked for, and all goes."""
    d, names = fill(w_any, 5000)
    n, cookie, verf, seen = w_any.nfs, 0, bytes(8), []
    while True:
        r = n.ok("READDIRPLUS", d, cookie, verf, 4096, 16384)
        page = [e.name for e in r.entries if e.name not in DOTS]
        assert {x.status for x in n.many([("REMOVE", d, name) for name in page])} <= {S.OK}
        seen += page
        if r.eof:
            break
        cookie, verf = r.entries[-1].cookie, r.verf
    assert sorted(seen) == sorted(names) and n.names(d) == []
    n.ok("RMDIR", w_any.root, "d")


def test_B029_entries_come_and_go(w_any):
    """What is there during the whole walk is listed exactly once, whatever else is made and removed."""
    d, names = fill(w_any, 1500)
    n, cookie, verf, got, step = w_any.nfs, 0, bytes(8), [], 0
    victims = set(names[::3])
    while True:
        r = n.ok("READDIR", d, cookie, verf, 1024)
        got += [e.name for e in r.entries]
        if r.eof:
            break
        cookie, verf, step = r.entries[-1].cookie, r.verf, step + 1
        doomed = [victims.pop() for _ in range(min(10, len(victims)))]
        n.many([("REMOVE", d, x) for x in doomed] + [("CREATE", d, f"new{step}-{i}") for i in range(10)])
    stayed = set(names) - set(names[::3])
    assert sorted(x for x in got if x in stayed) == sorted(stayed)
    assert len(got) == len(set(got))


ODD_NAMES = [
    b"\xff", b"\x80\x81", b"\xc3\x28", "emoji \U0001f600".encode(), "\u65e5\u672c\u8a9e".encode(),
    unicodedata.normalize("NFC", "\u00e9").encode(), unicodedata.normalize("NFD", "\u00e9").encode(),
    b"trailing ", b" leading", b"new\nline", b"back\\slash", b"*", b"?", b"\x01\x1b[31m", b"\x7f", b"-rf", b"~",
    b"a:b", b"CON", b"...", b".hidden", b"%2e%2e", b'"', b"'", b"A", b"a", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    bytes(range(1, 47)) + bytes(range(48, 256)), b"\xff" * 255,
]  # fmt: skip


def test_B030_names_are_bytes(w_any):
    """Every byte but "/" and NUL may be in a name: kept, listed, found, renamed and removed as it is."""
    n, w = w_any.nfs, w_any
    for i, name in enumerate(ODD_NAMES):
        n.mkfile(w.root, name, str(i).encode())
    want = sorted(ODD_NAMES)
    assert n.names(w.root) == want and n.names(w.root, proc="READDIRPLUS") == want
    with w.daemon.local():
        assert sorted(os.listdir(os.fsencode(w.dir))) == want
    for i, name in enumerate(ODD_NAMES):
        assert n.data(n.look(w.root, name)) == str(i).encode()
        n.ok("RENAME", w.root, name, w.root, "t")
        n.ok("RENAME", w.root, "t", w.root, name)
        d = n.ok("SYMLINK", w.root, "l", b"to " + name).fh
        assert n.ok("READLINK", d).target == b"to " + name
        n.ok("REMOVE", w.root, "l")
        n.ok("REMOVE", w.root, name)
        n.mkdir_(w.root, name)
        assert w.daemon.mnt(b"/%s/%s" % (w.id.encode(), name)).status == 0
        n.ok("RMDIR", w.root, name)
    assert n.names(w.root) == []


def test_B030_every_single_byte(w):
    """255 names of one byte each, but for "/" and ".", and they are 253 different files."""
    n, bytes_ok = w.nfs, [bytes([b]) for b in range(1, 256) if b not in b"/."]
    res = n.many([("CREATE", w.root, b, None, True) for b in bytes_ok])
    assert {r.status for r in res} == {S.OK} and len({r.fh for r in res}) == len(bytes_ok)
    assert n.names(w.root) == sorted(bytes_ok)


def test_B024_readdirplus_attributes_and_handles(w_any):
    """READDIRPLUS says of every kind of entry what LOOKUP and GETATTR say, and one bad entry spoils nothing."""
    n, w = w_any.nfs, w_any
    n.mkfile(w.root, "file", b"12345")
    n.mkdir_(w.root, "dir")
    n.mkdir_(w.root, "closed", mode=0)
    n.mkfile(w.root, "secret", b"1", mode=0)
    n.ok("MKNOD", w.root, "fifo", FIFO, mode=0o600)
    n.ok("MKNOD", w.root, "sock", SOCK, mode=0o600)
    for name, to in [("dangling", "nowhere"), ("loop", "loop"), ("out", "/etc/passwd"), ("up", "../../..")]:
        n.ok("SYMLINK", w.root, name, to)
    with w.daemon.local(), socket.socket(socket.AF_UNIX) as s:
        os.mkfifo(w.dir / "local fifo")
        fd = os.open(w.dir, os.O_RDONLY)
        s.bind(f"/proc/self/fd/{fd}/local sock")
        os.close(fd)
    kinds = dict(file=REG, dir=DIR, closed=DIR, secret=REG, fifo=FIFO, sock=SOCK)
    kinds.update({"dangling": LNK, "loop": LNK, "out": LNK, "up": LNK})
    kinds.update({"local fifo": FIFO, "local sock": SOCK, ".": DIR, "..": DIR})
    if IS_ROOT:
        try:
            os.mknod(w.dir / "device", 0o20666, os.makedev(1, 3))
            kinds["device"] = CHR
        except PermissionError:
            pass
    got = {e.name.decode(): e for e in n.walk(w.root, "READDIRPLUS")}
    assert got.keys() == kinds.keys()
    for name, e in got.items():
        r = n.ok("LOOKUP", w.root, name)
        assert r.attr.type == kinds[name] and r.attr.fileid == e.fileid, name
        if e.attr is not None:
            e.attr.atime = r.attr.atime
            assert e.attr == r.attr, name
        assert e.fh in (None, r.fh), name
        assert n.attr(r.fh).fileid == e.fileid
        if name in ("file", "dir"):
            assert e.attr is not None and e.fh is not None
    if "device" in kinds:
        f = n.look(w.root, "device")
        assert n.read(f, 0, 10).status != S.OK and n.write(f, 0, b"x").status != S.OK
        os.unlink(w.dir / "device")
    for name in ("local fifo", "local sock", "fifo", "sock"):
        assert n.read(n.look(w.root, name), 0, 10).status == S.INVAL
        assert n.write(n.look(w.root, name), 0, b"x").status == S.INVAL
