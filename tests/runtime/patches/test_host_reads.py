"""What a value that is read between two marks runs (facts 3.20, 3.21)."""

from __future__ import annotations

import torch
from torch import nn

from xla_migrate import runtime as xla


def _launches() -> int:
    return xla.metrics()["launches"] or 0


def _stepped(device: torch.device, reads: int) -> tuple[int, list[float]]:
    """Launches of a step with so many reads between forward and backward, and what was read."""
    model = nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(2, 4, device=device)
    xla.mark_step()
    before = _launches()
    output = model(x)
    loss, accuracy = output.pow(2).mean(), (output > 0).float().mean()
    seen = [float(value) for value in (loss.detach(), accuracy, loss.detach())[:reads]]
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
    return _launches() - before, seen


def test_fact_3_21_reads_before_the_mark_run_the_forward_pass_once(device: torch.device) -> None:
    """A launch for the forward pass, whatever is read of it, and one for the rest."""
    assert _stepped(device, 0)[0] == 1
    launches, seen = _stepped(device, 3)
    assert launches == 2
    assert seen[0] == seen[2]


def test_updates_do_not_pile_up_without_marks(device: torch.device) -> None:
    """3.20: each read runs the updates before it, so that no step traces the ones before it."""
    weight = torch.ones(2, device=device)
    sizes = []
    for _ in range(4):
        before = _launches()
        weight = weight * 0.5 + 1
        weight.sum().item()
        sizes.append(_launches() - before)
    assert sizes == [1, 1, 1, 1]
