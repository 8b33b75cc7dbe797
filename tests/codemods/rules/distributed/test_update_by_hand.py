"""XLA614: weights that are updated by hand."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check

from ...helpers import migrated

SCRIPT = """import torch
import torch.distributed as dist
START
def train(model, loader, lr):
    for x in loader:
        model.zero_grad()
        model(x).sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                UPDATE
"""


def found(source: str) -> list[tuple[int, str]]:
    return [(f.line, f.severity) for f in check(source.encode()) if f.code == "XLA614"]


def script(update: str, start: str = "") -> str:
    return SCRIPT.replace("UPDATE", update).replace("START", start)


@pytest.mark.parametrize(
    "update",
    [
        "p.data.add_(p.grad, alpha=-lr)",
        "p.data.add_(p.grad.data, alpha=-lr)",
        "p -= lr * p.grad",
        "p.data -= lr * p.grad",
        "p.sub_(lr * p.grad)",
        "p.copy_(p - lr * p.grad)",
    ],
)
def test_updates(update: str) -> None:
    source = script(update)
    assert found(source) == [(10, "info")]
    assert update in migrated(source)
    assert found(script(update, 'dist.init_process_group("nccl")')) == [(10, "warning")]


@pytest.mark.parametrize(
    "update",
    [
        "p.grad.add_(p, alpha=0.1)",
        "p.grad /= 2",
        "norms += p.grad.norm()",
        "averages.add_(p.grad)",
        "p.grad.data.clamp_(-1, 1)",
        "dist.all_reduce(p.grad); p.data.add_(p.grad, alpha=-lr)",
        "xla.reduce_gradients(opt); p.data.add_(p.grad, alpha=-lr)",
    ],
)
def test_what_is_no_update_by_own_gradients(update: str) -> None:
    assert found(script(update)) == []


def test_an_optimizer_of_the_scripts_own_is_stepped_by_the_runtime() -> None:
    source = """
class Plain(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad, alpha=-group["lr"])
"""
    assert found("import torch\n" + source + "def f(loss):\n    loss.backward()\n") == []
