# SPDX-License-Identifier: MIT
"""A file system that fills up: 48 MiB of it."""
import errno
import os
import pathlib

from guestlib import check, equal, fails_with, in_child


def fill(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        for _ in range(80):
            os.write(fd, b"x" * 1_000_000)
        os.fsync(fd)
    finally:
        os.close(fd)


@check(timeout=120)
def no_space_is_told_and_passes_when_there_is_space_again(d):
    pathlib.Path("kept").write_bytes(b"k" * 100_000)
    for _ in range(3):
        with fails_with(errno.ENOSPC):
            fill("big")

        def reader():
            for _ in range(50):
                equal(pathlib.Path("kept").read_bytes(), b"k" * 100_000, "another file")
                os.listdir(".")

        waits = [in_child(reader) for _ in range(8)]
        for wait in waits:
            wait()
        os.unlink("big")
        pathlib.Path("fits").write_bytes(b"y" * 5_000_000)
        equal(len(pathlib.Path("fits").read_bytes()), 5_000_000, "what fits again")


@check()
def df_tells_how_full_it_is(d):
    free = os.statvfs(".").f_bavail * os.statvfs(".").f_frsize
    assert free <= 48 << 20, free
    pathlib.Path("f").write_bytes(b"x" * 10_000_000)
    left = os.statvfs(".").f_bavail * os.statvfs(".").f_frsize
    assert 9_000_000 < free - left < 14_000_000, (free, left)
