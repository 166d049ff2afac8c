# SPDX-License-Identifier: MIT
"""The program itself: command line, settings, start, signals, exit status."""
import os
import pathlib
import re
import select
import signal
import socket
import subprocess

import pytest
from lib.daemon import EXE, IS_ROOT, Daemon, poll

SECRET = "hunter2-never-shown"


def run(*args, env=(), cwd=None):
    """The program to its end; of settings it has only `env`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WORKSPACE")}
    clean.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    clean.update(env)
    return subprocess.run([str(pathlib.Path(EXE).resolve()), *args], env=clean, cwd=cwd, capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL)


def refused(tmp_path, **env):
    """Starts with a setting that must stop the start; what it said."""
    r = run(env={"WORKSPACE_DATA_DIR": str(tmp_path / "data"), "WORKSPACE_HTTP_PORT": "0", "WORKSPACE_NFS_PORT": "0", **env})
    assert r.returncode == 1, r
    return r.stderr


# ---- command line ----


def test_version_and_help():
    r = run("--version")
    assert r.returncode == 0 and re.fullmatch(r"workspaced \d+\.\d+\.\d+\n", r.stdout)
    r = run("--help")
    assert r.returncode == 0 and "--check-config" in r.stdout and "WORKSPACE_NFS_EXPORTS" in r.stdout


@pytest.mark.parametrize("args", [["--bogus"], ["extra"], ["--config"]])
def test_wrong_usage_is_exit_2(args):
    r = run(*args)
    assert r.returncode == 2 and "--help" in r.stderr and r.stdout == ""


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        r = subprocess.run([EXE, "--help"], stdout=full, stderr=subprocess.DEVNULL, timeout=60)
    assert r.returncode == 1


# ---- settings ----


def test_check_config_prints_values_without_secrets_and_touches_nothing(tmp_path):
    r = run("--check-config", cwd=tmp_path, env={"WORKSPACE_API_KEY": SECRET, "WORKSPACE_HTTP_PORT": "81"})
    assert r.returncode == 0, r
    assert "# environment:\nWORKSPACE_HTTP_PORT=81\n" in r.stdout
    assert "# environment, not shown: WORKSPACE_API_KEY\n" in r.stdout
    assert SECRET not in r.stdout + r.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_bad_value_stops_the_start_with_one_sentence(tmp_path):
    text = refused(tmp_path, WORKSPACE_HTTP_PORT="http")
    assert text.count("\n") == 1 and "WORKSPACE_HTTP_PORT" in text and "65535" in text
    assert SECRET not in refused(tmp_path, WORKSPACE_API_KEY=f"a b{SECRET}")
    assert not (tmp_path / "data").exists()


def test_unknown_names_are_errors_in_a_file_and_warnings_in_the_environment(tmp_path):
    conf = tmp_path / "w.conf"
    conf.write_text("WORKSPACE_HTTP_PROT=81\n")
    r = run("--check-config", "--config", str(conf))
    assert r.returncode == 1 and "line 1" in r.stderr and "WORKSPACE_HTTP_PORT" in r.stderr
    r = run("--check-config", env={"WORKSPACE_HTTP_PROT": SECRET})
    assert r.returncode == 0 and "WORKSPACE_HTTP_PORT" in r.stderr and SECRET not in r.stderr


def test_settings_come_from_a_file(tmp_path):
    conf = tmp_path / "w.conf"
    conf.write_text("# ports\nWORKSPACE_HTTP_PORT=81\nWORKSPACE_NFS_PORT=82\n")
    r = run("--check-config", f"--config={conf}", env={"WORKSPACE_NFS_PORT": "83"})
    assert r.returncode == 0, r
    assert "# file:\nWORKSPACE_HTTP_PORT=81\n" in r.stdout and "# environment:\nWORKSPACE_NFS_PORT=83\n" in r.stdout


@pytest.mark.parametrize("env", [dict(WORKSPACE_HTTP_HOST="0.0.0.0"), dict(WORKSPACE_NFS_BIND="::")])
def test_an_open_address_without_protection_is_refused(tmp_path, env):
    assert "ALLOW_UNAUTHENTICATED" in refused(tmp_path, **env)


def test_accepted_settings_without_effect_are_told(tmp_path):
    r = run("--check-config", env={"WORKSPACE_MCP_MODE": "http"})
    assert r.returncode == 0 and "no effect" in r.stderr and "WORKSPACE_MCP_MODE" in r.stderr
    assert "no effect" not in run("--check-config").stderr


def test_an_address_open_to_everybody_is_a_warning(tmp_path):
    r = run("--check-config", env={"WORKSPACE_NFS_BIND": "0.0.0.0", "WORKSPACE_ALLOW_UNAUTHENTICATED": "1"})
    assert r.returncode == 0 and " warn " in r.stderr and "WORKSPACE_NFS_BIND=0.0.0.0" in r.stderr
    assert "WORKSPACE_NFS_HOST" in r.stderr


@pytest.mark.parametrize("user", ["no-such-user", "root", "12x"])
def test_an_unusable_service_user_is_found_by_check_config(user):
    r = run("--check-config", env={"WORKSPACE_SERVICE_USER": user})
    assert r.returncode == 1 and "WORKSPACE_SERVICE_USER" in r.stderr


def test_a_message_has_the_whole_path_that_was_given(tmp_path):
    assert f"{tmp_path}/none.conf" in run("--check-config", "--config", f"{tmp_path}/none.conf").stderr
    r = run("--check-config", env={"WORKSPACE_API_KEY": f"@{tmp_path}/none.keys"})
    assert r.returncode == 1 and f"WORKSPACE_API_KEY: file {tmp_path}/none.keys" in r.stderr
    (tmp_path / "file").touch()
    assert f"WORKSPACE_DATA_DIR: cannot make the directory {tmp_path}/file/x" in refused(tmp_path, WORKSPACE_DATA_DIR=f"{tmp_path}/file/x")


def test_what_check_config_prints_can_be_read_back(tmp_path):
    conf = tmp_path / "w.conf"
    conf.write_text(run("--check-config", env={"WORKSPACE_HTTP_PORT": "81"}).stdout)
    r = run("--check-config", "--config", str(conf))
    assert r.returncode == 0 and "# file:\nWORKSPACE_HTTP_PORT=81\n" in r.stdout, r


# ---- start ----


def test_ready_and_stopped_are_said_at_every_level(fresh):
    d = fresh(env={"WORKSPACE_LOG": "error"})
    d.stop()
    assert [line.split()[3] for line in d.log_text().splitlines()] == ["ready", "stopped"]


def test_a_missing_handle_key_is_a_warning_when_there_are_workspaces(fresh):
    d = fresh()
    assert "handle.key" not in d.log_text()
    d.api("POST", "/workspaces", {"name": "x"})
    d.kill9()
    (d.data / "keys/handle.key").unlink()
    d.start()
    assert "warn main keys/handle.key was missing" in d.log_text()


@pytest.mark.skipif(not IS_ROOT, reason="needs root to give a file away")
@pytest.mark.parametrize("name", ["workspace.db", "keys/handle.key"])
def test_a_file_of_another_owner_is_told_with_the_command_that_mends_it(fresh, name):
    d = fresh()
    st = d.data.stat()
    d.stop()
    os.chown(d.data / name, 0, 0)
    d.launch()
    assert d.proc.wait(60) == 1
    assert f"chown -R {st.st_uid}:{st.st_gid} {d.data}" in d.log_text() and "ermission denied" in d.log_text()


def test_the_debug_signal_is_logged(fresh):
    d = fresh()
    for state in ["on", "as configured"]:
        os.kill(d.pid, signal.SIGUSR1)
        poll("the line", lambda: f"debug lines are {state}" in d.log_text())


@pytest.mark.parametrize("port", ["WORKSPACE_HTTP_PORT", "WORKSPACE_NFS_PORT"])
def test_a_port_in_use_is_said(tmp_path, port):
    with socket.create_server(("127.0.0.1", 0)) as s:
        text = refused(tmp_path, **{port: str(s.getsockname()[1])})
    assert "cannot start" in text and "in use" in text


def test_files_of_the_daemon_are_its_own(fresh):
    d = fresh()
    with d.local():
        assert d.data.stat().st_mode & 0o777 == 0o700
        key = d.data / "keys" / "handle.key"
        assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_size == 32
        before = key.read_bytes()
    d.restart(kill=False)
    with d.local():
        assert key.read_bytes() == before


def test_a_handle_key_of_the_wrong_size_is_never_replaced(fresh):
    d = fresh()
    d.stop()
    key = d.data / "keys" / "handle.key"
    for text in (b"", b"short", bytes(33)):
        with d.local():
            key.write_bytes(text)
        d.launch()
        assert d.proc.wait(60) == 1
        assert "handle.key" in d.log_text()
        with d.local():
            assert key.read_bytes() == text


def test_a_second_daemon_on_the_same_data_is_refused(fresh):
    d = fresh()
    r = run(env={"WORKSPACE_DATA_DIR": str(d.data), "WORKSPACE_HTTP_PORT": "0", "WORKSPACE_NFS_PORT": "0"})
    assert r.returncode == 1 and "cannot start" in r.stderr, r
    assert d.api("GET", "/health")["status"] == "healthy"


@pytest.mark.skipif(not IS_ROOT, reason="needs root, to start as root")
def test_root_may_start_it_below_a_folder_that_is_closed_to_others(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    d = Daemon(base=closed)
    closed.chmod(0o700)
    try:
        d.start()
        ws = d.create_workspace("demo")
        assert d.host_dir(ws).is_dir()
        assert os.stat(d.data).st_uid != 0
        d.restart()
        assert d.api("GET", f"/workspaces/{ws}")["name"] == "demo"
    finally:
        d.destroy()


def test_systemd_is_told(tmp_path):
    path = tmp_path / "notify"
    heard = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        os.chmod(path, 0o777)
        for folder in [tmp_path, *tmp_path.parents][:3]:  # pytest closes them to other users
            os.chmod(folder, os.stat(folder).st_mode | 0o011)
        s.settimeout(60)
        d = Daemon(env={"NOTIFY_SOCKET": str(path)})
        try:
            d.start()
            heard.append(s.recv(100))
            d.stop()
            heard.append(s.recv(100))
        finally:
            d.destroy()
    assert heard == [b"READY=1", b"STOPPING=1"]


# ---- signals ----


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_stop_signals_end_it_cleanly(fresh, sig):
    d = fresh()
    d.proc.send_signal(sig)
    assert d.proc.wait(60) == 0
    d.check_log()


def test_a_second_interrupt_does_not_wait(fresh):
    d = fresh(env={"WORKSPACE_API_KEY": SECRET})
    # A request that never ends keeps the first signal waiting for its deadline.
    with socket.create_connection(("127.0.0.1", d.http_port)) as s:
        s.sendall(b"POST /api/v1/workspaces HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + SECRET.encode()
                  + b"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        d.proc.send_signal(signal.SIGINT)
        poll("the first signal", lambda: "stopping" in d.log_text())
        d.proc.send_signal(signal.SIGINT)
        assert d.proc.wait(60) in (0, 130)


def test_debug_lines_are_switched_by_a_signal(fresh):
    d = fresh()
    d.proc.send_signal(signal.SIGUSR1)

    def debug_line():
        d.api("GET", "/workspaces")
        d.mnt("/")
        return " debug " in d.log_text()

    poll("a debug line", debug_line)
    assert d.alive()


def children(d):
    """{name: pid} of the processes that the daemon has forked."""
    pids = pathlib.Path(f"/proc/{d.pid}/task/{d.pid}/children").read_text().split()
    out = {pathlib.Path(f"/proc/{p}/comm").read_text().strip(): int(p) for p in pids}
    assert set(out) == {"workspaced-brk", "workspaced-hlp"}, out
    return out


def broker_pid(d):
    return children(d)["workspaced-brk"]


def test_it_ends_when_the_broker_dies(fresh):
    d = fresh()
    os.kill(broker_pid(d), signal.SIGKILL)
    assert d.proc.wait(60) == 1
    assert "broker" in d.log_text()


def test_nothing_is_left_when_the_daemon_is_killed(fresh):
    d = fresh()
    fds = {name: os.pidfd_open(pid) for name, pid in children(d).items()}
    d.kill9()
    for name, fd in fds.items():
        assert select.select([fd], [], [], 60)[0], f"{name} outlived the daemon"
        os.close(fd)
