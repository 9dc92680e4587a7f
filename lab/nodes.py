# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes: each a root of its own in namespaces of its own, with an init that everything in it descends from."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import boot, cgroups, rootfs, spec, tools
from .errors import LabError
from .instance import CACHE, Instance
from .system import check, run, write

FILES = rootfs.FILES
TEMPLATES = "/var/lib/vz/template"
IMAGES = "/var/lib/vz/images"
TOOLS = "/usr/lib/trainops-lab"
GPU_TABLE = "/etc/trainops-lab"

#: Joins the control groups whose files come first, up to "--", and becomes the rest.
JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 125; shift; done; shift; exec "$@"'


#: What a command has that the lab runs in a node or a container.
ENVIRONMENT = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "USER=root",
    "LOGNAME=root",
    "LANG=C.UTF-8",
)


@dataclass(frozen=True)
class Node:
    """A node of a lab. It may or may not be up."""

    lab: Instance
    spec: spec.NodeSpec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def folder(self) -> Path:
        """What the node keeps on this machine."""
        return self.lab.node(self.name)

    @property
    def cgroup(self) -> str:
        return self.lab.cgroup(self.name)

    def pid(self) -> int | None:
        """PID, on this machine, of the node's init; None when the node is not up."""
        try:
            pid = int(json.loads((self.folder / "node.json").read_text())["pid"])
        except (FileNotFoundError, ValueError, KeyError):
            return None
        ours = cgroups.is_member(pid, f"{self.cgroup}/init.scope")
        return pid if ours and not cgroups.is_ending(pid) else None

    def enter(self, argv: Sequence[str], *, own_network: bool = True) -> list[str]:
        """The command line that runs argv in the node, as one of its processes. LabError when the node is down."""
        pid = self.pid()
        if pid is None:
            raise LabError(f"node {self.name} of lab {self.lab.name} is not up: python -m lab up")
        joins = [str(h.group(f"{self.cgroup}/system.slice") / "cgroup.procs") for h in cgroups.hierarchies()]
        network = ["--net"] if own_network else []
        namespaces = ["--mount", "--uts", "--ipc", "--pid", "--cgroup", *network, "--root", "--wd"]
        entered = ["nsenter", f"--target={pid}", *namespaces, "--", "/usr/bin/env", "-i", *ENVIRONMENT, *argv]
        return ["sh", "-c", JOIN, "sh", *joins, "--", *entered]

    def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the node as root; output as bytes, whatever its status."""
        done = run(self.enter(argv), stdin=stdin, timeout=timeout)
        done.args = list(argv)  # what a person reads in a report, not how it got there
        return done

    def check(self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 120) -> bytes:
        """Run a command in the node that must succeed; its stdout."""
        return check(self.enter(argv), stdin=stdin, timeout=timeout)


def nodes(lab: Instance) -> list[Node]:
    """All nodes of a lab."""
    return [Node(lab, node) for node in spec.NODES]


def files(lab: Instance, node: spec.NodeSpec) -> dict[str, tuple[str | bytes, int]]:
    """What a node has beyond its image: path: (content, mode)."""
    hosts = "".join(f"{lab.address(other.name)} {other.name}\n" for other in spec.NODES)
    public = (lab.keys / "id_ed25519.pub").read_bytes()
    bashrc = (FILES / "bashrc").read_bytes()
    ids = f"root:{spec.ID_BASE}:{spec.ID_COUNT}\n"
    tree: dict[str, tuple[str | bytes, int]] = {
        "etc/hostname": (f"{node.name}\n", 0o644),
        "etc/hosts": (f"127.0.0.1 localhost\n{hosts}", 0o644),
        "etc/subuid": (ids, 0o644),
        "etc/subgid": (ids, 0o644),
        "etc/ssh/sshd_config.d/lab.conf": (_sshd_config(lab, node), 0o644),
        "etc/ssh/ssh_host_ed25519_key": ((lab.keys / f"host_{node.name}").read_bytes(), 0o600),
        "root/.bashrc": (bashrc, 0o644),
        "root/.ssh/authorized_keys": (public, 0o600),
    }
    for user in ("ops", "limited"):
        tree[f"home/{user}/.bashrc"] = (bashrc, 0o644)
        tree[f"home/{user}/.ssh/authorized_keys"] = (public, 0o644)
    return tree


def _sshd_config(lab: Instance, node: spec.NodeSpec) -> str:
    """Only where to listen and what to log: every limit stays as OpenSSH and Debian ship it."""
    return f"ListenAddress {lab.address(node.name)}:{lab.port}\nLogLevel VERBOSE\nPidFile /run/sshd.pid\n"


def _plan(node: Node) -> dict[str, Any]:
    """What boot.py needs."""
    folder = node.folder
    devices = spec.device_names(tuple(gpu.minor for gpu in node.spec.gpus))
    mounts = [(h.kind, h.options, str(h.mount)) for h in cgroups.hierarchies()]
    return {
        "hostname": node.name,
        "root": str(folder / "root"),
        "lower": [str(layer) for layer in reversed(rootfs.stack("bookworm-node"))],
        "upper": str(folder / "upper"),
        "work": str(folder / "work"),
        "devices": [(str(folder / "dev" / name), name) for name in devices],
        "cgroups": mounts,
        "binds": [
            (str(node.lab.tools), TOOLS, True),
            (str(CACHE), TEMPLATES, True),
            (str(folder / "images"), IMAGES, False),
            (str(folder / "lxc"), "/var/lib/lxc", False),
            (str(folder / "log"), "/var/log/trainops-lab", False),
            (str(folder / "etc"), GPU_TABLE, False),
            (str(node.lab.pve / "nodes"), "/etc/pve/nodes", False),
        ],
    }


def ensure(node: Node) -> bool:
    """Bring the node up as the lab now wants it; True when it had to be booted."""
    plan = _plan(node)
    generation = _generation(node, plan)
    if node.pid() is not None and json.loads((node.folder / "node.json").read_text())["generation"] == generation:
        return False
    remove(node)
    _prepare(node)
    pid = _boot(node, plan)
    write(node.folder / "node.json", json.dumps({"pid": pid, "generation": generation}) + "\n")
    return True


def _generation(node: Node, plan: dict[str, Any]) -> str:
    """A digest that changes when a running node is not what the lab would boot now."""
    tree = sorted(files(node.lab, node.spec).items())
    return digest(plan, tree, _links(node.spec), gpu_table(node.spec.gpus), Path(boot.__file__).read_bytes())


def _prepare(node: Node) -> None:
    """Lay out the node's folder before it boots."""
    folder, upper = node.folder, node.folder / "upper"
    for name in ("root", "upper", "work", "dev", "lxc", "images", "log", "etc"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (node.lab.pve / "nodes" / node.name / "lxc").mkdir(parents=True, exist_ok=True)
    for path, (content, mode) in files(node.lab, node.spec).items():
        write(upper / path, content, mode)
    for private in ("root", "root/.ssh"):
        (upper / private).chmod(0o700)
    for user in ("ops", "limited"):
        _own_home(upper, user)
    (upper / "etc/pve/nodes").mkdir(parents=True)
    (upper / "etc/pve/local").symlink_to(f"nodes/{node.name}")
    (upper / "etc/pve/lxc").symlink_to(f"nodes/{node.name}/lxc")
    (upper / "var/log/pve/tasks").mkdir(parents=True)
    link(upper, _links(node.spec))
    for name in spec.device_names(tuple(gpu.minor for gpu in node.spec.gpus)):
        device = folder / "dev" / name
        device.write_bytes(bytes(4096))  # a page that a process can map, as CUDA does
        device.chmod(0o666)
    write(folder / "etc/gpus.json", gpu_table(node.spec.gpus))


def _own_home(upper: Path, user: str) -> None:
    """A home in the upper folder hides the image's in mode and owner, so it must have them itself."""
    image = rootfs.stack("bookworm-node")[-1] / "home" / user
    owner = image.stat()
    home = upper / "home" / user
    for path in (home, home / ".ssh", home / ".bashrc", home / ".ssh/authorized_keys"):
        os.chown(path, owner.st_uid, owner.st_gid)
    home.chmod(0o755)
    (home / ".ssh").chmod(0o700)


def digest(*parts: object) -> str:
    """A short text that differs when any of the parts does."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _links(node: spec.NodeSpec) -> dict[str, str]:
    return {**tools.ON_NODES, **(tools.WITH_GPUS if node.gpus else {})}


def link(upper: Path, tool_links: dict[str, str]) -> None:
    """Lead paths of a root to the tools."""
    for path, tool in tool_links.items():
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        (upper / path).symlink_to(f"{TOOLS}/{tool}")


def gpu_table(gpus: Sequence[spec.Gpu]) -> str:
    """The text of gpus.json, which the GPU stand-ins read."""
    return json.dumps([gpu.row() for gpu in gpus], indent=1) + "\n"


def _boot(node: Node, plan: dict[str, Any]) -> int:
    """Start the node's init in new namespaces; its PID on this machine."""
    joins = [str(path) for path in cgroups.create(node.cgroup)]
    cgroups.create(f"{node.cgroup}/system.slice")
    namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork", "--propagation=private"]
    init = ["unshare", *namespaces, sys.executable, "-I", "-S", boot.__file__]
    log = node.folder / "boot.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["sh", "-c", JOIN, "sh", *joins, "--", "setsid", "--fork", *init],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd="/",
        )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(json.dumps(plan).encode())
    with process.stdout as stdout:
        answer = stdout.readline()
    process.wait()
    if not answer:
        raise LabError(f"node {node.name} did not boot:\n{log.read_text(errors='replace').strip()}")
    return int(json.loads(answer)["pid"])


def remove(node: Node) -> None:
    """End everything in the node and drop what it kept, but for its log."""
    cgroups.kill(node.cgroup)
    cgroups.remove(node.cgroup)
    for entry in node.folder.iterdir() if node.folder.is_dir() else ():
        if entry.name == "log":
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
