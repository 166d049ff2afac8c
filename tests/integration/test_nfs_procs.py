# SPDX-License-Identifier: MIT
"""Every procedure of NFSv3 and MOUNTv3: what it gives when all is well, and each way in which it may refuse."""
import os
import socket
import stat

import pytest

from lib import mount3
from lib.mount3 import M
from lib.nfs3 import (
    A_DELETE, A_EXECUTE, A_EXTEND, A_LOOKUP, A_MODIFY, A_READ, BLK, CHR, DIR, FIFO, FILE_SYNC, LNK, REG, SOCK,
    S, UNSTABLE, decode,
)  # fmt: skip
from lib.rpc import record


def test_null(w):
    w.nfs.null()


def test_getattr(w_any):
    """The attributes are those of the local file, but for the owner, which is the workspace's."""
    n, w = w_any.nfs, w_any
    f = n.mkfile(w.root, "f", b"12345", mode=0o640)
    n.ok("LINK", f, w.root, "second")
    n.mkdir_(w.root, "d", mode=0o751)
    n.ok("SYMLINK", w.root, "l", "f")
    for name, kind, mode in [("f", REG, 0o640), ("d", DIR, 0o751), ("l", LNK, 0o777), (".", DIR, None)]:
        a = n.attr(n.look(w.root, name))
        with w.daemon.local():
            st = os.lstat(w.dir / name)
        assert (a.type, a.nlink, a.size, a.fileid) == (kind, st.st_nlink, st.st_size, st.st_ino)
        assert a.mode == (stat.S_IMODE(st.st_mode) if mode is None else mode)
        assert (a.uid, a.gid) == (1000, 1000)
        assert a.used == st.st_blocks * 512
        for mine, theirs in ((a.mtime, st.st_mtime_ns), (a.ctime, st.st_ctime_ns)):
            assert mine[0] * 10**9 + mine[1] == theirs
    assert n.attr(w.root).mode & 0o700 == 0o700


def test_setattr(w_any):
    """Mode, size and times are set; nothing at all to set is fine; the reply carries the new attributes."""
    n, w = w_any.nfs, w_any
    f, d = n.mkfile(w.root, "f", b"12345"), n.mkdir_(w.root, "d")
    for mode in (0o000, 0o600, 0o777, 0o1755, 0o444):
        r = n.ok("SETATTR", f, mode=mode)
        assert r.wcc.after.mode == mode or mode == 0o1755
        assert n.ok("SETATTR", d, mode=mode).wcc.after.mode == mode
    n.ok("SETATTR", d, mode=0o755)
    assert n.ok("SETATTR", f, mode=0o100644).wcc.after.mode == 0o644  # type bits are not the client's
    assert n.ok("SETATTR", f, size=2).wcc.after.size == 2
    n.ok("SETATTR", f)
    assert n.setattr(d, size=0).status in (S.INVAL, S.ISDIR)
    assert n.setattr(w.root, mode=0o750).status == S.OK and n.attr(w.root).mode == 0o750


def test_setattr_of_a_file_of_mode_0(w_any):
    """The owner reads, writes and cuts a file whose mode is 0, as RFC 1813 section 4.4 has it."""
    n, w = w_any.nfs, w_any
    f = n.ok("CREATE", w.root, "f", mode=0).fh
    assert n.ok("WRITE", f, 0, b"data").count == 4 and n.data(f) == b"data"
    n.ok("SETATTR", f, size=2)
    n.ok("COMMIT", f)
    a = n.attr(f)
    assert (a.mode, a.size) == (0, 2) and n.data(f) == b"da"
    for mode in (0o200, 0o400, 0o040):
        n.ok("SETATTR", f, mode=mode)
        n.ok("WRITE", f, 0, b"xy")
        assert n.data(f) == b"xy" and n.attr(f).mode == mode


def test_lookup(w):
    n = w.nfs
    f = n.mkfile(w.root, "f")
    r = n.ok("LOOKUP", w.root, "f")
    assert r.fh == f and r.attr == n.attr(f) and (r.dir_attr is None or r.dir_attr == n.attr(w.root))
    assert n.lookup(w.root, "nope").status == S.NOENT and n.lookup(f, "x").status == S.NOTDIR
    n.ok("SYMLINK", w.root, "l", "f")
    assert n.attr(n.look(w.root, "l")).type == LNK


def test_access(w):
    """For the owner ACCESS follows the mode bits of the owner, says only what was asked, and knows directories."""
    n, f, d = w.nfs, w.nfs.mkfile(w.root, "f"), w.nfs.mkdir_(w.root, "d")
    write = A_MODIFY | A_EXTEND
    for mode, want in [(0o700, A_READ | write | A_EXECUTE), (0o600, A_READ | write), (0o500, A_READ | A_EXECUTE)]:
        n.ok("SETATTR", f, mode=mode)
        assert n.ok("ACCESS", f).access & ~A_DELETE == want
    n.ok("SETATTR", f, mode=0o700)
    assert n.ok("ACCESS", f, A_READ).access == A_READ and n.ok("ACCESS", f, 0).access == 0
    assert n.ok("ACCESS", f, 0xFFFFFFFF).access & ~63 == 0
    assert n.ok("ACCESS", d).access == A_READ | A_LOOKUP | A_MODIFY | A_EXTEND | A_DELETE
    assert n.ok("ACCESS", f, A_LOOKUP).access == 0 and n.ok("ACCESS", d, A_EXECUTE).access == 0


def test_readlink_symlink(w):
    n = w.nfs
    r = n.ok("SYMLINK", w.root, "l", "some/where")
    f = n.look(w.root, "l")
    assert r.fh in (None, f) and r.attr is None or r.attr.type == LNK
    assert n.ok("READLINK", f).target == b"some/where"
    assert n.symlink(w.root, "l", "again").status == S.EXIST and n.symlink(f, "x", "y").status == S.NOTDIR


def test_read_write_commit(w):
    n, f = w.nfs, w.nfs.mkfile(w.root, "f")
    r = n.ok("WRITE", f, 3, b"data", UNSTABLE)
    assert r.count == 4 and r.wcc.after is not None and r.wcc.after.size == 7
    assert n.ok("COMMIT", f, 0, 0).verf == r.verf
    r = n.ok("READ", f, 0, 100)
    assert r.data == b"\0\0\0data" and r.eof and r.attr is not None
    for how in (UNSTABLE, 1, FILE_SYNC):
        assert n.ok("WRITE", f, 0, b"abc", how).committed >= how


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8191, 8192, 65536, (1 << 20) - 1, 1 << 20])
def test_read_write_sizes(w, size):
    """Payloads of every length modulo four, up to the largest, come back as they went."""
    n, f, data = w.nfs, w.nfs.mkfile(w.root, "f"), os.urandom(size)
    r = n.ok("WRITE", f, 1, data, UNSTABLE)
    assert r.count == size and n.ok("READ", f, 1, size).data == data
    with w.daemon.local():
        assert (w.dir / "f").read_bytes() == b"\0" + data


def test_create_mkdir(w):
    """New things have the mode asked for, whatever the daemon's umask; the reply names them."""
    n = w.nfs
    for mode in (0o000, 0o666, 0o777, 0o640, 0o4755):
        for proc, kind in (("CREATE", REG), ("MKDIR", DIR)):
            name = f"{proc}{mode:o}"
            r = n.ok(proc, w.root, name, mode=mode)
            f = n.look(w.root, name)
            assert r.fh in (None, f) and n.attr(f).type == kind
            assert n.attr(f).mode == mode or (kind == DIR and n.attr(f).mode == mode & 0o777), name
            assert n.call("MKDIR", w.root, name).status == S.EXIST
    f = n.look(w.root, "CREATE640")
    assert n.create(f, "x").status == S.NOTDIR and n.mkdir(f, "x").status == S.NOTDIR
    r = n.ok("CREATE", w.root, "t", mode=0o600, size=10, atime=(3, 3), mtime=(4, 4))
    a = n.attr(n.look(w.root, "t"))
    assert (a.size, a.atime, a.mtime) == (10, (3, 3), (4, 4))
    n.ok("MKDIR", w.root, "td", mtime=(4, 4))
    assert n.attr(n.look(w.root, "td")).mtime == (4, 4)


def test_mknod(w_any):
    """FIFOs and sockets are made; device nodes are refused with PERM; what is no kind for MKNOD is BADTYPE."""
    n, w = w_any.nfs, w_any
    for kind in (FIFO, SOCK):
        r = n.ok("MKNOD", w.root, f"k{kind}", kind, mode=0o640)
        a = n.attr(n.look(w.root, f"k{kind}"))
        assert (a.type, a.mode, a.uid) == (kind, 0o640, 1000) and (r.attr is None or r.attr.type == kind)
        assert n.mknod(w.root, f"k{kind}", kind).status == S.EXIST
    for kind in (CHR, BLK):
        assert n.mknod(w.root, "dev", kind, rdev=(1, 3), mode=0o666).status == S.PERM
    for kind in (REG, DIR, LNK):
        assert n.mknod(w.root, "x", kind).status == S.BADTYPE
    assert n.names(w.root) == sorted([b"k%d" % FIFO, b"k%d" % SOCK])


def test_remove_rmdir(w):
    n = w.nfs
    f, d = n.mkfile(w.root, "f"), n.mkdir_(w.root, "d")
    n.ok("REMOVE", w.root, "f")
    n.ok("RMDIR", w.root, "d")
    assert n.names(w.root) == [] and n.getattr(f).status == n.getattr(d).status == S.STALE
    assert n.remove(w.root, "f").status == n.rmdir(w.root, "d").status == S.NOENT


def test_rename_link(w):
    n, d = w.nfs, w.nfs.mkdir_(w.root, "d")
    f = n.mkfile(w.root, "f", b"x")
    n.ok("RENAME", w.root, "f", d, "g")
    r = n.ok("LINK", f, w.root, "h")
    assert r.attr is None or r.attr.nlink == 2
    assert n.look(d, "g") == n.look(w.root, "h") == f
    assert n.link(f, w.root, "h").status == S.EXIST and n.link(f, f, "x").status == S.NOTDIR
    assert n.link(d, w.root, "dir").status in (S.PERM, S.ISDIR, S.INVAL)
    assert n.rename(f, "x", d, "y").status == n.rename(d, "g", f, "y").status == S.NOTDIR
    assert n.rename(w.root, "nope", d, "y").status == S.NOENT
    n.ok("SYMLINK", w.root, "l", "nowhere")
    n.ok("LINK", n.look(w.root, "l"), d, "l2")
    assert n.ok("READLINK", n.look(d, "l2")).target == b"nowhere"


def test_readdir_readdirplus_refusals(w):
    for f in (w.nfs.mkfile(w.root, "f"), w.nfs.ok("SYMLINK", w.root, "l", ".").fh or w.nfs.look(w.root, "l")):
        assert w.nfs.readdir(f).status == w.nfs.readdirplus(f).status == S.NOTDIR


def test_fsstat_fsinfo_pathconf(w_any):
    """The numbers are sensible and agree with the local file system."""
    n, w = w_any.nfs, w_any
    f = n.mkfile(w.root, "f")
    for h in (w.root, f):
        r, st = n.ok("FSSTAT", h), os.statvfs(w.daemon.base)
        assert r.abytes <= r.fbytes <= r.tbytes <= st.f_blocks * st.f_frsize and r.tbytes > 0
        assert r.afiles <= r.ffiles <= r.tfiles
        r = n.ok("FSINFO", h)
        assert r.rtmax == r.wtmax == 1 << 20 and r.dtpref >= 65536 and r.maxfilesize > 1 << 40
        assert r.properties & 0x1B == 0x1B  # hard links, symbolic links, homogeneous, times can be set
        assert r.rtmult and r.wtmult and r.time_delta[0] == 0
        r = n.ok("PATHCONF", h)
        assert (r.name_max, r.no_trunc, r.case_insensitive, r.case_preserving) == (255, True, False, True)
        assert r.chown_restricted and r.linkmax >= 1000


def test_mount_procedures(w):
    """MNT, DUMP, UMNT, UMNTALL, EXPORT and NULL; UMNT of anything is fine."""
    with w.daemon.conn() as c:
        m = mount3.Mount(c)
        m.null()
        path = f"/{w.id}"
        assert m.mnt(path).fh == w.root
        assert all(isinstance(p, bytes) for _, p in m.dump())
        assert path.encode() in [p for p, _ in m.export()]
        for p in (path, "/nope", "", "x" * 1024):
            m.umnt(p)
        m.umntall()
        assert m.dump() == [] or path.encode() not in [p for _, p in m.dump()]
        assert m.mnt(path).status == M.OK


def test_root_listing(w):
    """"/" lists the workspaces, leads into each, and nothing can be made or changed there."""
    n, w2 = w.nfs, w.daemon.workspace()
    res = w.daemon.mnt("/")
    assert res.status == M.OK
    top = res.fh
    a = n.attr(top)
    assert a.type == DIR and a.mode & 0o222 == 0
    for proc in ("READDIR", "READDIRPLUS"):
        names = n.names(top, proc=proc)
        assert {w.id.encode(), w2.id.encode()} <= set(names)
    for e in n.walk(top, "READDIRPLUS", dircount=512, maxcount=1024):
        if e.name == w.id.encode():
            assert e.fh in (None, w.root)
    assert n.look(top, w.id) == w.root and n.look(top, w2.id) == w2.root
    assert n.look(top, ".") == top and n.look(top, "..") == top
    for name, want in [("nope", S.NOENT), ("", S.NOENT), (w.id[:-1], S.NOENT), (w.id.upper(), S.NOENT),
                       (w.id + "/", S.INVAL), ("../" + w.id, S.INVAL), ("x" * 256, S.NAMETOOLONG)]:  # fmt: skip
        r = n.lookup(top, name)
        assert r.status == want or (name == w.id.upper() == w.id), name
    f = n.mkfile(w.root, "f")
    calls = [
        ("CREATE", top, "x"), ("MKDIR", top, "x"), ("SYMLINK", top, "x", "y"), ("MKNOD", top, "x", FIFO),
        ("REMOVE", top, w2.id), ("RMDIR", top, w2.id), ("RENAME", top, w2.id, top, "x"), ("LINK", f, top, "x"),
        ("RENAME", w.root, "f", top, "x"), ("RENAME", top, w2.id, w.root, "x"),
    ]  # fmt: skip
    for call in calls:
        assert n.call(*call).status in (S.ROFS, S.XDEV if call[0] in ("RENAME", "LINK") else S.ROFS), call
    assert n.setattr(top, mode=0o777).status == S.ROFS
    assert n.write(top, 0, b"x").status in (S.ROFS, S.INVAL) and n.read(top, 0, 10).status == S.INVAL
    assert n.commit(top).status != S.OK and n.readlink(top).status == S.INVAL
    assert n.ok("ACCESS", top).access & (A_MODIFY | A_EXTEND | A_DELETE) == 0
    for proc in ("FSSTAT", "FSINFO", "PATHCONF"):
        n.ok(proc, top)
    w2.close()
    w.daemon.delete_workspace(w2.id)
    assert w2.id.encode() not in n.names(top) and n.lookup(top, w2.id).status == S.NOENT


def test_many_workspaces_in_the_root_listing(fresh):
    """The list of workspaces is read in pages like any directory."""
    d = fresh()
    ids = sorted(d.create_workspace().encode() for _ in range(60))
    w = d.workspace()
    top = d.mnt("/").fh
    for kw in (dict(count=300), dict(proc="READDIRPLUS", dircount=300, maxcount=700), {}):
        assert w.nfs.names(top, **kw) == sorted([*ids, w.id.encode()])
    w.close()


def test_changes_of_the_local_side_are_seen_at_once(w_any):
    """What a sandbox or another door does to the files is what the next call says."""
    n, w = w_any.nfs, w_any
    d, f = n.mkdir_(w.root, "d"), n.mkfile(w.root, "f", b"old")
    assert n.lookup(d, "new").status == S.NOENT
    with w.daemon.local():
        (w.dir / "d" / "new").write_bytes(b"by hand")
        (w.dir / "f").write_bytes(b"changed here")
        os.chmod(w.dir / "f", 0o600)
    assert n.data(n.look(d, "new")) == b"by hand" and n.names(d) == [b"new"]
    assert n.data(f) == b"changed here" and n.attr(f).mode == 0o600
    n.ok("WRITE", f, 0, b"CHANGED")
    with w.daemon.local():
        assert (w.dir / "f").read_bytes() == b"CHANGED here"
        os.rename(w.dir / "d" / "new", w.dir / "f")
    assert n.getattr(f).status == S.STALE and n.data(n.look(w.root, "f")) == b"by hand"


def test_setattr_of_special_files(w_any):
    """Mode and times of FIFOs and sockets are set without opening them; nothing waits for another end."""
    n, w = w_any.nfs, w_any
    for kind in (FIFO, SOCK):
        n.ok("MKNOD", w.root, f"k{kind}", kind, mode=0o600)
        f = n.look(w.root, f"k{kind}")
        n.ok("SETATTR", f, mode=0o640, mtime=(7, 8))
        a = n.attr(f)
        assert (a.mode, a.mtime, a.type) == (0o640, (7, 8), kind)
        n.ok("ACCESS", f)
        n.ok("LINK", f, w.root, f"l{kind}")
        assert n.setattr(f, size=0).status == S.INVAL
        n.ok("RENAME", w.root, f"l{kind}", w.root, f"m{kind}")


def test_owner_without_permission(w_any):
    """The owner's own bits hold for directories: a closed one is ACCES until its mode is changed."""
    n, w = w_any.nfs, w_any
    d = n.mkdir_(w.root, "d")
    n.mkfile(d, "f")
    n.ok("SETATTR", d, mode=0o555)
    assert n.create(d, "x").status == n.mkdir(d, "x").status == n.remove(d, "f").status == S.ACCES
    assert n.ok("ACCESS", d).access == A_READ | A_LOOKUP
    n.ok("SETATTR", d, mode=0o755)
    n.ok("REMOVE", d, "f")


@pytest.mark.parametrize("when", [-5, -(2**31), 2**32 + 5, 2**33])
def test_local_times_that_nfs_cannot_say(w, when):
    """A time before 1970 or after 2106 on the disk still gives attributes that decode."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f")
    with w.daemon.local():
        os.utime(w.dir / "f", (when, when))
    n.attr(f)
    assert [e.name for e in n.walk(w.root, "READDIRPLUS") if e.name == b"f"]
    n.ok("SETATTR", f, mtime=(5, 5))
    assert n.attr(f).mtime == (5, 5)


def test_calls_before_the_end_of_the_stream(w):
    """A client that closes its sending side after 100 calls gets all the replies, then the end."""
    n = w.connect()
    sent = [n.message("MKDIR", w.root, f"d{i}") for i in range(100)]
    n.conn.send_raw(b"".join(record(m) for _, m in sent))
    n.conn.sock.shutdown(socket.SHUT_WR)
    for xid, _ in sent:
        assert decode("MKDIR", n.conn.wait(xid).result()).status == S.OK
    assert n.conn.is_closed()
