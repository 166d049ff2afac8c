# SPDX-License-Identifier: MIT
"""Starting, killing and asking `workspaced`, and looking at its data directory from the local side."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest

from . import mount3, nfs3
from .rpc import DEADLINE, Conn

EXE = os.environ.get("WORKSPACED") or "build/workspaced"
READY = re.compile(r"ready http=\S+:(\d+) nfs=\S+:(\d+)")
SANITIZER = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:")
# libtirpc throws the padding of opaques into one static buffer, which nobody reads.
TSAN_SUPPRESSIONS = "race:libtirpc.so\n"
IS_ROOT = os.geteuid() == 0
# Memory and descriptors of a sanitizer build say nothing.
IS_SANITIZED = os.path.exists(EXE) and re.search(rb"__[at]san_init", pathlib.Path(EXE).read_bytes()) is not None
USER = 65534  # an ordinary uid, for the daemon without privilege when the tests run as root
STRANGER = 12345  # a uid that is nobody's


def temp_root():
    """Where data directories go: a file system in memory if there is one, else the usual place."""
    shm = pathlib.Path("/dev/shm")
    return os.environ.get("WORKSPACE_TEST_DIR") or (str(shm) if os.access(shm, os.W_OK) else tempfile.gettempdir())


def poll(what, condition, deadline=DEADLINE):
    """Waits until condition() is true; its value."""
    end = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {deadline} s for {what}"
        time.sleep(0.005)
    return value


@contextlib.contextmanager
def as_uid(uid):
    """What this process opens meanwhile, sockets included, belongs to `uid`; no change when not root."""
    if not IS_ROOT:
        yield
        return
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class Daemon:
    """One data directory and the daemon on it.

    uid: run as this ordinary user instead of the user of the tests (needs root).  env: further settings.
    launcher: words put before the program.  base: where the data directory goes; removed by destroy().
    """

    def __init__(self, uid=None, env=(), launcher=(), base=None):
        self.uid = uid if IS_ROOT else None
        self.base = pathlib.Path(base or tempfile.mkdtemp(prefix="workspaced-test-", dir=temp_root()))
        self.base.chmod(0o755)
        self.data, self.log = self.base / "data", self.base / "daemon.log"
        self.env, self.launcher = dict(env), list(launcher)
        self.exe = pathlib.Path(EXE).resolve()
        self.is_sanitized = IS_SANITIZED
        self.proc, self.http_port, self.nfs_port, self.log_checked = None, 0, 0, 0
        if self.uid is not None:  # the build directory may be closed to that user
            self.exe = pathlib.Path(shutil.copy(self.exe, self.base / "workspaced"))
            os.chown(self.base, self.uid, self.uid)

    # ---- its life ----

    def launch(self):
        """Starts the process without waiting."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("WORKSPACE")}
        suppressions = self.base / "tsan.supp"
        suppressions.write_text(TSAN_SUPPRESSIONS)
        env.setdefault("TSAN_OPTIONS", f"suppressions={suppressions}")
        env["WORKSPACE_DATA_DIR"] = str(self.data)
        env.update(WORKSPACE_HTTP_PORT=str(self.http_port), WORKSPACE_NFS_PORT=str(self.nfs_port))
        env.update(self.env)
        who = {} if self.uid is None else dict(user=self.uid, group=self.uid, extra_groups=[])
        with open(self.log, "ab") as log:
            self.log_start = log.tell()
            self.proc = subprocess.Popen(
                [*self.launcher, str(self.exe)], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.base, **who
            )
        return self

    def start(self):
        self.launch()

        def ready():
            assert self.proc.poll() is None, f"exit {self.proc.returncode} at start:\n{self.tail()}"
            return READY.search(self.log_text())

        m = poll("the ready line", ready)
        self.http_port, self.nfs_port = int(m[1]), int(m[2])
        return self

    @property
    def pid(self):
        return self.proc.pid

    def alive(self):
        return self.proc is not None and self.proc.poll() is None

    def log_text(self):
        """What this run has said so far."""
        return self.log.read_bytes()[self.log_start :].decode(errors="replace")

    def tail(self, n=60):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-n:]) if self.log.exists() else ""

    def check_log(self):
        """No sanitizer report since the last look."""
        text = self.log.read_bytes().decode(errors="replace") if self.log.exists() else ""
        news, self.log_checked = text[self.log_checked :], len(text)
        m = SANITIZER.search(news)
        assert m is None, f"sanitizer report:\n{news[m.start():][:8000]}"

    def stop(self, deadline=DEADLINE):
        """SIGTERM; the exit must be clean."""
        self.proc.terminate()
        code = self.proc.wait(deadline)
        self.check_log()
        assert code == 0, f"exit {code} on SIGTERM:\n{self.tail()}"

    def kill9(self):
        self.proc.kill()
        self.proc.wait(DEADLINE)

    def restart(self, kill=True):
        """On the same data directory and ports."""
        self.kill9() if kill else self.stop()
        return self.start()

    def destroy(self):
        """Ends it, clean if it still can be, and removes its files."""
        try:
            if self.alive():
                self.stop()
            self.check_log()
        finally:
            if self.alive():
                self.kill9()
            shutil.rmtree(self.base, ignore_errors=True)

    # ---- what it costs ----

    def rss(self):
        """Resident bytes of the main process."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def fds(self):
        """What the main process has open, as /proc tells it."""
        top, out = f"/proc/{self.pid}/fd", []
        try:
            for n in os.listdir(top):
                with contextlib.suppress(FileNotFoundError):
                    out.append(os.readlink(f"{top}/{n}"))
        except PermissionError:  # it is not dumpable, so its own user may not look
            pytest.skip("needs root to count the daemon's descriptors")
        return out

    def n_fds(self):
        return len(self.fds())

    # ---- HTTP ----

    def http(self, method, path, body=None):
        """(status, decoded JSON or text)"""
        conn = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=DEADLINE)
        try:
            data = None if body is None else json.dumps(body)
            conn.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            reply = conn.getresponse()
            text = reply.read().decode()
            kind = reply.getheader("Content-Type") or ""
            return reply.status, json.loads(text) if "json" in kind else text
        finally:
            conn.close()

    def api(self, method, path, body=None):
        status, value = self.http(method, "/api/v1" + path, body)
        assert status == 200, f"{method} {path}: {status} {value}"
        return value

    def create_workspace(self, name=None):
        return self.api("POST", "/workspaces", {"name": name} if name else {})["id"]

    def delete_workspace(self, ws):
        return self.api("DELETE", f"/workspaces/{ws}")

    def set_export(self, ws, mode="squash", read_only=False, clients=()):
        """Rules of one workspace; clients: networks as text, or (network, read_only)."""
        nets = [dict(network=c, read_only=False) if isinstance(c, str) else dict(network=c[0], read_only=c[1])
                for c in clients]
        return self.api("PUT", f"/workspaces/{ws}/export", dict(mode=mode, read_only=read_only, clients=nets))

    # ---- NFS ----

    def conn(self, **kw):
        return Conn(self.nfs_port, **kw)

    def mount_conn(self):
        return self.conn()

    def mnt(self, path, cred=nfs3.OWNER):
        with self.mount_conn() as c:
            return mount3.Mount(c, cred).mnt(path)

    def root(self, ws):
        res = self.mnt(f"/{ws}")
        assert res.status == mount3.M.OK, res
        return res.fh

    def workspace(self):
        return Workspace(self)

    # ---- the local side ----

    def host_dir(self, ws):
        return self.data / "workspaces" / ws / "files"

    @contextlib.contextmanager
    def local(self):
        """What is done to the files meanwhile is done as the user that they belong to."""
        with as_uid(os.stat(self.data).st_uid):
            yield


class Workspace:
    """A new workspace with a connection: `nfs`, the handle `root`, and `dir` on the local side."""

    def __init__(self, daemon):
        self.daemon, self.id = daemon, daemon.create_workspace()
        self.root, self.dir = daemon.root(self.id), daemon.host_dir(self.id)
        self.conns, self.nfs = [], None
        self.nfs = self.connect()

    def connect(self, cred=nfs3.OWNER, **kw):
        """A further client on a connection of its own."""
        n = nfs3.Nfs(self.daemon.conn(**kw), cred)
        self.conns.append(n.conn)
        return n

    def as_(self, cred):
        """A client with another credential on the same connection."""
        return nfs3.Nfs(self.nfs.conn, cred)

    def restart(self, kill=True):
        self.close()
        self.daemon.restart(kill)
        self.nfs = self.connect()

    def close(self):
        for c in self.conns:
            c.close()
        self.conns = []


def build_tool(name, where, *flags):
    """Compiles tests/tools/<name>.c into the folder `where`, which a service user can reach."""
    if shutil.which("cc") is None:
        pytest.skip(f"needs a C compiler for tests/tools/{name}.c")
    out = pathlib.Path(where) / name
    source = pathlib.Path(__file__).parents[2] / "tools" / f"{name}.c"
    subprocess.run(["cc", "-O1", "-o", out, source, *flags], check=True)
    return out


def can_mount():
    return IS_ROOT and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
