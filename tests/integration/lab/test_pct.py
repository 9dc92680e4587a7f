# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lab's pct against the measurements of the real one: push, pull, arguments, states.

The ids name the section of the measurements, the container and the case. What the lab cannot show:
- the strace of a push: the order of its calls shows in the rows (mode before owner, in place, no rename).
- the four rows of 902 on a tmpfs under /mnt: void by the measurements' own note, the mount had failed.
- fs.protected_regular: it is the machine's, so only its present value is looked at.
- the times: the start-up is one constant here (test_start_up), the rest is the speed of this machine.
- 600 MiB pushes: a push from a pipe is stopped in its middle instead.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import Any

import pytest

from .pct_cases import BOTH, SRC, Driver, Row, W, expected, run, table

# an aborted run can have left its mount
CLEAN = "inside 'umount -l /root/t/fs 2>/dev/null; rm -rf /root/t; mkdir /root/t'\n"
PUSH = "pct push <vmid> <file> <destination> [OPTIONS]\n"


def made(mode: str = "644", own: str = "0:0(root:root)", size: int = 11, links: int = 1) -> str:
    """What `look` shows of a file."""
    kind = "regular file" if size else "regular empty file"
    return f"{kind} mode={mode} own={own} links={links} size={size}\n"


def absent(path: str) -> str:
    return f"stat: cannot statx {path}: No such file or directory\n"


def push(case: str, dest: str, *options: str, src: str = SRC, before: str = "", **more: Any) -> Row:
    """A push into a fresh /root/t, after which its destination is looked at."""
    more.setdefault("after", f"look {shlex.quote(dest)}")
    return Row(case, ("push", "{ct}", src, dest, *options), before=CLEAN + before, **more)


# --- push: basics -------------------------------------------------------------------------------------------------


def perms(value: str, mode: str | tuple[str, str]) -> Row:
    state = made(mode) if isinstance(mode, str) else (made(mode[0]), made(mode[1]))
    return push(f"new, --perms {value!r}", "/root/t/p", "--perms", value, state=state)


def bad_perms(value: str, shown: str) -> Row:
    said = f"invalid mode: '{shown}'\n"
    return push(f"new, --perms {value!r}", "/root/t/p", "--perms", value, err=said, state=absent("/root/t/p"))


def owner(own: str, *options: str, mode: str = "644") -> Row:
    return push(f"new, {' '.join(options)}", "/root/t/u", *options, state=made(mode, own))


def no_owner(kind: str, name: str, said: str) -> Row:
    return push(f"new, --{kind} {name}", "/root/t/u", f"--{kind}", name, err=said, state=absent("/root/t/u"))


EXISTING = "inside 'cd /root/t; printf 01234567890123456789x >ex; ln ex ex.hl; chmod 4711 ex; chown bob:crew ex{more}'"
BUSY = """inside 'cp /bin/sleep /root/t/busy; chmod 755 /root/t/busy
setsid /root/t/busy 777 >/dev/null 2>&1 & echo $! >/root/t/pid
until [ "$(readlink /proc/$!/exe)" = /root/t/busy ]; do :; done'"""
NOT_BUSY = "look /root/t/busy | cut -d' ' -f1-4; inside 'kill $(cat /root/t/pid)'"
STILL_BUSY = {
    "before": BUSY,
    "after": NOT_BUSY,
    "state": "regular file mode=755 own=0:0(root:root)\n",
    "err": "failed to create file: /root/t/busy: Text file busy\n",
}
INVALID_OWNER = ("", "failed to change file owner: Invalid argument\n")
BASICS = [
    push("new dest, caller umask 0022, source 0640 33:33", "/root/t/new", umask=0o022, state=made("644")),
    push("new dest, caller umask 0077, source 0640 33:33", "/root/t/new", umask=0o077, state=made("600")),
    push("new dest, caller umask 0000, source 0640 33:33", "/root/t/new", umask=0o000, state=made("666")),
    push(
        "dest exists (longer, mode 4711 bob:crew, has a hard link)",
        "/root/t/ex",
        before=EXISTING.format(more=""),
        after="look /root/t/ex; inside 'cat /root/t/ex.hl'",
        state=made("711", "1234:4321(bob:crew)", links=2) + "NEWCONTENT\n",
    ),
    push(
        "dest exists (4711), --perms 0640",
        "/root/t/ex",
        "--perms",
        "0640",
        before=EXISTING.format(more=""),
        state=made("640", "1234:4321(bob:crew)", links=2),
    ),
    *(
        push(
            f"dest {dest} (directory)",
            dest,
            err=f"failed to create file: {dest}: Is a directory\n",
            after="inside 'ls /root/t'",
        )
        for dest in ("/root/t", "/root/t/", "/root/t/.", "/root/t/newdir/")
    ),
    push(
        "parent of dest does not exist",
        "/root/t/no/such/f",
        after="inside 'ls /root/t'",
        err="failed to create file: /root/t/no/such/f: No such file or directory\n",
    ),
    push(
        "parent of dest is a regular file",
        "/root/t/ex/f",
        before="inside 'touch /root/t/ex'",
        after="inside 'ls /root/t'",
        state="ex\n",
        err="failed to create file: /root/t/ex/f: Not a directory\n",
    ),
    push("dest is a running executable", "/root/t/busy", **STILL_BUSY),
    push("dest is a running executable, --perms 0700", "/root/t/busy", "--perms", "0700", **STILL_BUSY),
    perms("0755", "755"),
    perms("755", "755"),
    perms("0x1ed", "755"),
    perms("01777", "1777"),
    perms("4755", ("4755", "755")),
    perms("06755", ("6755", "755")),
    perms("644", "644"),
    perms("7", "7"),
    perms("0", "0"),
    bad_perms("u=rwx", "0u=rwx"),
    bad_perms("rwxr-xr-x", "0rwxr-xr-x"),
    bad_perms("9", "09"),
    bad_perms("0888", "0888"),
    bad_perms("888", "0888"),
    perms("", "0"),
    perms("00", "0"),
    perms("77777", ("7777", "1777")),
    bad_perms("-1", "0-1"),
    bad_perms("0o755", "0o755"),
    bad_perms(" 755", "0 755"),
    bad_perms("755 ", "0755 "),
    owner("1234:0(bob:root)", "--user", "bob"),
    owner("1234:0(bob:root)", "--user", "1234"),
    owner("0:4321(root:crew)", "--group", "crew"),
    owner("0:4321(root:crew)", "--group", "4321"),
    owner("1234:4321(bob:crew)", "--user", "bob", "--group", "crew"),
    no_owner("user", "nosuch", "failed to get uid for: nosuch\n"),
    no_owner("group", "nosuch", "failed to get gid for: nosuch\n"),
    owner("55555:55556(UNKNOWN:UNKNOWN)", "--user", "55555", "--group", "55556"),
    push(
        "new, --user 70000",
        "/root/t/u",
        "--user",
        "70000",
        err=INVALID_OWNER,
        state=(made(own="70000:0(UNKNOWN:root)"), made(size=0)),
    ),
    owner("0:0(root:root)", "--user", "4294967295"),
    owner("0:0(root:root)", "--user", "4294967296"),
    owner("33:0(www-data:root)", "--user", "www-data"),
    owner("1234:0(bob:root)", "--user", "bob", "--perms", "4755", mode="755"),
    owner("1234:0(bob:root)", "-user", "bob"),
    owner("1234:0(bob:root)", "--user=bob", "--perms=0600", mode="600"),
    push(
        "existing, --user nosuch: content after",
        "/root/t/u",
        "--user",
        "nosuch",
        before="inside 'echo OLD >/root/t/u'",
        err="failed to get uid for: nosuch\n",
        after="inside 'cat /root/t/u'",
        state="OLD\n",
    ),
    push(
        "existing, --user 70000: content after",
        "/root/t/u",
        "--user",
        "70000",
        before="inside 'echo OLD >/root/t/u'",
        err=INVALID_OWNER,
        after="look /root/t/u; inside 'cat /root/t/u'",
        state=(made(own="70000:0(UNKNOWN:root)") + "NEWCONTENT\n", made(size=0)),
    ),
    push(
        "outside view",
        "/root/t/u",
        "--user",
        "bob",
        "--group",
        "crew",
        after="stat -c %u:%g /var/lib/lxc/$ct/rootfs/root/t/u",
        state=("1234:4321\n", "101234:104321\n"),
    ),
]

# --- push: paths, links, odd files --------------------------------------------------------------------------------

NAMES = [
    "a b",
    "tab\there",
    "new\nline",
    "trail\n",
    "ünïcödé-日本語",
    "-dash",
    "--perms",
    "quo\"te's",
    "$HOME`id`;x",
    "star*",
    "back\\slash",
    "%s%n",
    "|pipe",
    ">gt",
    "<lt",
]


def named(name: str) -> Row:
    source = f"{W}/{name}"
    before = f"cp {SRC} {shlex.quote(source)}"
    after = f"rm -- {shlex.quote(source)}; inside 'printf \"[%s]\" /root/t/*'; inside 'cat /root/t/*'"
    state = f"[/root/t/{name}]NEWCONTENT\n"
    return push(
        f"name {name!r} (src and dest, absolute)",
        f"/root/t/{name}",
        src=source,
        before=before,
        after=after,
        state=state,
    )


def relative(dest: str, real: str) -> Row:
    after = f"look {real}; inside 'rm {real}'"
    return push(f"relative dest {dest}", dest, after=after, state=made(), on=BOTH)


def dashed(case: str, *argv: str, status: int = 0, err: str = "") -> Row:
    before = f"{CLEAN}cd {W}; cp src.txt ./-dash2; cp src.txt ./--perms"
    after = f"rm -f {W}/-dash2 {W}/--perms; inside 'cat /root/t/* 2>/dev/null'"
    return Row(case, argv, status, err=err, before=before, after=after, cwd=W, state="" if err else "NEWCONTENT\n")


def linked(name: str, target: str, seen: str, dest: str | None = None, **more: Any) -> Row:
    """A destination that is a link: it stays one, is followed inside the container, and never on the node."""
    path = f"/root/t/{name}" if dest is None else f"/root/t/{dest}"
    before = f"inside 'cd /root/t; mkdir d; ln -s {target} {name}'"
    after = f"""inside '[ -h /root/t/{name} ] && echo link'; look {seen}
ls {seen} 2>&1 | sed "s/'//g"; inside 'rm -f {seen}'"""
    state = f"link\n{made()}ls: cannot access {seen}: No such file or directory\n"
    more.setdefault("state", state)
    return push(f"dest {dest or name} -> {target}", path, before=before, after=more.pop("after", after), **more)


def odd_source(case: str, source: str, **more: Any) -> Row:
    return push(case, "/root/t/o", src=source, **more)


def unopened(source: str) -> str:
    return f"failed to open {source} for reading\n"


STREAM = "0123456789abcdef" * 65536
PATHS = [
    push(
        "dest exists, really 4711 bob",
        "/root/t/ex",
        before=EXISTING.format(more="; rm ex.hl; chown bob:root ex; chmod 4711 ex"),
        state=(made("4711", "1234:0(bob:root)"), made("711", "1234:0(bob:root)")),
    ),
    relative("rel1.txt", "/rel1.txt"),
    relative("./rel2.txt", "/rel2.txt"),
    relative("../rel3.txt", "/rel3.txt"),
    relative("root/rel4.txt", "/root/rel4.txt"),
    push(
        "relative dest ~/rel5.txt",
        "~/rel5.txt",
        after="",
        err="failed to create file: ~/rel5.txt: No such file or directory\n",
    ),
    push("relative source (cwd holds it)", "/root/t/r", src="src.txt", cwd=W, state=made()),
    push("0-byte source, new dest", "/root/t/z", src=f"{W}/empty", state=made(size=0)),
    push(
        "0-byte source, existing dest",
        "/root/t/z",
        src=f"{W}/empty",
        before="inside 'echo x >/root/t/z'",
        state=made(size=0),
    ),
    *(named(name) for name in NAMES),
    push(
        "name 'bad\\udcff\\udcfe' (src and dest, absolute)",
        "/root/t/bad\udcff\udcfe",
        src=f"{W}/bad\udcff\udcfe",
        before=f"cp {SRC} {W}/$(printf 'bad\\377\\376')",
        after=f"rm {W}/bad*; inside 'ls /root/t'",
        err=f"failed to open {W}/bad\ufffd\ufffd for read\n",
    ),
    dashed(
        "relative source `-dash2`",
        *("push", "{ct}", "-dash2", "/root/t/d"),
        status=2,
        err=f"Unknown option: dash2\n400 unable to parse option\n{PUSH}",
    ),
    dashed("relative source after `--`: -dash2", "push", "{ct}", "--", "-dash2", "/root/t/d"),
    dashed("`pct push -- {ct} -dash2 DEST`", "push", "--", "{ct}", "-dash2", "/root/t/d"),
    dashed(
        "relative source `--perms`",
        *("push", "{ct}", "--perms", "/root/t/d"),
        status=2,
        err=f"400 not enough arguments\n{PUSH}",
    ),
    dashed("relative source after `--`: --perms", "push", "{ct}", "--", "--perms", "/root/t/d"),
    dashed("`pct push -- {ct} --perms DEST`", "push", "--", "{ct}", "--perms", "/root/t/d"),
    odd_source("source is a symlink to a file", f"{W}/lnk", before=f"ln -sfn {SRC} {W}/lnk", state=made()),
    odd_source(
        "source is a dangling symlink",
        f"{W}/lnk",
        before=f"ln -sfn /no/such {W}/lnk",
        err=unopened(f"{W}/lnk"),
        state=absent("/root/t/o"),
    ),
    odd_source("source is a directory", "/etc", state=made(size=0)),
    odd_source("source is a directory, dest existed", "/etc", before="inside 'echo x >/root/t/o'", state=made(size=0)),
    odd_source("source does not exist", "/no/such/src", err=unopened("/no/such/src"), state=absent("/root/t/o")),
    odd_source(
        "source does not exist, dest existed",
        "/no/such/src",
        before="inside 'echo precious >/root/t/o'",
        err=unopened("/no/such/src"),
        after="inside 'cat /root/t/o'",
        state="precious\n",
    ),
    odd_source(
        "source /dev/stdin (pipe)",
        "/dev/stdin",
        stdin="FROM STDIN\n",
        after="inside 'cat /root/t/o'",
        state="FROM STDIN\n",
    ),
    odd_source(
        "source /dev/stdin (pipe), 50 MiB",
        "/dev/stdin",
        stdin=STREAM,
        repeat=50,
        after="look /root/t/o; inside 'sha256sum </root/t/o; rm /root/t/o'",
        state=f"{made(size=50 << 20)}{hashlib.sha256(STREAM.encode() * 50).hexdigest()}  -\n",
    ),
    linked("labs", "/root/t/target", "/root/t/target"),
    linked("lrel", "target", "/root/t/target"),
    linked("ldang", "newt", "/root/t/newt"),
    linked("lout", "/var/tmp/escape", "/var/tmp/escape"),
    linked("lproc", "/proc/1/root/var/tmp/escape2", "/var/tmp/escape2"),
    linked("ldir", "d", "/root/t/d/f", dest="ldir/f"),
    linked(
        "ldir",
        "d",
        "/root/t/d",
        err="failed to create file: /root/t/ldir: Is a directory\n",
        after="inside 'cd /root/t; [ -h ldir ] && [ -d d ] && echo same'",
        state="same\n",
    ),
    linked(
        "loop1",
        "loop1",
        "/root/t/loop1",
        err="failed to create file: /root/t/loop1: Too many levels of symbolic links\n",
        after="inside '[ -h /root/t/loop1 ] && echo same'",
        state="same\n",
    ),
    push(
        "dest /dev/null",
        "/dev/null",
        after="look /dev/null | cut -d' ' -f1-5",
        state=(
            "character special file mode=666 own=0:0(root:root)\n",
            "character special file mode=666 own=65534:65534(nobody:nogroup)\n",
        ),
    ),
    push("dest /dev/full (every write fails ENOSPC)", "/dev/full", after=""),
]

# --- push: file systems -------------------------------------------------------------------------------------------

TMPFS = "inside 'mkdir /root/t/fs && mount -t tmpfs -o size=1M,mode=755{more} small /root/t/fs || exit 1; {fill}'"
FULL = "head -c 2097152 /dev/zero >/root/t/fs/fill 2>/dev/null"
READ_ONLY = """inside 'cd /root/t && mkdir fs && echo RO >fs/f && mount --bind fs fs && mount -o remount,bind,ro fs'"""
FLAGGED = TMPFS.format(more="", fill="echo IM >/root/t/fs/immut")
CHATTR = "chattr {flag} /proc/$(lxc-info -n $ct -pH)/root/root/t/fs/immut"
# cap_net_raw=ep, as setcap writes it
SET_CAPABILITY = (
    'import os, sys; os.setxattr(sys.argv[1], "security.capability", '
    'bytes.fromhex("0100000200200000000000000000000000000000"))'
)


def on_disk(case: str, dest: str, before: str, after: str = "", src: str = SRC, **more: Any) -> Row:
    """A push onto a file system of its own, unmounted again."""
    path = f"/root/t/fs/{dest}"
    unmounted = f"{after or f'look {path}'}; inside 'umount /root/t/fs'"
    return push(case, path, src=src, before=before, after=unmounted, **more)


DISKS = [
    on_disk(
        "dest on a read-only mount, exists",
        "f",
        READ_ONLY,
        after="inside 'cat /root/t/fs/f'",
        err="failed to create file: /root/t/fs/f: Read-only file system\n",
        state="RO\n",
    ),
    on_disk(
        "dest on a read-only mount, new",
        "new",
        READ_ONLY,
        after="inside 'ls /root/t/fs'",
        err="failed to create file: /root/t/fs/new: Read-only file system\n",
        state="f\n",
    ),
    on_disk(
        "10 MiB onto a 1 MiB tmpfs, new dest",
        "f",
        TMPFS.format(more="", fill=":"),
        src=f"{W}/10M",
        state=made(size=1 << 20),
    ),
    on_disk(
        "small file onto a wholly full tmpfs, new dest", "new", TMPFS.format(more="", fill=FULL), state=made(size=0)
    ),
    on_disk(
        "10 MiB over an existing 4-byte file on a wholly full tmpfs",
        "f",
        TMPFS.format(more="", fill=f"printf 1234 >/root/t/fs/f; {FULL}"),
        src=f"{W}/10M",
        state=made(size=4096),
    ),
    on_disk(
        "no inodes left",
        "new",
        TMPFS.format(more=",nr_inodes=2", fill="touch /root/t/fs/a"),
        after="inside 'ls /root/t/fs'",
        err="failed to create file: /root/t/fs/new: No space left on device\n",
        state="a\n",
    ),
    *(
        on_disk(
            f"dest is {word} (chattr +{flag})",
            "immut",
            f"{FLAGGED}; {CHATTR.format(flag=f'+{flag}')}",
            after=f"inside 'cat /root/t/fs/immut'; {CHATTR.format(flag=f'-{flag}')}",
            err="failed to create file: /root/t/fs/immut: Operation not permitted\n",
            state="IM\n",
        )
        for word, flag in (("immutable", "i"), ("append-only", "a"))
    ),
    push("dest name of 255 bytes", f"/root/t/{'n' * 255}", state=made()),
    push(
        "dest name of 256 bytes",
        f"/root/t/{'n' * 256}",
        after="",
        err=f"failed to create file: /root/t/{'n' * 256}: File name too long\n",
    ),
    push(
        "sparse 20 MiB source with mtime 2001",
        "/root/t/s",
        src=f"{W}/sparse",
        before=f"truncate -s 20M {W}/sparse; touch -d 2001-01-01 {W}/sparse",
        after="inside 'stat -c \"%s %b\" /root/t/s; [ $(stat -c %Y /root/t/s) -gt 1700000000 ] && echo now'",
        state="20971520 40960\nnow\n",
    ),
    push(
        "dest with file capability",
        "/root/t/capf",
        before=f"inside 'touch /root/t/capf'; python3 -c '{SET_CAPABILITY}' $rootfs/root/t/capf",
        after="python3 -c 'import os, sys; print(os.listxattr(sys.argv[1]))' $rootfs/root/t/capf",
        state="[]\n",
    ),
]

# --- pull ---------------------------------------------------------------------------------------------------------

LOCAL = f"stat -c '%F mode=%a own=%u:%g(%U:%G) links=%h size=%s' {W}/pl"


def pull(case: str, path: str, dest: str = f"{W}/pl", before: str = "", **more: Any) -> Row:
    prepared = f"{CLEAN}rm -f {W}/pl; inside 'echo hello >/root/h.txt'\n{before}"
    more.setdefault("after", LOCAL)
    return Row(case, ("pull", "{ct}", path, dest), before=prepared, **more)


PULLS = [
    pull(
        "pull 10 MiB onto a full host tmpfs",
        "/root/t/big",
        dest=f"{W}/small/f",
        before=f"mkdir -p {W}/small; mount -t tmpfs -o size=1M small {W}/small; inside 'truncate -s 10M /root/t/big'",
        after=f"stat -c %s {W}/small/f; umount {W}/small",
        state="1048576\n",
    ),
    pull(
        "pull nonexistent CT file (new local dest)",
        "/root/nosuch",
        err="failed to open /root/nosuch: No such file or directory\n",
        state=made(size=0),
    ),
    pull(
        "pull nonexistent CT file (existing local dest)",
        "/root/nosuch",
        before=f"echo precious >{W}/pl",
        err="failed to open /root/nosuch: No such file or directory\n",
        state=made(size=0),
    ),
    pull("pull a directory", "/root", state=made(size=0)),
    pull(
        "pull, local parent missing",
        "/root/h.txt",
        dest=f"{W}/no/dir/pl",
        after="",
        err=f"failed to create file: {W}/no/dir/pl: No such file or directory\n",
    ),
    pull("pull to /dev/stdout", "/root/h.txt", dest="/dev/stdout", after="", out="hello\n"),
    pull(
        "pull to /dev/stdout, 1 MiB",
        "/root/t/big",
        dest="/dev/stdout",
        before="inside 'head -c 1048576 /dev/zero | tr \"\\0\" x >/root/t/big'",
        after="",
        out="x" * (1 << 20),
    ),
    pull("pull relative CT path", "root/h.txt", state=made(size=6)),
    pull("pull to relative local dest", "/root/h.txt", dest="pl", cwd=W, state=made(size=6)),
    pull(
        "pull symlink (absolute target, resolved inside CT)",
        "/root/t/l",
        before="inside 'ln -s /etc/hostname /root/t/l'",
        after=f"cat {W}/pl; cat /etc/hostname",
        state=("train-a\npve1\n", "train-b\npve1\n"),
    ),
]

# --- ids and arguments --------------------------------------------------------------------------------------------

STATUS = "pct status <vmid> [OPTIONS]\n"
EXEC = "pct exec <vmid> [<extra-args>] [OPTIONS]\n"
NOT_RUNNING = "can only push files to a running CT\n"
BAD_ID = "400 Parameter verification failed.\nvmid: invalid format - value does not look like a valid VM ID\n\n"
NO_NUMBER = "400 Parameter verification failed.\nvmid: type check ('integer') failed - got 'abc'\n"
NO_COMMAND = "missing command at /usr/share/perl5/PVE/CLI/pct.pm line 246.\n"
ATTACH = "lxc-attach: {ct}: ../src/lxc/attach.c: lxc_attach_run_command: 1841"
NO_PROGRAM = f'{ATTACH} No such file or directory - Failed to exec ""\n'


def unconfigured(vmid: int | str) -> str:
    return f"Configuration file 'nodes/pve1/lxc/{vmid}.conf' does not exist\n"


def call_of(line: str, status: int, err: str = "", out: str = "") -> Row:
    """A command line, its words split as the shell splits them."""
    return Row(f"pct {line}", tuple(shlex.split(line)), status, out, err)


FILES = f"{SRC} /root/x"
ARGUMENTS = [
    call_of("push", 2, f"400 not enough arguments\n{PUSH}"),
    call_of("push {ct}", 2, f"400 not enough arguments\n{PUSH}"),
    call_of(f"push {{ct}} {SRC}", 2, f"400 not enough arguments\n{PUSH}"),
    call_of(f"push {{ct}} {FILES} extra", 2, f"400 too many arguments\n{PUSH}"),
    call_of(f"push abc {FILES}", 2, NO_NUMBER + PUSH),
    call_of(f"push 99 {FILES}", 2, BAD_ID + PUSH),
    call_of(f"push 0{{ct}} {FILES}", 2, BAD_ID + PUSH),
    call_of(f"push -5 {FILES}", 2, f"Unknown option: 5\n400 unable to parse option\n{PUSH}"),
    call_of(f"push 999999999 {FILES}", 255, NOT_RUNNING),
    call_of(f"push 1000000000 {FILES}", 2, BAD_ID + PUSH),
    call_of(f"push 999 {FILES}", 255, NOT_RUNNING),
    call_of(f"push {{ct}} {FILES} --nope", 2, f"Unknown option: nope\n400 unable to parse option\n{PUSH}"),
    call_of(
        f"push {{ct}} {FILES} --perms", 2, f"Option perms requires an argument\n400 unable to parse option\n{PUSH}"
    ),
    call_of("push {ct} '' ''", 0, "failed to open  for reading\n"),
    call_of(f"push {{ct}} {SRC} ''", 0, "failed to create file: : No such file or directory\n"),
    call_of("status", 2, f"400 not enough arguments\n{STATUS}"),
    call_of("status abc", 2, NO_NUMBER + STATUS),
    call_of("status 999", 2, unconfigured(999)),
    call_of("status 99", 2, BAD_ID + STATUS),
    call_of("config 999", 2, unconfigured(999)),
    call_of("list x", 2, "400 too many arguments\npct list \n"),
    call_of("exec", 2, f"400 not enough arguments\n{EXEC}"),
    call_of("exec {ct}", 255, NO_COMMAND),
    call_of("exec {ct} --", 255, NO_COMMAND),
    call_of("exec 999 -- true", 2, unconfigured(999)),
    call_of("exec abc -- true", 2, NO_NUMBER + EXEC),
    call_of("exec {ct} true", 0),
    call_of("exec {ct} ls -ld /root", 2, f"Unknown option: ld\n400 unable to parse option\n{EXEC}"),
    call_of("exec {ct} -- stat -c %n /root", 0, out="/root\n"),
    call_of("exec {ct} echo --keep-env 0", 0, out="\n"),
    call_of("exec {ct} --keep-env 0 -- echo x", 0, out="x\n"),
    call_of("exec {ct} --keep-env=0 -- echo x", 0, out="x\n"),
    call_of("exec {ct} -- echo -- a", 0, out="-- a\n"),
    call_of("exec --keep-env 0 {ct} -- echo hi", 0, out="hi\n"),
    call_of("exec {ct} '' -- true", 127, NO_PROGRAM),
    call_of("exec {ct} -- ''", 127, NO_PROGRAM),
    call_of("list --output-format json", 2, "Unknown option: output-format\n400 unable to parse option\npct list \n"),
    call_of(
        "status {ct} --output-format json", 2, f"Unknown option: output-format\n400 unable to parse option\n{STATUS}"
    ),
]


@pytest.mark.parametrize(
    ("row", "ct"),
    [
        *table("push: basics", BASICS),
        *table("push: paths, links, odd files", PATHS),
        *table("push: file systems", DISKS),
        *table("pct pull", PULLS),
        *table("ids and arguments", ARGUMENTS),
    ],
)
@pytest.mark.usefixtures("prepared")
def test_row(driver: Driver, row: Row, ct: int) -> None:
    assert run(driver, row, ct) == expected(row, ct)


@pytest.mark.usefixtures("quick_pct")
def test_unknown_command_lists_the_real_ones(driver: Driver) -> None:
    got = run(driver, call_of("nosuchcmd", 255), 200)
    assert got["status"] == 255
    head = "ERROR: unknown command 'pct nosuchcmd'\nUSAGE: pct <COMMAND> [ARGS] [OPTIONS]\n\n       pct clone <vmid>"
    assert got["err"].startswith(head)
    assert "       pct push <vmid> <file> <destination> [OPTIONS]\n" in got["err"]


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("ct", BOTH)
def test_protected_regular_as_it_is(driver: Driver, ct: int) -> None:
    level = Path("/proc/sys/fs/protected_regular").read_text(encoding="utf-8").strip()
    refused = "" if level == "0" else "failed to create file: /tmp/bobs: Permission denied\n"
    before = "inside 'rm -f /tmp/bobs; echo BOB >/tmp/bobs; chown bob /tmp/bobs; chmod 1777 /tmp'"
    state = made(own="1234:0(bob:root)", size=4 if refused else 11)
    row = push("dest /tmp/bobs", "/tmp/bobs", before=before, err=refused, state=state)
    assert run(driver, row, ct) == expected(row, ct)
