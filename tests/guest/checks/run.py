# SPDX-License-Identifier: MIT
"""Runs checks in the guest:  run.py GROUP [NAME...]

Prints one line for each: "ok NAME", "not ok NAME: why" or "skip NAME: why".  Each check runs in a process of its own,
so that neither its working directory, its user nor its death matters to the next one.
"""
import importlib
import os
import pathlib
import shutil
import signal
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import guestlib as lib  # noqa: E402


def why(e):
    """An exception in one line, with the place in the check where it happened."""
    frames = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.endswith("/run.py")]
    at = next((f for f in reversed(frames) if not f.filename.endswith("/guestlib.py")), frames[-1] if frames else None)
    where = f" ({os.path.basename(at.filename)}:{at.lineno} {at.line})" if at else ""
    name = "" if isinstance(e, AssertionError) and str(e) else f"{type(e).__name__}: "
    return f"{name}{e}{where}".replace("\n", " | ").encode("ascii", "backslashreplace").decode()


def become(uid):
    if uid:
        os.setgroups([uid])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.environ["HOME"] = "/home/user" if uid == lib.OWNER else "/home/other"


def child(c, folder, report):
    """In the check's process: what to report, or nothing."""
    os.setsid()
    try:
        become(c.uid)
        if os.environ.get("NFS_MOUNTED"):
            folder.mkdir()
            os.chdir(folder)
        c.function(folder)
        os.write(report, b"ok")
    except lib.Skip as e:
        os.write(report, f"skip: {e}".encode())
    except BaseException as e:
        os.write(report, f"not ok: {why(e)}".encode()[:4000])
    finally:
        os._exit(0)


def wait(pid, timeout):
    """Whether the process ended within `timeout` seconds; it is killed otherwise."""
    end = time.monotonic() + timeout
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            return False
        time.sleep(0.005)
    return True


def run(c, folder):
    if os.environ.get("NFS_MOUNTED"):
        shutil.rmtree(folder, ignore_errors=True)
    read, write = os.pipe()
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        child(c, folder, write)
    os.close(write)
    ended = wait(pid, c.timeout)
    os.set_blocking(read, False)
    try:
        verdict = os.read(read, 8192).decode() if ended else ""
    except BlockingIOError:
        verdict = ""
    os.close(read)
    verdict = verdict or ("not ok: died without a word" if ended else f"not ok: not done after {c.timeout} s")
    mark, _, text = verdict.partition(": ")
    print(f"{mark} {c.name}" + (f": {text}" if text else ""), flush=True)
    print(f"# {c.name}: {time.monotonic() - start:.2f} s", file=sys.stderr, flush=True)
    if ended and os.environ.get("NFS_MOUNTED"):
        shutil.rmtree(folder, ignore_errors=True)


def main(group, *names):
    importlib.import_module(group)
    for c in lib.registry[group]:
        if not names or c.name in names:
            run(c, lib.MNT / f"{group}-{c.name}")


main(*sys.argv[1:])
