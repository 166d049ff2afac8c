# SPDX-License-Identifier: MIT
"""Folders: listings that are complete and without repetition, small and huge, alone and while names come and go.

The second mount has `nordirplus`: it lists with READDIR where the first one uses READDIRPLUS.
"""
import os
import pathlib

from guestlib import MNT, MNT2, check, drop_caches, equal, host, in_child, inside, mount_stats, sh

N_HUGE = int(os.environ.get("HUGE_DIR") or 200_000)  # entries


def both(d):
    """The folder on each mount."""
    return d, MNT2 / inside(d)


def names(folder):
    return [e.name for e in os.scandir(folder)]


def each_once(got, wanted, what):
    assert len(got) == len(set(got)), f"{what}: {len(got) - len(set(got))} names twice"
    equal(len(set(got) & wanted), len(wanted), f"{what}: names that must be there")


@check()
def five_thousand_by_both_calls(d):
    host("make_files", inside(d), 5000)
    wanted = {f"file-{i:06d}" for i in range(5000)}
    for folder in both(d):
        drop_caches()
        got = names(folder)
        equal(len(got), 5000, f"entries of {folder}")
        each_once(got, wanted, str(folder))
        equal(sh(f"ls -f {folder} | sort | uniq -d"), "", "names twice")
        equal(sh(f"ls -lU {folder} | wc -l").strip(), "5001", "ls -l")


@check()
def hard_links_of_one_file_are_all_listed(d):
    for i in range(200):
        pathlib.Path(f"n{i:03d}").write_text("")
    for i in range(50):
        os.link("n000", f"n{i * 4:03d}-link")
    wanted = {f"n{i:03d}" for i in range(200)} | {f"n{i * 4:03d}-link" for i in range(50)}
    for folder in both(d):
        drop_caches()
        got = names(folder)
        equal(set(got), wanted, f"names in {folder}")
        equal(len(got), len(wanted), f"entries of {folder}")


@check()
def inode_numbers_of_a_listing_are_those_of_stat(d):
    for i in range(100):
        os.mkdir(f"d{i}") if i % 2 else pathlib.Path(f"f{i}").write_text("")
    for folder in both(d):
        drop_caches()
        for e in os.scandir(folder):
            equal(e.inode(), os.stat(folder / e.name).st_ino, f"inode number of {e.name}")
        equal(len({os.stat(folder / n).st_ino for n in names(folder)}), 100, "different numbers")


@check(timeout=240)
def huge_folder_is_listed_in_linear_time(d):
    calls = {}
    for part in (N_HUGE // 2, N_HUGE):
        folder = d / f"of-{part}"
        folder.mkdir()
        host("make_files", inside(folder), part)
        for f in both(folder):
            before = mount_stats(MNT if f is folder else MNT2)
            got = names(f)
            after = mount_stats(MNT if f is folder else MNT2)
            equal(len(got), part, "entries")
            each_once(got, {f"file-{i:06d}" for i in range(part)}, str(f))
            calls[part, f is folder] = sum(after[op] - before[op] for op in ("READDIR", "READDIRPLUS"))
    for plus in (True, False):
        half, whole = calls[N_HUGE // 2, plus], calls[N_HUGE, plus]
        assert 0 < whole <= 2.2 * half + 4, f"{half} calls for half of it, {whole} for all"
        assert whole <= N_HUGE / 20, f"{whole} calls for {N_HUGE} entries"
    for part in (N_HUGE // 2, N_HUGE):
        host("remove_tree", inside(d / f"of-{part}"))


@check(timeout=240)
def huge_folder_deleted_by_the_server_while_listed(d):
    n = N_HUGE // 4
    folder = d / "h"
    folder.mkdir()
    host("make_files", inside(folder), n)
    kept = {f"file-{i:06d}" for i in range(0, n, 2)}
    for f in both(folder):
        with os.scandir(f) as entries:
            got = [next(entries).name for _ in range(100)]
            host("remove_files", inside(folder), 1, n, 2)  # every other one; on the second round they are gone
            got += [e.name for e in entries]
        each_once(got, kept, str(f))
        assert all(name.startswith("file-") for name in got), "a name that never was"
    host("remove_tree", inside(folder))


@check(timeout=240)
def deleted_by_the_client_while_listed(d):
    n = 3000
    host("make_files", inside(d), n)
    removed = []
    with os.scandir(d) as entries:
        for e in entries:
            if len(removed) < n - 500:
                os.unlink(d / e.name)
                removed.append(e.name)
    equal(len(removed), n - 500, "removed")
    for folder in both(d):
        drop_caches()
        equal(len(names(folder)), 500, f"left in {folder}")
    sh(f"rm -rf {d}/*")
    equal(names(d), [], "names after rm -rf")


@check(timeout=120)
def names_that_stay_are_listed_once_while_others_come_and_go(d):
    host("make_files", inside(d), 3000)
    wanted = {f"file-{i:06d}" for i in range(3000)}

    def churn():
        for i in range(400):
            (MNT2 / inside(d) / f"temporary-{i}").write_text("x")
            if i >= 20:
                (MNT2 / inside(d) / f"temporary-{i - 20}").unlink()

    wait = in_child(churn)
    for _ in range(15):
        each_once([n for n in names(d) if n.startswith("file-")], wanted, "listing")
    wait()
    sh(f"rm -rf {d}/*")


@check()
def a_folder_renamed_under_a_shell_that_stands_in_it(d):
    for renamer in ("client", "server"):
        os.makedirs(d / "p" / "q")
        (d / "p" / "q" / "old").write_text("old")
        os.chdir(d / "p" / "q")
        fd = os.open("old", os.O_RDONLY)
        if renamer == "client":
            os.rename(d / "p", d / "r")
        else:
            host("rename", inside(d / "p"), inside(d / "r"))
        pathlib.Path("new").write_text("new")
        os.mkdir("sub")
        equal(sorted(os.listdir(".")), ["new", "old", "sub"], f"names after the {renamer}'s rename")
        equal(os.read(fd, 10), b"old", "what was open")
        os.close(fd)
        equal((d / "r" / "q" / "new").read_text(), "new", "by the new name")
        os.chdir(d)
        sh("rm -r r")


@check()
def removing_a_child_leaves_the_parent_alone(d):
    for remover in (os.rmdir, lambda p: host("remove", inside(p))):
        (d / "s").mkdir()
        os.chdir(d)
        remover(d / "s")
        os.listdir(".")
        pathlib.Path("t").write_text("t")
        os.unlink("t")
        os.makedirs("x/y")
        os.chdir("x")
        os.rmdir("y")
        pathlib.Path("t").write_text("t")
        os.chdir(d)
        sh("rm -r x")
