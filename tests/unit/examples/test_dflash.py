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


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (0, [0]),
        (3, [0, 1, 2, 3]),
        (6, [6, 7]),  # the first block has nothing before it
        (9, [0, 1, 8, 9]),
        (10, [0, 1, 2, 3, 10, 11]),
    ],
)
def test_text_is_read_from_left_to_right_and_a_blank_sees_its_block_and_what_stands_before_it(
    model: Any, query: int, keys: list[int]
) -> None:
    attends = model._attends(model.TransformerConfig(vocabulary=5, window=6, block=2))
    assert [key for key in range(12) if attends(0, 0, query, key)] == keys


def test_the_loss_falls(folder: Path) -> None:
    reported = losses(train(folder, "--steps", "150"))
    assert len(reported) == 150
    assert sum(reported[-30:]) < 0.85 * sum(reported[:30])


def test_a_resumed_run_ends_as_one_that_was_never_interrupted(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(EXAMPLE, tmp_path / "other"))
    train(folder, "--steps", "20")
    assert train(folder, "--steps", "40")[1] == "resumed at step 20 from checkpoints/dflash.json"
    train(other, "--steps", "40")
    saved = [json.loads((place / "checkpoints/dflash.json").read_text()) for place in (folder, other)]
    assert saved[0]["step"] == 40
    assert saved[0] == saved[1]


def test_an_edited_text_is_learned_on_and_another_shape_anew(folder: Path) -> None:
    train(folder, "--steps", "3")
    model = folder / "dflash_model.py"
    model.write_text(model.read_text() + "# §~\n")
    assert train(folder, "--steps", "4")[1:2] == ["resumed at step 3 from checkpoints/dflash.json"]
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("\nhidden = 24\n", "\nhidden = 25\n"))
    said = train(folder, "--steps", "1")
    assert said[1] == "checkpoints/dflash.json is of another model: starting anew"
    assert said[2].startswith("step 1 loss ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_saves_and_leaves_with_zero(folder: Path, number: signal.Signals) -> None:
    argv = ["./run.sh", "--steps", "1000000"]
    with subprocess.Popen(
        argv, cwd=folder, env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("training on the CPU, ")
        assert process.stdout.readline().startswith("step 1 ")
        process.send_signal(number)
        rest = process.stdout.read()
        assert process.wait() == 0
    step = re.search(r"stopped at step (\d+), saved checkpoints/dflash.json\n$", rest)
    assert step is not None
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["dflash.json"]
    assert json.loads((folder / "checkpoints/dflash.json").read_text())["step"] == int(step[1])


_STOPPED_IN_THE_WARM_UP = """
import os, signal, sys
import train_dflash_pipeline as trainer
trainer.CpuTraining.warm_up = lambda training: os.kill(os.getpid(), signal.SIGTERM)
sys.argv = ["train_dflash_pipeline.py"]
trainer.main()
"""


def test_a_stop_before_the_first_step_does_not_wait_for_the_warm_up(folder: Path) -> None:
    argv = [sys.executable, "-B", "-c", _STOPPED_IN_THE_WARM_UP]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["stopped before the first step, nothing to save"]
    assert not (folder / "checkpoints").exists()


def test_a_wrong_line_of_the_configuration_is_named(folder: Path) -> None:
    (folder / "config.toml").write_text("steps = 1\nrate: 0.5\n")
    argv = [sys.executable, "-B", "train_dflash_pipeline.py"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"{folder}/config.toml:2: expected `name = value`, got 'rate: 0.5'\n"


def test_on_gpus_the_loss_falls_and_a_resumed_run_goes_on(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    first = train(folder, "--steps", "60")
    assert first[0].startswith(f"training on {torch.cuda.device_count()} GPU")
    reported = losses(first)
    assert len(reported) == 60
    assert sum(reported[-6:]) < 0.9 * sum(reported[:6])
    again = train(folder, "--steps", "80")
    assert again[1] == "resumed at step 60 from checkpoints/dflash.pt"
    assert sum(losses(again)[-6:]) < 0.9 * sum(reported[:6])
