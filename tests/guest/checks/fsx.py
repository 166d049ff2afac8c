# SPDX-License-Identifier: MIT
"""Random operations on one file, compared after each with what the file must be: FSX_OPS of them (2000).

The random numbers start at FSX_SEED (1); a failure tells the seed, the step and the last operations.
"""
import hashlib
import mmap
import os
import random

from guestlib import check, drop_caches, host, inside

N_OPS = int(os.environ.get("FSX_OPS") or 2000)
SEED = int(os.environ.get("FSX_SEED") or 1)
MAX = 300_000  # bytes of the file
PAGE = mmap.PAGESIZE


class Model:
    """The file on the mount and its twin in memory."""

    def __init__(self, path, seed, mapped):
        self.path, self.random, self.twin, self.log = path, random.Random(seed), bytearray(), []
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self.operations = [self.write, self.write, self.read, self.read, self.truncate, self.sync, self.reopen,
                           self.append]
        if mapped:
            self.operations += [self.map_write, self.map_write, self.map_read, self.map_read]

    def span(self, limit):
        at = self.random.randrange(limit)
        return at, min(self.random.choice((1, 7, 512, 4096, 5000, 65536)), limit - at)

    def put(self, at, data):
        if at > len(self.twin):
            self.twin.extend(bytes(at - len(self.twin)))
        self.twin[at : at + len(data)] = data

    def write(self):
        at, n = self.span(MAX)
        data = self.random.randbytes(n)
        assert os.pwrite(self.fd, data, at) == n
        self.put(at, data)
        return at, n

    def append(self):
        if len(self.twin) > MAX:
            return ()
        data = self.random.randbytes(self.random.randrange(1, 2000))
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, data)
        os.close(fd)
        self.put(len(self.twin), data)
        return (len(data),)

    def read(self):
        at, n = self.span(MAX)
        got = os.pread(self.fd, n, at)
        assert got == self.twin[at : at + n], self.difference(got, at)
        return at, n

    def truncate(self):
        size = self.random.randrange(MAX)
        os.ftruncate(self.fd, size)
        if size < len(self.twin):
            del self.twin[size:]
        else:
            self.twin.extend(bytes(size - len(self.twin)))
        return (size,)

    def sync(self):
        os.fsync(self.fd)
        return ()

    def reopen(self):
        os.close(self.fd)
        if self.random.random() < 0.3:
            drop_caches()
        self.fd = os.open(self.path, os.O_RDWR)
        assert os.fstat(self.fd).st_size == len(self.twin), f"size {os.fstat(self.fd).st_size}, not {len(self.twin)}"
        return ()

    def map_write(self):
        if not self.twin:
            return ()
        at, n = self.span(len(self.twin))
        data = self.random.randbytes(n)
        with mmap.mmap(self.fd, len(self.twin)) as m:
            m[at : at + n] = data
            if self.random.random() < 0.5:
                m.flush()
        self.put(at, data)
        return at, n

    def map_read(self):
        if not self.twin:
            return ()
        at, n = self.span(len(self.twin))
        with mmap.mmap(self.fd, len(self.twin), prot=mmap.PROT_READ) as m:
            got = m[at : at + n]
            tail = m[len(self.twin) :]
        assert got == self.twin[at : at + n], self.difference(got, at)
        assert tail == bytes(len(tail)), "bytes past the end of a mapping"
        return at, n

    def difference(self, got, at):
        want = self.twin[at : at + len(got)]
        first = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        return f"differs at {at + first} (length {len(got)}, wanted {len(self.twin[at:]) if at < len(self.twin) else 0}+)"

    def go(self, n):
        for step in range(n):
            operation = self.random.choice(self.operations)
            try:
                done = operation()
            except Exception as e:
                raise AssertionError(f"seed {SEED}, step {step}, {operation.__name__}: {e}; before: {self.log[-6:]}") from e
            self.log.append((operation.__name__, *done))
        os.close(self.fd)


def exercise(d, seed, mapped):
    m = Model(d / "file", seed, mapped)
    m.go(N_OPS)
    drop_caches()
    with open(m.path, "rb") as f:
        assert f.read() == m.twin, "content at the end"
    assert host("sha256", inside(m.path)) == hashlib.sha256(m.twin).hexdigest(), "content on the server"


@check(timeout=7200)
def with_read_and_write(d):
    exercise(d, SEED, mapped=False)


@check(timeout=7200)
def with_mappings(d):
    exercise(d, SEED + 1, mapped=True)
