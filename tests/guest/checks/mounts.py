# SPDX-License-Identifier: MIT
"""What can be mounted, how, and what the client is told when it cannot.  These checks mount by themselves."""
import contextlib
import errno
import os
import pathlib
import subprocess

from guestlib import OWNER, check, equal, fails_with, host, in_child, sh

HOST = os.environ.get("NFS_HOST", "")
EXPORT = os.environ.get("NFS_EXPORT", "")
OPTS = os.environ.get("NFS_OPTS", "")
PORT = os.environ.get("NFS_PORT", "")


def try_mount(export, options=OPTS, where="/mnt/m"):
    """mount(8): (status, what it said); never longer than 15 seconds"""
    os.makedirs(where, exist_ok=True)
    p = subprocess.run(["timeout", "-k", "1", "15", "mount", "-t", "nfs", "-o", f"{options},retry=0", f"{HOST}:{export}",
                        where], capture_output=True, text=True)
    return p.returncode, p.stderr.strip()


@contextlib.contextmanager
def mounted(export=EXPORT, options=OPTS, where="/mnt/m"):
    code, text = try_mount(export, options, where)
    assert code == 0, f"mount {export} ({options}): {code} {text}"
    try:
        yield pathlib.Path(where)
    finally:
        sh(f"cd /; umount {where}", timeout=20)


@check()
def the_documented_line(d):
    with mounted() as m:
        (m / "f").write_text("x")
        equal(host("read", "f"), "x", "on the server")
        host("remove", "f")


@check()
def the_root_lists_the_workspaces_and_is_read_only(d):
    with mounted("/") as m:
        names = os.listdir(m)
        assert EXPORT[1:] in names, names
        for act in (lambda: (m / "new").mkdir(), lambda: (m / "new").write_text("x"), lambda: os.rmdir(m / EXPORT[1:]),
                    lambda: os.chmod(m, 0o777)):
            with fails_with(errno.EROFS, errno.EACCES, errno.EPERM):
                act()
        assert os.statvfs(m).f_blocks >= 0
        equal(os.listdir(m), names, "names afterwards")


@check()
def a_workspace_is_entered_through_the_root(d):
    host("write", "through", "root")
    with mounted("/") as m:
        try:
            text = (m / EXPORT[1:] / "through").read_text()
        except OSError as e:  # it may be left to a mount of its own, if it says so
            assert e.errno in (errno.EXDEV, errno.EACCES, errno.EREMOTE), e
        else:
            equal(text, "root", "content")
    host("remove", "through")


@check()
def sub_directories(d):
    host("mkdir", "sub")
    host("mkdir", "sub/sub sub")
    host("write", "sub/sub sub/f", "deep")
    host("symlink", "sub", "link")
    with mounted(f"{EXPORT}/sub") as m:
        equal(os.listdir(m), ["sub sub"], "names")
        (m / "g").write_text("x")
        equal(host("read", "sub/g"), "x", "on the server")
        equal(os.path.samefile(m / "..", "/mnt"), True, "the folder above")
    with mounted(f"{EXPORT}/sub/sub sub/") as m:
        equal((m / "f").read_text(), "deep", "content")
    for bad in (f"{EXPORT}/missing", f"{EXPORT}/sub/sub sub/f", f"{EXPORT}/../..", f"{EXPORT}/sub/../../..", "/..",
                "/etc", "/00000000-0000-4000-8000-000000000000", "/" + "x" * 1000, f"{EXPORT}x"):
        code, text = try_mount(bad)
        if code == 0:
            names = os.listdir("/mnt/m")
            sh("umount /mnt/m")
            raise AssertionError(f"{bad[:80]} could be mounted: {names[:5]}")
        assert code == 32, f"{bad[:80]}: {code} {text}"
        assert "No such file" in text or "not a directory" in text.lower() or "denied" in text or "too long" in text, text
    for name in ("sub", "link"):
        host("remove_tree" if name == "sub" else "remove", name)


@check()
def version_4_fails_within_seconds(d):
    for options in (f"vers=4,port={PORT}", f"vers=4.2,port={PORT}", f"vers=4.0,port={PORT}"):
        code, text = try_mount(EXPORT, options)
        assert code == 32, f"{options}: {code} {text}"


@check()
def udp_fails_within_seconds(d):
    code, text = try_mount(EXPORT, OPTS.replace("tcp", "udp"))
    assert code not in (0, 124), (code, text)


@check(timeout=120)
def without_nolock_mount_says_what_to_do(d):
    # no lock manager is offered: mount.nfs looks for rpc.statd and names the way out
    code, text = try_mount(EXPORT, ",".join(o for o in OPTS.split(",") if o != "nolock"))
    if code == 0:
        sh("umount /mnt/m")
    assert code == 32 and "nolock" in text, (code, text)


@check(timeout=200)
def locks_without_nolock_hang_alone(d):
    # where rpc.statd runs the mount succeeds, and who locks waits for a lock manager: as docs/nfs.md says
    sh("rpcbind; rpc.statd")
    with mounted(options=",".join(o for o in OPTS.split(",") if o != "nolock")) as m:
        (m / "f").write_text("x")
        p = subprocess.run(["timeout", "-s", "KILL", "4", "flock", str(m / "f"), "true"], capture_output=True)
        assert p.returncode != 0, "a lock was given by nobody"
        equal((m / "f").read_text(), "x", "other calls go on")
        os.unlink(m / "f")


@check()
def a_read_only_export(d):
    host("write", "f", "x")
    with mounted() as m:
        host("set_export", dict(read_only=True))
        try:
            equal((m / "f").read_text(), "x", "content")
            for act in (lambda: (m / "new").write_text("x"), lambda: (m / "new").mkdir(), lambda: os.unlink(m / "f"),
                        lambda: os.rename(m / "f", m / "g"), lambda: os.chmod(m / "f", 0),
                        lambda: os.link(m / "f", m / "g"), lambda: os.symlink("f", m / "g"),
                        lambda: os.utime(m / "f", (1, 1)), lambda: os.mkfifo(m / "g")):
                with fails_with(errno.EROFS):
                    act()
            # here the client asks ACCESS first, which can only say "not allowed", and gives up by itself
            for act in (lambda: os.open(m / "f", os.O_WRONLY), lambda: os.truncate(m / "f", 0)):
                with fails_with(errno.EROFS, errno.EACCES):
                    act()
            assert not os.access(m / "f", os.W_OK)
        finally:
            host("set_export", {})
        (m / "new").write_text("y")
        equal(host("read", "new"), "y", "once it may be written again")
    host("remove", "new")
    host("remove", "f")


@check()
def a_read_only_mount(d):
    with mounted(options=f"{OPTS},ro") as m, fails_with(errno.EROFS):
        (m / "f").write_text("x")


@check()
def mode_match_lets_others_in_by_their_bits(d):
    host("set_export", dict(mode="match"))
    try:
        with mounted() as m:
            (m / "private").write_text("x")  # root acts as the owner
            os.chmod(m / "private", 0o600)
            (m / "public").write_text("x")
            os.chmod(m / "public", 0o644)
            os.chmod(m, 0o755)

            def as_user(uid):
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)

            def owner():
                as_user(OWNER)
                equal((m / "private").read_text(), "x", "the owner's view")
                (m / "mine").write_text("x")

            def other():
                as_user(OWNER + 1)
                equal((m / "public").read_text(), "x", "a public file")
                for act in (lambda: (m / "private").read_text(), lambda: (m / "public").write_text("y"),
                            lambda: (m / "new").write_text("y"), lambda: os.unlink(m / "public")):
                    with fails_with(errno.EACCES, errno.EPERM):
                        act()
                with fails_with(errno.EPERM, errno.EACCES):
                    os.chmod(m / "public", 0o777)

            in_child(owner)()
            in_child(other)()
            sh(f"rm -f {m}/private {m}/public {m}/mine")
    finally:
        host("set_export", {})


@check()
def many_mounts_of_everything_come_and_go(d):
    for i in range(8):
        with mounted(where="/mnt/a"), mounted("/", where="/mnt/b"), mounted(options=f"{OPTS},nosharecache",
                                                                          where="/mnt/c") as c:
            (c / "f").write_text(str(i))
            os.unlink(c / "f")


@check()
def small_transfer_sizes(d):
    for size in (1024, 4096, 32768):
        with mounted(options=f"{OPTS},rsize={size},wsize={size},nosharecache") as m:
            data = os.urandom(100_000)
            (m / "f").write_bytes(data)
            sh("echo 3 >/proc/sys/vm/drop_caches")
            assert (m / "f").read_bytes() == data, f"content with rsize={size}"
            os.unlink(m / "f")


@check(timeout=120)
def several_connections(d):
    with mounted(options=f"{OPTS},nconnect=4,nosharecache") as m:
        def work(n):
            for i in range(30):
                (m / f"f{n}-{i}").write_bytes(bytes([n]) * 50_000)
                assert (m / f"f{n}-{i}").read_bytes() == bytes([n]) * 50_000
                os.unlink(m / f"f{n}-{i}")

        for wait in [in_child(work, n) for n in range(4)]:
            wait()
        equal([n for n in os.listdir(m) if n.startswith("f")], [], "names")


@check(timeout=120)
def another_security_flavour_is_refused_or_served(d):
    # AUTH_NONE acts as "other" at most; krb5 has nothing to talk to
    code, text = try_mount(EXPORT, f"{OPTS},sec=krb5")
    assert code not in (0, 124), (code, text)
    code, text = try_mount(EXPORT, f"{OPTS},sec=none")
    if code == 0:
        try:
            with fails_with(errno.EACCES, errno.EPERM, errno.EROFS):
                pathlib.Path("/mnt/m/new").write_text("x")
        finally:
            sh("umount /mnt/m")
    assert code in (0, 32), (code, text)
