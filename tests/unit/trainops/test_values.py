"""What a person typed reaches Ansible as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trainops
from tests.unit.trainops.folders import user_folder
from trainops.errors import ProjectNotFound
from trainops.runner import run_playbook
from trainops.values import Literal, literal, written

ODD = ["{{ 7 * 7 }}", "{% if x %}", "a{#b#}c", "ü: '\"\\ {{x}}", "plain", "123", "yes", "", "- {{ a }}"]
SHOW = '- {name: Say, ansible.builtin.debug: {msg: "{{ word }}"}}'


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("way", ["extravars", "inventory"])
def test_a_literal_text_is_no_template(tmp_path: Path, text: str, way: str) -> None:
    folder = user_folder(tmp_path, SHOW)
    hosts: dict[str, Any] = {"all": {"hosts": {"one": {}}, "vars": {"ansible_connection": "local"}}}
    extravars = {"word": Literal(text)} if way == "extravars" else {}
    if way == "inventory":
        hosts["all"]["hosts"]["one"] = literal({"word": text})
    result = run_playbook("deploy_training", inventory=hosts, extravars=extravars, cwd=folder)
    assert result.hosts["one"].steps[0].values["msg"] == text


def test_other_values_stay_templates(tmp_path: Path) -> None:
    result = run_playbook(
        "deploy_training", extravars={"word": "{{ 7 * 7 }}"}, limit="one", cwd=user_folder(tmp_path, SHOW)
    )
    assert result.hosts["one"].steps[0].values["msg"] in (49, "49")


def test_literals_are_found_at_any_depth() -> None:
    value = literal({"{{k}}": ["{{a}}", {"b": "{#c#}"}], "n": 1, "none": None})
    assert written(value).count("!unsafe") == 2


def test_a_folder_with_braces_is_the_project_that_was_named(tmp_path: Path) -> None:
    for name, content in (("exp{#v2#}", "RIGHT = 1\n"), ("exp", "def broken(:\n")):
        (tmp_path / name / "drafter").mkdir(parents=True)
        (tmp_path / name / "drafter" / "train.py").write_text(content)
    result = trainops.check("exp{#v2#}/drafter", cwd=tmp_path)
    assert (result.ok, result.message) == (True, "")
    assert not trainops.check("exp/drafter", cwd=tmp_path).ok


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_word_is_no_project(empty: str) -> None:
    with pytest.raises(ProjectNotFound, match="an empty word is no project"):
        trainops.deploy([".", empty])
