"""Several replicas: each reads later what it reads, and none of their graphs differs for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from xla_migrate import runtime as xla
from xla_migrate.runtime.deferred import waiting
from xla_migrate.runtime.torch_xla import transfers

from .. import rehearsal

SCRIPT = r"""
import torch
from xla_migrate import runtime as xla

xla.init_process_group("nccl", init_method="env://")
device, rank = xla.xla_device(), xla.rank()
model = torch.nn.Linear(2, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
running, own, seen, when, waited = 0.0, 0.0, [], [], []
for step in range(40):
    x = torch.full((4, 2), step + rank + 1.0, device=device) / 40
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    xla.optimizer_step(optimizer)
    xla.mark_step()
    running += xla.item(loss)
    waited.append(loss)
    xla.later(lambda step=step, loss=loss: seen.append((step, loss.item())))
    if rank == 0:
        own += xla.item(loss.detach() * 2)
    when.append(len(seen))
xla.flush()
report("order", [step for step, _ in seen])
report("when", when)
report("same", running == sum(loss.item() for loss in waited) == sum(v for _, v in seen))
report("own", rank > 0 or own == sum(2 * v for _, v in seen))
report("weights", [p.tolist() for p in model.parameters()])
"""


@pytest.fixture(scope="module")
def replicas() -> list[dict[str, Any]]:
    return rehearsal.run(SCRIPT)


def test_sinks_run_in_order_at_the_same_marks(replicas: list[dict[str, Any]]) -> None:
    for replica in replicas:
        assert replica["order"] == list(range(40))
    assert replicas[0]["when"] == replicas[1]["when"]
    assert 0 < replicas[0]["when"][20] < 20


def test_values_are_those_of_each_replica(replicas: list[dict[str, Any]]) -> None:
    assert all(replica["same"] and replica["own"] for replica in replicas)


def test_they_train_alike(replicas: list[dict[str, Any]]) -> None:
    assert replicas[0]["weights"] == replicas[1]["weights"]


def test_a_read_is_no_part_of_the_steps_graph(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where replicas reduce on the device, one that reads alone has to run the others' programs."""
    monkeypatch.setattr(waiting, "world_size", lambda: 2)
    monkeypatch.setattr(transfers.xr, "world_size", lambda: 2)
    weight = torch.ones(4, device=device)
    xla.mark_step()
    before = xla.metrics()["launches"] or 0
    loss = (weight * 3).sum()
    xla.mark_step()
    number = xla.item(loss)
    after = (weight * loss).sum()
    assert (xla.metrics()["launches"] or 0) - before == 2  # the step, and the copy by itself
    xla.mark_step()
    assert (xla.metrics()["launches"] or 0) - before == 3
    monkeypatch.undo()
    assert (number, after.item()) == (12.0, 48.0)


def test_what_waits_is_fetched_without_a_launch(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "world_size", lambda: 2)
    monkeypatch.setattr(transfers.xr, "world_size", lambda: 2)
    value = torch.ones(3, device=device).sum()
    number = xla.item(value)
    value.add_(1)
    before = xla.metrics()["launches"]
    assert number == 3.0
    assert xla.metrics()["launches"] == before
    xla.mark_step()
    monkeypatch.undo()
    assert value.item() == 4.0
