"""Logistic regression by gradient descent, in plain Python: enough to learn something real.

A sample is `x1,x2,label`; the label is 1 above a line. A model is a JSON file {"weights": [...]}.
"""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path

Weights = list[float]
Sample = tuple[Sequence[float], float]
LEARNING_RATE = 0.5
FEATURES = 2


def load(*paths: Path) -> list[Sample]:
    """The samples of csv or txt files, with or without a header."""
    samples: list[Sample] = []
    for path in paths:
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                try:
                    *features, label = (float(cell) for cell in row)
                except ValueError:
                    continue  # the header
                if len(features) == FEATURES:
                    samples.append((features, label))
    return samples


def initial() -> Weights:
    """A model that knows nothing: weights, then the bias."""
    return [0.0] * (FEATURES + 1)


def predict(weights: Weights, features: Sequence[float]) -> float:
    """How probable label 1 is."""
    total = sum(weight * value for weight, value in zip(weights, (*features, 1.0), strict=True))
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))


def train(weights: Weights, samples: Sequence[Sample], *, epochs: int) -> Weights:
    """Weights after so many passes over all samples."""
    found = list(weights)
    for _ in range(epochs):
        slope = [0.0] * len(found)
        for features, label in samples:
            error = predict(found, features) - label
            for index, value in enumerate((*features, 1.0)):
                slope[index] += error * value
        for index, each in enumerate(slope):
            found[index] -= LEARNING_RATE * each / max(1, len(samples))
    return found


def precision(weights: Weights, samples: Sequence[Sample]) -> float:
    """The share of samples that the model gets right."""
    if not samples:
        return 0.0
    right = sum((predict(weights, features) > 0.5) == (label > 0.5) for features, label in samples)
    return right / len(samples)


def read_model(path: Path) -> Weights:
    weights: Weights = json.loads(path.read_text(encoding="utf-8"))["weights"]
    return weights


def write_model(path: Path, weights: Weights) -> None:
    """All of it or nothing: a reader never sees half a model."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f"{path.name}.half")
    half.write_text(json.dumps({"weights": weights}), encoding="utf-8")
    half.replace(path)
