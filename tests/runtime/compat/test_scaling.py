"""torch's and timm's scalers without scaling."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler as TorchScaler

from xla_migrate import runtime as xla
from xla_migrate.runtime.compat import timm


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

    monkeypatch.setattr(timm, "reduce_unasked", averages)
    step(device, clip_grad=1.0)
    assert seen == [[3.0] * 4], "once, and not yet clipped"


def test_fact_1_73_it_reads_nothing_back(device: torch.device) -> None:
    reads = xla.metrics()["host_reads"]
    step(device, clip_grad=1.0)
    xla.mark_step()
    assert xla.metrics()["host_reads"] == reads


def cuda_state() -> dict[str, Any]:
    """What torch's scaler has in a checkpoint (the one for the CPU has the same state)."""
    scaler = TorchScaler("cpu", init_scale=1024.0, growth_interval=7)
    scaler.scale(torch.ones(()))  # makes its tensors
    scaler.update(512.0)
    return scaler.state_dict()


@pytest.mark.parametrize("make", [xla.GradScaler, xla.NativeScaler])
def test_a_cuda_script_s_state_is_kept(make: Any) -> None:
    scaler = make()
    scaler.load_state_dict(cuda_state())
    assert scaler.state_dict() == cuda_state()


@pytest.mark.parametrize("make", [xla.GradScaler, xla.NativeScaler])
def test_torch_resumes_from_its_state(make: Any) -> None:
    resumed = TorchScaler("cpu", init_scale=3.0)
    resumed.load_state_dict(make().state_dict())
    assert resumed.state_dict() == TorchScaler("cpu").state_dict()


def test_it_scales_nothing(device: torch.device) -> None:
    scaler = xla.GradScaler(init_scale=8.0)
    weight = nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.5, 0.5]
    assert (scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()["scale"]) == (1, True, 8)


@pytest.mark.parametrize("kind", [TorchScaler, torch.cuda.amp.GradScaler])
def test_it_is_one_of_torchs(kind: type) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(xla.GradScaler(), kind)


def test_one_that_is_not_enabled_has_no_state() -> None:
    scaler = xla.GradScaler(enabled=False)
    assert (scaler.state_dict(), scaler.is_enabled()) == ({}, False)
    scaler.load_state_dict(cuda_state())
    assert scaler.state_dict() == {}
