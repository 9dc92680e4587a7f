"""What `make test-matrix` runs for each pair of Python and ansible-core, and what it says at the end."""

from __future__ import annotations

import os

import pytest

from tools.matrix import ROOT, Outcome, Pair, environment, failed, parts, report

OLD = Pair("3.11", "2.19")
NEW = Pair("3.13", "2.21")


def test_each_pair_has_an_environment_of_its_own() -> None:
    set_up, *_others = parts(OLD, []).values()
    assert set_up[1:] == ["venv", "3.11", ".cache/matrix/py3.11-core2.19", "ansible-core==2.19.*"]
    assert OLD.folder != NEW.folder


def test_everything_runs_by_its_own_tools() -> None:
    found = parts(NEW, [])
    assert list(found) == ["set-up", "pytest", "molecule"]
    for name in ("pytest", "molecule"):
        assert found[name][0].startswith(f"{ROOT}/.cache/matrix/py3.13-core2.21/bin/")


def test_arguments_are_pytests_alone() -> None:
    found = parts(NEW, ["tests/unit", "-k", "one"])
    assert list(found) == ["set-up", "pytest"]
    assert found["pytest"][-3:] == ["tests/unit", "-k", "one"]


@pytest.mark.parametrize("active", [{}, {"VIRTUAL_ENV": "/opt/other"}])
def test_no_other_environment_leaks_in(active: dict[str, str]) -> None:
    base = {"PATH": f"{ROOT}/.venv/bin:/opt/other/bin:/usr/bin", "PYTHONPATH": "/x", "HOME": "/root", **active}
    found = environment(OLD, base)
    folders = found["PATH"].split(os.pathsep)
    assert folders[0] == f"{ROOT}/.cache/matrix/py3.11-core2.19/bin"
    assert f"{ROOT}/.venv/bin" not in folders
    assert ("/opt/other/bin" in folders) is not bool(active)
    assert not {"VIRTUAL_ENV", "PYTHONPATH"} & set(found)
    assert found["HOME"] == "/root"


def test_the_end_says_what_failed_of_which() -> None:
    good = Outcome(OLD, {"set-up": 0, "pytest": 0, "molecule": 0}, 201.4)
    bad = Outcome(NEW, {"set-up": 0, "pytest": 1, "molecule": 2}, 99.6)
    assert [failed(good), failed(bad)] == [False, True]
    assert report([good, bad]) == [
        "matrix: ansible-core 2.19 on Python 3.11  ok: set-up, pytest, molecule, 201 s",
        "matrix: ansible-core 2.21 on Python 3.13  FAILED: pytest (exit 1), molecule (exit 2), 100 s",
    ]
