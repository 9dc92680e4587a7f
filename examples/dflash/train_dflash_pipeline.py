#!/usr/bin/env python3
"""Train the drafter on a text: step, loss and speed on standard output, a checkpoint now and then.

    python3 train_dflash_pipeline.py --config config.toml

On every GPU that torch finds, one thread a GPU; without any on the CPU, by the standard library alone. It starts where
the checkpoint ends, in ./checkpoints of the folder in which it runs. SIGTERM and Ctrl-C end the step, save a checkpoint
and leave with status 0: to be stopped is no failure, and nothing but the steps that were not asked for is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import string
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from dflash_model import DFlashConfig, DFlashModel, DFlashTransformer, TransformerConfig, draft_loss, torch

HERE = Path(__file__).resolve().parent
# Fixed, so that an edited text does not make another model.
ALPHABET = {character: code for code, character in enumerate(string.printable)}


def read_config(path: Path) -> dict[str, Any]:
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
    """Where a training stands, and the text it learns; what is trained on what is known below."""

    suffix = ""
    tokens_a_step = 0

    def __init__(self, settings: dict[str, Any], config: DFlashConfig | TransformerConfig) -> None:
        self.settings = settings
        self.config = config
        text = "".join((HERE / name).read_text(encoding="utf-8") for name in settings["texts"])
        self.tokens = [ALPHABET[character] for character in text if character in ALPHABET]
        self.checkpoint = Path(settings["checkpoint"] + self.suffix)
        self.step = 0

    def warm_up(self) -> None:
        """What takes long before the first step."""

    def train_step(self) -> float:
        """Learn from one batch; its mean loss in nats a character."""
        raise NotImplementedError

    def windows(self, count: int, length: int, part: int = 0) -> list[list[int]]:
        """Pieces of the text. They depend on the step alone, so a resumed training goes on with the same."""
        chance = random.Random(f"{self.config.seed}/{self.step}/{part}")
        starts = [chance.randrange(len(self.tokens) - length) for _ in range(count)]
        return [self.tokens[start : start + length] for start in starts]

    def resume(self) -> None:
        """Take over the checkpoint, if it is one of this model."""
        if not self.checkpoint.exists():
            return
        saved = self.read()
        if saved["config"] != asdict(self.config):
            print(f"{self.checkpoint} is of another model: starting anew", flush=True)
            return
        self.step = saved["step"]
        self.take(saved)
        print(f"resumed at step {self.step} from {self.checkpoint}", flush=True)

    def save(self) -> None:
        """Write the checkpoint beside the old one, then put it in its place: it is never half written."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.checkpoint.with_name(self.checkpoint.name + ".new")
        with open(fresh, "wb") as stream:
            self.write({"step": self.step, "config": asdict(self.config)}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, self.checkpoint)

    def write(self, state: dict[str, Any], stream: BinaryIO) -> None:
        """Write `state` and the weights."""
        raise NotImplementedError

    def read(self) -> dict[str, Any]:
        """What write() wrote."""
        raise NotImplementedError

    def take(self, saved: dict[str, Any]) -> None:
        """Go on with the weights that read() gave."""
        raise NotImplementedError


class CpuTraining(Training):
    """The plain model, one character after the other."""

    suffix = ".json"

    def __init__(self, settings: dict[str, Any]) -> None:
        shape = {name: settings[name] for name in ("context", "embedding", "hidden", "block", "seed")}
        self.shape = DFlashConfig(vocabulary=len(ALPHABET), **shape)
        super().__init__(settings, self.shape)
        self.model = DFlashModel(self.shape)
        self.tokens_a_step = settings["batch"] * settings["block"]

    def train_step(self) -> float:
        context, batch, loss = self.shape.context, self.settings["batch"], 0.0
        for window in self.windows(batch, context + self.shape.block):
            one, gradients = self.model.loss_and_gradients(window[:context], window[context:])
            self.model.update(gradients, self.settings["rate"] / batch)
            loss += one / batch
        self.step += 1
        return loss

    def write(self, state: dict[str, Any], stream: BinaryIO) -> None:
        stream.write(json.dumps({**state, "parameters": self.model.parameters}).encode())

    def read(self) -> dict[str, Any]:
        saved: dict[str, Any] = json.loads(self.checkpoint.read_bytes())
        return saved

    def take(self, saved: dict[str, Any]) -> None:
        self.model = DFlashModel(self.shape, saved["parameters"])


class GpuTraining(Training):
    """A copy of the transformer on each GPU, each driven by a thread; the first GPU's copy is the one that learns.

    Compiled code belongs to the grad mode, the autocast mode and the device under which it was compiled. When one of
    them differs, torch.compile compiles anew there and then: in the threads, all at once. Releases of torch differ in
    what comes of it, from an error minutes after the start ("Detected that you are using FX to symbolically trace a
    dynamo-optimized function" is one thread stumbling over the tracing of another) to threads that wait for each other.
    So all compilation is done by warm_up(), in the main thread, one GPU after the other, forwards and backwards, by the
    very function that the threads call later: no mode can differ. A warm-up under torch.no_grad() looks cheaper and is
    in vain, since training with gradients compiles all of it again. torch 2.6 and newer.
    """

    suffix = ".pt"

    def __init__(self, settings: dict[str, Any], gpus: int) -> None:
        shape = {name: settings[f"gpu_{name}"] for name in ("window", "block", "width", "heads", "layers")}
        self.shape = TransformerConfig(vocabulary=len(ALPHABET), seed=settings["seed"], **shape)
        super().__init__(settings, self.shape)
        self.tokens_a_step = gpus * settings["gpu_batch"] * self.shape.window
        self.devices = [torch.device("cuda", index) for index in range(gpus)]
        self.models = [DFlashTransformer(self.shape, device) for device in self.devices]
        self.optimizer = torch.optim.AdamW(self.models[0].parameters.values(), lr=settings["gpu_rate"])
        # One piece of compiled code for each GPU, and no falling back to the slow way when there are many of them.
        torch._dynamo.config.recompile_limit = max(8, gpus)
        self.loss = torch.compile(draft_loss, dynamic=False, fullgraph=True)
        # The current GPU is the thread's own, so each thread sets it once.
        self.threads = [
            ThreadPoolExecutor(1, f"gpu{device.index}", torch.cuda.set_device, (device,)) for device in self.devices
        ]

    def warm_up(self) -> None:
        for index, device in enumerate(self.devices):
            since = time.monotonic()
            with torch.cuda.device(device):
                self.learn(index)
                torch.cuda.synchronize()
            print(f"compiled for GPU {index} in {time.monotonic() - since:.1f} s", flush=True)
        # Whatever would be compiled from now on, in a thread, is an error that says so and not a run that hangs.
        torch.compiler.set_stance("fail_on_recompile")

    def learn(self, index: int) -> Any:
        """One batch on one GPU: leaves the gradients at its copy of the weights and gives the loss."""
        model, device = self.models[index], self.devices[index]
        tokens = torch.tensor(self.windows(self.settings["gpu_batch"], self.shape.window, index), device=device)
        for weights in model.parameters.values():
            weights.grad = None
        with torch.enable_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.loss(model.parameters, tokens, model.mask, self.shape.layers, self.shape.heads)
        loss.backward()
        return loss.detach()

    def train_step(self) -> float:
        learning = [thread.submit(self.learn, index) for index, thread in enumerate(self.threads)]
        losses = [float(each.result()) for each in learning]
        first, *others = self.models
        for name, weights in first.parameters.items():
            for other in others:
                weights.grad += other.parameters[name].grad.to(weights.device)
            weights.grad /= len(self.models)
        self.optimizer.step()
        self.spread()
        self.step += 1
        return sum(losses) / len(losses)

    def spread(self) -> None:
        """Give the first GPU's weights to the others."""
        first, *others = self.models
        with torch.no_grad():
            for name, weights in first.parameters.items():
                for other in others:
                    other.parameters[name].copy_(weights)

    def write(self, state: dict[str, Any], stream: BinaryIO) -> None:
        weights = {name: each.detach() for name, each in self.models[0].parameters.items()}
        torch.save({**state, "parameters": weights, "optimizer": self.optimizer.state_dict()}, stream)

    def read(self) -> dict[str, Any]:
        saved: dict[str, Any] = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        return saved

    def take(self, saved: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, weights in self.models[0].parameters.items():
                weights.copy_(saved["parameters"][name])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.spread()


class Stop:
    """What SIGTERM and Ctrl-C do: ask for an end after the step, or end at once where there is nothing to save."""

    def __init__(self) -> None:
        self.asked = False
        self.at_once = True
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self)

    def __call__(self, _number: int, _frame: object) -> None:
        self.asked = True
        if self.at_once:
            raise KeyboardInterrupt


def prepare(settings: dict[str, Any], stop: Stop) -> Training | None:
    """A training that is ready for its next step; None when a signal came before."""
    try:
        gpus = torch.cuda.device_count() if torch else 0
        training = GpuTraining(settings, gpus) if gpus else CpuTraining(settings)
        place = "the CPU" if gpus == 0 else "1 GPU" if gpus == 1 else f"{gpus} GPUs"
        print(f"training on {place}, {len(training.tokens)} characters", flush=True)
        training.resume()
        training.warm_up()
        stop.at_once = False
    except KeyboardInterrupt:
        return None
    return training


def train(training: Training, stop: Stop) -> None:
    """Train to the configured number of steps or until a signal came; the checkpoint is saved either way."""
    settings = training.settings
    since, losses = time.monotonic(), []
    while training.step < settings["steps"] and not stop.asked:
        losses.append(training.train_step())
        if training.step % settings["report_every"] == 0:
            now = time.monotonic()
            speed = len(losses) * training.tokens_a_step / (now - since)
            print(f"step {training.step} loss {sum(losses) / len(losses):.4f} tokens/s {speed:.0f}", flush=True)
            since, losses = now, []
        if training.step % settings["save_every"] == 0:
            training.save()
    training.save()
    print(f"{'stopped' if stop.asked else 'done'} at step {training.step}, saved {training.checkpoint}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--steps", type=int, help="instead of the number in the configuration")
    options = parser.parse_args()
    settings = read_config(options.config)
    if options.steps is not None:
        settings["steps"] = options.steps
    stop = Stop()
    training = prepare(settings, stop)
    if training is None:
        print("stopped before the first step, nothing to save", flush=True)
    else:
        train(training, stop)


if __name__ == "__main__":
    main()
