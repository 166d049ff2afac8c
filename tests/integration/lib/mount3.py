# SPDX-License-Identifier: MIT
"""MOUNT version 3 (RFC 1813 appendix I)."""
import enum
from types import SimpleNamespace as ns

from .nfs3 import OWNER, name
from .rpc import Reader

PROG, VERS = 100005, 3


class M(enum.IntEnum):
    OK = 0
    PERM = 1
    NOENT = 2
    IO = 5
    ACCES = 13
    NOTDIR = 20
    INVAL = 22
    NAMETOOLONG = 63
    NOTSUPP = 10004
    SERVERFAULT = 10006


class Mount:
    def __init__(self, conn, cred=OWNER, vers=VERS):
        self.conn, self.cred, self.vers = conn, cred, vers

    def _call(self, proc, args=b""):
        return Reader(self.conn.call(PROG, self.vers, proc, args, self.cred).result())

    def null(self):
        self._call(0).done()

    def mnt(self, path):
        """status, and on success fh and flavors."""
        r = self._call(1, name(path))
        res = ns(status=M(r.u32()))
        if res.status == M.OK:
            res.fh, res.flavors = r.opaque(64), [r.u32() for _ in range(r.u32())]
        r.done()
        return res

    def dump(self):
        r, out = self._call(2), []
        while r.bool():
            out.append((r.opaque(255), r.opaque(1024)))
        r.done()
        return out

    def umnt(self, path):
        self._call(3, name(path)).done()

    def umntall(self):
        self._call(4).done()

    def export(self):
        """[(path, [group])]"""
        r, out = self._call(5), []
        while r.bool():
            path, groups = r.opaque(1024), []
            while r.bool():
                groups.append(r.opaque(255))
            out.append((path, groups))
        r.done()
        return out
