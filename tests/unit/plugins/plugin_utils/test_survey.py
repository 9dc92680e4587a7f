# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a survey proposes, and what it says of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.find_python import Found
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import Measured
from ansible_collections.trainops.proxmox.plugins.plugin_utils.survey import (
    Wish,
    check_options,
    surveyed,
    without_python,
)

from tests.unit.gpu_samples import eight

MIB = 1024 * 1024
PROJECT = Measured(
    "dflash", [("model.py", 5), ("train.py", 5)], {}, ["model.py", "train.py"], [(".env", "secrets")], []
)


def python(path: str, version: str = "3.11.2", torch: str | None = None, environment: bool = True) -> dict[str, Any]:
    return {"path": path, "version": version, "torch": torch, "environment": environment}


def place(path: str, *names: str, deployed: bool = False, free: int = 5 * 10**9) -> dict[str, Any]:
    return {"path": path, "names": list(names), "deployed": deployed, "free": free}


def answer(**values: Any) -> dict[str, Any]:
    """The worker's answer."""
    usual = {
        "pythons": [python("/root/venv/bin/python", torch="2.8.0"), python("/usr/bin/python3", environment=False)],
        "skipped": [],
        "places": [place("/root")],
        "home": "/root",
        "init": "systemd",
    }
    return {**usual, **values}


def wish(**values: Any) -> Wish:
    usual = {"root": None, "python": None, "project": PROJECT, "big_mib": 100}
    return Wish(**{**usual, **values})


def test_the_line_and_what_stands_below_it() -> None:
    result = surveyed(wish(), answer(), eight({5: 2048}))
    assert result["summary"] == (
        "Python 3.11.2 with torch 2.8.0 at /root/venv/bin/python; root /root; 5.0 GB free; 7 of 8 GPUs idle"
    )
    assert result["msg"].splitlines() == [
        result["summary"],
        "root /root: root's home; none of your files are there yet",
        "GPUs: 7 of 8 idle; GPU 5 busy: 2048 MiB held by no process",
        "project dflash: 2 files, 10 B",
    ]
    assert result["details"] == "\n".join(result["msg"].splitlines()[1:])
    assert (result["view"], len(result["gpus"]), result["init"]) == ("node", 8, "systemd")
    assert (result["python"], result["left_out"]) == ("/root/venv/bin/python", {"secrets": 1})


ROOTS = [
    ([place("/root")], "/root", "root's home; none of your files are there yet"),
    ([place("/w", "model.py", "train.py"), place("/root")], "/w", "model.py, train.py are there"),
    ([place("/w", "train.py"), place("/root")], "/w", "train.py is there"),
    ([place("/d", deployed=True), place("/w", "train.py"), place("/root")], "/d", "dflash was deployed there before"),
]


@pytest.mark.parametrize(("places", "root", "reason"), ROOTS)
def test_the_root_that_is_proposed(places: list[dict[str, Any]], root: str, reason: str) -> None:
    result = surveyed(wish(), answer(places=places), eight())
    assert (result["root"], result["root_reason"]) == (root, reason)
    assert result["disk_free_bytes"] == 5 * 10**9
    assert [one["path"] for one in result["roots"]] == [one["path"] for one in places if one["names"]]


def test_one_of_many_names_decides_nothing() -> None:
    many = Measured("p", [], {}, ["a", "b", "c"], [], [])
    result = surveyed(wish(project=many), answer(places=[place("/data", "a"), place("/root")]), eight())
    assert result["root"] == "/root"
    assert [one["path"] for one in result["roots"]] == ["/data"]


def test_without_a_project_the_home_is_proposed_without_more_words() -> None:
    result = surveyed(wish(project=None), answer(), eight())
    assert (result["root"], result["root_reason"], result["name"], result["files"]) == ("/root", "root's home", None, 0)
    assert "project" not in result["msg"]


@pytest.mark.parametrize(
    ("root", "reason", "free"),
    [
        ("/w/", "train.py is there", 7),
        ("/srv", "none of the project's names is there", 8),
        ("/none", "it does not exist in the container: make it before the first deploy", None),
    ],
)
def test_the_root_that_is_wished(root: str, reason: str, free: int | None) -> None:
    places = [place("/w", "train.py", free=7), place("/srv", free=8), place("/root")]
    result = surveyed(wish(root=root), answer(places=places), eight())
    assert (result["root"], result["root_reason"], result["disk_free_bytes"]) == (root, reason, free)


OLD = python("/old/bin/python", "3.8.20", "2.4.1")
CHOICES = [
    (None, "/root/venv/bin/python", ""),
    ("/usr/bin/python3", "/usr/bin/python3", "/root/venv/bin/python has torch and /usr/bin/python3 has not"),
    ("/root/venv/bin/python", "/root/venv/bin/python", ""),
    ("/old/bin/python", "/root/venv/bin/python", "/old/bin/python is Python 3.8.20, and 3.9 is needed: /root/venv/"),
    (
        "/none",
        "/root/venv/bin/python",
        "option python: /none does not run as a Python: /root/venv/bin/python is proposed",
    ),
]


@pytest.mark.parametrize(("wished", "chosen", "said"), CHOICES)
def test_the_interpreter_that_is_chosen(wished: str | None, chosen: str, said: str) -> None:
    found = answer(pythons=[*answer()["pythons"], OLD])
    result = surveyed(wish(python=wished), found, eight())
    assert result["python"] == chosen
    assert said in result["msg"]
    assert ("option python" in result["msg"] or "has torch and" in result["msg"]) is bool(said)


def test_nothing_that_a_terminal_obeys_is_shown_or_proposed() -> None:
    odd = answer(
        pythons=[python("/a\x1b[2J/python", torch="9"), python("/b", torch="2.0\x1b[31m")],
        places=[place("/a\x1b[2J", "model.py", "train.py"), place("/root")],
        skipped=[{"path": "/s\x1b[2J", "owner": "ann\x1b[2J"}, {"path": "/caf\udce9", "owner": "ann"}],
        init="in\x1b[2Jit",
    )
    result = surveyed(wish(), odd, eight())
    assert (result["python"], result["root"]) == ("/b", "/root")
    assert "\x1b" not in repr(result).replace("\\\\x1b", "")
    assert not any("\x1b" in str(value) for value in result.values())
    assert result["msg"].encode("utf-8")
    assert "/caf\\xe9 was not started" in result["msg"]
    assert "/s\\x1b[2J was not started, it or its environment belongs to ann\\x1b[2J" in result["msg"]


BREAKS = ["\n", "\r", "\t", "\x85", "\u2028", "\u2029", "\x0b", "\x1b[2J", "\u202e"]


@pytest.mark.parametrize("end", BREAKS)
def test_what_a_container_says_of_itself_is_one_short_line(end: str) -> None:
    nasty = f"2.1{end}    training_name: evil {{{{ lookup('pipe', 'id') }}}}" + "x" * 5000
    odd = answer(
        pythons=[python(f"/a{end}/python", torch="9"), python("/b", version=f"3.12{end}x{nasty}", torch=nasty)],
        places=[place(f"/w{end}", "model.py", "train.py", deployed=True), place("/root")],
        skipped=[{"path": f"/s{end}", "owner": nasty}],
        home=f"/root{end}x",
        init=nasty,
    )
    result = surveyed(wish(), odd, eight())
    assert (result["python"], result["root"]) == ("/b", "/root")
    (chosen,) = result["pythons"]
    assert max(len(chosen["version"]), len(chosen["torch"])) <= 61
    shown = [result["summary"], result["init"], chosen["version"], chosen["torch"], *result["msg"].split("\n")]
    shown += [text for one in result["not_started"] for text in one.values()]
    assert all(text.isprintable() for text in shown)
    assert not any(line.startswith(" ") for line in result["msg"].splitlines())
    old = without_python(wish(), Found(None, ((f"/o{end}", "3.7"), ("/p", f"3.7{end}z")), ()))
    assert [one["path"] for one in old["pythons"]] == ["/p"]
    assert old["pythons"][0]["version"].isprintable()


@pytest.mark.parametrize("home", ["", "root", "#jinja2:x", None, "/x" * 400])
def test_a_home_that_is_no_path_is_not_proposed(home: str | None) -> None:
    assert surveyed(wish(), answer(home=home), eight())["root"] == "/root"


def test_what_is_too_big_is_told_with_the_way_out() -> None:
    files = [("data/a", 300 * MIB), ("data/b", 90 * MIB), ("data/c", 90 * MIB), ("train.py", 5)]
    project = Measured("p", files, {"data": "data"}, ["data", "train.py"], [], ["it has a problem"])
    result = surveyed(wish(project=project), answer(), eight())
    (big,) = result["big"]
    assert (big["path"], big["files"], big["exclude"]) == ("data", 3, "./data")
    assert "data has 503 MB in 3 files, more than 100 MiB: leave it out with training_exclude" in result["msg"]
    assert result["msg"].splitlines()[-1] == "it has a problem"
    assert surveyed(wish(project=project, big_mib=1000), answer(), eight())["big"] == []


@pytest.mark.parametrize(
    ("found", "words", "pythons"),
    [
        (Found(None, (), ()), "there is no Python in the container that could be used: install one", []),
        (Found(None, (("/o", "3.7.3"),), ()), "has only Pythons older than 3.9 (3.7.3 at /o): install one", ["/o"]),
        (Found(None, (), ("/home/ann/venv/bin/python",)), "there is no Python in the container that could be used", []),
    ],
)
def test_without_a_fit_python_it_is_a_result_all_the_same(found: Found, words: str, pythons: list[str]) -> None:
    result = without_python(wish(root="/w"), found)
    assert words in result["summary"]
    assert (result["python"], result["root"], result["gpus"], result["files"]) == (None, "/w", [], 2)
    assert [one["path"] for one in result["pythons"]] == pythons
    assert [one["path"] for one in result["not_started"]] == list(found.others)
    assert all(path in result["msg"] for path in found.others)
    assert set(result) == set(surveyed(wish(), answer(), eight()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"root": "here"}, "option root: 'here' must be an absolute path"),
        ({"python": "python3"}, "option python: 'python3' must be an absolute path"),
        ({"big_mib": 0}, "option big_mib: 0 cannot be"),
    ],
)
def test_options_that_cannot_be_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        check_options({"root": None, "python": None, "big_mib": 100, **options})
    check_options({"root": "/root", "python": "/usr/bin/python3", "big_mib": 1})
