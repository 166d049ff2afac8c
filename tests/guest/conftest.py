# SPDX-License-Identifier: MIT
"""Fixtures of the tests that use the real Linux NFS client in a guest (tests/nfs-guest, docs/testing.md).

A group of checks, checks/<group>.py, runs in one guest; each check is a test of its own.  The daemon comes from the
fixtures of tests/integration.  GUEST_PEER="PORT MOUNTPORT EXPORT DIR" names another NFS server to run against, which
proves the checks themselves: those about things that are ours alone fail there.
"""
import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
for folder in (HERE, HERE / "checks", HERE.parent / "integration"):
    sys.path.insert(0, str(folder))

import guest  # noqa: E402

LIBC = ctypes.CDLL(None)
JOBS = int(os.environ.get("GUEST_JOBS") or min(2, len(os.sched_getaffinity(0))))  # guests at once
PEER = os.environ.get("GUEST_PEER", "").split()


class Peer:
    """A server that was started by hand."""

    def __init__(self, port, mountport, export, folder):
        self.port, self.mountport, self.export, self.dir = int(port), int(mountport), export, folder

    def local(self):
        return contextlib.nullcontext()

    def end(self):
        pass


class Ours:
    """One workspace of a daemon that is this object's own."""

    def __init__(self, user=None, **how):
        from lib.daemon import Daemon

        self.daemon = Daemon(uid=user, **how).start()
        self.port = self.mountport = self.daemon.nfs_port
        self.id = self.daemon.create_workspace()
        self.export, self.dir = f"/{self.id}", str(self.daemon.host_dir(self.id))

    @contextlib.contextmanager
    def local(self):
        """What this thread does to files meanwhile is done as the user that they belong to.

        seteuid(2) would change every thread of this process, and several guests may ask at once.
        """
        if os.geteuid() != 0:
            yield
            return
        st = os.stat(self.daemon.data)
        LIBC.setfsgid(st.st_gid)
        LIBC.setfsuid(st.st_uid)
        try:
            yield
        finally:
            LIBC.setfsuid(0)
            LIBC.setfsgid(0)

    def end(self):
        self.daemon.destroy()


def pytest_collection_modifyitems(items):
    from lib.daemon import EXE

    why = None
    if not PEER and not pathlib.Path(EXE).exists():
        why = f"no daemon at {EXE}; build it or set WORKSPACED"
    elif os.uname().machine != "x86_64":
        why = "the guest is made for x86_64"
    elif subprocess.run([guest.NFS_GUEST, "prepare"], capture_output=True).returncode != 0:
        why = "the guest cannot be prepared: see tests/nfs-guest/nfs-guest prepare"
    for item in items if why else []:
        item.add_marker(pytest.mark.skip(reason=why))


def run_group(group, checks):
    server = Peer(*PEER) if PEER else group.serve()
    try:
        return guest.run(server, group.name, checks, **group.how)
    finally:
        server.end()


@pytest.fixture(scope="session")
def outcomes(request):
    """{group: future of its guest.Outcome}; all groups start with the first test, JOBS of them at once.

    A group runs those of its checks that were selected.
    """
    selected = {}
    for item in request.session.items:
        if group := getattr(item.function, "group", None):
            selected.setdefault(group, []).append(item.callspec.params["check"])
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        yield {group: pool.submit(run_group, group, checks) for group, checks in selected.items()}
        pool.shutdown(cancel_futures=True)
