# SPDX-License-Identifier: MIT
"""The real Linux client on workspaced.  Each line below is a guest; its checks are in checks/<group>.py."""
import importlib

import pytest
from conftest import Ours
from guestlib import registry


def ordinary():
    """A daemon started by an ordinary user: no kernel file handles, no privilege at all."""
    from lib.daemon import IS_ROOT, USER

    if not IS_ROOT:
        pytest.skip("needs root to start a daemon as somebody else")
    return Ours(user=USER)


def in_guest(key, group, serve=Ours, **how):
    """A test for each check of a group; `how` goes to guest.run()."""
    importlib.import_module(group)

    @pytest.mark.parametrize("check", [c.name for c in registry[group]])
    def test(check, outcomes):
        outcomes(key, group, serve, **how).require(check)

    test.key = key
    return test


test_files = in_guest("files", "files")
test_files_of_an_ordinary_user = in_guest("files-user", "files", ordinary)
test_renames = in_guest("renames", "renames")
test_dirs = in_guest("dirs", "dirs", second="nosharecache,nordirplus")
