# SPDX-License-Identifier: MIT
"""A restore that does not come to its end leaves nothing, and shows nothing before it has."""
import contextlib
import http.client
import os
import socket

from lib.daemon import DEADLINE, poll

API = "/api/v1/workspaces"
N_FILES, SIZE = 20, 64 << 10
OCTETS = {"Content-Type": "application/octet-stream"}


def ids(d, query=""):
    return {ws["id"] for ws in d.api("GET", f"/workspaces{query}")["workspaces"]}


def backup_of(d):
    """A backup of N_FILES files, and the workspace it is of."""
    ws = d.create_workspace("source")
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", d.http_port, timeout=DEADLINE)) as c:
        for i in range(N_FILES):
            c.request("PUT", f"{API}/{ws}/files?path={i}&raw=1", bytes(SIZE), OCTETS)
            assert c.getresponse().read()
        c.request("GET", f"{API}/{ws}/backup")
        return ws, c.getresponse().read()


def folders(d):
    return {name for name in os.listdir(d.data / "workspaces") if name != ".trash"}


def half_a_restore(d, ws, data):
    """A connection on which half of @data has been sent, when some of it is in place."""
    c = socket.create_connection(("127.0.0.1", d.http_port), timeout=DEADLINE)
    c.sendall(f"POST {API}/restore HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n".encode())
    c.sendall(data[: len(data) // 2])

    def begun():
        return any(os.listdir(d.host_dir(new)) for new in folders(d) - {ws})

    poll("the first restored file", begun)
    return c


def test_a_kill_in_a_restore_leaves_no_workspace(fresh):
    d = fresh()
    ws, data = backup_of(d)
    with half_a_restore(d, ws, data):
        assert ids(d) == {ws}, "half a workspace is served"
        d.restart()
    assert (ids(d), ids(d, "?trashed=true"), folders(d)) == ({ws}, set(), {ws})


def test_a_restore_is_served_when_it_is_whole(fresh):
    d = fresh()
    ws, data = backup_of(d)
    with half_a_restore(d, ws, data) as c:
        (new,) = folders(d) - {ws}
        assert d.http("GET", f"{API}/{new}")[0] == 404
        assert d.http("DELETE", f"{API}/{new}")[0] == 404
        c.sendall(data[len(data) // 2 :])
        assert c.recv(12) == b"HTTP/1.1 200"
    d.restart()
    assert d.api("GET", f"/workspaces/{new}")["name"] == "source"
    assert [os.path.getsize(d.host_dir(new) / str(i)) for i in range(N_FILES)] == [SIZE] * N_FILES
