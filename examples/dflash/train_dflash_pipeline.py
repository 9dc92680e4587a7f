#!/usr/bin/env python3
"""Train the drafter on a text, on the CPU: step, loss and speed on standard output, a checkpoint now and then.

    python3 train_dflash_pipeline.py --config config.toml

Starts where the checkpoint ends. SIGTERM and Ctrl-C save a checkpoint and leave with status 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
from dataclasses import asdict
from pathlib import Path

from dflash_model import DFlashConfig, DFlashModel

HERE = Path(__file__).resolve().parent


def read_config(path: Path) -> dict[str, object]:
    """Read a flat TOML file, `name = value`; Python has a parser of its own only since 3.11."""
    values = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, _equals, value = text.partition("=")
        try:
            values[name.strip()] = json.loads(value)
        except ValueError:
            raise SystemExit(f"{path}:{number}: expected `name = value`, got {text!r}") from None
    return values


class Training:
    """The model, where it stands, and the text it learns."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.settings = settings
        text = "".join((HERE / name).read_text(encoding="utf-8") for name in settings["texts"])
        self.alphabet = sorted(set(text))
        codes = {character: code for code, character in enumerate(self.alphabet)}
        self.tokens = [codes[character] for character in text]
        self.checkpoint = Path(settings["checkpoint"])
        shape = {name: settings[name] for name in ("context", "embedding", "hidden", "block", "seed")}
        self.step, self.model = 0, DFlashModel(DFlashConfig(vocabulary=len(self.alphabet), **shape))
        self.resume()

    def resume(self) -> None:
        """Take over the checkpoint, if it is one of this model on this text."""
        if not self.checkpoint.exists():
            return
        saved = json.loads(self.checkpoint.read_text(encoding="utf-8"))
        if saved["config"] != asdict(self.model.config) or saved["alphabet"] != self.alphabet:
            print(f"{self.checkpoint} is of another model or text: starting anew", flush=True)
            return
        self.step = saved["step"]
        self.model = DFlashModel(self.model.config, saved["parameters"])
        print(f"resumed at step {self.step} from {self.checkpoint}", flush=True)

    def save(self) -> None:
        """Write the checkpoint beside the old one, then put it in its place: it is never half written."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "step": self.step,
            "config": asdict(self.model.config),
            "alphabet": self.alphabet,
            "parameters": self.model.parameters,
        }
        fresh = self.checkpoint.with_suffix(".new")
        with open(fresh, "w", encoding="utf-8") as stream:
            json.dump(state, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, self.checkpoint)

    def train_step(self) -> float:
        """One batch; returns its mean loss. The batch depends on the step alone, so a resumed run goes on the same."""
        config = self.model.config
        chance = random.Random(config.seed * 1_000_003 + self.step)
        loss = 0.0
        for _ in range(self.settings["batch"]):
            start = chance.randrange(len(self.tokens) - config.context - config.block)
            middle = start + config.context
            block = self.tokens[middle : middle + config.block]
            one, gradients = self.model.loss_and_gradients(self.tokens[start:middle], block)
            self.model.update(gradients, self.settings["rate"] / self.settings["batch"])
            loss += one / self.settings["batch"]
        self.step += 1
        return loss


def train(training: Training, stopping: list[int]) -> None:
    """Train to the configured number of steps or until a signal came; the checkpoint is saved either way."""
    settings = training.settings
    since, losses = time.monotonic(), []
    while training.step < settings["steps"] and not stopping:
        losses.append(training.train_step())
        if training.step % settings["report_every"] == 0:
            now = time.monotonic()
            speed = len(losses) * settings["batch"] * settings["block"] / (now - since)
            print(f"step {training.step} loss {sum(losses) / len(losses):.4f} tokens/s {speed:.0f}", flush=True)
            since, losses = now, []
        if training.step % settings["save_every"] == 0:
            training.save()
    training.save()
    print(f"{'stopped' if stopping else 'done'} at step {training.step}, saved {training.checkpoint}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--steps", type=int, help="instead of the number in the configuration")
    options = parser.parse_args()
    settings = read_config(options.config)
    if options.steps is not None:
        settings["steps"] = options.steps
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda caught, _frame: stopping.append(caught))
    train(Training(settings), stopping)


if __name__ == "__main__":
    main()
