# SPDX-License-Identifier: MIT
"""FUSE mounts when the server is killed, hangs, is full, or stays away."""
import os
import signal
import subprocess

import pytest

from lib.daemon import IS_ROOT, can_mount, poll
from lib.fuse import IS_SANITIZED

WRITER = """
import os, sys
fd = os.open("f", os.O_WRONLY | os.O_CREAT, 0o644)
for i in range(400):
    os.pwrite(fd, (b"%07d\\n" % i) * 8192, i * 65536)
    if i % 40 == 39:
        os.fsync(fd)
        print(i, flush=True)
os.close(fd)
"""


@pytest.fixture
def pair(fresh, mounts):
    """pair(*mount options, **FuseMount arguments): a daemon of the test's own, a workspace of it, mounted."""

    def make(*options, **kw):
        d = fresh()
        return d, mounts(d, d.create_workspace(), **kw).mount(*options)

    return make


def test_a_server_killed_in_mid_write_loses_nothing(pair):
    d, m = pair()
    p = m.start(["/usr/bin/python3", "-c", WRITER], stdout=-1, text=True)
    for _ in range(3):
        p.stdout.readline()
        d.restart()
    assert p.wait(60) == 0
    want = b"".join((b"%07d\n" % i) * 8192 for i in range(400))
    assert (d.host_dir(m.ws) / "f").read_bytes() == want
    assert m.status()["connects"] > 2


def test_uncommitted_writes_are_written_again(pair):
    """The server has the bytes in memory alone and loses them: what a crash of its machine does."""
    d, m = pair()
    p = m.start(["/usr/bin/python3", "-c", """
import os
fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
os.pwrite(fd, b"a" * 300000, 0)
os.pwrite(fd, b"b" * 1000, 5000)
print("written", flush=True)
input()
os.fsync(fd)
print("synced", flush=True)
input()
"""], stdin=-1, stdout=-1, text=True)
    assert p.stdout.readline() == "written\n"
    f = d.host_dir(m.ws) / "f"
    poll("the bytes at the server", lambda: f.exists() and f.read_bytes()[5000:6000] == b"b" * 1000)
    d.kill9()
    with d.local():
        f.write_bytes(bytes(300000))  # nothing had reached the disk
    d.start()
    p.stdin.write("\n")
    p.stdin.flush()
    assert p.stdout.readline() == "synced\n"
    want = b"a" * 5000 + b"b" * 1000 + b"a" * 294000
    assert f.read_bytes() == want
    assert m.status()["replayed_bytes"] >= 300000
    p.communicate("\n", timeout=20)


def test_work_goes_on_over_restarts(pair):
    d, m = pair()
    p = m.start(["/usr/bin/python3", "-c", """
import os
for i in range(600):
    os.mkdir(f"d{i}")
    with open(f"d{i}/f", "x") as f: f.write(str(i))
    os.rename(f"d{i}/f", f"d{i}/g")
    if i % 3 == 0:
        os.unlink(f"d{i}/g"); os.rmdir(f"d{i}")
    if i % 100 == 50: print(i, flush=True)
assert len(os.listdir(".")) == 400
"""], stdout=-1, stderr=-1, text=True)
    for _ in range(3):
        p.stdout.readline()
        d.restart(kill=False)  # with kill -9 a call may be done and its answer lost with the replay cache
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, err


def test_a_cut_connection_does_nothing_twice(pair):
    """Connections are cut under load while the server lives: its replay cache must meet every repeat."""
    if not IS_ROOT:
        pytest.skip("needs root: ss -K")
    d, m = pair()
    p = m.start(["/usr/bin/python3", "-c", """
import os
for i in range(1500):
    os.mkdir("d"); os.rmdir("d")
    if i % 100 == 50: print(i, flush=True)
"""], stdout=-1, stderr=-1, text=True)
    cut = 0
    for _ in range(10):
        p.stdout.readline()
        cut += os.system(f"ss -K dst 127.0.0.1 dport = {d.nfs_port} >/dev/null 2>&1") == 0
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, err
    if m.status()["connects"] <= 2:
        pytest.skip("this kernel cannot cut connections (ss -K)")


def test_a_process_that_waits_can_be_interrupted(pair):
    d, m = pair()
    m.sh("echo 1 >f")
    d.kill9()
    p = m.start(["cat", "g"], stdout=-1, stderr=-1)
    poll("its wait", lambda: m.proc.poll() is None and waits(p.pid))
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=15)
    assert p.returncode != 0
    d.start()
    assert m.sh("cat f") == "1\n"


def waits(pid):
    """The process or its child sleeps in FUSE."""
    try:
        return "fuse" in open(f"/proc/{pid}/wchan").read() or "request_wait" in open(f"/proc/{pid}/stack").read()
    except OSError:
        return False


def test_soft_gives_errors(pair):
    d, m = pair("--soft", "--timeout", "1", "--attr-timeout", "0", "--entry-timeout", "0")
    p = m.start(["sh", "-c", "echo 1 >f; echo in; read x; cat f"], stdin=-1, stdout=-1, stderr=-1, text=True)
    assert p.stdout.readline() == "in\n"
    d.kill9()
    assert "timed out" in p.communicate("\n", timeout=20)[1]
    d.start()
    poll("the server", lambda: m.popen(["cat", str(m.dir / "f")], stdout=-3, stderr=-3).wait(20) == 0)


def test_an_unreachable_server_can_be_unmounted(pair):
    d, m = pair()
    m.sh("echo 1 >f")
    d.kill9()
    p = m.start(["cat", "g"], stdout=-1, stderr=-1)
    poll("its wait", lambda: waits(p.pid))
    code, out = m.command("umount", "--lazy", str(m.dir))
    assert code == 0, out
    assert not m.is_mounted()
    m.proc.terminate()
    assert m.proc.wait(30) == 0
    p.communicate(timeout=15)
    assert p.returncode != 0


def test_errors_of_delayed_writes_reach_fsync_and_close(fresh, mounts, tmp_path):
    if not can_mount():
        pytest.skip("needs root: a full file system")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=755", "tmpfs", tmp_path], check=True)
    try:
        delayed_errors(fresh(base=tmp_path), mounts)
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def delayed_errors(d, mounts):
    m = mounts(d, d.create_workspace()).mount()
    m.py("""
import errno, os
for end in (os.fsync, os.close):
    fd = os.open("f", os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(fd, b"x" * (1 << 20), 0)
    try:
        for i in range(1, 40): os.pwrite(fd, b"x" * (1 << 20), i << 20)
    except OSError as e: assert e.errno == errno.ENOSPC, e
    try: end(fd)
    except OSError as e: assert e.errno == errno.ENOSPC, e
    else: assert False, f"{end} did not tell"
    if end is os.fsync:
        try: os.close(fd)
        except OSError: pass
    os.unlink("f")
fd = os.open("g", os.O_WRONLY | os.O_CREAT, 0o644)
assert os.write(fd, b"fine") == 4
os.close(fd)
""")


def test_what_was_synced_survives_client_and_server(pair):
    d, m = pair()
    p = m.start(["/usr/bin/python3", "-c", WRITER], stdout=-1, stderr=-3, text=True)
    last = [int(p.stdout.readline()) for _ in range(4)][-1]
    m.kill9()
    d.kill9()
    p.kill()
    p.wait(20)
    d.start()
    data = (d.host_dir(m.ws) / "f").read_bytes()
    for i in range(last + 1):
        assert data[i * 65536 : (i + 1) * 65536] == (b"%07d\n" % i) * 8192, i


@pytest.mark.slow
def test_memory_is_bounded_by_the_cache_size(pair):
    d, m = pair("--cache-size", "8M")
    m.sh("dd if=/dev/zero of=f bs=1M count=200 status=none")
    if not IS_SANITIZED:
        rss = int(next(x for x in open(f"/proc/{m.proc.pid}/status") if x.startswith("VmHWM")).split()[1])
        assert rss < 40 << 10, f"{rss} kB"
    assert (d.host_dir(m.ws) / "f").stat().st_size == 200 << 20
