# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any name that Linux allows comes through a project, frames, a release and a manifest, and is the same afterwards."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import Channel
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame, read_frame, write_frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.left_out import left_out
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import left_out as left_out_lines
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import read_bytes, read_project
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import path_text
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.properties.cases import NAMES, cases, folder
from tests.unit.releasing import deploy, home


@cases(400)
@given(st.lists(NAMES, min_size=1, max_size=6, unique=True))
def test_every_file_of_a_folder_ships_or_is_named_as_left_out_and_reads_back(names: list[str]) -> None:
    with folder() as base:
        project, root = base / "project", base / "root"
        project.mkdir()
        root.mkdir()
        contents = {name: os.fsencode(name) + bytes([number]) for number, name in enumerate(["plain", *names])}
        for name, content in contents.items():
            (project / name).write_bytes(content)
        found = read_project(str(project), [], "/")
        ships = {entry.path: b"".join(read_bytes(entry)) for entry in found.files}
        ignored = dict(found.ignored)
        assert {**ships, **dict.fromkeys(ignored, None)}.keys() == contents.keys()
        assert all(left_out(name, os.lstat(project / name), []) == why for name, why in ignored.items())
        done = deploy(root, ships, manifest={"files": json.loads(json.dumps(found.rows))})
        assert done["release_id"] == found.release_id
        tree = home(root, "current")
        assert {name: (tree / name).read_bytes() for name in os.listdir(tree)} == ships
        assert {name: (root / name).read_bytes() for name in os.listdir(root) if name != ".trainops"} == ships
        assert not deploy(root, ships, manifest={"files": found.rows})["changed"]


@cases(1500)
@given(NAMES, st.binary(max_size=200))
def test_a_name_and_its_bytes_come_through_the_frames(name: str, data: bytes) -> None:
    stream = io.BytesIO()
    write_frame(stream, Frame("file", {"path": name}, [data[:7], data[7:]]))
    write_frame(stream, Frame("end"))
    channel = Channel(io.BufferedReader(io.BytesIO(stream.getvalue())), os.open(os.devnull, os.O_WRONLY))
    try:
        assert channel.receive("file") == {"kind": "file", "path": name}
        assert b"".join(channel.read_blob()) == data
        assert channel.receive("end") == {"kind": "end"}
    finally:
        os.close(channel._outgoing)
    line = json.dumps({"kind": "need", "files": [name]}).encode("ascii")  # as the worker sends it
    assert read_frame(line) == {"kind": "need", "files": [name]}


@cases(1000)
@given(st.lists(NAMES, min_size=1, max_size=4).map("/".join))
def test_a_path_in_a_message_is_one_line_that_a_terminal_shows(path: str) -> None:
    shown = path_text(path)
    shown.encode("utf-8")  # no surrogate is left
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert len(shown) <= 301
    (line,) = left_out_lines([{"path": path, "why": "bytecode"}])
    assert line == f"left out, bytecode: {shown}"


@cases(400)
@given(NAMES, st.integers(0, 3))
def test_an_excluded_name_is_left_out_alone(name: str, depth: int) -> None:
    """The pattern that a refusal proposes for a path leaves out that path and nothing else."""
    from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_size import exclude_pattern

    path = "/".join(["d"] * depth + [name])
    pattern = exclude_pattern({path: path}, path)
    info: Any = os.stat_result((0o100644, *[0] * 9))
    assert pattern is not None
    by_name = left_out(path, info, [])
    assert left_out(path, info, [pattern]) == (by_name or f"excluded by {pattern}")
    for other in (f"x{path}", f"{path}x", f"deeper/{path}", path + "/below"):
        assert left_out(other, info, [pattern]) == left_out(other, info, [])


def test_names_are_limited_by_the_kernel_alone(tmp_path: Path) -> None:
    """What the strategy draws are names that this kernel takes: 255 bytes and no more."""
    (tmp_path / ("x" * 255)).write_bytes(b"")
    try:
        (tmp_path / ("x" * 256)).write_bytes(b"")
    except OSError as error:
        assert error.strerror == "File name too long"
    else:
        raise AssertionError("this file system takes longer names")
