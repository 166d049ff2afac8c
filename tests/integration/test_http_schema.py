# SPDX-License-Identifier: MIT
"""The running daemon against proto/openapi.yaml: what it serves, and what schemathesis finds by asking at random.

schemathesis comes from PyPI into build/venv (scripts/test.sh); without it that test skips.
"""
import pathlib
import re
import subprocess

import pytest

from test_http_api import API, HOST, ask, code_of, raw

ROOT = pathlib.Path(__file__).resolve().parents[2]
DESCRIPTION = ROOT / "proto/openapi.yaml"
HOOKS = ROOT / "tests/integration/lib/schemathesis_hooks.py"
VENV = ROOT / "build/venv/bin"
SECONDS = 40  # for all operations together
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# What the description's examples are about
FILES = {"src/main.c": "int main(void)\n{\n\treturn 1;\n}\n", "notes.txt": "old\nsame\n"}
SETTINGS = """
hooks = "{hooks}"

# An id that exists, else every answer would be 404; and another one for what removes it.
[parameters]
"path.id" = "{ws}"

[[operations]]
include-operation-id = "deleteWorkspace"
parameters = {{ "path.id" = "{victim}" }}

# Methods that HTTP does not have are 501, rightly, and would count as errors of the server.
[phases.coverage]
unexpected-methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]

[generation]
deterministic = true
"""


@pytest.fixture(scope="module")
def d():
    from conftest import VARIANTS, make

    daemon = make(VARIANTS[0]).start()
    yield daemon
    daemon.destroy()


def test_the_description_is_served_as_it_was_built(d):
    status, headers, text = ask(d, "GET", "/openapi.yaml")
    assert (status, headers["Content-Type"]) == (200, "application/yaml")
    assert text == DESCRIPTION.read_text()


def test_the_page_names_every_path_and_fetches_nothing(d):
    status, headers, text = ask(d, "GET", "/docs")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    paths = re.findall(r"^  (/\S+):", DESCRIPTION.read_text(), re.M)
    assert len(paths) > 30 and [p for p in paths if p not in text] == []
    assert "<script" not in text and not re.search(r"(src|href)=\"(?!#|/openapi\.yaml)", text)
    anchors, targets = set(re.findall(r'href="#([^"]+)"', text)), set(re.findall(r'id="([^"]+)"', text))
    assert anchors and anchors <= targets
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-") and "unsafe" not in policy


def test_both_are_behind_the_same_rules_as_the_rest(fresh):
    d = fresh(env={"WORKSPACE_API_KEY": "k" * 32})
    for path in ("/openapi.yaml", "/docs"):
        assert code_of(d, "GET", path) == (401, 1005)
        assert ask(d, "GET", path, Authorization="Bearer " + "k" * 32)[0] == 200
        assert b" 403 " in raw(d, b"GET %s HTTP/1.1\r\nHost: evil.example\r\n\r\n" % path.encode())
        assert b" 405 " in raw(d, b"PUT %s HTTP/1.1\r\n%sAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n"
                               % (path.encode(), HOST, b"k" * 32))


def test_schemathesis_finds_nothing(fresh, tmp_path):
    tool = VENV / "schemathesis"
    if not tool.exists():
        pytest.skip(f"{tool} is missing: python3 -m venv build/venv && build/venv/bin/pip install -r tests/requirements.txt")
    d = fresh()
    ws = d.create_workspace()
    for path, content in FILES.items():
        assert ask(d, "PUT", f"{API}/workspaces/{ws}/files?path={path}&raw=1", content)[0] == 200
    config = tmp_path / "schemathesis.toml"
    config.write_text(SETTINGS.format(ws=ws, victim=d.create_workspace(), hooks=HOOKS))
    done = subprocess.run(
        [tool, "--config-file", config, "run", DESCRIPTION, "--url", f"http://127.0.0.1:{d.http_port}",
         "--checks", CHECKS, "--max-time", str(SECONDS), "--max-examples", "10",
         "--phases", "examples,coverage,fuzzing", "--request-timeout", "10", "--continue-on-failure", "--no-color",
         "--exclude-operation-id", "followEvents"],  # has no end
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, timeout=SECONDS * 5,
    )
    print(done.stdout)
    assert done.returncode == 0, "schemathesis found what is printed above"
    assert int(re.search(r"Tested: +(\d+)", done.stdout)[1]) > 40
    assert ask(d, "GET", f"{API}/workspaces/{ws}")[0] == 200, "the answers were those of a workspace that was gone"
