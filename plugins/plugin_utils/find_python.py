# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Some Python of a container that the worker can run in, found by sh alone: where none is known yet."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

# Runs in the container: $1 nonce, $2 an interpreter that is asked first, $3 the training root; both may be empty. Near
# and cheap places come first, and the first one that is fit ends it. A program is only started when it, the link to it
# and the folders of its environment are root's: whoever owns these decides what runs. The one that the user named is
# the user's choice.
_FIND = r"""
nonce=$1 wished=$2 root=$3
set +eu
LC_ALL=C
export LC_ALL
say() { printf '%s %s\n' "$nonce" "$*"; }
command -v timeout >/dev/null 2>&1 || timeout() { shift; "$@"; }
left=12
ask() {
  [ "$left" -gt 0 ] || exit 0
  left=$((left - 1))
  version=$(timeout 5 "$1" -I -S -B -c 'import sys; print(sys.version.split()[0])' </dev/null 2>/dev/null)
  [ -n "$version" ] || return
  say tried "$version" "$1"
  case $version in 3.9*|3.[1-9][0-9]*|[4-9].*) say use "$1"; exit 0 ;; esac
}
foreign() {
  bin=${1%/*}
  for one in "$1" "$bin" "${bin%/*}"; do [ -O "$one" ] || return 0; done
  [ -n "$(find "$1" "$bin" "${bin%/*}" -prune ! -user 0 2>/dev/null)" ]
}
look() {
  for place; do
    for file in "$place"/python "$place"/python3 "$place"/python3.[0-9] "$place"/python3.[0-9][0-9]; do
      [ -f "$file" ] && [ -x "$file" ] || continue
      if foreign "$file"; then say other "$file"; continue 2; fi
      ask "$file"
    done
  done
}
[ -z "$wished" ] || ask "$wished"
look /usr/bin /usr/local/bin
[ -z "$root" ] || look "$root"/*/bin "$root"/.[!.]*/bin
look /root/*/bin /root/.[!.]*/bin /venv/bin /opt/*/bin
look /root/*/envs/*/bin /root/.pyenv/versions/*/bin /root/.local/share/uv/python/*/bin /opt/*/envs/*/bin
look /opt/pyenv/versions/*/bin /home/*/*/bin /home/*/.[!.]*/bin
look /workspace/*/bin /workspace/.[!.]*/bin /srv/*/bin /data/*/bin /mnt/*/bin /app/*/bin /app/.[!.]*/bin
[ -z "$root" ] || look "$root"/*/*/bin
look /root/*/*/bin /opt/*/*/bin
exit 0
"""


@dataclass(frozen=True)
class Found:
    """``python`` is fit for the worker, None when none is; ``tried`` are (path, version) of those that answered.

    ``others`` are those that belong to another user, and were not started.
    """

    python: str | None
    tried: tuple[tuple[str, str], ...]
    others: tuple[str, ...]


def find_command(nonce: str, wished: str | None, root: str | None) -> str:
    """The shell command for the container."""
    return shlex.join(["/bin/sh", "-c", _FIND, "trainops", nonce, wished or "", root or ""])


def read_found(output: str, nonce: str) -> Found:
    """What it printed. Lines that are not of the agreed form are left out: whoever is root there wrote them."""
    python, tried, others = None, [], []
    for line in output.splitlines():
        mark, _space, rest = line.partition(" ")
        if mark != nonce:
            continue
        if match := re.fullmatch(r"use (/.+)", rest):
            python = match[1]
        elif match := re.fullmatch(r"tried (\d+\.\d\S*) (/.+)", rest):
            tried.append((match[2], match[1]))
        elif match := re.fullmatch(r"other (/.+)", rest):
            others.append(match[1])
    return Found(python, tuple(tried), tuple(others))
