# SPDX-License-Identifier: MIT
"""`fuse-client` as a command: mounting, unmounting, what it says, and what a dead one leaves behind."""
import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

from lib.daemon import IS_ROOT, poll
from lib.fuse import MOUNTER


@pytest.fixture
def idle(fuse_daemon, mounts):
    """A workspace that is not mounted yet, for whoever the tests run as."""
    return mounts(fuse_daemon, fuse_daemon.create_workspace())


def background(m, *options, target=None):
    code, out = m.command("mount", *options, target or m.target, str(m.dir))
    assert code == 0, out
    return m


# ---- words ----


def test_help_and_version(idle):
    code, out = idle.command("--help")
    assert code == 0 and "--attr-timeout" in out and "umount" in out
    code, out = idle.command("--version")
    assert code == 0 and out.startswith("fuse-client ")
    assert idle.command()[0] == 2


@pytest.mark.parametrize("words, said", [
    (["mount"], "a target and a directory"),
    (["mount", "nonsense", "/tmp"], "neither HOST"),
    (["mount", "--frobnicate", "h:/x", "/tmp"], "--frobnicate"),
    (["mount", "--connections", "0", "h:/x", "/tmp"], "connections"),
    (["mount", "--api", "http://x", "h:/x", "/tmp"], "--workspace"),
    (["umount"], "umount [--lazy] DIR"),
    (["status", "--xml"], "status [--json]"),
])
def test_wrong_words_are_told(idle, words, said):
    code, out = idle.command(*words)
    assert code == 2 and said in out


# ---- mounting ----


def test_it_returns_when_the_mount_answers(idle):
    background(idle)
    assert idle.is_mounted()
    assert idle.sh("echo 1 >f; cat f") == "1\n"
    code, out = idle.command("umount", str(idle.dir))
    assert code == 0, out
    assert not idle.is_mounted()


def test_by_url_and_a_subdirectory(idle):
    background(idle, target=f"nfs://127.0.0.1:{idle.daemon.nfs_port}/{idle.ws}").sh("mkdir -p a/b; echo deep >a/b/f")
    idle.end()
    background(idle, target=idle.target + "/a/b")
    assert idle.sh("cat f") == "deep\n"


def test_by_the_workspaces_name(fuse_daemon, idle):
    api = f"http://127.0.0.1:{fuse_daemon.http_port}"
    name = f"named-{os.urandom(4).hex()}"
    ws = fuse_daemon.create_workspace(name)
    code, out = idle.command("mount", "--api", api, "--workspace", name, str(idle.dir))
    assert code == 0, out
    idle.sh("echo here >f")
    assert (fuse_daemon.host_dir(ws) / "f").read_text() == "here\n"
    idle.end()
    code, out = idle.command("mount", "--api", api, "--workspace", "no such", str(idle.dir))
    assert code == 1 and "no workspace 'no such'" in out
    fuse_daemon.create_workspace(name)
    code, out = idle.command("mount", "--api", api, "--workspace", name, str(idle.dir))
    assert code == 1 and "several" in out


def test_what_cannot_be_mounted_is_told(idle):
    for target, said in [
        (f"127.0.0.1:{idle.daemon.nfs_port}:/no-such", "has no '/no-such'"),
        (f"127.0.0.1:{idle.daemon.http_port}:/{idle.ws}", "127.0.0.1"),
        ("127.0.0.1:1:/x", "refused"),
        ("no-such-host.invalid:/x", "no-such-host.invalid"),
    ]:
        code, out = idle.command("mount", "--mount-timeout", "3", target, str(idle.dir))
        assert code == 1 and said in out, (target, out)
        assert not idle.is_mounted()
    code, out = idle.command("mount", idle.target, str(idle.dir / "none"))
    assert code == 1 and "No such file" in out


def test_a_second_mount_at_the_same_place_is_refused(idle):
    background(idle)
    code, out = idle.command("mount", idle.target, str(idle.dir))
    assert code == 1 and "already" in out
    assert idle.sh("echo fine") == "fine\n"


def test_busy_and_lazy(idle):
    background(idle)
    held = idle.start(["sh", "-c", "echo in; read x"], stdin=-1, stdout=-1, text=True)
    assert held.stdout.readline() == "in\n"
    code, out = idle.command("umount", str(idle.dir))
    assert code == 1 and "--lazy" in out
    code, out = idle.command("umount", "--lazy", str(idle.dir))
    assert code == 0, out
    held.communicate("\n", timeout=20)
    assert not idle.is_mounted()
    code, out = idle.command("umount", str(idle.dir))
    assert code == 2 and "not a mount of fuse-client" in out


def test_read_only_and_owner_options(idle):
    if not IS_ROOT:
        pytest.skip("needs root to show another owner")
    idle.mount("--uid", "4242", "--gid=77", "--umask", "027")
    assert idle.sh("umask 0; echo 1 >f; stat -c '%u %g %a' f").split() == ["4242", "77", "640"]
    idle.end()
    idle.mount("--read-only")
    assert "Read-only" in idle.sh("cat f; echo 2 >f", fails=True)
    idle.end()
    idle.mount("--no-map")
    assert idle.sh("stat -c '%u %g' f").split() == ["1000", "1000"]


def test_status(idle):
    background(idle, "--connections", "3").sh("echo 1 >f; cat f")
    poll("all connections", lambda: idle.status()["connected"] == 3)
    st = idle.status()
    assert st["server"] == "127.0.0.1" and st["port"] == idle.daemon.nfs_port and st["path"] == f"/{idle.ws}"
    assert st["connections"] == 3 and st["uncommitted_bytes"] == 0
    assert st["calls"]["CREATE"] == 1 and st["calls"]["WRITE"] == 1
    code, out = idle.command("status")
    assert code == 0 and str(idle.dir) in out and "3 of 3" in out
    idle.end()
    poll("its end", lambda: json.loads(idle.command("status", "--json")[1]) == [])
    poll("its process's end", lambda: not os.path.exists(f"/proc/{st['pid']}"))


def test_one_small_file_is_one_write_and_no_commit(idle):
    background(idle).sh("echo 1 >f")
    calls = idle.status()["calls"]
    assert calls["WRITE"] == 1 and "COMMIT" not in calls


def test_a_trace_line_per_call(idle):
    idle.mount("-d").sh("echo 1 >f")
    text = idle.log.read_text()
    assert "fuse create" in text and "rpc CREATE" in text and "rpc WRITE" in text


def test_helper_of_mount8(idle):
    if not IS_ROOT:
        pytest.skip("needs root: mount(8)")
    helper = idle.base / "mount.fuse.workspaced"
    helper.symlink_to(idle.exe)
    # As mount(8) calls it: SPEC DIR -o LIST.
    p = subprocess.run([helper, idle.target, idle.dir, "-o", "rw,noatime,soft,timeout=5,_netdev,x-systemd.automount"],
                       env={**os.environ, "XDG_RUNTIME_DIR": str(idle.run)}, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert idle.sh("echo 1 >f; cat f") == "1\n"


# ---- its end ----


def test_sigterm_unmounts(idle):  # B053
    idle.mount().sh("echo 1 >f")
    idle.proc.send_signal(signal.SIGTERM)
    assert idle.proc.wait(20) == 0
    assert not idle.is_mounted()


@pytest.mark.parametrize("uid", [0, MOUNTER] if IS_ROOT else [os.geteuid()])
def test_what_a_killed_client_leaves_is_cleared(fuse_daemon, mounts, uid):  # B053
    m = mounts(fuse_daemon, fuse_daemon.create_workspace(), uid=uid).mount()
    shell = m.start(["sh", "-c", "echo in; read x"], stdin=-1, stdout=-1, text=True)
    assert shell.stdout.readline() == "in\n"
    m.sh("echo kept >f; sync f")
    m.kill9()
    assert m.is_mounted()  # dead: "Transport endpoint is not connected"
    background(m)
    assert m.sh("cat f") == "kept\n"
    shell.communicate("\n", timeout=20)
    m.end()
    background(m)
    pid = m.status()["pid"]
    os.kill(pid, signal.SIGKILL)
    poll("its end", lambda: not os.path.exists(f"/proc/{pid}"))
    code, out = m.command("umount", str(m.dir))
    assert code == 0, out
    assert not m.is_mounted()


# ---- other servers ----


PEER = "tests/bench/run-peer-ganesha.sh"


def test_nfs_ganesha_can_be_mounted(mounts, fuse_daemon, reachable):
    if not IS_ROOT or not all(map(shutil.which, ("ganesha.nfsd", "rpcbind"))):
        pytest.skip("needs root and the packages nfs-ganesha nfs-ganesha-vfs rpcbind")
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    port, mport = (str(s.getsockname()[1]) for s in socks)
    for s in socks:
        s.close()
    export = reachable / "export"
    export.mkdir()
    env = {**os.environ, "NFSBENCH_STATE": str(reachable / "state")}
    p = subprocess.run([PEER, "start", export, port, mport], env=env, capture_output=True, text=True)
    try:
        if p.returncode != 0:
            pytest.skip(f"ganesha.nfsd does not start here: {p.stderr}")
        m = mounts(fuse_daemon, "none")
        m.target = f"127.0.0.1:{port}:{export}"
        background(m, "--mount-port", mport)
        m.sh("""
            mkdir d && echo text >d/f && ln d/f g && ln -s d/f l && cat l g && mv d/f d/h && rm g l
            head -c 3000000 /dev/urandom >big && cp big big2 && cmp big big2 && ls d && rm -r d big big2
            set -C; echo exclusive >x; rm x
        """)
        m.end()
    finally:
        subprocess.run([PEER, "stop", port], env=env, check=False, capture_output=True)
