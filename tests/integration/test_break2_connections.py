# SPDX-License-Identifier: MIT
"""Connections that only wait take nothing from those that work."""
import contextlib
import resource
import socket

import pytest

from lib.daemon import DEADLINE

N_IDLE, N_ACTIVE = 1000, 200
FDS_NEEDED = 16_384  # of which HTTP has its share
GET = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def many_fds():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FDS_NEEDED:
        pytest.skip(f"needs {FDS_NEEDED} descriptors, may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FDS_NEEDED), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ask(conn):
    conn.sendall(GET)
    assert conn.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_a_thousand_idle_connections_keep_nobody_out(many_fds, fresh):
    d = fresh()
    with contextlib.ExitStack() as stack:

        def connect():
            return stack.enter_context(socket.create_connection(("127.0.0.1", d.http_port), DEADLINE))

        for conn in [connect() for _ in range(N_IDLE)]:
            ask(conn)
        active = [connect() for _ in range(N_ACTIVE)]
        for _ in range(3):
            for conn in active:
                ask(conn)
        assert d.http("GET", "/api/v1/health")[0] == 200
