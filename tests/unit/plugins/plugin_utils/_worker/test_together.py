# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real workers of two Pythons, several at once: one waits for the other, and a reader never sees a mix."""

from __future__ import annotations

import os
import threading
import types
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import SourceChanged, StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.exchange import Request, exchange
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import read_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.release import sender

from tests.unit.interpreters import interpreters
from tests.unit.releasing import history, leftovers, live, params, visible, write

LOCAL = types.SimpleNamespace(transport="local")


def version(number: int) -> dict[str, str]:
    """A project all of whose files name one version."""
    return {f"pkg{one % 3}/m{one}.py": f"{number}\n" for one in range(30)} | {f"only_{number}.txt": f"{number}\n"}


def deploy(root: Path, project: Path, python: str = interpreters()[0], **more: Any) -> dict[str, Any]:
    found = read_project(str(project), [], "/")
    asked = {**params(root, {}), "manifest": {"files": found.rows}, "patience": 60.0, **more}
    return exchange(LOCAL, Request("release", asked, python, timeout=120), sender(found.files)).result


@pytest.mark.parametrize("python", interpreters())
def test_a_real_worker_releases_and_rolls_back(tmp_path: Path, python: str) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    write(root, {"only_1.txt": "by hand\n"})
    for number in (1, 2):
        write(project, version(number))
        assert deploy(root, project, python)["changed"]
        assert not deploy(root, project, python)["changed"]
    assert visible(root) == {**{path: data.encode() for path, data in version(2).items()}, "only_1.txt": b"1\n"}
    request = Request("rollback", {**params(root, {}), "to": "adopted"}, python, timeout=60)
    assert exchange(LOCAL, request).result["release_id"] == "adopted"
    assert visible(root) == {"only_1.txt": b"by hand\n"}
    with pytest.raises(StepError) as refused:
        exchange(LOCAL, Request("rollback", {**params(root, {}), "to": "99"}, python, timeout=60))
    assert refused.value.code == "unknown-release"


def test_deploys_at_once_are_one_after_the_other_and_readers_see_one_version(tmp_path: Path) -> None:
    root, projects = tmp_path / "root", [tmp_path / f"project{number}" for number in range(4)]
    root.mkdir()
    for number, project in enumerate(projects):
        write(project, version(number))
    deploy(root, projects[0])
    done: list[dict[str, Any]] = []
    mixed: list[set[str]] = []
    reads = 0
    over = threading.Event()

    def read() -> None:
        """Resolve `current` once, then read everything, like a run that starts."""
        nonlocal reads
        while not over.is_set():
            release = os.path.realpath(root / ".trainops" / "demo" / "current")
            seen = {path.read_text().strip() for path in Path(release).rglob("*") if path.is_file()}
            reads += 1
            if len(seen) != 1:
                mixed.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    deploys = [threading.Thread(target=lambda one=one: done.append(deploy(root, one))) for one in projects[1:] * 3]
    for thread in deploys:
        thread.start()
    for thread in deploys:
        thread.join()
    over.set()
    reader.join()
    assert len(done) == 9
    assert mixed == []
    assert reads > 10
    numbers = [one["activation"] for one in done if one["changed"]]
    assert sorted(numbers) == [record["activation"] for record in history(root)][1:]
    assert history(root)[-1]["release"] == live(root)
    assert {data.decode().strip() for data in visible(root).values()} in ({"1"}, {"2"}, {"3"})
    assert leftovers(root) == []


def test_a_file_that_changes_while_it_is_sent_ends_the_deploy(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    write(project, {"a.py": "1\n"})
    deploy(root, project)
    write(project, {"a.py": "2\n", "b.py": "two\n"})
    found = read_project(str(project), [], "/")
    write(project, {"b.py": "3\n"})
    asked = {**params(root, {}), "manifest": {"files": found.rows}}
    with pytest.raises(SourceChanged, match=r"b\.py changed after it was read"):
        exchange(LOCAL, Request("release", asked, interpreters()[0], timeout=60), sender(found.files))
    assert visible(root) == {"a.py": b"1\n"}
    deploy(root, project)
    assert visible(root) == {"a.py": b"2\n", "b.py": b"3\n"}
    assert leftovers(root) == []


def test_a_large_file_streams(tmp_path: Path) -> None:
    root, project = tmp_path / "root", tmp_path / "project"
    root.mkdir()
    write(project, {"weights.bin": os.urandom(1 << 20) * 24, "a.py": "1\n"})
    assert deploy(root, project)["bytes_sent"] == (24 << 20) + 2
    write(project, {"a.py": "2\n"})
    assert deploy(root, project)["bytes_sent"] == 2
    assert (root / "weights.bin").read_bytes() == (project / "weights.bin").read_bytes()
