# SPDX-License-Identifier: MIT
"""Runs a group of checks in the guest, and does on the server's side what the checks ask for meanwhile."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

import pytest

HERE = pathlib.Path(__file__).parent
NFS_GUEST = HERE.parent / "nfs-guest" / "nfs-guest"
# Settings of the environment that reach the checks: how much of everything (docs/testing.md)
SCALES = ("FSX_OPS", "FSX_SEED", "TOOLS_SCALE", "HUGE_DIR", "RESTARTS", "CHURN", "PATIENCE")
PATIENCE = int(os.environ.get("PATIENCE") or 1)  # every time limit is multiplied by this
LINE = re.compile(r"^(ok|not ok|skip) (\w+)(?:: (.*))?$")


class HostSide:
    """What checks may ask of the server's side: methods do_<action>, paths relative to the workspace.

    Files are touched as the user that the daemon runs as, the way another door to the workspace would.
    """

    def __init__(self, server):
        self.server = server
        self.mounted = []

    def path(self, name):
        return os.path.join(self.server.dir, name)

    def local(self):
        return self.server.local()

    # ---- reading ----

    def do_sha256(self, name):
        with open(self.path(name), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def do_read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read().decode("latin-1")

    def do_read_at(self, name, offset, n):
        with open(self.path(name), "rb") as f:
            return os.pread(f.fileno(), n, offset).decode("latin-1")

    def do_stat(self, name):
        st = os.lstat(self.path(name))
        return dict(size=st.st_size, mode=st.st_mode & 0o7777, atime_ns=st.st_atime_ns, mtime_ns=st.st_mtime_ns,
                    ino=st.st_ino)

    def do_statvfs(self):
        s = os.statvfs(self.server.dir)
        return dict(bytes=s.f_blocks * s.f_frsize, files=s.f_files)

    def do_list(self, name):
        return sorted(os.fsencode(n).hex() for n in os.listdir(self.path(name)))

    def do_tree_digest(self, name):
        import tree  # shared with the guest

        return tree.digest(self.path(name))

    # ---- changing ----

    def do_write(self, name, text):
        with self.local(), open(self.path(name), "w", encoding="latin-1") as f:
            f.write(text)

    def do_append(self, name, text):
        with self.local(), open(self.path(name), "a", encoding="latin-1") as f:
            f.write(text)

    def do_mkdir(self, name):
        with self.local():
            os.mkdir(self.path(name))

    def do_symlink(self, target, name):
        with self.local():
            os.symlink(target, self.path(name))

    def do_rename(self, old, new):
        with self.local():
            os.rename(self.path(old), self.path(new))

    def do_remove(self, name):
        with self.local():
            path = self.path(name)
            os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)

    def do_make_files(self, name, n):
        with self.local():
            folder = os.open(self.path(name), os.O_RDONLY)
            for i in range(n):
                os.close(os.open(f"file-{i:06d}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=folder))
            os.close(folder)

    def do_remove_files(self, name, start, stop, step):
        with self.local():
            folder = os.open(self.path(name), os.O_RDONLY)
            for i in range(start, stop, step):
                try:
                    os.unlink(f"file-{i:06d}", dir_fd=folder)
                except FileNotFoundError:
                    pass
            os.close(folder)

    def do_remove_tree(self, name):
        shutil.rmtree(self.path(name))

    def do_replace_many(self, name, beside, n, size):
        """`n` times a new version of a file, of one byte value, is made in the folder `beside` and renamed onto it."""
        with self.local():
            for i in range(n):
                new = self.path(f"{beside}/new")
                with open(new, "wb") as f:
                    f.write(bytes([i % 256]) * size)
                os.rename(new, self.path(name))
                time.sleep(0.03)  # see REPLACE_PAUSE in checks/shared.py

    def do_churn(self, name, n):
        """Creates, renames and removes in one folder; leaves the last 20 names."""
        with self.local():
            for i in range(n):
                with open(self.path(f"{name}/h{i}"), "w") as f:
                    f.write("h")
                os.rename(self.path(f"{name}/h{i}"), self.path(f"{name}/host-{i}"))
                if i >= 20:
                    os.unlink(self.path(f"{name}/host-{i - 20}"))

    # ---- the server itself ----

    def do_may_mount(self):
        return os.geteuid() == 0

    def do_mount_tmpfs(self, name):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.path(name)], check=True)
        self.mounted.append(self.path(name))
        pathlib.Path(self.path(name), "secret").write_text("not in the workspace")

    def do_umount(self, name):
        subprocess.run(["umount", self.path(name)], check=True)
        self.mounted.remove(self.path(name))

    def do_kill_and_restart(self):
        self.server.daemon.restart(kill=True)

    def do_kill(self):
        self.server.daemon.kill9()

    def do_start(self):
        self.server.daemon.start()

    def do_set_export(self, rules):
        self.server.daemon.set_export(self.server.id, **rules)

    def undo(self):
        for path in self.mounted:
            subprocess.run(["umount", path], check=False)


class Answers(threading.Thread):
    """Answers the questions that checks put into the shared folder, one after another, each in its own thread."""

    def __init__(self, share, side):
        super().__init__(daemon=True)
        self.share, self.side, self.done = share, side, threading.Event()

    def run(self):
        while not self.done.wait(0.005):
            for question in self.share.glob("ask-*"):
                number = question.name.partition("-")[2]
                action, *args = json.loads(question.read_text())
                question.unlink()
                threading.Thread(target=self.answer, args=(number, action, args), daemon=True).start()

    def answer(self, number, action, args):
        try:
            reply = [True, getattr(self.side, f"do_{action}")(*args)]
        except BaseException as e:  # the check tells it
            reply = [False, f"{type(e).__name__}: {e}"]
        temporary = self.share / f"reply-{number}"
        temporary.write_text(json.dumps(reply))
        temporary.rename(self.share / f"answer-{number}")


class Outcome:
    """What one guest said: `results` is {check: (verdict, text)}."""

    def __init__(self, code, out, err):
        self.code, self.err = code, err
        self.results = {}
        for line in out.splitlines():
            if m := LINE.match(line):
                self.results[m[2]] = m[1], m[3] or ""
        if log := os.environ.get("GUEST_LOG"):  # for who works on the checks: everything, with each one's time
            pathlib.Path(log).open("a").write(f"== {code}\n{out}{err}")

    def require(self, name):
        assert name in self.results, f"no word from {name}; the guest ended with {self.code}:\n{self.err[-3000:]}"
        verdict, why = self.results[name]
        if verdict == "skip":
            pytest.skip(why)
        assert verdict == "ok", f"{name}: {why}"


def run(server, group, names=(), mounts=True, options="", second=None, timeout=600, env=(), server2=None):
    """Boots a guest, runs the checks `names` of checks/<group>.py in it, and returns the Outcome.

    options: added to the documented mount options.  second: options of a second mount, or None for none; it is the
    same workspace, or that of server2.  mounts: False leaves mounting to the checks.
    """
    share = pathlib.Path(tempfile.mkdtemp(prefix="guest-share-"))
    share.chmod(0o777)
    side = HostSide(server)
    answers = Answers(share, side)
    command = [str(NFS_GUEST), "run", "--port", str(server.port), "--mountport", str(server.mountport),
               "--put", str(HERE / "checks"), "--share", str(share), "--timeout", str(timeout * PATIENCE),
               "--mem", os.environ.get("GUEST_MEM") or "768"]
    command += ["--export", server.export] if mounts else ["--no-mount", "--export", server.export]
    command += ["--mountopts", options] if options else []
    if second is not None:
        command += ["--export2", (server2 or server).export, "--mountopts2", second or "nosharecache"]
    scales = [f"{name}={os.environ[name]}" for name in SCALES if name in os.environ]
    for setting in [*env, *scales, *(["NFS_MOUNTED=1"] if mounts else [])]:
        command += ["--env", setting]
    script = f"exec python3 -B /mnt/put/checks/run.py {group} {' '.join(names)}"
    answers.start()
    try:
        p = subprocess.run([*command, "-"], input=script, capture_output=True, text=True, errors="replace",
                           timeout=timeout * PATIENCE + 60)
        return Outcome(p.returncode, p.stdout, p.stderr)
    finally:
        answers.done.set()
        side.undo()
        shutil.rmtree(share, ignore_errors=True)
