"""Batch norms whose momentum is another in every step."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from xla_migrate import runtime as xla
from xla_migrate.runtime.patches import batch_norm


def compiles() -> int:
    return int(xla.metrics()["compiles"] or 0)


def test_statistics_that_are_computed_anew_compile_no_step_each(device: torch.device) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    theirs = copy.deepcopy(model)
    model.to(device)
    batches = [torch.randn(6, 4) for _ in range(12)]
    before = compiles()
    update_bn(xla.MpDeviceLoader(batches), model, device=device)
    assert compiles() - before < 8
    update_bn(batches, theirs)
    for ours, expected in zip(model.buffers(), theirs.buffers()):
        torch.testing.assert_close(ours.cpu(), expected)


def test_a_momentum_that_changes_trains_alike(device: torch.device) -> None:
    """As SAM has it: none in the second pass."""
    norm = nn.BatchNorm1d(4)
    theirs = copy.deepcopy(norm)
    norm.to(device)
    for step in range(6):
        norm.momentum = theirs.momentum = 0.1 if step % 2 else 0.0
        x = torch.randn(5, 4)
        gradients = []
        for module, given in ((norm, x.to(device)), (theirs, x)):
            module.zero_grad()
            module(given).pow(3).sum().backward()
            gradients.append([p.grad.cpu() for p in module.parameters() if p.grad is not None])
        xla.mark_step()
        for ours, expected in zip(*gradients):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm.running_mean.cpu(), theirs.running_mean)
    torch.testing.assert_close(norm.running_var.cpu(), theirs.running_var)


def test_the_momentum_is_part_of_torch_xlas_graph(device: torch.device) -> None:
    x = torch.randn(5, 3).to(device)
    mean, variance = torch.zeros(3).to(device), torch.ones(3).to(device)
    xla.mark_step()
    before = compiles()
    for k in range(4):
        batch_norm._torch_batch_norm(x, mean, variance, training=True, momentum=0.3 + k / 7)
        xla.mark_step()
    assert compiles() - before >= 4


def test_the_variance_is_corrected_once_under_a_default_device(device: torch.device) -> None:
    """`torch.set_default_device` is a mode of torch functions, in which torch's batch norm calls itself by its name."""
    norm, x = nn.BatchNorm1d(4), torch.randn(5, 4)
    theirs = copy.deepcopy(norm)
    norm.to(device)
    with torch.device(device):
        norm(x.to(device))
    theirs(x)
    torch.testing.assert_close(norm.running_var.cpu(), theirs.running_var)
