"""Steps: marks, reduction, closures, waiting."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime import _backend
from xla_migrate.runtime import step as room


def _launches() -> int:
    return xla.metrics()["launches"] or 0


def test_a_mark_launches_what_is_pending_and_an_empty_one_nothing(device: torch.device) -> None:
    x = torch.ones(3, device=device) + 1
    before = _launches()
    xla.mark_step()
    assert _launches() == before + 1
    xla.mark_step()
    assert _launches() == before + 1
    assert x.sum().item() == 6


def test_fact_1_1_no_deprecated_call_is_made(device: torch.device) -> None:
    with pytest.warns(DeprecationWarning, match="torch_xla.device"):
        xm.xla_device()
    model = nn.Linear(2, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.ones(1, 2, device=device)).sum().backward()
        xla.optimizer_step(optimizer)
        xla.mark_step()
        xla.synchronize()
        xla.rendezvous("here")


def test_fact_1_20_optimizer_step_marks_nothing_and_returns_what_step_did(
    device: torch.device,
) -> None:
    parameter = nn.Parameter(torch.ones(2, device=device))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    parameter.grad = torch.ones(2, device=device)
    marks = xla.metrics()["step_marks"]
    assert xla.optimizer_step(optimizer) is None
    assert xla.metrics()["step_marks"] == marks
    assert parameter.tolist() == [0.5, 0.5]


class Optimizer:
    """Any object with ``step`` and ``param_groups`` will do."""

    def __init__(self) -> None:
        self.param_groups: list[Any] = []
        self.calls: list[Any] = []

    def step(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        return "stepped"


def test_arguments_reach_the_optimizer(device: torch.device) -> None:
    optimizer = Optimizer()
    assert xla.optimizer_step(optimizer, scale=2) == "stepped"
    assert optimizer.calls == [((), {"scale": 2})], "a step without closure is not given one"


class Replicas:
    """A backend of two replicas that notes when gradients are averaged."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def device_type(self) -> str:
        return "cpu"

    def replica(self) -> tuple[int, int, int]:
        return 0, 0, 2

    def collective(self, name: str, everyones: list[Any], own: Any) -> None:
        assert name == "all_gather_object"
        everyones[:] = [own, self.theirs(own)]

    def theirs(self, own: Any) -> Any:
        """What the other replica's parameters sum up to."""
        return own

    def total(self, tensors: list[torch.Tensor], scale: float, group: Any) -> None:
        assert (len(tensors), scale, group) == (1, 0.5, None)
        self.notes.append("reduce")


def test_gradients_are_averaged_before_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(_backend, "_chosen", Replicas(notes))
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    optimizer.register_step_pre_hook(lambda *_: notes.append("step"))
    parameter.sum().backward()
    xla.optimizer_step(optimizer)
    assert notes == ["reduce", "step"]


class Scheduled:
    """A project's class around an optimizer: its own step averages, or does not."""

    def __init__(self, optimizer: torch.optim.Optimizer, averages: bool) -> None:
        self.optimizer, self.averages = optimizer, averages

    def step(self) -> None:
        if self.averages:
            xla.optimizer_step(self.optimizer)
        else:
            self.optimizer.step()


def test_an_object_around_an_optimizer_averages_in_its_own_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    monkeypatch.setattr(_backend, "_chosen", Replicas(notes))
    parameter.sum().backward()
    xla.optimizer_step(Scheduled(optimizer, averages=True))
    assert notes == ["reduce"]
    assert parameter.item() == 0
    with pytest.raises(TypeError, match="Scheduled cannot be averaged: it has no param_groups"):
        xla.optimizer_step(Scheduled(optimizer, averages=False))


def test_replicas_with_other_parameters_are_refused_at_the_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []
    replicas = Replicas(notes)
    replicas.theirs = lambda own: [(total + 1e-3, squares) for total, squares in own]  # type: ignore[method-assign]
    monkeypatch.setattr(_backend, "_chosen", replicas)
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    parameter.sum().backward()
    with pytest.raises(RuntimeError, match=r"1 of 1 parameters .* differ .*average=False"):
        xla.optimizer_step(optimizer)
    xla.optimizer_step(optimizer, average=False)
    assert notes == []
    assert parameter.item() == 0
    replicas.theirs = lambda own: own  # type: ignore[method-assign]
    other = nn.Parameter(torch.full((2,), float("nan")))
    other.sum().backward()
    xla.optimizer_step(torch.optim.SGD([other], lr=1.0))
    assert notes == ["reduce"]


def test_fact_1_24_an_accumulation_is_averaged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(_backend, "_chosen", Replicas(notes))
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    for _ in range(3):
        (parameter / 3).sum().backward()
    assert notes == [], "no micro-batch by itself"
    xla.optimizer_step(optimizer)
    assert notes == ["reduce"]


def test_fact_3_13_reducing_again_does_nothing_until_the_next_backward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(_backend, "_chosen", Replicas(notes))
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    xla.reduce_gradients(optimizer)
    assert notes == [], "nothing to average"
    for step in range(1, 4):
        parameter.sum().backward()
        xla.reduce_gradients(optimizer)
        torch.nn.utils.clip_grad_norm_([parameter], 0.1)
        xla.reduce_gradients(optimizer)
        xla.optimizer_step(optimizer)
        assert notes == ["reduce"] * step
    parameter.grad = torch.ones(1)
    xla.reduce_gradients(optimizer)
    assert len(notes) == 4, "a gradient of the script's own"


def test_fact_1_23_the_gradients_of_a_closure_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(_backend, "_chosen", Replicas(notes))
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.LBFGS([parameter], max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (parameter**4).sum()
        loss.backward()
        notes.append("closure")
        return loss

    loss = xla.optimizer_step(optimizer, closure)
    assert loss.item() == 1.0
    assert len(notes) >= 4
    assert notes == ["closure", "reduce"] * (len(notes) // 2)


def test_fact_1_51_synchronize_waits_for_the_device(device: torch.device) -> None:
    """An execution is counted when it is over."""

    def executed() -> int:
        return int(met.metric_data("ExecuteTime")[0])

    x = torch.randn(600, 600).to(device)
    xla.synchronize()
    before = executed()
    for count in range(1, 4):
        y = x
        for _ in range(20):
            y = torch.tanh(y @ x)
        xla.synchronize()
        assert executed() == before + count
        assert y.device == device


def test_fact_1_52_what_nobody_holds_is_not_computed(device: torch.device) -> None:
    before = _launches()
    torch.ones(2, device=device).exp()
    xla.synchronize()
    assert _launches() == before


def test_fact_3_20_reading_without_a_mark_retraces_all_steps(device: torch.device) -> None:
    """Why every step is marked, and why our reads run what is pending (test_reads.py)."""
    x = torch.ones(5, device=device)
    read: Any = torch.Tensor.item
    bare = getattr(read, "__wrapped__", read)

    def compiles(marked: bool) -> int:
        state = torch.zeros(5, device=device)
        xla.mark_step()
        before = xla.metrics()["compiles"] or 0
        for _ in range(6):
            state.mul_(0.5).add_(x)
            if marked:
                xla.mark_step()
            bare(state.sum())
        return (xla.metrics()["compiles"] or 0) - before

    assert compiles(marked=False) >= 5
    assert compiles(marked=True) <= 2


def test_eager_steps(eager: None) -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    parameter.grad = torch.ones(1)
    xla.optimizer_step(optimizer)
    xla.mark_step()
    xla.synchronize("cuda:0")
    xla.reduce_gradients(optimizer)
    assert parameter.item() == 0.5


def test_torch_xla_sync_is_what_a_mark_is(device: torch.device) -> None:
    called: list[int] = []
    xm.add_step_closure(lambda: called.append(1))
    xla.mark_step()
    assert called == [1]


def test_a_training_that_the_script_put_on_the_cpu_is_told_once(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_is_warned", False)
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    with pytest.warns(UserWarning, match="runs on the CPU, not on the 'xla' device"):
        xla.optimizer_step(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xla.optimizer_step(optimizer)


def test_a_training_on_the_device_or_without_one_is_no_news(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    from xla_migrate.runtime.eager import backend as eager_backend

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for where, chosen in ((device, _backend._chosen), (torch.device("cpu"), eager_backend)):
            monkeypatch.setattr(_backend, "_chosen", chosen)
            monkeypatch.setattr(room, "_is_warned", False)
            parameter = nn.Parameter(torch.ones(2, device=where))
            xla.optimizer_step(torch.optim.SGD([parameter], lr=0.5))


def test_a_class_of_its_own_that_has_a_step_alone_is_stepped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stepper:
        steps = 0

        def step(self) -> None:
            self.steps += 1

    stepper = Stepper()
    monkeypatch.setattr(room, "_is_warned", False)
    xla.optimizer_step(stepper)
    assert stepper.steps == 1
    monkeypatch.setattr(room, "world_size", lambda: 2)
    with pytest.raises(TypeError, match="no param_groups"):
        xla.optimizer_step(stepper)
    assert stepper.steps == 2, "only the step shows that it averages nothing"
    xla.optimizer_step(stepper, average=False)
    assert stepper.steps == 3
