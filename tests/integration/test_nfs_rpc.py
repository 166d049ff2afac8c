# SPDX-License-Identifier: MIT
"""The RPC layer and MOUNT, one test for each field report of the group NFS-RPC and its siblings."""
import shutil
import subprocess

import pytest

from lib import mount3, nfs3
from lib.daemon import IS_ROOT, STRANGER, can_mount
from lib.mount3 import M
from lib.nfs3 import DIR, FIFO, OWNER, PROCS, S, encode
from lib.rpc import AUTH_NONE, Closed, RpcError, auth_sys, call_message, next_xid, opaque, record, u32

NFS, MNT, NLM, NFS_ACL = 100003, 100005, 100021, 100227


@pytest.mark.parametrize(
    "prog, vers, proc, kind, low_high",
    [
        (NFS, 4, 0, "PROG_MISMATCH", (3, 3)),
        (NFS, 4, 1, "PROG_MISMATCH", (3, 3)),
        (NFS, 2, 0, "PROG_MISMATCH", (3, 3)),
        (NFS, 0, 0, "PROG_MISMATCH", (3, 3)),
        (NFS, 0xFFFFFFFF, 6, "PROG_MISMATCH", (3, 3)),
        (MNT, 4, 0, "PROG_MISMATCH", None),
        (MNT, 0, 1, "PROG_MISMATCH", None),
        (NLM, 4, 0, "PROG_UNAVAIL", None),
        (NFS_ACL, 3, 0, "PROG_UNAVAIL", None),
        (0, 0, 0, "PROG_UNAVAIL", None),
        (0xFFFFFFFF, 3, 0, "PROG_UNAVAIL", None),
        (NFS, 3, 22, "PROC_UNAVAIL", None),
        (NFS, 3, 99, "PROC_UNAVAIL", None),
        (NFS, 3, 0xFFFFFFFF, "PROC_UNAVAIL", None),
        (MNT, 3, 6, "PROC_UNAVAIL", None),
        (MNT, 3, 0xFFFFFFFF, "PROC_UNAVAIL", None),
    ],
)
def test_B002_program_version_procedure(w, prog, vers, proc, kind, low_high):
    """Each kind of unknown has its own answer, with the real versions; the connection stays usable."""
    reply = w.nfs.conn.call(prog, vers, proc, b"", OWNER)
    assert reply.kind == kind
    if kind == "PROG_MISMATCH":
        assert reply.high == 3 and reply.low in ((3,) if prog == NFS else (1, 3))
    assert low_high is None or (reply.low, reply.high) == low_high
    w.nfs.ok("GETATTR", w.root)


def test_B002_mount_version_1(w):
    """MOUNT version 1 is either not there or serves UMNT, which old umount programs send."""
    for proc in (0, 3, 4):
        reply = w.nfs.conn.call(MNT, 1, proc, opaque(b"/" + w.id.encode()) if proc == 3 else b"", OWNER)
        assert reply.kind in ("SUCCESS", "PROG_MISMATCH") and reply.body == b""


def good_args(w):
    """Arguments of each procedure that decode."""
    f, name = w.root, b"name"
    rest = {"SETATTR": (f,), "READ": (f, 0, 10), "WRITE": (f, 0, b"data"), "SYMLINK": (f, name, b"to"),
            "MKNOD": (f, name, FIFO), "RENAME": (f, name, f, b"other"), "LINK": (f, f, name), "NULL": ()}
    one = ("GETATTR", "ACCESS", "READLINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT")
    return {p: encode(p, *rest.get(p, (f,) if p in one else (f, name))) for p in PROCS}


def test_B002_truncated_arguments_are_garbage(w):
    """Arguments cut anywhere, or with bytes left over, are GARBAGE_ARGS; nothing is done."""
    sent = {}
    for proc, args in good_args(w).items():
        if proc == "NULL":
            continue
        for bad in [args[:cut] for cut in range(0, len(args), 4)] + [args + bytes(4), args[:-1], args[:-3]]:
            sent[next_xid()] = (proc, bad)
    messages = {x: call_message(x, NFS, 3, PROCS[p][0], a, OWNER) for x, (p, a) in sent.items()}
    for xid, reply in w.nfs.conn.exchange(messages).items():
        proc, bad = sent[xid]
        assert reply.kind == "GARBAGE_ARGS", f"{proc} with {len(bad)} bytes: {reply.kind}"
    assert w.nfs.names(w.root) == []


@pytest.mark.parametrize("rpcvers", [0, 1, 3, 0xFFFFFFFF])
def test_B003_rpc_version(w, rpcvers):
    """An RPC version other than 2 is MSG_DENIED, RPC_MISMATCH 2..2, and is not run."""
    xid = next_xid()
    args = encode("MKDIR", w.root, "made")
    w.nfs.conn.send_raw(record(call_message(xid, NFS, 3, 9, args, OWNER, rpcvers=rpcvers)))
    reply = w.nfs.conn.wait(xid)
    assert (reply.kind, reply.low, reply.high) == ("RPC_MISMATCH", 2, 2)
    assert w.nfs.names(w.root) == []


@pytest.mark.parametrize("mtype", [1, 2, 0xFFFFFFFF])
def test_B003_reply_sent_to_the_server(w, mtype):
    """A REPLY, or no message type at all, is ignored or ends the connection."""
    n = w.connect()
    n.conn.send_raw(record(call_message(next_xid(), NFS, 3, 9, encode("MKDIR", w.root, "made"), OWNER, mtype=mtype)))
    try:
        n.ok("GETATTR", w.root)
    except Closed:
        pass
    assert w.nfs.names(w.root) == []


@pytest.mark.parametrize(
    "cred, kinds",
    [
        ((6, b"gss-token-bytes."), ("AUTH_ERROR",)),
        ((2, bytes(8)), ("AUTH_ERROR",)),
        ((0xFFFFFFFF, b""), ("AUTH_ERROR",)),
        ((1, b""), ("AUTH_ERROR",)),
        ((1, bytes(7 * 4 + 4)), ("AUTH_ERROR",)),
        (auth_sys(0, 0, range(17)), ("AUTH_ERROR",)),
        (auth_sys(0, 0, (), b"m" * 256), ("AUTH_ERROR",)),
        (auth_sys(1000, 1000, range(16), b"m" * 255), ("SUCCESS",)),
        ((0, b"not empty but harmless.."), ("AUTH_ERROR", "SUCCESS")),
    ],
)
def test_B003_credentials(w, cred, kinds):
    """A credential that is not understood is AUTH_ERROR; the largest legal AUTH_SYS is fine."""
    assert w.nfs.conn.call(NFS, 3, 1, encode("GETATTR", w.root), cred).kind in kinds
    w.nfs.ok("GETATTR", w.root)


def test_B003_credential_longer_than_400_bytes(w):
    """RFC 5531 section 8.2: at most 400 bytes; more is an error or a closed connection."""
    n = w.connect()
    try:
        assert n.conn.call(NFS, 3, 0, b"", (1, bytes(404))).kind == "AUTH_ERROR"
    except Closed:
        pass


def test_B005_mount_statuses(w):
    """Every cause of a failed MNT has its own status; sub-directories work and never lead above the workspace."""
    sub = w.nfs.mkdir_(w.root, "sub")
    w.nfs.mkfile(w.root, "file", b"x")
    w.nfs.ok("SYMLINK", w.root, "out", "/etc")
    w.nfs.ok("SYMLINK", w.root, "up", "..")
    other, i = w.daemon.create_workspace(), w.id
    cases = [
        (f"/{i}", M.OK), (f"/{i}/", M.OK), (f"//{i}", M.OK), (f"/{i}/sub", M.OK), (f"/{i}/sub/", M.OK),
        (f"/{i}//sub/.", M.OK), ("/", M.OK), (f"/{i}/file", M.NOTDIR), (f"/{i}/file/x", M.NOTDIR),
        (f"/{i}/nope", M.NOENT), (f"/{i}/nope/deeper", M.NOENT), ("/nope", M.NOENT), (f"/{i[:-1]}", M.NOENT),
        (f"/{i}\0", M.INVAL), (f"/{i}/sub\0x", M.INVAL), (b"/" + b"n" * 1024, M.NAMETOOLONG),
        (b"/" + b"n" * 300, {M.NOENT, M.NAMETOOLONG}), (f"/{i}/" + "n" * 256, M.NAMETOOLONG),
        (f"/{i}/..", {M.OK, M.ACCES, M.INVAL, M.NOENT}), (f"/{i}/../{other}", {M.ACCES, M.INVAL, M.NOENT}),
        (f"/{i}/sub/../../{other}", {M.ACCES, M.INVAL, M.NOENT}), (f"/{i}/out", {M.ACCES, M.NOTDIR, M.INVAL, M.NOENT}),
        (f"/{i}/up", {M.ACCES, M.NOTDIR, M.INVAL, M.NOENT}), (b"", {M.NOENT, M.INVAL, M.ACCES}),
        (i, {M.OK, M.NOENT, M.INVAL, M.ACCES}), (f"/{i}/" + "a/" * 500, {M.NOENT, M.NAMETOOLONG}),
    ]  # fmt: skip
    for path, want in cases:
        first, again = w.daemon.mnt(path), w.daemon.mnt(path)
        assert first == again, f"{path!r} answers differently the second time"
        assert first.status in (want if isinstance(want, set) else {want}), f"{path!r}: {first.status!r}"
        if first.status == M.OK:
            a = w.nfs.attr(first.fh)
            assert a.type == DIR and 1 in first.flavors
    assert w.daemon.mnt(f"/{i}/sub").fh == sub
    # From a sub-directory mount ".." leads to the workspace's root and stops there.
    up = w.nfs.look(w.daemon.mnt(f"/{i}/sub").fh, "..")
    assert up == w.root and w.nfs.look(up, "..") == w.root
    w.daemon.delete_workspace(other)


def test_B005_mount_path_over_the_limit(w):
    """1024 bytes is the longest dirpath (MNTPATHLEN): more is refused, in whichever of the two ways."""
    for size in (1025, 2000, 4096, 5000, 100000):
        try:
            assert w.daemon.mnt(b"/" * size).status == M.NAMETOOLONG
        except RpcError as e:
            assert e.kind == "GARBAGE_ARGS"
    assert w.daemon.mnt(f"/{w.id}").status == M.OK


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
@pytest.mark.skipif(shutil.which("nfs-ls") is None, reason="needs nfs-ls (libnfs-utils)")
def test_B006_libnfs_as_an_ordinary_user(fresh):
    """libnfs's tools, from a source port above 1023 and as a user that is let in, list, copy and print."""
    d = fresh(env={"WORKSPACE_LOCAL_UIDS": str(STRANGER)})
    w = d.workspace()
    w.nfs.mkfile(w.root, "some file", b"content\n", mode=0o644)
    w.nfs.mkdir_(w.root, "folder")

    def run(tool, path, *more):
        url = f"nfs://127.0.0.1/{w.id}{path}?version=3&nfsport={d.nfs_port}&mountport={d.nfs_port}"
        return subprocess.run([tool, *more, url], user=STRANGER, group=STRANGER, extra_groups=[], timeout=30,
                              cwd="/", capture_output=True)  # fmt: skip

    r = run("nfs-ls", "")
    assert r.returncode == 0, r.stderr
    assert b"some file" in r.stdout and b"folder" in r.stdout
    r = run("nfs-cat", "/some file")
    assert (r.returncode, r.stdout) == (0, b"content\n"), r.stderr
    assert run("nfs-cp", "/copied", "/etc/hostname").returncode == 0
    with open("/etc/hostname", "rb") as f:
        assert w.nfs.data(w.nfs.look(w.root, "copied")) == f.read()
    w.close()


def test_B007_both_programs_interleaved(w):
    """MOUNT and NFS calls may come mixed on one connection of one port."""
    n = w.connect()
    m = mount3.Mount(n.conn)
    for _ in range(3):
        m.null()
        f = m.mnt(f"/{w.id}").fh
        n.null()
        assert n.attr(f).type == DIR
        assert any(path == b"/" + w.id.encode() for path, _ in m.export())
        m.umnt(f"/{w.id}")


def mixed_calls(w, count):
    f, d = w.nfs.mkfile(w.root, "f", bytes(100000)), w.nfs.mkdir_(w.root, "d")
    kinds = [
        ("GETATTR", f), ("LOOKUP", w.root, "f"), ("READ", f, 0, 65536), ("WRITE", f, 4096, b"w" * 8192),
        ("ACCESS", d), ("READDIRPLUS", w.root), ("COMMIT", f), ("FSSTAT", w.root), ("LOOKUP", d, "nothing"),
        ("WRITE", f, 0, b"s" * 512, nfs3.UNSTABLE),
    ]  # fmt: skip
    return [kinds[i % len(kinds)] for i in range(count)] + [("MKDIR", d, f"n{i}") for i in range(20)]


def test_B008_many_calls_in_flight(w):
    """500 mixed calls in one burst: every xid is answered once, each with a whole and right reply."""
    calls = mixed_calls(w, 480)
    for call, r in zip(calls, w.nfs.many(calls)):
        assert r.status == (S.NOENT if call[-1] == "nothing" else S.OK), call
        if call[0] == "READ":
            assert r.count == 65536


def test_B008_calls_in_every_kind_of_pieces(w):
    """A stream cut into single bytes, many small fragments or with empty ones between means the same."""
    for fragment in (1, 3, 7, 64):
        xid = next_xid()
        w.nfs.conn.send_raw(record(call_message(xid, NFS, 3, 1, encode("GETATTR", w.root), OWNER), fragment))
        assert w.nfs.conn.wait(xid).kind == "SUCCESS"
    xids = [next_xid() for _ in range(4)]
    stream = b"".join(record(call_message(x, NFS, 3, 1, encode("GETATTR", w.root), OWNER)) for x in xids)
    for i in range(len(stream)):
        w.nfs.conn.send_raw(stream[i : i + 1])
    for x in xids:
        assert w.nfs.conn.wait(x).kind == "SUCCESS"
    xid = next_xid()
    w.nfs.conn.send_raw(u32(0) * 3 + record(call_message(xid, NFS, 3, 0)))
    assert w.nfs.conn.wait(xid).kind == "SUCCESS"


RETRIED = {
    "MKDIR": ("MKDIR", "new"),
    "CREATE guarded": ("CREATE", "new"),
    "SYMLINK": ("SYMLINK", "new", "target"),
    "MKNOD": ("MKNOD", "new", FIFO),
    "REMOVE": ("REMOVE", "file"),
    "RMDIR": ("RMDIR", "dir"),
    "RENAME": ("RENAME", "file", "root", "renamed"),
    "LINK": ("LINK", "new"),
}


@pytest.mark.parametrize("where", ["same connection", "new connection"])
@pytest.mark.parametrize("what", RETRIED)
def test_B010_retransmission(w, what, where):
    """A non-idempotent call sent again with its xid gets the first answer, and is not run again."""
    f = w.nfs.mkfile(w.root, "file")
    w.nfs.mkdir_(w.root, "dir")
    proc, *args = RETRIED[what]
    args = [w.root if a == "root" else a for a in args]
    args = [f, w.root, *args] if proc == "LINK" else [w.root, *args]
    kw = {"guarded": True} if what == "CREATE guarded" else {}
    xid = next_xid()
    first = w.nfs.call(proc, *args, xid=xid, **kw)
    again = (w.nfs if where == "same connection" else w.connect()).call(proc, *args, xid=xid, **kw)
    assert first.status == S.OK and again == first
    # With another xid it is a call of its own.
    fresh = w.nfs.call(proc, *args, **kw)
    assert fresh.status == (S.NOENT if proc in ("REMOVE", "RMDIR", "RENAME") else S.EXIST)


def test_B010_burst_of_the_same_call(w):
    """Five copies at once on each of two connections: the call is run once and nobody hears EXIST."""
    xid, conns, seen = next_xid(), [w.nfs.conn, w.connect().conn], []
    message = record(call_message(xid, NFS, 3, 9, encode("MKDIR", w.root, "once"), OWNER))
    for conn in conns:
        conn.send_raw(message * 5)
        conn.sock.settimeout(0.5)
    for conn in conns:
        for _ in range(20):  # a copy that comes while the first still runs may be dropped: then as a client would
            try:
                seen.append(conn.recv())
                break
            except TimeoutError:
                conn.send_raw(message)
    assert len(seen) == 2
    assert {nfs3.decode("MKDIR", r.result()).status for r in seen} == {S.OK}
    assert w.connect().names(w.root) == [b"once"]


def test_B010_xid_used_by_another_call(w):
    """A different call with the same xid is not answered from the cache."""
    xid = next_xid()
    assert w.nfs.call("MKDIR", w.root, "a", xid=xid).status == S.OK
    assert w.nfs.call("MKDIR", w.root, "b", xid=xid).status == S.OK
    assert w.nfs.call("REMOVE", w.root, "a", xid=xid).status == S.ISDIR
    assert w.nfs.call("RMDIR", w.root, "a", xid=xid).status == S.OK
    assert w.nfs.call("GETATTR", w.root, xid=xid).status == S.OK
    other = w.as_(auth_sys(4321, 4321))
    assert w.nfs.names(w.root) == [b"b"]
    assert other.call("RMDIR", w.root, "b", xid=next_xid()).status == S.OK


def test_B013_file_size_limit(fresh):
    """A WRITE that the system refuses is answered with its error alone; others on the connection go on."""
    d = fresh(launcher=["prlimit", f"--fsize={64 << 20}"])
    w = d.workspace()
    f, g = w.nfs.mkfile(w.root, "big"), w.nfs.mkfile(w.root, "small")
    calls = []
    for i in range(100):
        calls += [("WRITE", f, (64 << 20) + i, b"x" * 100), ("WRITE", g, i * 100, b"y" * 100), ("GETATTR", w.root)]
    res = w.nfs.many(calls)
    assert {r.status for r in res[0::3]} == {S.FBIG}
    assert {r.status for r in res[1::3] + res[2::3]} == {S.OK}
    assert w.nfs.data(g) == b"y" * 10000 and w.nfs.attr(f).size == 0
    assert w.nfs.call("SETATTR", f, size=65 << 20).status == S.FBIG
    assert d.alive()
    w.close()


@pytest.mark.skipif(not can_mount(), reason="needs root that may mount a small tmpfs")
def test_B013_full_disk(fresh, reachable):
    """On a full file system WRITE and CREATE answer NOSPC; reading, removing and other files go on."""
    base = reachable / "small"
    base.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", base], check=True)
    try:
        d = fresh(base=base)
        w = d.workspace()
        f, keep = w.nfs.mkfile(w.root, "f"), w.nfs.mkfile(w.root, "keep", b"kept")
        res = w.nfs.many([("WRITE", f, i << 20, bytes(1 << 20)) for i in range(40)])
        got = {r.status for r in res}
        assert got == {S.OK, S.NOSPC}, got
        assert sum(r.count for r in res if r.status == S.OK) < 24 << 20
        assert w.nfs.data(keep) == b"kept"
        assert w.nfs.ok("FSSTAT", w.root).abytes < 2 << 20
        w.nfs.ok("REMOVE", w.root, "f")
        assert w.nfs.mkfile(w.root, "again", bytes(1 << 20))
        w.close()
        d.stop()
    finally:
        subprocess.run(["umount", "-l", base], check=True)


def test_null_needs_no_credential(w):
    """NULL of both programs answers whoever asks."""
    for prog in (NFS, MNT):
        for cred in (AUTH_NONE, OWNER):
            reply = w.nfs.conn.call(prog, 3, 0, b"", cred)
            assert (reply.kind, reply.body) == ("SUCCESS", b"")


def test_ipv6_loopback(fresh):
    """Bound to ::, the server answers on both protocols, and knows who a local peer is on each."""
    d = fresh(env={"WORKSPACE_NFS_BIND": "::1"})
    w_id = d.create_workspace()
    with d.conn(host="::1") as c:
        root = mount3.Mount(c).mnt(f"/{w_id}")
        assert root.status == M.OK and nfs3.Nfs(c).attr(root.fh).type == DIR
