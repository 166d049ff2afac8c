# SPDX-License-Identifier: MIT
"""What the checks of this folder have in common.  Imported in the guest, and outside for the list of names.

A check is a function of one argument, `d`: a new, empty folder of its own on the mount, which is also its working
directory.  It passes by returning, fails by raising, and may ask the server's side for something with `host()`.
Standard library only.
"""
import collections
import contextlib
import errno
import json
import os
import pathlib
import subprocess
import time

MNT = pathlib.Path("/mnt/nfs")  # the first mount
MNT2 = pathlib.Path("/mnt/nfs2")  # the second one, where the group has one
SHARE = pathlib.Path("/mnt/host")  # a folder of the host: questions go out and answers come in there
OWNER = 1000  # uid and gid that every door shows
PATIENCE = int(os.environ.get("PATIENCE") or 1)  # every time limit is multiplied by this
DEADLINE = 60 * PATIENCE  # seconds that a wait may last before it counts as a failure

Check = collections.namedtuple("Check", "name function uid timeout")
registry = {}  # module name -> [Check]


class Skip(Exception):
    """Raised by a check that cannot be made here; its text says what is missing."""


def check(uid=0, timeout=100):
    """Decorator: a check, run as `uid`, killed and failed after `timeout` seconds."""

    def register(function):
        group = function.__module__.rpartition(".")[2]
        registry.setdefault(group, []).append(Check(function.__name__, function, uid, timeout * PATIENCE))
        return function

    return register


# ---- the server's side ---------------------------------------------------------------------------------------------


def host(action, *args):
    """Has `HostSide.do_<action>(*args)` done outside; its result.  Arguments and results are JSON."""
    number = f"{os.getpid()}-{time.monotonic_ns()}"
    question = SHARE / f"ask-{number}"
    temporary = SHARE / f"tmp-{number}"
    temporary.write_text(json.dumps([action, *args]))
    temporary.rename(question)
    answer = SHARE / f"answer-{number}"
    poll(f"the host's answer to {action}", answer.exists, deadline=120 * PATIENCE)
    ok, value = json.loads(answer.read_text())
    answer.unlink()
    assert ok, f"host: {action}: {value}"
    return value


def inside(path):
    """A path on either mount, as the server's side names it: relative to the workspace."""
    path = str(path)
    for mount in (MNT2, MNT):
        if path == str(mount) or path.startswith(f"{mount}/"):
            return os.path.relpath(path, mount)
    raise AssertionError(f"{path} is on no mount")


# ---- small tools ---------------------------------------------------------------------------------------------------


def poll(what, condition, deadline=DEADLINE):
    """Waits until condition() is true; its value."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {deadline} s for {what}"
        time.sleep(0.01)
    return value


@contextlib.contextmanager
def fails_with(*numbers):
    """The block must raise OSError with one of these error numbers."""
    wanted = "/".join(errno.errorcode[n] for n in numbers)
    try:
        yield
    except OSError as e:
        assert e.errno in numbers, f"got {errno.errorcode.get(e.errno, e.errno)}, wanted {wanted}"
    else:
        raise AssertionError(f"succeeded, wanted {wanted}")


def sh(command, timeout=600 * PATIENCE, **env):
    """Runs a shell command that must succeed; its stdout."""
    p = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, errors="replace",
                       timeout=timeout, env={**os.environ, **env})
    assert p.returncode == 0, f"status {p.returncode} of {command.strip()[:200]}: {(p.stderr or p.stdout)[-700:]}"
    return p.stdout


def drop_caches():
    """What is read afterwards comes from the server.  As root only."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def equal(got, wanted, what="value"):
    assert got == wanted, f"{what}: got {got!r:.300}, wanted {wanted!r:.300}"


def in_child(function, *args):
    """Starts function(*args) in a child process; calling the result waits for it and raises if it failed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read)
            function(*args)
            status = 0
        except BaseException as e:  # the parent tells it
            os.write(write, f"{type(e).__name__}: {e}"[:4000].encode())
        finally:
            os._exit(status)
    os.close(write)

    def wait():
        with os.fdopen(read, "rb") as f:
            why = f.read().decode(errors="replace")
        _, status = os.waitpid(pid, 0)
        assert status == 0, why or f"the child ended with {status}"

    return wait


def mount_stats(mount):
    """{operation: number of calls so far} of one mount, as the client counts them."""
    stats, found = {}, False
    for line in pathlib.Path("/proc/self/mountstats").read_text().splitlines():
        if line.startswith("device "):
            found = f" mounted on {mount} " in line
        elif found and line.startswith("\t") and (f := line.split()) and f[0].rstrip(":").isupper() and len(f) > 8:
            stats[f[0].rstrip(":")] = int(f[1])
    return stats
