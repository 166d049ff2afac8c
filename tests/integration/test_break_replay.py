# SPDX-License-Identifier: MIT
"""Found by attacking the server: what the duplicate request cache and the descriptor cache answer."""
import os

from lib.nfs3 import FILE_SYNC, UNSTABLE, S
from lib.rpc import next_xid


def test_B010_write_of_other_data_with_the_same_xid(w):
    """A WRITE that differs only far behind its head is another call, although xid, offset and length are the same."""
    f = w.nfs.mkfile(w.root, "f")
    xid, head = next_xid(), b"h" * 4000
    assert w.nfs.call("WRITE", f, 0, head + b"first", xid=xid).status == S.OK
    assert w.nfs.call("WRITE", f, 0, head + b"other", xid=xid).status == S.OK
    assert w.nfs.data(f)[-5:] == b"other"


def test_B019_write_into_a_removed_file_is_stale(w_any):
    """The server's own descriptor keeps a removed file writable: that must not look like success to a client."""
    f = w_any.nfs.mkfile(w_any.root, "f")
    w_any.nfs.ok("WRITE", f, 0, b"x", UNSTABLE)
    with w_any.daemon.local():
        os.unlink(w_any.dir / "f")
    assert w_any.nfs.write(f, 0, b"y", FILE_SYNC).status == S.STALE
    assert w_any.nfs.commit(f).status == S.STALE
