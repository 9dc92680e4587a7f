# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One question to the Proxmox VE API through proxmoxer, with every way in which it can fail made one of our errors.

proxmoxer 2.3 reads no error texts from bodies, returns pages as data, raises KeyError and AttributeError on odd
answers, cannot pin a certificate and ends the process when requests is missing.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Mapping
from typing import Any, Union

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.trainops.proxmox.plugins.module_utils._api_errors import (
    ApiError,
    ApiMissing,
    ApiUnreachable,
    ApiUntrusted,
    ApiUsage,
    Server,
    failure,
    odd,
    option,
)

Parameters = Mapping[str, Union[str, int]]

CONNECT_SECONDS = 5.0
_PAUSES = (0.5, 2.0)  # seconds before each further attempt
_PATIENCE = 1.5  # no further attempt after so many times the timeout

_NO_ANSWER = (
    (
        "Name or service not known|nodename nor servname|Temporary failure in name|getaddrinfo|Failed to resolve",
        "has no address that this machine knows: correct {host}",
    ),
    ("Connection refused", "does not accept connections: check {host} and {port}, and that pveproxy runs there"),
    ("No route to host|Network is unreachable", "cannot be reached from this machine: check {host} and the network"),
)
_UNTRUSTED = (
    (
        "Hostname mismatch|IP address mismatch|doesn't match",
        (
            "shows a certificate that is for other names: set {host} to one of them, or {fingerprint} to its "
            "SHA-256 fingerprint, which pvenode cert info shows on the node"
        ),
    ),
    ("certificate has expired", "shows a certificate that has expired: renew it on the node (pvecm updatecerts)"),
    ("not yet valid", "shows a certificate that is not valid yet: check the clocks"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        (
            "shows a certificate that this machine does not trust: set {ca} to a copy of /etc/pve/pve-root-ca.pem of a "
            "node, or {fingerprint} to the certificate's SHA-256 fingerprint, which pvenode cert info shows there"
        ),
    ),
    ("WRONG_VERSION_NUMBER|record layer failure|UNEXPECTED_EOF", "does not speak TLS there: check {host} and {port}"),
)
_OPTIONS = {
    "host": option("api_host"),
    "port": option("api_port"),
    "ca": option("ca_path"),
    "fingerprint": option("api_fingerprint"),
}


class Http:
    """The connection to one API. To be made in the process that uses it; nothing is sent before the first ``get``.

    ``ca_path`` is a file of certificates in PEM, ``fingerprint`` 64 hexadecimal digits; with a fingerprint the
    certificate itself is pinned, and its chain counts only when a CA is given too. Without both the system's CAs count.
    Raises ApiMissing, and ApiUsage for a CA that cannot be read.
    """

    def __init__(
        self,
        server: Server,
        host: str,
        port: int,
        timeout: float,
        ca_path: str | None = None,
        fingerprint: str | None = None,
    ) -> None:
        self._server = server
        self._timeout = timeout
        self._libraries = _libraries()
        user, _separator, name = server.token.partition("!")
        self._proxmox = self._libraries.ProxmoxAPI(
            host,
            port=port,
            user=user,
            token_name=name,
            token_value=server.secret,
            verify_ssl=_verify(ca_path, fingerprint),
            timeout=(min(CONNECT_SECONDS, timeout), timeout),
        )
        session = self._proxmox._store["session"]
        session.mount("https://", _adapter(ca_path, fingerprint))
        session.max_redirects = 0  # an API does not redirect, and another server is not to be asked
        session.hooks["response"].append(self._hear)
        self._heard: Any = None

    def _hear(self, response: Any, *args: Any, **kwargs: Any) -> None:
        self._heard = response

    def get(self, path: str, parameters: Parameters | None = None, patient: bool = True) -> Any:
        """The data of ``GET path``. Raises an ApiError, after three attempts where asking again may help.

        Without ``patient`` there is one attempt.
        """
        give_up = time.monotonic() + _PATIENCE * self._timeout
        pauses = iter(_PAUSES if patient else ())
        while True:
            data, error = self._once(path, parameters or {})
            if error is None:
                return data
            pause = next(pauses, None)
            if pause is None or not error.passing or time.monotonic() > give_up:
                raise error
            time.sleep(pause)

    def _once(self, path: str, parameters: Parameters) -> tuple[Any, ApiError | None]:
        """Data, or an error that is returned and not raised: raised here it would carry the request with its token."""
        self._heard = None
        try:
            data = self._proxmox(path).get(**parameters)
        except self._libraries.Unanswered as exc:
            # Of a redirect the response was heard; of an answer that broke off too, and then its status means nothing.
            if self._heard is None or self._heard.status_code < 300:
                return None, self._unanswered(exc)
        except (self._libraries.ResourceException, KeyError, AttributeError, TypeError, ValueError):
            pass  # what was heard says more
        else:
            if self._heard is not None and self._heard.status_code < 300 and not _is_junk(data):
                return data, None
        return None, self._answered()

    def _answered(self) -> ApiError:
        heard = self._heard
        if heard is None:
            return ApiUnreachable(f"{self._server.name} gave no answer", passing=True)
        if heard.status_code < 300:
            return odd(self._server, heard.content)
        return failure(self._server, heard.status_code, heard.reason or "", heard.content)

    def _unanswered(self, exc: Exception) -> ApiError:
        text = str(exc)
        server = self._server
        pinned = re.search(r'Fingerprints did not match\. Expected "\w+", got "(\w+)"', text)
        if pinned:
            return ApiUntrusted(
                f"{server.name} shows another certificate than {option('api_fingerprint')} says, with the SHA-256 "
                f"fingerprint {colons(pinned[1])}: if it was renewed, compare with pvenode cert info on the node and "
                "set the new one; else somebody is in between"
            )
        if isinstance(exc, self._libraries.Untrusted):
            for pattern, sentence in _UNTRUSTED:
                if re.search(pattern, text):
                    return ApiUntrusted(f"{server.name} {sentence.format(**_OPTIONS)}")
            return ApiUntrusted(f"{server.name}: TLS failed: {server.clean(text)}")
        if isinstance(exc, self._libraries.TimedOut) or "Read timed out" in text:  # within an answer
            return ApiUnreachable(
                f"{server.name} does not answer in time: check {_OPTIONS['host']} and the network, or raise "
                f"{option('api_timeout')}, which is {self._timeout:g} s",
                passing=True,
            )
        for pattern, sentence in _NO_ANSWER:
            if re.search(pattern, text):
                return ApiUnreachable(f"{server.name} {sentence.format(**_OPTIONS)}")
        return ApiUnreachable(f"the connection to {server.name} broke: {server.clean(text)}", passing=True)


def colons(digits: str) -> str:
    """A fingerprint as Proxmox VE shows it."""
    return ":".join(digits[at : at + 2] for at in range(0, len(digits), 2)).upper()


def _is_junk(data: Any) -> bool:
    """Whether this is what proxmoxer gives for an answer that is no JSON."""
    return isinstance(data, dict) and isinstance(data.get("errors"), bytes)


class _Libraries:
    """What is used of requests, urllib3 and proxmoxer."""

    def __init__(self, requests: Any, urllib3: Any, proxmoxer: Any) -> None:
        self.ProxmoxAPI = proxmoxer.ProxmoxAPI
        self.ResourceException = proxmoxer.ResourceException
        self.Unanswered = (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError)
        self.Untrusted = requests.exceptions.SSLError
        self.TimedOut = requests.exceptions.Timeout


def _libraries() -> _Libraries:
    missing = ""
    try:
        import requests
        import urllib3
    except ImportError:
        missing = "requests"
    else:
        try:
            import proxmoxer
            import proxmoxer.backends.https
        except (ImportError, SystemExit):  # its backend ends the process where it misses something
            missing = "proxmoxer"
        else:
            return _Libraries(requests, urllib3, proxmoxer)
    raise ApiMissing(missing_required_lib(missing, url="https://pypi.org/project/proxmoxer/"))


def _verify(ca_path: str | None, fingerprint: str | None) -> bool | str:
    """What requests takes for ``verify``. False only where the adapter pins the certificate."""
    if ca_path:
        return _checked(ca_path)
    if fingerprint:
        return False
    if os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE"):
        return True  # requests takes these in place of its own
    # Its own list is Mozilla's alone; a company's CA is among the system's.
    system = ssl.get_default_verify_paths()
    return system.cafile or system.capath or True


def _checked(ca_path: str) -> str:
    try:
        ssl.create_default_context(cafile=ca_path)
    except ssl.SSLError:
        why = "holds no certificates in PEM form"
    except OSError as exc:
        why = f"cannot be read: {exc.strerror}"
    else:
        return ca_path
    raise ApiUsage(f"{option('ca_path')} {ca_path} {why}: copy /etc/pve/pve-root-ca.pem of a node there")


def _adapter(ca_path: str | None, fingerprint: str | None) -> Any:
    """What connects for requests, also through a proxy."""
    from requests.adapters import HTTPAdapter

    # A context of our own, since certificates that Proxmox VE made for itself lack an identifier on which those of
    # create_default_context and urllib3 insist from Python 3.13 on.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if fingerprint and not ca_path:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # urllib3 compares the certificate itself
    settings: dict[str, Any] = {"ssl_context": context, "assert_fingerprint": fingerprint}

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **kwargs: Any) -> None:
            super().init_poolmanager(connections, maxsize, block, **kwargs, **settings)

        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            return super().proxy_manager_for(proxy, **kwargs, **settings)

    return Adapter()
