"""In half precision, R of each module tells a fault from rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.verify.traces import run
from xla_migrate.verify.judge.details import Details
from xla_migrate.verify.judge.judgement import Status
from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.recordings.half_precision import judge

from .detailed import details_of

Change = Callable[[Any], None]


def detailed(folder: Path, change: Change, dtype: torch.dtype | None, scale: float = 1.0) -> Any:
    def train() -> Any:
        torch.manual_seed(1)
        layers = [nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU()) for _ in range(3)]
        model = nn.Sequential(*layers, nn.Linear(32, 8))
        change(model)
        x = torch.randn(64, 32)

        def backward() -> None:
            with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
                loss = model(x).float().square().mean()
            (loss * scale).backward()

        return model, torch.optim.SGD(model.parameters()), backward

    return details_of(train, folder)[0]


def nothing(model: Any) -> None:
    """No fault."""


def other_kernels(model: Any) -> None:
    """Computes in another order."""
    order = torch.randperm(32, generator=torch.Generator().manual_seed(3))
    linear = model[1][0]
    linear.forward = lambda x: nn.functional.linear(
        x[:, order], linear.weight[:, order], linear.bias
    )


def other_eps(model: Any) -> None:
    """A LayerNorm's."""
    model[1][1].eps = 1e-2


def relu(model: Any) -> None:
    """In place of GELU."""
    model[2][2].forward = torch.relu


def lower_backward(model: Any) -> None:
    """A gradient of few digits."""
    model[1][2].register_full_backward_hook(lambda m, given, taken: (given[0] * 1.03,))


def judged(tmp_path: Path, change: Change) -> tuple[Status, str]:
    def with_details(details: Details) -> ObservedRun:
        out = run()
        out.traces[0].details = details
        return out

    verdict = judge(
        with_details(detailed(tmp_path / "exact", nothing, None)),
        with_details(detailed(tmp_path / "lower", nothing, torch.bfloat16, 1024)),
        with_details(detailed(tmp_path / "target", change, torch.bfloat16)),
    )
    return verdict.status, verdict.detail


@pytest.mark.parametrize(
    ("change", "module"),
    [(other_eps, "`1.1` (LayerNorm)"), (relu, "`2.2` (GELU)"), (lower_backward, "`1.2` (GELU)")],
)
def test_a_fault_is_attributed_to_its_module(tmp_path: Path, change: Change, module: str) -> None:
    status, detail = judged(tmp_path, change)
    assert status is Status.FAILED, detail
    assert detail.startswith(f"step 1: {module}: R = ")


@pytest.mark.parametrize("change", [nothing, other_kernels])
def test_what_cannot_be_told_from_rounding_is_not_called_equal(
    tmp_path: Path, change: Change
) -> None:
    status, detail = judged(tmp_path, change)
    assert status is Status.OK, detail
    assert "not distinguishable from bfloat16's rounding" in detail
