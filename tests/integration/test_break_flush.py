# SPDX-License-Identifier: MIT
"""Found by attacking the server: what is told of a flush that failed, to others than the one who asked for it."""
import errno
import os
import pathlib
import re
import tempfile

import pytest

from lib.daemon import IS_SANITIZED, build_tool, poll
from lib.nfs3 import FILE_SYNC, UNSTABLE, S, decode
from lib.rpc import record

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer's own library must come first")
TMPFS_MAGIC = "1021994"


class Disk:
    """A daemon whose flushes fail on command (tests/tools/failsync.c)."""

    def __init__(self, fresh, folder):
        lib, flag = build_tool("failsync", folder, "-shared", "-fPIC"), folder / "flag"
        flag.write_bytes(b"\0")
        self.fd = os.open(flag, os.O_RDWR)
        # On a disk, because flushes of files in memory are made on the loop.
        base = tempfile.mkdtemp(prefix="workspaced-test-", dir="/var/tmp")
        self.d = fresh(launcher=["env", f"LD_PRELOAD={lib}", f"FAILSYNC_FLAG={flag}"], base=base)

    def flush(self, how):
        os.pwrite(self.fd, bytes([how]), 0)

    def pooled(self):
        return int(re.search(r"pooled_calls_total (\d+)", self.d.http("GET", "/metrics")[1])[1])


WORKS, WAITS_AND_FAILS = 0, 2


@pytest.fixture
def disk(fresh, reachable):
    if os.popen("stat -f -c %t /var/tmp").read().strip() == TMPFS_MAGIC:
        pytest.skip("needs a disk at /var/tmp")
    made = Disk(fresh, pathlib.Path(reachable))
    yield made
    made.flush(WORKS)
    os.close(made.fd)


@pytest.mark.parametrize("how", [errno.EIO, errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
def test_B035_any_failed_flush_changes_the_verifier(disk, how):
    """A thin disk that is full says NOSPC when it flushes: unstable data is lost then as with EIO."""
    w = disk.d.workspace()
    f = w.nfs.mkfile(w.root, "f")
    verf = w.nfs.ok("WRITE", f, 0, b"a" * 100, UNSTABLE).verf
    disk.flush(how)
    assert w.connect().commit(f).status == {errno.EIO: S.IO, errno.ENOSPC: S.NOSPC, errno.EDQUOT: S.DQUOT}[how]
    disk.flush(WORKS)
    assert w.nfs.ok("COMMIT", f).verf != verf
    w.close()


def wait_behind(disk, w, second):
    """One failing flush and a call that comes while it runs: the answers to both, and the verifier before them."""
    f = w.nfs.mkfile(w.root, "f")
    verf = w.nfs.ok("WRITE", f, 0, b"a" * 100, UNSTABLE).verf
    disk.flush(WAITS_AND_FAILS)
    args = {"COMMIT": (f,), "WRITE": (f, 0, b"b" * 100, FILE_SYNC)}
    sent = []
    for proc in ("COMMIT", second):
        client, before = w.connect(), disk.pooled()
        xid, message = client.message(proc, *args[proc])
        client.conn.send_raw(record(message))
        sent.append((client, xid, proc))
        poll("the call to wait for the disk", lambda: disk.pooled() > before)
    if second == "WRITE":
        poll("the data to be written", lambda: (w.dir / "f").read_bytes()[:1] == b"b")
    disk.flush(WORKS)
    first, behind = [decode(proc, client.conn.wait(xid).result()) for client, xid, proc in sent]
    assert w.nfs.ok("COMMIT", f).verf != verf
    w.nfs.ok("REMOVE", w.root, "f")
    return first, behind, verf


@pytest.mark.parametrize("second", ["COMMIT", "WRITE"])
def test_B035_failed_flush_is_told_to_those_who_wait_behind_it(disk, second):
    """The kernel tells an error once: whoever asked while that flush ran must not hear that his data is safe."""
    w = disk.d.workspace()
    # A call that has been taken may ask for its flush only after the failing one has ended; then OK is right.
    for _ in range(5):
        first, behind, verf = wait_behind(disk, w, second)
        assert first.status == S.IO
        if behind.status == S.IO or (second == "COMMIT" and behind.verf != verf):
            break
    else:
        pytest.fail("five times the one behind was told that all is well")
    w.close()
