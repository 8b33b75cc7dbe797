"""Inside a module that is given the original's input, the first operation that differs is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from xla_migrate.verify.judge.details import Operations
from xla_migrate.verify.observe.details import modules, suspect
from xla_migrate.verify.observe.plan import Suspect
from xla_migrate.verify.recordings import first_wrong_operation

from .detailed import recorded

Forward = Callable[[Any], Any]


class Block(nn.Module):
    def __init__(self, compute: Forward) -> None:
        super().__init__()
        self.compute, self.linear = compute, nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return self.compute(self.linear(F.layer_norm(x, (8,))))


def operations(folder: Path, compute: Forward, is_given: bool, factor: float = 1.0) -> Operations:
    """Of the second call of the block, and a backward pass through it."""
    inside = modules.Recorder()
    watch = suspect.Watch(inside, Suspect("Sequential:1", 2, 0, str(folder), is_given))

    def train() -> None:
        torch.manual_seed(0)
        block = Block(compute)
        model = nn.Sequential(nn.Linear(4, 8), block, block)
        (model(torch.randn(3, 4)) * factor).sum().backward()

    name = "given" if is_given else "stored"
    listeners = [inside.entered, watch.entered], [inside.left, watch.left]
    found = recorded(train, folder / name, *listeners, lambda: watch.step_over(0))
    return found.operations[0]


def compute(x: Any) -> Any:
    return torch.softmax(F.gelu(x) * 0.5, -1)


def stored(folder: Path) -> Operations:
    return operations(folder, compute, False)


def test_the_results_of_the_outermost_functions_are_recorded(tmp_path: Path) -> None:
    found = stored(tmp_path)
    names = [name for name, _ in found.calls]
    assert names == ["layer_norm", "linear", "gelu", "mul", "softmax", "output"]


@pytest.mark.parametrize(
    ("other", "report"),
    [
        (lambda x: torch.softmax(F.gelu(x) * 0.51, -1), ": first in `mul` ("),
        (lambda x: torch.softmax(F.relu(x) * 0.5, -1), "the original calls `gelu` ("),
        (lambda x: torch.softmax(x * 0.5, -1), "the original calls `gelu` ("),
        (lambda x: torch.softmax(F.gelu(x, approximate="tanh") * 0.5, 1), ": first in `gelu` ("),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, other: Forward, report: str) -> None:
    reference = stored(tmp_path)
    found = first_wrong_operation.first_wrong_operation(
        reference, operations(tmp_path, other, True)
    )
    assert found.startswith("confirmed with the original's input")
    assert report in found


def test_a_module_that_computes_the_same_is_not_confirmed(tmp_path: Path) -> None:
    reference = stored(tmp_path)
    again = operations(tmp_path, lambda x: compute(x.double()).float(), True)
    found = first_wrong_operation.first_wrong_operation(reference, again)
    assert found.startswith("given the original's input, its output agrees")
