# SPDX-License-Identifier: MIT
"""Fixtures of the integration tests.

    w        a workspace of the daemon as it usually runs (as root when the tests do, else as their user)
    w_any    the same, once for that daemon and once for one that an ordinary user started
    fresh    fresh(**Daemon arguments) gives a started daemon of the test's own, to be killed and restarted
    fresh_any  likewise, for both ways to run

    m        a workspace mounted through FUSE (lib/fuse.py), once by root and once by an ordinary user
    mounts   mounts(daemon, ws, uid=...) gives a FuseMount to be mounted by the test

`w` and `w_any` share one daemon each; a test that ends it fails, and the next one gets a new daemon.
The daemon is $WORKSPACED, by default build/workspaced; data directories go to $WORKSPACE_TEST_DIR.
"""
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from lib import fuse  # noqa: E402
from lib.daemon import EXE, IS_ROOT, USER, Daemon, temp_root  # noqa: E402

VARIANTS = ["root", "user"] if IS_ROOT else ["user"]
_shared = {}
_to_destroy = []
_seen = []  # daemons of the running test, for the report


def make(variant, **kw):
    d = Daemon(uid=USER if variant == "user" and IS_ROOT else None, **kw)
    _seen.append(d)
    return d


def shared(variant):
    d = _shared.get(variant)
    if d is None or not d.alive():
        d = _shared[variant] = make(variant)
        _to_destroy.append(d)
        d.start()
    return d


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: left out where everything runs under sanitizers")


def pytest_collection_modifyitems(items):
    if not pathlib.Path(EXE).exists():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no daemon at {EXE}; build it or set WORKSPACED"))


@pytest.fixture(scope="session", autouse=True)
def end_of_shared_daemons():
    """What is wrong at their end is an error of the last test that ran."""
    with contextlib.ExitStack() as stack:  # one that ends badly keeps none of the others
        yield
        for d in _to_destroy:
            stack.callback(d.destroy)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for i, d in enumerate(_seen):
            report.sections.append((f"daemon {i} log", d.tail()))
    if report.when == "teardown":
        _seen.clear()


def _workspace(variant):
    d = shared(variant)
    if d not in _seen:
        _seen.append(d)
    w = d.workspace()
    yield w
    w.close()
    assert d.alive(), f"the daemon ended during this test (exit {d.proc.returncode})"
    d.check_log()
    d.delete_workspace(w.id)


@pytest.fixture
def w():
    yield from _workspace(VARIANTS[0])


@pytest.fixture(params=VARIANTS)
def w_any(request):
    yield from _workspace(request.param)


def _fresh(variant):
    made = []

    def start(**kw):
        d = make(variant, **kw)
        made.append(d)
        return d.start()

    with contextlib.ExitStack() as stack:
        yield start
        for d in made:
            stack.callback(d.destroy)


@pytest.fixture
def fresh():
    yield from _fresh(VARIANTS[0])


@pytest.fixture(params=VARIANTS)
def fresh_any(request):
    yield from _fresh(request.param)


@pytest.fixture
def reachable():
    """A folder that the daemon's user can reach, for what is built or bound into it."""
    top = pathlib.Path(tempfile.mkdtemp(dir=temp_root()))
    top.chmod(0o755)
    yield top
    shutil.rmtree(top)


# ---- FUSE ----


@pytest.fixture(scope="session")
def fuse_device():
    fuse.skip_unless_possible()


@pytest.fixture
def mounts(fuse_device):
    """mounts(daemon, ws, **FuseMount arguments) gives a FuseMount that is not mounted yet."""
    made = []

    def make_mount(daemon, ws, **kw):
        made.append(fuse.FuseMount(daemon, ws, **kw))
        return made[-1]

    yield make_mount
    for m in made:
        m.destroy()


FUSE_USERS = [0, fuse.MOUNTER] if IS_ROOT else [os.geteuid()]


@pytest.fixture(scope="module")
def fuse_daemon(fuse_device):
    d = Daemon(env={"WORKSPACE_LOCAL_UIDS": f"{fuse.MOUNTER},{USER}"}).start()
    yield d
    d.destroy()


@pytest.fixture(params=FUSE_USERS, ids=lambda uid: f"uid{uid}")
def m(request, fuse_daemon, mounts):
    """A new workspace of a shared daemon, mounted by root and by an ordinary user in turn."""
    yield mounts(fuse_daemon, fuse_daemon.create_workspace(), uid=request.param).mount()
