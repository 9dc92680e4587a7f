# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What of the stand-in pct is pure: its command line, modes, configuration files, texts."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from lab.node.pct_standin import commands, containers, locale_, main, options, settings, transfer
from lab.node.pct_standin.failure import Failure

PUSH = commands.COMMANDS["push"].syntax
EXEC = commands.COMMANDS["exec"].syntax


@pytest.mark.parametrize(
    ("argv", "words", "chosen", "complaints"),
    [
        (["a", "--user", "u", "b"], ["a", "b"], {"user": "u"}, []),
        (["--USER=u", "-perms", "7"], [], {"user": "u", "perms": "7"}, []),
        (["--us", "u", "--gr=g"], [], {"user": "u", "group": "g"}, []),
        (["--user", "--", "x"], ["x"], {"user": "--"}, []),
        (["--user="], [], {}, ["Option user requires an argument\n"]),
        (["--user", ""], [], {"user": ""}, []),
        (["-", "--", "--user"], ["-", "--user"], {}, []),
        (["--nope", "-5", "x"], ["x"], {}, ["Unknown option: nope\n", "Unknown option: 5\n"]),
    ],
)
def test_getopt(argv: list[str], words: list[str], chosen: dict[str, str], complaints: list[str]) -> None:
    assert options.getopt(argv, PUSH.options) == (words, chosen, complaints)


@pytest.mark.parametrize(
    ("argv", "keep", "extra"),
    [
        (["200", "--keep-env", "--", "x"], "1", ["x"]),
        (["200", "--keep-env", "no", "x"], "0", ["x"]),
        (["200", "--keep-env=", "x"], "1", ["x"]),
        (["200", "--keep", "--", "-x", "--"], "1", ["-x", "--"]),
        (["200", "x"], None, ["x"]),
    ],
)
def test_optional_value_of_a_boolean(argv: list[str], keep: str | None, extra: list[str]) -> None:
    call = options.understand(EXEC, argv)
    assert (call.vmid, call.options.get("keep-env"), call.extra) == (200, keep, extra)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["200", "--keep-env", "maybe", "x"], "400 unable to parse boolean option\n"),
        (["200", "--KEEP-ENVY"], "Unknown option: KEEP-ENVY\n400 unable to parse option\n"),
        (["+200", "x"], "400 Parameter verification failed.\nvmid: invalid format - "),
    ],
)
def test_refusals(argv: list[str], said: str) -> None:
    with pytest.raises(Failure) as refused:
        options.understand(EXEC, argv)
    assert (refused.value.status, refused.value.text[: len(said)]) == (2, said)
    assert refused.value.text.endswith("\npct exec <vmid> [<extra-args>] [OPTIONS]\n")


def test_an_ambiguous_option() -> None:
    known = {"snapshot": "string", "snapname": "string"}
    assert options.getopt(["--snap", "x"], known)[2] == ["Option snap is ambiguous (snapshot, snapname)\n"]


@pytest.mark.parametrize(
    ("short", "name"), [("sta", None), ("stat", "status"), ("exe", "exec"), ("l", None), ("pul", "pull")]
)
def test_shortened_commands(short: str, name: str | None) -> None:
    if name:
        assert main.find(short).syntax.name == name
    else:
        with pytest.raises(Failure, match=f"unknown command 'pct {short}'"):
            main.find(short)


def test_a_command_that_only_the_real_one_has() -> None:
    with pytest.raises(Failure, match="pct migrate: the lab's stand-in has no such command"):
        main.find("migrate")


@pytest.mark.parametrize(("text", "mode"), [("755", 0o755), ("0x1ed", 0o755), ("", 0), ("077777", 0o77777)])
def test_modes(text: str, mode: int) -> None:
    assert transfer.parse_perms(text) == mode


@pytest.mark.parametrize("text", ["0x", "0b1", "8", "7 7", "--5", "0xfg"])
def test_wrong_modes(text: str) -> None:
    with pytest.raises(Failure, match="invalid mode: '0"):
        transfer.parse_perms(text)


def test_configuration_file() -> None:
    text = (
        "#50%25 done\n#é\narch: amd64\nlxc.idmap: u 0 1 2\nmp0:  local:1,mp=/x  \ndev10: /dev/x\n[snap]\narch: arm64\n"
    )
    wanted = {"arch": "amd64", "mp0": "local:1,mp=/x", "dev10": "/dev/x", "description": "50% done\né\n"}
    assert containers.parse_config(text) == wanted
    assert commands.percent_encoded(wanted["description"]) == "50%25 done%0Aé%0A"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("failed to open /w/a for reading\n", b"failed to open /w/a for reading\n"),
        ("failed to open /w/b\ufffd\ufffd for reading\n", b"failed to open /w/b\xef\xbf\xbd\xef\xbf\xbd for read\n"),
    ],
)
def test_messages_with_wide_characters_are_cut(text: str, shown: bytes) -> None:
    assert locale_.garbled(text) == shown


@pytest.mark.parametrize(
    ("faults", "merged"),
    [
        ({"match": "push 200", "slow": 1}, {"match": "push 200", "slow": 1}),
        ([{"slow": 1}, {"match": "exec", "exit": 1}, {"copy_bytes": 3}], {"slow": 1, "copy_bytes": 3}),
        ([], {}),
    ],
)
def test_faults_that_match_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Any, merged: Any
) -> None:
    path = tmp_path / "pct.json"
    path.write_text(json.dumps({"startup": 0.5, "faults": faults}), encoding="utf-8")
    monkeypatch.setattr(settings, "FILE", str(path))
    read = settings.read(["pct", "push", "200", "a", "b"], {})
    assert (read.startup, read.fault) == (0.5, merged)
    assert settings.read([], {b"TRAINOPS_LAB_PCT_STARTUP": b"0"}).startup == 0


@pytest.mark.parametrize("path", sorted(Path(commands.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_runs_on_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
