# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Manifests: their ids, that they are read back as they were written, and that a damaged one never crashes or lies."""

from __future__ import annotations

import copy
import json
import os
import random
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import store
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import WorkerError
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.look import verify
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.scratch import Scratch, write_manifest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import manifest_of, release_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.switch import new_manifest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.properties.cases import cases, folder, manifests
from tests.unit.releasing import deploy, home, visible

Rows = list[dict[str, Any]]


@cases(1500)
@given(manifests(), st.randoms(use_true_random=False))
def test_an_id_knows_no_order_and_comes_through_json(rows: Rows, order: random.Random) -> None:
    shuffled = [dict(order.sample(list(row.items()), len(row))) for row in rows]
    order.shuffle(shuffled)
    assert release_id(rows) == release_id(shuffled) == release_id(json.loads(json.dumps(rows)))
    assert len(release_id(rows)) == 64


@cases(1500)
@given(manifests(), st.data())
def test_any_difference_is_another_id(rows: Rows, data: st.DataObject) -> None:
    other = copy.deepcopy(rows)
    row = data.draw(st.sampled_from(other))
    key = data.draw(st.sampled_from(sorted(row)))
    row[key] = row[key] + 1 if isinstance(row[key], int) else row[key] + "x"
    assert release_id(other) != release_id(rows)
    assert release_id(rows[1:]) != release_id(rows)


@cases(600)
@given(manifests())
def test_what_is_written_is_read_back(rows: Rows) -> None:
    with folder() as root, store.open_store(str(root), "demo", create=True) as opened:
        files = {row["path"]: {key: row[key] for key in row if key != "path"} for row in rows}
        release = release_id(rows)
        written = new_manifest(release, files, source={"commit": None, "dirty": None}, checked={})
        with Scratch(opened) as scratch:
            write_manifest(scratch, release, written)
        assert manifest_of(opened, release) == written
        assert store.releases(opened) == [release]
        # Nothing of it is there: all of it is missing, and nobody says otherwise.
        assert verify(opened, release).drift == dict.fromkeys(files)


FILES = {"train.py": "import model\n", "pkg/model.py": "V = 1\n", "empty/": "", "run.sh": "echo\n"}
LINKS = {"latest": "pkg/model.py"}


def _bytes_damaged(text: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(text)))
    some = data.draw(st.binary(max_size=8))
    return data.draw(
        st.sampled_from([text[:at], text[:at] + some, text[:at] + some + text[at:], text[:at] + text[at + 1 :], some])
    )


_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, -1, 1 << 70, "", "x", "../../../etc/passwd", "/etc/passwd", [], {}, [1], True, 0.5]
)


def _structure_damaged(text: bytes, data: st.DataObject) -> bytes:
    """One value of the manifest, at any depth, is another one or gone."""
    manifest = json.loads(text)
    place: Any = manifest
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return json.dumps(manifest).encode()
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.integers(0, 3)):
            place = place[key]
            continue
        if isinstance(place, dict) and data.draw(st.booleans()):
            if data.draw(st.booleans()):
                del place[key]
            else:
                place[str(data.draw(_VALUES))] = place.pop(key)
        else:
            place[key] = data.draw(_VALUES)
        return json.dumps(manifest).encode()


@cases(500)
@given(st.data(), st.booleans(), st.booleans())
def test_a_damaged_manifest_neither_crashes_nor_lies(data: st.DataObject, structure: bool, edited: bool) -> None:
    """Whatever it says: a look says what is there or refuses in a sentence, and the next deploy puts all right."""
    with folder() as base:
        root = base / "root"
        root.mkdir()
        wanted = {"train.py": b"import model\n", "pkg/model.py": b"V = 1\n", "run.sh": b"echo\n", "latest": b"V = 1\n"}
        release = deploy(root, FILES, links=LINKS)["release_id"]
        path = home(root, "releases", f"{release}.json")
        damage = _structure_damaged if structure else _bytes_damaged
        path.write_bytes(damage(path.read_bytes(), data))
        if edited:
            (root / "pkg/model.py").write_text("V = 2\n")
        try:
            with store.open_store(str(root), "demo", create=False) as opened:
                verdict = verify(opened, release)
                if edited and verdict.known and "pkg/model.py" in verdict.files:
                    assert "pkg/model.py" in verdict.drift
        except WorkerError as error:
            assert error.message
        done = deploy(root, FILES, links=LINKS, adopt_folders=True)
        assert done["release_id"] == release
        assert visible(root) == wanted
        assert os.path.isdir(root / "empty")
        assert not deploy(root, FILES, links=LINKS)["changed"]
