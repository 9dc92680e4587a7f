# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Containers: an overlay over a cached root, a configuration as Proxmox VE keeps and as LXC reads, start and stop."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cgroups, rootfs, spec, tools
from .errors import LabError
from .instance import CACHE, Instance
from .nodes import ENVIRONMENT, IMAGES, TEMPLATES, TOOLS, Node, digest, gpu_table, link
from .system import run, wait_for, write


@dataclass(frozen=True)
class Container:
    """A container of a lab; its node must be up for all but the paths."""

    lab: Instance
    spec: spec.ContainerSpec

    @property
    def vmid(self) -> int:
        return self.spec.vmid

    @property
    def node(self) -> Node:
        return Node(self.lab, spec.node_spec(self.spec.node))

    @property
    def folder(self) -> Path:
        """/var/lib/lxc/<vmid> of the node, on this machine."""
        return self.node.folder / "lxc" / str(self.vmid)

    @property
    def image(self) -> Path:
        """What the container wrote over its root, on this machine."""
        return self.node.folder / "images" / str(self.vmid)

    @property
    def root(self) -> str:
        """Where the container's root is mounted, in the node."""
        return f"/var/lib/lxc/{self.vmid}/rootfs"

    def state(self) -> str:
        """RUNNING, STOPPED, FROZEN …: as lxc-info says it."""
        return self.node.check(["lxc-info", "-H", "-s", "-n", str(self.vmid)]).decode().strip()

    def attach(self, argv: Sequence[str], *before: str) -> list[str]:
        """The command line, on this machine, that runs argv inside; `before` is put before lxc-attach on the node."""
        environment = [f"--set-var={item}" for item in ENVIRONMENT]
        return self.node.enter([*before, "lxc-attach", "-n", str(self.vmid), "--clear-env", *environment, "--", *argv])

    def run(
        self, argv: Sequence[str], *, stdin: bytes | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command inside as root, with a clean environment; output as bytes, whatever its status."""
        state = self.state()
        if state != "RUNNING":
            raise LabError(f"container {self.vmid} is {state.lower()}: it cannot run {argv[0]}")
        done = run(self.attach(argv), stdin=stdin, timeout=timeout)
        done.args = list(argv)
        return done

    def start(self) -> None:
        """Start it and wait until it is up (systemd: until the boot is over); nothing when it runs."""
        if self.state() == "STOPPED":
            self._sweep()
            self.node.check(["lxc-start", "-n", str(self.vmid)])
        if self.spec.systemd:
            wait_for(self._booted, f"boot of container {self.vmid}", 60)

    def _sweep(self) -> None:
        """End what a container left whose monitor was killed: LXC no longer knows of it."""
        for part in ("lxc", "lxc.monitor"):
            cgroups.kill(f"{self.node.cgroup}/{part}/{self.vmid}")
            cgroups.remove(f"{self.node.cgroup}/{part}/{self.vmid}")

    def _booted(self) -> bool:
        """`degraded` counts: it is as far as it gets, and the user's to look into."""
        done = self.node.run(["lxc-attach", "-n", str(self.vmid), "--", "systemctl", "is-system-running", "--wait"])
        return done.stdout.decode().strip() in ("running", "degraded")

    def stop(self) -> None:
        """Stop it at once, as `pct stop` does; nothing when it is stopped."""
        self.thaw()
        if self.state() != "STOPPED":
            self.node.check(["lxc-stop", "-k", "-n", str(self.vmid)])
        self._sweep()

    def reset(self) -> None:
        """Make the container as new: its root without anything that was written to it, its declared state."""
        _lay_anew(self)
        ensure(self)

    def freeze(self) -> None:
        """Freeze all its processes."""
        self.node.check(["lxc-freeze", "-n", str(self.vmid)])

    def thaw(self) -> None:
        """Let a frozen container go on; nothing when it is not frozen."""
        if self.state() == "FROZEN":
            self.node.check(["lxc-unfreeze", "-n", str(self.vmid)])


def containers(lab: Instance) -> list[Container]:
    """All containers of a lab."""
    return [Container(lab, container) for container in spec.CONTAINERS]


def pve_config(container: spec.ContainerSpec) -> str:
    """The container's file in /etc/pve/nodes/<node>/lxc, keys sorted and raw lines last as Proxmox VE writes them."""
    values = {
        "arch": "amd64",
        "cores": str(container.cores),
        "hostname": container.hostname,
        "memory": str(container.memory_mib),
        "ostype": "debian",
        "rootfs": f"local-lvm:vm-{container.vmid}-disk-0,size=16G",
        "swap": "512",
    }
    if container.unprivileged:
        values["unprivileged"] = "1"
    raw = []
    for number, name in enumerate(spec.device_names(container.gpus)):
        if container.raw_devices:
            raw.append(f"lxc.mount.entry: /dev/{name} dev/{name} none bind,optional,create=file")
        else:
            values[f"dev{number}"] = f"/dev/{name}"
    if raw:
        raw[:0] = ["lxc.cgroup2.devices.allow: c 195:* rwm", "lxc.cgroup2.devices.allow: c 509:* rwm"]
    return "".join(f"{key}: {value}\n" for key, value in sorted(values.items())) + "".join(f"{line}\n" for line in raw)


def lxc_config(container: spec.ContainerSpec) -> str:
    """The container's file in /var/lib/lxc, which LXC reads; control groups named as on Proxmox VE."""
    vmid = container.vmid
    lines = [
        "lxc.include = /usr/share/lxc/config/common.conf",
        *(["lxc.include = /usr/share/lxc/config/userns.conf"] if container.unprivileged else []),
        "lxc.arch = linux64",
        f"lxc.uts.name = {container.hostname}",
        "lxc.apparmor.profile = unconfined",
        "lxc.net.0.type = empty",
        "lxc.tty.max = 2",
        "lxc.environment = TERM=linux",
        "lxc.cgroup.relative = 0",
        f"lxc.cgroup.dir.monitor = lxc.monitor/{vmid}",
        f"lxc.cgroup.dir.container = lxc/{vmid}",
        "lxc.cgroup.dir.container.inner = ns",
        f"lxc.rootfs.path = dir:/var/lib/lxc/{vmid}/rootfs",
    ]
    if container.unprivileged:
        lines += [f"lxc.idmap = {kind} 0 {spec.ID_BASE} {spec.ID_COUNT}" for kind in "ug"]
    if container.gpus:
        lines += [f"lxc.mount.entry = {TOOLS}/gpu {TOOLS[1:]}/gpu none bind,ro,create=dir"]
        lines += [f"lxc.mount.entry = /var/lib/lxc/{vmid}/etc etc/trainops-lab none bind,ro,create=dir"]
    names = spec.device_names(container.gpus)
    lines += [f"lxc.mount.entry = /dev/{name} dev/{name} none bind,optional,create=file" for name in names]
    return "".join(f"{line}\n" for line in lines)


def ensure(container: Container) -> None:
    """Lay the container out, mount its root and bring it to the state that the lab declares."""
    _prepare(container)
    if container.spec.running:
        container.thaw()
        container.start()
    else:
        container.stop()


def _prepare(container: Container) -> None:
    lab, wanted = container.lab, container.spec
    (container.folder / "rootfs").mkdir(parents=True, exist_ok=True)
    write(container.folder / "config", lxc_config(wanted))
    conf = lab.pve / "nodes" / wanted.node / "lxc" / f"{wanted.vmid}.conf"
    write(conf, pve_config(wanted), 0o640)
    write(container.folder / "etc/gpus.json", gpu_table(spec.container_gpus(wanted)))
    changed = write(container.folder / "generation", _generation(wanted) + "\n")
    if changed or not _mounted(container):
        _lay_anew(container)


def _mounted(container: Container) -> bool:
    return not container.node.run(["mountpoint", "-q", container.root]).returncode


def _lay_anew(container: Container) -> None:
    """Give the container a fresh root; it is stopped for that."""
    container.stop()
    if _mounted(container):
        container.node.check(["umount", container.root])
    _lay_root(container)
    _mount_root(container)


def _generation(wanted: spec.ContainerSpec) -> str:
    """A digest that changes when a container that was laid out before is not what the lab declares now."""
    return digest(lxc_config(wanted), files(wanted), _links(wanted), rootfs.stack(wanted.image))


def files(wanted: spec.ContainerSpec) -> dict[str, str]:
    """What a container has beyond its image: path: content."""
    return {
        "etc/hostname": f"{wanted.hostname}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {wanted.hostname}\n",
    }


def _links(wanted: spec.ContainerSpec) -> dict[str, str]:
    return tools.WITH_GPUS if wanted.gpus else {}


def _lay_root(container: Container) -> None:
    """The upper folder of a fresh root. It must not be mounted."""
    wanted, upper = container.spec, container.image / "upper"
    shutil.rmtree(container.image, ignore_errors=True)
    (container.image / "work").mkdir(parents=True)
    for path, content in files(wanted).items():
        write(upper / path, content)
    link(upper, _links(wanted))
    if wanted.unprivileged:
        rootfs.shift_ids(upper, spec.ID_BASE)


def _mount_root(container: Container) -> None:
    """Join the root in the node's namespace; redirect_dir lets a folder of the image be renamed as on a real disk."""
    images = f"{IMAGES}/{container.vmid}"
    stack = reversed(rootfs.stack(container.spec.image))
    lower = ":".join(f"{TEMPLATES}/{layer.relative_to(CACHE)}" for layer in stack)
    options = f"lowerdir={lower},upperdir={images}/upper,workdir={images}/work,redirect_dir=on"
    container.node.check(["mount", "-t", "overlay", "overlay", "-o", options, container.root])
