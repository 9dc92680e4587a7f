# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Becomes the first process of a node: run in fresh namespaces with a plan (JSON) on stdin, prints its PID outside.

The plan: hostname, root (mount point), lower (folders, the topmost first), upper, work, binds (source, target,
read-only), devices (source, name in /dev), cgroups (kind, options, mount point).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_DEVICES = (("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0))


def _mount(kind: str, target: Path, options: str = "", source: str | None = None) -> None:
    target.mkdir(parents=True, exist_ok=True)
    flags = ["-o", options] if options else []
    subprocess.run(["mount", "-t", kind, *flags, source or kind, str(target)], check=True)


def _bind(source: Path, target: Path, read_only: bool = False) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.touch()
    subprocess.run(["mount", "--bind", str(source), str(target)], check=True)
    if read_only:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(target)], check=True)


def _root(plan: dict[str, Any]) -> Path:
    root = Path(plan["root"])
    layers = f"lowerdir={':'.join(plan['lower'])},upperdir={plan['upper']},workdir={plan['work']}"
    _mount("overlay", root, layers)
    _mount("proc", root / "proc", "nosuid,nodev,noexec")
    _mount("sysfs", root / "sys", "nosuid,nodev,noexec")
    _mount("tmpfs", root / "run", "mode=755,nosuid,nodev")
    _mount("tmpfs", root / "tmp", "mode=1777,nosuid,nodev")
    for folder in ("lock/lxc", "sshd"):
        (root / "run" / folder).mkdir(parents=True)
    (root / "run/utmp").touch()  # sshd notes logins in it
    return root


def _dev(root: Path, devices: list[tuple[str, str]]) -> None:
    dev = root / "dev"
    _mount("tmpfs", dev, "mode=755,nosuid")
    for name, major, minor in _DEVICES:
        os.mknod(dev / name, 0o20666, os.makedev(major, minor))
        (dev / name).chmod(0o666)
    _mount("devpts", dev / "pts", "newinstance,ptmxmode=0666,mode=620,gid=5")
    _mount("tmpfs", dev / "shm", "mode=1777,nosuid,nodev")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, target in links.items():
        (dev / name).symlink_to(target)
    for source, name in devices:
        _bind(Path(source), dev / name)


def _cgroups(root: Path, mounts: list[tuple[str, str, str]]) -> None:
    """Mount the hierarchies as this namespace sees them, and step down from their root as systemd does."""
    if all(target != "/sys/fs/cgroup" for _, _, target in mounts):
        _mount("tmpfs", root / "sys/fs/cgroup", "mode=755")
    for kind, options, target in mounts:
        folder = root / target.lstrip("/")
        _mount(kind, folder, options)
        group = folder / "init.scope"
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (group / name).exists() and not (group / name).read_text().strip():
                (group / name).write_text((folder / name).read_text())
        (group / "cgroup.procs").write_text("0")


def _enter(root: Path) -> None:
    old = root / "mnt"
    os.chdir(root)
    subprocess.run(["pivot_root", str(root), str(old)], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/mnt"], check=True)


def _boot(plan: dict[str, Any]) -> None:
    outside = int(os.readlink("/proc/self"))  # /proc is still the machine's
    os.setsid()
    subprocess.run(["hostname", plan["hostname"]], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    root = _root(plan)
    _dev(root, plan["devices"])
    _cgroups(root, plan["cgroups"])
    for source, target, read_only in plan["binds"]:
        _bind(Path(source), root / target.lstrip("/"), read_only)
    _enter(root)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    print(json.dumps({"pid": outside}), flush=True)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.execve("/sbin/init", ["init"], {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})


def main() -> None:
    """Boot, or say in one line what failed; commands have said theirs before."""
    try:
        _boot(json.load(sys.stdin))
    except (OSError, subprocess.CalledProcessError) as exc:
        sys.exit(f"boot: {exc}")


if __name__ == "__main__":
    main()
