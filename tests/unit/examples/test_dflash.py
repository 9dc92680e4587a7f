"""The example trains for real: right gradients, a falling loss, a checkpoint that it goes on from, a clean stop."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainops.folders import until

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "dflash"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example, as a user has one."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "dflash"))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("dflash_model")


def train(folder: Path, *arguments: str) -> list[str]:
    """Run the training to its end; what it printed."""
    argv = [sys.executable, "-B", "train_dflash_pipeline.py", *arguments]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def losses(lines: list[str]) -> list[float]:
    return [float(found[1]) for line in lines if (found := re.match(r"step \d+ loss ([\d.]+) tokens/s \d+$", line))]


def test_gradients_are_the_slopes_of_the_loss(model: Any) -> None:
    net = model.DFlashModel(model.DFlashConfig(vocabulary=5, context=3, embedding=2, hidden=4, block=2))
    context, block = [1, 4, 1], [0, 3]
    _loss, gradients = net.loss_and_gradients(context, block)
    tiny = 1e-5
    for name, rows in gradients.items():
        for index, slopes in rows.items():
            for column, slope in enumerate(slopes):
                row = net.parameters[name][index]
                kept = row[column]
                row[column] = kept + tiny
                above = net.loss_and_gradients(context, block)[0]
                row[column] = kept - tiny
                below = net.loss_and_gradients(context, block)[0]
                row[column] = kept
                assert slope == pytest.approx((above - below) / (2 * tiny), abs=1e-6), (name, index, column)


def test_the_loss_falls(folder: Path) -> None:
    reported = losses(train(folder, "--steps", "200"))
    assert len(reported) == 10
    assert sum(reported[-3:]) < 0.85 * sum(reported[:3])


def test_a_resumed_run_ends_as_one_that_was_never_interrupted(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(EXAMPLE, tmp_path / "other"))
    train(folder, "--steps", "20")
    assert train(folder, "--steps", "40")[0] == "resumed at step 20 from checkpoints/dflash.json"
    train(other, "--steps", "40")
    saved = [json.loads((place / "checkpoints/dflash.json").read_text()) for place in (folder, other)]
    assert saved[0]["step"] == 40
    assert saved[0] == saved[1]


def test_sigterm_saves_and_leaves_with_zero(folder: Path) -> None:
    argv = ["./run.sh", "--steps", "1000000"]
    with subprocess.Popen(
        argv, cwd=folder, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("step 20 ")
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait() == 0
    step = re.search(r"stopped at step (\d+), saved checkpoints/dflash.json\n$", rest)
    assert step is not None
    assert json.loads((folder / "checkpoints/dflash.json").read_text())["step"] == int(step[1])
    assert until(lambda: not list((folder / "checkpoints").glob("*.new")), 1)


def test_a_wrong_line_of_the_configuration_is_named(folder: Path) -> None:
    (folder / "config.toml").write_text("steps = 1\nrate: 0.5\n")
    argv = [sys.executable, "-B", "train_dflash_pipeline.py"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{folder}/config.toml:2: expected `name = value`, got 'rate: 0.5'\n"
