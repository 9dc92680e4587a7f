# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of the step that looks at a node, as plain values. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_result import gpu_summary
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_select import ranges
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpu_text import WIDTH, cut
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import Snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.hops import Login
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_facts import Config, NodeFacts
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_gpus import given
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line

_NAME_WIDTH = 30


def node_result(facts: NodeFacts, found: Snapshot, login: Login) -> dict[str, Any]:
    """The result of ``node_info``. Raises StepError for a machine that is no Proxmox VE node."""
    if not facts.is_node:
        raise StepError(
            "no-node",
            f"{one_line(facts.node or login.host)} ({login}) is no Proxmox VE node, or its cluster file system is not "
            f"there: it has no /etc/pve/nodes/{one_line(facts.node)}/lxc. Correct ansible_host, or look at the service "
            "pve-cluster there",
        )
    containers = [_container(one, found, facts.readable or bool(one.lines)) for one in facts.containers]
    line = _line(facts, containers, found)
    result = {
        "node": one_line(facts.node),
        "login": one_line(facts.login),
        "may_enter": list(facts.may_enter),
        "may_enter_only": list(facts.only) if facts.only else None,
        "pve_version": facts.version and one_line(facts.version),
        "containers": containers,
        **found.as_result(),
        "gpu_summary": gpu_summary(found),
        "table": table(containers),
        "summary": line,
        "msg": line,
    }
    if warnings := _warnings(facts, found, login):
        result["warnings"] = warnings
    return result


def _container(one: Config, found: Snapshot, readable: bool) -> dict[str, Any]:
    gpus, note = given(one, found.gpus)
    unprivileged, name, ostype, lock = (one.value(key) for key in ("unprivileged", "hostname", "ostype", "lock"))
    return {
        "vmid": one.vmid,
        "name": name and one_line(name),
        "state": one.state,
        "unprivileged": unprivileged == "1" if readable else None,
        "ostype": ostype and one_line(ostype),
        "template": one.value("template") == "1",
        "lock": lock and one_line(lock),
        "gpus": gpus if readable else None,
        "gpus_note": note and one_line(note),
    }


def _line(facts: NodeFacts, containers: Sequence[dict[str, Any]], found: Snapshot) -> str:
    running = sum(one["state"] != "stopped" for one in containers)
    idle = sum(gpu.verdict == "idle" for gpu in found.gpus)
    gpus = f"{_some(len(found.gpus), 'GPU')}, {idle} idle" if found.gpus else "no GPU could be read"
    which = f" {', '.join(map(str, facts.only))} alone," if facts.only else ""
    how = f"may enter{which} by {facts.may_enter[0]}" if facts.may_enter else "may not enter containers"
    return (
        f"{one_line(facts.node)}: {_some(len(containers), 'container')}, {running} running; {gpus}; "
        f"{one_line(facts.login)} {how}"
    )


def _some(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"


def _warnings(facts: NodeFacts, found: Snapshot, login: Login) -> list[str]:
    told = list(found.warnings)
    if not facts.may_enter:
        told.append(
            f"on node {login}: this login may enter no container: log in as root, or have an admin of the node allow "
            "this user trainops-enter for one (docs/logins.md)"
        )
    if not facts.readable:
        told.append(
            f"on node {login}: this login may not read the containers' configurations, so names and GPUs of some are "
            "missing: log in as root, or as a user with sudo for everything"
        )
    if found.view == "partial" and found.gpus:
        told.append(f"on node {login}: who holds GPUs is told as far as this login sees: {found.view_reason}")
    return told


def table(containers: Sequence[dict[str, Any]], width: int = WIDTH) -> str:
    """The containers as a person reads them, at most ``width`` columns wide."""
    wide = max([4, *(min(len(one["name"] or "?"), _NAME_WIDTH) for one in containers)])
    lines = [f" vmid  state     {'name':<{wide}}  GPUs of the node"]
    for one in containers:
        name = cut(one["name"] or "?", _NAME_WIDTH)
        gpus = "?" if one["gpus"] is None else ranges(one["gpus"]) or "-"
        more = "".join(f" ({what})" for what in (one["template"] and "template", one["lock"], one["gpus_note"]) if what)
        lines.append(cut(f"{one['vmid']:>5}  {one['state']:<8}  {name:<{wide}}  {gpus}{more}", width))
    return "\n".join(lines)
