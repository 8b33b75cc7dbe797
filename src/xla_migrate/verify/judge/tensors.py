"""Differences of gradients and weights, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from .trace import OptimizerStep, Trace


@dataclass(frozen=True)
class TensorComparison:
    """One tensor that an optimizer steps on, over all steps.

    Attributes:
        name, shape: of the tensor.
        optimizer: which one steps on it.
        gradient: the largest difference of its gradients' norms, relative to the norm of all gradients of that step;
            None where it had no gradient in both.
        weights: the largest difference of its norm or projection after a step, relative to its norm; None for biases
            and scales, which are not compared one by one.
    """

    name: str
    shape: tuple[int, ...]
    optimizer: int
    gradient: float | None
    weights: float | None

    @property
    def worst(self) -> float:
        """The larger of both differences; what is not a number is the worst of all."""
        known = [x for x in (self.gradient, self.weights) if x is not None]
        return max((math.inf if math.isnan(x) else x for x in known), default=0.0)


def compare_tensors(reference: Trace, target: Trace) -> list[TensorComparison]:
    """All tensors of both, the worst first."""
    found = list(_compared(reference, target))
    return sorted(found, key=lambda one: -one.worst)


def _compared(reference: Trace, target: Trace) -> Iterator[TensorComparison]:
    pairs = list(zip(reference.steps, target.steps, strict=False))
    for optimizer, parameters in reference.parameters.items():
        own = [(a, b) for a, b in pairs if a.optimizer == b.optimizer == optimizer]
        for i, parameter in enumerate(parameters):
            gradients = [d for a, b in own if (d := _of_gradient(a, b, i)) is not None]
            weights = [d for a, b in own if (d := _of_weights(a, b, i)) is not None]
            compared = len(parameter.shape) >= 2 and parameter.trains
            yield TensorComparison(
                parameter.name,
                parameter.shape,
                optimizer,
                max(gradients, default=None),
                max(weights, default=None) if compared else None,
            )


def _of_gradient(a: OptimizerStep, b: OptimizerStep, i: int) -> float | None:
    if i >= min(len(a.with_gradient), len(b.with_gradient)):
        return None
    x, y, size = a.gradient_of(i), b.gradient_of(i), a.gradient_norm
    if x is None or y is None or not size:
        return None
    return abs(x - y) / size


def _of_weights(a: OptimizerStep, b: OptimizerStep, i: int) -> float | None:
    lists = (a.norms, b.norms, a.projections, b.projections)
    if any(i >= len(values) for values in lists):
        return None
    x, y, p, q = (values[i] for values in lists)
    return max(abs(x - y), abs(p - q)) / x if x else None
