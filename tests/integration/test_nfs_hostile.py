# SPDX-License-Identifier: MIT
"""Bytes of somebody who means harm.  The answer is what the RFC names or a closed connection; the daemon lives,
its memory stays bounded, others are served meanwhile, and nothing outside the workspace is touched."""
import os
import random
import socket
import struct

import pytest

from lib.daemon import poll
from lib.nfs3 import FIFO, OWNER, PROCS, VERS, S, decode, enc_write, encode
from lib.rpc import AUTH_NONE, Closed, Conn, Reader, Reply, XdrError, call_message, next_xid, opaque, record, u32, u64
from test_nfs_rpc import good_args

NFS, MNT = 100003, 100005
ROOM = 96 << 20  # bytes that memory may grow by while a test lasts; the largest record is 1 MiB


@pytest.fixture
def canary(w):
    """Files beside the workspace that nobody may change, and a check at the end that all is well."""
    data = w.daemon.data
    with w.daemon.local():
        beside = data / "workspaces" / w.id / "canary"
        beside.write_bytes(b"untouched")
    outside = w.daemon.base / "canary"
    outside.write_bytes(b"untouched")
    rss = w.daemon.rss()
    yield w
    assert w.daemon.alive()
    w.connect().ok("GETATTR", w.root)
    for c in (beside, outside):
        assert c.read_bytes() == b"untouched"
    assert {p.name for p in beside.parent.iterdir()} <= {"canary", "files", "staging", "logs"}
    assert w.daemon.is_sanitized or w.daemon.rss() - rss < ROOM
    beside.unlink()
    outside.unlink()


def survives(w):
    """Somebody else's connection works as ever."""
    w.nfs.ok("GETATTR", w.root)


def feed(w, message, read=True):
    """Bytes to a new connection, then the end of the stream.  Return: the replies that came."""
    got = []
    with w.daemon.conn() as c:
        try:
            c.send_raw(message)
            c.sock.shutdown(socket.SHUT_WR)
            while read:
                got.append(c.recv())
        except TimeoutError:
            raise
        except (Closed, OSError):
            pass
    return got


def test_garbage(canary):
    """Random bytes, whole records of random bytes, and other protocols' greetings."""
    rng = random.Random(3)
    for i in range(60):
        feed(canary, rng.randbytes(rng.choice([1, 3, 4, 5, 40, 1000, 70000])))
        feed(canary, record(rng.randbytes(rng.choice([0, 1, 3, 4, 8, 39, 40, 41, 1000]))))
        survives(canary)
    tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", tls, b"SSH-2.0-x\r\n", b"\n" * 9999):
        feed(canary, text)
    survives(canary)


def test_headers_cut_and_mangled(canary):
    """A call cut at any byte, or with any word of its header set to an extreme, is answered or dropped."""
    message = call_message(7, NFS, VERS, 3, encode("LOOKUP", canary.root, "name"), OWNER)
    for cut in range(len(message)):
        replies = feed(canary, record(message[:cut]))
        assert all(r.kind != "SUCCESS" for r in replies), cut
    words = len(message) // 4
    for at in range(1, words):
        for value in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 401, 1 << 20):
            bad = message[: at * 4] + u32(value) + message[at * 4 + 4 :]
            if bad != message:
                feed(canary, record(bad), read=at % 4 == 0)
        survives(canary)


@pytest.mark.parametrize("announced", [(1 << 20) + 65536, 1 << 24, 0x7FFFFFFF])
@pytest.mark.parametrize("last", [0, 0x80000000], ids=["more", "last"])
def test_oversized_records(canary, announced, last):
    """A record over the limit closes the connection soon; not a byte of it is kept."""
    conns = []
    for _ in range(40):
        c = canary.daemon.conn()
        conns.append(c)
        try:
            c.send_raw(u32(announced | last) + bytes(300000))
        except Closed:
            pass
    survives(canary)
    for c in conns:
        assert c.is_closed()
        c.close()


def test_many_unfinished_records(canary):
    """100 peers that each announce a large legal record and send a part of it cost no more than that part."""
    rss, conns = canary.daemon.rss(), []
    for _ in range(100):
        c = canary.daemon.conn()
        c.send_raw(u32(0x80000000 | (1 << 20)) + bytes(1000))
        conns.append(c)
    survives(canary)
    assert canary.daemon.is_sanitized or canary.daemon.rss() - rss < ROOM
    for c in conns:
        c.close()
    survives(canary)


@pytest.mark.parametrize("what", ["empty", "one byte"])
def test_endless_fragments(canary, what):
    """A record of endless fragments is given up: the connection closes after a bounded number."""
    piece = u32(0) if what == "empty" else u32(1) + b"x"
    with canary.daemon.conn() as c:
        try:
            for _ in range(200):
                c.send_raw(piece * 20000)
            assert c.is_closed()
        except Closed:
            pass
    survives(canary)


def test_fragments_that_never_end_in_a_call(canary):
    """A record that is never finished keeps only its own connection; the next one is served."""
    c = canary.daemon.conn()
    c.send_raw(u32(100) + b"half")
    survives(canary)
    c.close()


def word_positions(args):
    return range(0, len(args) - 3, 4)


def test_extreme_words_in_every_argument(canary):
    """Each word of each procedure's arguments set to extremes: the reply decodes, or the arguments are garbage."""
    w = canary
    sent = {}
    for proc, args in good_args(w).items():
        for at in word_positions(args):
            for value in (0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 65537, 5, 0):
                xid = next_xid()
                sent[xid] = (proc, args[:at] + u32(value) + args[at + 4 :])
    n = w.connect()
    messages = {x: call_message(x, NFS, VERS, PROCS[p][0], a, OWNER) for x, (p, a) in sent.items()}
    for xid, reply in n.conn.exchange(messages).items():
        if reply.kind == "SUCCESS":
            decode(sent[xid][0], reply.body)
        else:
            assert reply.kind == "GARBAGE_ARGS", sent[xid]


def test_64_bit_extremes(canary):
    """Offsets, counts, cookies and sizes at the edges of 64 bits: an honest status or nothing changed."""
    w, n = canary, canary.nfs
    f = n.mkfile(w.root, "f", b"0123456789")
    edges = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 4096]
    counts = [0, 1, 4096, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF]
    calls = [("READ", f, e, c) for e in edges for c in counts] + [("COMMIT", f, e, c) for e in edges for c in counts]
    calls += [("READDIR", w.root, e, bytes(8), c) for e in edges for c in counts]
    calls += [("READDIRPLUS", w.root, e, bytes(8), c, d) for e in edges for c in counts[::2] for d in counts[::2]]
    for call, r in zip(calls, w.connect().many(calls)):
        assert r.status in (S.OK, S.INVAL, S.FBIG, S.BAD_COOKIE, S.TOOSMALL), call
        if call[0] == "READ" and r.status == S.OK:
            assert r.data == b"0123456789"[call[2] : call[2] + call[3]] or call[2] >= 10 and r.data == b""
    assert n.data(f) == b"0123456789"


def test_lengths_that_lie(canary):
    """Opaque lengths larger than the record, or so large that adding to them wraps, are garbage."""
    w, rng = canary, random.Random(4)
    huge = (0xFFFFFFFF, 0xFFFFFFFC, 0x7FFFFFFF, 0x40000000, 65, 5000)
    bodies = [(p, u32(h) + rng.randbytes(64)) for p in range(1, 22) for h in huge]
    bodies += [(3, opaque(w.root) + u32(h) + b"name") for h in huge[:4]]
    bodies += [(7, opaque(w.root) + u64(0) + u32(4) + u32(2) + u32(h) + b"data") for h in huge[:4]]
    bodies += [(10, opaque(w.root) + opaque(b"n") + bytes(24) + u32(h) + b"to") for h in huge[:4]]
    for proc, body in bodies:
        assert w.nfs.conn.call(NFS, VERS, proc, body, OWNER).kind == "GARBAGE_ARGS", (proc, body[:8])
    for h in huge[:4]:
        assert w.nfs.conn.call(MNT, 3, 1, u32(h) + b"/x", OWNER).kind == "GARBAGE_ARGS"
    assert w.nfs.names(w.root) == []


def test_discriminants_that_are_none(canary):
    """Enums outside their range are garbage, or refused with INVAL, NOTSUPP or BADTYPE."""
    w = canary
    f = w.nfs.mkfile(w.root, "f", b"keep")
    head = opaque(w.root) + opaque(b"n")
    for bad in (3, 4, 8, 0x100, 0xFFFFFFFF):
        time_how = opaque(f) + bytes(16) + u32(bad) + bytes(8)
        for proc, body in [
            (2, time_how), (7, enc_write(f, 0, b"XXXX", bad)), (8, head + u32(bad) + bytes(24)),
            (11, head + u32(bad if bad > 7 else 0) + bytes(24)),
        ]:  # fmt: skip
            reply = w.nfs.conn.call(NFS, VERS, proc, body, OWNER)
            if reply.kind == "SUCCESS":
                assert S(Reader(reply.body).u32()) in (S.INVAL, S.BADTYPE, S.NOTSUPP), (proc, bad)
            else:
                assert reply.kind == "GARBAGE_ARGS"
    assert w.nfs.data(f) == b"keep" and w.nfs.names(w.root) == [b"f"]


def test_padding_and_random_mutations(canary):
    """Ten thousand calls with a few bytes changed: every one is answered, and decodes if it says it ran."""
    w, rng, sent = canary, random.Random(5), {}
    made = good_args(w)
    for _ in range(10000):
        proc = rng.choice(list(made))
        args = bytearray(made[proc])
        for _ in range(rng.randrange(1, 4) if args else 0):
            # Handles are left alone mostly: a changed one ends the call before anything else is looked at.
            behind = min(len(args) - 1, 4 + len(w.root))
            at = rng.randrange(0 if rng.random() < 0.1 else behind, len(args))
            args[at] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
        xid = next_xid()
        sent[xid] = (proc, bytes(args))
    messages = {x: call_message(x, NFS, VERS, PROCS[p][0], a, OWNER) for x, (p, a) in sent.items()}
    for xid, reply in w.connect().conn.exchange(messages).items():
        proc, args = sent[xid]
        if reply.kind == "SUCCESS":
            decode(proc, reply.body)
        else:
            assert reply.kind == "GARBAGE_ARGS", (proc, args)


ESCAPES = [
    b"..", b"../..", b"../../canary", b"../canary", b"/", b"/etc/passwd", b"..\0", b"x/../../canary", b"./..", b"\0",
    b"canary\0", b"..//..", b"/proc/self/fd", b"....//", b"..\\..",
]  # fmt: skip


@pytest.mark.parametrize("via", ["root", "dir", "link", "sub mount"])
def test_names_that_would_lead_out(canary, via):
    """No name, in any procedure, from any kind of directory handle, reaches what is beside the workspace."""
    w, n = canary, canary.nfs
    n.ok("SYMLINK", w.root, "out", "../canary")
    n.ok("SYMLINK", w.root, "up", "..")
    d = n.mkdir_(w.root, "d")
    f = n.mkfile(w.root, "f", b"x")
    at = {"root": w.root, "dir": d, "link": n.look(w.root, "up"), "sub mount": w.daemon.mnt(f"/{w.id}/d").fh}[via]
    for name in ESCAPES:
        calls = [
            ("LOOKUP", at, name), ("CREATE", at, name), ("MKDIR", at, name), ("SYMLINK", at, name, "x"),
            ("MKNOD", at, name, FIFO), ("REMOVE", at, name), ("RMDIR", at, name), ("RENAME", at, name, w.root, "got"),
            ("RENAME", w.root, "f", at, name), ("LINK", f, at, name),
        ]  # fmt: skip
        for call in calls:
            r = n.call(*call)
            fine = call[0] == "LOOKUP" and name == b".." or name in (b"..\\..",)
            assert r.status != S.OK or (fine and via != "link"), call
        if name == b"..\\..":
            return
    for link in ("out", "up"):
        h = n.look(w.root, link)
        for proc in ("READ", "WRITE"):
            assert n.call(proc, h, 0, *((b"x",) if proc == "WRITE" else (10,))).status == S.INVAL
        assert n.lookup(h, "canary").status == S.NOTDIR
        assert n.create(w.root, link, size=0).status != S.OK
        assert w.daemon.mnt(f"/{w.id}/{link}").status != 0


def test_symlinks_swapped_under_the_server(canary):
    """A directory that is swapped for a link to the outside while it is used never leads there."""
    w, n = canary, canary.nfs
    for i in range(200):
        d = n.mkdir_(w.root, "d")
        with w.daemon.local():
            os.rename(w.dir / "d", w.dir / f"was{i}")
            os.symlink("..", w.dir / "d")
        assert n.lookup(d, "canary").status == S.NOENT
        assert n.lookup(n.look(w.root, "d"), "canary").status == S.NOTDIR
        n.ok("CREATE", d, "canary")
        assert n.data(n.look(d, "canary")) == b""
        n.ok("REMOVE", w.root, "d")
        n.ok("REMOVE", d, "canary")
        n.ok("RMDIR", w.root, f"was{i}")


def test_peers_that_do_not_read(canary):
    """A peer that asks for much and takes nothing stops being read; memory stays bounded, others are served."""
    w = canary
    f = w.nfs.mkfile(w.root, "f", bytes(1 << 20))
    request = record(call_message(1, NFS, VERS, 6, encode("READ", f, 0, 1 << 20), OWNER))
    rss, conns = w.daemon.rss(), []
    for _ in range(8):
        c = w.daemon.conn()
        c.sock.setblocking(False)
        conns.append(c)
    for _ in range(50):
        for c in conns:
            try:
                c.sock.send(request * 200)
            except (BlockingIOError, ConnectionError):
                pass
        survives(w)
    grown = w.daemon.rss() - rss
    for c in conns:
        c.close()
    survives(w)
    assert w.daemon.is_sanitized or grown < 256 << 20, f"grew by {grown >> 20} MiB for 8 peers"


def test_connections_that_come_and_go(canary):
    """A thousand connections opened and dropped at every stage leave no descriptor behind."""
    w, base = canary, canary.daemon.n_fds()
    call = record(call_message(1, NFS, VERS, 1, encode("GETATTR", w.root), OWNER))
    for i in range(1000):
        c = w.daemon.conn()
        c.send_raw(call[: i % (len(call) + 1)])
        if i % 3 == 0:
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset instead of an end
        c.close()
    survives(w)
    poll("descriptors of closed connections", lambda: w.daemon.n_fds() <= base + 20)


def test_credentials_of_every_shape(canary):
    """Random AUTH_SYS bodies are AUTH_ERROR or served; never more than that."""
    w, rng = canary, random.Random(6)
    for _ in range(500):
        cred = (rng.choice([0, 1, 1, 1, 2, 3, 6, 0xFFFFFFFF]), rng.randbytes(rng.choice([0, 4, 8, 20, 40, 100, 400])))
        reply = w.nfs.conn.call(NFS, VERS, 1, encode("GETATTR", w.root), cred)
        assert reply.kind in ("SUCCESS", "AUTH_ERROR")
    for count in (17, 0xFFFFFFFF, 0x40000000):
        body = u32(0) + opaque(b"m") + u32(0) + u32(0) + u32(count) + bytes(64)
        assert w.nfs.conn.call(NFS, VERS, 1, encode("GETATTR", w.root), (1, body)).kind == "AUTH_ERROR"
    xid = next_xid()  # a verifier with contents
    args = encode("GETATTR", w.root)
    w.nfs.conn.send_raw(record(call_message(xid, NFS, VERS, 1, args, AUTH_NONE, verf=(1, bytes(20)))))
    assert w.nfs.conn.wait(xid).kind in ("SUCCESS", "AUTH_ERROR")


def test_http_bytes_on_the_nfs_port_and_back(canary):
    """Either protocol sent to the other's port harms nobody."""
    d = canary.daemon
    feed(canary, b"POST /api/v1/workspaces HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
    with Conn(d.http_port) as c:
        c.send_raw(record(call_message(1, NFS, VERS, 0)))
        c.sock.shutdown(socket.SHUT_WR)
        assert c.is_closed()
    assert d.http("GET", "/api/v1/health")[0] == 200


def test_replies_are_what_this_file_thinks(w):
    """The strict decoder notices a reply with a byte too many: else this file would prove nothing."""
    good = call_message(9, NFS, VERS, 0)
    with pytest.raises(XdrError):
        Reply(good)
    reply = struct.pack(">6I", 9, 1, 0, 0, 0, 1)
    assert Reply(reply).kind == "PROG_UNAVAIL"
    with pytest.raises(XdrError):
        Reply(reply + bytes(4))
