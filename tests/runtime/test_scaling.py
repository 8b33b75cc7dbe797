"""timm's scalers without scaling."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime import scaling


def step(device: torch.device, **options: Any) -> tuple[nn.Parameter, Any]:
    weight = nn.Parameter(torch.ones(4, device=device))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = xla.NativeScaler()
    assert scaler((weight * 3).sum(), optimizer, **options) is None
    return weight, scaler


def test_it_steps(device: torch.device) -> None:
    weight, _ = step(device)
    assert weight.tolist() == [-0.5] * 4


def test_it_accumulates_when_told_not_to_update(device: torch.device) -> None:
    weight, _ = step(device, need_update=False)
    assert weight.tolist() == [1.0] * 4
    assert weight.grad is not None
    assert weight.grad.tolist() == [3.0] * 4


@pytest.mark.parametrize(("mode", "expected"), [("norm", 1 - 0.5 * 0.5), ("value", 1 - 0.5 * 1.0)])
def test_it_clips(device: torch.device, mode: str, expected: float) -> None:
    weight, _ = step(device, clip_grad=1.0, clip_mode=mode)
    assert weight.tolist() == pytest.approx([expected] * 4, rel=1e-5)


def test_fact_1_74_and_3_8_it_averages_before_it_clips(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[float]] = []

    def averages(optimizer: torch.optim.Optimizer) -> None:
        (weight,) = optimizer.param_groups[0]["params"]
        seen.append(weight.grad.tolist())

    monkeypatch.setattr(scaling, "reduce_gradients", averages)
    step(device, clip_grad=1.0)
    assert seen == [[3.0] * 4], "once, and not yet clipped"


def test_fact_1_73_it_reads_nothing_back(device: torch.device) -> None:
    reads = xla.metrics()["host_reads"]
    step(device, clip_grad=1.0)
    xla.mark_step()
    assert xla.metrics()["host_reads"] == reads


def test_its_state_is_empty_and_an_old_one_is_taken(device: torch.device) -> None:
    _, scaler = step(device)
    assert scaler.state_dict() == {}
    scaler.load_state_dict({"scale": 65536.0})
    assert scaler.state_dict_key == "amp_scaler"
