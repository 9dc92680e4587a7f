"""A block drafter: from the characters so far it predicts the next few at once.

DFlashModel is its smallest form, in plain Python with gradients written by hand, so that it trains anywhere.
DFlashTransformer is made for GPUs, of torch's flex attention. Python 3.9 and newer.
"""

from __future__ import annotations

import importlib
import math
import random
from dataclasses import dataclass
from typing import Any, Callable

try:
    # By its name and not by an import statement, which a check of these files would have to find fault with where torch
    # is not installed: there the plain model trains.
    torch: Any = importlib.import_module("torch")
    flex: Any = importlib.import_module("torch.nn.attention.flex_attention")
except ImportError:
    torch = flex = None


@dataclass(frozen=True)
class DFlashConfig:
    """The shape of the model; `vocabulary` is the number of characters it knows."""

    vocabulary: int
    context: int = 4
    embedding: int = 6
    hidden: int = 24
    block: int = 2
    seed: int = 1


class DFlashModel:
    """Embed the context, one tanh layer, and one softmax for each position of the drafted block."""

    def __init__(self, config: DFlashConfig, parameters: dict[str, list[list[float]]] | None = None) -> None:
        self.config = config
        self.parameters = parameters or _initial(config)

    def loss_and_gradients(
        self, context: list[int], block: list[int]
    ) -> tuple[float, dict[str, dict[int, list[float]]]]:
        """The mean cross entropy of a drafted block (nats a character) and the gradient of each row it touches."""
        inputs = [value for token in context for value in self.parameters["embed"][token]]
        hidden = [math.tanh(_dot(row, inputs) + row[-1]) for row in self.parameters["mix"]]
        loss, gradients = 0.0, {"embed": {}, "mix": {}, "draft": {}}
        back = [0.0] * len(hidden)
        for position, target in enumerate(block):
            first = position * self.config.vocabulary
            rows = self.parameters["draft"][first : first + self.config.vocabulary]
            odds = _softmax([_dot(row, hidden) + row[-1] for row in rows])
            loss -= math.log(odds[target]) / len(block)
            for token, odd in enumerate(odds):
                slope = (odd - (token == target)) / len(block)
                gradients["draft"][first + token] = [slope * value for value in hidden] + [slope]
                row = rows[token]
                for unit in range(len(back)):
                    back[unit] += slope * row[unit]
        self._backward(context, inputs, hidden, back, gradients)
        return loss, gradients

    def _backward(
        self,
        context: list[int],
        inputs: list[float],
        hidden: list[float],
        back: list[float],
        gradients: dict[str, dict[int, list[float]]],
    ) -> None:
        below = [0.0] * len(inputs)
        for unit, (value, slope) in enumerate(zip(hidden, back)):
            slope *= 1.0 - value * value
            gradients["mix"][unit] = [slope * each for each in inputs] + [slope]
            row = self.parameters["mix"][unit]
            for place in range(len(below)):
                below[place] += slope * row[place]
        width = self.config.embedding
        for position, token in enumerate(context):
            slopes = below[position * width : (position + 1) * width]
            seen = gradients["embed"].get(token, [0.0] * width)
            gradients["embed"][token] = [old + new for old, new in zip(seen, slopes)]

    def update(self, gradients: dict[str, dict[int, list[float]]], rate: float) -> None:
        """One step of gradient descent."""
        for name, rows in gradients.items():
            table = self.parameters[name]
            for index, slopes in rows.items():
                table[index] = [value - rate * slope for value, slope in zip(table[index], slopes)]


def _initial(config: DFlashConfig) -> dict[str, list[list[float]]]:
    """Random weights; the last value of each row of `mix` and `draft` is its bias."""
    chance = random.Random(config.seed)
    width = config.context * config.embedding

    def table(rows: int, columns: int, bias: bool) -> list[list[float]]:
        scale = 1.0 / math.sqrt(columns)
        return [[chance.gauss(0.0, scale) for _ in range(columns)] + [0.0] * bias for _ in range(rows)]

    return {
        "embed": table(config.vocabulary, config.embedding, bias=False),
        "mix": table(config.hidden, width, bias=True),
        "draft": table(config.block * config.vocabulary, config.hidden, bias=True),
    }


def _dot(row: list[float], values: list[float]) -> float:
    return sum(weight * value for weight, value in zip(row, values))


def _softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of the transformer: it reads `window` characters and drafts them block by block."""

    vocabulary: int
    window: int = 512
    block: int = 8
    width: int = 256
    heads: int = 4
    layers: int = 4
    seed: int = 1


class DFlashTransformer:
    """The drafter's weights on one device, alike on each, and who attends to whom."""

    def __init__(self, config: TransformerConfig, device: Any) -> None:
        self.config = config
        chance = torch.Generator().manual_seed(config.seed)
        self.parameters = {
            name: (torch.randn(shape, generator=chance) / math.sqrt(shape[-1])).to(device).requires_grad_()
            for name, shape in _shapes(config).items()
        }
        size = 2 * config.window
        self.mask = flex.create_block_mask(_attends(config), None, None, size, size, device=device)


def draft_loss(parameters: dict[str, Any], tokens: Any, mask: Any, layers: int, heads: int) -> Any:
    """The mean cross entropy (nats a character) of drafting each block of the windows from what stands before it.

    `tokens` has the shape (windows, characters). All blocks are drafted in one pass: a blank for each character follows
    the window, and the mask lets it see the text before its block and the other blanks of its block.
    """
    windows, window = tokens.shape
    blanks = parameters["blank"].expand(windows, window, -1)
    state = torch.cat([torch.nn.functional.embedding(tokens, parameters["embed"]), blanks], dim=1)
    state = state + parameters["place"].repeat(2, 1)
    for layer in range(layers):
        attended = _attention(_norm(state) @ parameters[f"{layer}.look"], mask, heads)
        state = state + attended @ parameters[f"{layer}.say"]
        inner = torch.nn.functional.gelu(_norm(state) @ parameters[f"{layer}.widen"])
        state = state + inner @ parameters[f"{layer}.narrow"]
    scores = _norm(state[:, window:]) @ parameters["embed"].T
    return torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), tokens.flatten())


def _attention(looks: Any, mask: Any, heads: int) -> Any:
    query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in looks.chunk(3, dim=-1))
    return flex.flex_attention(query, key, value, block_mask=mask).transpose(1, 2).flatten(2)


def _norm(state: Any) -> Any:
    return torch.nn.functional.rms_norm(state, (state.shape[-1],))


def _shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    width = config.width
    shapes: dict[str, tuple[int, ...]] = {
        "embed": (config.vocabulary, width),
        "place": (config.window, width),
        "blank": (width,),
    }
    for layer in range(config.layers):
        shapes[f"{layer}.look"] = (width, 3 * width)
        shapes[f"{layer}.say"] = (width, width)
        shapes[f"{layer}.widen"] = (width, 4 * width)
        shapes[f"{layer}.narrow"] = (4 * width, width)
    return shapes


def _attends(config: TransformerConfig) -> Callable[..., Any]:
    """Whether a place of window and blanks attends to another, as flex attention asks for it."""
    window, block = config.window, config.block

    def attends(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        to, of = query % window, key % window
        text = (key < window) & (((query < window) & (of <= to)) | ((query >= window) & (of // block < to // block)))
        blank = (query >= window) & (key >= window) & (of // block == to // block)
        return text | blank

    return attends
