# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first code that runs in the container: ``python -c SOURCE NONCE DEADLINE``.

It must not need the rest of the package, since it is what brings it: the request begins with one line that holds a
length and that many bytes of zlib-compressed JSON ``{module name: source}``.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
import zlib
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

PACKAGE = "trainops_worker"
BOOT_SECONDS = 40  # without a byte of the worker's own sources


class _Memory:
    """Finder and loader of the modules that came with the request."""

    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self._sources:
            return None
        return ModuleSpec(
            name,
            self,  # type: ignore[arg-type]
            origin=f"<{name}>",
            is_package=name == PACKAGE,
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        exec(compile(self._sources[name], f"<{name}>", "exec", dont_inherit=True), module.__dict__)

    def get_source(self, name: str) -> str:
        return self._sources[name]


class Incoming(io.FileIO):
    """The end of the pipe from the controller; knows when something came over it last."""

    heard = 0.0

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self.heard = time.monotonic()
        return count


def _sources(incoming: io.BufferedReader[Any]) -> bytes:
    """The worker's sources. This process ends where nothing more comes: the link may have fallen silent."""
    signal.alarm(BOOT_SECONDS)
    size, data = int(incoming.readline()), b""
    while len(data) < size:
        signal.alarm(BOOT_SECONDS)  # anew, and its default action is the end
        piece = incoming.read1(size - len(data))
        if not piece:
            sys.exit(3)
        data += piece
    signal.alarm(0)
    return data


def _start() -> None:
    if sys.version_info < (3, 9):  # noqa: UP036 - this line is for those who name an older one
        sys.exit(f"this is Python {sys.version_info[0]}.{sys.version_info[1]}")
    # The operation's own children and prints must never reach the conversation: it moves to private descriptors.
    raw, outgoing, null = Incoming(os.dup(0)), os.dup(1), os.open(os.devnull, os.O_RDWR)
    incoming = io.BufferedReader(raw)
    os.dup2(null, 0)
    os.dup2(null, 1)
    sys.path[:] = [entry for entry in sys.path if entry]
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _Memory(json.loads(zlib.decompress(_sources(incoming)))))
    from trainops_worker.channel import serve  # type: ignore[import-not-found] # it exists from here on

    serve(incoming, outgoing, nonce=sys.argv[1], deadline=float(sys.argv[2]))


if __name__ == "__main__":
    _start()
