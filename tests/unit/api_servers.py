# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers for tests of the API: the fakepve that the lab mends, and one that answers whatever a test wants.

All listen on loopback, with certificates of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import ipaddress
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.module_utils.api import ApiOptions
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fakepve import FakeCt

from lab.pve_mended import MendedPve

HOST = "127.0.0.1"
SECRET = "5f0f6b6e-1c1d-4b0a-9f3e-0123456789ab"


@dataclass(frozen=True)
class Certificate:
    """Files in PEM form: what is served, its key, and the authority that signed it."""

    served: Path
    key: Path
    authority: Path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the served certificate, as hexadecimal digits."""
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.served.read_text())).hexdigest()


def certificate(folder: Path, name: str = HOST, days: tuple[int, int] = (-1, 30)) -> Certificate:
    """A certificate for an address, signed by an authority, without key identifiers, as Proxmox VE makes its own."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test Cluster Manager CA")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
    begin, end = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=day) for day in days)

    def signed(whose: x509.Name, public: Any, *extensions: tuple[x509.ExtensionType, bool]) -> bytes:
        builder = x509.CertificateBuilder().subject_name(whose).issuer_name(issuer).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))])
    made = Certificate(folder / "node.pem", folder / "node.key", folder / "ca.pem")
    made.authority.write_bytes(signed(issuer, authority_key.public_key(), (x509.BasicConstraints(True, None), True)))
    made.served.write_bytes(
        signed(subject, key.public_key(), (x509.BasicConstraints(False, None), False), (names, False))
    )
    form = serialization.PrivateFormat.PKCS8
    made.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return made


@dataclass(frozen=True)
class Reply:
    """What the odd server answers; an empty ``reason`` is what an HTTP/2 proxy leaves of one."""

    status: int = 200
    body: str = '{"data": []}'
    reason: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Odd(ThreadingHTTPServer):
    """Answers the replies one after the other, the last one for ever. ``asked`` are the paths."""

    daemon_threads = True

    def __init__(self, replies: Sequence[Reply]) -> None:
        super().__init__((HOST, 0), _Answer)
        self.replies = list(replies)
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        #: While this is not set no answer is given.
        self.go_on = threading.Event()
        self.go_on.set()

    def handle_error(self, *args: Any) -> None:
        """Who breaks off does so on purpose."""


class _Answer(BaseHTTPRequestHandler):
    server: Odd
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.headers.append(dict(self.headers))
        self.server.go_on.wait(30)
        reply = self.server.replies[0] if len(self.server.replies) == 1 else self.server.replies.pop(0)
        if not reply.status:
            self.close_connection = True
            return
        self.send_response_only(reply.status, reply.reason)
        for name, value in {"Content-Length": str(len(reply.body.encode())), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body.encode())

    def log_message(self, *args: Any) -> None:
        """Nothing is logged."""


@contextlib.contextmanager
def odd(replies: Sequence[Reply], served: Certificate | None) -> Iterator[Odd]:
    """The odd server; without a certificate it speaks no TLS."""
    server = Odd(replies)
    if served:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(served.served, served.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


def cluster() -> MendedPve:
    """Two nodes and three containers, and the tokens ``lab`` (everything) and ``narrow`` (200 alone)."""
    pve = MendedPve(host=HOST, port=0)
    pve.login_delay = 0.0
    pve.nodes.clear()
    for node, address in (("pve1", "10.1.2.6"), ("pve2", "10.1.2.7")):
        pve.set_node_offline(node, False)
        pve.addresses[node] = address
    for vmid, node in ((200, "pve1"), (202, "pve1"), (210, "pve2")):
        container = FakeCt(vmid, node=node, defaults=False, config={"hostname": f"train-{vmid}", "unprivileged": 1})
        container.status = "running"
        pve.cts.append(container)
    pve.add_token("automation@pve", "lab", SECRET, {"/": ("Sys.Audit",), "/vms": ("VM.Audit",)})
    pve.add_token("automation@pve", "narrow", SECRET, {"/vms/200": ("VM.Audit",)})
    return pve


@contextlib.contextmanager
def serving(pve: MendedPve, served: Certificate) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Have it served; gives what runs a change of the cluster in the server's thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(what: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(what, loop).result(30)

    async def call(change: Callable[[], object]) -> None:
        change()

    try:
        run(pve.start(str(served.served), str(served.key)))
        yield lambda change: run(call(change))
        run(pve.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def options(port: int, **changed: Any) -> ApiOptions:
    """How to reach a server of these as the token ``lab``."""
    given: dict[str, Any] = {"host": HOST, "port": port, "user": "automation@pve", "token_id": "lab"}
    return ApiOptions(**{**given, "token_secret": SECRET, **changed})
