# SPDX-License-Identifier: MIT
"""Whole tools at work on the mount, as the shown owner: the result must be that of a local disk.

TOOLS_SCALE is the number of files of the archive (5000 by default); the git repository has half as many.
"""
import os
import random
import shutil
import sqlite3

from guestlib import MNT, OWNER, check, equal, host, in_child, inside, sh
from tree import digest

N_FILES = int(os.environ.get("TOOLS_SCALE") or 5000)
LOCAL = "/dev/shm/tools"
# no system-wide settings: what must hold is git's own default, safe.directory included
GIT = dict(GIT_CONFIG_SYSTEM="/dev/null", GIT_CONFIG_GLOBAL="/dev/null", GIT_AUTHOR_NAME="G", GIT_AUTHOR_EMAIL="g@g",
           GIT_COMMITTER_NAME="G", GIT_COMMITTER_EMAIL="g@g", GIT_PAGER="cat", GIT_TERMINAL_PROMPT="0")


def sources(root, n):
    """A tree of n small files with folders, links and executables; the same for the same n."""
    r = random.Random(n)
    for i in range(n):
        folder = f"{root}/d{i % 40:02d}/s{i % 7}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/f{i}", "wb") as f:
            f.write(r.randbytes(r.randrange(1, 1500)))
    for i in range(0, n, 100):
        os.symlink(f"s{i % 7}/f{i}", f"{root}/d{i % 40:02d}/l{i}")
        os.chmod(f"{root}/d{i % 40:02d}/s{i % 7}/f{i}", 0o755)


def local(name):
    path = f"{LOCAL}-{os.getpid()}-{name}"
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


@check(uid=OWNER, timeout=900)
def git_from_init_to_gc(d):
    n = N_FILES // 2
    sources(d / "repo", n)
    git = "git -C repo -c gc.auto=0"
    sh("git init -q repo", **GIT)
    sh(f"{git} add . && {git} commit -qm one", **GIT)
    equal(sh(f"{git} ls-files | wc -l", **GIT).strip(), str(n + -(-n // 100)), "files in the index")
    sh(f"echo more >> repo/d00/s0/f0; mv repo/d01 repo/moved; {git} add -A; {git} commit -qm two", **GIT)
    equal(sh(f"{git} status --porcelain", **GIT), "", "status")
    sh("git clone -q repo copy && git clone -q --no-local repo packed && diff -r --exclude=.git repo packed", **GIT)
    sh(f"{git} gc -q --prune=now && {git} fsck --strict --no-progress && git -C copy fsck --strict", **GIT)
    sh("git -C packed checkout -q HEAD~1 && test -d packed/d01 && git -C packed checkout -q - && ! test -e packed/d01",
       **GIT)
    sh(f"{git} branch topic && {git} checkout -q topic && {git} rm -rq d02 && {git} commit -qm three && "
       f"{git} checkout -q main 2>/dev/null || {git} checkout -q master; {git} merge -q topic", **GIT)
    equal(sh(f"{git} log --oneline | wc -l", **GIT).strip(), "3", "commits")
    assert not os.path.exists(d / "repo" / ".git" / "index.lock")


@check(uid=OWNER)
def git_sees_no_dubious_ownership_as_the_owner(d):
    sh("git init -q r && git -C r status && git -C r commit -q --allow-empty -m x", **GIT)


@check()
def git_sees_no_dubious_ownership_under_sudo(d):
    # plain root is not the owner of what belongs to 1000, on any file system; under sudo git asks for SUDO_UID
    sh("git init -q r && git -C r status && git -C r commit -q --allow-empty -m x", SUDO_UID=str(OWNER), **GIT)


@check(uid=OWNER, timeout=900)
def untar_of_thousands_of_small_files(d):
    source = local("tar")
    sources(source, N_FILES)
    sh(f"tar -C {source} -cf {source}.tar . && mkdir out && tar -C out -xf {source}.tar")
    wanted = digest(source)
    equal(digest(d / "out"), wanted, "the tree, by this client")
    equal(host("tree_digest", inside(d / "out")), wanted, "the tree, on the server")
    sh(f"tar -C out -cf back.tar . && mkdir {source}.2 && tar -C {source}.2 -xf back.tar")
    equal(digest(f"{source}.2"), wanted, "the tree, packed again and unpacked locally")
    sh(f"rm -rf out {source}*")
    equal(sorted(os.listdir(".")), ["back.tar"], "names after rm -rf")


@check(uid=OWNER, timeout=120)
def rsync_there_again_and_back(d):
    source = local("rsync")
    sources(source, 500)
    os.makedirs(f"{source}/links")
    for i in range(20):
        os.link(f"{source}/d00/s0/f0", f"{source}/links/h{i}")
    sh(f"rsync -aH {source}/ there/")
    equal(digest(d / "there"), digest(source), "the first copy")
    equal(sh(f"rsync -aHi {source}/ there/"), "", "what a second run would do")
    sh(f"echo changed >> {source}/d01/s1/f1; rm {source}/d02/s2/f2; rsync -aH --delete --inplace {source}/ there/")
    equal(digest(d / "there"), digest(source), "after a change")
    sh(f"rsync -aHc there/ {source}-back/ && diff -r {source} {source}-back && rm -rf {source}*")


def sqlite_work(path, mode, options=""):
    """A database in this journal mode: rows put in by three processes, each in many transactions."""
    db = sqlite3.connect(path, timeout=50)
    equal(db.execute(f"pragma journal_mode={mode}").fetchone()[0], mode, "journal mode")
    db.execute("create table t(who integer, n integer, text, primary key(who, n))")
    db.close()

    def writer(who):
        db = sqlite3.connect(path, timeout=50)
        for n in range(40):
            with db:
                db.execute("insert into t values(?, ?, ?)", (who, n, "x" * 500))
        db.close()

    for wait in [in_child(writer, who) for who in range(3)]:
        wait()
    db = sqlite3.connect(path, timeout=50)
    equal(db.execute("select count(*), count(distinct who) from t").fetchone(), (120, 3), "rows")
    equal(db.execute("pragma integrity_check").fetchone()[0], "ok", "integrity")
    with db:
        db.execute("delete from t where n % 2")
    db.execute("vacuum")
    equal(db.execute("select count(*) from t").fetchone()[0], 60, "rows after a delete")
    db.close()


@check(uid=OWNER, timeout=120)
def sqlite_with_a_rollback_journal(d):
    for mode in ("delete", "truncate", "persist"):
        sqlite_work(f"{mode}.db", mode)


@check(uid=OWNER, timeout=120)
def sqlite_with_a_write_ahead_log(d):
    # its shared memory is a mapped file: processes of one client only
    sqlite_work("wal.db", "wal")
    equal(sh("sqlite3 wal.db 'select count(*) from t; pragma integrity_check'"), "60\nok\n", "the shell's view")


@check(uid=OWNER, timeout=120)
def tree_of_links_like_a_virtual_environment(d):
    os.makedirs("env/bin")
    os.makedirs("env/lib/python3/site-packages")
    python = os.path.realpath(shutil.which("python3"))
    os.symlink(python, "env/bin/python")
    for name in ("python3", "python3.11"):
        os.symlink("python", f"env/bin/{name}")
    os.symlink("lib", "env/lib64")
    for i in range(300):
        package = f"env/lib/python3/site-packages/p{i % 20}"
        os.makedirs(package, exist_ok=True)
        with open(f"{package}/m{i}.py", "w") as f:
            f.write(f"value = {i}\n")
        os.link(f"{package}/m{i}.py", f"{package}/h{i}.py")
    with open("env/pyvenv.cfg", "w") as f:
        f.write(f"home = {os.path.dirname(python)}\n")
    code = "import sys; sys.path.insert(0, 'env/lib64/python3/site-packages'); import p3.m3, p5.h25; " \
           "print(p3.m3.value + p5.h25.value, sys.prefix)"
    equal(sh(f'env/bin/python3 -c "{code}"'), f"28 {d}/env\n", "what a program of it says")
    sh("cp -a env copy && diff -r --no-dereference env copy && test -L copy/lib64 && find copy -type l | wc -l")
    equal(sh("find env -type f -links 2 | wc -l").strip(), "600", "hard links")
    assert os.path.isdir("env/lib/python3/site-packages/p3/__pycache__"), "compiled files"


@check(uid=OWNER, timeout=120)
def editors_save_in_their_ways(d):
    with open("text", "w") as f:
        f.write("one\n")
    sh("sed -i s/one/two/ text && test \"$(cat text)\" = two && cp -p text text~ && mv text~ text")
    fd = os.open(".text.swp", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)  # vi
    os.write(fd, b"swap")
    os.rename("text", "text~")
    with open("text", "w") as f:
        f.write("three\n")
        f.flush()
        os.fsync(f.fileno())
    os.unlink("text~")
    os.close(fd)
    os.unlink(".text.swp")
    sh("echo patched > p; diff -u text p > d.patch || true; patch -s text d.patch && cmp text p")
    equal(sorted(os.listdir(".")), ["d.patch", "p", "text"], "names")


@check(timeout=120)
def fio_verifies_what_it_wrote(d):
    sh("fio --name=v --directory=. --rw=randrw --size=4m --bs=4k-64k --bs_unaligned --verify=crc32c --numjobs=2 "
       "--ioengine=psync --fsync=32 --verify_fatal=1 --minimal >/dev/null")
    sh("fio --name=m --directory=. --rw=randwrite --size=4m --bs=4k --verify=crc32c --ioengine=mmap --minimal >/dev/null")
    assert str(d).startswith(str(MNT))
