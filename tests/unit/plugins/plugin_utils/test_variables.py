# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables that users set: their names, misspelt ones, and the options that are set from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainops.proxmox.plugins.plugin_utils.variables import (
    known,
    named,
    sources,
    standing,
    unknown,
)

ROOT = Path(__file__).resolve().parents[4]


def test_every_option_of_the_roles_is_known() -> None:
    specs = [yaml.safe_load(path.read_text()) for path in ROOT.glob("roles/*/meta/argument_specs.yml")]
    options = {name for spec in specs for entry in spec["argument_specs"].values() for name in entry["options"]}
    assert len(options) > 20
    assert options <= known()


def test_every_name_that_roles_playbooks_and_examples_use_is_known() -> None:
    used = set()
    for pattern in ("roles/**/*.yml", "playbooks/*.yml", "examples/**/*.yml", "inventories/**/*.yml"):
        for path in ROOT.glob(pattern):
            text = re.sub(
                r"(deploy|rollback|launch|stop)_training\w*|training_status\.yml|\w+\.training_\w+",
                "",
                path.read_text(),
            )
            used |= set(re.findall(r"(?<![\w.])training_\w+", text))
    assert len(used) > 20
    assert used <= known()


@pytest.mark.parametrize(
    ("names", "own", "said"),
    [
        (["training_exclude", "training", "ansible_host", "my_training_x"], None, []),
        (sorted(known()), None, []),
        (["training_exlude"], None, ["training_exlude is no variable", "did you mean training_exclude?"]),
        (["training_gpu"], None, ["did you mean training_gpus?"]),
        (["training_keep"], None, ["did you mean training_keep_releases?"]),
        (["training_Root"], None, ["did you mean training_root?"]),
        (["training_lr"], None, ["training_lr is no variable of trainops (", "training_own_variables"]),
        (["training_rot", "training_lr"], None, ["training_lr is", "training_rot is"]),
        (["training_lr"], ["training_lr"], []),
        (["training_lr", "training_x"], "training_lr, training_x", []),
        (["training_lr"], ["training_x"], ["training_lr is no variable"]),
    ],
)
def test_unknown_names(names: list[str], own: Any, said: list[str]) -> None:
    text = unknown(names, own)
    assert bool(text) is bool(said)
    assert all(word in text for word in said), text
    assert "\n" not in text
    assert "training_lr: did you mean" not in text


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ({"trainops.proxmox.gpu_idle": {"select": "{{ training_gpus }}"}}, {"select": "training_gpus"}),
        ({"gpu_idle": {"select": "{{ (mine | default([])) + [1] }}", "count": 2}, "when": "x"}, {"select": "mine"}),
        ({"gpu_idle": {"select": "0,1", "count": "{{ 1 + 1 }}", "timeout": "{{a.b}}"}}, {"timeout": "a"}),
        ({"gpu_idle": None}, {}),
        ({"gpu_idle": "select={{ training_gpus }}"}, {}),
        ({"ansible.builtin.copy": {"src": "{{ a }}"}}, {}),
        (None, {}),
    ],
)
def test_where_options_are_set_from(task: Any, found: dict[str, str]) -> None:
    assert sources(task, "trainops.proxmox.gpu_idle") == found


VARIABLES = {"count": "training_gpu_count", "timeout": "training_idle_timeout", "state": "my_state"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("option count: 0 is too few", "training_gpu_count (option count): 0 is too few"),
        ("argument 'count' is of type str", "training_gpu_count (option count) is of type str"),
        ("value of state must be one of", "value of my_state (option state) must be one of"),
        ("wait longer by option timeout.", "wait longer by training_idle_timeout (option timeout)."),
        ("option select: no", "option select: no"),
        ("an option counts", "an option counts"),
        ("raise option timeout_x", "raise option timeout_x"),
        ("argument 'count is odd", "argument 'count is odd"),
    ],
)
def test_a_message_names_what_the_user_set(text: str, expected: str) -> None:
    assert named(text, VARIABLES) == expected
    assert named(text, {}) == text


def test_no_message_of_ours_names_an_option_without_saying_so() -> None:
    """``select: …`` and ``(timeout)`` would not be found, so that a user would read no variable's name."""
    options = "select|count|require|timeout|interval|memory_mib|nvidia_smi|nvidia_smi_timeout|idle_timeout"
    bare = re.compile(rf"""["'](?:{options}): |\((?:{options})\)""")
    for name in ("gpu_select", "gpu_look", "gpu_result", "gpu_wait", "gpu_text", "gpus", "nvidia_smi", "check"):
        source = (ROOT / f"plugins/plugin_utils/{name}.py").read_text()
        assert not bare.findall(source), name


def test_what_merely_stands_in_an_inventory_was_not_said() -> None:
    variables = {"env": "training_env", "args": "training_args", "script": "training_script", "name": "own_name"}
    host = {"training_env": {"A": 1}, "training_args": "x", "own_name": "y"}
    values = {**host, "training_script": ""}  # the last one is a role's default
    assert standing(variables, [], values, host) == {"env", "args", "script"}
    assert standing(variables, ["training_env"], values, host) == {"args", "script"}
    assert standing(variables, [], {**values, "training_args": "of a play"}, host) == {"env", "script"}
