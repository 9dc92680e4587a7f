# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What connects for requests: the certificate pinned, replies of a bounded size, and a connection that can be cut.

The timeouts of requests count for each read, so that a server that sends a byte now and then is read for ever; and it
reads and unpacks bodies of any size.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import ssl
import threading
from typing import Any

# A row of /cluster/resources takes about 500 bytes: a cluster of 10 000 guests fits.
MAX_REPLY = 8 * 1024 * 1024
_CHUNK = 64 * 1024


class Unreadable(Exception):
    """A reply that is not read. The text completes "<the server> answers with "."""


class Wire:
    """The sockets on which a question is asked right now. ``cut`` breaks them from another thread.

    They are held as duplicates, since TLS takes the original away and urllib3 closes it early.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[socket.socket] = []
        self._is_cut = False

    def hold(self, fd: int) -> None:
        """A socket is in use from now on."""
        with self._lock:
            held = socket.socket(fileno=os.dup(fd))
            self._held.append(held)
            if self._is_cut:
                _shut(held)

    def cut(self) -> None:
        """End every read and write on them, and on those that are still to come."""
        with self._lock:
            self._is_cut = True
            for held in self._held:
                _shut(held)

    def release(self) -> None:
        """The question has ended."""
        with self._lock:
            for held in self._held:
                held.close()
            self._held.clear()


def _shut(held: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was quicker
        held.shutdown(socket.SHUT_RDWR)


def adapter(ca_path: str | None, fingerprint: str | None, wire: Wire) -> Any:
    """An adapter for a session of requests, also for one that goes through a proxy. Its ``send`` raises Unreadable."""
    from requests.adapters import HTTPAdapter

    # A context of our own, since certificates that Proxmox VE made for itself lack an identifier on which those of
    # create_default_context and urllib3 insist from Python 3.13 on.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if fingerprint and not ca_path:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # urllib3 compares the certificate itself
    settings: dict[str, Any] = {"ssl_context": context, "assert_fingerprint": fingerprint}
    pools = _pools(wire)

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
            super().init_poolmanager(connections, maxsize, block, **kwargs, **settings)
            self.poolmanager.pool_classes_by_scheme = pools

        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            manager = super().proxy_manager_for(proxy, **kwargs, **settings)
            manager.pool_classes_by_scheme = pools
            return manager

        def send(self, request: Any, stream: bool = False, *args: Any, **kwargs: Any) -> Any:
            response = super().send(request, True, *args, **kwargs)
            try:
                # Without urllib3's methods on it nothing is unpacked later either.
                body = io.BytesIO(_body(response))
                response.raw.release_conn()
            except BaseException:
                response.raw.close()
                raise
            response.raw = body
            return response

    return Adapter()


def _pools(wire: Wire) -> dict[str, Any]:
    """urllib3's pools, with connections that tell ``wire`` of their socket."""
    from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

    Base: Any = HTTPSConnectionPool.ConnectionCls

    class Connection(Base):  # type: ignore[misc]
        def _new_conn(self) -> Any:
            made = super()._new_conn()
            wire.hold(made.fileno())
            return made

        def request(self, *args: Any, **kwargs: Any) -> Any:
            if self.sock is not None:  # kept from the question before
                wire.hold(self.sock.fileno())
            return super().request(*args, **kwargs)

    class Pool(HTTPSConnectionPool):
        ConnectionCls = Connection

    return {"http": HTTPConnectionPool, "https": Pool}


def _body(response: Any) -> bytes:
    """The body as it was sent. Raises Unreadable, and what urllib3 raises."""
    packed = str(response.headers.get("Content-Encoding") or "identity").strip().lower()
    if packed != "identity":  # which was asked for: a small reply may unpack to any size
        raise Unreadable("a packed body (Content-Encoding), which was not asked for")
    body = bytearray()
    # Not stream(), which reads a line of any length where chunks begin.
    while data := response.raw.read(_CHUNK, decode_content=False):
        body += data
        if len(body) > MAX_REPLY:
            raise Unreadable(f"more than {MAX_REPLY >> 20} MiB")
    return bytes(body)
