# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run that ends at any step, by death or by an error of the file system, leaves what was there or what was wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import store
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.look import verify
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import releases

from tests.unit.interrupting import files_below, in_memory, run_and_die, run_with_error
from tests.unit.releasing import deploy, history, leftovers, live, roll_back, visible, write

OLD = {"train.py": "old\n", "conf/a.yml": "old\n", "gone.py": "gone\n", "notes.txt": "n"}
NEW = {"train.py": "new\n", "conf/a.yml": "new\n", "conf/b/c": "b", "added.py": "added\n", "notes.txt": "n"}


def by_hand(root: Path) -> None:
    write(root, OLD)


def released(root: Path) -> None:
    deploy(root, OLD)


def edited(root: Path) -> None:
    deploy(root, OLD)
    write(root, {"train.py": "hot fix\n"})


def there_and_back(root: Path) -> None:
    deploy(root, NEW)
    deploy(root, OLD)


def both_and_more(root: Path) -> None:
    """A third release that this run prunes, with a file in it that nobody listed."""
    deploy(root, {"x.py": "1"})
    (root / "x.py").resolve().with_name("precious").write_text("p")
    deploy(root, OLD)


def in_the_way(root: Path) -> None:
    deploy(root, OLD)
    (root / "train.py").unlink()
    write(root, {"train.py": "by an editor\n", "added.py": "by hand\n"})


def damaged(root: Path) -> None:
    """The wanted release is there, written into: its tree is replaced."""
    deploy(root, NEW)
    (root / "added.py").write_text("damaged\n")
    tree = (root / "added.py").resolve().parent
    deploy(root, OLD)
    (tree / "conf" / "foreign").write_text("f")


def forth(root: Path) -> None:
    deploy(root, NEW, keep=2)


def back(root: Path) -> None:
    roll_back(root, "1")


SCENARIOS = [
    (by_hand, forth),
    (released, forth),
    (edited, forth),
    (there_and_back, forth),
    (there_and_back, back),
    (both_and_more, forth),
    (in_the_way, forth),
    (damaged, forth),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield path


def steps(
    folder: Path, interrupt: Callable[[Callable[[Path], None], Path, int], bool], there: Any, work: Any
) -> Iterator[Path]:
    """A fresh root for each step of ``work``, interrupted there."""
    at = 0
    while True:
        at += 1
        root = folder / str(at)
        root.mkdir()
        there(root)
        plain = {info.st_ino for info in files_below(root, ".trainops")}
        if not interrupt(work, root, at):
            break
        yield root
        assert {info.st_ino for info in files_below(root)} >= plain, root  # who has one open goes on with it
    assert at > 30


@pytest.mark.parametrize(
    ("there", "work", "interrupt"),
    [
        *((there, work, run_and_die) for there, work in SCENARIOS),
        *((there, work, run_with_error) for there, work in SCENARIOS if there in (by_hand, damaged, both_and_more)),
    ],
)
def test_old_or_new_at_every_step_and_the_next_run_puts_it_right(
    folder: Path, there: Callable[[Path], None], work: Callable[[Path], None], interrupt: Any
) -> None:
    (folder / "old").mkdir()
    (folder / "new").mkdir()
    there(folder / "old")
    old = visible(folder / "old")
    there(folder / "new")
    work(folder / "new")
    new = visible(folder / "new")
    kept = set(kept_bytes(folder / "new"))
    assert old != new
    for root in steps(folder, interrupt, there, work):
        seen = visible(root)
        assert seen in (old, new), root
        work(root)
        assert visible(root) == new, root
        assert live(root) == history(root)[-1]["release"], root
        assert set(kept_bytes(root)) >= kept, root  # nobody's bytes are lost
        assert [name for name in leftovers(root) if name != "kept"] == [], root
        intact(root, there is damaged or there is edited)


def kept_bytes(root: Path) -> Iterator[bytes]:
    """The contents of all files that are kept anywhere below the root."""
    for path in root.rglob("*"):
        if path.is_file() and path.name not in ("lock", ".lock", "activations") and path.suffix != ".json":
            yield path.read_bytes()


def intact(root: Path, drifted: bool) -> None:
    """Every release is what its manifest says, and so is what is live, whatever was done to older ones by hand."""
    with store.open_store(str(root), "demo", create=False) as opened:
        bad = [release for release in releases(opened) if verify(opened, release, content=True).drift]
        assert store.live_id(opened) not in bad
        assert drifted or bad == []
    numbers = [record["activation"] for record in history(root)]
    assert numbers == sorted(set(numbers))
