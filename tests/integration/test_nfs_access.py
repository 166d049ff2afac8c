# SPDX-License-Identifier: MIT
"""Who may do what: the ownership table, export rules, and other users of the same machine."""
import os
import shutil
import subprocess
import time

import pytest

from lib import mount3
from lib.daemon import IS_ROOT, STRANGER, as_uid
from lib.mount3 import M
from lib.nfs3 import A_EXECUTE, A_EXTEND, A_LOOKUP, A_MODIFY, A_READ, FIFO, OWNER, Nfs, S
from lib.rpc import AUTH_NONE, Closed, auth_sys

ROOT, OTHER = auth_sys(0, 0), auth_sys(4242, 4242)
GROUPIE = auth_sys(4243, 1000, [1000])
NOBODY_MATCHES = "198.51.100.0/24"  # a network for documentation: nobody comes from there


@pytest.mark.parametrize("cred", [OWNER, ROOT, OTHER, GROUPIE], ids=["1000", "0", "4242", "group"])
def test_squash_everyone_is_the_owner(w_any, cred):
    """Export mode squash: any uid acts as the owner, and sees the workspace's owner on everything."""
    n, w = w_any.as_(cred), w_any
    f, d = n.mkfile(w.root, "f", b"x", mode=0o600), n.mkdir_(w.root, "d", mode=0o700)
    made = [f, d]
    for proc, args in [("SYMLINK", ("l", "to")), ("MKNOD", ("p", FIFO))]:
        n.ok(proc, w.root, *args)
        made.append(n.look(w.root, args[0]))
    for h in [*made, w.root]:
        assert (n.attr(h).uid, n.attr(h).gid) == (1000, 1000)
    for e in n.walk(w.root, "READDIRPLUS"):
        assert e.attr is None or (e.attr.uid, e.attr.gid) == (1000, 1000)
    owner = w.nfs.mkfile(w.root, "private", b"data", mode=0o600)
    assert n.data(owner) == b"data" and n.ok("ACCESS", owner).access & A_MODIFY
    n.ok("SETATTR", owner, mode=0o644)
    with w.daemon.local():
        service = os.stat(w.daemon.data).st_uid
        for p in w.dir.rglob("*"):
            assert os.lstat(p).st_uid == service, p


@pytest.mark.parametrize("mode", ["squash", "match"])
def test_chown(w_any, mode):
    """chown to the owner that is shown succeeds and does nothing; any other is PERM."""
    n, w = w_any.nfs, w_any
    w.daemon.set_export(w.id, mode=mode)
    f = n.mkfile(w.root, "f", mode=0o755)
    with w.daemon.local():
        service = os.stat(w.dir).st_uid  # who owns the files on the disk is nobody to chown to
    service = 7 if service == 1000 else service
    for ok in (dict(uid=1000), dict(gid=1000), dict(uid=1000, gid=1000), dict(uid=1000, mode=0o700)):
        assert n.setattr(f, **ok).status == S.OK, ok
    for bad in (dict(uid=0), dict(gid=0), dict(uid=1001), dict(uid=1000, gid=5), dict(uid=service)):
        for cred in (OWNER, ROOT):
            assert w.as_(cred).setattr(f, **bad).status == S.PERM, bad
    for c, st in (("CREATE", S.OK), ("MKDIR", S.OK)):
        assert n.call(c, w.root, f"own{c}", uid=1000, gid=1000).status == st
        r = n.call(c, w.root, f"other{c}", uid=0, gid=0)
        assert r.status in (S.PERM, S.OK)
        if r.status == S.OK:
            assert n.attr(n.look(w.root, f"other{c}")).uid == 1000
    assert (n.attr(f).uid, n.attr(f).gid) == (1000, 1000)


# what "other" may do by the mode of a file and of a directory
OTHER_BITS = [
    (0o700, 0), (0o704, A_READ), (0o702, A_MODIFY | A_EXTEND), (0o701, A_EXECUTE), (0o770, 0),
    (0o705, A_READ | A_EXECUTE), (0o706, A_READ | A_MODIFY | A_EXTEND),
]  # fmt: skip


@pytest.mark.parametrize("cred", [OTHER, GROUPIE, AUTH_NONE, auth_sys(0xFFFFFFFE, 0, [0])],
                         ids=["4242", "group", "AUTH_NONE", "nobody"])  # fmt: skip
def test_match_others_by_mode_bits(w_any, cred):
    """Export mode match: whoever is neither 0 nor the owner has the rights of the mode's last three bits."""
    n, c, w = w_any.nfs, w_any.as_(cred), w_any
    w.daemon.set_export(w.id, mode="match")
    n.ok("SETATTR", w.root, mode=0o755)
    f, d = n.mkfile(w.root, "f", b"data"), n.mkdir_(w.root, "d")
    n.mkfile(d, "in", b"in", mode=0o644)
    denied = (S.ACCES, S.PERM)
    for mode, bits in OTHER_BITS:
        n.ok("SETATTR", f, mode=mode)
        assert c.ok("ACCESS", f).access & (A_READ | A_MODIFY | A_EXTEND | A_EXECUTE) == bits, oct(mode)
        # A client that may execute a file must be able to read it (RFC 1813 section 4.4).
        may_read = bits & (A_READ | A_EXECUTE)
        assert c.read(f, 0, 10).status == (S.OK if may_read else S.ACCES), oct(mode)
        assert c.write(f, 0, b"data").status == (S.OK if bits & A_MODIFY else S.ACCES), oct(mode)
        assert c.setattr(f, size=4).status == (S.OK if bits & A_MODIFY else S.ACCES), oct(mode)
    for mode in (0o700, 0o770, 0o705, 0o701, 0o704, 0o707):
        n.ok("SETATTR", d, mode=mode)
        r, wr, x = mode & 4, mode & 2, mode & 1
        got = c.ok("ACCESS", d).access
        assert bool(got & A_READ) == bool(r) and bool(got & A_LOOKUP) == bool(x)
        assert bool(got & A_MODIFY) == bool(wr and x) or not wr
        assert (c.lookup(d, "in").status == S.OK) == bool(x), oct(mode)
        assert (c.readdir(d).status == S.OK) == bool(r), oct(mode)
        for call in [("CREATE", d, "n1"), ("MKDIR", d, "n2"), ("SYMLINK", d, "n3", "x"), ("MKNOD", d, "n4", FIFO)]:
            assert c.call(*call).status == (S.OK if wr and x else S.ACCES), (oct(mode), call[0])
        for call in [("REMOVE", d, "n1"), ("RMDIR", d, "n2"), ("RENAME", d, "n3", d, "n5"), ("REMOVE", d, "n5")]:
            assert c.call(*call).status in ((S.OK,) if wr and x else (S.ACCES, S.NOENT)), (oct(mode), call[0])
    # what only an owner may do
    n.ok("SETATTR", f, mode=0o777)
    assert c.setattr(f, mode=0o700).status in denied and c.setattr(f, mtime=(1, 1)).status in denied
    assert c.setattr(f, uid=4242).status in denied
    assert c.setattr(f, mtime="server").status == S.OK  # whoever may write may touch
    n.ok("SETATTR", f, mode=0o755)
    assert c.setattr(f, mtime="server").status in denied
    # sticky: others' files are not for removing
    n.ok("SETATTR", d, mode=0o1777)
    assert c.remove(d, "in").status in denied and c.rename(d, "in", w.root, "x").status in denied
    assert n.attr(f).mode == 0o755


@pytest.mark.parametrize("cred", [OWNER, ROOT], ids=["1000", "0"])
def test_match_owner_and_root_are_the_owner(w, cred):
    w.daemon.set_export(w.id, mode="match")
    n = w.as_(cred)
    f = n.mkfile(w.root, "f", b"x", mode=0o600)
    n.ok("SETATTR", f, mode=0)
    assert n.data(f) == b"x"
    n.ok("SETATTR", f, mode=0o640, size=0, mtime=(1, 1))
    n.ok("REMOVE", w.root, "f")


def test_auth_none_acts_as_other_at_most(w):
    """Without a credential a client has the rights of "other", in squash mode too."""
    n, c = w.nfs, w.as_(AUTH_NONE)
    n.ok("SETATTR", w.root, mode=0o755)
    private, public = n.mkfile(w.root, "private", b"x", mode=0o600), n.mkfile(w.root, "public", b"x", mode=0o644)
    assert c.read(private, 0, 10).status == S.ACCES and c.ok("READ", public, 0, 10).data == b"x"
    assert c.write(public, 0, b"y").status == S.ACCES
    assert c.create(w.root, "new").status == S.ACCES and c.remove(w.root, "public").status == S.ACCES
    assert c.setattr(public, mode=0o777).status in (S.ACCES, S.PERM)
    assert c.ok("ACCESS", public).access & (A_MODIFY | A_EXTEND) == 0


WRITES = [
    ("SETATTR", "f"), ("WRITE", "f", 0, b"x"), ("CREATE", "root", "n1"), ("MKDIR", "root", "n2"),
    ("SYMLINK", "root", "n3", "to"), ("MKNOD", "root", "n4", FIFO), ("LINK", "f", "root", "n5"), ("RMDIR", "root", "d"),
    ("RENAME", "root", "f", "root", "g"), ("REMOVE", "root", "g"),
]  # fmt: skip
READS = [
    ("GETATTR", "f"), ("LOOKUP", "root", "f"), ("ACCESS", "f"), ("READ", "f", 0, 10), ("READLINK", "l"),
    ("READDIR", "root"), ("READDIRPLUS", "root"), ("FSSTAT", "root"), ("FSINFO", "root"), ("PATHCONF", "root"),
]  # fmt: skip


def on_handles(w, calls):
    """The calls with handles of f, d, l and the root in place of their names, where handles belong."""
    n = w.nfs
    h = {"f": n.mkfile(w.root, "f", b"data"), "root": w.root, "d": n.mkdir_(w.root, "d")}
    n.ok("SYMLINK", w.root, "l", "to")
    h["l"] = n.look(w.root, "l")
    places = {"RENAME": (1, 3), "LINK": (1, 2)}
    return [tuple(h[a] if i in places.get(c[0], (1,)) else a for i, a in enumerate(c)) for c in calls], h


def test_read_only_export(w_any):
    """A read-only export refuses every change with ROFS on the very next call, and reads as before."""
    n, w = w_any.nfs, w_any
    writes, h = on_handles(w, WRITES)
    reads = [tuple(h.get(a, a) if i == 1 else a for i, a in enumerate(c)) for c in READS]
    w.daemon.set_export(w.id, read_only=True)
    for call in writes:
        assert n.call(*call).status == S.ROFS, call[0]
    for call in reads:
        assert n.call(*call).status == S.OK, call[0]
    assert n.ok("ACCESS", h["f"]).access & (A_MODIFY | A_EXTEND) == 0
    assert w.daemon.mnt(f"/{w.id}").status == M.OK
    w.daemon.set_export(w.id, clients=[("127.0.0.0/8", True)])  # by network
    for call in writes:
        assert n.call(*call).status == S.ROFS, call[0]
    w.daemon.set_export(w.id)
    for call in writes:
        assert n.call(*call).status == S.OK, call[0]


def test_networks_are_checked_on_every_call(w_any):
    """A client whose network is taken out of the rules is ACCES on the very next call, MOUNT included."""
    n, w = w_any.nfs, w_any
    writes, h = on_handles(w, WRITES)
    reads = [tuple(h.get(a, a) if i == 1 else a for i, a in enumerate(c)) for c in READS]
    top = w.daemon.mnt("/").fh
    w.daemon.set_export(w.id, clients=[NOBODY_MATCHES])
    for call in [*writes, *reads, ("COMMIT", h["f"])]:
        assert n.call(*call).status == S.ACCES, call[0]
    assert w.daemon.mnt(f"/{w.id}").status == M.ACCES
    assert n.lookup(top, w.id).status in (S.ACCES, S.NOENT)
    assert w.id.encode() not in n.names(top) and w.id.encode() not in n.names(top, proc="READDIRPLUS")
    with w.daemon.conn() as c:
        assert f"/{w.id}".encode() not in [p for p, _ in mount3.Mount(c).export()]
    for networks in (["127.0.0.1"], ["127.0.0.0/8"], [NOBODY_MATCHES, "127.0.0.1/32"], ["*"], []):
        w.daemon.set_export(w.id, clients=networks)
        n.ok("GETATTR", h["f"])
        assert w.daemon.mnt(f"/{w.id}").status == M.OK
        w.daemon.set_export(w.id, clients=[NOBODY_MATCHES])
        assert n.getattr(h["f"]).status == S.ACCES


def test_longest_network_decides(w):
    """127.0.0.1 may write although 127.0.0.0/8 may only read; and the other way round."""
    n, f = w.nfs, w.nfs.mkfile(w.root, "f")
    w.daemon.set_export(w.id, clients=[("127.0.0.0/8", True), ("127.0.0.1", False)])
    assert n.write(f, 0, b"x").status == S.OK
    other = w.connect(source="127.0.0.5")
    assert other.write(f, 0, b"x").status == S.ROFS and other.getattr(f).status == S.OK
    w.daemon.set_export(w.id, clients=[("127.0.0.0/8", False), ("127.0.0.1", True)])
    assert n.write(f, 0, b"x").status == S.ROFS and other.write(f, 0, b"x").status == S.OK


def test_rules_survive_a_restart(fresh_any):
    w = fresh_any().workspace()
    w.daemon.set_export(w.id, mode="match", read_only=True)
    for kill in (True, False):
        w.restart(kill)
        assert w.nfs.create(w.root, "f").status == S.ROFS
    w.daemon.set_export(w.id, clients=[NOBODY_MATCHES])
    w.restart()
    assert w.nfs.getattr(w.root).status == S.ACCES
    w.close()


def test_default_rules_from_the_environment(fresh):
    """WORKSPACE_NFS_EXPORTS holds for workspaces without rules of their own."""
    d = fresh(env={"WORKSPACE_NFS_EXPORTS": f"{NOBODY_MATCHES} 127.0.0.1(ro)"})
    w = d.workspace()
    assert w.nfs.create(w.root, "f").status == S.ROFS
    d.set_export(w.id, clients=["127.0.0.1"])
    w.nfs.ok("CREATE", w.root, "f")
    w.close()


def test_bad_rules_are_refused_and_change_nothing(w):
    """What is no rule is 400; the rules in force stay."""
    url = f"/api/v1/workspaces/{w.id}/export"
    networks = ["10.0.0.1/8", "nonsense", "", "::/129", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/", "10.0.0.0/8 x", 5, None]
    bad_bodies = [dict(clients=c) for n in networks for c in ([dict(network=n)], [n])] + [
        dict(mode="everyone"), dict(mode=7), dict(read_only="yes"), dict(clients=5),
        dict(clients=["10.0.0.0/8"] * 1000), dict(clients=[[]]),
        dict(clients=[{}]), dict(clients=[None]), dict(clients=[dict(network="10.0.0.0/8", read_only=1)]), [], "x",
        dict(clients=[dict(network="10.0.0.0/8")] * 1000), {}, dict(default=False), dict(network="10.0.0.0/8"),
    ]  # fmt: skip
    for bad in bad_bodies:
        status, body = w.daemon.http("PUT", url, bad)
        assert status == 400 and body["code"] in (1001, 1002), bad
    w.nfs.ok("CREATE", w.root, "f")
    missing = "/api/v1/workspaces/00000000-0000-4000-8000-000000000000/export"
    status, body = w.daemon.http("PUT", missing, dict(mode="squash"))
    assert (status, body["code"]) == (404, 7001)


def stranger_conn(d):
    """A connection whose socket belongs to STRANGER, whoever writes to it."""
    with as_uid(STRANGER):
        return d.conn()


def is_refused(call):
    """Either an error that says so, or a closed connection."""
    try:
        return call() in (S.ACCES, M.ACCES)
    except (Closed, ConnectionError):
        return True


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
def test_other_local_users_are_refused(w_any):
    """A loopback peer of another uid gets nothing, whatever uid its credential claims and whatever handle it has."""
    w = w_any
    f = w.nfs.mkfile(w.root, "f", b"secret", mode=0o666)
    top = w.daemon.mnt("/").fh
    for cred in (ROOT, OWNER, AUTH_NONE):
        for call in [
            lambda n: n.getattr(f).status, lambda n: n.read(f, 0, 10).status, lambda n: n.write(f, 0, b"x").status,
            lambda n: n.create(w.root, "n").status, lambda n: n.lookup(w.root, "f").status,
            lambda n: n.readdirplus(w.root).status,
            lambda n: mount3.Mount(n.conn, cred).mnt(f"/{w.id}").status,
        ]:  # fmt: skip
            with stranger_conn(w.daemon) as c:
                assert is_refused(lambda: call(Nfs(c, cred)))
    with stranger_conn(w.daemon) as c:
        try:
            assert w.id.encode() not in b"".join(p for p, _ in mount3.Mount(c).export())
            assert w.id.encode() not in Nfs(c).names(top)
        except (Closed, AssertionError) as e:
            assert isinstance(e, Closed) or "READDIR" in str(e)
    assert w.nfs.data(f) == b"secret" and w.nfs.names(w.root) == [b"f"]


def test_a_refused_mount_is_logged_with_the_reason(fresh):
    """One line a second at most, which says how many it stands for; never the whole id."""
    d = fresh()
    w = d.workspace()
    d.set_export(w.id, clients=[NOBODY_MATCHES])
    before = time.monotonic()
    with d.conn() as c:
        for _ in range(20):
            assert is_refused(lambda: mount3.Mount(c).mnt(f"/{w.id}").status)
    lines = [line for line in d.log_text().splitlines() if "mount refused" in line]
    assert 1 <= len(lines) <= time.monotonic() - before + 1
    assert f"path=/{w.id[:8]} " in lines[0] and "in no rule" in lines[0] and w.id not in lines[0]


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
def test_a_refused_local_user_is_logged_with_the_uid(fresh):
    d = fresh()
    w = d.workspace()
    with stranger_conn(d) as c:
        assert is_refused(lambda: mount3.Mount(c).mnt(f"/{w.id}").status)
    assert f"uid {STRANGER} is not in WORKSPACE_LOCAL_UIDS" in d.log_text()


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
def test_local_uids_that_are_let_in(fresh):
    """WORKSPACE_LOCAL_UIDS lists further users; network rules hold for them all the same."""
    d = fresh(env={"WORKSPACE_LOCAL_UIDS": f"777,{STRANGER}"})
    w = d.workspace()
    with stranger_conn(d) as c:
        n = Nfs(c, auth_sys(STRANGER, STRANGER))
        assert mount3.Mount(c).mnt(f"/{w.id}").fh == w.root
        assert n.data(n.mkfile(w.root, "f", b"mine")) == b"mine"
        d.set_export(w.id, clients=[NOBODY_MATCHES])
        assert n.getattr(w.root).status == S.ACCES
    with as_uid(STRANGER + 1), d.conn() as c:
        assert is_refused(lambda: Nfs(c).getattr(w.root).status)
    w.close()


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
@pytest.mark.skipif(shutil.which("setpriv") is None or shutil.which("nfs-ls") is None, reason="needs setpriv, nfs-ls")
def test_other_local_users_programs_are_refused(w):
    """The same with a real program of that user: libnfs's nfs-ls, started by setpriv."""
    url = f"nfs://127.0.0.1/{w.id}?version=3&nfsport={w.daemon.nfs_port}&mountport={w.daemon.nfs_port}"
    for uid, fine in ((STRANGER, False), (0, True)):
        r = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "nfs-ls", url],
                           capture_output=True, timeout=30, cwd="/")  # fmt: skip
        assert (r.returncode == 0) == fine, r.stderr
