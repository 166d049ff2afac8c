# SPDX-License-Identifier: MIT
"""Files as programs use them, on one mount: RFC 1813 seen through the kernel's client."""
import errno
import fcntl
import hashlib
import mmap
import os
import random
import shutil
import socket
import stat
import time

from guestlib import MNT, OWNER, check, drop_caches, equal, fails_with, host, in_child, inside, sh

SECOND = 10**9


def spew(path, data, flags=os.O_WRONLY | os.O_CREAT, offset=None):
    fd = os.open(path, flags, 0o644)
    try:
        n = os.write(fd, data) if offset is None else os.pwrite(fd, data, offset)
        equal(n, len(data), "bytes written")
        os.fsync(fd)
    finally:
        os.close(fd)


def slurp(path):
    with open(path, "rb") as f:
        return f.read()


@check()
def the_mount_is_v3_over_tcp_without_nlm(d):
    line = next(m for m in open("/proc/mounts") if m.split()[1] == str(MNT))
    for option in ("vers=3", "proto=tcp", "nolock", "hard", "rsize=1048576", "wsize=1048576"):
        assert option in line.split()[3].split(","), f"{option} is not in {line}"


@check()
def written_bytes_come_back_and_are_on_the_server(d):
    data = random.Random(1).randbytes(5_000_001)
    spew("f", data)
    drop_caches()
    assert slurp("f") == data, "read back differs"
    equal(host("sha256", inside(d / "f")), hashlib.sha256(data).hexdigest(), "on the server")


@check()
def odd_sizes_and_reads_at_the_end(d):
    for size in (0, 1, 511, 4095, 4096, 4097, 65537, 1048575, 1048576, 1048577):
        data = random.Random(size).randbytes(size)
        spew("f", data, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        drop_caches()
        fd = os.open("f", os.O_RDONLY)
        equal(os.pread(fd, size + 100, 0), data, f"{size} bytes")
        equal(os.pread(fd, 10, size), b"", "read at the end")
        equal(os.pread(fd, 10, size + 1), b"", "read past the end")
        equal(os.pread(fd, 10, 1 << 40), b"", "read far past the end")
        os.close(fd)


@check()
def append_of_several_processes_loses_nothing(d):
    def writer(n):
        fd = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for i in range(100):
            os.write(fd, b"%d %03d\n" % (n, i))
        os.close(fd)

    for wait in [in_child(writer, n) for n in range(4)]:
        wait()
    equal(sorted(slurp("log").splitlines()), [b"%d %03d" % (n, i) for n in range(4) for i in range(100)], "lines")


@check()
def append_after_a_change_by_the_server(d):
    spew("f", b"one\n")
    host("append", inside(d / "f"), "two\n")
    spew("f", b"three\n", os.O_WRONLY | os.O_APPEND)
    equal(host("read", inside(d / "f")), "one\ntwo\nthree\n", "on the server")


@check()
def exclusive_create_has_one_winner(d):
    def taker(me):
        for i in range(60):
            try:
                fd = os.open(f"n{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
            except FileExistsError:
                continue
            os.write(fd, me.encode())
            os.close(fd)

    for wait in [in_child(taker, me) for me in "abc"]:
        wait()
    for i in range(60):
        assert slurp(f"n{i}") in (b"a", b"b", b"c"), f"n{i} has {slurp(f'n{i}')!r}"
        equal(stat.S_IMODE(os.stat(f"n{i}").st_mode), 0o640, "mode")
    with fails_with(errno.EEXIST):
        os.open("n0", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.symlink("nowhere", "link")
    with fails_with(errno.EEXIST):
        os.open("link", os.O_WRONLY | os.O_CREAT | os.O_EXCL)


@check()
def exclusive_create_keeps_no_trace_in_times(d):
    before = time.time() - 5
    os.close(os.open("f", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    drop_caches()
    st = os.stat("f")
    for t in (st.st_mtime, st.st_atime):
        assert before - 5 < t < time.time() + 5, f"time {t} looks like a verifier"
    equal(stat.S_IMODE(st.st_mode), 0o600, "mode")


@check()
def mmap_written_is_on_the_server_and_read_again(d):
    size = 3 * 4096 + 100
    with open("m", "w+b") as f:
        f.truncate(size)
        m = mmap.mmap(f.fileno(), size)
        for at in (0, 4095, 8192, size - 5):
            m[at : at + 5] = b"hello"
        m.flush()
        want = bytes(m)
        m.close()
    equal(host("sha256", inside(d / "m")), hashlib.sha256(want).hexdigest(), "on the server")
    drop_caches()
    with open("m", "rb") as f:
        m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        assert bytes(m) == want, "mapped again"
        m.close()


@check()
def mmap_past_the_end_is_zero(d):
    spew("m", b"x" * 5000)
    drop_caches()
    with open("m", "rb") as f:
        m = mmap.mmap(f.fileno(), 5000, prot=mmap.PROT_READ)
        equal(m[4990:5000], b"x" * 10, "end")
        m.close()
    os.truncate("m", 10)
    os.truncate("m", 6000)
    equal(slurp("m"), b"x" * 10 + bytes(5990), "cut and grown again")


@check()
def direct_io(d):
    buffer = mmap.mmap(-1, 65536)
    buffer.write(bytes(range(256)) * 256)
    fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o644)
    equal(os.pwritev(fd, [buffer], 4096), 65536, "written")
    back = mmap.mmap(-1, 65536)
    equal(os.preadv(fd, [back], 4096), 65536, "read")
    os.close(fd)
    assert bytes(back) == bytes(buffer), "read back differs"


@check()
def rename_over_an_open_file(d):
    spew("f", b"old content")
    fd = os.open("f", os.O_RDONLY)
    spew("g", b"new")
    os.rename("g", "f")
    equal(os.read(fd, 100), b"old content", "what was open")
    equal(slurp("f"), b"new", "the name")
    os.close(fd)
    equal(os.listdir("."), ["f"], "nothing is left over")


@check()
def removed_open_file_lives_until_closed(d):
    fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(fd, b"before ")
    os.unlink("f")
    os.write(fd, b"after")
    os.fsync(fd)
    drop_caches()
    equal(os.pread(fd, 100, 0), b"before after", "content of the removed file")
    assert all(n.startswith(".nfs") for n in os.listdir(".")), os.listdir(".")
    with fails_with(errno.ENOTEMPTY, errno.EBUSY, errno.EEXIST):
        os.rmdir(d)
    os.close(fd)
    equal(os.listdir("."), [], "left over")
    os.mkdir("sub")
    os.rmdir("sub")


@check()
def file_removed_by_the_server_while_open_is_stale_not_a_hang(d):
    spew("f", b"x" * 100)
    fd = os.open("f", os.O_RDWR)
    host("remove", inside(d / "f"))
    drop_caches()
    with fails_with(errno.ESTALE):
        os.pread(fd, 10, 0)
        os.fstat(fd)
        os.pwrite(fd, b"y", 0)
        os.fsync(fd)
    os.close(fd)
    spew("f", b"again")
    equal(slurp("f"), b"again", "a new file of that name")


@check(timeout=120)
def sparse_file_over_4_gib(d):
    gib = 1 << 30
    os.close(os.open("big", os.O_CREAT | os.O_WRONLY, 0o644))
    os.truncate("big", 6 * gib)
    marks = {4 * gib - 1: b"AB", 2 * gib - 1: b"CD", 4 * gib + 5: b"EF", 5 * gib: b"GH", 6 * gib - 2: b"IJ"}
    fd = os.open("big", os.O_RDWR)
    for at, data in marks.items():
        os.pwrite(fd, data, at)
    os.fsync(fd)
    drop_caches()
    for at, data in marks.items():
        equal(os.pread(fd, 2, at), data, f"at {at}")
    equal(os.pread(fd, 4096, 3 * gib), bytes(4096), "the hole")
    equal(os.lseek(fd, 0, os.SEEK_END), 6 * gib, "end")
    os.close(fd)
    st = os.stat("big")
    equal(st.st_size, 6 * gib, "size")
    assert st.st_blocks * 512 < gib, f"{st.st_blocks} blocks for a sparse file"
    equal(host("read_at", inside(d / "big"), 4 * gib - 1, 2), "AB", "on the server")
    os.truncate("big", 5 * gib + 1)
    equal(host("stat", inside(d / "big"))["size"], 5 * gib + 1, "size after a cut, on the server")


@check()
def a_size_that_no_file_can_have_is_refused(d):
    spew("f", b"data")
    for size in ((1 << 63) - 1, 1 << 62):
        try:
            os.truncate("f", size)
        except OSError as e:
            assert e.errno in (errno.EFBIG, errno.EINVAL, errno.ENOSPC), e
        else:
            equal(host("stat", inside(d / "f"))["size"], size, "size, if it was accepted")
    os.truncate("f", 4)
    equal(slurp("f"), b"data", "content")


@check()
def times_to_the_nanosecond(d):
    spew("f", b"x")
    os.mkdir("folder")
    os.symlink("f", "link")
    # not in second 0 nor in the last one of 32 bits: there the client itself drops the fraction
    for ns in (SECOND, SECOND + 1, 1234567890_123456789, 2 * SECOND - 2, (2**31 - 1) * SECOND, (2**31 + 5) * SECOND + 7):
        for name in ("f", "folder", "link"):
            os.utime(name, ns=(ns, ns + 1), follow_symlinks=False)
            drop_caches()
            st = os.lstat(name)
            equal((st.st_atime_ns, st.st_mtime_ns), (ns, ns + 1), f"times of {name}")
            seen = host("stat", inside(d / name))
            equal((seen["atime_ns"], seen["mtime_ns"]), (ns, ns + 1), f"times of {name} on the server")


@check()
def times_move_when_they_should(d):
    spew("f", b"x")
    os.utime("f", ns=(5 * SECOND, 5 * SECOND))
    ctime = os.stat("f").st_ctime_ns
    os.chmod("f", 0o600)
    assert os.stat("f").st_ctime_ns > ctime, "chmod leaves ctime alone"
    equal(os.stat("f").st_mtime_ns, 5 * SECOND, "mtime after chmod")
    spew("f", b"y")
    assert os.stat("f").st_mtime > 1e9, "a write leaves mtime alone"
    os.utime(".", ns=(5 * SECOND, 5 * SECOND))
    spew("g", b"")
    assert os.stat(".").st_mtime > 1e9, "a create leaves the folder's mtime alone"
    os.utime("f")
    assert abs(os.stat("f").st_mtime - time.time()) < 30, "utime to now"


@check()
def modes_are_kept(d):
    spew("f", b"")
    os.mkdir("folder")
    for mode in [1 << bit for bit in range(12)] + [0o644, 0o755, 0o7777, 0]:
        os.chmod("f", mode)
        os.chmod("folder", mode)
        equal(stat.S_IMODE(os.stat("f").st_mode), mode, "mode")
        equal(host("stat", inside(d / "f"))["mode"], mode, "mode on the server")
        equal(stat.S_IMODE(os.stat("folder").st_mode), mode, "mode of a folder")
    os.umask(0o027)
    os.close(os.open("u", os.O_CREAT | os.O_WRONLY, 0o666))
    os.mkdir("v", 0o777)
    equal((os.stat("u").st_mode & 0o777, os.stat("v").st_mode & 0o777), (0o640, 0o750), "modes under a umask")
    os.chmod("folder", 0o755)


@check(uid=OWNER)
def a_read_only_file_can_be_written_by_who_created_it_so(d):
    fd = os.open("f", os.O_CREAT | os.O_WRONLY, 0o444)
    os.write(fd, b"x" * 10000)
    os.fsync(fd)
    os.close(fd)
    equal(slurp("f"), b"x" * 10000, "content")


@check(uid=OWNER)
def set_id_bits_go_when_written(d):
    spew("f", b"x")
    os.chmod("f", 0o6755)
    spew("f", b"y")
    equal(stat.S_IMODE(os.stat("f").st_mode), 0o755, "mode after a write")


@check()
def hard_links(d):
    spew("f", b"content")
    for i in range(50):
        os.link("f", f"l{i}")
    equal({os.stat(n).st_ino for n in os.listdir(".")}, {os.stat("f").st_ino}, "inode numbers")
    equal(os.stat("f").st_nlink, 51, "links")
    os.unlink("f")
    equal(os.stat("l0").st_nlink, 50, "links after an unlink")
    equal(slurp("l49"), b"content", "content")
    with fails_with(errno.EEXIST):
        os.link("l0", "l1")
    os.mkdir("folder")
    equal(os.stat(".").st_nlink >= 2, True, "links of a folder")


@check()
def symlink_targets_are_kept(d):
    targets = [b"a", b"x" * 255, b"y" * 1023, b"../../../etc/passwd", b"/absolute/target", b"\xff\x80 \n", b"a//b/./c/"]
    for i, target in enumerate(targets):
        os.symlink(target, b"l%d" % i)
    drop_caches()
    for i, target in enumerate(targets):
        equal(os.readlink(b"l%d" % i), target, f"target {i}")
        equal(os.lstat(b"l%d" % i).st_size, len(target), f"size of link {i}")
    with fails_with(errno.ENOENT):
        os.symlink(b"", b"empty")
    with fails_with(errno.EINVAL):
        os.readlink(".")


@check()
def long_symlink_targets_of_the_server_do_no_harm(d):
    for n in (1024, 4095):
        host("symlink", "z" * n, inside(d / f"l{n}"))
        try:
            equal(os.readlink(f"l{n}"), "z" * n, f"target of {n} bytes")
        except OSError as e:  # the client's limit is 1024, RFC 1813 has none
            assert n > 1024 and e.errno == errno.ENAMETOOLONG, e
        os.lstat(f"l{n}")
        os.unlink(f"l{n}")


@check()
def dangling_links_are_not_followed(d):
    os.symlink("nowhere", "l")
    os.utime("l", ns=(7, 7), follow_symlinks=False)
    os.chown("l", OWNER, OWNER, follow_symlinks=False)
    with fails_with(errno.ENOENT):
        os.stat("l")
    os.rename("l", "m")
    equal(os.readlink("m"), "nowhere", "renamed link")
    equal(os.listdir("."), ["m"], "names")


@check(uid=OWNER)
def fifo_and_socket(d):
    os.mkfifo("pipe", 0o600)
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)
    wait = in_child(lambda: spew_plain("pipe", b"through"))
    equal(slurp("pipe"), b"through", "fifo")
    wait()
    s = socket.socket(socket.AF_UNIX)
    s.bind("sock")
    assert stat.S_ISSOCK(os.stat("sock").st_mode)
    s.close()


def spew_plain(path, data):
    with open(path, "wb") as f:
        f.write(data)


@check()
def device_nodes_are_refused(d):
    for kind in (stat.S_IFCHR, stat.S_IFBLK):
        with fails_with(errno.EPERM, errno.EACCES, errno.EOPNOTSUPP):
            os.mknod("dev", kind | 0o666, os.makedev(1, 3))
    equal(os.listdir("."), [], "names")


@check()
def the_owner_is_shown_and_chown_to_it_is_a_no_op(d):
    spew("f", b"")
    os.mkdir("folder")
    for name in ("f", "folder", ".", str(MNT)):
        st = os.stat(name)
        equal((st.st_uid, st.st_gid), (OWNER, OWNER), f"owner of {name}")
    os.chown("f", OWNER, OWNER)
    os.chown("f", OWNER, -1)
    os.chown("f", -1, OWNER)
    for uid, gid in ((0, -1), (-1, 0), (OWNER + 1, OWNER), (OWNER, 2)):
        with fails_with(errno.EPERM):
            os.chown("f", uid, gid)
    st = os.stat("f")
    equal((st.st_uid, st.st_gid), (OWNER, OWNER), "owner afterwards")


@check(uid=1001)
def another_user_of_an_allowed_client_acts_as_the_owner(d):
    spew("f", b"mine")
    os.chmod("f", 0o600)
    equal(os.stat("f").st_uid, OWNER, "owner")
    equal(slurp("f"), b"mine", "content")


@check(uid=OWNER)
def locks_keep_processes_of_one_client_apart(d):
    # flock(2) and fcntl(2); a lock manager that nobody answers would hang here
    for lock in (fcntl.flock, fcntl.lockf):
        with open("f", "w") as f:
            lock(f, fcntl.LOCK_EX)

            def other():
                with open("f", "r+") as g, fails_with(errno.EAGAIN, errno.EACCES):
                    lock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)

            in_child(other)()
            lock(f, fcntl.LOCK_UN)
    sh("flock -w 10 f true", timeout=30)


@check()
def df_is_sensible(d):
    s = os.statvfs(".")
    assert 0 < s.f_bavail <= s.f_bfree <= s.f_blocks, s
    assert 0 < s.f_favail <= s.f_ffree <= s.f_files, s
    seen = host("statvfs")
    assert abs(s.f_blocks * s.f_frsize - seen["bytes"]) <= s.f_frsize, f"{s.f_blocks * s.f_frsize} bytes, {seen}"
    equal(s.f_files, seen["files"], "inodes")
    assert s.f_namemax == 255, s.f_namemax
    sh("df -P . | grep -q ' /mnt/nfs$' && df -i . >/dev/null")


@check(uid=OWNER)
def programs_run_from_the_mount(d):
    shutil.copy("/bin/echo", "echo")
    equal(sh("./echo hello"), "hello\n", "a binary")
    with open("script", "w") as f:
        f.write("#!/bin/sh\necho $((6 * 7))\n")
    os.chmod("script", 0o755)
    equal(sh("./script"), "42\n", "a script")
    os.chmod("script", 0o644)
    with fails_with(errno.EACCES):
        os.execv("./script", ["script"])
    # the text of a running program is mapped: a new version is put in its place by rename
    shutil.copy("/bin/sleep", "s")
    sh("./s 100 </dev/null >/dev/null 2>&1 & p=$!; cp /bin/echo n; mv n s; ./s new; kill $p")


@check()
def paths_and_folders_many_levels_deep(d):
    here = os.open(".", os.O_RDONLY)
    for i in range(60):
        os.mkdir("d" * 100, dir_fd=here)
        deeper = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    fd = os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.close(fd)
    equal(os.listdir(here), ["leaf"], "names at the bottom")
    os.close(here)
    equal(len(sh("find . -name leaf").strip().split("/")), 62, "levels")
    sh("rm -rf d*")
    equal(os.listdir("."), [], "names")


@check()
def names_too_long_or_no_names(d):
    os.mkdir("n" * 255)
    spew("m" * 255, b"1")
    os.rename("m" * 255, "o" * 255)
    with fails_with(errno.ENAMETOOLONG):
        os.stat("p" * 256)
    with fails_with(errno.ENAMETOOLONG):
        os.mkdir("p" * 256)
    with fails_with(errno.ENOENT):
        os.mkdir("")
    equal(sorted(os.listdir(".")), ["n" * 255, "o" * 255], "names")


@check(timeout=120)
def names_of_every_byte(d):
    folder = os.fsencode(str(d))
    singles = [bytes([b]) for b in range(1, 256) if b not in b"/."]
    longs = [bytes([b]) * 255 for b in range(1, 256) if b != ord("/")]
    others = ["é".encode(), "e\u0301".encode(), "日本語".encode(), "😀".encode(), b"trailing ", b"back\\slash", b"*", b"...",
              b"-rf", b"\xff\xfe", b".nfs-like", b"a\nb"]
    names = sorted(set(singles + longs + others))
    for i, name in enumerate(names):
        spew_plain(folder + b"/" + name, b"%d" % i)
    drop_caches()
    equal(sorted(os.listdir(folder)), names, "names listed")
    equal(host("list", inside(d)), [n.hex() for n in names], "names on the server")
    for i, name in enumerate(names):
        equal(slurp(folder + b"/" + name), b"%d" % i, f"content of {name!r}")
    for name in names:
        os.rename(folder + b"/" + name, folder + b"/r" + name[:254])
        os.unlink(folder + b"/r" + name[:254])
    equal(os.listdir(folder), [], "names afterwards")


@check()
def errors_are_the_right_ones(d):
    spew("f", b"x")
    os.makedirs("full/child")
    with fails_with(errno.ENOTEMPTY, errno.EEXIST):
        os.rmdir("full")
    with fails_with(errno.ENOTDIR):
        os.rmdir("f")
    with fails_with(errno.EISDIR, errno.EPERM):
        os.unlink("full")
    with fails_with(errno.ENOTDIR):
        os.stat("f/x")
    with fails_with(errno.ENOENT):
        os.open("missing", os.O_RDONLY)
    with fails_with(errno.EEXIST):
        os.mkdir("full")
    with fails_with(errno.EISDIR):
        os.open("full", os.O_WRONLY)
    with fails_with(errno.EINVAL):
        os.rename("full", "full/child/x")
    with fails_with(errno.EPERM):
        os.link("full", "other")
    equal(sorted(os.listdir(".")), ["f", "full"], "names")


@check()
def truncate_and_extend(d):
    spew("f", b"x" * 10000)
    for size in (9999, 4096, 4095, 1, 0, 100, 70000):
        os.truncate("f", size)
        drop_caches()
        equal(os.stat("f").st_size, size, "size")
        equal(len(slurp("f")), size, "bytes read")
    equal(slurp("f"), bytes(70000), "what grew")
    fd = os.open("f", os.O_WRONLY)
    os.pwrite(fd, b"end", 200000)
    os.close(fd)
    equal(slurp("f"), bytes(200000) + b"end", "a hole")


@check()
def copy_and_posix_fallocate(d):
    spew("a", random.Random(3).randbytes(300000))
    shutil.copyfile("a", "b")  # sendfile
    equal(slurp("b"), slurp("a"), "copy")
    sh("cp --reflink=auto --sparse=always a c && cmp a c && cp -al . ../copy-$$ && rm -r ../copy-$$")
    fd = os.open("b", os.O_RDWR)
    try:
        os.posix_fallocate(fd, 0, 400000)
    except OSError as e:  # NFS v3 has no such call; the C library's own way needs read access to the file
        assert e.errno in (errno.EOPNOTSUPP, errno.EINVAL), e
    os.close(fd)
