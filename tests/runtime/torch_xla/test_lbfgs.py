"""xla.LBFGS takes torch's steps, in one graph for each evaluation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from xla_migrate import runtime as xla

Losses = list[float]


def problem(device: Any) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Linear(1, 1))
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=made) / 2
    model[3].bias.requires_grad_(False)
    x = torch.randn(16, 2, generator=made)
    return model.to(device), x.to(device), (x[:, :1] * x[:, 1:]).sin().to(device)


def trained(device: Any, make: Any, steps: int = 4, **options: Any) -> tuple[Losses, Any, Any]:
    model, x, y = problem(device)
    optimizer = make(model.parameters(), **options)
    return advance(model, optimizer, x, y, steps), model, optimizer


def advance(model: Any, optimizer: Any, x: Any, y: Any, steps: int) -> Losses:
    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    losses = []
    for _ in range(steps):
        loss = xla.optimizer_step(optimizer, closure)
        xla.mark_step()
        assert loss.device == x.device
        losses.append(loss.item())
    return losses


OPTIONS = [
    {"lr": 0.5, "max_iter": 4, "history_size": 3},
    {"line_search_fn": "strong_wolfe", "max_iter": 6},
    {"lr": torch.tensor(0.3), "max_iter": 3},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_steps_are_torchs(device: torch.device, options: dict[str, Any]) -> None:
    ours, model, optimizer = trained(device, xla.LBFGS, **options)
    torchs, expected, _ = trained("cpu", torch.optim.LBFGS, **options)
    assert ours == pytest.approx(torchs, rel=1e-3)
    assert ours[-1] < ours[0]
    assert isinstance(optimizer, torch.optim.LBFGS)
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("options", OPTIONS)
def test_nothing_is_compiled_after_the_first_steps(
    device: torch.device, options: dict[str, Any]
) -> None:
    _, model, optimizer = trained(device, xla.LBFGS, **options)
    _, x, y = problem(device)
    advance(model, optimizer, x, y, 1)
    before, evaluations = xla.metrics(), _evaluations(optimizer)
    advance(model, optimizer, x, y, 3)
    after, made = xla.metrics(), _evaluations(optimizer) - evaluations
    assert after["compiles"] == before["compiles"]
    assert after["host_reads"] - before["host_reads"] <= made + 3, "one each, and the test's own"


def _evaluations(optimizer: Any) -> int:
    (state,) = optimizer.state.values()
    return int(state["func_evals"])


def test_a_state_that_was_loaded_goes_on(device: torch.device) -> None:
    options = OPTIONS[1]
    whole, *_ = trained(device, xla.LBFGS, steps=5, **options)
    begun, model, optimizer = trained(device, xla.LBFGS, steps=2, **options)
    saved = {n: v.cpu() for n, v in model.state_dict().items()}, optimizer.state_dict()
    other, x, y = problem(device)
    resumed = xla.LBFGS(other.parameters(), **options)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    assert begun + advance(other, resumed, x, y, 3) == pytest.approx(whole, rel=1e-3)


def test_torchs_state_is_taken(device: torch.device) -> None:
    options = OPTIONS[0]
    whole, *_ = trained("cpu", torch.optim.LBFGS, steps=4, **options)
    begun, model, optimizer = trained("cpu", torch.optim.LBFGS, steps=2, **options)
    other, x, y = problem(device)
    resumed = xla.LBFGS(other.parameters(), **options)
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(optimizer.state_dict())
    assert begun + advance(other, resumed, x, y, 2) == pytest.approx(whole, rel=1e-3)


def test_parameters_on_the_cpu() -> None:
    ours, *_ = trained("cpu", xla.LBFGS, **OPTIONS[1])
    torchs, *_ = trained("cpu", torch.optim.LBFGS, **OPTIONS[1])
    assert ours == torchs


def test_on_eager_devices_it_is_torchs(monkeypatch: pytest.MonkeyPatch, eager: None) -> None:
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "eager")
    assert xla.LBFGS is torch.optim.LBFGS


class _Asked(TorchFunctionMode):
    """As a default device is: it is asked before each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_default_device_is_asked_by_the_closure_alone(device: torch.device) -> None:
    model, x, y = problem(device)
    optimizer = xla.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    with _Asked() as asked:
        advance(model, optimizer, x, y, 2)
    assert {"linear", "mse_loss", "backward"} <= asked.names
    assert not {"dot", "neg", "abs"} & asked.names, "what is computed on the host"
