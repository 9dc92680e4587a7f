# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupted deploys: what they say, word for word, and that none tears, lies or is left, at moments by chance."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import faults
from lab.api import Lab, bring_up
from lab.quota import quota
from tests.faults.__main__ import VMIDS, interrupted
from tests.faults.kinds import KINDS, Blow
from tests.faults.moments import BeforeStep
from tests.faults.place import FOLDER, ROOTS, Place, until
from tests.faults.plan import trials
from tests.faults.table import FAULTS, Outcome, problems, row, table
from tests.faults.told import EITHER, NODE, PAGE, ROWS, Told, page

pytestmark = pytest.mark.timeout(1800)  # a busy machine takes many times as long, and each fault has its own deadline

_BY_NAME = {kind.name: kind for kind in KINDS}
_STEP = 20  # of a worker that writes 13 files: files are written, none is live
# What pct says when the node's cluster file system is down.
_NO_CLUSTER = "ipcc_send_rec[1] failed: Connection refused\nUnable to load access control list: Connection refused\n"
_SLOW = ("link silent", "container frozen")  # the rows of the page have them


@pytest.fixture(scope="module")
def lab() -> Lab:
    """The lab, up."""
    return bring_up()


def test_interrupted_at_moments_by_chance(lab: Lab) -> None:
    outcomes = interrupted(lab, 1, 24, lambda outcome: None, [kind.name for kind in KINDS if kind.name not in _SLOW])
    assert len(outcomes) == 24
    assert min(one.passes for one in outcomes) > 0
    assert problems(outcomes) == []


def test_every_fault_says_its_words(lab: Lab) -> None:
    with tempfile.TemporaryDirectory(prefix="tf-") as folder, ThreadPoolExecutor(len(VMIDS)) as pool:
        found = [line for lines in pool.map(lambda vmid: _rows_of(lab, vmid, Path(folder)), VMIDS) for line in lines]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        ("ansible-playbook", 99, "User interrupted execution"),
        ("trainops", 130, "trainops: canceled, nothing of it goes"),
    ],
)
def test_ctrl_c_at_a_terminal(lab: Lab, program: str, status: int, words: str) -> None:
    with tempfile.TemporaryDirectory(prefix="tf-") as folder, Place(lab, 200, Path(folder) / "200") as place:
        old = place.next_stamp()
        assert place.deploy("disk") == 0, place.said()
        new = place.next_stamp()
        come = BeforeStep(place.container, place.seen(FOLDER), _STEP)
        process, terminal = place.start_in_terminal(place.command("disk", program))
        until(come.reached, "the middle of the release")
        os.write(terminal, b"\x03")
        come.go_on()
        shown = _all_of(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == status, shown
        assert words in shown
        until(lambda: not place.started_here(), "the end of what the command started")
        assert place.live("disk") in (old, new)
        assert place.deploy("disk") == 0, place.said()
        assert (place.live("disk"), place.leftovers("disk")) == (new, [])


def _all_of(terminal: int) -> str:
    """What a terminal shows until nobody has it any more."""
    shown = b""
    with contextlib.suppress(OSError):  # that is how the end of a terminal reads
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    return shown.decode(errors="replace")


def _rows_of(lab: Lab, vmid: int, folder: Path) -> list[str]:
    """What differs from the rows of one container."""
    with Place(lab, vmid, folder / str(vmid)) as place:
        for root in ROOTS:
            place.next_stamp()
            assert place.deploy(root) == 0, place.said()
        return [line for told in ROWS if told.vmid == vmid for line in _differs(place, told)]


def _differs(place: Place, told: Told) -> Iterator[str]:
    kind = _BY_NAME.get(told.fault)
    root = kind.root if kind else "disk" if told.fault in ("stopped", "frozen", "gone", "hung", "pct") else "small"
    if place.live(root) is None:  # the small disk went with the container
        place.next_stamp()
        assert place.deploy(root) == 0, place.said()
    old, new = place.live(root), place.next_stamp()
    status = _given(place, told, root) if told.given else _struck(place, told)
    said = _unwrapped(_as_in_the_docs(place, place.said()))
    right = re.fullmatch(re.escape(told.message).replace("…", ".*"), said)
    if not right or status != told.status:
        yield f"{told.what}: status {status}, not {told.status}, or not\n  {told.message}\nbut\n  {said}"
    live = place.live(root)
    if live not in ((old, new) if told.live == EITHER else (old,)):
        yield f"{told.what}: {live} is live, not {told.live}"
    assert place.deploy(root, kind.program if kind else "ansible-playbook") == 0, (told.what, place.said())
    if place.live(root) != new or place.leftovers(root):
        yield f"{told.what}: after the next deploy {place.live(root)} is live, and left are {place.leftovers(root)}"
    place.link.cut("reset")


def _struck(place: Place, told: Told) -> int:
    """The exit status of a deploy that is interrupted in the middle of its release."""
    kind = _BY_NAME[told.fault]
    come = BeforeStep(place.container, place.seen(FOLDER), _STEP)
    process = place.start(place.command(kind.root, kind.program))
    until(lambda: come.reached() or process.poll() is not None, "the middle of the release")
    until(lambda: kind.strike(Blow(place, process.pid)), "a blow that strikes")
    come.go_on()
    status = process.wait(150)
    until(lambda: not place.started_here(), "the end of what the command started", 150)
    kind.mend(place)
    return status


def _given(place: Place, told: Told, root: str) -> int:
    """The exit status of a deploy into a state that is there from its start."""
    direct = ["-e", f"ansible_host={place.lab.address(place.container.spec.node)}", "-e", "ansible_port=22"]
    place.close_connection()
    with _state(place, told.fault):
        status = place.start([*place.command(root), *direct, *told.extra]).wait(150)
    place.close_connection()
    return status


@contextlib.contextmanager
def _state(place: Place, name: str) -> Iterator[None]:
    container, small = place.container, ROOTS["small"]
    if name in ("bytes", "inodes"):
        with faults.full(container, small, name):
            yield
    elif name == "read-only":
        container.run(["mount", "-o", "remount,ro", small]).check_returncode()
        yield
        container.run(["mount", "-o", "remount,rw", small]).check_returncode()
    elif name == "quota":
        with quota(container, small, 150_000):
            yield
    elif name == "pct":
        with faults.pct(container.node, match="exec", exit=255, stderr=_NO_CLUSTER):
            yield
    elif name in ("stopped", "frozen"):
        with {"stopped": faults.stopped, "frozen": faults.frozen}[name](container):
            yield
        if name == "stopped":
            place.started()
    else:
        with {"gone": faults.gone, "hung": faults.hung}[name](container.node):
            yield


def _as_in_the_docs(place: Place, text: str) -> str:
    """The text with the names and addresses of the docs."""
    for address in (place.link.address, place.lab.address(place.container.spec.node)):
        text = text.replace(f"{address}:{place.link.port}", NODE).replace(address, NODE)
    for root in ROOTS.values():
        text = text.replace(root, "/root")
    return (
        text.replace(f"port {place.link.port}", "port 22")
        .replace(str(place.container.vmid), "200")
        .replace("pve2", "pve1")
    )


def _unwrapped(text: str) -> str:
    """One line of words, without what frames a message: steps that passed, host and step, the count of hosts."""
    text = re.sub(r"^ct200 +check +\d+ files? .*\n", "", text, flags=re.M)
    text = re.sub(r"^\d+ of \d+ hosts? (failed|unreachable).*\n?", "", text, flags=re.M)
    text = re.sub(r"^ct200 +\w+ +(FAILED|UNREACHABLE)  ", "", text)
    return " ".join(text.split())


def test_the_page_is_of_these_rows() -> None:
    assert PAGE.read_text() == page(), "make docs writes it anew"


def test_a_seed_is_a_plan() -> None:
    weights = [(kind.name, kind.weight) for kind in KINDS]
    one, again = (trials(7, 200, 133, weights) for _time in range(2))
    assert one == again != trials(8, 200, 133, weights) != trials(7, 201, 133, weights)
    assert len(one) == 133
    assert {trial.kind for trial in one} == {kind.name for kind in KINDS}


def test_the_table_counts_what_should_not_be() -> None:
    good = Outcome("ssh", 200, "staged", False, False, 1.25, 9)
    bad = Outcome("ssh", 200, "switched", True, True, 0.5, 9, (("leftovers", "a lock"), ("false ok", "said so")))
    assert row([good, bad]) == ["2", "0", "1", "1", "1", "1", "0", "1", "1", "0", "1.2"]
    assert table([good, bad], ["ssh"], [200]).splitlines()[1].split() == ["ssh", "200", *row([good, bad])]
    assert problems([good, bad]) == ["200  ssh (switched)  leftovers: a lock", "200  ssh (switched)  false ok: said so"]
    assert {column for column, _text in bad.problems} <= set(FAULTS)
