"""Inventories that are files, looked at before Ansible reads them: it warns in a dozen lines and goes on without."""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainops.errors import InventoryNotFound, WrongInventory

_KEYS = ("hosts", "vars", "children")
_VAULT = "$ANSIBLE_VAULT;"


def named(inventory: str | os.PathLike[str] | Sequence[Any] | None, cwd: Path) -> list[str]:
    """The sources of an inventory that was given: absolute paths, and hosts with commas as they are.

    Raises InventoryNotFound for one that is not there, or names nothing: Ansible would run on all hosts.
    """
    if inventory is None:
        return []
    sources = [inventory] if isinstance(inventory, str | os.PathLike) else list(inventory)
    if not sources:
        raise InventoryNotFound("the list of inventories is empty: name one, or leave it out for that of ansible.cfg")
    found = []
    for source in [os.fspath(source) for source in sources]:
        if not source.strip(" ,"):
            raise InventoryNotFound(f"inventory {source!r} names nothing: leave it out for that of ansible.cfg")
        if "," not in source and not (cwd / source).exists():
            raise InventoryNotFound(f"there is no inventory {cwd / source}")
        found.append(source if "," in source else str(cwd / source))
    return found


def configured(cwd: Path, environment: Mapping[str, str]) -> list[str]:
    """The sources that the ansible.cfg in ``cwd`` names, as :func:`named`; none where something else says where."""
    if any(environment.get(name) for name in ("ANSIBLE_INVENTORY", "ANSIBLE_CONFIG")):
        return []
    config = configparser.RawConfigParser(inline_comment_prefixes=(";",), strict=False)
    try:
        config.read(cwd / "ansible.cfg", encoding="utf-8")
        said = config.get("defaults", "inventory", fallback="")
    except (configparser.Error, ValueError):
        return []  # Ansible says what is wrong with it
    return [str(cwd / Path(one.strip()).expanduser()) for one in said.split(",") if one.strip()]


def require_readable(sources: Sequence[str]) -> None:
    """Raise WrongInventory for a YAML file among ``sources`` that is none, or none that says which hosts there are."""
    for source in sources:
        path = Path(source)
        if path.suffix in (".yml", ".yaml") and path.is_file() and not os.access(path, os.X_OK):
            problem = next(_problems(path), None)
            if problem is not None:
                raise WrongInventory(f"{path}:{problem}")


def host_names(sources: Sequence[str]) -> list[str]:
    """The hosts that YAML files among ``sources`` name; none of what only Ansible can read."""
    import yaml

    found: dict[str, None] = {}
    for path in map(Path, sources):
        if path.suffix in (".yml", ".yaml") and path.is_file():
            try:
                found.update(dict.fromkeys(hosts_in(yaml.safe_load(path.read_text(encoding="utf-8")))))
            except (OSError, ValueError, yaml.YAMLError):
                continue  # with tags of Ansible, for instance
    return list(found)


def hosts_in(groups: Any) -> Iterator[str]:
    """The hosts of groups as values."""
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping):
            hosts = group.get("hosts")
            yield from map(str, hosts if isinstance(hosts, Mapping) else [])
            yield from hosts_in(group.get("children"))


def _problems(path: Path) -> Iterator[str]:
    """What is wrong, as LINE:COLUMN: and a sentence."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = path.read_text(encoding="utf-8")
        root = None if text.startswith(_VAULT) else yaml.compose(text, Loader=loader)
    except OSError as error:
        yield f" {error.strerror}: make it readable"
    except UnicodeDecodeError:
        yield " it is no text in UTF-8: write it anew"
    except yaml.MarkedYAMLError as error:
        yield f"{_place(error.problem_mark)} this is no YAML: {' '.join(filter(None, [error.context, error.problem]))}"
    except yaml.YAMLError as error:
        yield f" this is no YAML: {' '.join(str(error).split())}"
    else:
        if root is not None:
            yield from _groups(root)


def _groups(root: Any) -> Iterator[str]:
    groups = _pairs(root)
    if groups is None:
        yield f"{_place(root.start_mark)} an inventory is a mapping of groups: begin with `training:` and `hosts:`"
    elif "plugin" not in dict(groups):  # what an inventory plugin reads has a form of its own
        for name, group in groups:
            yield from _group(name, group)


def _group(name: str, group: Any) -> Iterator[str]:
    parts = _pairs(group)
    if parts is None:
        yield f"{_place(group.start_mark)} group {name} must be a mapping of {', '.join(_KEYS)}"
        return
    for key, value in parts:
        inside = _pairs(value)
        if key not in _KEYS or (value.id == "scalar" and key != "vars"):
            continue  # Ansible warns of other keys, and takes a word for the only host or child
        if inside is None:
            yield f"{_place(value.start_mark)} {key} of group {name} must be a mapping, a name and a colon on each line"
        elif key == "hosts":
            for host, values in inside:
                if _pairs(values) is None:
                    yield f"{_place(values.start_mark)} host {host} must be a mapping of its variables"
        elif key == "children":
            for child, below in inside:
                yield from _group(child, below)


def _pairs(node: Any) -> list[tuple[str, Any]] | None:
    """Keys and values of a mapping, none of an empty node; None where it is neither."""
    if node.id == "mapping":
        return [(str(key.value), value) for key, value in node.value]
    empty = node.id == "scalar" and node.tag == "tag:yaml.org,2002:null"
    return [] if empty else None


def _place(mark: Any) -> str:
    return f"{mark.line + 1}:{mark.column + 1}:" if mark else ""
