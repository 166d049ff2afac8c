# SPDX-License-Identifier: MIT
"""Edits and patches over HTTP: only the bytes that were meant change, and of two writers one wins."""
import base64
import os
import stat
import threading

import pytest

from lib import nfs3
from lib.files import Files


@pytest.fixture
def f(w):
    files = Files(w.daemon, w.id)
    files.w = w
    return files


def put(w, name, data, mode=0o644):
    """A file with these bytes, made on the local side."""
    with w.daemon.local():
        (w.dir / name).write_bytes(data)
        os.chmod(w.dir / name, mode)


def b64(data):
    return base64.b64encode(data).decode()


# ---- B105: only the bytes of the match change ----

TEXTS = {
    "crlf": b"one\r\nword\r\nthree\r\n",
    "mixed": b"one\nword\r\nthree\rfour\n\r\n",
    "bare cr": b"one\rword\rthree\r",
    "bom": b"\xef\xbb\xbfone\nword\n",
    "latin-1": b"caf\xe9\nword \xfc\n",
    "nul": b"a\0b\0\nword\n\0",
    "no final newline": b"one\nword",
    "only the word": b"word",
    "blanks": b"  \t\nword  \t\n\n\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_an_edit_changes_nothing_but_the_match(f, name):
    before = TEXTS[name]
    put(f.w, "t", before, 0o755)
    status, value = f.edit("t", "word", "other words")
    assert status == 200, value
    assert (f.w.dir / "t").read_bytes() == before.replace(b"word", b"other words")
    assert value["success"] is True and value["replacements"] == 1 and value["path"] == "t"
    assert "+" in value["diff"] and value["diff"].startswith("--- a/t\n+++ b/t\n@@ ")
    assert value.get("encoding_errors", False) == (name == "latin-1")
    assert stat.S_IMODE((f.w.dir / "t").stat().st_mode) == 0o755


def test_utf_16_and_nul_are_edited_through_base64(f):
    before = "one\r\nword\r\n".encode("utf-16")
    old, new = "word".encode("utf-16-le"), "W\u00e9rk".encode("utf-16-le")
    put(f.w, "t", before)
    status, value = f.post("/edit", dict(path="t", old_string_base64=b64(old), new_string_base64=b64(new)))
    assert status == 200, value
    assert (f.w.dir / "t").read_bytes() == before.replace(old, new)
    assert f.post("/edit", dict(path="t", old_string_base64="?", new_string="x"))[0] == 400


@pytest.mark.parametrize(
    "text, old, new, more, status, code, says",
    [
        (b"a\nb\na\n", "a", "x", {}, 409, 3010, "occurs 2 times, at lines 1, 3"),
        (b"aaa", "aa", "x", {}, 409, 3010, "occurs 2 times, at lines 1, 1"),
        (b"abc", "x", "y", {}, 409, 3010, "does not occur"),
        (b"a\r\nb\r\n", "a\nb", "y", {}, 409, 3010, "at line 1 it differs only in line ends"),
        (b"abc", "x", "y", dict(replace_all=True), 409, 3010, "does not occur"),
        (b"", "x", "y", {}, 409, 3010, "does not occur"),
        (b"abc", "", "y", {}, 400, 1001, "must not be empty"),
        (b"abc", "b", "b", {}, 400, 1001, "are the same"),
        (b"abc", None, "b", {}, 400, 1001, "'old_string' is missing"),
        (b"abc", "b", None, {}, 400, 1001, "'new_string' is missing"),
        (b"abc", "b", "c", dict(replace_all=1), 400, 1001, "replace_all"),
    ],
)
def test_edits_that_do_not_apply_say_why_and_change_nothing(f, text, old, new, more, status, code, says):
    put(f.w, "t", text)
    got, value = f.edit("t", old, new, **more)
    assert (got, value["code"]) == (status, code), value
    assert says in value.get("details", value["message"]), value
    if code == 3010:
        assert value["message"] == "Edit does not apply: t" and isinstance(value["details"], str)
    assert (f.w.dir / "t").read_bytes() == text


def test_replace_all_and_paths_that_cannot_be_edited(f):
    put(f.w, "t", b"aaaaa")
    status, value = f.edit("t", "aa", "b", replace_all=True)
    assert (status, value["replacements"], (f.w.dir / "t").read_bytes()) == (200, 2, b"bba")
    with f.w.daemon.local():
        os.mkfifo(f.w.dir / "fifo")
        (f.w.dir / "d").mkdir()
        (f.w.dir / "out").symlink_to("/etc/hostname")
        (f.w.dir / "in").symlink_to("t")
        with open(f.w.dir / "large", "wb") as large:
            large.truncate(200 << 20)
    for path, want in {"nothing": (404, 3001), "d": (400, 3005), "": (400, 3005), "out": (403, 7003),
                       "../x": (403, 7003), "large": (413, 1006)}.items():
        status, value = f.edit(path, "a", "b")
        assert (status, value["code"]) == want, (path, value)
    assert f.edit("fifo", "a", "b")[0] == 400  # and no hang
    assert f.edit("in", "bba", "c")[0] == 200
    assert (f.w.dir / "in").is_symlink() and (f.w.dir / "t").read_bytes() == b"c"


def test_a_result_that_could_not_be_edited_again_is_refused(f):
    put(f.w, "t", b"a" * (1 << 20))
    status, value = f.edit("t", "a", "b" * 17, replace_all=True)
    assert (status, value["code"]) == (413, 1006)
    assert (f.w.dir / "t").stat().st_size == 1 << 20


# ---- versions ----

def test_conditions_are_checked_and_the_answer_has_the_new_version(f):
    put(f.w, "t", b"one")
    status, headers, value = f.ask("POST", "/edit", (), dict(path="t", old_string="one", new_string="two"))
    assert status == 200 and headers["ETag"] == value["etag"]
    etag = value["etag"]
    for headers, want in [({"If-Match": '"other"'}, 412), ({"If-Match": f"W/{etag}"}, 412),
                          ({"If-None-Match": "*"}, 412), ({"If-None-Match": etag}, 412),
                          ({"If-Match": "unquoted"}, 400)]:
        status, value = f.edit("t", "two", "three", headers=headers)
        assert status == want, (headers, value)
        assert status == 400 or value["code"] == 3008
    assert f.edit("t", "two", "three", headers={"If-Match": f'"x", {etag}'})[0] == 200
    assert f.edit("t", "three", "four", headers={"If-Match": "*"})[0] == 200
    assert (f.w.dir / "t").read_bytes() == b"four"
    patch = "@@ -1 +1 @@\n-four\n\\ No newline at end of file\n+five\n"
    assert f.patch("t", patch, headers={"If-Match": etag})[0] == 412
    assert f.patch("t", patch, headers={"If-None-Match": etag})[0] == 200


def test_of_writers_with_the_same_if_match_exactly_one_wins(f):
    n = 16
    for _ in range(5):
        put(f.w, "t", b"start")
        etag = f.edit("t", "start", "begin")[1]["etag"]
        statuses, gate = [None] * n, threading.Barrier(n)

        def write(i):
            gate.wait()
            if i % 2 == 0:
                answer = f.edit("t", "begin", f"writer {i}", headers={"If-Match": etag})
            else:
                answer = f.patch("t", f"@@ -1 +1 @@\n-begin\n\\ No newline at end of file\n+writer {i}\n",
                                 headers={"If-Match": etag})
            statuses[i] = answer[0]

        run_all(write, n)
        assert sorted(statuses) == [200] + [412] * (n - 1)
        winner = statuses.index(200)
        assert (f.w.dir / "t").read_bytes().decode().strip() == f"writer {winner}"


def run_all(fn, n):
    threads = [threading.Thread(target=fn, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def test_without_a_condition_no_edit_of_several_writers_is_lost(f):
    n, rounds = 8, 6
    put(f.w, "t", b"".join(b"line %d: 0\n" % i for i in range(n)))
    answers = []

    def write(i):
        for k in range(rounds):
            answers.append(f.edit("t", f"line {i}: {k}\n", f"line {i}: {k + 1}\n"))

    run_all(write, n)
    assert [a for a in answers if a[0] != 200] == []
    assert (f.w.dir / "t").read_text() == "".join(f"line {i}: {rounds}\n" for i in range(n))
    with f.w.daemon.local():
        assert os.listdir(f.w.dir) == ["t"]  # nothing temporary is left, and nothing was seen of it


def test_an_edit_is_seen_through_nfs_at_once(f):
    put(f.w, "t", b"one word")
    assert f.edit("t", "word", "sentence")[0] == 200
    found = f.w.nfs.lookup(f.w.root, b"t")
    assert found.status == nfs3.S.OK
    assert f.w.nfs.read(found.fh, 0, 100).data == b"one sentence"


# ---- patch ----

TWO = "--- a/t\n+++ b/t\n@@ -1,2 +1,3 @@\n+zero\n one\n two\n@@ -4 +5 @@\n-four\n+FOUR\n"


def test_hunks_land_and_the_answer_says_where(f):
    put(f.w, "t", b"one\ntwo\nthree\nfour\n", 0o640)
    status, value = f.patch("t", TWO)
    assert status == 200, value
    assert (f.w.dir / "t").read_bytes() == b"zero\none\ntwo\nthree\nFOUR\n"
    assert value["hunks"] == [dict(index=1, landed=True, line=1), dict(index=2, landed=True, line=5)]
    assert value["success"] is True and value["etag"].startswith('"') and "+FOUR" in value["diff"]
    assert stat.S_IMODE((f.w.dir / "t").stat().st_mode) == 0o640


def test_a_rejected_hunk_stops_all_or_only_itself(f):
    text = b"one\ntwo\nthree\nIV\n"
    put(f.w, "t", text)
    status, value = f.patch("t", TWO)
    assert (status, value["code"], value["message"]) == (409, 3010, "Edit does not apply: t")
    assert "1 of 2 hunks" in value["details"] and "line 4 of the file is not what" in value["details"]
    assert (f.w.dir / "t").read_bytes() == text
    status, value = f.patch("t", TWO, atomic=False)
    assert status == 200 and value["success"] is False
    assert [h["landed"] for h in value["hunks"]] == [True, False]
    assert "line 4 of the file" in value["hunks"][1]["reason"]
    assert (f.w.dir / "t").read_bytes() == b"zero\n" + text
    status, value = f.patch("t", "@@ -9 +9 @@\n-x\n+y\n", atomic=False)  # nothing lands
    assert (status, value["code"]) == (409, 3010)


@pytest.mark.parametrize(
    "text, patch, says",
    [
        (b"a\r\nb\r\n", "@@ -2 +2 @@\n-b\n+c\n", "line 2 of the file differs in its line end"),
        (b"x\na\n", "@@ -1 +1 @@\n-a\n+c\n", "its lines are at line 2"),
        (b"a\n", "@@ -5 +5 @@\n-a\n+c\n", "has only 1 lines"),
    ],
)
def test_a_hunk_has_no_fuzz(f, text, patch, says):
    put(f.w, "t", text)
    status, value = f.patch("t", patch)
    assert status == 409 and says in value["details"]
    assert (f.w.dir / "t").read_bytes() == text


@pytest.mark.parametrize(
    "patch, says",
    [
        ("", "has no hunk"),
        ("nonsense", "has no hunk"),
        ("@@ -1,9 +1 @@\n-a\n+b\n", "fewer lines than its header says"),
        ("--- a/t\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "would remove the file"),
        ("@@ -1 +1 @@\n-a\n+b\n--- a/u\n+++ b/u\n", "second file"),
    ],
)
def test_what_is_no_patch_is_refused(f, patch, says):
    put(f.w, "t", b"a\n")
    status, value = f.patch("t", patch)
    assert (status, value["code"]) == (400, 1001) and says in value["message"]
    assert (f.w.dir / "t").read_bytes() == b"a\n"


def test_a_patch_from_dev_null_makes_the_file_once(f):
    new = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    status, value = f.patch("d/new", new)
    assert status == 200, value
    assert (f.w.dir / "d/new").read_bytes() == b"one\ntwo\n"
    status, value = f.patch("d/new", new)
    assert (status, value["code"]) == (409, 3002)
    status, value = f.patch("absent", "@@ -1 +1 @@\n-a\n+b\n")
    assert (status, value["code"]) == (404, 3001)


def test_sandbox_twins_answer_2001(f):
    twin = Files(f.w.daemon, f.w.id, "sandboxes")
    for status, value in [twin.edit("t", "a", "b"), twin.patch("t", TWO), twin.search("a")]:
        assert (status, value["code"]) == (404, 2001)
