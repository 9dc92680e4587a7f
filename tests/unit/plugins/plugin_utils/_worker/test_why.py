# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a container knows of the end of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker import why

from tests.unit.watching import MadeRun, Sent


@pytest.fixture
def run(tmp_path: Path) -> Iterator[MadeRun]:
    made = MadeRun(tmp_path, gpus=[{"index": 0, "uuid": "GPU-a"}])
    yield made
    made.close()


def ask(root: Path, smi: str = "none") -> dict[str, Any]:
    asked = {"root": str(root), "name": None, "run": None, "nvidia_smi": smi, "nvidia_smi_timeout": 5.0}
    found: dict[str, Any] = why.run(Sent(), asked)  # type: ignore[arg-type]
    assert json.loads(json.dumps(found)) == found
    return found


def test_it_gathers_record_traceback_and_rooms(run: MadeRun, tmp_path: Path) -> None:
    run.start('echo step 1; python3 -c "raise KeyError(1)"; exit 1').end(exit_code=1)
    found = ask(tmp_path)
    assert (found["record"]["run"], found["record"]["exit"]["exit_code"]) == ("r1", 1)
    assert (found["last_lines"][0], found["traceback"][-1]) == ("step 1", "KeyError: 1")
    assert found["tail"].startswith("step 1\nTraceback")
    assert found["disks"][0]["path"] == str(tmp_path)
    assert 0 < found["disks"][0]["free"] <= found["disks"][0]["total"]
    assert found["boot_age_s"] > 0
    assert found["buses"] == {}
    assert "environment" not in found["record"]


def test_addresses_of_gpus_are_nvidia_smis(run: MadeRun, tmp_path: Path) -> None:
    run.end()
    smi = tmp_path / "smi"
    smi.write_text("#!/bin/sh\necho uuid, pci.bus_id; echo GPU-a, 00000000:18:00.0\n")
    smi.chmod(0o755)
    assert ask(tmp_path, str(smi))["buses"] == {"GPU-a": "00000000:18:00.0"}


def test_a_run_without_a_log_has_no_lines(run: MadeRun, tmp_path: Path) -> None:
    run.end(how="not-started", exit_code=None)
    found = ask(tmp_path)
    assert (found["last_lines"], found["traceback"], found["log_bytes"]) == ([], [], 0)


def test_of_a_long_log_only_the_end_travels(run: MadeRun, tmp_path: Path) -> None:
    run.log.write_text("x" * 5_000_000 + "\n" + "last\n")
    run.end()
    found = ask(tmp_path)
    assert found["last_lines"] == ["last"]
    assert len(found["tail"]) <= 64 * 1024
