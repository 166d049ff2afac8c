# SPDX-License-Identifier: MIT
"""`fuse-client`: mounting a workspace of a Daemon through the kernel's FUSE, as root or as an ordinary user."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from .daemon import EXE as DAEMON
from .daemon import IS_ROOT, SANITIZER, poll

# Usually the one that was built with the daemon under test.
EXE = pathlib.Path(os.environ.get("FUSE_CLIENT") or pathlib.Path(DAEMON).parent / "fuse-client").resolve()
# Memory of a sanitizer build says nothing.
IS_SANITIZED = EXE.exists() and b"__asan_init" in EXE.read_bytes()
MOUNTER = 1000  # the ordinary user that mounts when the tests run as root
LIMIT = 120  # seconds for one command in a mount


def why_not():
    """What is missing for FUSE here, or None."""
    if not EXE.exists():
        return f"no client at {EXE}; build it or set FUSE_CLIENT"
    if not os.path.exists("/dev/fuse"):
        return "no /dev/fuse"
    if shutil.which("fusermount3") is None:
        return "no fusermount3 (package fuse3)"
    if not IS_ROOT and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is closed to this user"
    return None


def open_to_all():
    """/dev/fuse as distributions have it, 0666, where a machine has it for root alone.

    It is left so: others may be testing at the same time.
    """
    if IS_ROOT and os.stat("/dev/fuse").st_mode & 0o666 != 0o666:
        os.chmod("/dev/fuse", 0o666)


class FuseMount:
    """One mount.  uid: who mounts and works in it (needs root unless it is the tests' own)."""

    def __init__(self, daemon, ws, uid=None, path=""):
        open_to_all()
        self.daemon, self.ws = daemon, ws
        self.uid = os.geteuid() if uid is None else uid
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="fuse-test-"))
        self.base.chmod(0o755)
        self.exe = pathlib.Path(shutil.copy(EXE, self.base / "fuse-client"))  # the tree may be closed to the user
        self.dir, self.run, self.log = self.base / "mnt", self.base / "run", self.base / "client.log"
        for d in (self.dir, self.run):
            d.mkdir(mode=0o700)
            os.chown(d, self.uid, self.uid)
        self.target = f"127.0.0.1:{daemon.nfs_port}:/{ws}{path}"
        self.proc = None

    # ---- commands ----

    def popen(self, words, **kw):
        who = {} if self.uid == os.geteuid() else dict(user=self.uid, group=self.uid, extra_groups=[])
        env = {k: v for k, v in os.environ.items() if not k.startswith("WORKSPACE")}
        env.update(XDG_RUNTIME_DIR=str(self.run), HOME=str(self.run), GIT_CONFIG_NOSYSTEM="1")
        env.setdefault("ASAN_OPTIONS", "detect_leaks=0")
        return subprocess.Popen(words, env=env, **who, **kw)

    def command(self, *words):
        """fuse-client WORDS: (exit code, output and messages)."""
        p = self.popen([str(self.exe), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, cwd="/")
        out = p.communicate(timeout=LIMIT)[0]
        return p.returncode, out

    def mount(self, *options, target=None):
        """In the foreground, so that its messages are kept; returns when the mount is there."""
        with open(self.log, "ab") as log:
            self.proc = self.popen(
                [str(self.exe), "mount", "-f", *options, target or self.target, str(self.dir)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            )

        def is_there():
            assert self.proc.poll() is None, f"exit {self.proc.returncode}:\n{self.log.read_text()}"
            return self.is_mounted()

        poll("the mount", is_there)
        return self

    def is_mounted(self):
        return any(line.split()[4] == str(self.dir) for line in open("/proc/self/mountinfo"))

    def status(self):
        """What this mount tells about itself."""
        code, out = self.command("status", "--json")
        assert code == 0, out
        return next(m for m in json.loads(out) if m["dir"] == str(self.dir))

    # ---- working in it ----

    def start(self, words, **kw):
        """A program with the mount as its folder, as the user of the mount (nobody else may enter it)."""
        return self.popen(["sh", "-c", 'cd "$0" && exec "$@"', str(self.dir), *words], cwd="/", **kw)

    def sh(self, script, fails=False):
        """A shell script in the mount; its output."""
        p = self.start(["bash", "-euc", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
        out = p.communicate(timeout=LIMIT)[0]
        assert (p.returncode != 0) == fails, f"exit {p.returncode}:\n{out}"
        return out

    def py(self, source):
        """A Python program in the mount; its output."""
        p = self.start(["/usr/bin/python3", "-c", source], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
        out = p.communicate(timeout=LIMIT)[0]
        assert p.returncode == 0, f"exit {p.returncode}:\n{out}"
        return out

    # ---- its end ----

    def kill9(self):
        self.proc.kill()
        self.proc.wait(LIMIT)

    def end(self):
        """Unmounts if need be and waits for the process, which must end well."""
        if self.is_mounted():
            code, out = self.command("umount", "--lazy", str(self.dir))
            assert code == 0, out
        if self.proc is not None and self.proc.poll() is None:
            try:
                assert self.proc.wait(30) == 0
            except subprocess.TimeoutExpired:
                self.proc.kill()
                raise

    def destroy(self):
        try:
            self.end()
            text = self.log.read_text(errors="replace") if self.log.exists() else ""
            assert SANITIZER.search(text) is None, f"sanitizer report:\n{text[-6000:]}"
        finally:
            shutil.rmtree(self.base, ignore_errors=True)


def skip_unless_possible():
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
