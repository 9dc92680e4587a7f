# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every way in which a question to the API can fail, with real TLS and real answers on loopback."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.module_utils import _api_http
from ansible_collections.trainops.proxmox.plugins.module_utils._api_errors import NodeDown, NotThere
from ansible_collections.trainops.proxmox.plugins.module_utils._api_http import Http
from ansible_collections.trainops.proxmox.plugins.module_utils.api import (
    ApiAnswer,
    ApiDenied,
    ApiError,
    ApiMissing,
    ApiUnreachable,
    ApiUntrusted,
    ApiUsage,
)

from tests.unit.api_servers import HOST, SECRET, Certificate, Odd, Reply, certificate, odd, options

HTML = "<html><body>502 Bad Gateway</body></html>"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_api_http, "_PAUSES", (0.0, 0.0))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate(tmp_path_factory.mktemp("tls"))


def http(port: int, **changed: Any) -> Http:
    given = options(port, **changed)
    return Http(given.server, given.host, given.port, given.timeout, given.ca_path, given.fingerprint)


def failing(asked: Http) -> ApiError:
    """The error of a question. The secret is nowhere in it, nor in what it came from."""
    with pytest.raises(ApiError) as caught:
        asked.get("version")
    error: BaseException | None = caught.value
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    while error is not None:
        assert SECRET not in f"{error!r} {vars(error)}"
        assert not hasattr(error, "request")
        error = error.__cause__ or error.__context__
    return caught.value


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (Reply(401, "", "No ticket"), ApiDenied, "refuses the token automation@pve!lab (No ticket): either its secret"),
        (Reply(401, "", "Authentication failed!"), ApiDenied, "or there is no such user or token, or one of them is"),
        (Reply(401, "", f"bad {SECRET}"), ApiDenied, "(bad ********)"),
        (
            Reply(403, '{"data":null,"message":"Permission check failed (/vms/200, VM.Audit)\\n"}'),
            ApiDenied,
            (
                "it has no VM.Audit on /vms/200. Grant it on a node: pveum acl modify /vms/200 --tokens "
                "'automation@pve!lab' --roles PVEAuditor"
            ),
        ),
        (Reply(403, '{"data":null}', "Permission check failed (/, Sys.Audit)"), ApiDenied, "no Sys.Audit on /."),
        (Reply(403, "", "Permission check failed (user != root@pam)"), ApiDenied, "(user != root@pam)"),
        (Reply(500, '{"data":null,"message":"cluster not ready\\n"}'), ApiAnswer, "answers 500 cluster not ready"),
        (Reply(500, '{"data":null}', "got timeout"), ApiAnswer, "answers 500 got timeout"),
        (Reply(500, "[1]", "odd"), ApiAnswer, "answers 500 odd"),
        (Reply(500, "\x1b[31mred", "bold\x1b[1m"), ApiAnswer, "answers 500 bold [1m"),
        (
            Reply(400, '{"data":null,"errors":{"type":"not in the enumeration"}}', "Parameter verification failed."),
            ApiAnswer,
            "answers 400 Parameter verification failed. type: not in the enumeration",
        ),
        (Reply(500, '{"message":"Configuration file \'nodes/a/lxc/1.conf\' does not exist"}'), NotThere, "nodes/a/"),
        (Reply(595, "", "No route to host"), NodeDown, "cannot reach the node in question: 595 No route to host"),
        (Reply(596, "", "Connection timed out"), NodeDown, "596 Connection timed out"),
        (Reply(599, "", "Too many redirections"), NodeDown, "599"),
        (Reply(502, HTML, "Bad Gateway"), ApiUnreachable, "is a proxy without a Proxmox VE API behind it (502 Bad"),
        (Reply(500, HTML, "Oops"), ApiAnswer, "answers 500 Oops, which a Proxmox VE API does not: check api_host"),
        (Reply(404, "Not Found", "Not Found"), ApiAnswer, "answers 404 Not Found, which a Proxmox VE API does not"),
        (Reply(501, '{"message":"Method \'GET /x\' not implemented"}'), ApiAnswer, "answers 501 Method 'GET /x' not"),
        (Reply(200, HTML), ApiAnswer, "answers with a web page, which a Proxmox VE API does not: check api_host"),
        (Reply(200, "hello"), ApiAnswer, "answers with something that is no data"),
        (Reply(200, '{"success":1}'), ApiAnswer, "answers with something that is no data"),
        (Reply(200, "[1, 2]"), ApiAnswer, "answers with something that is no data"),
        (Reply(200, "3"), ApiAnswer, "answers with something that is no data"),
        (Reply(302, "", "Found", {"Location": "http://127.0.0.1:9/"}), ApiAnswer, "redirects (302), which"),
        (Reply(301, "", "Moved", {"Location": "/elsewhere"}), ApiAnswer, "redirects (301), which"),
        (Reply(304, "", "Not Modified"), ApiAnswer, "redirects (304), which"),
        (Reply(200, "{}", "", {"Content-Length": "999", "Connection": "close"}), ApiUnreachable, "broke"),
        (Reply(0), ApiUnreachable, "broke"),
    ],
)
def test_an_odd_answer_is_one_sentence(reply: Reply, kind: type[ApiError], said: str, served: Certificate) -> None:
    with odd([reply], served) as server:
        error = failing(http(server.server_port, ca_path=str(served.authority)))
    assert type(error) is kind, error.message
    assert said in error.message
    assert f"{HOST}:{server.server_port}" in error.message
    assert error.message.isprintable()
    assert len(server.asked) == (3 if error.passing else 1)


def test_data_are_given_as_they_are(served: Certificate) -> None:
    with odd([Reply(body='{"data": {"errors": "3", "a": [1]}}')], served) as server:
        asked = http(server.server_port, ca_path=str(served.authority))
        assert asked.get("a/b", {"type": "vm", "current": 1}) == {"errors": "3", "a": [1]}
        assert server.asked == ["/api2/json/a/b?type=vm&current=1"]
        assert server.headers[0]["Authorization"] == f"PVEAPIToken=automation@pve!lab={SECRET}"


@pytest.mark.parametrize("passing", [Reply(595, "", "Connection refused"), Reply(596), Reply(599), Reply(0)])
def test_what_passes_is_asked_again(passing: Reply, served: Certificate) -> None:
    with odd([passing, passing, Reply()], served) as server:
        assert http(server.server_port, ca_path=str(served.authority)).get("version") == []
        assert len(server.asked) == 3


@pytest.mark.parametrize("lasting", [Reply(401), Reply(403), Reply(500), Reply(200, HTML)])
def test_what_lasts_is_asked_once(lasting: Reply, served: Certificate) -> None:
    with odd([lasting], served) as server:
        failing(http(server.server_port, ca_path=str(served.authority)))
        assert len(server.asked) == 1


def test_without_patience_there_is_one_attempt(served: Certificate) -> None:
    with odd([Reply(595)], served) as server:
        with pytest.raises(NodeDown):
            http(server.server_port, ca_path=str(served.authority)).get("version", patient=False)
        assert len(server.asked) == 1


def test_an_answer_that_does_not_come_is_waited_for_once(served: Certificate) -> None:
    with odd([Reply()], served) as server:
        server.go_on.clear()
        asked = http(server.server_port, ca_path=str(served.authority), timeout=0.3)
        error = failing(asked)
        assert len(server.asked) == 1
        server.go_on.set()
        assert asked.get("version") == []
        server.replies = [Reply(headers={"Content-Length": "999"})]
        half = failing(asked)
    assert half.message == error.message
    assert isinstance(error, ApiUnreachable)
    assert "does not answer in time" in error.message
    assert "api_timeout (variable proxmox_api_timeout), which is 0.3 s" in error.message


def test_what_an_attempt_was_told_counts_when_the_next_is_too_late(served: Certificate) -> None:
    with odd([Reply(595, "", "No route to host"), Reply(headers={"Content-Length": "999"})], served) as server:
        error = failing(http(server.server_port, ca_path=str(served.authority), timeout=0.5))
        assert isinstance(error, NodeDown)
        assert len(server.asked) == 2


# --- answers without end


class Raw:
    """Says what it is given for each connection, then drips ``drip`` until the other side or the test ends it."""

    def __init__(self, served: Certificate | None, says: bytes, drip: bytes, pause: float) -> None:
        self._says, self._drip, self._pause = says, drip, pause
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if served else None
        if self._context and served:
            self._context.load_cert_chain(served.served, served.key)
        self._over = threading.Event()
        #: The other side has ended a connection.
        self.broken = threading.Event()
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._speak, args=(client,), daemon=True).start()

    def _speak(self, client: socket.socket) -> None:
        try:
            if self._context:
                client = self._context.wrap_socket(client, server_side=True)
                client.recv(65536)
            client.sendall(self._says)
            while not self._over.wait(self._pause):
                client.sendall(self._drip)
        except OSError:
            self.broken.set()
        finally:
            client.close()


OK = b"HTTP/1.1 200 OK\r\n"
DRIPPING = [
    ("a handshake", False, b"\x16\x03\x03\x40\x00\x02", b"\x00"),
    ("a status line", True, b"HTTP/1.1 200 ", b"O"),
    ("one header", True, OK + b"X: ", b"x"),
    ("headers", True, OK, b"X: x\r\n"),
    ("answers before the answer", True, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ("a body", True, OK + b"Content-Length: 99999\r\n\r\n", b" "),
    ("a body until the end", True, OK + b"Connection: close\r\n\r\n", b" "),
    ("chunks", True, OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ("where a chunk begins", True, OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    ("an error's body", True, b"HTTP/1.1 500 Oops\r\nContent-Length: 99999\r\n\r\n", b" "),
]


@pytest.mark.parametrize(("tls", "says", "drip"), [case[1:] for case in DRIPPING], ids=[case[0] for case in DRIPPING])
def test_what_drips_is_cut_off_in_time(tls: bool, says: bytes, drip: bytes, served: Certificate) -> None:
    with Raw(served if tls else None, says, drip, 0.05) as server:
        asked = http(server.port, fingerprint=served.fingerprint, timeout=0.6)
        # Each pause is far below the timeout, and nothing else ends it: without a deadline this would go on for ever.
        assert "does not answer in time" in failing(asked).message
        assert server.broken.wait(30), "the connection was left open"


def test_the_time_counts_for_a_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(*_args: Any, **_kwargs: Any) -> Any:
        go_on.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    error = failing(http(8006, host="pve9.example.com", fingerprint="0" * 64, timeout=0.3))
    go_on.set()
    assert "does not answer in time" in error.message


FLOODS = [
    ("until the end", OK + b"\r\n", b" " * 65536, "with more than 8 MiB"),
    ("chunks", OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n%s\r\n" % (b" " * 65536), "with more than 8 MiB"),
    ("a length", OK + b"Content-Length: 99999999999\r\n\r\n", b" " * 65536, "with more than 8 MiB"),
    ("an error", b"HTTP/1.1 500 Oops\r\n\r\n", b" " * 65536, "with more than 8 MiB"),
    ("a redirect", b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", b" " * 65536, "with more than 8 MiB"),
    ("one header", OK + b"X: ", b"x" * 65536, "broke"),
    ("a chunk's size", OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 65536, "broke"),
]


@pytest.mark.parametrize(("says", "drip", "said"), [case[1:] for case in FLOODS], ids=[case[0] for case in FLOODS])
def test_a_flood_is_not_read_to_its_end(says: bytes, drip: bytes, said: str, served: Certificate) -> None:
    with Raw(served, says, drip, 0) as server:
        error = failing(http(server.port, fingerprint=served.fingerprint, timeout=30))
    assert said in error.message, error.message
    assert len(error.message) < 1000


def test_a_packed_answer_is_not_unpacked(served: Certificate) -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with Raw(served, head + bomb, b"", 0) as server:
        error = failing(http(server.port, fingerprint=served.fingerprint))
    assert isinstance(error, ApiAnswer)
    assert "answers with a packed body (Content-Encoding), which was not asked for" in error.message


def test_nothing_packed_is_asked_for(served: Certificate) -> None:
    with odd([Reply()], served) as server:
        assert http(server.server_port, ca_path=str(served.authority)).get("version") == []
        assert server.headers[0]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("body", ["[" * 200_000, '{"data":' * 200_000], ids=["lists", "tables"])
def test_an_answer_that_is_too_deep_is_one_sentence(status: int, body: str, served: Certificate) -> None:
    with odd([Reply(status, body, "Oops")], served) as server:
        error = failing(http(server.server_port, ca_path=str(served.authority)))
    assert isinstance(error, ApiAnswer)
    assert "nested too deep" in error.message


def test_an_answer_without_memory_for_it_is_one_sentence(served: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_args: Any, **_kwargs: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(json, "loads", none_left)
    with odd([Reply()], served) as server:
        error = failing(http(server.server_port, ca_path=str(served.authority)))
    assert "more than there is memory for" in error.message


def test_nothing_listens() -> None:
    with socket.create_server((HOST, 0)) as unused:
        port = unused.getsockname()[1]
    error = failing(http(port, fingerprint="0" * 64))
    assert isinstance(error, ApiUnreachable)
    assert f"the Proxmox VE API at {HOST}:{port} does not accept connections: check api_host" in error.message


def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_args: Any, **_kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = failing(http(8006, host="pve9.example.com", fingerprint="0" * 64))
    assert "at pve9.example.com:8006 has no address that this machine knows: correct api_host" in error.message


# --- TLS


@pytest.fixture
def server(served: Certificate) -> Iterator[Odd]:
    with odd([Reply()], served) as started:
        yield started


def test_the_right_fingerprint_is_enough(server: Odd, served: Certificate) -> None:
    assert http(server.server_port, fingerprint=served.fingerprint).get("version") == []
    both = http(server.server_port, fingerprint=served.fingerprint, ca_path=str(served.authority))
    assert both.get("version") == []


def test_another_fingerprint_is_told_with_that_of_the_server(server: Odd, served: Certificate) -> None:
    for ca_path in (None, str(served.authority)):
        error = failing(http(server.server_port, fingerprint="ab" * 32, ca_path=ca_path))
        assert isinstance(error, ApiUntrusted)
        assert f"fingerprint {_api_http.colons(served.fingerprint)}: if it was renewed" in error.message
    assert server.asked == []


def test_the_right_fingerprint_does_not_do_for_another_ca(server: Odd, served: Certificate, tmp_path: Path) -> None:
    other = certificate(tmp_path)
    error = failing(http(server.server_port, fingerprint=served.fingerprint, ca_path=str(other.authority)))
    assert isinstance(error, ApiUntrusted)


def test_an_unknown_ca(server: Odd, tmp_path: Path) -> None:
    for ca_path in (None, str(certificate(tmp_path).authority)):
        error = failing(http(server.server_port, ca_path=ca_path))
        assert isinstance(error, ApiUntrusted)
        assert "does not trust: set ca_path (variable proxmox_api_ca_path) to a copy of /etc/pve/pve-root-ca.pem" in (
            error.message
        )
    assert server.asked == []


def test_a_ca_of_the_system(server: Odd, served: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(served.authority))
    assert http(server.server_port).get("version") == []
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.authority))
    assert http(server.server_port).get("version") == []


@pytest.mark.parametrize(
    ("name", "days", "said"),
    [
        ("10.1.2.6", (-1, 30), "is for other names: set api_host"),
        (HOST, (-9, -2), "has expired: renew it on the node"),
        (HOST, (2, 9), "is not valid yet: check the clocks"),
    ],
)
def test_a_certificate_that_does_not_fit(name: str, days: tuple[int, int], said: str, tmp_path: Path) -> None:
    unfit = certificate(tmp_path, name, days)
    with odd([Reply()], unfit) as started:
        error = failing(http(started.server_port, ca_path=str(unfit.authority)))
        assert isinstance(error, ApiUntrusted)
        assert said in error.message
        assert http(started.server_port, fingerprint=unfit.fingerprint).get("version") == []


def test_a_server_without_tls() -> None:
    with odd([Reply()], None) as started:
        error = failing(http(started.server_port, fingerprint="0" * 64))
    assert "does not speak TLS there: check api_host" in error.message


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file or directory"), (b"nothing", "holds no certificates in PEM form")],
)
def test_a_ca_file_that_is_none(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    if content:
        path.write_bytes(content)
    with pytest.raises(ApiUsage, match=said):
        http(8006, ca_path=str(path))


class Tunnel:
    """A proxy that does CONNECT, to one connection after the other."""

    def __init__(self) -> None:
        self.listener = socket.create_server((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.seen: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            asked = client.recv(65536)
            self.seen.append(asked)
            host, port = asked.split()[1].decode().split(":")
            upstream = socket.create_connection((host, int(port)))
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


def test_pinned_through_a_proxy_too(server: Odd, served: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Tunnel()
    monkeypatch.setenv("HTTPS_PROXY", f"http://{HOST}:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    assert http(server.server_port, fingerprint=served.fingerprint).get("version") == []
    assert isinstance(failing(http(server.server_port, fingerprint="ab" * 32)), ApiUntrusted)
    assert isinstance(failing(http(server.server_port)), ApiUntrusted)
    assert len(server.asked) == 1
    assert len(proxy.seen) == 3
    assert SECRET.encode() not in b"".join(proxy.seen)
    proxy.listener.close()


# --- what is installed


@pytest.mark.parametrize("missing", ["requests", "proxmoxer"])
def test_a_missing_library_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ApiMissing, match=f"Failed to import the required Python library \\({missing}\\)"):
        http(8006)


def test_a_proxmoxer_that_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "proxmoxer"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "proxmoxer/backends").mkdir(parents=True)
    (tmp_path / "proxmoxer/__init__.py").touch()
    (tmp_path / "proxmoxer/backends/__init__.py").touch()
    (tmp_path / "proxmoxer/backends/https.py").write_text("import sys\nsys.exit(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ApiMissing, match="proxmoxer"):
        http(8006)
    for name in [name for name in sys.modules if name.partition(".")[0] == "proxmoxer"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
