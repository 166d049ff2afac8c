# SPDX-License-Identifier: MIT
"""The Unix socket of the HTTP API, and the limits on one client."""
import contextlib
import http.client
import os
import socket
import stat
import threading

import pytest

from lib.daemon import DEADLINE, IS_ROOT, STRANGER, Daemon, as_uid, poll

HOST = b"Host: localhost\r\n"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(str(self.path))


def ask(path, method, url, headers=()):
    with contextlib.closing(UnixConnection(path)) as conn:
        conn.request(method, url, headers=dict(headers))
        reply = conn.getresponse()
        reply.read()
        return reply.status


@pytest.fixture
def sock(reachable):
    reachable.chmod(0o777)
    return reachable / "http.sock"


def test_the_unix_socket_knows_callers_by_their_uid(fresh_any, sock):
    d = fresh_any(env={"WORKSPACE_HTTP_SOCKET": str(sock)})
    assert stat.S_ISSOCK(os.stat(sock).st_mode)
    url = f"/api/v1/workspaces/{d.create_workspace()}"
    assert ask(sock, "GET", url) == 200
    if IS_ROOT:
        with as_uid(STRANGER):
            assert ask(sock, "GET", url) == 401
            assert ask(sock, "GET", "/api/v1/health") == 200
    assert ask(sock, "GET", url, {"Host": "evil.example"}) == 403
    # killed: the next start replaces what is left
    d.restart()
    assert ask(sock, "GET", url) == 200
    d.stop()
    assert not sock.exists()


def test_a_key_is_asked_for_at_the_unix_socket_too(fresh, sock):
    fresh(env={"WORKSPACE_HTTP_SOCKET": str(sock), "WORKSPACE_API_KEY": "secret-of-sixteen"})
    assert ask(sock, "GET", "/api/v1/workspaces") == 401
    assert ask(sock, "GET", "/api/v1/workspaces", {"Authorization": "Bearer secret-of-sixteen"}) == 200


@pytest.mark.parametrize("what", ["file", "listener", "too long", "no directory"])
def test_a_socket_that_cannot_be_is_a_start_error(what, sock):
    path, held = sock, socket.socket(socket.AF_UNIX)
    if what == "file":
        sock.write_text("precious")
    elif what == "listener":
        held.bind(str(sock))
        held.listen()
    elif what == "too long":
        path = str(sock) + "x" * 100
    else:
        path = sock.parent / "none" / "sock"
    d = Daemon(env={"WORKSPACE_HTTP_SOCKET": str(path)}).launch()
    try:
        assert d.proc.wait(DEADLINE) != 0
        assert "WORKSPACE_HTTP_SOCKET" in d.log_text() or "Unix socket" in d.log_text()
    finally:
        d.destroy()
        held.close()
    assert what != "file" or sock.read_text() == "precious"


def statuses(d, n, request):
    """Of n pipelined requests."""
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(request * n)
        s.shutdown(socket.SHUT_WR)
        got = b""
        while piece := s.recv(1 << 20):
            got += piece
    return got


def test_a_client_that_asks_too_often_is_told_to_wait(fresh):
    d = fresh(env={"WORKSPACE_HTTP_RATE": "20"})
    got = statuses(d, 100, b"GET /api/v1/workspaces HTTP/1.1\r\n" + HOST + b"\r\n")
    n_ok, n_busy = got.count(b"HTTP/1.1 200 "), got.count(b"HTTP/1.1 429 ")
    assert n_ok >= 20 and n_busy >= 50 and n_ok + n_busy == 100
    assert got.count(b"Retry-After: 1\r\n") == n_busy and got.count(b'"code":1008') == n_busy
    assert statuses(d, 50, b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"\r\n").count(b"HTTP/1.1 200 ") == 50
    poll("the client to be let in again", lambda: d.http("GET", "/api/v1/workspaces")[0] == 200)


def test_a_client_with_too_much_at_work_is_told_to_wait(fresh):
    d = fresh(env={"WORKSPACE_HTTP_CONCURRENCY": "3"})
    ws = d.create_workspace()
    put = f"PUT /api/v1/workspaces/{ws}/files?path=f HTTP/1.1\r\n".encode() + HOST + \
        b"Content-Type: application/octet-stream\r\nContent-Length: 10\r\n\r\n"
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(("127.0.0.1", d.http_port), DEADLINE)) for _ in range(3)]
        for s in socks:
            s.sendall(put + b"half")
        poll("three to be at work", lambda: d.http("GET", "/api/v1/workspaces")[0] == 429)
        socks[0].sendall(b"a body")
        assert socks[0].recv(65536).startswith(b"HTTP/1.1 200")
        assert d.http("GET", "/api/v1/workspaces")[0] == 200
        socks[1].close()
    poll("all to be given back", lambda: len([1 for _ in range(3) if d.http("GET", "/metrics")[0] == 200]) == 3)
    threads, answers = [], []
    for _ in range(20):
        threads.append(threading.Thread(target=lambda: answers.append(d.http("GET", "/api/v1/workspaces")[0])))
        threads[-1].start()
    for t in threads:
        t.join()
    assert set(answers) <= {200, 429} and 200 in answers
