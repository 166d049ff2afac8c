# SPDX-License-Identifier: MIT
"""The HTTP API of a running daemon: workspaces, exports, health, who is let in, and the protocol on the wire."""
import contextlib
import datetime
import http.client
import json
import re
import resource
import shutil
import socket
import threading
import uuid

import pytest

from lib.daemon import DEADLINE, IS_ROOT, STRANGER, as_uid, poll

API = "/api/v1"
HOST = b"Host: 127.0.0.1\r\n"
FORGED = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def many_descriptors():
    """The tests that hold a thousand connections need as many descriptors of their own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def d():
    """A daemon shared by the tests that only ask."""
    from conftest import VARIANTS, make

    daemon = make(VARIANTS[0]).start()
    yield daemon
    daemon.destroy()


def ask(d, method, path, body=None, **headers):
    """(status, headers, decoded JSON or text)"""
    conn = http.client.HTTPConnection("127.0.0.1", d.http_port, timeout=DEADLINE)
    with contextlib.closing(conn):
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        conn.request(method, path, body, headers)
        reply = conn.getresponse()
        text = reply.read().decode()
        is_json = "json" in (reply.getheader("Content-Type") or "") and text
        return reply.status, reply.headers, json.loads(text) if is_json else text


def code_of(d, *args, **kw):
    status, _, value = ask(d, *args, **kw)
    assert set(value) - {"details"} == {"code", "message"}, value
    assert all(isinstance(value[k], str) for k in value if k != "code"), value
    return status, value["code"]


def raw(d, data, more=b""):
    """Everything that comes back on one connection until the server closes it or all is answered."""
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(data)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if more:
                s.sendall(more)
            s.shutdown(socket.SHUT_WR)
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := s.recv(65536):
                got += piece
    return got


def statuses(data):
    return [int(s) for s in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", data)]


# ---- workspaces ----


def test_a_workspace_lives_from_post_to_delete(d):
    status, _, w = ask(d, "POST", API + "/workspaces", {"name": "a \u263a", "metadata": {"k": "v"}, "unknown": 1})
    assert status == 200
    assert set(w) == {"id", "name", "nfs_url", "metadata", "created_at", "updated_at"}
    assert uuid.UUID(w["id"]).version == 4 and len(w["id"]) == 36
    assert (w["name"], w["metadata"]) == ("a \u263a", {"k": "v"})
    assert w["nfs_url"] == f"nfs://127.0.0.1:{d.nfs_port}/{w['id']}"
    made = datetime.datetime.fromisoformat(w["created_at"])
    assert abs((datetime.datetime.now(datetime.timezone.utc) - made).total_seconds()) < 600
    assert d.host_dir(w["id"]).is_dir()
    assert ask(d, "GET", f"{API}/workspaces/{w['id']}")[2] == w
    assert ask(d, "DELETE", f"{API}/workspaces/{w['id']}")[::2] == (200, {"success": True})
    assert code_of(d, "GET", f"{API}/workspaces/{w['id']}") == (404, 7001)
    assert not d.host_dir(w["id"]).exists()


def test_an_empty_body_makes_a_nameless_workspace(d):
    for body, kind in [(None, None), ("", "application/json"), ("{}", None), ('{"name":null,"metadata":null}', None)]:
        status, _, w = ask(d, "POST", API + "/workspaces", body, **({"Content_Type": kind} if kind else {}))
        assert (status, w["name"], w["metadata"]) == (200, None, {}), body
        d.delete_workspace(w["id"])


def test_the_list_is_newest_first_with_total(d):
    ids = [d.create_workspace(f"n{i}") for i in range(3)]
    _, _, got = ask(d, "GET", API + "/workspaces")
    assert [w["id"] for w in got["workspaces"]][:3] == ids[::-1]
    assert got["total"] == len(got["workspaces"])
    for i in ids:
        d.delete_workspace(i)


@pytest.mark.parametrize(
    "body, word",
    [
        ({"name": 5}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"good": "x", "bad": 1}}, "bad"),
        ({"metadata": {"bad": None}}, "bad"),
        ({"metadata": {"bad": {}}}, "bad"),
        ('{"name":"a","name":"b"}', ""),
        ('{"name":"a\\u0000b"}', ""),
        ('{"name":"a"', ""),
        ("[]", ""),
        ("[" * 100000, ""),
        (b'{"name":"\xff"}', ""),
    ],
)
def test_a_bad_body_is_1001_and_makes_nothing(d, body, word):
    before = ask(d, "GET", API + "/workspaces")[2]["total"]
    status, _, value = ask(d, "POST", API + "/workspaces", body)
    assert (status, value["code"]) == (400, 1001)
    assert value["message"].startswith("Invalid request: ") and word in value["message"]
    assert ask(d, "GET", API + "/workspaces")[2]["total"] == before


@pytest.mark.parametrize("wid", ["x", "..", "%2e%2e%2f", "a%00b", "%ff", FORGED, FORGED.upper(), "x" * 5000, "%F0%9F%98%80"])
def test_what_is_no_id_is_simply_not_found(d, wid):
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/export"), ("PUT", "/export"), ("DELETE", "/export")]:
        status, _, value = ask(d, method, f"{API}/workspaces/{wid}{path}")
        assert (status, value["code"]) == (404, 7001)
        assert value["message"].startswith("Workspace not found: ")


def test_many_at_once_all_work(d):
    made = []

    def cycle():
        for _ in range(5):
            w = d.create_workspace()
            d.delete_workspace(w)
            made.append(w)

    threads = [threading.Thread(target=cycle) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(made)) == 40


def test_deleting_twice_at_once_succeeds_once(d):
    w = d.create_workspace()
    got = []
    threads = [threading.Thread(target=lambda: got.append(ask(d, "DELETE", f"{API}/workspaces/{w}")[0])) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(got) == [200] + [404] * 5


def test_workspaces_survive_kill_and_restart(fresh):
    d = fresh()
    w = ask(d, "POST", API + "/workspaces", {"name": "kept", "metadata": {"a": "b"}})[2]
    rules = d.set_export(w["id"], mode="match", clients=[("10.0.0.0/8", True)])
    d.restart()
    assert ask(d, "GET", f"{API}/workspaces/{w['id']}/export")[2] == rules
    again = ask(d, "GET", f"{API}/workspaces/{w['id']}")[2]
    assert again["updated_at"] >= w["updated_at"]
    assert {**again, "updated_at": 0} == {**w, "updated_at": 0}


# ---- exports ----


def test_export_rules_are_replaced_and_reset(d):
    w = d.create_workspace()
    url = f"{API}/workspaces/{w}/export"
    default = {"mode": "squash", "read_only": False, "clients": [], "is_default": True}
    assert ask(d, "GET", url)[2] == default
    rules = {
        "mode": "match",
        "read_only": True,
        "clients": [{"network": "10.0.0.0/8", "read_only": False}, {"network": "fd00::/8", "read_only": True}],
    }
    assert ask(d, "PUT", url, rules)[::2] == (200, {**rules, "is_default": False})
    assert ask(d, "GET", url)[2] == {**rules, "is_default": False}
    assert ask(d, "PUT", url, {})[0] == 400  # a forgotten body takes no restriction away
    assert ask(d, "PUT", url, {"clients": []})[2] == {**default, "is_default": False}
    assert ask(d, "PUT", url, {"default": True})[2] == default
    ask(d, "PUT", url, rules)
    assert ask(d, "DELETE", url)[::2] == (200, default)
    d.delete_workspace(w)


# ---- health, ready, metrics ----


def test_health_ready_and_metrics(d):
    assert ask(d, "GET", API + "/health")[2]["status"] == "healthy"
    for path in ["/ready", API + "/ready"]:
        status, _, value = ask(d, "GET", path)
        assert (status, value["status"]) == (200, "ready")
        assert all(c["ok"] for c in value["checks"].values())
        assert value["checks"]["data_dir"]["free_bytes"] > 0 and value["checks"]["nfs"]["port"] == d.nfs_port
    status, headers, text = ask(d, "GET", "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    names = set()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        m = re.fullmatch(r'([a-z_][a-z0-9_]*)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (-?[0-9.e+-]+|NaN|[+-]Inf)', line)
        assert m, line
        names.add(m[1])
    wanted = {"process_resident_memory_bytes", "process_open_fds", "workspaced_workspaces", "workspaced_http_requests_total"}
    assert wanted <= names
    assert any("nfs" in n for n in names)
    assert len(re.findall(r"^# TYPE (\S+)", text, re.M)) == len(set(re.findall(r"^# TYPE (\S+)", text, re.M)))


# ---- who is let in ----


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
def test_other_local_users_see_health_and_ready_and_no_more(d):
    with as_uid(STRANGER):
        assert ask(d, "GET", API + "/health")[0] == 200
        assert ask(d, "GET", "/ready")[::2] == (200, {"status": "ready"})
        for method, path in [("GET", "/workspaces"), ("POST", "/workspaces"), ("GET", "/nothing")]:
            assert code_of(d, method, API + path) == (401, 1005)
        assert code_of(d, "GET", "/metrics") == (401, 1005)
        assert code_of(d, "GET", API + "/workspaces", Authorization="Bearer guess") == (401, 1005)
        why = f"uid {STRANGER} is not let in (WORKSPACE_LOCAL_UIDS)"
        assert ask(d, "GET", API + "/workspaces")[2]["details"] == why
    assert why in d.log_text()


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
def test_listed_local_users_are_let_in(fresh):
    d = fresh(env={"WORKSPACE_LOCAL_UIDS": str(STRANGER)})
    with as_uid(STRANGER):
        assert ask(d, "GET", API + "/workspaces")[0] == 200


def test_with_a_key_everybody_needs_it(fresh):
    d = fresh(env={"WORKSPACE_API_KEY": "ci:s3cret,other"})
    assert ask(d, "GET", API + "/health")[0] == 200
    assert ask(d, "GET", "/ready")[2] == {"status": "ready"}
    for bad in [None, "Bearer", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret", "Bearer ci:s3cret"]:
        headers = {"Authorization": bad} if bad else {}
        assert code_of(d, "GET", API + "/workspaces", **headers) == (401, 1005), bad
        assert ask(d, "GET", "/metrics", **headers)[0] == 401
    status, headers, _ = ask(d, "GET", API + "/workspaces")
    assert headers["WWW-Authenticate"] == "Bearer"
    for good in ["Bearer s3cret", "bearer s3cret", "Bearer other"]:
        assert ask(d, "GET", API + "/workspaces", Authorization=good)[0] == 200
    assert "checks" in ask(d, "GET", "/ready", Authorization="Bearer s3cret")[2]
    assert "s3cret" not in d.log_text()


def test_pages_of_other_origins_change_nothing(fresh):
    d = fresh(env={"WORKSPACE_ALLOWED_ORIGINS": "https://console.example"})
    own = f"http://127.0.0.1:{d.http_port}"
    url = API + "/workspaces"
    for origin in ["https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1:1", "x"]:
        assert code_of(d, "POST", url, Origin=origin) == (403, 1007), origin
        assert code_of(d, "DELETE", f"{url}/{FORGED}", Origin=origin) == (403, 1007)
        status, headers, _ = ask(d, "GET", url, Origin=origin)
        assert status == 200 and "Access-Control-Allow-Origin" not in headers
    for site in ["cross-site", "same-site"]:
        assert code_of(d, "POST", url, Sec_Fetch_Site=site) == (403, 1007)
    assert ask(d, "POST", url, Origin=own, Sec_Fetch_Site="same-origin")[0] == 200
    status, headers, _ = ask(d, "POST", url, Origin="https://console.example", Sec_Fetch_Site="cross-site")
    assert status == 200 and headers["Access-Control-Allow-Origin"] == "https://console.example"
    status, headers, _ = ask(d, "OPTIONS", url, Origin="https://console.example", Access_Control_Request_Method="POST")
    assert status == 200 and "POST" in headers["Access-Control-Allow-Methods"]


def test_hosts_that_are_not_ours_are_refused(d):
    for host in ["localhost", "LOCALHOST.:1", "127.0.0.1", "[::1]:8080", f"127.0.0.1:{d.http_port}"]:
        assert ask(d, "GET", API + "/health", Host=host)[0] == 200, host
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[fe80::1]", "localhost:x"]:
        assert code_of(d, "GET", API + "/health", Host=host) == (403, 1007), host


# ---- the protocol ----


def test_routes_and_methods(d):
    assert code_of(d, "GET", "/") == (404, 1001)
    assert code_of(d, "GET", API + "/workspaces/") == (404, 1001)
    status, headers, value = ask(d, "PUT", API + "/workspaces")
    assert (status, headers["Allow"], value["code"]) == (405, "POST, GET, HEAD, OPTIONS", 1001)
    status, headers, text = ask(d, "HEAD", API + "/health")
    assert status == 200 and text == "" and int(headers["Content-Length"]) > 0
    assert ask(d, "BREW", "/")[0] == 501


def test_request_ids_are_echoed_or_made_and_logged_without_the_query(d):
    assert ask(d, "GET", API + "/health?token=t0ps3cret", X_Request_ID="my.id-1")[1]["X-Request-ID"] == "my.id-1"
    made = ask(d, "GET", API + "/health", X_Request_ID="bad id\t")[1]["X-Request-ID"]
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,128}", made)
    line = poll("the access log", lambda: re.search(r".*id=my\.id-1 .*", d.log_text()))[0]
    assert "path=/api/v1/health " in line and "status=200" in line
    assert "t0ps3cret" not in d.log_text()


def test_a_client_cannot_forge_log_lines(d):
    raw(d, b"GET /%0a%0d\x7f HTTP/1.1\r\n" + HOST + b"\r\n")
    ask(d, "GET", "/%0aforged%20status=200")
    assert not any(line.startswith("forged") for line in d.log_text().splitlines())


def test_pipelined_requests_are_answered_in_order(d):
    one = [b"GET /api/v1/health HTTP/1.1\r\n", b"GET /nothing HTTP/1.1\r\n", b"GET /api/v1/workspaces HTTP/1.1\r\n"]
    data = b"".join(line + HOST + b"X-Request-ID: r%d\r\n\r\n" % i for i, line in enumerate(one * 100))
    got = raw(d, data)
    assert statuses(got) == [200, 404, 200] * 100
    assert re.findall(rb"X-Request-ID: r(\d+)", got) == [b"%d" % i for i in range(300)]


SMUGGLED = b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"\r\n"
POST = b"POST /api/v1/workspaces HTTP/1.1\r\n" + HOST


@pytest.mark.parametrize(
    "head, status",
    [
        (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: identity\r\n\r\n", 400),
        (b"POST /api/v1/workspaces HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
        (POST + b"Content-Length: +2\r\n\r\n{}", 400),
        (POST + b"Content-Length: 2, 2\r\n\r\n{}", 400),
        (POST + b"Content-Length: 0x2\r\n\r\n{}", 400),
        (POST + b"Content-Length: 99999999999999999999\r\n\r\n{}", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{}", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n 2\r\n{}\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n", 400),
        (b"GET /api/v1/health HTTP/1.1\n" + HOST + b"\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"A: b\rc\r\n\r\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"A: b\0\r\n\r\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"A : b\r\n\r\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"GET /api/v1/health HTTP/1.1\r\n\r\n", 400),
        (b"GET /api/v1/health HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET /" + b"a" * (129 << 10) + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"A: " + b"a" * (200 << 10) + b"\r\n\r\n", 431),
        (b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 10000 + b"\r\n", 431),
        (POST + b"Content-Length: 67108865\r\n\r\n", 413),
        (POST + b"Expect: tea\r\nContent-Length: 2\r\n\r\n", 417),
    ],
)
def test_a_doubtful_request_gets_one_answer_and_the_connection_ends(d, head, status):
    got = raw(d, head, SMUGGLED)
    assert statuses(got) == [status]
    assert b"\r\nConnection: close\r\n" in got
    body = json.loads(got.split(b"\r\n\r\n", 1)[1])
    assert isinstance(body["code"], int) and isinstance(body["message"], str)


def test_bodies_chunked_and_by_length_mean_the_same(d):
    got = raw(d, POST + b"Transfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\n{\"n\r\n0a\r\name\":\"abc\"\r\n1\r\n}\r\n0\r\nT: v\r\n\r\n")
    w = json.loads(got.split(b"\r\n\r\n", 1)[1])
    assert w["name"] == "abc"
    d.delete_workspace(w["id"])
    assert statuses(raw(d, POST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")) == [415]


def test_a_body_that_curl_calls_a_form_is_json_but_not_from_a_web_page(d):
    form = POST + b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n"
    w = json.loads(raw(d, form + b"\r\n{}").split(b"\r\n\r\n", 1)[1])
    d.delete_workspace(w["id"])
    assert statuses(raw(d, form + b"Sec-Fetch-Site: same-origin\r\n\r\n{}")) == [415]
    assert statuses(raw(d, form + b"Origin: http://localhost\r\n\r\n{}")) in ([415], [403])


def test_100_continue(d):
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(POST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert s.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"{}")
        got = s.recv(65536)
        assert statuses(got) == [200]
        d.delete_workspace(json.loads(got.split(b"\r\n\r\n", 1)[1])["id"])
    refused = b"POST /nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    assert statuses(raw(d, refused)) == [404]


def test_a_client_that_leaves_at_once_does_no_harm(d):
    """What it asked for is done or not, but the server goes on."""
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with a reset
            s.sendall(POST + b"Content-Length: 0\r\n\r\n")
    for w in ask(d, "GET", API + "/workspaces")[2]["workspaces"]:
        d.delete_workspace(w["id"])


def test_connections_that_wait_cost_little_and_hinder_nobody(fresh):
    d = fresh()
    ask(d, "GET", API + "/health")
    before = d.rss()
    with contextlib.ExitStack() as stack:
        conns = [stack.enter_context(socket.create_connection(("127.0.0.1", d.http_port), DEADLINE)) for _ in range(900)]
        for i, s in enumerate(conns):  # a third each: silent, in the middle of a head, idle after a request
            if i % 3 == 1:
                s.sendall(b"GET /api")
            if i % 3 == 2:
                s.sendall(SMUGGLED)
                assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert ask(d, "GET", API + "/health")[0] == 200
        if not d.is_sanitized:
            assert d.rss() - before < 900 * 4096
    poll("the server to see them gone", lambda: "workspaced_http_connections 1\n" in ask(d, "GET", "/metrics")[2])


def test_more_connections_than_the_limit_wait_for_their_turn(fresh):
    d = fresh()
    with contextlib.ExitStack() as stack:
        conns = [stack.enter_context(socket.create_connection(("127.0.0.1", d.http_port), DEADLINE)) for _ in range(1030)]
        late = conns[-1]
        late.sendall(SMUGGLED)
        late.setblocking(False)
        for s in conns[:20]:
            s.close()
        late.settimeout(DEADLINE)
        assert late.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_few_descriptors_pause_accepting_and_nothing_else(fresh):
    """Connections beyond their share of the descriptors wait; the loop does not spin on them."""
    if shutil.which("prlimit") is None:
        pytest.skip("needs prlimit")
    d = fresh(launcher=["prlimit", "--nofile=128:128"])
    with contextlib.ExitStack() as stack:
        conns = [stack.enter_context(socket.create_connection(("127.0.0.1", d.http_port), DEADLINE)) for _ in range(200)]
        conns[0].sendall(SMUGGLED)
        assert conns[0].recv(4096).startswith(b"HTTP/1.1 200 ")
        conns[150].sendall(SMUGGLED)
        for s in conns[1:150]:
            s.close()
        assert conns[150].recv(4096).startswith(b"HTTP/1.1 200 ")
    assert d.log_text().count("accepting pauses") < 50


def test_a_reader_that_never_reads_is_bounded(fresh):
    """64 MiB of answers asked for, none taken: the server stops reading that client."""
    d = fresh()
    before = d.rss()
    one = b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n"
    with socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                s.send(one * 1000)
        assert ask(d, "GET", API + "/health")[0] == 200
        if not d.is_sanitized:
            assert d.rss() - before < 16 << 20


def test_sigterm_finishes_what_runs(fresh):
    """A removal that has begun is answered; idle connections are closed."""
    d = fresh()
    w = d.create_workspace()
    with d.local():
        for i in range(2000):
            (d.host_dir(w) / f"f{i}").touch()
    idle = socket.create_connection(("127.0.0.1", d.http_port), DEADLINE)
    with idle, socket.create_connection(("127.0.0.1", d.http_port), DEADLINE) as s:
        s.sendall(f"DELETE /api/v1/workspaces/{w} HTTP/1.1\r\n".encode() + HOST + b"\r\n")
        poll("the removal to begin", lambda: ask(d, "GET", f"{API}/workspaces/{w}")[0] == 404)
        d.proc.terminate()
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert idle.recv(1) == b""
        assert d.proc.wait(DEADLINE) == 0
