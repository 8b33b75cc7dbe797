"""Averages of weights that torch keeps, on XLA."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from xla_migrate import runtime as xla


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("averaging", [None, get_ema_multi_avg_fn(0.9)])
def test_averages_beside_frozen_layers(
    device: torch.device, averaging: object, use_buffers: bool
) -> None:
    """The first average is a copy, and shared memory with what does not change (fact 3.12): it was lost."""
    start = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
    start[0].requires_grad_(False)
    batches = torch.randn(4, 5, 8)
    averages = []
    for place in (torch.device("cpu"), device):
        model = copy.deepcopy(start).to(place)
        average = AveragedModel(model, multi_avg_fn=averaging, use_buffers=use_buffers)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for batch in batches:
            optimizer.zero_grad()
            model(batch.to(place)).pow(2).mean().backward()
            optimizer.step()
            average.update_parameters(model)
            xla.mark_step()
        averages.append([t.cpu() for t in (*average.parameters(), *model.parameters())])
    for here, there in zip(*averages):
        torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_a_model_goes_on_beside_its_average(device: torch.device, use_buffers: bool) -> None:
    """The average of an epoch, which nothing has changed since: it took the model's own memory."""
    model = nn.BatchNorm1d(4).to(device)
    model(torch.randn(8, 4).to(device))
    xla.mark_step()
    average = AveragedModel(model, device=device, use_buffers=use_buffers)
    xla.mark_step()
    average.update_parameters(model)
    xla.mark_step()
    for _ in range(2):
        with torch.no_grad():
            model(torch.randn(8, 4).to(device))
            average(torch.randn(8, 4).to(device))
        xla.mark_step()
    assert all(torch.isfinite(t.cpu()).all() for t in (*model.buffers(), *average.buffers()))
