# SPDX-License-Identifier: MIT
"""NFS version 3 (RFC 1813): encoders of every argument, strict decoders of every result and its failure arm.

    nfs = Nfs(conn, cred)
    r = nfs.lookup(root, "name")        # one method for each procedure, by its name in small letters
    assert r.status == S.OK; r.fh, r.attr, r.dir_attr

`encode("LOOKUP", root, "name")` gives the argument bytes alone, `decode("LOOKUP", body)` the result.
"""
import enum
import stat
from types import SimpleNamespace as ns

from .rpc import Reader, XdrError, auth_sys, call_message, next_xid, opaque, u32, u64

PROG, VERS = 100003, 3
OWNER = auth_sys(1000, 1000)
FHSIZE = 64


class S(enum.IntEnum):
    OK = 0
    PERM = 1
    NOENT = 2
    IO = 5
    NXIO = 6
    ACCES = 13
    EXIST = 17
    XDEV = 18
    NODEV = 19
    NOTDIR = 20
    ISDIR = 21
    INVAL = 22
    FBIG = 27
    NOSPC = 28
    ROFS = 30
    MLINK = 31
    NAMETOOLONG = 63
    NOTEMPTY = 66
    DQUOT = 69
    STALE = 70
    REMOTE = 71
    BADHANDLE = 10001
    NOT_SYNC = 10002
    BAD_COOKIE = 10003
    NOTSUPP = 10004
    TOOSMALL = 10005
    SERVERFAULT = 10006
    BADTYPE = 10007
    JUKEBOX = 10008


REG, DIR, BLK, CHR, LNK, SOCK, FIFO = range(1, 8)
UNSTABLE, DATA_SYNC, FILE_SYNC = range(3)
A_READ, A_LOOKUP, A_MODIFY, A_EXTEND, A_DELETE, A_EXECUTE = 1, 2, 4, 8, 16, 32


# ---- values -----------------------------------------------------------------------------------------


def time3(r):
    sec, nsec = r.u32(), r.u32()
    if nsec >= 10**9:
        raise XdrError(f"nanoseconds {nsec}")
    return (sec, nsec)


def fattr(r):
    a = ns(type=r.u32(), mode=r.u32(), nlink=r.u32(), uid=r.u32(), gid=r.u32(), size=r.u64(), used=r.u64())
    a.rdev, a.fsid, a.fileid = (r.u32(), r.u32()), r.u64(), r.u64()
    a.atime, a.mtime, a.ctime = time3(r), time3(r), time3(r)
    if not REG <= a.type <= FIFO:
        raise XdrError(f"ftype3 {a.type}")
    if a.mode & ~0o7777:
        raise XdrError(f"mode {a.mode:o} has type bits")
    return a


def post(r):
    return fattr(r) if r.bool() else None


def wcc(r):
    before = ns(size=r.u64(), mtime=time3(r), ctime=time3(r)) if r.bool() else None
    return ns(before=before, after=post(r))


def fh(r):
    return r.opaque(FHSIZE)


def post_fh(r):
    return fh(r) if r.bool() else None


def stable(r):
    n = r.u32()
    if n > FILE_SYNC:
        raise XdrError(f"stable_how {n}")
    return n


def name(x):
    return opaque(x.encode() if isinstance(x, str) else x)


def sattr(mode=None, uid=None, gid=None, size=None, atime=None, mtime=None):
    """atime, mtime: None, "server" (SET_TO_SERVER_TIME) or (seconds, nanoseconds)."""

    def opt(x, enc=u32):
        return u32(0) if x is None else u32(1) + enc(x)

    def when(t):
        return u32(0) if t is None else u32(1) if t == "server" else u32(2) + u32(t[0]) + u32(t[1])

    return opt(mode) + opt(uid) + opt(gid) + opt(size, u64) + when(atime) + when(mtime)


# ---- arguments --------------------------------------------------------------------------------------


def enc_setattr(f, guard=None, **attrs):
    return opaque(f) + sattr(**attrs) + (u32(0) if guard is None else u32(1) + u32(guard[0]) + u32(guard[1]))


def enc_write(f, offset, data, how=FILE_SYNC, count=None):
    return opaque(f) + u64(offset) + u32(len(data) if count is None else count) + u32(how) + opaque(data)


def enc_create(d, n, verf=None, guarded=False, **attrs):
    """verf: 8 bytes for an EXCLUSIVE create."""
    how = u32(2) + verf if verf is not None else u32(1 if guarded else 0) + sattr(**attrs)
    return opaque(d) + name(n) + how


def enc_mknod(d, n, kind, rdev=(0, 0), **attrs):
    body = sattr(**attrs) if kind in (CHR, BLK, SOCK, FIFO) else b""
    if kind in (CHR, BLK):
        body += u32(rdev[0]) + u32(rdev[1])
    return opaque(d) + name(n) + u32(kind) + body


def enc_name(d, n):
    return opaque(d) + name(n)


def enc_readdir(d, cookie=0, verf=bytes(8), count=8192):
    return opaque(d) + u64(cookie) + verf + u32(count)


def enc_readdirplus(d, cookie=0, verf=bytes(8), dircount=8192, maxcount=32768):
    return opaque(d) + u64(cookie) + verf + u32(dircount) + u32(maxcount)


# ---- results ----------------------------------------------------------------------------------------


def ok_read(r):
    o = ns(attr=post(r), count=r.u32(), eof=r.bool(), data=r.opaque(1 << 30))
    if o.count != len(o.data):
        raise XdrError(f"count {o.count}, {len(o.data)} bytes")
    return o


def new(r):
    return ns(fh=post_fh(r), attr=post(r), dir_wcc=wcc(r))


def entries(r, plus):
    out = []
    while r.bool():
        e = ns(fileid=r.u64(), name=r.opaque(255), cookie=r.u64())
        if plus:
            e.attr, e.fh = post(r), post_fh(r)
        out.append(e)
    return ns(entries=out, eof=r.bool())


def ok_dir(plus):
    def f(r):
        head = ns(attr=post(r), verf=r.take(8))
        return ns(**vars(head), **vars(entries(r, plus)))

    return f


def ok_fsstat(r):
    o = ns(attr=post(r), tbytes=r.u64(), fbytes=r.u64(), abytes=r.u64())
    o.tfiles, o.ffiles, o.afiles, o.invarsec = r.u64(), r.u64(), r.u64(), r.u32()
    return o


def ok_fsinfo(r):
    o = ns(attr=post(r), rtmax=r.u32(), rtpref=r.u32(), rtmult=r.u32(), wtmax=r.u32(), wtpref=r.u32())
    o.wtmult, o.dtpref, o.maxfilesize = r.u32(), r.u32(), r.u64()
    o.time_delta, o.properties = time3(r), r.u32()
    return o


def ok_pathconf(r):
    o = ns(attr=post(r), linkmax=r.u32(), name_max=r.u32(), no_trunc=r.bool(), chown_restricted=r.bool())
    o.case_insensitive, o.case_preserving = r.bool(), r.bool()
    return o


def ok_write(r):
    return ns(wcc=wcc(r), count=r.u32(), committed=stable(r), verf=r.take(8))


def of(**fields):
    """A result that is these fields one after the other."""
    return lambda r: ns(**{k: f(r) for k, f in fields.items()})


R_WCC, R_DIRWCC, R_ATTR, R_NONE = of(wcc=wcc), of(dir_wcc=wcc), of(attr=post), of()

# number, encoder, success arm, failure arm
PROCS = {
    "NULL": (0, lambda: b"", None, None),
    "GETATTR": (1, opaque, of(attr=fattr), R_NONE),
    "SETATTR": (2, enc_setattr, R_WCC, R_WCC),
    "LOOKUP": (3, enc_name, of(fh=fh, attr=post, dir_attr=post), of(dir_attr=post)),
    "ACCESS": (4, lambda f, bits=63: opaque(f) + u32(bits), of(attr=post, access=Reader.u32), R_ATTR),
    "READLINK": (5, opaque, of(attr=post, target=lambda r: r.opaque(4096)), R_ATTR),
    "READ": (6, lambda f, offset, count: opaque(f) + u64(offset) + u32(count), ok_read, R_ATTR),
    "WRITE": (7, enc_write, ok_write, R_WCC),
    "CREATE": (8, enc_create, new, R_DIRWCC),
    "MKDIR": (9, lambda d, n, **a: enc_name(d, n) + sattr(**a), new, R_DIRWCC),
    "SYMLINK": (10, lambda d, n, to, **a: enc_name(d, n) + sattr(**a) + name(to), new, R_DIRWCC),
    "MKNOD": (11, enc_mknod, new, R_DIRWCC),
    "REMOVE": (12, enc_name, R_DIRWCC, R_DIRWCC),
    "RMDIR": (13, enc_name, R_DIRWCC, R_DIRWCC),
    "RENAME": (14, lambda d, n, d2, n2: enc_name(d, n) + enc_name(d2, n2), *[of(from_wcc=wcc, to_wcc=wcc)] * 2),
    "LINK": (15, lambda f, d, n: opaque(f) + enc_name(d, n), *[of(attr=post, dir_wcc=wcc)] * 2),
    "READDIR": (16, enc_readdir, ok_dir(False), R_ATTR),
    "READDIRPLUS": (17, enc_readdirplus, ok_dir(True), R_ATTR),
    "FSSTAT": (18, opaque, ok_fsstat, R_ATTR),
    "FSINFO": (19, opaque, ok_fsinfo, R_ATTR),
    "PATHCONF": (20, opaque, ok_pathconf, R_ATTR),
    "COMMIT": (21, lambda f, offset=0, count=0: opaque(f) + u64(offset) + u32(count),
               of(wcc=wcc, verf=lambda r: r.take(8)), R_WCC),
}


def encode(proc, *args, **kw):
    return PROCS[proc][1](*args, **kw)


def decode(proc, body):
    _, _, good, bad = PROCS[proc]
    r = Reader(body)
    if good is None:
        res = ns(status=S.OK)
    else:
        status = S(r.u32())
        res = (good if status == S.OK else bad)(r)
        res.status = status
    r.done()
    res.size = len(body)
    return res


class Nfs:
    """A connection and a credential; `nfs.<procedure>(...)` sends, waits and decodes."""

    def __init__(self, conn, cred=OWNER):
        self.conn, self.cred = conn, cred

    def message(self, proc, *args, **kw):
        """(xid, call message) for Conn.exchange()."""
        xid = next_xid()
        return xid, call_message(xid, PROG, VERS, PROCS[proc][0], encode(proc, *args, **kw), self.cred)

    def call(self, proc, *args, xid=None, **kw):
        reply = self.conn.call(PROG, VERS, PROCS[proc][0], encode(proc, *args, **kw), self.cred, xid)
        return decode(proc, reply.result())

    def __getattr__(self, attr):
        if attr.upper() not in PROCS:
            raise AttributeError(attr)
        return lambda *args, **kw: self.call(attr.upper(), *args, **kw)

    def many(self, calls):
        """Pipelined: [(proc, args...)] gives the decoded results in the same order."""
        sent = [(c[0], *self.message(*c)) for c in calls]
        got = self.conn.exchange({xid: m for _, xid, m in sent})
        return [decode(proc, got[xid].result()) for proc, xid, _ in sent]

    # ---- short forms that assert success ----

    def ok(self, proc, *args, **kw):
        r = self.call(proc, *args, **kw)
        assert r.status == S.OK, f"{proc} {args} {kw}: {r.status!r}"
        return r

    def attr(self, f):
        return self.ok("GETATTR", f).attr

    def mkfile(self, d, n, data=b"", mode=0o644):
        f = self.ok("CREATE", d, n, mode=mode).fh
        if data:
            assert self.ok("WRITE", f, 0, data).count == len(data)
        return f

    def mkdir_(self, d, n, mode=0o755):
        return self.ok("MKDIR", d, n, mode=mode).fh

    def look(self, d, *path):
        for n in path:
            d = self.ok("LOOKUP", d, n).fh
        return d

    def data(self, f, most=1 << 20):
        return self.ok("READ", f, 0, most).data

    def walk(self, d, proc="READDIR", **limits):
        """Every entry of a directory, page by page; a page without progress is an error."""
        cookie, verf, out = 0, bytes(8), []
        while True:
            r = self.ok(proc, d, cookie, verf, **limits)
            assert r.entries or r.eof, "empty page that is not the end"
            out += r.entries
            if r.eof:
                return out
            cookie, verf = r.entries[-1].cookie, r.verf

    def names(self, d, **kw):
        return sorted(e.name for e in self.walk(d, **kw) if e.name not in (b".", b".."))


def kind_of(st):
    """ftype3 of a mode from os.stat()."""
    table = {stat.S_IFREG: REG, stat.S_IFDIR: DIR, stat.S_IFLNK: LNK, stat.S_IFSOCK: SOCK, stat.S_IFIFO: FIFO}
    return table[stat.S_IFMT(st.st_mode)]
