# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong when the Proxmox VE API is asked, as types, and the sentences for its answers.

Texts and statuses are those of pve-http-server and pve-access-control; the server tells the same thing in the reason
phrase (all versions), in the body (since Proxmox VE 8.3), or nowhere (a proxy in between).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

_LONGEST = 300  # characters of what a server said
_NODE_DOWN = (595, 596, 597, 599)  # AnyEvent::HTTP, when the node that was asked cannot reach the other one
_BEHIND_A_PROXY = (502, 503, 504)
_REFUSED = re.compile(r"Permission check failed \((?P<path>/[^,)]*), (?P<privileges>[^)]+)\)")
_NOT_HERE = re.compile(r"[Cc]onfiguration file 'nodes/[^']*' does not exist")


class ApiError(Exception):
    """Base of all that can go wrong. ``message`` names the host and the fix, ``kind`` is a short word for programs.

    ``passing`` says that asking again may help.
    """

    kind = "api"

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.passing = passing


class ApiUsage(ApiError):
    """An option is missing, or cannot be what it is set to."""

    kind = "options"


class ApiMissing(ApiError):
    """A Python package is missing where the module runs."""

    kind = "library"


class ApiUnreachable(ApiError):
    """Nothing answers, or not in time."""

    kind = "unreachable"


class ApiUntrusted(ApiError):
    """The server's certificate could not be verified."""

    kind = "untrusted"


class ApiDenied(ApiError):
    """The token is refused (401), or may not do this (403)."""

    kind = "denied"


class ApiNotFound(ApiError):
    """There is no such container."""

    kind = "not-found"


class ApiAnswer(ApiError):
    """An answer that a Proxmox VE API does not give here."""

    kind = "answer"


class NodeDown(ApiError):
    """The API answers, but the node that the question is about does not."""

    kind = "node-down"


class NotThere(ApiAnswer):
    """The container is not on the node that was asked."""


@dataclass(frozen=True)
class Server:
    """Whom is asked, as whom. ``address`` is host:port, ``token`` the full id; the secret only to blot it out."""

    address: str
    token: str
    secret: str = field(repr=False)

    @property
    def name(self) -> str:
        """How sentences call it."""
        return f"the Proxmox VE API at {self.address}"

    def clean(self, text: str) -> str:
        """``text`` of the server or of a library as a line that can be shown: short, printable, without the secret."""
        shown = text.replace(self.secret, "********") if self.secret else text
        shown = shown[: 10 * _LONGEST]  # it may be of any length
        line = " ".join("".join(char if char.isprintable() else " " for char in shown).split())
        return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def option(name: str) -> str:
    """An option with the variable that the playbooks set it from."""
    return f"{name} (variable proxmox_{name if name.startswith('api_') else 'api_' + name})"


def failure(server: Server, status: int, reason: str, body: bytes) -> ApiError:
    """The error that an answer other than 2xx means."""
    said = server.clean(_said(reason, body))
    if status == 401:
        return ApiDenied(
            f"{server.name} refuses the token {server.token} ({said or 'without a reason'}): either its secret is "
            "wrong, or there is no such user or token, or one of them is disabled or has expired. See pveum user token "
            f"list {server.token.partition('!')[0]} on a node, and set {option('api_token_secret')}"
        )
    if status == 403:
        return denied(server, said)
    if status in _NODE_DOWN:
        return NodeDown(f"{server.name} cannot reach the node in question: {status} {said}".rstrip(), passing=True)
    if _NOT_HERE.search(said):
        return NotThere(f"{server.name} says: {said}")
    if 300 <= status < 400:
        return _no_api(server, f"redirects ({status})")
    if status in _BEHIND_A_PROXY:
        return ApiUnreachable(
            f"what answers at {server.address} is a proxy without a Proxmox VE API behind it ({status} {said}): check "
            "that pveproxy runs there, or ask a node itself"
        )
    if _is_page(body) or status == 404:
        return _no_api(server, f"answers {status} {said}".rstrip())
    return ApiAnswer(f"{server.name} answers {status} {said}".rstrip())


def denied(server: Server, said: str) -> ApiDenied:
    """The error for a refused request; names the privilege and the path when the server told them."""
    found = _REFUSED.search(said)
    if not found:
        return ApiDenied(f"{server.name} does not let the token {server.token} ask this: {said or '403'}")
    return ApiDenied(
        f"{server.name} does not let the token {server.token} ask this: it has no {found['privileges']} on "
        f"{found['path']}. {grant(server, found['path'])}"
    )


def grant(server: Server, path: str) -> str:
    """How somebody with rights gives the token what reading needs."""
    return (
        f"Grant it on a node: pveum acl modify {path} --tokens '{server.token}' --roles PVEAuditor, "
        "and the same with --users for its user, since a token with privilege separation may only what both may"
    )


def odd(server: Server, body: bytes) -> ApiAnswer:
    """The error for an answer of 2xx that holds no data."""
    return _no_api(server, "answers with a web page" if _is_page(body) else "answers with something that is no data")


def _no_api(server: Server, what: str) -> ApiAnswer:
    return ApiAnswer(
        f"{server.address} {what}, which a Proxmox VE API does not: check {option('api_host')} and {option('api_port')}"
    )


def _said(reason: str, body: bytes) -> str:
    """What a server said: the body's message, else the reason phrase; what it said of parameters after it."""
    values = _json(body)
    text = str(values.get("message") or "").strip() or reason
    errors = values.get("errors")
    if isinstance(errors, dict) and errors:
        text += "".join(f" {name}: {str(why).strip()}" for name, why in sorted(errors.items()))
    return text


def _json(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _is_page(body: bytes | None) -> bool:
    return (body or b"").lstrip()[:1] == b"<"
