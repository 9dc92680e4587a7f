# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a login finds on a Proxmox VE node: a shell script that prints raw text there, and its parser. Reads only.

``pct list`` would spend a second of Perl on it: states are in /proc/net/unix, where each running container's command
socket is listed, and in what LXC says; all else is in the configuration files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_view import SCRIPT as VIEW
from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import DIGITS, whole

# Run by root, or as far as it goes by whoever logged in; $1 is the folder of the configurations. Of these only lines
# that are needed travel: others may hold secrets.
_READ = r"""
echo "=== ids"
for file in "$1"/*.conf; do
  [ -e "$file" ] && echo "$file"
done
echo "=== configs"
grep -aHsE "^[[]|^(arch|hostname|ostype|unprivileged|template|lock|hookscript|dev[0-9]+):|^mp[0-9]+:.*/dev/nvidia|^ *lxc[.](hook|mount[.]entry|environment(.runtime)? *[:=] *NVIDIA_)" "$1"/*.conf | cut -b 1-500
echo "=== states"
sed -n "s,.* @/var/lib/lxc/\([0-9][0-9]*\)/command\$,\1,p" /proc/net/unix | sort -un | while read -r id; do
  echo "$id $(timeout 5 lxc-info -n "$id" -s -H </dev/null 2>/dev/null)"
done
exit 0
"""  # noqa: E501

# Needs of its caller what a node view needs, which comes after it on a node.
SCRIPT = (
    r"""
set +e
set +u
where=$(readlink /etc/pve/local)
node=${where##*/}
[ -n "$node" ] || node=$(uname -n)
[ -n "$where" ] || node=${node%%.*}
folder=/etc/pve/nodes/$node/lxc
printf '=== login %s\n=== node %s\n' "$(id -un)" "$node"
for tool in lxc-attach pct; do
  path=$(command -v "$tool") || continue
  [ -z "$run" ] || sudo -n -l "$path" >/dev/null 2>&1 || continue
  printf '=== may-%s %s\n' "$tool" "$path"
done
if [ -n "$run" ] && path=$(command -v trainops-enter); then
  printf '=== may-trainops-enter %s\n' "$path"
  for id in $(sudo -n -l 2>/dev/null | grep -o '/trainops-enter [0-9]*' | cut -d ' ' -f 2 | sort -u); do
    sudo -n -l "$path" "$id" run /usr/bin/env >/dev/null 2>&1 && echo "$id"
  done
fi
[ -d "$folder" ] || { echo '=== foreign'; exit 0; }
printf '=== manager %s\n' "$(dpkg-query -W -f '${Version}' pve-manager 2>/dev/null)"
read='@READ@'
[ -n "$run" ] && $run sh -c "$read" read "$folder" </dev/null 2>/dev/null ||
  sh -c "$read" read "$folder" </dev/null 2>/dev/null
""".replace("@READ@", _READ)
    + VIEW
)

_TOOLS = ("lxc-attach", "pct")  # the quicker one first
_HELPER = "trainops-enter"


@dataclass(frozen=True)
class Config:
    """One container: the lines of its configuration that were read, without snapshots and pending changes.

    ``lines`` are (key, value) in the order of the file; empty when it could not be read.
    """

    vmid: int
    state: str
    lines: tuple[tuple[str, str], ...] = ()

    def value(self, key: str) -> str | None:
        """The value of a key that stands once."""
        return dict(self.lines).get(key)


@dataclass(frozen=True)
class NodeFacts:
    """What the script found; ``readable`` says whether every configuration could be read.

    ``only`` are the containers that a login may enter which has no way but the helper's.
    """

    node: str
    login: str
    may_enter: tuple[str, ...] = ()
    only: tuple[int, ...] = ()
    is_node: bool = False
    version: str | None = None
    readable: bool = True
    containers: tuple[Config, ...] = ()


def parse_node_facts(text: str) -> NodeFacts:
    """What SCRIPT printed, as values. Never raises: what is missing is missing."""
    sections = _sections(text)
    given = {name: argument for name, (argument, _lines) in sections.items()}
    ids = [int(found[1]) for line in _lines(sections, "ids") if (found := re.search(rf"/({DIGITS})\.conf$", line))]
    lines = _configs(_lines(sections, "configs"))
    states = dict(_states(_lines(sections, "states")))
    tools = tuple(tool for tool in _TOOLS if f"may-{tool}" in given)
    only = () if tools else tuple(sorted({vmid for one in _lines(sections, f"may-{_HELPER}") if (vmid := whole(one))}))
    return NodeFacts(
        node=given.get("node", ""),
        login=given.get("login", ""),
        may_enter=(_HELPER,) if only else tools,
        only=only,
        is_node="ids" in given,
        version=given.get("manager") or None,
        readable=all(vmid in lines for vmid in ids),
        containers=tuple(
            Config(vmid, states.get(vmid, "stopped"), tuple(lines.get(vmid, ()))) for vmid in sorted(set(ids))
        ),
    )


_Sections = Mapping[str, tuple[str, list[str]]]


def _sections(text: str) -> _Sections:
    """The lines under each "=== NAME ARGUMENT", of the first of each name: ours come before those of the view."""
    found: dict[str, tuple[str, list[str]]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("=== "):
            name, _space, argument = line.removeprefix("=== ").partition(" ")
            lines = []
            found.setdefault(name, (argument, lines))
        else:
            lines.append(line)
    return found


def _lines(sections: _Sections, name: str) -> list[str]:
    return sections.get(name, ("", []))[1]


def _configs(lines: list[str]) -> dict[int, list[tuple[str, str]]]:
    """grep's "FILE:LINE" as (key, value) by container, up to the first snapshot of each."""
    found: dict[int, list[tuple[str, str]]] = {}
    over: set[int] = set()
    for line in lines:
        match = re.match(rf"[^:]*/({DIGITS})\.conf:(.*)", line)
        if not match:
            continue
        vmid = int(match[1])
        rest = found.setdefault(vmid, [])
        if match[2].startswith("["):
            over.add(vmid)
        elif vmid not in over and (pair := re.match(r"\s*([\w.]+)\s*[:=]\s*(.*?)\s*$", match[2])):
            rest.append((pair[1], pair[2]))
    return found


def _states(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Who has a command socket is not stopped; LXC says more, where it may be asked."""
    for line in lines:
        text, _space, state = line.partition(" ")
        if vmid := whole(text):
            # Stopped between the two looks, or nothing said: what the socket tells.
            yield vmid, state.lower() if re.fullmatch("[A-Z]+", state) else "running"
