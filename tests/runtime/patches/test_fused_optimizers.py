"""Optimizers that are asked for fused kernels, as settings for CUDA do (fact 3.26)."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

from xla_migrate import runtime as xla

MAKERS: dict[str, Any] = {
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "SGD": torch.optim.SGD,
    "Adagrad": torch.optim.Adagrad,
}


def _weights(make: Any, device: torch.device, **options: Any) -> list[float]:
    """The weights of a small layer after two steps."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1).to(device)
    optimizer = make(model.parameters(), lr=0.1, **options)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 3, device=device)).pow(2).mean().backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
    return [w for p in model.parameters() for w in p.flatten().tolist()]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_fused_optimizers_step_as_others_do(make: Any, device: torch.device) -> None:
    fused = _weights(make, device, **{"fused": True})
    assert fused == pytest.approx(_weights(make, device), rel=1e-6)


def test_fact_3_26_fused_optimizers_raise_without_the_patch(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.type != "xla":
        pytest.skip("the CPU has fused optimizers")
    xla.mark_step()  # the patch is applied with the first use of the device
    torchs = inspect.unwrap(torch.optim.Adam._init_group)  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.optim.Adam, "_init_group", torchs)
    with pytest.raises(RuntimeError, match="fused=True"):
        _weights(torch.optim.Adam, device, fused=True)
