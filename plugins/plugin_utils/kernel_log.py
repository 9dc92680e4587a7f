# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the node's kernel says of GPUs and of memory: a shell script that prints raw lines there, and its parser."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import decimal

# A node view: needs of its caller $run ('' or 'sudo -n') and $deadline (seconds). journalctl reaches further back than
# the kernel's own buffer; both show this boot, and a container does not outlive its node's.
SCRIPT = r"""
set +e
set +u
LC_ALL=C
export LC_ALL
: "${deadline:=20}"
lines() { grep -aE 'NVRM: Xid|oom-kill:|Killed process|oom_reaper' | tail -n 400 | cut -b 1-600; }
first=$($run timeout -k 1 "$deadline" journalctl -k -b -n 1 -o short-unix --no-pager -q 2>/dev/null </dev/null)
if [ -n "$first" ]; then
  echo '=== kernel journalctl'
  $run timeout -k 1 "$deadline" journalctl -k -b -o short-unix --no-pager -q 2>/dev/null </dev/null | lines
elif $run dmesg >/dev/null 2>&1 </dev/null; then
  echo '=== kernel dmesg'
  $run timeout -k 1 "$deadline" dmesg --color=never 2>/dev/null </dev/null | lines
else
  echo '=== kernel none'
fi
read -r up idle </proc/uptime
printf '=== clock %s %s\n=== end\n' "$(date +%s)" "$up"
"""

_XID = re.compile(r"NVRM: Xid \(PCI:(?P<bus>[0-9A-Fa-f:.]+)\): (?P<number>\d{1,9}),?\s*(?P<text>.*)$")
_OOM = re.compile(r"oom-kill:.*?\boom_memcg=(?P<group>[^,]*).*?\btask=(?P<task>[^,]*),pid=(?P<pid>\d+)")
_OOM_ALL = re.compile(r"oom-kill:.*?\btask_memcg=(?P<group>[^,]*),task=(?P<task>[^,]*),pid=(?P<pid>\d+)")
_GUEST = re.compile(r"(?:^|/)(?:lxc/|lxc\.payload[./])(\d{1,9})(?=[-/]|$)")
_JOURNAL = re.compile(r"(\d{1,18}\.\d{1,18}) \S+ kernel: (.*)$")
_DMESG = re.compile(r"\[\s*(\d{1,18}\.\d{1,18})\] (.*)$")


@dataclass(frozen=True)
class Xid:
    """An error of a GPU as the driver reports it; ``bus`` is its PCI address, ``when`` in seconds since 1970."""

    when: float
    bus: str
    number: int
    text: str


@dataclass(frozen=True)
class OomKill:
    """A process that the kernel killed for lack of memory.

    ``vmid`` is the container that the process belonged to, ``limit`` whether that container's own limit was reached
    and not the node's memory.
    """

    when: float
    vmid: int | None
    task: str
    limit: bool


@dataclass(frozen=True)
class KernelLog:
    """``source`` is journalctl, dmesg, or "" where the login may read neither."""

    source: str = ""
    xids: tuple[Xid, ...] = ()
    ooms: tuple[OomKill, ...] = ()


def parse_kernel_log(text: str) -> KernelLog:
    """What SCRIPT printed, as values. Never raises: what cannot be read is left out."""
    source, clock, lines = "", 0.0, []
    for line in text.splitlines():
        words = line.split()
        if line.startswith("=== kernel "):
            source = words[2]
        elif line.startswith("=== clock ") and len(words) == 4:
            clock = decimal(words[2]) - decimal(words[3])
        elif not line.startswith("==="):
            lines.append(line)
    messages = [found for line in lines if (found := _message(line, clock))]
    return KernelLog(
        source="" if source == "none" else source,
        xids=tuple(xid for when, said in messages if (xid := _xid(when, said))),
        ooms=tuple(oom for when, said in messages if (oom := _oom(when, said))),
    )


def _message(line: str, boot: float) -> tuple[float, str] | None:
    """When it was said, and what; ``boot`` is when the node's kernel started, by which dmesg counts."""
    if match := _JOURNAL.match(line):
        return float(match[1]), match[2]
    if match := _DMESG.match(line):
        return boot + float(match[1]), match[2]
    return None


def _xid(when: float, text: str) -> Xid | None:
    match = _XID.search(text)
    return Xid(when, normal_bus(match["bus"]), int(match["number"]), match["text"].strip()) if match else None


def normal_bus(text: str) -> str:
    """A GPU's PCI address as the kernel writes it: ``0000:18:00``. nvidia-smi writes ``00000000:18:00.0``."""
    domain, _colon, rest = text.lower().partition(":")
    return f"{domain[-4:]:0>4}:{rest.partition('.')[0]}"


def _oom(when: float, text: str) -> OomKill | None:
    match = _OOM.search(text) or _OOM_ALL.search(text)
    if match is None:
        return None
    limit = "constraint=CONSTRAINT_MEMCG" in text
    group = re.search(r"\btask_memcg=([^,]*)", text)
    guest = _GUEST.search(group[1] if group else match["group"])
    return OomKill(when, int(guest[1]) if guest else None, match["task"], limit)
