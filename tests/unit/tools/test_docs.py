"""The reference in docs/ is what the plugins and roles say of themselves now, and its index lists all of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.docs import INDEX, ROOT, index, stale, summary, tidy

PAGE = "trainops.proxmox.{name} {kind} -- {text}\n++++\n"


def page(name: str, kind: str, text: str = "Does it") -> dict[str, str]:
    return {f"{name}_{kind}.rst": PAGE.format(name=name, kind=kind, text=text)}


def test_the_reference_is_not_stale() -> None:
    done = subprocess.run(
        [sys.executable, "tools/docs.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_index_has_every_page_with_its_description() -> None:
    pages = {**page("gpu_idle", "module"), **page("pct", "connection", "Run \\_tasks"), **page("launch", "role")}
    text = index(pages, "2.21")
    assert all(f"]({name}) |" in text for name in pages)
    assert "[pct](pct_connection.rst) | Run _tasks |" in text
    assert "ansible-core 2.21" in text


def test_the_index_knows_every_kind_there_is() -> None:
    made = {path.name for path in (ROOT / "docs/reference").glob("*.rst")}
    text = (ROOT / "docs/reference" / INDEX).read_text()
    assert made
    assert not [name for name in made if f"]({name})" not in text]


def test_a_page_without_blanks_at_line_ends() -> None:
    assert tidy("a  \n\n\n\n\n\nb\n \n\n") == "a\n\n\nb\n"
    assert summary("no title") == ""


OLD = {INDEX: "Made with ansible-core 2.21.", **page("a", "module"), **page("b", "callback")}


@pytest.mark.parametrize(
    ("core", "changed", "expected"),
    [
        ("2.21", {}, []),
        ("2.21", page("a", "module", "Other"), ["a_module.rst is stale"]),
        ("2.21", page("b", "callback", "Other"), ["b_callback.rst is stale"]),
        ("2.21", page("c", "role"), ["c_role.rst is missing"]),
        ("2.21", {INDEX: "Made with ansible-core 2.21. More"}, ["README.md is stale"]),
        ("2.19", {INDEX: "Made with ansible-core 2.19."}, []),
        ("2.19", {INDEX: "Made with ansible-core 2.19.", **page("b", "callback", "Other")}, []),
        ("2.19", {INDEX: "Made with ansible-core 2.19. More"}, ["README.md is stale"]),
        ("2.19", {INDEX: "Made with ansible-core 2.19.", **page("a", "module", "Other")}, ["a_module.rst is stale"]),
    ],
)
def test_what_is_stale(core: str, changed: dict[str, str], expected: list[str]) -> None:
    assert stale({**OLD, **changed}, OLD, core) == expected


def test_a_page_of_nothing_is_stale() -> None:
    there = {**OLD, **page("gone", "module")}
    assert stale(OLD, there, "2.21") == ["gone_module.rst is of nothing that exists"]
