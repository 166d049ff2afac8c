# SPDX-License-Identifier: MIT
"""What people and programs do in a directory, done in a FUSE mount by root and by an ordinary user."""
import os
import pathlib
import shutil
import tempfile

import pytest

from lib.daemon import poll

N_TREE = 2000
N_BIG = 20000


@pytest.fixture(scope="module")
def tree():
    """A tree of N_TREE files, and a tar file of it, where every user can read them."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="fuse-tree-"))
    top.chmod(0o755)
    for i in range(N_TREE):
        d = top / "tree" / f"d{i % 50:02d}" / f"e{i % 3}"
        d.mkdir(parents=True, exist_ok=True)
        (d / f"file{i}").write_bytes(os.urandom(i * 7 % 20000))
    (top / "tree" / "link").symlink_to("d00/e0")
    os.link(top / "tree/d00/e0/file0", top / "tree/hard")
    shutil.make_archive(str(top / "tree"), "tar", top, "tree")
    yield top
    shutil.rmtree(top)


def test_git_works(m):
    m.sh("""
        git init -q r && cd r && git config user.email a@b.c && git config user.name n
        for i in $(seq 40); do mkdir d$i; for j in 1 2 3; do echo $i $j >d$i/f$j; done; done
        git add . && git commit -qm one && git status --porcelain | wc -l | grep -qx 0
        echo more >>d1/f1 && git commit -qam two && git checkout -q -b other HEAD~1 && git checkout -q -
        git gc -q && git fsck --strict && cd ..
        git clone -q --no-hardlinks r copy && diff -r --exclude=.git r copy
        cd copy && (cd ../r && echo x >>d2/f2 && git commit -qam three) && git fetch -q && git log FETCH_HEAD -1 | grep -q three
    """)


def test_untar_and_compare(m, tree):
    m.sh(f"tar xf {tree}/tree.tar && diff -r tree {tree}/tree && rm -r tree && test -z \"$(ls -A)\"")


def test_sqlite_in_both_journal_modes(m):
    m.py("""
import sqlite3
for mode in ("wal", "delete"):
    a, b = (sqlite3.connect("db-" + mode, timeout=20) for _ in "ab")
    a.execute("pragma journal_mode=" + mode)
    a.execute("create table t(x)")
    for i in range(20):
        with (a, b)[i % 2] as c:
            c.executemany("insert into t values(?)", [(i,)] * 50)
    assert a.execute("select count(*) from t").fetchone() == (1000,)
    assert b.execute("pragma integrity_check").fetchone() == ("ok",)
    a.close(), b.close()
""")


def test_trees_of_links(m):
    m.py("""
import os
os.makedirs("store/p")
for i in range(200):
    os.makedirs(f"mods/m{i}/bin")
    with open(f"store/p/f{i}", "w") as f: f.write(str(i))
    os.link(f"store/p/f{i}", f"mods/m{i}/index")
    os.symlink(f"../../m{(i + 1) % 200}/index", f"mods/m{i}/bin/next")
for i in range(200):
    assert open(f"mods/m{i}/bin/next").read() == str((i + 1) % 200)
    assert os.stat(f"mods/m{i}/index").st_nlink == 2
    assert os.stat(f"mods/m{i}/index").st_ino == os.stat(f"store/p/f{i}").st_ino
os.symlink(b"\\xff" * 300, "long")
assert os.readlink(b"long") == b"\\xff" * 300
""")


def test_mappings_are_the_file(m):
    m.py("""
import mmap, os
fd = os.open("m", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(fd, 1 << 20)
a = mmap.mmap(fd, 1 << 20)
a[5000:5005] = b"hello"
a.flush()
assert os.pread(fd, 5, 5000) == b"hello"
os.pwrite(fd, b"there", 70000)
assert a[70000:70005] == b"there"
a[9000:9003] = b"abc"
a.close()
os.close(fd)
assert open("m", "rb").read()[9000:9003] == b"abc"
""")
    assert (m.daemon.host_dir(m.ws) / "m").read_bytes()[9000:9003] == b"abc"


def test_two_processes_append_without_loss(m):  # field report B059
    code = """
import os, sys
fd = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
for i in range(3000): os.write(fd, f"{sys.argv[1]} line {i}\\n".encode())
"""
    ps = [m.start(["/usr/bin/python3", "-c", code, who]) for who in "AB"]
    assert [p.wait(60) for p in ps] == [0, 0]
    lines = (m.daemon.host_dir(m.ws) / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{w} line {i}" for w in "AB" for i in range(3000))


def test_rename_over_an_open_file(m):
    m.py("""
import os
for i in range(20):
    with open("f", "w") as f: f.write(f"old{i}")
    held = open("f")
    with open("g", "w") as f: f.write(f"new{i}")
    os.rename("g", "f")
    assert open("f").read() == f"new{i}" and held.read() == f"old{i}"
    held.close()
names = os.listdir(".")
assert names == ["f"], names
""")
    poll("the hidden names' end", lambda: os.listdir(m.daemon.host_dir(m.ws)) == ["f"])


def test_an_unlinked_open_file_lives_until_closed(m):
    m.py("""
import os
os.mkdir("d")
f = open("d/a", "w+b")
f.write(b"x" * 100000); f.flush()
os.unlink("d/a")
assert os.fstat(f.fileno()).st_nlink == 0
os.rmdir("d")  # the hidden name is not in its way
assert os.listdir(".") == []
f.write(b"y"); f.flush()
f.seek(0)
assert f.read() == b"x" * 100000 + b"y"
""")
    poll("the hidden name's end", lambda: os.listdir(m.daemon.host_dir(m.ws)) == [])


@pytest.mark.slow
def test_a_big_directory(m):
    m.py(f"""
import os
os.mkdir("big")
for i in range({N_BIG}): os.mknod(f"big/{{i:06d}}", 0o644)
assert sorted(os.listdir("big")) == [f"{{i:06d}}" for i in range({N_BIG})]
n = 0
with os.scandir("big") as entries:  # removing while listing must neither skip nor repeat
    for e in entries:
        assert e.is_file()
        os.unlink(e.path)
        n += 1
assert n == {N_BIG} and os.listdir("big") == []
os.rmdir("big")
""")


def test_sparse_files_beyond_4_gib(m):
    m.py("""
import os
fd = os.open("s", os.O_RDWR | os.O_CREAT, 0o644)
for off in (5 << 30, (1 << 40) + 7):
    os.pwrite(fd, b"end", off)
    assert os.fstat(fd).st_size == off + 3
    assert os.pread(fd, 3, off) == b"end" and os.pread(fd, 4, off // 2) == bytes(4)
assert os.stat("s").st_blocks < 1000
os.ftruncate(fd, 10)
assert os.stat("s").st_size == 10
""")


def test_odd_names(m):
    m.py(r"""
import os
names = [b"\xff\xfe", b"a b\nc", "日本".encode(), b"-rf", b"x" * 255, b"\\", b'"q"', b"'", b"...", b"~", b"*"]
for n in names:
    with open(n, "wb") as f: f.write(n)
assert sorted(os.listdir(b".")) == sorted(names)
for n in names:
    assert open(n, "rb").read() == n
    os.rename(n, b"t"); os.rename(b"t", n); os.unlink(n)
try: open("x" * 256, "w")
except OSError as e: assert e.errno == 36
else: assert False, "a name of 256 bytes"
""")


def test_special_files_and_locks(m):
    m.py("""
import fcntl, os, socket, stat
os.mkfifo("fifo", 0o600)
socket.socket(socket.AF_UNIX).bind("sock")
assert stat.S_ISFIFO(os.stat("fifo").st_mode) and stat.S_ISSOCK(os.stat("sock").st_mode)
if os.fork() == 0:
    open("fifo", "w").write("through"); os._exit(0)
assert open("fifo").read() == "through"
a, b = open("l", "w"), open("l", "w")
fcntl.flock(a, fcntl.LOCK_EX)
try: fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: pass
else: assert False, "flock is not exclusive"
fcntl.lockf(a, fcntl.LOCK_EX)
""")


def test_what_nfs_has_not_is_refused_by_its_name(m):
    m.py("""
import ctypes, errno, os
def refused(want, f, *a):
    try: f(*a)
    except OSError as e: assert e.errno in want, e
    else: assert False, f
open("a", "w").write("a"); open("b", "w").write("b"); os.mkdir("d")
refused([errno.EOPNOTSUPP], os.setxattr, "a", "user.x", b"1")
libc = ctypes.CDLL(None, use_errno=True)
def rename2(a, b, flags):
    if libc.renameat2(-100, a, -100, b, flags) < 0: raise OSError(ctypes.get_errno(), "renameat2")
refused([errno.EEXIST], rename2, b"a", b"b", 1)
refused([errno.EINVAL], rename2, b"a", b"b", 2)
refused([errno.EINVAL], rename2, b"d", b"e", 1)
rename2(b"a", b"c", 1)
assert sorted(os.listdir(".")) == ["b", "c", "d"] and open("c").read() == "a"
fd = os.open("b", os.O_RDWR)
def allocate(n):
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    if libc.fallocate(fd, 0, 0, n) < 0: raise OSError(ctypes.get_errno(), "fallocate")
refused([errno.EOPNOTSUPP], allocate, 100000)
assert os.lseek(fd, 0, os.SEEK_DATA) == 0 and os.lseek(fd, 0, os.SEEK_HOLE) == 1
assert os.statvfs(".").f_namemax == 255 and os.statvfs(".").f_blocks > 0
""")


# ---- field reports ----


def test_a_renamed_file_is_there_under_its_new_name(m):  # B054
    m.py("""
import os
open("t", "w").write("1"); os.rename("t", "u"); assert os.stat("u").st_size == 1
open("u", "a").write("2"); assert open("u").read() == "12"
os.mkdir("d")
for i in range(300): open(f"d/{i}", "w").write(str(i))
f = open("d/7"); os.rename("d", "e")
assert f.read() == "7" and all(open(f"e/{i}").read() == str(i) for i in range(300))
""")
    held = m.start(["/usr/bin/python3", "-c", "f = open('u'); print(1, flush=True); input(); print(f.read())"],
                   stdin=-1, stdout=-1, text=True)
    assert held.stdout.readline() == "1\n"
    d = m.daemon.host_dir(m.ws)
    with m.daemon.local():
        os.rename(d / "u", d / "v")
    assert held.communicate("\n", timeout=20)[0] == "12\n"
    assert m.sh("cat v") == "12"


def test_who_mounts_owns_the_files(m):  # B057
    out = m.sh("""
        echo 1 >f && echo 2 >>f && chmod 600 f && mv f g && mkdir d && ln -s g l
        stat -c '%u %g' g d l . && rm -r g d l
    """)
    assert out.split() == [str(m.uid)] * 8
    m.py("""
import os
open("f", "w").close()
os.chown("f", os.geteuid(), os.getegid())
try: os.chown("f", 4242, -1)
except PermissionError: pass
else: assert False, "gave a file away"
""")


def test_modes_are_kept_and_masked_once(m):  # B058
    m.py("""
import os, stat
for mask in (0, 0o22, 0o77):
    os.umask(mask)
    for mode in (0, 0o200, 0o444, 0o644, 0o755):
        for excl in (0, os.O_EXCL):
            name = f"{mask:o}-{mode:o}-{excl}"
            fd = os.open(name, os.O_CREAT | os.O_RDWR | excl, mode)
            assert stat.S_IMODE(os.stat(name).st_mode) == mode & ~mask, (name, oct(os.stat(name).st_mode))
            os.ftruncate(fd, 10); os.write(fd, b"123"); os.fsync(fd)
            assert os.pread(fd, 20, 0) == b"123" + bytes(7)
            os.close(fd)
    os.mkdir(f"d{mask:o}", 0o777)
    assert stat.S_IMODE(os.stat(f"d{mask:o}").st_mode) == 0o777 & ~mask
""")


# ---- other doors ----


def test_close_to_open(m):
    d = m.daemon.host_dir(m.ws)
    reader = "print(open('f').read(), end='')"
    for i in range(10):
        text = "x" * (10 if i % 2 else 1000) + str(i)
        with m.daemon.local():
            (d / "f").write_text(text)
        assert m.py(reader) == text
    m.sh("echo from here >f")
    assert (d / "f").read_text() == "from here\n"


def test_written_bytes_show_at_other_doors_without_a_close(m):
    p = m.start(["/usr/bin/python3", "-c", "f = open('f', 'wb', 0); f.write(b'abc'); f.write(b'def'); input()"], stdin=-1)
    f = m.daemon.host_dir(m.ws) / "f"
    poll("the bytes", lambda: f.exists() and f.read_bytes() == b"abcdef")
    p.communicate(b"\n", timeout=20)
