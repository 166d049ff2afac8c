# SPDX-License-Identifier: MIT
"""Writes that fail on the server: the error is that call's alone.  Files of over 16 MiB cannot be written here."""
import errno
import os
import pathlib

from guestlib import check, equal, fails_with, in_child

LIMIT = 16 << 20  # bytes, of any file


def too_much(path):
    """Writes past the limit; where the error shows is the client's choice: write, fsync or close."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(fd, b"x" * 1_000_000, LIMIT - 500_000)
        os.pwrite(fd, b"x" * 1_000_000, LIMIT + 1)
        os.fsync(fd)
    finally:
        os.close(fd)


@check(timeout=120)
def one_failing_writer_does_not_stall_the_others(d):
    def fine(n):
        for i in range(60):
            pathlib.Path(f"fine-{n}-{i}").write_bytes(bytes([n]) * 20_000)
        for i in range(60):
            equal(pathlib.Path(f"fine-{n}-{i}").read_bytes(), bytes([n]) * 20_000, "content")

    children = [in_child(fine, n) for n in range(8)]
    for _ in range(10):
        with fails_with(errno.EFBIG, errno.EIO, errno.ENOSPC):
            too_much("big")
    for wait in children:
        wait()
    equal(len(os.listdir(".")), 8 * 60 + 1, "names")


@check()
def the_file_stays_usable_after_the_error(d):
    with fails_with(errno.EFBIG, errno.EIO, errno.ENOSPC):
        too_much("big")
    os.truncate("big", 10)
    pathlib.Path("big").write_text("small again")
    equal(pathlib.Path("big").read_text(), "small again", "content")
    os.unlink("big")


@check()
def a_size_beyond_the_limit_is_refused(d):
    pathlib.Path("f").write_text("x")
    with fails_with(errno.EFBIG):
        os.truncate("f", LIMIT + 1)
    equal(pathlib.Path("f").read_text(), "x", "content")
