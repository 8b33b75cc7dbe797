"""Stands in for the package `evaluate`, whose metrics are downloaded."""

from __future__ import annotations

from typing import Any


class Metric:
    """The share of predictions that are right."""

    def __init__(self) -> None:
        self.right: list[float] = []

    def add_batch(self, predictions: Any, references: Any) -> None:
        self.right += [
            float(a == b) for a, b in zip(list(predictions), list(references), strict=True)
        ]

    def compute(self, predictions: Any = None, references: Any = None) -> dict[str, float]:
        if predictions is not None:
            self.add_batch(predictions, references)
        right, self.right = self.right, []
        return {"accuracy": sum(right) / max(1, len(right))}


def load(*args: Any, **kwargs: Any) -> Metric:
    """Return the accuracy, whatever was asked for."""
    return Metric()
