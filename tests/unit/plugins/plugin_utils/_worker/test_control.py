# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever stands where our own files belong is named, and never waited for, followed or lost."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import control
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import live_release

from tests.unit.releasing import deploy, history, home, leftovers, live, plain, refusal, roll_back, visible, write

V1 = {"train.py": "1\n", "conf/a.yml": "a\n"}
V2 = {"train.py": "2\n", "conf/a.yml": "a\n"}


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """A worker that waits for a named pipe ends the test, not the whole run."""

    def end(*_args: object) -> None:
        raise TimeoutError("it waited")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        folder = os.open(path.parent, os.O_RDONLY)
        one.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.close(folder)


def device(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: its bytes never end


def link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("mine")
    path.symlink_to("elsewhere")


def link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.parent / "pipe")
    path.symlink_to("pipe")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def folder(path: Path) -> None:
    path.mkdir()


def huge(path: Path) -> None:
    with path.open("wb") as sparse:
        sparse.truncate(control.MOST_BYTES + 1)


THINGS = [pipe, listening, device, link, link_to_a_pipe, link_to_nothing, folder, huge]


def planted(root: Path, name: str, thing: Callable[[Path], None]) -> Path:
    """Put something where our file ``name`` belongs; ID stands for the live release."""
    path = home(root, *name.replace("ID", str(live(root))).split("/"))
    path.unlink(missing_ok=True)
    thing(path)
    return path


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("name", ["lock", "../.lock", "activations", "releases/ID.json"])
def test_what_is_planted_is_named_with_the_fix(tmp_path: Path, name: str, thing: Callable[[Path], None]) -> None:
    deploy(tmp_path, V1)
    first = live(tmp_path)
    path = planted(tmp_path, name, thing)
    for call in (lambda: deploy(tmp_path, V2), lambda: roll_back(tmp_path, first and first[:8], want_diff=True)):
        error = refusal(call)
        assert error.code == "planted", error.message
        assert f"{os.path.normpath(path)} is " in error.message
        assert "remove it" in error.message
        assert visible(tmp_path).items() >= plain(V1).items()
        if name == "../.lock":
            break  # a rollback to what is live changes no name in the root
    if name != "releases/ID.json":
        path.rmdir() if thing is folder else path.unlink()
        deploy(tmp_path, V2)
        assert visible(tmp_path).items() >= plain(V2).items()


@pytest.mark.parametrize("thing", [*THINGS[:-1]])
def test_current_must_be_our_link(tmp_path: Path, thing: Callable[[Path], None]) -> None:
    deploy(tmp_path, V1)
    path = planted(tmp_path, "current", thing)
    for call in (deploy, roll_back):
        for check_mode in (False, True):
            error = refusal(call, tmp_path, *([V2] if call is deploy else []), check_mode=check_mode)
            assert (error.code, f"{path} is not a link to a release" in error.message) == ("planted", True)
            assert "remove it" in error.message


def test_a_planted_manifest_does_not_hold_up_a_check(tmp_path: Path) -> None:
    deploy(tmp_path, V1)
    planted(tmp_path, "releases/ID.json", pipe)
    assert refusal(live_release, str(tmp_path), "demo").code == "planted"


NONSENSE = ["[]", "7", "null", '{"format": 1}', '{"format": 1, "files": []}', "[" * 100_000, "\0\xff"]


@pytest.mark.parametrize("text", NONSENSE)
def test_a_manifest_that_is_none_counts_as_lost(tmp_path: Path, text: str) -> None:
    deploy(tmp_path, V1)
    home(tmp_path, "releases", f"{live(tmp_path)}.json").write_text(text, encoding="latin-1")
    assert deploy(tmp_path, V2)["adopted"] == "edited"
    assert visible(tmp_path) == plain(V2)


@pytest.mark.parametrize(
    "text", [*NONSENSE, '{"activation": "x"}', '{"activation": 9}', '{"void": []}', '{"proved": {}}', '{"release": 1}']
)
def test_lines_that_are_no_activations_are_passed_over(tmp_path: Path, text: str) -> None:
    deploy(tmp_path, V1)
    with home(tmp_path, "activations").open("a", encoding="latin-1") as stream:
        stream.write(text + "\n")
    deploy(tmp_path, V2)
    assert [record["kind"] for record in history(tmp_path)] == ["deploy", "deploy"]
    roll_back(tmp_path)
    assert visible(tmp_path) == plain(V1)


def test_files_of_others_among_the_releases_stay(tmp_path: Path) -> None:
    deploy(tmp_path, V1)
    home(tmp_path, "releases", "notes.json").write_text("{}")
    home(tmp_path, "releases", ".stage-link").symlink_to(tmp_path)
    for number in range(3):
        deploy(tmp_path, {"train.py": f"{number}"}, keep=2)
    assert home(tmp_path, "releases", "notes.json").read_text() == "{}"
    assert not os.path.lexists(home(tmp_path, "releases", ".stage-link"))
    assert visible(tmp_path) == {"train.py": b"2"}


@pytest.mark.parametrize("lost", [["activations"], ["activations", "current"]])
def test_lost_activations_lose_nothing_that_was_adopted(tmp_path: Path, lost: list[str]) -> None:
    write(tmp_path, {"train.py": "by hand\n"})
    deploy(tmp_path, V1)
    for name in lost:
        home(tmp_path, name).unlink()
    deploy(tmp_path, {"other.py": "1"})
    roll_back(tmp_path, "adopted")
    assert visible(tmp_path) == {"train.py": b"by hand\n"}
    assert leftovers(tmp_path) == []
