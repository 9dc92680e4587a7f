# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Proxmox VE API tells of a container, as values, and whether one can work in it now."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# While a container is locked an operation of Proxmox VE is at work on it. pct exec, pct push and lxc-attach do not look
# at the lock, they enter whatever runs, so each lock's meaning decides. These endanger what is done meanwhile: it
# would be overwritten, left behind or removed.
_WAIT_FOR = {
    "create": "it is being created or restored",
    "destroyed": "it is being deleted",
    "disk": "one of its disks is being moved or resized",
    "migrate": "it is being moved to another node",
    "mounted": "its disks are mounted on the node (pct mount)",
    "rollback": "it is being set back to a snapshot",
}
# These only read the container, or tidy up behind it.
_WORK_ON = {
    "backup": "a backup of it is being made, which may hold it up and may have some files new and others old",
    "fstrim": "its disks are being trimmed",
    "snapshot": "a snapshot of it is being taken, which may have some files new and others old",
    "snapshot-delete": "a snapshot of it is being removed",
}

_GPU = re.compile(r"/dev/(?:nvidia\d+|nvidia-caps(?:/nvidia-cap\d+)?|kfd|dri(?:/.+)?)")
_NVIDIA_HOOK = re.compile(r"(?:^|/)nvidia$")
_VISIBLE = re.compile(r"(?:^|[\0;\s])(NVIDIA_VISIBLE_DEVICES=[^\0;\s]+)")
_NONE_VISIBLE = ("NVIDIA_VISIBLE_DEVICES=none", "NVIDIA_VISIBLE_DEVICES=void")


@dataclass(frozen=True)
class Container:
    """A container as the API knows it.

    ``status`` is running, stopped or unknown, and ``unknown_because`` why. ``lock`` is the word of its config.
    ``gpus`` are device nodes, or the variable of NVIDIA's hook; they and ``unprivileged`` are None when the config was
    not read.
    """

    vmid: int
    name: str
    node: str
    status: str
    lock: str | None = None
    template: bool = False
    tags: tuple[str, ...] = ()
    unprivileged: bool | None = None
    gpus: tuple[str, ...] | None = None
    unknown_because: str = ""

    @property
    def title(self) -> str:
        """``container 200 (train-a) on pve1``."""
        return f"container {self.vmid}{f' ({self.name})' if self.name else ''} on {self.node}"


def container(row: Mapping[str, Any]) -> Container:
    """A container from a row of ``/cluster/resources`` or from ``status/current`` with its node added.

    Numbers may be strings (Perl). Raises KeyError, TypeError or ValueError when vmid or node is not there.
    """
    status = str(row.get("status"))
    return Container(
        vmid=int(row["vmid"]),
        name=str(row.get("name") or ""),
        node=str(row["node"]),
        status=status if status in ("running", "stopped") else "unknown",
        lock=str(row["lock"]) if row.get("lock") else None,
        template=truth(row.get("template")),
        tags=tuple(tag for tag in re.split(r"[;,\s]+", str(row.get("tags") or "")) if tag),
    )


def truth(value: Any) -> bool:
    """A boolean of the API: 1, "1", or absent."""
    return str(value or 0) not in ("0", "False")


def gpus(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The GPUs that a container's config gives it, in its order.

    Device nodes on the node, from ``dev0`` and from raw ``lxc.mount.entry`` lines, and of NVIDIA's mount hook the
    variable that says which, such as ``NVIDIA_VISIBLE_DEVICES=all``. A hookscript cannot be seen by the API.
    """
    raw = [(str(pair[0]), str(pair[1])) for pair in config.get("lxc") or [] if len(pair) == 2]
    given = [str(config[key]) for key in sorted(config, key=_numbered) if re.fullmatch(r"dev\d+", key)]
    paths = [value.split(",")[0].partition("path=")[2] or value.split(",")[0] for value in given]
    paths += [value.split()[0] for key, value in raw if key == "lxc.mount.entry" and value.split()]
    found = [path.rstrip("/") for path in paths if _GPU.fullmatch(path.rstrip("/"))]
    if any(key.startswith("lxc.hook.") and _NVIDIA_HOOK.search(value) for key, value in raw):
        texts = [value for key, value in raw if key.startswith("lxc.environment")] + [str(config.get("env") or "")]
        visible = [match for text in texts for match in _VISIBLE.findall(text)]
        found += [text for text in visible if text not in _NONE_VISIBLE]
    return tuple(dict.fromkeys(found))


def _numbered(key: str) -> tuple[int, str]:
    digits = key.lstrip("dev")
    return (int(digits) if digits.isdigit() else -1, key)


def ready(one: Container) -> str | None:
    """Why nobody can work in the container now, as a sentence with the fix; None when one can."""
    if one.template:
        return f"{one.title} is a template, which never runs: clone it, or correct the vmid"
    stopped = one.status == "stopped"
    if one.lock and (stopped or one.lock not in _WORK_ON):
        why = {**_WAIT_FOR, **_WORK_ON}.get(one.lock, "an operation of Proxmox VE is at work on it")
        return (
            f"{one.title} is {'stopped and ' if stopped else ''}locked ({one.lock}): {why}. Wait until that is done; "
            f"if the node's task log has no such task any more, pct unlock {one.vmid} lifts the lock"
        )
    if stopped:
        return f"{one.title} is stopped: start it with pct start {one.vmid} there"
    if one.status == "unknown":
        return f"{one.title} cannot be looked at: {one.unknown_because or 'its state is not known'}"
    return None


def warnings(one: Container) -> list[str]:
    """What does not stop work in the container and should be known."""
    if one.lock in _WORK_ON and one.status == "running":
        return [f"{one.title} is locked ({one.lock}): {_WORK_ON[one.lock or '']}"]
    if one.gpus is None:
        return [f"{one.title}: its config could not be read{f': {one.unknown_because}' if one.unknown_because else ''}"]
    return []


def elsewhere(one: Container, address: str, addresses: Mapping[str, str]) -> str | None:
    """A sentence when ``address`` (an address or a name) is known to lead to another node than the container's.

    ``addresses`` are the nodes' by name, as far as known. An address that belongs to none of them says nothing: a node
    has more than one, and there may be a name of the user's own in between.
    """
    names = {node for node, known in addresses.items() if address == known}
    if address.partition(".")[0] in addresses and not _is_numeric(address):
        names.add(address.partition(".")[0])
    if not names or one.node in names:
        return None
    own = addresses.get(one.node)
    return (
        f"container {one.vmid} is on node {one.node}{f' ({own})' if own else ''}, and {address} leads to "
        f"{', '.join(sorted(names))}: set ansible_host to {own or 'the address of ' + one.node}"
    )


def _is_numeric(address: str) -> bool:
    return bool(re.fullmatch(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]*", address))
