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
    # Numbers are raw: AnsibleModule would quote what is none, and it may be a whole URL with a password.
    "api_port": {"type": "raw", "default": 8006, "fallback": (env_fallback, ["PROXMOX_PORT"])},
    "api_user": {"type": "str", "fallback": (env_fallback, ["PROXMOX_USER"])},
    "api_token_id": {"type": "str", "no_log": False, "fallback": (env_fallback, ["PROXMOX_TOKEN_ID"])},
    "api_token_secret": {"type": "str", "no_log": True, "fallback": (env_fallback, ["PROXMOX_TOKEN_SECRET"])},
    "ca_path": {"type": "path", "fallback": (env_fallback, ["PROXMOX_CA_PATH"])},
    "api_fingerprint": {"type": "str", "fallback": (env_fallback, ["PROXMOX_FINGERPRINT"])},
    "api_timeout": {"type": "raw", "default": 35},
}
_NEEDED = {
    "api_host": "PROXMOX_HOST",
    "api_user": "PROXMOX_USER",
    "api_token_id": "PROXMOX_TOKEN_ID",
    "api_token_secret": "PROXMOX_TOKEN_SECRET",
}
_HIDDEN = "********"
# How a token's secret looks, and what may stand before the host in an address.
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_USERINFO = re.compile(r".*@", re.DOTALL)


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
            raise ApiUsage(
                f"{option('api_token_id')} is a token of {_shown(user)}, and {option('api_user')} another user"
            )
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
        ca_path=_ca_path(values.get("ca_path")),
        fingerprint=_fingerprint(values.get("api_fingerprint")),
        timeout=_timeout(values.get("api_timeout")),
    )


def loose_secrets(values: Mapping[str, Any]) -> set[str]:
    """What may be a secret in options that are none, for a module's ``no_log_values``."""
    given = {name: str(values.get(name) or "").strip() for name in ("api_host", "api_port", "api_user", "api_token_id")}
    found = {text.partition("=")[2] for text in given.values()}
    found |= {text for name in ("api_host", "api_port") for text in _passwords(given[name])}
    found |= {match for text in given.values() for match in _UUID.findall(text)}
    return {text for text in found if text}


def _passwords(address: str) -> list[str]:
    """What stands before the host of an address, as a whole and behind the user's name."""
    before = _USERINFO.match(address.partition("://")[2] or address)
    if not before:
        return []
    userinfo = before[0][:-1]
    return [userinfo.partition(":")[2], userinfo]


def _shown(text: str) -> str:
    """An option's value as far as it can be shown: nothing from ``=`` on, no user of an address, no UUID."""
    safe, equals, _secret_part = text.partition("=")
    scheme, slashes, rest = safe.rpartition("://")
    safe = scheme + slashes + _USERINFO.sub(f"{_HIDDEN}@", rest, count=1) if slashes else safe
    return _UUID.sub(_HIDDEN, safe) + (f"={_HIDDEN}" if equals else "")


def _host(host: str) -> str:
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    if not re.fullmatch(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?", bare) or len(bare) > 253:
        # Of user:password@host nothing is worth showing, with or without https:// before it.
        shown = f"is {_shown(host)!r}, it" if "@" not in host or "://" in host else "has a user in it, and"
        raise ApiUsage(
            f"{option('api_host')} {shown} must be a name or an address alone, such as pve1.example.com; a "
            f"port goes into {option('api_port')}"
        )
    return bare


def _number(text: Any) -> float | None:
    if isinstance(text, bool) or not isinstance(text, (int, float, str)):
        return None
    try:
        return float(text)
    except (ValueError, OverflowError):
        return None


def _port(port: Any) -> int:
    if port is None or port == "":
        return 8006
    number = _number(port)
    if number is None or not number.is_integer():
        raise ApiUsage(f"{option('api_port')} is no whole number: set it from 1 to 65535, such as 8006")
    if not 0 < number < 65536:
        raise ApiUsage(f"{option('api_port')} is {number:.0f}, it must be from 1 to 65535")
    return int(number)


def _user(user: str) -> str:
    if not re.fullmatch(r"[^\s:/!@=]+(?:@[^\s:/!@=]+)*@[A-Za-z][A-Za-z0-9._-]+", user):
        shown = _shown(user)
        name, colon, _password = shown.partition(":")
        shown = f"{name}:{_HIDDEN}" if colon else shown
        raise ApiUsage(f"{option('api_user')} is {shown!r}, it must have its realm, such as automation@pve or root@pam")
    return user


def _token_name(name: str) -> str:
    bare, equals, _secret_part = name.partition("=")
    if equals:
        raise ApiUsage(
            f"{option('api_token_id')} has its secret behind {_shown(bare)!r}: set it to what is before the =, and "
            f"{option('api_token_secret')} to what is behind it"
        )
    if _UUID.search(name):
        raise ApiUsage(
            f"{option('api_token_id')} looks like a token's secret: set it to the token's name, such as ansible, and "
            f"the secret in {option('api_token_secret')}"
        )
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]+", name):
        raise ApiUsage(f"{option('api_token_id')} is {_shown(name)!r}, it must be a token's name, such as ansible")
    return name


def _ca_path(path: Any) -> str | None:
    text = str(path or "")
    if "-----" in text or not text.isprintable():  # a key may be among it
        raise ApiUsage(
            f"{option('ca_path')} holds the certificates themselves: set it to the path of a file with them, such as a "
            "copy of /etc/pve/pve-root-ca.pem of a node"
        )
    return text or None


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
            f"{option('api_fingerprint')} must be a SHA-256 fingerprint: 64 hexadecimal digits, with or without "
            "colons, as pvenode cert info shows it on the node"
        )
    return digits


def _timeout(seconds: Any) -> float:
    value = 35.0 if seconds is None or seconds == "" else _number(seconds)
    if value is None:
        raise ApiUsage(f"{option('api_timeout')} is no number: set it to seconds, such as 35")
    if not 0 < value <= 3600:
        raise ApiUsage(f"{option('api_timeout')} is {value:g}, it must be more than 0 and at most 3600 seconds")
    return value
