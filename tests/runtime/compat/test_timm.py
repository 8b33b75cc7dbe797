"""timm's helpers, which ask for CUDA devices, beside timm's own."""

from __future__ import annotations

import argparse
import copy

import pytest
import torch
import torch.distributed as dist
from timm.utils import ModelEmaV3
from torch import nn

from xla_migrate import runtime as xla


def test_timm_makes_a_generator_that_xla_has_not(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match="XLA device type not an accelerator"):
        ModelEmaV3(nn.Linear(2, 1).to(device))


@pytest.mark.parametrize("where", [None, "xla", "cpu"])
def test_averages_are_those_of_timm(device: torch.device, where: str | None) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model = copy.deepcopy(plain).to(device)
    expected = ModelEmaV3(plain, decay=0.5)
    averages = xla.ModelEmaV3(model, 0.5, device=where)
    assert isinstance(averages, ModelEmaV3)
    for step in range(3):
        x = torch.randn(5, 3)
        for net, ema, batch in ((plain, expected, x), (model, averages, x.to(device))):
            net(batch)
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.add_(1.0)
            ema.update(net, step=step)
        xla.mark_step()
    assert next(averages.parameters()).device.type == ("cpu" if where == "cpu" else "xla")
    for name, value in expected.module.state_dict().items():
        torch.testing.assert_close(averages.module.state_dict()[name].cpu(), value)


def test_one_process_has_no_group(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    args = argparse.Namespace(device="cuda")
    assert xla.init_distributed_device(args) == device
    found = (args.distributed, args.world_size, args.rank, args.local_rank, args.device)
    assert found == (False, 1, 0, 0, str(device))
    assert not dist.is_initialized()


def test_the_cpu_stays_the_cpu(device: torch.device) -> None:
    args = argparse.Namespace(device="cpu")
    assert xla.init_distributed_device(args).type == "cpu"
    assert args.device == "cpu"
