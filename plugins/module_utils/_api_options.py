# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of whoever asks the Proxmox VE API: declared, checked, and as one value."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible.module_utils.basic import env_fallback
from ansible_collections.trainops.proxmox.plugins.module_utils._api_errors import ApiUsage, Server, option

# None is required here: a module may do without the API. options_from() says what is missing.
API_ARGUMENT_SPEC: dict[str, Any] = {
    "api_host": {"type": "str", "fallback": (env_fallback, ["PROXMOX_HOST"])},
    "api_port": {"type": "int", "default": 8006, "fallback": (env_fallback, ["PROXMOX_PORT"])},
    "api_user": {"type": "str", "fallback": (env_fallback, ["PROXMOX_USER"])},
    "api_token_id": {"type": "str", "no_log": False, "fallback": (env_fallback, ["PROXMOX_TOKEN_ID"])},
    "api_token_secret": {"type": "str", "no_log": True, "fallback": (env_fallback, ["PROXMOX_TOKEN_SECRET"])},
    "ca_path": {"type": "path", "fallback": (env_fallback, ["PROXMOX_CA_PATH"])},
    "api_fingerprint": {"type": "str", "fallback": (env_fallback, ["PROXMOX_FINGERPRINT"])},
    "api_timeout": {"type": "float", "default": 35.0},
}
_NEEDED = {
    "api_host": "PROXMOX_HOST",
    "api_user": "PROXMOX_USER",
    "api_token_id": "PROXMOX_TOKEN_ID",
    "api_token_secret": "PROXMOX_TOKEN_SECRET",
}


@dataclass(frozen=True)
class ApiOptions:
    """How to reach an API. ``timeout`` is in seconds, ``fingerprint`` 64 hexadecimal digits."""

    host: str
    user: str
    token_id: str
    token_secret: str = field(repr=False)
    port: int = 8006
    ca_path: str | None = None
    fingerprint: str | None = None
    timeout: float = 35.0

    @property
    def server(self) -> Server:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return Server(f"{host}:{self.port}", f"{self.user}!{self.token_id}", self.token_secret)


def options_from(values: Mapping[str, Any]) -> ApiOptions:
    """The options of a module's parameters. Raises ApiUsage for what is missing or cannot be."""
    given = {name: str(values.get(name) or "").strip() for name in _NEEDED}
    user, bang, name = given["api_token_id"].partition("!")
    if bang:  # the full id, as Proxmox VE shows it, has the user in it
        if given["api_user"] not in ("", user):
            raise ApiUsage(f"{option('api_token_id')} is a token of {user}, and {option('api_user')} another user")
        given.update(api_user=user, api_token_id=name)
    missing = [name for name, value in given.items() if not value]
    if missing:
        variables = ", ".join(_NEEDED[name] for name in missing)
        raise ApiUsage(
            f"the Proxmox VE API cannot be asked without {', '.join(map(option, missing))}: set "
            f"{'it' if len(missing) == 1 else 'them'}, or {variables} in the environment"
        )
    return ApiOptions(
        host=_host(given["api_host"]),
        port=_port(values.get("api_port")),
        user=_user(given["api_user"]),
        token_id=_token_name(given["api_token_id"]),
        token_secret=_secret(given["api_token_secret"]),
        ca_path=values.get("ca_path") or None,
        fingerprint=_fingerprint(values.get("api_fingerprint")),
        timeout=_timeout(values.get("api_timeout")),
    )


def _host(host: str) -> str:
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    if not re.fullmatch(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?", bare) or len(bare) > 253:
        raise ApiUsage(
            f"{option('api_host')} is {host!r}, it must be a name or an address alone, such as pve1.example.com; a "
            f"port goes into {option('api_port')}"
        )
    return bare


def _port(port: Any) -> int:
    number = 8006 if port is None else int(port)
    if not 0 < number < 65536:
        raise ApiUsage(f"{option('api_port')} is {number}, it must be from 1 to 65535")
    return number


def _user(user: str) -> str:
    if not re.fullmatch(r"[^\s:/!@]+(?:@[^\s:/!@]+)*@[A-Za-z][A-Za-z0-9._-]+", user):
        raise ApiUsage(f"{option('api_user')} is {user!r}, it must have its realm, such as automation@pve or root@pam")
    return user


def _token_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]+", name):
        raise ApiUsage(f"{option('api_token_id')} is {name!r}, it must be a token's name, such as ansible")
    return name


def _secret(secret: str) -> str:
    # Never shown, not even in part. Libraries quote what they cannot send.
    if not re.fullmatch(r"[!-~]+", secret):
        raise ApiUsage(
            f"{option('api_token_secret')} has spaces, line breaks or other characters that no secret of a token has: "
            "it is what pveum user token add showed, such as 12345678-1234-1234-1234-123456789abc"
        )
    return secret


def _fingerprint(text: Any) -> str | None:
    if not text:
        return None
    digits = re.sub(r"^sha-?256[:=]|[:\s]", "", str(text).strip().lower())
    if not re.fullmatch("[0-9a-f]{64}", digits):
        raise ApiUsage(
            f"{option('api_fingerprint')} is {str(text)!r}, it must be a SHA-256 fingerprint: 64 hexadecimal digits, "
            "with or without colons, as pvenode cert info shows it on the node"
        )
    return digits


def _timeout(seconds: Any) -> float:
    value = 35.0 if seconds is None else float(seconds)
    if not 0 < value <= 3600:
        raise ApiUsage(f"{option('api_timeout')} is {value:g}, it must be more than 0 and at most 3600 seconds")
    return value
