# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One question to the Proxmox VE API through proxmoxer, with every way in which it can fail made one of our errors.

proxmoxer 2.3 reads no error texts from bodies, returns pages as data, raises KeyError and AttributeError on odd
answers, cannot pin a certificate and ends the process when requests is missing.
"""

from __future__ import annotations

import os
import queue
import re
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any, Union

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.trainops.proxmox.plugins.module_utils._api_errors import (
    ApiAnswer,
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
from ansible_collections.trainops.proxmox.plugins.module_utils._api_wire import Unreadable, Wire, adapter

Parameters = Mapping[str, Union[str, int]]

CONNECT_SECONDS = 5.0
_PAUSES = (0.5, 2.0)  # seconds before each further attempt

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

    ``timeout`` are seconds for one question in all: name, connection, every attempt and the last byte of the answer.
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
        self._host = host
        self._port = port
        self._timeout = timeout
        self._ca_path = ca_path
        self._fingerprint = fingerprint
        self._libraries = _libraries()
        self._verify = _verify(ca_path, fingerprint)
        self._link: _Link | None = None

    def get(self, path: str, parameters: Parameters | None = None, patient: bool = True) -> Any:
        """The data of ``GET path``. Raises an ApiError, after three attempts where asking again may help.

        Without ``patient`` there is one attempt.
        """
        give_up = time.monotonic() + self._timeout
        pauses = iter(_PAUSES if patient else ())
        told: ApiError | None = None
        while True:
            try:
                data, error = self._once(path, parameters or {}, give_up - time.monotonic())
            except queue.Empty:
                error = told or self._late()  # what an attempt before was told says more
                break
            if error is None:
                return data
            told = error
            pause = next(pauses, None)
            if pause is None or not error.passing or time.monotonic() + pause >= give_up:
                break
            time.sleep(pause)
        raise error

    def _once(self, path: str, parameters: Parameters, seconds: float) -> tuple[Any, ApiError | None]:
        """One attempt, in a thread of its own, since nothing else bounds a look-up of a name or a slow answer.

        Raises queue.Empty when the seconds are over; the thread, cut off, is then left to itself.
        """
        link = self._link = self._link or self._connect()
        answers: queue.SimpleQueue[tuple[Any, ApiError | None]] = queue.SimpleQueue()
        threading.Thread(target=lambda: answers.put(self._ask(link, path, parameters)), daemon=True).start()
        try:
            return answers.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            link.wire.cut()
            self._link = None
            raise

    def _connect(self) -> _Link:
        user, _separator, name = self._server.token.partition("!")
        link = _Link(
            self._libraries.ProxmoxAPI(
                self._host,
                port=self._port,
                user=user,
                token_name=name,
                token_value=self._server.secret,
                verify_ssl=self._verify,
                timeout=(min(CONNECT_SECONDS, self._timeout), self._timeout),
            )
        )
        session = link.proxmox._store["session"]
        session.mount("https://", adapter(self._ca_path, self._fingerprint, link.wire))
        session.max_redirects = 0  # an API does not redirect, and another server is not to be asked
        session.headers["Accept-Encoding"] = "identity"
        session.hooks["response"].append(link.hear)
        return link

    def _ask(self, link: _Link, path: str, parameters: Parameters) -> tuple[Any, ApiError | None]:
        """Data, or an error that is returned and not raised: raised here it would carry the request with its token."""
        try:
            return self._data(link, path, parameters)
        except Unreadable as exc:
            what = str(exc)
        except RecursionError:
            what = "something that is nested too deep"
        except MemoryError:
            what = "more than there is memory for"
        except Exception as exc:  # of libraries whose every error nobody knows; its text may hold the token
            what = f"something that cannot be read ({type(exc).__name__})"
        finally:
            link.wire.release()
        return None, ApiAnswer(
            f"{self._server.name} answers with {what}: check {_OPTIONS['host']} and {_OPTIONS['port']}"
        )

    def _data(self, link: _Link, path: str, parameters: Parameters) -> tuple[Any, ApiError | None]:
        link.heard = None
        try:
            data = link.proxmox(path).get(**parameters)
        except self._libraries.Unanswered as exc:
            # Of a redirect the response was heard; of an answer that broke off too, and then its status means nothing.
            if link.heard is None or link.heard.status_code < 300:
                return None, self._unanswered(exc)
        except (self._libraries.ResourceException, KeyError, AttributeError, TypeError, ValueError):
            pass  # what was heard says more
        else:
            if link.heard is not None and link.heard.status_code < 300 and not _is_junk(data):
                return data, None
        return None, self._answered(link.heard)

    def _answered(self, heard: Any) -> ApiError:
        if heard is None:
            return ApiUnreachable(f"{self._server.name} gave no answer", passing=True)
        if heard.status_code < 300:
            return odd(self._server, heard.content)
        return failure(self._server, heard.status_code, heard.reason or "", heard.content)

    def _late(self) -> ApiError:
        return ApiUnreachable(
            f"{self._server.name} does not answer in time: check {_OPTIONS['host']} and the network, or raise "
            f"{option('api_timeout')}, which is {self._timeout:g} s",
            passing=True,
        )

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
            return self._late()
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


class _Link:
    """A session of proxmoxer, what was heard last on it, and the wire that it is on."""

    def __init__(self, proxmox: Any) -> None:
        self.proxmox = proxmox
        self.wire = Wire()
        self.heard: Any = None

    def hear(self, response: Any, *args: Any, **kwargs: Any) -> None:
        """For requests, with every response."""
        self.heard = response


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
