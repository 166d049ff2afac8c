# SPDX-License-Identifier: MIT
"""File handles and names, one test for each field report of the group NFS-HANDLE and its siblings."""
import os
import random
import shutil
import threading

import pytest

from lib.daemon import IS_ROOT, build_tool
from lib.nfs3 import DIR, FIFO, OWNER, PROCS, S, encode
from lib.rpc import RpcError, call_message, next_xid


def hold_tree(w):
    """A tree p/q/{file,sub/leaf,link} and the handles to everything in it."""
    n = w.nfs
    p = n.mkdir_(w.root, "p")
    q = n.mkdir_(p, "q")
    sub = n.mkdir_(q, "sub")
    held = {"p": p, "q": q, "sub": sub, "file": n.mkfile(q, "file", b"in file"), "leaf": n.mkfile(sub, "leaf", b"leaf")}
    n.ok("SYMLINK", q, "link", "file")
    held["link"] = n.look(q, "link")
    return held


def check_held(w, held):
    """Whoever holds the handles can go on as if nothing had happened."""
    n = w.nfs
    assert n.data(held["file"]) == b"in file" and n.data(held["leaf"]) == b"leaf"
    assert n.ok("READLINK", held["link"]).target == b"file"
    n.ok("ACCESS", held["p"])
    assert n.names(held["q"]) == [b"file", b"link", b"sub"]
    assert n.look(held["q"], "file") == held["file"] and n.look(held["q"], "sub", "..") == held["q"]
    made = n.mkfile(held["q"], "made", b"new")
    assert n.data(made) == b"new"
    n.mkdir_(held["sub"], "dir")
    n.ok("RMDIR", held["sub"], "dir")
    n.ok("REMOVE", held["q"], "made")
    assert n.ok("WRITE", held["file"], 0, b"in file").count == 7


def rename_by_nfs(w, old, new):
    n = w.nfs
    *a, a_name = old.split("/")
    *b, b_name = new.split("/")
    n.ok("RENAME", n.look(w.root, *a), a_name, n.look(w.root, *b), b_name)


def rename_locally(w, old, new):
    with w.daemon.local():
        os.rename(w.dir / old, w.dir / new)


RENAMES = [
    [("p", "r")], [("r", "deep/er/s")], [("deep/er/s/q", "t")],
    [("t/file", "away"), ("t/sub", "t/sub2"), ("t/sub2", "t/sub"), ("away", "t/file")],
]  # fmt: skip
DOORS = pytest.mark.parametrize("door", [rename_by_nfs, rename_locally], ids=["nfs", "local"])


def rename_and_check(w, door, between):
    held = hold_tree(w)
    w.nfs.mkdir_(w.nfs.mkdir_(w.root, "deep"), "er")
    for step in RENAMES:
        for old, new in step:
            door(w, old, new)
        between()
        check_held(w, held)
    assert w.nfs.look(w.root, "t") == held["q"]


@DOORS
def test_B015_rename_above_held_handles(w_any, door):
    """Handles of a renamed directory and of all below it go on working, whichever door renamed."""
    rename_and_check(w_any, door, lambda: None)


@DOORS
@pytest.mark.parametrize("kill", [False, True], ids=["restart", "kill"])
def test_B015_rename_and_restart(w_own, door, kill):
    """The same with a restart, or a kill -9, after each rename."""
    rename_and_check(w_own, door, lambda: w_own.restart(kill))


@pytest.fixture
def w_own(fresh_any):
    """A workspace of a daemon of the test's own, for both ways to run it."""
    w = fresh_any().workspace()
    yield w
    w.close()


def test_B015_rename_while_the_server_is_down(w_own):
    """What was renamed, linked and removed while no server ran is found, or is STALE, afterwards."""
    w = w_own
    held = hold_tree(w)
    w.nfs.mkfile(w.root, "gone", b"x")
    gone, gone_dir = w.nfs.look(w.root, "gone"), w.nfs.mkdir_(w.root, "gone.d")
    w.close()
    w.daemon.kill9()
    with w.daemon.local():
        os.rename(w.dir / "p/q", w.dir / "moved")
        os.link(w.dir / "moved/file", w.dir / "second")
        os.unlink(w.dir / "gone")
        os.rmdir(w.dir / "gone.d")
        for i in range(20):  # a recycled inode number must not bring a handle back to life
            (w.dir / f"new{i}").write_bytes(b"other")
            (w.dir / f"new{i}.d").mkdir()
    w.daemon.start()
    w.nfs = w.connect()
    check_held(w, held)
    assert w.nfs.attr(held["file"]).nlink == 2
    for f in (gone, gone_dir):
        assert w.nfs.getattr(f).status == S.STALE


@pytest.mark.skipif(not IS_ROOT, reason="without root there are no kernel handles anyway")
@DOORS
def test_B015_without_kernel_handles(fresh, reachable, door):
    """Where the system refuses open_by_handle_at, the fallback keeps handles over renames and kills as well."""
    deny = build_tool("deny", reachable, "-lseccomp")
    w = fresh(launcher=[deny, "open_by_handle_at=EPERM", "--"]).workspace()
    rename_and_check(w, door, w.restart)
    f = w.nfs.mkfile(w.root, "f")
    w.nfs.ok("REMOVE", w.root, "f")
    assert w.nfs.getattr(f).status == S.STALE
    w.restart()
    assert w.nfs.getattr(f).status == S.STALE
    w.close()


def test_B015_hard_link_survives_its_first_name(w_any):
    """A handle is the file's, not the name's: removing the name it was found by leaves it valid."""
    n, w = w_any.nfs, w_any
    f, d = n.mkfile(w.root, "one", b"data"), n.mkdir_(w.root, "d")
    n.ok("LINK", f, d, "two")
    n.ok("REMOVE", w.root, "one")
    assert n.data(f) == b"data" and n.look(d, "two") == f
    with w.daemon.local():
        os.link(w.dir / "d/two", w.dir / "three")
        os.unlink(w.dir / "d/two")
    assert n.data(f) == b"data" and n.look(w.root, "three") == f
    n.ok("REMOVE", w.root, "three")
    assert n.getattr(f).status == S.STALE


@pytest.mark.parametrize("door", ["nfs", "local"])
def test_B017_parent_after_child_is_removed(w_any, door):
    """Only the removed object goes stale, not the directory it was in."""
    n, w = w_any.nfs, w_any
    d = n.mkdir_(w.root, "d")
    for i in range(5):
        s, f = n.mkdir_(d, "s"), n.mkfile(d, "f")
        if door == "nfs":
            n.ok("RMDIR", d, "s")
            n.ok("REMOVE", d, "f")
        else:
            with w.daemon.local():
                os.rmdir(w.dir / "d/s")
                os.unlink(w.dir / "d/f")
        assert (n.getattr(s).status, n.getattr(f).status) == (S.STALE, S.STALE)
        assert n.names(d) == [f"t{k}".encode() for k in range(i)]
        n.mkfile(d, f"t{i}")


def test_B018_replaced_by_rename_while_read(w):
    """Whoever looks a name up while it is replaced finds the old or the new file, whole, never an error."""
    n, size, stop = w.nfs, 64 << 10, threading.Event()
    a, b = n.mkdir_(w.root, "a"), n.mkdir_(w.root, "b")
    n.mkfile(a, "f", b"0" * size)
    bad = []

    def replace():
        m, i = w.connect(), 0
        try:
            while not stop.is_set():
                i += 1
                m.mkfile(b, "tmp", bytes([48 + i % 10]) * size)
                m.ok("RENAME", b, "tmp", a, "f")
        except Exception as e:  # noqa: BLE001 - reported by the main thread
            bad.append(e)

    t = threading.Thread(target=replace)
    t.start()
    try:
        for _ in range(400):
            f = n.ok("LOOKUP", a, "f").fh
            r = n.read(f, 0, size)
            assert r.status in (S.OK, S.STALE)
            if r.status == S.OK:
                assert len(r.data) == size and len(set(r.data)) == 1
    finally:
        stop.set()
        t.join()
    assert not bad, bad


def procs_on(f, g, d):
    """A call of each procedure that takes handles, with `f` in one place of each; `d` is a good directory."""
    return [
        ("GETATTR", f), ("SETATTR", f), ("LOOKUP", f, "n"), ("ACCESS", f), ("READLINK", f), ("READ", f, 0, 10),
        ("WRITE", f, 0, b"data"), ("CREATE", f, "n"), ("MKDIR", f, "n"), ("SYMLINK", f, "n", "to"),
        ("MKNOD", f, "n", FIFO), ("REMOVE", f, "n"), ("RMDIR", f, "n"), ("RENAME", f, "n", d, "m"),
        ("RENAME", d, "n", f, "m"), ("LINK", f, d, "n"), ("LINK", g, f, "n"), ("READDIR", f), ("READDIRPLUS", f),
        ("FSSTAT", f), ("FSINFO", f), ("PATHCONF", f), ("COMMIT", f), ("LOOKUP", f, "."), ("LOOKUP", f, ".."),
    ]  # fmt: skip


def check_statuses(w, f, want, what):
    g = w.nfs.mkfile(w.root, "good")
    before = w.nfs.names(w.root)
    calls = procs_on(f, g, w.root)
    assert {c[0] for c in calls} == set(PROCS) - {"NULL"}
    for call, r in zip(calls, w.nfs.many(calls)):
        assert r.status in want, f"{call[0]} on {what}: {r.status!r}"
    assert w.nfs.names(w.root) == before


@pytest.mark.parametrize("kind", ["file", "dir", "link", "fifo"])
@pytest.mark.parametrize("door", ["nfs", "local"])
def test_B019_removed_object_is_stale(w_any, kind, door):
    """Every procedure on the handle of something removed, by whichever door, answers STALE."""
    n, w = w_any.nfs, w_any
    f = {
        "file": lambda: n.mkfile(w.root, "x", b"data"),
        "dir": lambda: n.mkdir_(w.root, "x"),
        "link": lambda: n.ok("SYMLINK", w.root, "x", "to").fh or n.look(w.root, "x"),
        "fifo": lambda: n.ok("MKNOD", w.root, "x", FIFO, mode=0o644).fh or n.look(w.root, "x"),
    }[kind]()
    n.ok("GETATTR", f)
    if door == "nfs":
        n.ok("RMDIR" if kind == "dir" else "REMOVE", w.root, "x")
    else:
        with w.daemon.local():
            (os.rmdir if kind == "dir" else os.unlink)(w.dir / "x")
    check_statuses(w, f, {S.STALE}, f"a removed {kind}")


def test_B019_removed_parents_and_rename_over(w_any):
    """Things that go away indirectly go stale as well."""
    n, w = w_any.nfs, w_any
    d = n.mkdir_(w.root, "d")
    inner, old = n.mkfile(d, "inner"), n.mkfile(w.root, "old")
    n.mkfile(w.root, "new")
    n.ok("RENAME", w.root, "new", w.root, "old")
    assert n.getattr(old).status == S.STALE
    with w.daemon.local():
        shutil.rmtree(w.dir / "d")
    assert (n.getattr(d).status, n.getattr(inner).status) == (S.STALE, S.STALE)


def test_B019_deleted_workspace_is_stale(w_any):
    """All handles of a deleted workspace are STALE at once, on connections that are open too."""
    other = w_any.daemon.workspace()
    f, d = other.nfs.mkfile(other.root, "f", b"x"), other.nfs.mkdir_(other.root, "d")
    w_any.daemon.delete_workspace(other.id)
    for h in (other.root, f, d):
        check_statuses(w_any, h, {S.STALE}, "a deleted workspace")
    assert other.nfs.getattr(f).status == S.STALE
    other.close()


def ill_formed(good):
    rng = random.Random(1)
    yield "0 bytes", b""
    yield "1 byte", b"\1"
    yield "64 random bytes", rng.randbytes(64)
    yield "64 zero bytes", bytes(64)
    yield "64 0xff bytes", b"\xff" * 64
    yield "a shortened handle", good[:-1]
    yield "half a handle", good[: len(good) // 2]
    yield "its head only", good[:16]
    yield "a lengthened handle", (good + bytes(64))[:64]
    yield "its bytes twice", (good * 2)[:64]
    for _ in range(20):
        yield "its head and random bytes", good[:16] + rng.randbytes(len(good) - 16)


def test_B019_ill_formed_handles(w_any):
    """Bytes that are no handle are BADHANDLE for every procedure."""
    for what, f in ill_formed(w_any.nfs.mkfile(w_any.root, "f")):
        check_statuses(w_any, f, {S.BADHANDLE}, what)


def test_B019_every_bit_flipped(w_any):
    """A handle with any one bit flipped is BADHANDLE or STALE, never an object."""
    n, w = w_any.nfs, w_any
    for good in (w.root, n.mkfile(w.root, "f", b"x"), w.daemon.mnt("/").fh):
        flipped = [bytes(b ^ (1 << bit if i == at else 0) for i, b in enumerate(good))
                   for at in range(len(good)) for bit in range(8)]  # fmt: skip
        for f, r in zip(flipped, n.many([("GETATTR", f) for f in flipped])):
            assert r.status in (S.BADHANDLE, S.STALE), f"{good.hex()} as {f.hex()}: {r.status!r}"
    for f in random.Random(2).sample(flipped, 4):
        check_statuses(w, f, {S.BADHANDLE, S.STALE}, "one bit flipped")


def test_B019_handle_of_65_bytes(w):
    """A handle longer than 64 bytes cannot be decoded: GARBAGE_ARGS."""
    for call in procs_on(b"h" * 65, w.root, w.root):
        xid = next_xid()
        message = call_message(xid, 100003, 3, PROCS[call[0]][0], encode(*call), OWNER)
        with pytest.raises(RpcError, match="GARBAGE_ARGS"):
            w.nfs.conn.exchange({xid: message})[xid].result()


def test_B019_head_of_one_workspace_with_inode_of_another(w_any):
    """A handle with the workspace bytes of another workspace names nothing in either."""
    other = w_any.daemon.workspace()
    f = w_any.nfs.mkfile(w_any.root, "f", b"secret")
    g = other.nfs.mkfile(other.root, "g")
    for forged in (g[:16] + f[16:], g[:12] + f[12:], f[:4] + g[4:12] + f[12:], f[:-16] + g[-16:]):
        assert w_any.nfs.getattr(forged).status in (S.BADHANDLE, S.STALE)
    other.close()
    w_any.daemon.delete_workspace(other.id)


def test_B021_link_and_rename_across_workspaces(w_any):
    """LINK and RENAME between two workspaces are XDEV and change nothing, on one disk too."""
    n, w, other = w_any.nfs, w_any, w_any.daemon.workspace()
    f = n.mkfile(w.root, "f", b"mine")
    n.mkdir_(w.root, "d")
    other.nfs.mkfile(other.root, "f", b"theirs")
    assert n.link(f, other.root, "stolen").status == S.XDEV
    for name, to in [("f", "new"), ("f", "f"), ("d", "new"), ("d", "f"), ("f", "d")]:
        r = n.rename(w.root, name, other.root, to)
        assert r.status == S.XDEV, (name, to)
    assert n.rename(other.root, "f", w.root, "f").status == S.XDEV
    assert n.names(w.root) == [b"d", b"f"] and other.nfs.names(other.root) == [b"f"]
    assert n.data(f) == b"mine" and n.attr(f).nlink == 1
    other.close()
    w.daemon.delete_workspace(other.id)


# name: statuses of LOOKUP; of a new name (CREATE, MKDIR, SYMLINK, MKNOD, LINK, RENAME to); of REMOVE and
# RENAME from; of RMDIR
NAMES = {
    b".": (S.OK, S.EXIST, S.INVAL, {S.INVAL}),
    b"..": (S.OK, S.EXIST, S.INVAL, {S.INVAL, S.EXIST}),
    b"a/b": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"/": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"/etc": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"../x": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"x/": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"./x": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"": (S.NOENT, S.INVAL, S.INVAL, {S.INVAL}),
    b"a\0b": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"\0": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"sub\0": (S.INVAL, S.INVAL, S.INVAL, {S.INVAL}),
    b"n" * 256: (S.NAMETOOLONG, S.NAMETOOLONG, S.NAMETOOLONG, {S.NAMETOOLONG}),
    b"n" * 1000: (S.NAMETOOLONG, S.NAMETOOLONG, S.NAMETOOLONG, {S.NAMETOOLONG}),
    b"n" * 4096: (S.NAMETOOLONG, S.NAMETOOLONG, S.NAMETOOLONG, {S.NAMETOOLONG}),
    b"n" * 255: (S.NOENT, S.OK, S.NOENT, {S.NOENT}),
}


@pytest.mark.parametrize("bad", NAMES, ids=lambda b: repr(b[:8]) + str(len(b)))
def test_B022_names_that_are_no_names(w, bad):
    """Each procedure refuses a name that is none with the status the table says, and does nothing."""
    n = w.nfs
    d = n.mkdir_(w.root, "dir")
    f, sub = n.mkfile(d, "file", b"x"), n.mkdir_(d, "sub")
    before = sorted(p.name for p in w.dir.rglob("*")) if bad != b"n" * 255 else None
    look, new, old, rmdir = NAMES[bad]
    assert n.lookup(d, bad).status == look
    made = [("CREATE", d, bad), ("MKDIR", d, bad), ("SYMLINK", d, bad, "to"), ("MKNOD", d, bad, FIFO)]
    made.append(("LINK", f, d, bad))
    for call in made:
        assert n.call(*call).status == new, call[0]
        if new == S.OK:
            assert n.look(d, bad)
            n.ok("RMDIR" if call[0] == "MKDIR" else "REMOVE", d, bad)
    assert n.call("CREATE", d, bad, guarded=True).status == new
    if new == S.OK:
        n.ok("REMOVE", d, bad)
    assert n.call("CREATE", d, bad, verf=b"verifier").status == new
    if new == S.OK:
        n.ok("REMOVE", d, bad)
    assert n.remove(d, bad).status == old
    assert n.rename(d, bad, d, "ok").status == old
    assert n.rmdir(d, bad).status in rmdir
    assert n.rename(d, "file", d, bad).status == new
    if new == S.OK:
        n.ok("RENAME", d, bad, d, "file")
    assert n.look(d, "file") == f and n.look(d, "sub") == sub and n.data(f) == b"x"
    assert before is None or before == sorted(p.name for p in w.dir.rglob("*"))


def test_B022_dot_and_dotdot_resolve(w_any):
    """LOOKUP "." is the directory, ".." its parent, and ".." of the root is the root, however often."""
    n, w = w_any.nfs, w_any
    a = n.mkdir_(w.root, "a")
    b = n.mkdir_(a, "b")
    assert n.look(b, ".") == b and n.look(b, "..") == a and n.look(b, "..", "..") == w.root
    at = w.root
    for _ in range(20):
        r = n.ok("LOOKUP", at, "..")
        assert r.fh == w.root and r.attr.fileid == n.attr(w.root).fileid and r.attr.type == DIR
        at = r.fh
    for at, up in ((w.root, w.root), (a, w.root), (b, a)):
        ids = {e.name: e.fileid for e in n.walk(at)}
        assert ids[b"."] == n.attr(at).fileid and ids[b".."] == n.attr(up).fileid
    n.ok("RENAME", a, "b", w.root, "c")
    assert n.look(b, "..") == w.root
    assert n.lookup(n.mkfile(w.root, "f"), "..").status == S.NOTDIR
    assert n.lookup(n.mkfile(w.root, "g"), ".").status == S.NOTDIR


@pytest.mark.parametrize("restart", [False, True], ids=["cached", "restarted"])
def test_directory_moved_out_of_the_workspace(w_own, restart):
    """A directory that the operator moves into another workspace leads nowhere through its old handle and ".."."""
    w, n, other = w_own, w_own.nfs, w_own.daemon.workspace()
    d = n.mkdir_(w.root, "d")
    sub = n.mkdir_(d, "sub")
    f = n.mkfile(sub, "f", b"x")
    other.nfs.mkfile(other.root, "theirs", b"secret")
    with w.daemon.local():
        os.rename(w.dir / "d", other.dir / "d")
    if restart:
        w.restart()
        n = w.nfs
    seen = {n.attr(w.root).fileid: "own root"}
    for start in (d, sub):
        at = start
        for _ in range(6):
            r = n.lookup(at, "..")
            if r.status != S.OK:
                assert r.status in (S.STALE, S.XDEV, S.ACCES, S.NOENT)
                break
            assert n.lookup(r.fh, "theirs").status != S.OK and n.lookup(r.fh, "canary").status != S.OK
            assert n.lookup(r.fh, "files").status != S.OK and n.lookup(r.fh, "workspace.db").status != S.OK
            at = r.fh
        assert at in (start, d) or n.attr(at).fileid in seen
    for h in (d, sub, f):
        assert n.getattr(h).status in (S.STALE, S.OK)
    other.close()


def test_handles_below_a_closed_directory(w_own):
    """A directory of mode 0 keeps nobody from using handles of what is below it, after a restart too."""
    w, n = w_own, w_own.nfs
    d = n.mkdir_(w.root, "d")
    f = n.mkfile(d, "f", b"data")
    n.ok("SETATTR", d, mode=0)
    assert n.data(f) == b"data" and n.lookup(d, "f").status == S.ACCES and n.readdir(d).status == S.ACCES
    w.restart()
    n = w.nfs
    assert n.attr(d).mode == 0
    assert n.getattr(f).status in (S.OK, S.ACCES)  # never STALE: the client would give it up
    n.ok("SETATTR", d, mode=0o755)
    assert n.data(f) == b"data" and n.look(d, "f") == f


def test_root_of_mode_0_can_be_opened_again(w_own):
    """The owner of a workspace who closes its root can open it again, after a restart too."""
    w = w_own
    w.nfs.mkfile(w.root, "f", b"data")
    w.nfs.ok("SETATTR", w.root, mode=0)
    w.restart()
    assert w.daemon.root(w.id) == w.root and w.nfs.lookup(w.root, "f").status == S.ACCES
    w.nfs.ok("SETATTR", w.root, mode=0o755)
    assert w.nfs.data(w.nfs.look(w.root, "f")) == b"data"


def test_names_reused_many_times(w_any):
    """The same names made and removed again and again: each time a new handle, each old one STALE."""
    n, w, old = w_any.nfs, w_any, []
    for i in range(100):
        f, d = n.mkfile(w.root, "f", b"%d" % i), n.mkdir_(w.root, "d")
        assert f not in old and d not in old and n.data(f) == b"%d" % i
        if i % 2:
            n.ok("REMOVE", w.root, "f")
            n.ok("RMDIR", w.root, "d")
        else:
            with w.daemon.local():
                os.unlink(w.dir / "f")
                os.rmdir(w.dir / "d")
        old += [f, d]
    assert {r.status for r in n.many([("GETATTR", h) for h in old])} == {S.STALE}
