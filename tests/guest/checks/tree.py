# SPDX-License-Identifier: MIT
"""A folder's content as one text, the same in the guest and outside, so that two places can be compared."""
import hashlib
import os
import stat


def describe(root):
    """One line for each name below `root`: path, kind, mode, size, links, content's digest or target."""
    lines = []
    root = os.fsencode(root)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            kind = stat.S_IFMT(st.st_mode)
            what = ""
            if stat.S_ISREG(kind):
                with open(path, "rb") as f:
                    what = f"{st.st_size} {st.st_nlink} {hashlib.sha256(f.read()).hexdigest()}"
            elif stat.S_ISLNK(kind):
                what = os.fsdecode(os.readlink(path))
            mode = 0 if stat.S_ISLNK(kind) else stat.S_IMODE(st.st_mode)
            lines.append(f"{os.fsdecode(os.path.relpath(path, root))!r} {kind:o} {mode:o} {what}")
    return sorted(lines)


def digest(root):
    """[number of names, digest of them all]"""
    lines = describe(root)
    return [len(lines), hashlib.sha256("\n".join(lines).encode(errors="surrogateescape")).hexdigest()]
