# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A link to a node that can be cut: a relay on a loopback address of its own, in front of the node's OpenSSH server."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from .errors import LabError
from .instance import Instance

#: Where bytes go: to the node, or back to the controller.
Way = Literal["node", "controller"]
#: How a link ends: both ends get a reset, or nothing arrives any more and nobody is told.
Manner = Literal["reset", "silence"]

_PIECE = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no time: close() sends RST


@dataclass(eq=False)
class _Relayed:
    """A connection of a client and the one to the server behind it."""

    client: socket.socket
    server: socket.socket
    silent: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Trap:
    """What is to happen once so many more bytes have gone one way."""

    way: Way
    left: int
    action: Callable[[], None]


class Link:
    """Relays connections until it is closed. Byte counts start at 0 and run over all connections."""

    def __init__(self, lab: Instance, node: str, port: int = 0) -> None:
        self._target = (lab.address(node), lab.port)
        self._lock = threading.Lock()
        self._open: set[_Relayed] = set()
        self._trap: _Trap | None = None
        self._refusing = False
        self.passed: dict[Way, int] = {"node": 0, "controller": 0}
        try:
            self._listener = socket.create_server((lab.link_address(node), port), backlog=64)
        except OSError as exc:
            raise LabError(f"{lab.link_address(node)}:{port} is not to be had: {exc.strerror}") from exc
        self.address: str
        self.port: int
        self.address, self.port = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, way: Way, after: int, action: Callable[[], None]) -> None:
        """Call `action` once `after` more bytes have gone that way; until it returns no more go there."""
        with self._lock:
            self._trap = _Trap(way, after, action)

    def disarm(self) -> None:
        """Forget the action that was not called yet."""
        with self._lock:
            self._trap = None

    def cut(self, how: Manner) -> None:
        """End the connections that there are; later ones are relayed."""
        for relayed in self._relayed():
            if how == "silence":
                relayed.silent.set()
            else:
                _end(relayed, reset=True)

    def refuse(self, refusing: bool = True) -> None:
        """Let later connections fall silent from their first byte on, or relay them again."""
        self._refusing = refusing

    def close(self) -> None:
        """Give the address back and end every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or accept() would wait on
        self._listener.close()
        for relayed in self._relayed():
            _end(relayed, reset=True)

    def _relayed(self) -> list[_Relayed]:
        with self._lock:
            return list(self._open)

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            relayed = _Relayed(client, socket.socket())
            if self._refusing:
                relayed.silent.set()
            with self._lock:
                self._open.add(relayed)  # before the server can know of it: no cut overlooks one that the server has
            if not self._connect(relayed):
                continue
            for way in ("node", "controller"):
                threading.Thread(target=self._pump, args=(relayed, way), daemon=True).start()

    def _connect(self, relayed: _Relayed) -> bool:
        """Connect to the server; False when it is not to be reached, or the link was cut meanwhile."""
        try:
            relayed.server.settimeout(20)
            relayed.server.connect(self._target)
            relayed.server.settimeout(None)
        except OSError:
            relayed.over.set()
        if relayed.over.is_set():
            self._forget(relayed)
            relayed.client.close()
            relayed.server.close()
        return not relayed.over.is_set()

    def _forget(self, relayed: _Relayed) -> None:
        with self._lock:
            self._open.discard(relayed)

    def _pump(self, relayed: _Relayed, way: Way) -> None:
        """Relay one way until an end is closed or the link is cut."""
        source, sink = relayed.client, relayed.server
        if way == "controller":
            source, sink = sink, source
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                while data:
                    if relayed.silent.is_set():
                        relayed.over.wait()
                        return
                    data = self._send(sink, data, way)
        if relayed.silent.is_set():
            relayed.over.wait()  # an end that is closed is not heard of at the other one
            return
        _end(relayed, reset=False)
        self._forget(relayed)

    def _send(self, sink: socket.socket, data: bytes, way: Way) -> bytes:
        """Send what may go before the trap springs, and spring it when that is all; what is still to be sent."""
        with self._lock:
            trap = self._trap if self._trap and self._trap.way == way else None
            count = min(len(data), max(trap.left, 0)) if trap else len(data)
            self.passed[way] += count
            sprung = trap is not None and trap.left <= count
            if trap:
                trap.left -= count
            if sprung:
                self._trap = None
        sink.sendall(data[:count])
        if sprung and trap:
            trap.action()
        return data[count:]


def _end(relayed: _Relayed, reset: bool) -> None:
    relayed.over.set()
    for end in (relayed.client, relayed.server):
        with contextlib.suppress(OSError):
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)  # wakes the thread that reads
            if reset:
                end.close()


@contextlib.contextmanager
def link(lab: Instance, node: str, port: int = 0) -> Iterator[Link]:
    """A link to a node for as long as the block lasts."""
    made = Link(lab, node, port)
    try:
        yield made
    finally:
        made.close()
