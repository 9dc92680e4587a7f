# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the tests of pct find on the node and in the containers, gone again after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .pct_cases import BOTH, Driver, W, node

PREPARE = f"""
mkdir -p {W}; cd {W}; umask 022
printf 'NEWCONTENT\\n' >src.txt; chmod 640 src.txt; chown 33:33 src.txt
: >empty; head -c 10485760 /dev/urandom >10M
for ct in {" ".join(map(str, BOTH))}; do
    lxc-attach -n $ct --clear-env -- sh -c '
        grep -q ^bob: /etc/passwd || echo bob:*:1234:1234::/home/bob:/bin/sh >>/etc/passwd
        grep -q ^crew: /etc/group || printf "bob:x:1234:\\ncrew:x:4321:\\n" >>/etc/group'
done
"""
CLEAN_UP = f"""
rm -rf {W}
for ct in {" ".join(map(str, BOTH))}; do
    lxc-attach -n $ct --clear-env -- sh -c '
        rm -rf /root/t /root/h.txt /root/x /root/st /root/interrupted /root/another /root/growing /root/fifo /tmp/bobs
        sed -i /^bob:/d /etc/passwd; sed -i "/^bob:/d; /^crew:/d" /etc/group'
done
"""


@pytest.fixture(scope="module")
def quick_pct(lab_is_up: None) -> Iterator[None]:
    """Take the start-up time from pct."""
    switch = node().folder / "etc" / "pct.json"
    switch.write_text('{"startup": 0}\n', encoding="utf-8")
    yield
    switch.unlink()


@pytest.fixture(scope="session")
def driver(lab_is_up: None) -> Iterator[Driver]:
    """Runs functions of on_node.py on the node."""
    made = Driver()
    yield made
    made.end()


@pytest.fixture(scope="module")
def prepared(quick_pct: None) -> Iterator[None]:
    """Sources on the node, users in the containers."""
    node().check(["sh", "-c", PREPARE])
    yield
    node().check(["sh", "-c", CLEAN_UP])
