"""Copies on the CPU, for exporters."""

from __future__ import annotations

import torch
from torch import nn

from xla_migrate import runtime as xla


def test_the_model_stays_and_its_copy_computes_the_same(device: torch.device) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(device).eval()
    x = torch.ones(4, 3)
    copied, inputs = xla.on_cpu(model), xla.on_cpu((x.to(device), [x.to(device)], {"k": 1}))
    assert {p.device.type for p in model.state_dict().values()} == {device.type}
    assert {p.device.type for p in copied.state_dict().values()} == {"cpu"}
    assert (inputs[0].device.type, inputs[1][0].device.type, inputs[2]) == ("cpu", "cpu", {"k": 1})
    assert not copied.training
    torch.testing.assert_close(copied(x), model(x.to(device)).cpu())


def test_an_exporter_takes_it(device: torch.device) -> None:
    model = nn.Conv2d(1, 2, 3).to(device)
    traced = torch.jit.trace(xla.on_cpu(model), xla.on_cpu(torch.ones(1, 1, 4, 4).to(device)))
    assert traced(torch.ones(1, 1, 4, 4)).shape == (1, 2, 2, 2)
