# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who holds the GPUs, as the node sees it: a shell script that prints raw text there, and its parser.

A container sees neither the processes of another container nor a job there that has opened a GPU and owns no memory
yet. The node sees both: the process list of nvidia-smi, the device files that every process has open, and each
process's cgroup (which container), NSpid (its PID in there), start time and command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ansible_collections.trainops.proxmox.plugins.plugin_utils.nvidia_smi import APP_QUERY, GPU_QUERY, Answer, minors
from ansible_collections.trainops.proxmox.plugins.plugin_utils.processes import Process, argv_of, start_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils.whole import DIGITS, decimal, whole

_SEPARATOR = "\037"  # the script puts it where a command line has NUL

# Run by root, or as far as it goes by whoever logged in; "$@" are the PIDs that nvidia-smi listed. One grep or stat
# reads the files of all processes: a fork for each would cost more than nvidia-smi. A link's text is written by whoever
# is root in a container: one with a newline would forge rows, and lead root to other files than those of /proc. What a
# process maps, its command line among it, may lie in a file system of its own that never answers.
_WALK = r"""
printf "=== root %s\n" "$(id -u)"
echo "=== opened"
links=$(find /proc/[0-9]*/fd -maxdepth 1 -lname "*/dev/nvidia[0-9]*" ! -lname "*[![:print:]]*" \
  -printf "%h %p %l\n" 2>/dev/null | sort -u -k1,1 -k3)
[ -z "$links" ] || printf "%s\n" "$links"
pids=" " files= maps=
while read -r folder file target; do
  [ -n "$target" ] || continue
  files="$files $file"
  pid=${folder#/proc/}
  pid=${pid%/fd}
  case $pids in *" $pid "*) ;; *) pids="$pids$pid " maps="$maps /proc/$pid/maps" ;; esac
done <<END
$links
END
for pid; do
  case $pids in *" $pid "*) ;; *) pids="$pids$pid " ;; esac
done
echo "=== devices"
stat -L -c "%n %t:%T %d:%i" /dev/nvidia[0-9]* $files 2>/dev/null
echo "=== mapped"
late=
if [ -n "$maps" ]; then
  mapped=$(timeout -k 1 9 grep -aHosE "/dev/nvidia[0-9]+" $maps)
  [ $? -lt 124 ] || late="=== late"
  printf "%s\n" "$mapped" | sort -u
fi
echo "=== processes"
stats= lines= states= groups=
for pid in $pids; do
  stats="$stats /proc/$pid/stat"
  lines="$lines /proc/$pid/cmdline"
  states="$states /proc/$pid/status"
  groups="$groups /proc/$pid/cgroup"
done
if [ -n "$stats" ]; then
  grep -aHs "" $stats
  timeout -k 1 5 grep -aHs "" $lines | tr "\000" "\037" | cut -b 1-1000
  grep -aHs "^NSpid:" $states
  groups=$(grep -aHs -m 1 -E "[:/](lxc/|lxc[.]payload[./])[0-9]" $groups)
  [ -z "$groups" ] || printf "%s\n" "$groups"
fi
echo "=== names"
seen=" "
while read -r line; do
  id=${line##*[:/]lxc/}
  id=${id##*lxc.payload?}
  id=${id%%[!0-9]*}
  case $seen in *" $id "*) continue ;; esac
  seen="$seen$id "
  [ -z "$id" ] || grep -Hs -m 1 "^hostname:" /etc/pve/nodes/*/lxc/"$id".conf
done <<END
$groups
END
[ -z "$late" ] || echo "$late"
exit 0
"""

# Needs of its caller: $smi (name or path of nvidia-smi), $deadline (seconds for it), $run ('' or 'sudo -n').
# Prints sections that begin with "===" and ends with "=== end"; never fails, never waits longer than the deadline. What
# a program prints may lack its last newline, so the mark behind it brings one.
_SCRIPT = r"""
set +e
set +u
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin
export LC_ALL PATH
: "${deadline:=30}"
whole=${deadline%%.*}
: "${whole:=0}"
now() { read -r up idle </proc/uptime; }
# A child that hangs in the driver survives SIGKILL. It keeps nothing of ours but one pipe, given up after a while. What
# it prints has names of processes in it, none of which may begin a section.
ask() {
  {
    { timeout -k 1 "$deadline" "$tool" "$1" --format=csv; printf '\n=== exit %d\n' $?
    } </dev/null 2>&1 3>&- 4>&- 5>&- &
  } | timeout "$((whole + 3))" sed -u '/^=== exit [0-9]*$/!s/^===/ ===/'
}
tool=
for try in "$smi" nvidia-smi; do
  case $try in
    */*) [ -x "$try" ] && tool=$try ;;
    ?*) tool=$(command -v "$try") ;;
  esac
  [ -n "$tool" ] && break
done
now
printf '=== start %s\n=== tool %s\n' "$up" "$tool"
stuck=
for file in $(grep -lsE '^[0-9]+ \(nvidia-smi\) D' /proc/[0-9]*/stat); do
  read -r stat <"$file" && set -- $stat && [ "$((${up%%.*} - ${22:-0} / 100))" -gt "$whole" ] && stuck=$1
done
listed=
if [ -n "$stuck" ]; then
  printf '=== stuck %s\n' "$stuck"
elif [ -n "$tool" ]; then
  answers=$(ask '@APPS@' | { echo '=== gpus'; ask '@GPUS@' </dev/null; printf '\n=== apps\n'; cat; })
  printf '%s\n' "$answers"
  listed=$(printf '%s\n' "$answers" | sed -nE 's/^(GPU|MIG)-[^,]*, ([0-9]+),.*/\2/p')
  now
fi
printf '=== asked %s\n=== minors\n' "$up"
grep -Hs '^Device Minor:' /proc/driver/nvidia/gpus/*/information
echo '=== version'
grep -hs '^NVRM' /proc/driver/nvidia/version
walk='@WALK@'
[ -n "$run" ] && $run sh -c "$walk" walk $listed </dev/null 2>/dev/null ||
  sh -c "$walk" walk $listed </dev/null 2>/dev/null
echo '=== end'
"""

SCRIPT = _SCRIPT.replace("@APPS@", APP_QUERY).replace("@GPUS@", GPU_QUERY).replace("@WALK@", _WALK)


@dataclass(frozen=True)
class NodeView:
    """The node's view of its GPUs.

    ``complete`` says that root looked at the open files of every process, so that no holder can be missing; otherwise
    ``reason`` says why not. ``minors`` maps PCI addresses to the N of /dev/nvidiaN, ``devices`` lists the N that exist.
    ``version`` is the driver's own line about its kernel module.
    """

    complete: bool
    reason: str
    tool: str = ""
    gpus: Answer | None = None
    apps: Answer | None = None
    minors: dict[str, int] = field(default_factory=dict)
    devices: tuple[int, ...] = ()
    processes: dict[int, Process] = field(default_factory=dict)
    version: str = ""


def parse_node_view(text: str) -> NodeView:
    """What SCRIPT printed, as values. Never raises: what is missing is missing, and ``reason`` says why."""
    sections = _sections(text)
    uid = _argument(sections, "root")
    smi_gpus, smi_apps = _answers(sections)
    handles, devices = _opened(sections)
    reason = ""
    if "end" not in sections:
        reason = "the node's answer broke off"
    elif "late" in sections:
        reason = "a process there does not let the node see what it has mapped"
    elif uid != "0":
        reason = "the login may not look at all processes there (it is not root, and sudo -n does not allow sh)"
    return NodeView(
        complete=not reason,
        reason=reason,
        tool=_argument(sections, "tool"),
        gpus=smi_gpus,
        apps=smi_apps,
        minors=minors(dict(_prefixed(sections, "minors", r"/proc/driver/nvidia/gpus/([^/]+)/information"))),
        devices=devices,
        processes=_processes(sections, handles),
        version="\n".join(sections.get("version", ("", []))[1]),
    )


_Sections = dict[str, tuple[str, list[str]]]


def _sections(text: str) -> _Sections:
    """The lines under each "=== NAME ARGUMENT"; an exit status belongs to the section above it."""
    found: _Sections = {}
    name, exited = "", ""
    for line in text.splitlines():
        mark, _space, argument = line.removeprefix("=== ").partition(" ")
        if not line.startswith("=== "):
            if name:
                found[name][1].append(line)
        elif mark == "exit":
            exited = f"{name} exit"
            found[exited] = (argument, [])
        else:
            name = mark
            found[name] = (argument, [])
    return found


def _argument(sections: _Sections, name: str) -> str:
    return sections.get(name, ("", []))[0]


def _prefixed(sections: _Sections, name: str, path: str) -> Iterator[tuple[str, str]]:
    """grep's "FILE:LINE" as what the pattern of FILE captures, and LINE."""
    pattern = re.compile(path + ":(.*)")
    for line in sections.get(name, ("", []))[1]:
        match = pattern.fullmatch(line)
        if match:
            yield match.group(1), match.group(match.re.groups)


def _answers(sections: _Sections) -> tuple[Answer | None, Answer | None]:
    stuck = _argument(sections, "stuck")
    if pid := whole(stuck):
        hung = Answer(None, "", stuck=pid)
        return hung, hung
    if "gpus" not in sections:
        return None, None
    seconds = _seconds(sections)
    return _answer(sections, "gpus", seconds), _answer(sections, "apps", seconds)


def _answer(sections: _Sections, name: str, seconds: float) -> Answer:
    status = _argument(sections, f"{name} exit")
    text = "\n".join(sections.get(name, ("", []))[1]).rstrip("\n")
    # timeout(1) ends with 124, or 137 when it took SIGKILL; no status at all means that not even that helped.
    code = whole(status)
    hung = code in (124, 137, None)
    return Answer(None if hung else code, text, seconds, timed_out=hung, unkillable=not status)


def _seconds(sections: _Sections) -> float:
    start, asked = (_argument(sections, name) for name in ("start", "asked"))
    return round(decimal(asked) - decimal(start), 2) if start and asked else 0.0


def _opened(sections: _Sections) -> tuple[dict[int, set[int]], tuple[int, ...]]:
    """The GPUs that each process has both open and mapped, and the node's own GPUs, all as minor numbers."""
    identities = _identities(sections)
    own = {
        identity: int(path.removeprefix("/dev/nvidia"))
        for path, identity in identities.items()
        if re.fullmatch(f"/dev/nvidia{DIGITS}", path)
    }
    mapped = set(_prefixed(sections, "mapped", f"/proc/({DIGITS})/maps"))
    found: dict[int, set[int]] = {}
    for line in sections.get("opened", ("", []))[1]:
        match = re.fullmatch(rf"/proc/({DIGITS})/fd (/proc/{DIGITS}/fd/{DIGITS}) \S*(/dev/nvidia{DIGITS})", line)
        # The device decides, not its name: another root directory may call another device by the same name.
        if match and (match.group(1), match.group(3)) in mapped and identities.get(match.group(2)) in own:
            found.setdefault(int(match.group(1)), set()).add(own[identities[match.group(2)]])
    return found, tuple(sorted(own.values()))


def _identities(sections: _Sections) -> dict[str, str]:
    """Path to identity: the device number of a device, device and inode of anything else."""
    found = {}
    for line in sections.get("devices", ("", []))[1]:
        path, _space, numbers = line.rpartition(" ")[0].rpartition(" ")
        found[path] = numbers if numbers != "0:0" else line.rpartition(" ")[2]
    return found


def _processes(sections: _Sections, handles: dict[int, set[int]]) -> dict[int, Process]:
    files: dict[int, dict[str, list[str]]] = {}
    for line in sections.get("processes", ("", []))[1]:
        match = re.fullmatch(f"/proc/({DIGITS})/(stat|cmdline|status|cgroup):(.*)", line)
        if match:
            files.setdefault(int(match.group(1)), {}).setdefault(match.group(2), []).append(match.group(3))
    hostnames = {
        int(vmid): name.partition(":")[2].strip()
        for vmid, name in _prefixed(sections, "names", rf"/etc/pve/nodes/[^/]+/lxc/({DIGITS})\.conf")
    }
    uptime = decimal(_argument(sections, "asked"))
    return {
        pid: _process(pid, {name: "\n".join(lines) for name, lines in texts.items()}, handles, hostnames, uptime)
        for pid, texts in files.items()
        if "stat" in texts
    }


def _process(
    pid: int, texts: dict[str, str], handles: dict[int, set[int]], hostnames: dict[int, str], uptime: float
) -> Process:
    parent, started = start_of(texts["stat"])
    vmid = vmid_of(texts.get("cgroup", ""))
    inside = [whole(word) for word in texts.get("status", "").split()[1:]]
    return Process(
        pid=pid,
        parent=parent,
        argv=argv_of(texts.get("cmdline", ""), texts["stat"], _SEPARATOR),
        age=max(0, int(uptime - started)) if uptime else None,
        opened=frozenset(handles.get(pid, ())),
        vmid=vmid,
        container=hostnames.get(vmid) if vmid is not None else None,
        # The first number counts where /proc was read, the next one in the container.
        inside=inside[1] if vmid is not None and len(inside) > 1 else None,
    )


def vmid_of(cgroup: str) -> int | None:
    """The container that a line of /proc/PID/cgroup names; None for a process of the node itself.

    Proxmox VE writes /lxc/200/ns/…, LXC by itself lxc.payload.200/…, and either may stand under a slice of systemd.
    """
    match = re.search(rf"[:/](?:lxc/|lxc\.payload[./])({DIGITS})(?=[-/]|$)", cgroup)
    return int(match.group(1)) if match else None
