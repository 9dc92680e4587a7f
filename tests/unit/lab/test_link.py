# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A link that can be cut relays byte by byte, and exactly so many before it is."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator

import pytest

from lab.instance import Instance
from lab.link import Link, link

NET = 251  # which no lab has


@contextlib.contextmanager
def linked() -> Iterator[tuple[Link, socket.socket, socket.socket, socket.socket]]:
    """A link, the server behind it, a client's connection over it, and that connection's end at the server."""
    with socket.create_server((f"127.0.{NET}.11", 0)) as server:
        lab = Instance("of-a-test", NET, server.getsockname()[1])
        with link(lab, "pve1") as made, connected(made, server) as (client, end):
            yield made, server, client, end


@contextlib.contextmanager
def connected(made: Link, server: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_connection((made.address, made.port), timeout=30) as client:
        end, _address = server.accept()
        with end:
            end.settimeout(30)
            yield client, end


def received(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := end.recv(count - len(data))):
        data += more
    return data


def test_what_is_sent_arrives_either_way_and_is_counted() -> None:
    with linked() as (made, _server, client, end):
        client.sendall(b"x" * 100_000)
        assert received(end, 100_000) == b"x" * 100_000
        end.sendall(b"answer")
        assert received(client, 6) == b"answer"
        client.shutdown(socket.SHUT_RDWR)
        assert end.recv(1) == b""
        assert made.passed == {"node": 100_000, "controller": 6}


def test_exactly_so_many_bytes_go_before_the_action() -> None:
    with linked() as (made, _server, client, end):
        come, on = threading.Event(), threading.Event()

        def action() -> None:
            come.set()
            on.wait()

        made.arm("node", 10, action)
        client.sendall(b"0123456789abc")
        assert come.wait(30)
        assert received(end, 10) == b"0123456789"
        assert not select.select([end], [], [], 0)[0]
        on.set()
        assert received(end, 3) == b"abc"


def test_a_cut_resets_both_ends() -> None:
    with linked() as (made, _server, client, end):
        made.arm("node", 4, lambda: made.cut("reset"))
        client.sendall(b"0123456789")
        assert received(end, 4) == b"0123"
        for one in (client, end):
            with pytest.raises(ConnectionResetError):
                received(one, 1)
                pytest.fail("an end of file, and no reset")


def test_a_silent_link_says_nothing_to_anybody_and_a_later_one_is_relayed() -> None:
    with linked() as (made, server, client, end):
        made.cut("silence")
        client.sendall(b"lost")
        client.shutdown(socket.SHUT_RDWR)
        with connected(made, server) as (later, its_end):
            later.sendall(b"x")
            assert received(its_end, 1) == b"x"
        assert not select.select([end], [], [], 0)[0]
