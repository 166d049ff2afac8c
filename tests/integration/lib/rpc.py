# SPDX-License-Identifier: MIT
"""ONC RPC version 2 over TCP (RFC 5531), written for testing a server.

It is strict where a usual client is lenient: a reply with a byte too many, a bool that is neither 0 nor 1
or padding that is not zero is an error of the server.  And it can send what a usual client never would.
"""
import itertools
import os
import random
import select
import socket
import struct
import time

AUTH_NONE = (0, b"")
DEADLINE = float(os.environ.get("WORKSPACE_TEST_DEADLINE", "20"))  # seconds; for everything that is waited for

# One counter for the whole process: a duplicate request cache takes two calls with one xid for one call.
_xids = itertools.count(random.randrange(1, 1 << 30))


def next_xid():
    return next(_xids) & 0xFFFFFFFF


class XdrError(Exception):
    """The server sent bytes that are not what its own protocol says."""


class RpcError(Exception):
    """The call was not run: `kind` is the name of the accept or reject status."""

    def __init__(self, kind, low=None, high=None):
        super().__init__(kind if low is None else f"{kind} {low}..{high}")
        self.kind, self.low, self.high = kind, low, high


class Closed(Exception):
    """The server closed or reset the connection."""


def u32(n):
    return struct.pack(">I", n)


def u64(n):
    return struct.pack(">Q", n)


def opaque(b):
    """Variable-length opaque<> (also string<>)."""
    return u32(len(b)) + b + bytes(-len(b) % 4)


class Reader:
    """Takes XDR values off the front of bytes; every length is checked, nothing may be left at the end."""

    def __init__(self, b):
        self.b, self.at = b, 0

    def take(self, n):
        if n > len(self.b) - self.at:
            raise XdrError(f"{n} bytes wanted at {self.at}, {len(self.b) - self.at} there")
        self.at += n
        return self.b[self.at - n : self.at]

    def u32(self):
        return struct.unpack(">I", self.take(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.take(8))[0]

    def bool(self):
        n = self.u32()
        if n > 1:
            raise XdrError(f"bool is {n}")
        return n == 1

    def opaque(self, most):
        n = self.u32()
        if n > most:
            raise XdrError(f"opaque<{most}> of {n} bytes")
        b = self.take(n)
        if any(self.take(-n % 4)):
            raise XdrError("padding is not zero")
        return b

    def done(self):
        if self.at != len(self.b):
            raise XdrError(f"{len(self.b) - self.at} bytes too many")


def auth_sys(uid, gid, gids=(), machine=b"rawtest"):
    return (1, u32(0) + opaque(machine) + u32(uid) + u32(gid) + u32(len(gids)) + b"".join(map(u32, gids)))


def call_message(xid, prog, vers, proc, args=b"", cred=AUTH_NONE, verf=AUTH_NONE, rpcvers=2, mtype=0):
    head = struct.pack(">6I", xid, mtype, rpcvers, prog, vers, proc)
    return head + u32(cred[0]) + opaque(cred[1]) + u32(verf[0]) + opaque(verf[1]) + args


def record(message, fragment=None):
    """Record marking: one fragment, or pieces of `fragment` bytes."""
    size = fragment or max(len(message), 1)
    pieces = [message[i : i + size] for i in range(0, len(message), size)] or [b""]
    return b"".join(
        u32(len(p) | (0x80000000 if i == len(pieces) - 1 else 0)) + p for i, p in enumerate(pieces)
    )


ACCEPT = ["SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"]


class Reply:
    """`kind` is SUCCESS with `body`, or why the call was not run."""

    def __init__(self, message):
        r = Reader(message)
        self.xid, self.low, self.high, self.body = r.u32(), None, None, b""
        if r.u32() != 1:
            raise XdrError("not a REPLY")
        if r.bool():
            if r.bool():
                self.kind, self.low = "AUTH_ERROR", r.u32()
            else:
                self.kind, self.low, self.high = "RPC_MISMATCH", r.u32(), r.u32()
        else:
            if r.u32() != 0 or r.opaque(400) != b"":
                raise XdrError("verifier is not AUTH_NONE")
            stat = r.u32()
            if stat >= len(ACCEPT):
                raise XdrError(f"accept_stat {stat}")
            self.kind = ACCEPT[stat]
            if self.kind == "PROG_MISMATCH":
                self.low, self.high = r.u32(), r.u32()
            elif self.kind == "SUCCESS":
                self.body = r.take(len(message) - r.at)
        r.done()

    def result(self):
        if self.kind != "SUCCESS":
            raise RpcError(self.kind, self.low, self.high)
        return self.body


class Conn:
    """One TCP connection.  Every wait has a deadline; replies that come out of order are kept."""

    def __init__(self, port, host="127.0.0.1", deadline=DEADLINE, source=None):
        self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            self.sock.settimeout(deadline)
            if source:
                self.sock.bind((source, 0))
            self.sock.connect((host, port))
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            self.sock.close()
            raise
        self.deadline, self.buf, self.kept = deadline, bytearray(), {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send_raw(self, b):
        try:
            self.sock.sendall(b)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed(str(e)) from e

    def send(self, prog, vers, proc, args=b"", cred=AUTH_NONE, xid=None):
        xid = next_xid() if xid is None else xid
        self.send_raw(record(call_message(xid, prog, vers, proc, args, cred)))
        return xid

    def _more(self):
        try:
            b = self.sock.recv(1 << 20)
        except ConnectionResetError as e:
            raise Closed(str(e)) from e
        except socket.timeout:
            raise TimeoutError(f"no reply within {self.deadline} s") from None
        if not b:
            raise Closed("end of stream")
        self.buf += b

    def _pop(self):
        """A whole record out of the bytes that came, or None."""
        at, out = 0, []
        while len(self.buf) - at >= 4:
            head = struct.unpack_from(">I", self.buf, at)[0]
            end = at + 4 + (head & 0x7FFFFFFF)
            if end > len(self.buf):
                return None
            out.append(bytes(self.buf[at + 4 : end]))
            at = end
            if head & 0x80000000:
                del self.buf[:at]
                return b"".join(out)
        return None

    def recv_record(self):
        while True:
            message = self._pop()
            if message is not None:
                return message
            self._more()

    def recv(self):
        return Reply(self.recv_record())

    def wait(self, xid):
        """The reply to `xid`; others are kept for whoever asks.  A second reply to one xid is an error."""
        while xid not in self.kept:
            reply = self.recv()
            if reply.xid in self.kept:
                raise XdrError(f"xid {reply.xid:#x} answered twice")
            self.kept[reply.xid] = reply
        return self.kept.pop(xid)

    def call(self, prog, vers, proc, args=b"", cred=AUTH_NONE, xid=None):
        return self.wait(self.send(prog, vers, proc, args, cred, xid))

    def exchange(self, messages):
        """Send whole records while reading replies, so that neither side waits for the other.

        `messages`: {xid: call message}.  Return: {xid: Reply}, each exactly once.
        """
        out, got = memoryview(b"".join(map(record, messages.values()))), {}
        end = time.monotonic() + self.deadline * 3
        self.sock.setblocking(False)
        try:
            while len(got) < len(messages):
                if time.monotonic() > end:
                    raise TimeoutError(f"{len(got)} of {len(messages)} replies")
                r, w, _ = select.select([self.sock], [self.sock] if len(out) else [], [], 1)
                if w:
                    out = out[self.sock.send(out) :]
                if r:
                    self._more()
                while (message := self._pop()) is not None:
                    reply = Reply(message)
                    if reply.xid in got or reply.xid not in messages:
                        raise XdrError(f"xid {reply.xid:#x} answered twice or never asked")
                    got[reply.xid] = reply
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed(str(e)) from e
        finally:
            self.sock.settimeout(self.deadline)
        return got

    def is_closed(self):
        """Waits for the server to close; what it sends until then is thrown away."""
        try:
            while True:
                self.buf.clear()
                self._more()
        except Closed:
            return True
        except TimeoutError:
            return False
