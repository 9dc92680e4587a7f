"""Containers and nodes as a person names them on a command line: ``root@10.1.2.6/200:/root``."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainops.errors import WrongTarget
from trainops.values import literal

FORM = "[USER@]ADDRESS[:PORT]/VMID[:/ROOT], as in root@10.1.2.6/200:/root"
NODE_FORM = "[USER@]ADDRESS[:PORT], as in root@10.1.2.6"

_PARTS = re.compile(
    r"(?:(?P<user>[^@/:\s{}-][^@/:\s{}]*)@)?"
    r"(?P<address>\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[A-Za-z0-9_][A-Za-z0-9._-]*)"
    r"(?::(?P<port>[^/]*))?"
    r"(?:/(?P<vmid>[^:]*)(?::(?P<root>.*))?)?",
    re.DOTALL,
)
_LEAST_VMID = 100  # Proxmox VE keeps the lower ones for itself
_CONNECTION = "trainops.proxmox.pct"


@dataclass(frozen=True)
class Target:
    """A node (``vmid`` is None), or a container on it; ``root`` is the folder in the container."""

    text: str
    address: str
    user: str | None = None
    port: int | None = None
    vmid: int | None = None
    root: str | None = None


def looks_like_target(text: str) -> bool:
    """Whether ``text`` is meant as a container and not as a path: ``ADDRESS/NUMBER:/…``, or anything with USER@."""
    return re.match(r"[^/\s]+@[^\s]|[^/\s]+/\d+(?::|$)", text) is not None


def looks_like_run(text: str) -> bool:
    """Whether ``text`` is the id of a run, such as ``r12``."""
    return re.fullmatch(r"r[1-9][0-9]*", text) is not None


def read_target(text: str) -> Target:
    """Read a target of one of the two forms. Raises WrongTarget, which says what is wrong with it."""
    if not text.isprintable():
        raise WrongTarget(f"{text!r} has characters that no target has: write {FORM}")
    match = _PARTS.fullmatch(text)
    if match is None or match["address"].isdecimal():
        raise WrongTarget(f"{text!r} is no target: write {FORM}")
    return Target(
        text=text,
        address=match["address"].strip("[]"),
        user=match["user"],
        port=_port(text, match["port"]),
        vmid=_vmid(text, match["vmid"]),
        root=_root(text, match["root"]),
    )


def _port(text: str, port: str | None) -> int | None:
    if port is None:
        return None
    if port.startswith(("~", "\\")) or not port.isdecimal():
        raise WrongTarget(f"{text!r}: {port!r} is no port. A folder needs the container before it: write {FORM}")
    if not 0 < int(port) < 65536:
        raise WrongTarget(f"{text!r}: {port} is no port: it must be 1 to 65535")
    return int(port)


def _vmid(text: str, vmid: str | None) -> int | None:
    if vmid is None:
        return None
    if not vmid.isascii() or not vmid.isdecimal() or not _LEAST_VMID <= int(vmid) <= 999_999_999:
        raise WrongTarget(f"{text!r}: {vmid!r} is no container's id: it is a number from {_LEAST_VMID} (pct list)")
    return int(vmid)


def _root(text: str, root: str | None) -> str | None:
    if root is None:
        return None
    if not root.startswith("/"):
        raise WrongTarget(f"{text!r}: the folder {root!r} must begin with /, it is one in the container")
    if "\0" in root or "\n" in root:
        raise WrongTarget(f"{text!r}: the folder {root!r} has characters that it cannot have")
    return posixpath.normpath(root)


def containers(targets: Sequence[Target], variables: Mapping[str, Any], *, need_root: bool) -> dict[str, Any]:
    """An inventory whose group ``training`` is these containers; ``variables`` are those of the group.

    Raises WrongTarget for a node where a container is needed, a missing folder, and a container named twice.
    """
    for target in targets:
        if target.vmid is None and looks_like_run(target.text):
            run = target.text
            raise WrongTarget(
                f"{run!r} is a run, and a container is named here: trainops status shows all runs; of one there are "
                f"trainops logs {run}, why {run}, stop {run} and launch --like {run}"
            )
        if target.vmid is None:
            hint = "" if "@" in target.text else f" (a host of the inventory: --limit {target.text})"
            raise WrongTarget(f"{target.text!r} names no container: write {FORM}{hint}")
        if need_root and target.root is None:
            raise WrongTarget(f"{target.text!r} names no folder in the container: write {target.text}:/root")
    names = _names(targets)
    hosts = {name: _host(target, proxmox_vmid=target.vmid) for name, target in zip(names, targets, strict=True)}
    return {"training": {"hosts": hosts, "vars": {"ansible_connection": _CONNECTION, **variables}}}


def nodes(targets: Sequence[Target]) -> dict[str, Any]:
    """An inventory whose group ``nodes`` is the nodes of these targets, each once."""
    reached = list({(one.user, one.address, one.port): replace(one, root=None) for one in targets}.values())
    times = Counter(one.address for one in reached)
    names = [
        one.address if times[one.address] == 1 else "_".join(filter(None, [one.address, str(one.port or ""), one.user]))
        for one in reached
    ]
    hosts = {name: _host(one) for name, one in zip(names, reached, strict=True)}
    return {"nodes": {"hosts": hosts, "vars": {"ansible_connection": "ssh"}}}


def _host(target: Target, **more: Any) -> dict[str, Any]:
    values = {
        "ansible_host": target.address,
        "ansible_user": target.user,
        "ansible_port": target.port,
        "training_root": literal(target.root),
        **more,
    }
    return {key: value for key, value in values.items() if value is not None}


def _names(targets: Sequence[Target]) -> list[str]:
    """``ct200``, or with its node where two nodes have a container of that id."""
    places = [f"{one.address}{f':{one.port}' if one.port else ''}/{one.vmid}" for one in targets]
    if twice := [text for text, number in Counter(places).items() if number > 1]:
        raise WrongTarget(f"container {twice[0]} is named twice: one release a command goes to each container")
    times = Counter(target.vmid for target in targets)
    return [
        "_".join(filter(None, [f"ct{one.vmid}", *([one.address, str(one.port or "")] if times[one.vmid] > 1 else [])]))
        for one in targets
    ]
