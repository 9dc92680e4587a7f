"""What ``trainops init`` prints: what a survey found, at 80 columns, without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainops.results import Reason
from trainops.starting import Found

_COLUMNS = 80
_LABEL = 12
_MOST = 8  # rows of a kind

Row = tuple[str, list[str]]  # a label and what stands beside it; nothing is shown without the latter


def report(found: Found, written: Sequence[str]) -> str:
    """The report, its last line the next command."""
    return _joined([*_found(found), *_end(found, written)])


def found_text(found: Found) -> str:
    """The report without its end: what was found."""
    return _joined(_found(found))


def _found(found: Found) -> list[Row]:
    return [*_node(found), *_container(found), *_project(found)]


def _joined(rows: Iterable[Row]) -> str:
    return "\n".join(line for label, texts in rows for line in _laid_out(label, texts))


def _laid_out(label: str, texts: Iterable[str]) -> Iterator[str]:
    from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import one_line

    head = label
    for text in map(one_line, texts):
        # What was laid out in columns stays so.
        wide = _COLUMNS - _LABEL
        parts = (
            [text]
            if len(text) <= wide
            else textwrap.wrap(text, wide - 2, break_long_words=False, break_on_hyphens=False)
        )
        for number, part in enumerate(parts):
            yield f"{head:<{_LABEL}}{'  ' if number else ''}{part}".rstrip()
            head = ""


def _node(found: Found) -> Iterator[Row]:
    node = found.node
    if node is None:
        return
    enters = ", ".join(node["may_enter"])
    only = node.get("may_enter_only")
    which = f"{', '.join(map(str, only))} alone" if only else "containers"
    how = f"{node['login']} may enter {which} by {enters}" if enters else f"{node['login']} may not enter containers"
    version = f", Proxmox VE {node['pve_version']}" if node["pve_version"] else ""
    yield "node", [f"{node['node']} at {found.target.address}{version}; {how}"]
    kinds: dict[str, list[int]] = {}
    for gpu in node["gpus"]:
        kinds.setdefault(f"{gpu['name']}, {gpu['memory_total_mib']} MiB", []).append(gpu["index"])
    listed = [f"{len(indexes)} x {kind}" for kind, indexes in kinds.items()]
    yield "gpus", [*listed, str(node["gpu_summary"])]
    if found.survey is None:
        yield "containers", str(node["table"]).splitlines() or ["none"]
    yield from _warned(node)


def _container(found: Found) -> Iterator[Row]:
    seen = found.survey
    if seen is None:
        return
    listed = (found.node or {}).get("containers") or []
    name = next((str(one["name"]) for one in listed if one["vmid"] == found.target.vmid and one["name"]), "")
    parts = [f"{found.target.vmid} {name}".rstrip(), "systemd" if seen["init"] == "systemd" else "no systemd"]
    yield "container", [f"{', '.join(parts)}; GPUs: {seen['gpu_summary']}"]
    width = max((len(one["path"]) for one in seen["pythons"]), default=0)
    pythons = [
        f"{one['path']:<{width}}  {one['version']}  {'torch ' + one['torch'] if one['torch'] else 'no torch'}"
        for one in seen["pythons"][:_MOST]
    ]
    yield "python", pythons or ["none was found: install one in the container, such as python3"]
    yield "root", [f"{seen['root']}: {seen['root_reason']}"] if seen["root"] else []
    yield from _warned(seen)


def _project(found: Found) -> Iterator[Row]:
    seen = found.survey
    if seen is None:
        return
    from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import size

    named = found.project if isinstance(found.project, str) else ", ".join(found.project)
    count = f"{seen['files']} file{'' if seen['files'] == 1 else 's'}"
    yield "project", [f"{named}: {count}, {size(seen['total_bytes'])}, called {seen['name']}"]
    yield (
        "left out",
        [", ".join(f"{number} {why}" for why, number in seen["left_out"].items())] * bool(seen["left_out"]),
    )
    yield (
        "too big",
        [
            f"{one['path']}: {size(one['bytes'])} in {one['files']} file{'' if one['files'] == 1 else 's'}"
            for one in seen["big"][:_MOST]
        ],
    )
    yield "problem", [str(text) for text in seen["problems"]]
    if found.release is not None:
        yield "deploy", [f"{'refused: ' * bool(found.release.get('failed'))}{found.release['summary']}"]
    elif not (seen["problems"] or seen["big"]):
        yield "deploy", ["refused as things are: see above"]


def _warned(values: Mapping[str, Any]) -> Iterator[Row]:
    yield "warning", [str(warning) for warning in values.get("warnings") or []]


def _end(found: Found, written: Sequence[str]) -> Iterator[Row]:
    if found.reason is not Reason.OK:
        yield "failed", found.message.splitlines() or [str(found.reason)]
    elif found.survey is None:
        yield "next", [f"trainops init {found.target.text.rstrip('/')}/VMID"]
    else:
        yield "wrote", [", ".join(written) or "nothing: the three files are as they would be"]
        yield "next", ["settle what is refused, then: trainops deploy" if _refused(found) else "trainops deploy"]


def _refused(found: Found) -> bool:
    """Whether a deploy would not do as things are."""
    return found.release is None or bool(found.release.get("failed"))
