# SPDX-License-Identifier: MIT
"""The real Linux client on workspaced.  Each line below is a guest; its checks are in checks/<group>.py."""
import importlib
import os
import pathlib
import subprocess
import tempfile

import pytest
from conftest import Ours
from guestlib import registry


def ordinary():
    """A daemon started by an ordinary user: no kernel file handles, no privilege at all."""
    from lib.daemon import IS_ROOT, USER

    if not IS_ROOT:
        pytest.skip("needs root to start a daemon as somebody else")
    return Ours(user=USER)


def limited():
    """A daemon that cannot write files of more than 16 MiB: the write fails, as on a full or broken disk."""
    return Ours(launcher=["prlimit", f"--fsize={16 << 20}"])


class OnSmallDisk(Ours):
    """A daemon on a file system of 48 MiB of its own."""

    def __init__(self):
        from lib.daemon import IS_ROOT, temp_root

        if not IS_ROOT:
            pytest.skip("needs root to mount a small file system")
        self.base = tempfile.mkdtemp(prefix="workspaced-small-", dir=temp_root())
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48M", "tmpfs", self.base], check=True)
        folder = pathlib.Path(self.base, "daemon")
        folder.mkdir()
        super().__init__(base=folder)

    def end(self):
        try:
            super().end()
        finally:
            subprocess.run(["umount", self.base], check=True)
            os.rmdir(self.base)


class Group:
    """Checks that run in one guest: those of checks/<name>.py, on what serve() returns; `how` goes to guest.run()."""

    def __init__(self, name, serve=Ours, **how):
        self.name, self.serve, self.how = name, serve, how


def in_guest(*args, **how):
    """A test for each check of a group."""
    group = Group(*args, **how)
    importlib.import_module(group.name)

    @pytest.mark.parametrize("check", [c.name for c in registry[group.name]])
    def test(check, outcomes):
        outcomes[group].result().require(check)

    test.group = group
    return test


# the longest first: two run at once
test_tools = in_guest("tools")
test_restart = in_guest("restart")
test_tools_without_caches = in_guest("tools", options="noac", env=["TOOLS_SCALE=200"])
test_restart_of_an_ordinary_user = in_guest("restart", ordinary, env=["RESTARTS=1"])
test_mounts = in_guest("mounts", mounts=False)
test_dirs = in_guest("dirs", second="nosharecache,nordirplus")
test_shared = in_guest("shared", options="acdirmin=1,acdirmax=3", second="nosharecache,noac")
test_files = in_guest("files")
test_files_of_an_ordinary_user = in_guest("files", ordinary)
test_renames = in_guest("renames")
test_fsx = in_guest("fsx")
test_limits = in_guest("limits", limited)
test_full_disk = in_guest("full", OnSmallDisk)
