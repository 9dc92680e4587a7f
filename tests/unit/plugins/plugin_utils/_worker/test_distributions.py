# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run is started with, and what of it is different from another."""

from __future__ import annotations

import sys
from importlib.metadata import distributions as installed
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.distributions import differences, distributions


def test_what_is_found_is_what_python_s_own_list_says() -> None:
    expected = {str(one.name).lower().replace("_", "-").replace(".", "-"): one.version for one in installed()}
    assert distributions() == dict(sorted(expected.items()))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("torch-2.11.0+cu128.dist-info", ("torch", "2.11.0+cu128")),
        ("flash_attn-2.7.4.post1.dist-info", ("flash-attn", "2.7.4.post1")),
        ("PyYAML-6.0.egg-info", ("pyyaml", "6.0")),
        ("ruamel.yaml-0.18.dist-info", ("ruamel-yaml", "0.18")),
        ("six-1.16.0-py3.11.egg-info", ("six", "1.16.0")),
        ("a-b-1.0.dist-info", ("a-b", "1.0")),
    ],
)
def test_names_of_metadata_say_it(tmp_path: Path, entry: str, expected: tuple[str, str]) -> None:
    (tmp_path / entry).mkdir()
    assert distributions([str(tmp_path)]) == dict([expected])


def test_the_first_folder_counts_and_metadata_is_read_where_the_name_does_not_say_it(tmp_path: Path) -> None:
    for folder, entry in (("one", "numpy-2.1.dist-info"), ("two", "numpy-1.0.dist-info"), ("two", "old.egg-info")):
        (tmp_path / folder / entry).mkdir(parents=True)
    (tmp_path / "two/old.egg-info/PKG-INFO").write_text("Metadata-Version: 1.0\nName: old\nVersion: 0.5\n")
    (tmp_path / "two/bad.egg-info").write_text("")
    folders = [str(tmp_path / "one"), str(tmp_path / "two"), str(tmp_path / "none"), "", sys.executable]
    assert distributions(folders) == {"bad": "?", "numpy": "2.1", "old": "0.5"}


def record(**more: Any) -> dict[str, Any]:
    return {
        "release": "aaa",
        "python": "/p",
        "python_version": "3.12.3",
        "driver": "580.1",
        "distributions": {"torch": "2.11.0", "gone": "1"},
        "wanted": {"command": None, "script": "train.py", "args": ["--lr", "1"], "env": {}},
        "gpus": [{"index": 0, "uuid": "a"}],
        "environment": {"PYTHONPATH": "/r/aaa", "TRAINOPS_RUN": "x", "SECRET": None, "A": "1"},
        **more,
    }


def test_what_differs_in_any_case_is_not_told() -> None:
    environment = {"PYTHONPATH": "/r/bbb", "TRAINOPS_RUN": "y", "SECRET": None, "A": "1"}
    assert differences(record(), record(release="bbb", environment=environment)) == []


def test_everything_else_is() -> None:
    now = record(
        driver=None,
        distributions={"torch": "2.12.0", "new": "3"},
        wanted={"command": ["torchrun", "a b"], "script": None, "args": None},
        gpus=[],
        environment={"PYTHONPATH": "/r/aaa", "B": "2"},
    )
    assert [(one["what"], one["before"], one["now"]) for one in differences(record(), now)] == [
        ("driver", "580.1", None),
        ("torch", "2.11.0", "2.12.0"),
        ("new", None, "3"),
        ("command", "train.py --lr 1", "torchrun 'a b'"),
        ("gpus", "0", "none"),
        ("environment B", None, "2"),
        ("gone", "1", None),
        ("environment A", "1", None),
    ]


def test_hidden_words_are_told_only_where_the_rest_is_the_same() -> None:
    before, other = record(digests={"command": "a"}), {"command": None, "script": "train.py", "args": ["--n", "1"]}
    hidden = ("words of the command", "one that is not shown", "another that is not shown")
    for now, rows in (
        (record(digests={"command": "b"}), [hidden]),
        (record(digests={"command": "a"}), []),
        (record(digests={}, wanted=other), [("command", "train.py --lr 1", "train.py --n 1")]),
    ):
        assert [(one["what"], one["before"], one["now"]) for one in differences(before, now)] == rows
