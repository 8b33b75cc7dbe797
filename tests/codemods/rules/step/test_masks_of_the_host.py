"""Masks that are made on the host, stored in objects and moved to the device."""

from __future__ import annotations

import pytest

from ...helpers import migrated

SOURCE = """\
import torch
import torch.nn.functional as F

class Graph:
    def __init__(self, n):
        self.x, self.y = torch.randn(n, 4), torch.randint(0, 3, (n,))
        self.mask = {made}
        self.mask[: n // 2] = True
        self.other = ~self.mask

def train(model, optimizer, device):
    g = Graph(100)
    for epoch in range(10):
        x, y = g.x.to(device), g.y.to(device)
        out = model(x)
        {line}
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

train(torch.nn.Linear(4, 3).cuda(), None, torch.device("cuda"))
"""
MADE = "torch.zeros(n, dtype=torch.bool)"
LOSS = "loss = F.cross_entropy(out[mask], y[mask])"


def _after(line: str, made: str = MADE) -> str:
    return migrated(SOURCE.format(made=made, line=line.replace("\n", "\n        ")))


@pytest.mark.parametrize(
    "line",
    [
        f"mask = g.mask.to(device)\n{LOSS}",
        f"mask = g.mask.cuda(non_blocking=True)\n{LOSS}",
        f"mask, n = g.other.to(device), 3\n{LOSS}",
        f"mask = g.mask.to(device) & (y > 0)\n{LOSS}",
        f"for mask in (g.mask, g.other):\n    mask = mask.to(device)\n    {LOSS}",
    ],
)
def test_a_mask_that_is_moved(line: str) -> None:
    assert "loss = xla.masked_loss(F.cross_entropy, out, y, mask=mask)" in _after(line)


@pytest.mark.parametrize(
    "made", [MADE, "torch.ones(n).bool()", "torch.rand(n) > 0.5", "torch.randn(n).gt(0).clone()"]
)
def test_how_it_is_made(made: str) -> None:
    assert "masked_loss" in _after(f"mask = g.mask.to(device)\n{LOSS}", made)


@pytest.mark.parametrize(
    "made", ["torch.zeros(n, dtype=torch.long)", "torch.arange(n)", "made_elsewhere(n)", "None"]
)
def test_indices_and_unknown_values(made: str) -> None:
    assert "masked_loss" not in _after(
        f"at = g.mask.to(device)\n{LOSS.replace('mask', 'at')}", made
    )
