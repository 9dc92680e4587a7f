"""A block drafter in its smallest form: from the last characters it predicts the next few at once.

Plain Python, with real gradients, so that it trains anywhere. Python 3.9 and newer.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass


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
