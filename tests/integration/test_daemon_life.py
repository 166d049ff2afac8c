# SPDX-License-Identifier: MIT
"""The life of the daemon: load, kill -9, restart, a clean end, a second one, and what it holds on to."""
import os
import random
import shutil
import signal
import sqlite3
import threading
import time

import pytest

from lib.daemon import Daemon, poll
from lib.nfs3 import FILE_SYNC, UNSTABLE, S
from lib.rpc import Closed


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_fifty_connections_with_calls_in_flight(fresh, threads):
    """50 connections with 200 calls each in flight: every xid is answered exactly once, with the right answer."""
    w = fresh(env={"WORKSPACE_NFS_THREADS": str(threads)}).workspace()
    n = w.nfs
    files = [n.mkfile(w.root, f"f{i}", bytes([i]) * 10000) for i in range(8)]
    errors = []

    def work(i):
        rng = random.Random(i)
        try:
            c, calls = w.connect(), []
            d = c.ok("MKDIR", w.root, f"d{i}").fh
            for k in range(200):
                j = rng.randrange(8)
                calls.append(rng.choice([
                    ("GETATTR", files[j]), ("READ", files[j], 0, 10000), ("LOOKUP", w.root, f"f{j}"),
                    ("CREATE", d, f"n{k}"), ("WRITE", files[j], 0, bytes([j]) * 512, UNSTABLE), ("ACCESS", d),
                    ("READDIRPLUS", d), ("COMMIT", files[j]), ("MKDIR", d, f"m{k}"), ("LOOKUP", d, "missing"),
                ]))  # fmt: skip
            for call, r in zip(calls, c.many(calls)):
                assert r.status == (S.NOENT if call[-1] == "missing" else S.OK), call
                if call[0] == "READ":
                    assert r.data == bytes([files.index(call[1])]) * 10000
                if call[0] == "LOOKUP" and r.status == S.OK:
                    assert r.fh == files[int(call[2][1:])]
        except Exception as e:  # noqa: BLE001 - reported by the main thread
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[:3]
    w.close()


def test_kill_and_restart_keeps_everything(fresh_any):
    """After kill -9 every handle, committed byte, name, mode and time is there; and after a clean end too."""
    w = fresh_any().workspace()
    n, data = w.nfs, os.urandom(100000)
    d = n.mkdir_(w.root, "d")
    f = n.mkfile(d, "f", mode=0o640)
    n.ok("WRITE", f, 0, data, UNSTABLE)
    n.ok("COMMIT", f)
    g = n.mkfile(d, "g")
    n.ok("WRITE", g, 0, data[:5000], FILE_SYNC)
    n.ok("SYMLINK", d, "l", "to")
    n.ok("LINK", f, w.root, "hard")
    n.ok("SETATTR", g, mode=0o600, mtime=(77, 88))
    held = {"root": w.root, "d": d, "f": f, "g": g, "l": n.look(d, "l")}
    before = {k: n.attr(h) for k, h in held.items()}
    for kill in (True, False, True):
        w.restart(kill)
        n = w.nfs
        assert w.daemon.root(w.id) == w.root
        for k, h in held.items():
            a = n.attr(h)
            a.atime = before[k].atime
            assert a == before[k], k
        assert n.data(f) == data and n.data(g) == data[:5000] and n.ok("READLINK", held["l"]).target == b"to"
        assert n.names(d) == [b"f", b"g", b"l"] and n.look(w.root, "hard") == f
    w.close()


def test_unanswered_writes_after_a_kill(fresh):
    """kill -9 under a stream of FILE_SYNC writes: every one that was answered is there."""
    d = fresh()
    w = d.workspace()
    f, answered = w.nfs.mkfile(w.root, "f"), []

    def work():
        try:
            for i in range(100000):
                w.nfs.ok("WRITE", f, i * 100, b"%0100d" % i, FILE_SYNC)
                answered.append(i)
        except (Closed, OSError):
            pass

    t = threading.Thread(target=work)
    t.start()
    poll("some writes", lambda: len(answered) > 50)
    d.kill9()
    t.join()
    d.start()
    n = w.connect()
    for i in answered:
        assert n.ok("READ", f, i * 100, 100).data == b"%0100d" % i
    w.close()


def test_kill_twenty_times_under_load(fresh):
    """kill -9 twenty times while workspaces are made: the database is sound, what was acknowledged is there."""
    d = fresh()
    made, stop = [], threading.Event()

    def work():
        turns = 0
        while not stop.is_set():
            try:
                turns += 1
                ws = d.create_workspace()
                made.append(ws)
                if turns % 5 == 0:
                    victim = made[len(made) // 2]
                    made.remove(victim)
                    d.delete_workspace(victim)
            except (OSError, AssertionError, ValueError):
                time.sleep(0.002)  # the daemon is down: as a client would
            except Exception:  # noqa: BLE001 - cut in the middle of a reply
                pass

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    rng = random.Random(7)
    try:
        for _ in range(20):
            want = len(made) + rng.randrange(1, 8)
            poll("some workspaces", lambda: len(made) >= want or not d.alive())
            d.kill9()
            check_database(d)
            d.start()
    finally:
        stop.set()
        for t in threads:
            t.join()
    listed = {x["id"] for x in d.api("GET", "/workspaces")["workspaces"]}
    assert set(made) <= listed and len(made) > 20
    for ws in made[:: max(1, len(made) // 30)]:
        assert d.api("GET", f"/workspaces/{ws}")["id"] == ws and d.root(ws)
    on_disk = set(os.listdir(d.data / "workspaces"))
    assert listed <= on_disk
    d.stop()
    check_database(d)


def check_database(d):
    """A copy is looked at, so that the daemon's own recovery is what the next start tests."""
    copy = d.base / "copy"
    copy.mkdir(exist_ok=True)
    for p in d.data.glob("workspace.db*"):
        shutil.copy(p, copy / p.name)
    db = sqlite3.connect(copy / "workspace.db")
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()
        shutil.rmtree(copy)


def test_sigterm_while_calls_run(fresh_any):
    """SIGTERM under load: exit 0, no reply is cut in the middle, and what was answered is on the disk."""
    d = fresh_any()
    w = d.workspace()
    done, errors, stop = [], [], threading.Event()

    def work(i):
        try:
            n, k = w.connect(), 0
            while not stop.is_set():
                r = n.many([("CREATE", w.root, f"{i}-{k}-{j}") for j in range(10)])
                assert all(x.status == S.OK for x in r)
                done.extend(f"{i}-{k}-{j}" for j in range(10))
                k += 1
        except (Closed, OSError):
            pass  # the end of the stream is fine, at the border of a reply
        except Exception as e:  # noqa: BLE001 - reported by the main thread
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    poll("some calls", lambda: len(done) > 200)
    d.stop()
    stop.set()
    for t in threads:
        t.join()
    assert not errors, errors
    assert set(done) <= set(os.listdir(w.dir))
    d.start()
    assert {x.encode() for x in done} <= set(w.connect().names(w.root))
    w.close()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_clean_exit_when_idle(fresh_any, sig):
    """SIGTERM and Ctrl-C end it with 0 although connections are open; SIGHUP and SIGPIPE do not end it badly."""
    d = fresh_any()
    with d.conn(), d.conn():
        d.proc.send_signal(signal.SIGPIPE)
        assert d.http("GET", "/api/v1/health")[0] == 200
        d.proc.send_signal(sig)
        assert d.proc.wait(20) == 0, d.tail()
    assert not os.path.exists(f"/proc/{d.pid}")


def test_broker_ends_with_the_daemon(fresh_any):
    """No process is left behind, neither after a clean end nor after kill -9."""
    d = fresh_any()

    def children():
        with open(f"/proc/{d.pid}/task/{d.pid}/children") as f:
            return f.read().split()

    for end in (d.stop, d.kill9):
        kids = children()
        assert kids, "there is no broker process"
        end()
        poll("children to end", lambda: not [k for k in kids if os.path.exists(f"/proc/{k}/exe") and is_ours(k)])
        d.start()


def is_ours(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_second_daemon_on_the_same_data(fresh_any):
    """A second daemon on the data directory is refused with a sentence, and the first goes on."""
    d = fresh_any()
    w = d.workspace()
    second = Daemon(uid=d.uid, env={"WORKSPACE_DATA_DIR": str(d.data)})
    try:
        second.launch()
        assert second.proc.wait(20) not in (0, None)
        text = second.log_text().lower()
        assert "in use" in text or "already" in text or "lock" in text or "another" in text, text
        second.check_log()
    finally:
        second.destroy()
    w.nfs.ok("GETATTR", w.root)
    d.create_workspace()
    w.restart()
    w.close()


def test_port_in_use(fresh):
    """A port that is taken stops the start with a sentence that names it."""
    d = fresh()
    for name, port in (("WORKSPACE_NFS_PORT", d.nfs_port), ("WORKSPACE_HTTP_PORT", d.http_port)):
        other = Daemon(env={name: str(port)})
        try:
            other.launch()
            assert other.proc.wait(20) not in (0, None)
            assert str(port) in other.log_text()
        finally:
            other.destroy()


def test_descriptors_are_bounded(w_any):
    """2,000 files made, read, removed and unlinked behind its back leave the daemon's descriptors as they were."""
    n, w = w_any.nfs, w_any
    d = n.mkdir_(w.root, "d")
    n.mkfile(d, "first", b"x")
    before = w.daemon.n_fds()
    for batch in range(20):
        names = [f"{batch}-{i}" for i in range(100)]
        made = n.many([("CREATE", d, x) for x in names])
        handles = [r.fh or n.look(d, x) for r, x in zip(made, names)]
        n.many([("WRITE", h, 0, b"data", UNSTABLE) for h in handles])
        assert all(r.data == b"data" for r in n.many([("READ", h, 0, 10) for h in handles]))
        if batch % 2:
            assert {r.status for r in n.many([("REMOVE", d, x) for x in names])} == {S.OK}
        else:
            with w.daemon.local():
                for x in names:
                    os.unlink(w.dir / "d" / x)
            assert {r.status for r in n.many([("GETATTR", h) for h in handles])} == {S.STALE}
    assert n.names(d) == [b"first"]
    poll("descriptors to be given back", lambda: w.daemon.n_fds() <= before + 64)


def test_unlinked_files_free_their_space(w_any):
    """A removed file is not kept alive: its blocks are free again, although it was just read and written."""
    n, w = w_any.nfs, w_any

    def deleted():
        return [x for x in w.daemon.fds() if x.endswith(" (deleted)") and w.id in x]

    for i in range(10):
        f = n.mkfile(w.root, f"f{i}", bytes(1 << 20))
        n.data(f)
        n.ok("REMOVE", w.root, f"f{i}")
    poll("deleted files to be closed", lambda: not deleted())


def test_more_files_than_descriptors(fresh_any):
    """With a small limit on descriptors thousands of files are still served, in any order."""
    d = fresh_any(launcher=["prlimit", "--nofile=512:512"])
    w = d.workspace()
    n = w.nfs
    made = n.many([("CREATE", w.root, f"f{i}") for i in range(2000)])
    handles = [r.fh or n.look(w.root, f"f{i}") for i, r in enumerate(made)]
    random.Random(8).shuffle(handles)
    assert {r.status for r in n.many([("WRITE", h, 0, h[-8:], UNSTABLE) for h in handles])} == {S.OK}
    assert all(r.data == h[-8:] for h, r in zip(handles, n.many([("READ", h, 0, 8) for h in handles])))
    assert d.n_fds() <= 512
    conns = [d.conn() for _ in range(100)]
    for c in conns:
        c.close()
    n.ok("GETATTR", w.root)
    w.close()


def test_idle_memory(fresh):
    """Under 10 MiB resident when nothing happens."""
    d = fresh()
    assert d.is_sanitized or d.rss() < 10 << 20, f"{d.rss() >> 10} KiB"


def test_runs_without_privilege(fresh_any):
    """The process that talks to the network has no capabilities, no new privileges and a seccomp filter."""
    d = fresh_any()
    with open(f"/proc/{d.pid}/status") as f:
        status = dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapAmb"], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    assert d.is_sanitized or status["Seccomp"].strip() == "2"
    assert "0" not in status["Uid"].split()


def test_memory_after_many_changes(w):
    """The duplicate request cache is bounded: 20,000 changes, their replies kept, cost a few MiB."""
    n = w.nfs

    def churn(count):
        for i in range(0, count, 500):
            made = [("CREATE", w.root, f"{i}-{k}") for k in range(500)]
            assert {r.status for r in n.many(made)} == {S.OK}
            assert {r.status for r in n.many([("REMOVE", *c[1:]) for c in made])} == {S.OK}

    churn(2000)
    before = w.daemon.rss()
    churn(8000)
    assert w.daemon.is_sanitized or w.daemon.rss() - before < 32 << 20


def test_workspace_deleted_under_load(w_any):
    """A workspace that is deleted while clients work in it: OK or STALE for them, and it is gone from the disk."""
    victim, errors, stop = w_any.daemon.workspace(), [], threading.Event()
    started = threading.Barrier(5)

    def work(i):
        try:
            n = victim.connect()
            d, k = n.mkfile(victim.root, f"first{i}"), 0
            started.wait()
            while not stop.is_set():
                k += 1
                calls = [("CREATE", victim.root, f"{i}-{k}-{j}") for j in range(20)]
                calls += [("GETATTR", d), ("READDIRPLUS", victim.root), ("MKDIR", victim.root, f"d{i}-{k}")]
                for r in n.many(calls):
                    assert r.status in (S.OK, S.STALE, S.NOENT), r.status
        except Exception as e:  # noqa: BLE001 - reported by the main thread
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    try:
        started.wait()
        w_any.daemon.delete_workspace(victim.id)
        assert not os.path.lexists(victim.dir.parent)
        assert victim.nfs.getattr(victim.root).status == S.STALE
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not errors, errors
    assert not os.path.lexists(victim.dir.parent)
    victim.close()
