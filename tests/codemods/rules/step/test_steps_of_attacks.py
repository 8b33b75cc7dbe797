"""Gradients of values that belong to one batch, such as those of an attack, are not averaged over processes."""

from __future__ import annotations

import pytest

from ...helpers import migrated

SCRIPT = """import torch
from torch.utils.data import DataLoader

def attacked(model, x, y):
    MADE
    for _ in range(3):
        model(x + delta).sum().backward()
        attack.step()
    return model(x + delta.detach()).sum()

def train(model, data, optimizer):
    LOOP
        x, y = x.cuda(), y.cuda()
        attacked(model, x, y).backward()
        optimizer.step()
"""
LOADER = "for x, y in DataLoader(data):"
DELTA = "delta = torch.zeros_like(x, requires_grad=True)"


@pytest.mark.parametrize(
    ("made", "loop", "is_averaged"),
    [
        (f"{DELTA}; attack = torch.optim.SGD([delta], lr=0.1)", LOADER, False),
        (
            "delta = x.clone().requires_grad_(); attack = torch.optim.Adam([delta])",
            "for step, (x, y) in enumerate(DataLoader(data)):",
            False,
        ),
        (f"{DELTA}; attack = torch.optim.SGD(model.parameters(), lr=0.1)", LOADER, True),
        (
            "delta = torch.nn.Parameter(x); attack = torch.optim.SGD([delta], lr=0.1)",
            LOADER,
            False,
        ),
        # The weights of a model without a module: each fold trains its own.
        (
            f"{DELTA}; attack = torch.optim.SGD([delta], lr=0.1)",
            "for x, y in folds(data):",
            True,
        ),
    ],
)
def test_an_optimizer_of_one_batch_averages_nothing(
    made: str, loop: str, is_averaged: bool
) -> None:
    result = migrated(SCRIPT.replace("MADE", made).replace("LOOP", loop))
    step = (
        "xla.optimizer_step(attack)" if is_averaged else "xla.optimizer_step(attack, average=False)"
    )
    assert f"        {step}\n" in result
    assert "        xla.optimizer_step(optimizer)\n" in result
