# SPDX-License-Identifier: MIT
"""The server is killed with SIGKILL and started again on its port while the client works: a hard mount goes on.

What may be seen of it: a call that is not idempotent (CREATE with O_EXCL, MKDIR, REMOVE, RENAME, LINK) and was done but
not yet answered is sent again to a server that remembers nothing, and then reports EEXIST or ENOENT.
"""
import errno
import hashlib
import mmap
import os
import pathlib
import random
import sqlite3
import time

from guestlib import check, drop_caches, equal, host, in_child, inside, poll, sh

N_KILLS = int(os.environ.get("RESTARTS") or 3)


# What the children of a check share with it: [0] is set when they shall end, [n] changes with each turn of child n.
shared = mmap.mmap(-1, 64)


def working(n):
    """In child n, at the begin of each turn: whether there shall be one."""
    shared[n] = (shared[n] + 1) % 256
    return not shared[0]


def restart_while(*functions):
    """Runs function(n) in child n = 1, 2, … and kills and restarts the server N_KILLS times, each time after every child
    has made two turns since the last time, so that all are in the middle of something.  Then waits for them."""
    shared[:] = bytes(64)
    children = [in_child(function, n) for n, function in enumerate(functions, 1)]
    for _ in range(N_KILLS):
        for _ in range(2):
            before = bytes(shared)
            poll("the children to go on", lambda: all(shared[n] != before[n] for n in range(1, len(functions) + 1)))
        host("kill_and_restart")
    shared[0] = 1
    for wait in children:
        wait()


@check(timeout=300)
def handles_stay_valid(d):
    os.makedirs("a/b")
    pathlib.Path("a/b/f").write_text("content")
    os.symlink("b", "a/l")
    os.rename("a", "renamed")
    fd = os.open("renamed/b/f", os.O_RDWR)
    os.chdir("renamed/b")
    before = [(n, os.lstat(n).st_ino) for n in (".", "f", "..", "../l")]
    device = os.stat(".").st_dev
    host("kill_and_restart")
    drop_caches()
    equal([(n, os.lstat(n).st_ino) for n in (".", "f", "..", "../l")], before, "inode numbers")
    equal(os.stat(".").st_dev, device, "device")
    equal(os.pread(fd, 100, 0), b"content", "what was open")
    os.pwrite(fd, b"CON", 0)
    os.fsync(fd)
    os.close(fd)
    equal(pathlib.Path("f").read_text(), "CONtent", "by name")
    pathlib.Path("new").write_text("new")
    equal(sorted(os.listdir(".")), ["f", "new"], "names")


@check(timeout=300)
def handles_stay_valid_over_a_rename_while_the_server_is_down(d):
    os.makedirs("a/b")
    pathlib.Path("a/b/f").write_text("content")
    fd = os.open("a/b/f", os.O_RDONLY)
    os.chdir("a/b")
    drop_caches()
    host("kill")
    host("rename", inside(d / "a"), inside(d / "moved"))
    host("start")
    equal(os.pread(fd, 100, 0), b"content", "what was open")
    pathlib.Path("new").write_text("new")
    equal(sorted(os.listdir(d / "moved" / "b")), ["f", "new"], "names")
    os.close(fd)


@check(timeout=300)
def synced_bytes_are_there_and_nobody_sees_an_error(d):
    def writer(n):
        r = random.Random(n)
        fd = os.open(f"w{n}", os.O_RDWR | os.O_CREAT, 0o644)
        twin = bytearray(400_000)
        os.ftruncate(fd, len(twin))
        while working(n):
            for _ in range(10):
                at = r.randrange(len(twin) - 20000)
                data = r.randbytes(r.randrange(1, 20000))
                os.pwrite(fd, data, at)
                twin[at : at + len(data)] = data
            os.fsync(fd)
        os.close(fd)
        pathlib.Path(f"w{n}.sum").write_text(hashlib.sha256(twin).hexdigest())

    restart_while(*[writer] * 4)
    drop_caches()
    for n in range(1, 5):
        want = pathlib.Path(f"w{n}.sum").read_text()
        equal(hashlib.sha256(pathlib.Path(f"w{n}").read_bytes()).hexdigest(), want, f"w{n} read again")
        equal(host("sha256", inside(d / f"w{n}")), want, f"w{n} on the server")


@check(timeout=300)
def what_was_synced_before_the_kill_is_on_disk_after_it(d):
    for i in range(2):
        fd = os.open(f"f{i}", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, bytes([i + 65]) * 3_000_000)
        os.fsync(fd)
        host("kill")
        equal(host("sha256", inside(d / f"f{i}")), hashlib.sha256(bytes([i + 65]) * 3_000_000).hexdigest(), "on disk")
        host("start")
        os.close(fd)


@check(timeout=300)
def unstable_data_is_sent_again(d):
    # written but not committed when the server dies, with more written after it: the new verifier tells the client
    data = random.Random(9).randbytes(8_000_000)
    fd = os.open("f", os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(fd, data[:6_000_000], 0)
    host("kill")
    wait = in_child(lambda: (time.sleep(0.2), host("start")))
    os.pwrite(fd, data[6_000_000:], 6_000_000)
    os.fsync(fd)
    wait()
    os.close(fd)
    drop_caches()
    equal(hashlib.sha256(pathlib.Path("f").read_bytes()).digest(), hashlib.sha256(data).digest(), "content")


@check(timeout=300)
def readers_go_on(d):
    data = random.Random(5).randbytes(2_000_000)
    pathlib.Path("f").write_bytes(data)

    def reader(n):
        while working(n):
            fd = os.open("f", os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            got = b"".join(iter(lambda: os.read(fd, 100_000), b""))
            assert got == data, "wrong bytes"
            os.close(fd)
            assert "f" in os.listdir("."), "a listing without f"

    restart_while(reader, reader)


@check(timeout=300)
def names_made_and_removed_meanwhile(d):
    def maker(n):
        who, i = f"w{n}", 0
        os.mkdir(who)
        allowed = (errno.EEXIST, errno.ENOENT)  # the documented exception
        while working(n):
            i += 1
            for act in (lambda: os.mkdir(f"{who}/d"), lambda: pathlib.Path(f"{who}/d/f").write_text(str(i)),
                        lambda: os.rename(f"{who}/d/f", f"{who}/d/g"), lambda: os.unlink(f"{who}/d/g"),
                        lambda: os.rmdir(f"{who}/d")):
                try:
                    act()
                except OSError as e:
                    assert e.errno in allowed, f"round {i}: {e}"
            if os.path.exists(f"{who}/d"):
                sh(f"rm -rf {who}/d")

    restart_while(maker, maker)
    for who in ("w1", "w2"):
        equal(os.listdir(who), [], "names left")


@check(timeout=300)
def a_listing_goes_on(d):
    host("make_files", inside(d), 20000)
    with os.scandir(d) as entries:
        got = [next(entries).name for _ in range(10)]
        host("kill_and_restart")
        got += [e.name for e in entries]
    equal(len(got), 20000, "entries")
    equal(len(set(got)), 20000, "different names")
    host("remove_tree", inside(d))


@check(timeout=300)
def a_removed_open_file_lives_on(d):
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, b"before ")
    os.unlink("f")
    host("kill_and_restart")
    drop_caches()
    os.write(fd, b"after")
    os.fsync(fd)
    equal(os.pread(fd, 100, 0), b"before after", "content")
    os.close(fd)
    poll("the end of its .nfs name", lambda: os.listdir(".") == [], 30)


@check(timeout=300)
def a_database_survives(d):
    def writer(me):
        db = sqlite3.connect("t.db", timeout=60)
        db.execute("create table t(n integer primary key)")
        n = 0
        while working(me):
            n += 1
            with db:
                db.execute("insert into t values(?)", (n,))
        db.close()
        pathlib.Path("n").write_text(str(n))

    restart_while(writer)
    db = sqlite3.connect("t.db")
    equal(db.execute("select count(*), max(n) from t").fetchone(), (int(pathlib.Path("n").read_text()),) * 2, "rows")
    equal(db.execute("pragma integrity_check").fetchone()[0], "ok", "integrity")


@check(timeout=100)
def a_waiting_process_can_be_killed(d):
    pathlib.Path("f").write_text("x")
    drop_caches()
    host("kill")
    try:
        pid = os.fork()
        if pid == 0:
            os.listdir(d)
            pathlib.Path("g").write_text("x")
            os._exit(0)
        time.sleep(0.3)  # it should be waiting for the server by now; if not yet, it is killed all the same
        os.kill(pid, 9)
        poll("its end", lambda: os.waitpid(pid, os.WNOHANG) != (0, 0), 30)
    finally:
        host("start")
    equal(pathlib.Path("f").read_text(), "x", "after the restart")
