# SPDX-License-Identifier: MIT
"""RENAME of everything onto everything, compared with a local file system of the same guest."""
import errno
import os
import pathlib
import shutil

from guestlib import check, equal

KINDS = ("file", "hard_link", "symlink", "empty_dir", "full_dir", "missing")
LOCAL = pathlib.Path("/dev/shm/renames")
# POSIX lets both stand for "that folder is not empty"
SAME = {errno.EEXIST: errno.ENOTEMPTY}


def make(path, kind, common):
    """Puts something of `kind` at `path`; hard links are all links to `common`."""
    if kind == "file":
        path.write_text(f"content of {path.name}")
    elif kind == "hard_link":
        os.link(common, path)
    elif kind == "symlink":
        path.symlink_to("target")
    elif kind == "empty_dir":
        path.mkdir()
    elif kind == "full_dir":
        path.mkdir()
        (path / "child").write_text("child")


def tree(root):
    """What is there: {path: kind, content and links}"""
    seen = {}
    for p in sorted(root.rglob("*")):
        name = str(p.relative_to(root))
        if p.is_symlink():
            seen[name] = f"link to {os.readlink(p)}"
        elif p.is_dir():
            seen[name] = "folder"
        else:
            seen[name] = f"{p.read_text()} x{p.stat().st_nlink}"
    return seen


def outcome(root, source, target, across):
    """Renames in a new tree below `root`: (error number or 0, tree afterwards)"""
    shutil.rmtree(root, ignore_errors=True)
    (root / "d1").mkdir(parents=True)
    (root / "d2").mkdir()
    common = root / "common"
    common.write_text("common")
    a = root / "d1" / "a"
    b = root / ("d2" if across else "d1") / "b"
    make(a, source, common)
    make(b, target, common)
    try:
        os.rename(a, b)
        code = 0
    except OSError as e:
        code = SAME.get(e.errno, e.errno)
    return code, tree(root)


def compare(d, across):
    wrong = []
    for source in KINDS:
        for target in KINDS:
            here, there = outcome(d / "t", source, target, across), outcome(LOCAL, source, target, across)
            if here != there:
                wrong.append(f"{source} -> {target}: {here}, locally {there}")
    assert not wrong, "; ".join(wrong)


@check(timeout=120)
def every_pair_within_a_folder(d):
    compare(d, across=False)


@check(timeout=120)
def every_pair_across_folders(d):
    compare(d, across=True)


@check()
def onto_itself_and_by_case(d):
    pathlib.Path("f").write_text("x")
    os.rename("f", "f")
    os.rename("f", "F")
    equal(os.listdir("."), ["F"], "names")


@check()
def a_folder_moves_with_all_below_it(d):
    os.makedirs("a/b/c")
    pathlib.Path("a/b/c/f").write_text("x")
    fd = os.open("a/b/c/f", os.O_RDWR)
    os.mkdir("z")
    os.rename("a", "z/y")
    os.write(fd, b"still")
    os.close(fd)
    equal(pathlib.Path("z/y/b/c/f").read_text(), "still", "content")
    equal(os.path.samefile("z/y/..", "z"), True, "the parent of what moved")


@check(timeout=120)
def thousands_in_the_way_of_npm(d):
    for i in range(700):
        pathlib.Path(f"{i}.tmp").write_text(str(i))
        os.rename(f"{i}.tmp", f"{i % 70}.json")
    equal(sorted(os.listdir(".")), sorted(f"{i}.json" for i in range(70)), "names")
    for i in range(70):
        equal(pathlib.Path(f"{i}.json").read_text(), str(630 + i), "the last one wins")
