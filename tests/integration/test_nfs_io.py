# SPDX-License-Identifier: MIT
"""Files and attributes, one test for each field report of the group NFS-IO and its siblings."""
import errno
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import threading

import pytest

from lib.daemon import IS_ROOT, IS_SANITIZED, build_tool, can_mount, poll, temp_root
from lib.nfs3 import DATA_SYNC, DIR, FIFO, FILE_SYNC, LNK, OWNER, REG, S, UNSTABLE
from lib.rpc import RpcError, auth_sys

MIB = 1 << 20
OTHER = auth_sys(4242, 4242)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 100000])
def test_B031_read_at_and_past_the_end(w, size):
    """READ gives count bytes and no more; eof is set exactly when the end is reached; past it there is nothing."""
    n, data = w.nfs, bytes(i * 7 % 251 for i in range(size))
    f = n.mkfile(w.root, "f", data)
    for offset in {0, 1, max(size - 1, 0), size, size + 1, size // 2, 2**31, 2**32, 2**40, 2**63 - 1}:
        for count in (0, 1, 5, 4095, 4096, 4097, MIB):
            r = n.ok("READ", f, offset, count)
            want = data[offset : offset + count]
            assert r.data == want, (offset, count)
            if count or offset >= size:
                assert r.eof == (offset + len(want) >= size), (offset, count)
            assert r.attr is None or r.attr.size == size
    for offset in (2**63, 2**64 - 1, 2**64 - 4096):
        r = n.read(f, offset, 4096)
        assert r.status in (S.OK, S.INVAL) and (r.status != S.OK or (r.data == b"" and r.eof))


@pytest.mark.parametrize("kind", ["dir", "link", "fifo"])
def test_B031_io_on_what_is_no_file(w, kind):
    """READ and WRITE of anything but a regular file is INVAL, and waits for nobody."""
    n = w.nfs
    if kind == "dir":
        n.mkdir_(w.root, "x")
    elif kind == "link":
        n.mkfile(w.root, "target", b"data")
        n.ok("SYMLINK", w.root, "x", "target")
    else:
        n.ok("MKNOD", w.root, "x", FIFO, mode=0o666)
    f = n.look(w.root, "x")
    assert n.read(f, 0, 100).status == S.INVAL
    assert n.write(f, 0, b"x").status == S.INVAL
    assert n.commit(f).status in (S.INVAL, S.ISDIR)
    assert n.setattr(f, size=0).status in (S.INVAL, S.ISDIR)
    if kind == "link":
        assert n.data(n.look(w.root, "target")) == b"data"


def test_B033_read_and_write_around_the_limits(w):
    """What FSINFO announces is taken; more gives a short read or write, or is no whole call; never FBIG."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f")
    info = n.ok("FSINFO", w.root)
    assert info.wtmax == info.rtmax == MIB
    assert info.wtpref <= info.wtmax and info.rtpref <= info.rtmax and info.dtpref >= 65536
    for size in (info.wtmax - 1, info.wtmax, info.wtmax + 1, info.wtmax + 4096, 2 * info.wtmax):
        c, data = w.connect(), os.urandom(size)
        n.ok("SETATTR", f, size=0)
        try:
            r = c.write(f, 0, data)
            assert r.status == S.OK and 0 < r.count <= size and (size > info.wtmax or r.count == size)
            assert n.attr(f).size == r.count
            got = n.read(f, 0, size)
            assert got.status == S.OK and got.data == data[: min(r.count, info.rtmax)]
        except (RpcError, ConnectionError, Exception) as e:  # noqa: B014
            if type(e).__name__ not in ("Closed", "RpcError") or size <= info.wtmax:
                raise
            assert n.attr(f).size == 0
    n.ok("SETATTR", f, size=3 * MIB)
    for count in (info.rtmax, info.rtmax + 1, 2 * info.rtmax, 0xFFFFFFFF):
        assert 0 < n.ok("READ", f, 0, count).count <= info.rtmax


def test_B033_count_and_length_differ(w):
    """A WRITE whose count is not the length of its data never writes bytes that were not sent."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f")
    for count in (0, 1, 99, 101, 0xFFFFFFFF):
        n.ok("SETATTR", f, size=0)
        try:
            r = n.call("WRITE", f, 0, b"d" * 100, FILE_SYNC, count=count)
            assert r.status == S.INVAL or (r.status == S.OK and r.count <= min(count, 100))
        except RpcError as e:
            assert e.kind == "GARBAGE_ARGS"
        assert n.attr(f).size <= 100 and set(n.data(f)) <= {ord("d")}


def test_B033_write_of_nothing(w):
    """A WRITE of 0 bytes succeeds and changes nothing."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f", b"abc")
    for offset in (0, 3, 100, 2**40):
        r = n.ok("WRITE", f, offset, b"")
        assert r.count == 0 and n.attr(f).size == 3


def test_B034_large_offsets(w_any):
    """Offsets and sizes are 64 bits; what is over the maximum is FBIG (or INVAL), never negative or wrapped."""
    n, f = w_any.nfs, w_any.nfs.mkfile(w_any.root, "f")
    limit = n.ok("FSINFO", w_any.root).maxfilesize
    assert limit > 2**40
    for offset in (2**31 - 1, 2**31, 2**32 - 1, 2**32, 5 << 30):
        n.ok("SETATTR", f, size=0)
        assert n.ok("WRITE", f, offset, b"here").count == 4
        assert n.attr(f).size == offset + 4
        assert n.ok("READ", f, offset - 2, 10).data == b"\0\0here"
        with w_any.daemon.local(), open(w_any.dir / "f", "rb") as local:
            local.seek(offset)
            assert local.read() == b"here"
    assert n.attr(f).used < 64 * MIB
    n.ok("SETATTR", f, size=6 << 30)
    assert n.attr(f).size == 6 << 30 and n.ok("READ", f, (6 << 30) - 3, 10).data == bytes(3)
    for size in (2**63 - 1, 2**63, 2**64 - 1):
        r = n.setattr(f, size=size)
        assert r.status in (S.FBIG, S.INVAL) or (r.status == S.OK and size <= limit), size
        assert n.attr(f).size <= limit
        n.ok("SETATTR", f, size=10)
        for offset in (size, size - 100):
            r = n.write(f, offset, b"x" * 200)
            assert r.status in (S.FBIG, S.INVAL, S.NOSPC) and n.attr(f).size == 10, offset
        for data, how in ((b"", UNSTABLE), (b"", FILE_SYNC)):
            assert n.write(f, size, data, how).status in (S.OK, S.FBIG, S.INVAL)
        assert n.commit(f, size, 0xFFFFFFFF).status in (S.OK, S.INVAL)
    assert n.attr(f).size == 10


@pytest.mark.parametrize("how", [UNSTABLE, DATA_SYNC, FILE_SYNC])
def test_B035_committed_is_never_weaker(w, how):
    """`committed` is at least what was asked for, and the verifier is the same in every reply of one life."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f")
    verfs = set()
    for i in range(20):
        r = n.ok("WRITE", f, i * 100, b"x" * 100, how)
        assert r.committed >= how
        verfs |= {r.verf, n.ok("COMMIT", f).verf, n.ok("COMMIT", f, i * 100, 100).verf}
    assert len(verfs) == 1 and w.connect().ok("COMMIT", f).verf in verfs


@pytest.mark.parametrize("how", [DATA_SYNC, FILE_SYNC, UNSTABLE])
def test_B035_kill_and_restart(fresh_any, how):
    """After kill -9 the verifier is another one, and what was committed or written in a stable way is there."""
    w = fresh_any().workspace()
    f, data = w.nfs.mkfile(w.root, "f"), os.urandom(3 * MIB)
    for at in range(0, len(data), MIB):
        verf = w.nfs.ok("WRITE", f, at, data[at : at + MIB], how).verf
    if how == UNSTABLE:
        assert w.nfs.ok("COMMIT", f).verf == verf
    w.restart()
    again = w.nfs.ok("COMMIT", f).verf
    assert again != verf and w.nfs.ok("WRITE", f, 0, data[:10]).verf == again
    assert b"".join(w.nfs.ok("READ", f, at, MIB).data for at in range(0, len(data), MIB)) == data
    w.restart(kill=False)
    assert w.nfs.ok("COMMIT", f).verf not in (verf, again)
    w.close()


def test_B035_failed_flush_is_told(fresh, reachable):
    """When the disk cannot flush, FILE_SYNC and COMMIT answer IO and the verifier changes: no silent loss."""
    if IS_SANITIZED:
        pytest.skip("a sanitizer's own library must come first")
    lib, flag = build_tool("failsync", reachable, "-shared", "-fPIC"), reachable / "flag"
    flag.write_bytes(b"\0")
    with open(flag, "r+b", buffering=0) as failing:
        d = fresh(launcher=["env", f"LD_PRELOAD={lib}", f"FAILSYNC_FLAG={flag}"])
        w = d.workspace()
        f = w.nfs.mkfile(w.root, "f")
        verf = w.nfs.ok("WRITE", f, 0, b"a" * 100, UNSTABLE).verf
        os.pwrite(failing.fileno(), b"\1", 0)
        assert w.nfs.commit(f).status == S.IO
        assert w.nfs.write(f, 0, b"b" * 100, FILE_SYNC).status == S.IO
        assert w.nfs.write(f, 0, b"b" * 100, DATA_SYNC).status == S.IO
        os.pwrite(failing.fileno(), b"\0", 0)
        assert w.nfs.ok("COMMIT", f).verf != verf  # so that every client sends its unstable data again
        w.nfs.ok("WRITE", f, 0, b"c" * 100, FILE_SYNC)
        assert w.nfs.data(f) == b"c" * 100
        w.close()


VERIFIERS = [b"verifier", bytes(8), b"\xff" * 8, b"\0\0\0\0\xff\xff\xff\xff", b"\x80\0\0\0\x80\0\0\1"]


@pytest.mark.parametrize("verf", VERIFIERS)
def test_B038_exclusive_create(w_any, verf):
    """The same verifier again is the same file; another verifier is EXIST."""
    n, w = w_any.nfs, w_any
    made = n.create(w.root, "f", verf=verf)
    assert made.status == S.OK
    f = made.fh or n.look(w.root, "f")
    for m in (n, w.connect()):
        again = m.create(w.root, "f", verf=verf)
        assert again.status == S.OK and again.fh in (None, f)
    other = n.create(w.root, "f", verf=b"another.")
    assert other.status == S.EXIST and other.dir_wcc.after is not None
    assert n.attr(f).mode & 0o077 == 0  # attributes are the client's to set: until then nobody else's business
    n.ok("SETATTR", f, mode=0o640, size=0, atime=(1000, 1), mtime="server")
    a = n.attr(f)
    assert a.mode == 0o640 and a.atime == (1000, 1) and abs(a.mtime[0] - os.stat(w.dir).st_mtime) < 60
    assert n.create(w.root, "f", verf=verf).status in (S.OK, S.EXIST)
    assert n.create(w.root, "f", guarded=True).status == S.EXIST


def test_B038_exclusive_create_after_kill(fresh_any):
    """The verifier is on stable storage: a client that sends its create again after a crash gets its file."""
    w = fresh_any().workspace()
    f = w.nfs.ok("CREATE", w.root, "f", verf=b"survives").fh
    w.restart()
    assert w.nfs.create(w.root, "f", verf=b"survives").status == S.OK
    assert w.nfs.create(w.root, "f", verf=b"another.").status == S.EXIST
    assert w.nfs.look(w.root, "f") == f
    w.close()


def test_B038_exclusive_create_over_other_things(w):
    """EXCLUSIVE on a name that exists by other means is EXIST, whatever it is and whatever its times."""
    n = w.nfs
    n.mkfile(w.root, "file", b"kept")
    n.mkdir_(w.root, "dir")
    n.ok("SYMLINK", w.root, "link", "nowhere")
    for name in ("file", "dir", "link"):
        for verf in (bytes(8), b"verifier"):
            assert n.create(w.root, name, verf=verf).status == S.EXIST
    assert n.data(n.look(w.root, "file")) == b"kept" and n.names(w.root) == [b"dir", b"file", b"link"]


def test_B038_create_modes(w_any):
    """UNCHECKED takes a file that exists, and cuts it when size is 0; GUARDED is EXIST; links are not followed."""
    n, w = w_any.nfs, w_any
    f = n.mkfile(w.root, "f", b"data", mode=0o640)
    r = n.ok("CREATE", w.root, "f", mode=0o600)
    assert r.fh in (None, f) and n.data(f) == b"data"
    n.ok("CREATE", w.root, "f", size=0)
    assert n.attr(f).size == 0
    assert n.create(w.root, "f", guarded=True).status == S.EXIST
    assert n.attr(n.ok("CREATE", w.root, "sized", size=1000, mode=0o600).fh).size == 1000
    n.ok("SYMLINK", w.root, "dangling", "made by link")
    assert n.create(w.root, "dangling").status in (S.EXIST, S.INVAL)
    n.mkdir_(w.root, "d")
    assert n.create(w.root, "d").status in (S.EXIST, S.ISDIR)
    assert n.names(w.root) == [b"d", b"dangling", b"f", b"sized"]


def test_B040_setattr_guard(w):
    """A guard that is not the ctime, to the nanosecond, is NOT_SYNC and nothing changes; the right one passes."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f", b"12345", mode=0o644)
    sec, nsec = n.attr(f).ctime
    for bad in [(sec, (nsec + 1) % 10**9), (sec + 1, nsec), (sec - 1, nsec), (0, 0), (sec, 4294967295)]:
        r = n.setattr(f, guard=bad, mode=0o600, size=0)
        assert r.status == S.NOT_SYNC, bad
    a = n.attr(f)
    assert (a.size, a.mode, a.ctime) == (5, 0o644, (sec, nsec))
    assert n.setattr(f, guard=(sec, nsec), mode=0o600, size=2).status == S.OK
    a = n.attr(f)
    assert (a.size, a.mode) == (2, 0o600) and a.ctime != (sec, nsec)
    assert n.setattr(f, guard=(sec, nsec), size=0).status == S.NOT_SYNC


def test_B040_half_applied_setattr(w):
    """A SETATTR of which one part is refused changes nothing at all."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f", b"12345", mode=0o644)
    before = n.attr(f)
    for attrs in (dict(size=0, uid=4242), dict(mode=0o600, gid=4242), dict(size=2, mtime=(1, 1), uid=0),
                  dict(mode=0o600, size=2**64 - 1), dict(size=0, uid=4242, mode=0)):  # fmt: skip
        assert n.setattr(f, **attrs).status in (S.PERM, S.FBIG, S.INVAL)
        assert n.attr(f) == before, attrs
    w.daemon.set_export(w.id, mode="match")
    n.ok("SETATTR", f, mode=0o646)  # any other user may write, but not chmod
    before = n.attr(f)
    r = w.as_(OTHER).setattr(f, size=0, mode=0o777)
    assert r.status in (S.PERM, S.ACCES) and n.attr(f) == before
    assert w.as_(OTHER).setattr(f, size=3).status == S.OK and n.attr(f).size == 3


def test_B040_times(w_any):
    """Times are set and read back to the nanosecond, each alone; SET_TO_SERVER_TIME is now."""
    n, w = w_any.nfs, w_any
    f, d = n.mkfile(w.root, "f", b"x"), n.mkdir_(w.root, "d")
    n.ok("SYMLINK", w.root, "l", "nowhere")
    for h in (f, d, n.look(w.root, "l")):
        n.ok("SETATTR", h, atime=(1, 1), mtime=(2000000000, 999999999))
        a = n.attr(h)
        assert (a.atime, a.mtime) == ((1, 1), (2000000000, 999999999))
        n.ok("SETATTR", h, mtime=(0, 0))
        a = n.attr(h)
        assert (a.atime, a.mtime) == ((1, 1), (0, 0))
        n.ok("SETATTR", h, atime="server", mtime="server")
        a = n.attr(h)
        assert abs(a.mtime[0] - a.ctime[0]) < 5 and abs(a.atime[0] - a.ctime[0]) < 5
    for bad in ((1, 10**9), (1, 0xFFFFFFFF), (1, 0x3FFFFFFF), (1, 0x3FFFFFFE)):  # UTIME_NOW and _OMIT are no times
        assert n.setattr(f, mtime=bad).status == S.INVAL, bad
    big = n.setattr(f, mtime=(0xFFFFFFFF, 5))
    assert big.status in (S.OK, S.INVAL) and (big.status != S.OK or n.attr(f).mtime == (0xFFFFFFFF, 5))


@pytest.mark.parametrize("who, may_keep", [(OWNER, True), (OTHER, False)], ids=["owner", "other"])
def test_B042_set_id_bits(w, who, may_keep):
    """A write or truncate by one who is not the owner clears set-uid and set-gid, as for a local process."""
    w.daemon.set_export(w.id, mode="match")
    n, c = w.nfs, w.as_(who)
    f = n.mkfile(w.root, "f", b"program", mode=0o755)
    for change in (lambda: c.ok("WRITE", f, 0, b"new"), lambda: c.ok("SETATTR", f, size=3)):
        n.ok("SETATTR", f, mode=0o6777)
        assert n.attr(f).mode == 0o6777
        change()
        assert n.attr(f).mode == 0o777 or (may_keep and n.attr(f).mode == 0o6777)
    n.ok("SETATTR", f, mode=0o1755)
    assert n.attr(f).mode in (0o1755, 0o755)


def test_B043_removing_with_the_wrong_call(w_any):
    """RMDIR and REMOVE take what they are for; a full directory is never emptied, a link never followed."""
    n, w = w_any.nfs, w_any
    full, _ = n.mkdir_(w.root, "full"), n.mkdir_(w.root, "empty")
    n.mkfile(full, "kept", b"data")
    n.mkfile(w.root, "file", b"data")
    n.ok("SYMLINK", w.root, "link", "full")
    n.ok("MKNOD", w.root, "fifo", FIFO, mode=0o600)
    cases = [
        ("RMDIR", "full", S.NOTEMPTY), ("RMDIR", "file", S.NOTDIR), ("RMDIR", "link", S.NOTDIR),
        ("RMDIR", "fifo", S.NOTDIR), ("RMDIR", "nope", S.NOENT), ("REMOVE", "empty", S.ISDIR),
        ("REMOVE", "full", S.ISDIR), ("REMOVE", "nope", S.NOENT),
    ]  # fmt: skip
    for proc, name, want in cases:
        r = n.call(proc, w.root, name)
        assert r.status == want, (proc, name)
        assert r.dir_wcc.after is not None
    assert n.names(w.root) == sorted([b"full", b"empty", b"file", b"link", b"fifo"]) and n.names(full) == [b"kept"]
    f = n.look(w.root, "file")
    for proc in ("REMOVE", "RMDIR"):
        assert n.call(proc, f, "x").status == S.NOTDIR
    for proc, name in (("REMOVE", "link"), ("REMOVE", "fifo"), ("REMOVE", "file"), ("RMDIR", "empty")):
        n.ok(proc, w.root, name)
    assert n.names(w.root) == [b"full"] and n.names(full) == [b"kept"]


KINDS = ["file", "file2", "hard", "link", "dlink", "empty", "empty2", "full", "full2", "fifo", "missing"]


def rename_tree(top):
    """Everything that can be renamed, twice over, in two directories."""
    for side in ("a", "b"):
        d = top / side
        d.mkdir()
        (d / "file").write_bytes(b"one " + side.encode())
        (d / "file2").write_bytes(b"two " + side.encode())
        os.link(d / "file", d / "hard")
        os.symlink("file", d / "link")
        os.symlink("empty", d / "dlink")
        os.mkfifo(d / "fifo")
        for sub in ("empty", "empty2", "full", "full2"):
            (d / sub).mkdir()
        (d / "full" / "in").write_bytes(b"in full")
        (d / "full2" / "in2").mkdir()


def picture(top):
    """The tree as one comparable value: kinds, contents, targets and which names are one file."""
    out, inodes = {}, {}
    for p in sorted(top.rglob("*")):
        st = p.lstat()
        body = p.read_bytes() if stat.S_ISREG(st.st_mode) else os.readlink(p) if stat.S_ISLNK(st.st_mode) else ""
        first = inodes.setdefault(st.st_ino, str(p.relative_to(top)))
        out[str(p.relative_to(top))] = (stat.S_IFMT(st.st_mode), body, first)
    return out


RENAME_STATUS = {
    0: {S.OK}, errno.ENOENT: {S.NOENT}, errno.ENOTDIR: {S.NOTDIR, S.EXIST}, errno.EISDIR: {S.ISDIR, S.EXIST},
    errno.ENOTEMPTY: {S.NOTEMPTY, S.EXIST}, errno.EEXIST: {S.NOTEMPTY, S.EXIST}, errno.EINVAL: {S.INVAL},
}  # fmt: skip


def test_B044_every_pair_as_on_a_local_disk(w):
    """RENAME of every kind onto every kind, within and across directories, ends as rename(2) does."""
    pairs = [(f"a/{x}", f"{d}/{y}") for x in KINDS for y in KINDS for d in ("a", "b")]
    pairs += [("a", "a/empty/x"), ("a", "a/new"), ("a/full", "a/full/in"), ("a/full2", "a/full2/in2"),
              ("a/full2", "a/full2/in2/deeper"), ("a/full/in", "a/full"), ("a", "b"), ("a", "a")]  # fmt: skip
    n = w.nfs
    for i, (old, new) in enumerate(pairs):
        twin = pathlib.Path(tempfile.mkdtemp(dir=temp_root()))
        mine = w.dir / f"case{i}"
        try:
            rename_tree(twin)
            with w.daemon.local():
                mine.mkdir()
                rename_tree(mine)
            try:
                os.rename(twin / old, twin / new)
                code = 0
            except OSError as e:
                code = e.errno
            top = n.look(w.root, mine.name)
            *od, on = old.split("/")
            *nd, nn = new.split("/")
            from_fh, to_fh = n.look(top, *od), n.look(top, *nd)
            r = n.rename(from_fh, on, to_fh, nn)
            assert r.status in RENAME_STATUS[code], f"{old} -> {new}: {r.status!r}, locally {os.strerror(code)}"
            assert r.from_wcc.after == n.attr(from_fh) and r.to_wcc.after == n.attr(to_fh), (old, new)
            assert picture(mine) == picture(twin), (old, new)
        finally:
            shutil.rmtree(twin)
            with w.daemon.local():
                shutil.rmtree(mine)


def test_B044_rename_onto_itself_and_open_names(w):
    """A rename onto the same name, and the client's own .nfs names, are ordinary."""
    n = w.nfs
    f = n.mkfile(w.root, "f", b"data")
    n.ok("RENAME", w.root, "f", w.root, "f")
    n.ok("RENAME", w.root, "f", w.root, ".nfs000000000001")
    assert n.data(f) == b"data" and n.names(w.root) == [b".nfs000000000001"]
    g = n.mkfile(w.root, "g", b"other")
    n.ok("RENAME", w.root, "g", w.root, ".nfs000000000001")
    assert n.getattr(f).status == S.STALE and n.data(g) == b"other"
    n.ok("REMOVE", w.root, ".nfs000000000001")


def pre(attr):
    return (attr.size, attr.mtime, attr.ctime)


def test_B047_wcc_tells_the_truth(w):
    """Attributes after a change are the ones GETATTR gives; those before, when given at all, were true."""
    n, d = w.nfs, w.nfs.mkdir_(w.root, "d")
    e = n.mkdir_(w.root, "e")
    f = n.mkfile(d, "f", b"x")

    def check(wcc, was, now):
        assert wcc.after is None or pre(wcc.after) == pre(now)
        assert wcc.before is None or (wcc.before.size, wcc.before.mtime, wcc.before.ctime) == pre(was)

    for call in [
        ("CREATE", d, "n1"), ("MKDIR", d, "n2"), ("SYMLINK", d, "n3", "x"), ("MKNOD", d, "n4", FIFO),
        ("LINK", f, d, "n5"), ("REMOVE", d, "n1"), ("RMDIR", d, "n2"), ("RENAME", d, "n3", e, "n3"),
        ("REMOVE", d, "nope"), ("MKDIR", d, "f"), ("RMDIR", d, "f"),
    ]:  # fmt: skip
        was = n.attr(d)
        r = n.call(*call)
        check(r.from_wcc if call[0] == "RENAME" else r.dir_wcc, was, n.attr(d))
    for call in [("WRITE", f, 5, b"data"), ("SETATTR", f), ("WRITE", f, 0, b""), ("COMMIT", f)]:
        was = n.attr(f)
        r = n.call(*call)
        check(r.wcc, was, n.attr(f))
    was = n.attr(f)
    check(n.ok("SETATTR", f, size=1, mode=0o600).wcc, was, n.attr(f))


def test_B047_wcc_under_contention(w):
    """While others change a directory, a reply with a before-state has exactly its own change between the two."""
    n, d = w.nfs, w.nfs.mkdir_(w.root, "d")
    size = n.attr(d).size
    n.mkfile(d, "one")
    step = n.attr(d).size - size  # a directory in tmpfs grows by as much for each name: a perfect counter
    if step <= 0:
        pytest.skip("the size of a directory counts its entries on tmpfs only")
    replies, errors = [], []

    def work(i):
        try:
            c = w.connect()
            replies.extend(r.dir_wcc for r in c.many([("CREATE", d, f"{i}-{k}") for k in range(200)]))
        except Exception as e:  # noqa: BLE001 - reported by the main thread
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors
    assert len(n.names(d)) == 801 and len(replies) == 800
    whole = [r for r in replies if r.before is not None and r.after is not None]
    assert all(r.after.size == r.before.size + step for r in whole)
    assert len({r.before.size for r in whole}) == len(whole)


def test_B048_fsid_and_fileid_are_steady(fresh_any):
    """One fsid per workspace and one fileid per file, the same for every call and after a restart."""
    w = fresh_any().workspace()
    n = w.nfs
    other = w.daemon.workspace()

    def numbers():
        n, out = w.nfs, {}
        for name in [b"."] + n.names(w.root):
            a = n.attr(n.look(w.root, name))
            out[name] = (a.fsid, a.fileid)
        for e in n.walk(w.root, "READDIRPLUS"):
            assert e.name == b".." or e.attr is None or out[e.name] == (e.attr.fsid, e.fileid)
        return out

    d = n.mkdir_(w.root, "d")
    for i in range(20):
        n.mkfile(w.root, f"f{i}")
    n.ok("LINK", n.look(w.root, "f1"), w.root, "same")
    before = numbers()
    assert len({fsid for fsid, _ in before.values()}) == 1
    assert len({fileid for _, fileid in before.values()}) == len(before) - 1
    assert before[b"same"] == before[b"f1"]
    assert other.nfs.attr(other.root).fsid != before[b"."][0]
    for kill in (True, False):
        w.restart(kill)
        assert numbers() == before and w.daemon.root(w.id) == w.root
    assert w.nfs.attr(d).fsid == before[b"."][0]
    other.close()
    w.close()


@pytest.mark.skipif(not can_mount(), reason="needs root that may mount a tmpfs inside a workspace")
@pytest.mark.parametrize("kind", ["tmpfs", "bind"])
def test_B048_mount_inside_a_workspace(w, kind):
    """What is mounted inside a workspace is not entered: XDEV or the like, and the rest is served as ever."""
    n = w.nfs
    n.mkdir_(w.root, "m")
    n.mkfile(w.root, "beside", b"x")
    outside = pathlib.Path(tempfile.mkdtemp(dir=temp_root()))
    (outside / "secret").write_bytes(b"secret")
    outside.chmod(0o755)
    what = ["-t", "tmpfs", "tmpfs"] if kind == "tmpfs" else ["--bind", str(outside)]
    subprocess.run(["mount", *what, w.dir / "m"], check=True)
    try:
        r = n.lookup(w.root, "m")
        assert r.status in (S.XDEV, S.ACCES)
        assert n.create(w.root, "m").status != S.OK and n.rename(w.root, "m", w.root, "n").status != S.OK
        assert w.daemon.mnt(f"/{w.id}/m").status != 0 and w.daemon.mnt(f"/{w.id}/m/secret").status != 0
        for proc in ("READDIR", "READDIRPLUS"):
            assert b"beside" in n.names(w.root, proc=proc)
        for e in n.walk(w.root, "READDIRPLUS"):
            assert e.name != b"m" or e.fh is None or n.lookup(e.fh, "secret").status != S.OK
    finally:
        subprocess.run(["umount", "-l", w.dir / "m"], check=True)
        shutil.rmtree(outside)
    assert n.names(n.look(w.root, "m")) == []


TARGETS = [
    b"x", b"t" * 255, b"t/" * 500, b"u" * 1023, b"u" * 1024, b"v" * 4095, b"\xff\xfe\x80", b"../../..", b"/etc/passwd",
    b"/", b".", b"new\nline", b"trailing/", b" ",
]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: repr(t[:10]) + str(len(t)))
def test_B049_link_targets_are_bytes(w_any, target):
    """A target up to 4095 bytes is kept as it is, whatever is in it, and never followed by the server."""
    n, w = w_any.nfs, w_any
    made = n.ok("SYMLINK", w.root, "l", target)
    f = made.fh or n.look(w.root, "l")
    assert n.ok("READLINK", f).target == target and n.attr(f).size == len(target)
    with w.daemon.local():
        assert os.readlink(os.fsencode(w.dir / "l")) == target
    assert n.attr(f).type == LNK
    n.ok("ACCESS", f)
    n.ok("SETATTR", f, mtime=(7, 7))
    assert n.attr(f).mtime == (7, 7)
    assert n.lookup(f, "x").status == S.NOTDIR and n.readdir(f).status == S.NOTDIR


def test_B049_refusals(w):
    """READLINK of what is no link is INVAL; an empty target, one over PATH_MAX or with a NUL is refused."""
    n = w.nfs
    for f in (w.root, n.mkfile(w.root, "f"), n.mkdir_(w.root, "d")):
        assert n.readlink(f).status == S.INVAL
    assert n.symlink(w.root, "l", b"").status in (S.INVAL, S.NOENT)
    assert n.symlink(w.root, "l", b"a\0b").status == S.INVAL
    assert n.symlink(w.root, "l", b"n" * 4096).status == S.NAMETOOLONG
    try:
        assert n.symlink(w.root, "l", b"n" * 5000).status == S.NAMETOOLONG
    except RpcError as e:
        assert e.kind == "GARBAGE_ARGS"
    assert n.names(w.root) == [b"d", b"f"]


def test_B049_chmod_of_a_link(w):
    """Mode or size of a link cannot be set; what it points to is left alone in any case."""
    n = w.nfs
    f = n.mkfile(w.root, "f", b"data", mode=0o640)
    n.ok("SYMLINK", w.root, "l", "f")
    link = n.look(w.root, "l")
    assert n.setattr(link, mode=0o777).status in (S.OK, S.NOTSUPP, S.INVAL, S.PERM)
    assert n.setattr(link, size=0).status in (S.INVAL, S.NOTSUPP, S.PERM)
    assert n.attr(f).mode == 0o640 and n.data(f) == b"data"


def test_B051_finder_and_office_style(w_any):
    """The order of calls in which Finder copies and Office saves: each step succeeds."""
    n, root = w_any.nfs, w_any.root
    for name in ("f", "._f"):
        h = n.ok("CREATE", root, name, verf=b"exclusiv").fh or n.look(root, name)
        n.ok("SETATTR", h, mode=0o644, uid=1000, gid=1000, atime=(5, 5), mtime=(6, 6))
        n.ok("WRITE", h, 0, b"a" * 4096, UNSTABLE)
        n.ok("WRITE", h, 2, b"b" * 4096, UNSTABLE)
        n.ok("COMMIT", h)
        n.ok("SETATTR", h, size=4000)
        assert n.data(h) == b"aa" + b"b" * 3998
    n.mkfile(root, "document", b"old")
    tmp = n.mkdir_(root, ".TemporaryItems")
    n.ok("RENAME", root, "f", tmp, "saving")
    n.ok("RENAME", tmp, "saving", root, "document")
    assert n.data(n.look(root, "document"))[:2] == b"aa"
    n.mkfile(root, ".DS_Store", b"x")
    assert n.link(n.look(root, "document"), root, "backup").status in (S.OK, S.NOTSUPP)
    n.ok("REMOVE", root, "._f")
    assert n.attr(n.look(root, "document")).type == REG and n.attr(tmp).type == DIR


def test_sparse_files_and_growing(w):
    """Holes read as zeros; SETATTR size grows and cuts; a write behind the end leaves a hole before it."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f", b"start")
    n.ok("WRITE", f, 100000, b"end")
    assert n.data(f) == b"start" + bytes(99995) + b"end"
    n.ok("SETATTR", f, size=3)
    n.ok("SETATTR", f, size=10)
    assert n.data(f) == b"sta" + bytes(7)


def test_executable_may_be_run_soon_after_writing(w):
    """No descriptor of the server that can write stays open so long that a local exec meets ETXTBSY for good."""
    n = w.nfs
    n.mkfile(w.root, "tool", b"#!/bin/true\n", mode=0o755)
    f = n.mkfile(w.root, "true", mode=0o755)
    n.ok("WRITE", f, 0, pathlib.Path("/bin/true").read_bytes())
    def runs():
        with w.daemon.local():
            try:
                return subprocess.run([w.dir / "true"]).returncode == 0
            except OSError as e:
                assert e.errno == errno.ETXTBSY
                return False

    if IS_ROOT:  # the data directory is closed to others
        poll("exec of a file just written", runs)
