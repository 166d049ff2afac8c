# SPDX-License-Identifier: MIT
"""Found by attacking the server: MNT of a sub-directory led past directories that are closed to its caller."""
import pytest

from lib.mount3 import M
from lib.nfs3 import OWNER, S
from lib.rpc import AUTH_NONE, auth_sys


@pytest.mark.parametrize("cred", [auth_sys(4242, 4242), AUTH_NONE], ids=["4242", "AUTH_NONE"])
def test_mount_below_a_closed_directory(w_any, cred):
    """Who may not look names up in a directory gets no handle of what is below it, as with LOOKUP and READDIRPLUS."""
    n, other, d = w_any.nfs, w_any.as_(cred), w_any.daemon
    d.set_export(w_any.id, mode="match")
    n.ok("SETATTR", w_any.root, mode=0o755)
    private = n.mkdir_(w_any.root, "private")
    n.mkfile(n.mkdir_(private, "public"), "f", b"x")
    for path in ("private/public", "/private//public/", "private/../private/public"):
        assert d.mnt(f"/{w_any.id}/{path}", cred).status == M.OK
    n.ok("SETATTR", private, mode=0o744)
    assert other.lookup(private, "public").status == S.ACCES
    for path in ("private/public", "private/public/.", "private/.", "private/..", "private/public/../../private/public"):
        assert d.mnt(f"/{w_any.id}/{path}", cred).status == M.ACCES, path
    assert d.mnt(f"/{w_any.id}/private", cred).status == M.OK
    assert d.mnt(f"/{w_any.id}/private/public/f", OWNER).status == M.NOTDIR
    assert d.mnt(f"/{w_any.id}/private/public", OWNER).status == M.OK
    n.ok("SETATTR", private, mode=0o755)
    assert d.mnt(f"/{w_any.id}/private/public/f", cred).status == M.NOTDIR
    assert d.mnt(f"/{w_any.id}/private/{'x' * 256}", cred).status == M.NAMETOOLONG
    assert d.mnt(f"/{w_any.id}/{'../' * 5}", cred).status in (M.OK, M.ACCES)
