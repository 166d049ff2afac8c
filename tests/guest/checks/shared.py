# SPDX-License-Identifier: MIT
"""Several who use one workspace: this client, a second one without caches, and the server's own side.

The second mount is made with nosharecache and noac: to the server a client of its own, which sees at once what others do.
The first one caches, so it sees others' changes when it opens a file (close-to-open); how long it may believe a
folder's content is cut to 3 seconds (acdirmax), so that the checks need not wait for the default 60.
"""
import errno
import mmap
import os
import pathlib
import stat
import time

from guestlib import MNT, MNT2, Skip, check, drop_caches, equal, fails_with, host, in_child, inside, poll, sh

# Seconds between two versions of a file.  The client answers a stale handle by looking the name up once more: two versions
# within one open are one too many for it, whatever the server does.
REPLACE_PAUSE = 0.03

N_CHURN = int(os.environ.get("CHURN") or 150)  # names that each of two writers makes


def second(path):
    return MNT2 / inside(path)


@check()
def the_second_mount_is_a_client_of_its_own(d):
    lines = [m.split() for m in open("/proc/mounts") if m.split()[2] == "nfs"]
    equal([m[1] for m in lines], [str(MNT), str(MNT2)], "mounts")
    assert os.stat(MNT).st_dev != os.stat(MNT2).st_dev, "both mounts share one cache"


@check(timeout=120)
def close_to_open_both_ways(d):
    for i in range(40):
        for writer, reader in ((d, second(d)), (second(d), d)):
            text = f"round {i} by {writer}" * (i + 1)
            (writer / "f").write_text(text)
            equal((reader / "f").read_text(), text, f"round {i}")


@check()
def close_to_open_with_the_server(d):
    for i in range(40):
        host("write", inside(d / "f"), f"server {i}")
        equal((d / "f").read_text(), f"server {i}", "what this client reads")
        equal((second(d) / "f").read_text(), f"server {i}", "what the other one reads")
        (d / "f").write_text(f"client {i}")
        equal(host("read", inside(d / "f")), f"client {i}", "what the server reads")


@check()
def noac_sees_every_change_at_once(d):
    for i in range(20):
        (d / f"f{i}").write_text("1")
        equal((second(d) / f"f{i}").stat().st_size, 1, "a new file")
        (d / f"f{i}").write_text("22")
        equal((second(d) / f"f{i}").stat().st_size, 2, "its size")
        os.chmod(d / f"f{i}", 0o600)
        equal(stat.S_IMODE((second(d) / f"f{i}").stat().st_mode), 0o600, "its mode")
        host("append", inside(d / f"f{i}"), "by the server")
        equal((second(d) / f"f{i}").stat().st_size, 15, "its size after the server's change")
        host("rename", inside(d / f"f{i}"), inside(d / f"g{i}"))
        equal((second(d) / f"g{i}").stat().st_size, 15, "its new name")
        with fails_with(errno.ENOENT, errno.ESTALE):
            (second(d) / f"f{i}").stat()
    equal(len(os.listdir(second(d))), 20, "names")


@check(timeout=200)
def a_file_appears_and_goes_after_acdirmax(d):
    host("write", inside(d / "f"), "x")
    poll("the new name", lambda: "f" in os.listdir(d))
    host("remove", inside(d / "f"))
    poll("its end", lambda: "f" not in os.listdir(d))


@check()
def mapped_files_see_others_changes_after_open(d):
    (d / "f").write_text("a" * 8192)
    equal((second(d) / "f").read_text()[:1], "a", "before")
    with open(second(d) / "f", "r+b") as f, mmap.mmap(f.fileno(), 8192) as m:
        m[4096:4099] = b"new"
        m.flush()
    equal((d / "f").read_text()[4096:4099], "new", "what was written through a mapping")


@check(timeout=240)
def two_writers_in_one_folder_end_with_the_truth(d):
    def churn(folder, who):
        for i in range(N_CHURN):
            (folder / f"{who}-{i}.tmp").write_text("x")
            os.rename(folder / f"{who}-{i}.tmp", folder / f"{who}-{i}")
            if i >= 20:
                os.unlink(folder / f"{who}-{i - 20}")
            if i % 10 == 0:
                os.listdir(folder)

    children = [in_child(churn, d, "one"), in_child(churn, second(d), "two")]
    host("churn", inside(d), 3 * N_CHURN)
    for wait in children:
        wait()
    truth = sorted(os.fsencode(f"{who}-{i}").hex() for who in ("one", "two") for i in range(N_CHURN - 20, N_CHURN))
    truth = sorted(truth + [os.fsencode(f"host-{i}").hex() for i in range(3 * N_CHURN - 20, 3 * N_CHURN)])
    equal(host("list", inside(d)), truth, "names on the server")
    for folder in (second(d), d):
        poll(f"the truth in {folder}", lambda: sorted(os.fsencode(n).hex() for n in os.listdir(folder)) == truth)


@check(timeout=120)
def a_file_replaced_again_and_again_is_always_whole(d):
    size = 1 << 20
    os.mkdir("beside")
    (d / "f").write_bytes(bytes(size))

    done = d / "beside" / "done"

    def replace():
        host("replace_many", inside(d / "f"), inside(d / "beside"), 100, size)
        done.write_text("")

    wait = in_child(replace)
    while not done.exists():
        for path in (d / "f", second(d) / "f"):
            fd = os.open(path, os.O_RDONLY)  # never ESTALE
            try:
                data = os.read(fd, 65536) + os.pread(fd, 65536, size // 2)
            except OSError as e:
                assert e.errno == errno.ESTALE, e  # the version that was open is gone: an error, never wrong bytes
            else:
                assert data == data[:1] * len(data), "two versions in one reading"
            os.close(fd)
    wait()


@check(timeout=120)
def a_file_replaced_by_another_client_opens_by_name(d):
    os.mkdir("beside")
    (d / "f").write_text("0")

    def replace():
        for i in range(100):
            (second(d) / "beside" / "new").write_text(str(i))
            os.rename(second(d) / "beside" / "new", second(d) / "f")
            time.sleep(REPLACE_PAUSE)

    wait = in_child(replace)
    seen = [0]
    while seen[-1] < 99:
        with open(d / "f") as f:  # never ESTALE
            try:
                seen.append(int(f.read()))
            except OSError as e:
                assert e.errno == errno.ESTALE, e  # replaced between open and read
    wait()
    equal(seen, sorted(seen), "versions go forward only")


@check()
def appended_by_two_clients_in_turn(d):
    want = ""
    for i in range(20):
        for folder in (d, second(d)):
            with open(folder / "log", "a") as f:
                f.write(f"{i} by {folder}\n")
            want += f"{i} by {folder}\n"
    equal(host("read", inside(d / "log")), want, "the log")


@check()
def a_folder_removed_by_another_client_is_gone_not_hung(d):
    os.makedirs(d / "p")
    os.chdir(d / "p")
    os.rmdir(second(d / "p"))
    drop_caches()
    with fails_with(errno.ENOENT, errno.ESTALE):
        os.open("f", os.O_CREAT | os.O_WRONLY)
    os.chdir(d)
    os.mkdir(d / "p")
    equal(os.listdir(d / "p"), [], "a new folder of that name")


@check()
def a_file_removed_by_another_client_while_open(d):
    (d / "f").write_text("x" * 100)
    fd = os.open(d / "f", os.O_RDONLY)
    os.unlink(second(d) / "f")
    drop_caches()
    with fails_with(errno.ESTALE):
        os.pread(fd, 10, 0)
    os.close(fd)


@check()
def one_device_number_and_steady_inode_numbers(d):
    os.makedirs("a/b")
    (d / "a" / "f").write_text("")
    os.symlink("f", "a/l")
    numbers = sh(f"find {MNT} -xdev -path {d}'*' -printf '%D %i %P\\n'")
    equal({line.split()[0] for line in numbers.splitlines()}, {str(os.stat(MNT).st_dev)}, "device numbers")
    inodes = [line.split()[1] for line in numbers.splitlines()]
    equal(len(inodes), len(set(inodes)), "different inode numbers")
    equal(os.stat(d / "a").st_ino, os.stat(second(d / "a")).st_ino, "the same number on both mounts")


@check()
def what_is_mounted_inside_the_workspace_is_not_entered(d):
    if not host("may_mount"):
        raise Skip("needs root to mount something inside the workspace")
    (d / "before").mkdir()
    (d / "plain").write_text("x")
    (d / "before" / "covered").write_text("x")
    mounts = pathlib.Path("/proc/mounts").read_text()
    host("mount_tmpfs", inside(d / "before"))
    try:
        for folder in (d, second(d)):
            drop_caches()
            # the name may be listed; what is behind it may not be reached
            assert set(os.listdir(folder)) >= {"plain"}, os.listdir(folder)
            for act in (lambda: os.listdir(folder / "before"), lambda: (folder / "before" / "secret").read_text(),
                        lambda: (folder / "before" / "new").write_text("x"), lambda: os.rmdir(folder / "before")):
                with fails_with(errno.EXDEV, errno.EACCES, errno.EPERM, errno.EBUSY, errno.EREMOTE):
                    act()
            sh(f"find {folder} -printf '%D %i %p\\n' >/tmp/found 2>/tmp/errors || true; ! grep -q secret /tmp/found")
        equal(pathlib.Path("/proc/mounts").read_text(), mounts, "mounts of the client")
        (d / "after").write_text("still works")
    finally:
        host("umount", inside(d / "before"))
    drop_caches()
    poll("the folder again", lambda: listed(second(d) / "before"))


def listed(folder):
    try:
        return os.listdir(folder) == ["covered"]
    except OSError:
        return False
