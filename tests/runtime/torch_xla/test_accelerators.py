"""Replicas on accelerators: what is asked of torch_xla, with one device and its collectives watched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from xla_migrate import runtime as xla
from xla_migrate.runtime.torch_xla import backend as torch_xla_backend
from xla_migrate.runtime.torch_xla import groups
from xla_migrate.runtime.torch_xla import replicas as xla_replicas
from xla_migrate.runtime.torch_xla.backend import xm, xr


@pytest.fixture
def group(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The process group that accelerators have, of one."""
    new_group = dist.new_group
    store = dist.HashStore()  # type: ignore[attr-defined]
    yield groups._accelerator_group()(store, 0, 1, timedelta(seconds=20))
    dist.new_group = new_group


def options(op: Any) -> Any:
    made = dist.AllreduceOptions()
    made.reduceOp = op
    return made


def test_fact_5_3_host_tensors_go_through_gloo(group: Any) -> None:
    """Objects are host tensors, which torch_xla's own group refuses."""
    x, parts = torch.ones(2), [torch.zeros(2)]
    group.allreduce([x], options(dist.ReduceOp.AVG)).wait()
    group.allgather([parts], [x]).wait()
    assert parts[0].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="XLA tensor"):
        super(type(group), group).allgather([[torch.zeros(2)]], [x])


def test_fact_5_3_averages_are_sums_divided(group: Any, device: torch.device) -> None:
    group.size = lambda: 4
    x = torch.full((2,), 8.0, device=device)
    with pytest.raises(ValueError, match="reduce op"):
        super(type(group), group).allreduce([x], options(dist.ReduceOp.AVG))
    group.allreduce([x], options(dist.ReduceOp.AVG)).wait()
    assert x.tolist() == [2, 2]
    group.allreduce([x], options(dist.ReduceOp.SUM)).wait()
    assert x.tolist() == [2, 2]


def test_collectives_are_launched_when_they_are_called(group: Any, device: torch.device) -> None:
    """So that one replica may read the result alone (1.41)."""
    x = torch.ones(2, device=device) * 3
    before = xla.metrics()["step_marks"]
    group.allreduce([x], options(dist.ReduceOp.SUM)).wait()
    assert xla.metrics()["step_marks"] == (before or 0) + 2


def test_what_a_replica_has_computed_alone_is_launched_before(
    group: Any, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`if rank == 0: stop += 1` and a broadcast: all replicas have to run one and the same graph."""
    launched: list[int | None] = []
    torch_xlas: Any = type(group).__bases__[0]
    monkeypatch.setattr(
        torch_xlas, "allreduce", lambda *args: launched.append(xla.metrics()["launches"])
    )
    xla.mark_step()
    before = xla.metrics()["launches"] or 0
    stop = torch.zeros(1, device=device) + 1
    group.allreduce([stop], options(dist.ReduceOp.SUM)).wait()
    assert launched == [before + 1]


def test_barriers_are_met(group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch_xla's own group does nothing there."""
    met: list[str] = []
    monkeypatch.setattr(xm, "rendezvous", met.append)
    group.barrier()
    assert met == ["xla_migrate.barrier"]


class Reductions:
    """In place of ``xm.all_reduce`` between 4 replicas that all hold the same."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, float, Any]] = []

    def __call__(
        self, op: str, tensors: list[torch.Tensor], scale: float, groups: Any, pin_layout: bool
    ) -> None:
        self.calls.append((len(tensors), scale, groups))
        for tensor in tensors:
            tensor.mul_(4 * scale)


@pytest.fixture
def reductions(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> Reductions:
    made = Reductions()
    monkeypatch.setattr(xm, "all_reduce", made)
    monkeypatch.setattr(xla_replicas, "rehearses", lambda: False)
    monkeypatch.setattr(xla_replicas, "ensure_group", lambda: None)
    monkeypatch.setattr(xla_replicas, "_unlaunched_since", None)
    monkeypatch.setattr(xla_replicas, "_met", set())
    return made


def test_gradients_are_one_reduction_in_the_graph(
    reductions: Reductions, device: torch.device
) -> None:
    gradients = [torch.full((2,), 2.0, device=device), torch.ones(3, device=device)]
    xla.mark_step()
    before = xla.metrics()
    xla_replicas.total(gradients, 0.25)
    assert reductions.calls == [(2, 0.25, None)]
    after = xla.metrics()
    assert (after["launches"], after["host_reads"]) == (before["launches"], before["host_reads"])
    assert gradients[0].tolist() == [2, 2]


def test_fact_1_21_neurons_buckets(
    reductions: Reductions, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLREDUCE_GRADIENTS_BUCKET_SIZE_MB", "1")
    gradients = [torch.ones(200_000, device=device) for _ in range(3)]
    xla_replicas.total(gradients, 0.25)
    assert [count for count, _, _ in reductions.calls] == [1, 1, 1]


@pytest.fixture
def four(reductions: Reductions, monkeypatch: pytest.MonkeyPatch) -> Reductions:
    """Among 4 replicas that all hold the same."""
    monkeypatch.setattr(xla_replicas, "_check_everyone_comes", lambda *given: None)
    monkeypatch.setattr(torch_xla_backend, "replica", lambda: (0, 0, 4))

    def everyones(answers: list[Any], mine: Any, group: Any = None) -> None:
        answers[:] = [mine] * len(answers)

    monkeypatch.setattr(dist, "all_gather_object", everyones)
    return reductions


def test_fact_3_11_replicas_begin_with_the_parameters_and_buffers_of_the_first(
    four: Reductions, device: torch.device
) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to(device)
    xla.DistributedDataParallel(model)
    held = len(list(model.parameters())) + len(list(model.buffers()))
    assert four.calls == [(held, 1.0, None)]


def test_fact_5_4_gradients_are_averaged_in_backward_and_not_again(
    four: Reductions, device: torch.device
) -> None:
    """Experts take the wrapper away on XLA; with ours the script keeps it."""
    model = xla.DistributedDataParallel(nn.Linear(2, 1).to(device), broadcast_buffers=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    four.calls.clear()
    with model.no_sync():
        model(torch.ones(1, 2)).sum().backward()
    assert four.calls == []
    model(torch.ones(1, 2)).sum().backward()
    assert four.calls == [(2, 0.25, None)]
    xla.reduce_gradients(optimizer)
    xla.optimizer_step(optimizer)
    assert len(four.calls) == 1
    assert set(model.state_dict()) == {"module.weight", "module.bias"}


@pytest.mark.parametrize("sends", [True, False])
def test_a_broadcast_is_a_sum_with_zeros(
    reductions: Reductions, device: torch.device, monkeypatch: pytest.MonkeyPatch, sends: bool
) -> None:
    """NaN and infinity of the others do not come into it; every replica runs the same graph."""
    monkeypatch.setattr(xr, "global_ordinal", lambda: 0 if sends else 1)
    numbers = torch.tensor([1.0, float("nan")], device=device)
    flags = torch.tensor([True, False], device=device)
    counts = torch.tensor([3], device=device)
    xla_replicas.broadcast([numbers, flags, counts], 0)
    assert counts.item() == (12 if sends else 0)
    assert flags.tolist() == [sends, False]
    assert numbers[0].item() == (4 if sends else 0)
    assert sends == bool(numbers[1].isnan().item())


def test_a_save_waits_for_all_only_while_a_reduction_is_pending(
    reductions: Reductions, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[timedelta] = []

    class World:
        host = type("Host", (), {"timeout": timedelta(minutes=30)})()

    World.host.monitored_barrier = met.append  # type: ignore[attr-defined]
    monkeypatch.setattr(xla_replicas, "_check_everyone_comes", lambda *given: None)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "group", type("group", (), {"WORLD": World}))
    gradient = torch.ones(1, device=device)
    xla_replicas.settle()
    xla_replicas.total([gradient], 0.25)
    xla.mark_step()
    xla_replicas.settle()
    assert met == []
    xla_replicas.total([gradient], 0.25)
    xla_replicas.settle()
    xla_replicas.settle()
    assert met == [timedelta(minutes=30)], "once: it launches"


def test_fact_1_21_a_replica_with_other_gradients_gives_up_in_time(
    reductions: Reductions, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without DistributedDataParallel; on a device nobody would ever end the wait for the others."""
    met: list[timedelta] = []

    class World:
        host = type("Host", (), {"timeout": timedelta(seconds=7)})()

    World.host.monitored_barrier = met.append  # type: ignore[attr-defined]
    monkeypatch.setattr(dist, "group", type("group", (), {"WORLD": World}))
    amounts: list[list[int]] = []
    monkeypatch.setattr(dist, "all_reduce", lambda x, **options: amounts.append(x.tolist()))
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    first, second = torch.ones(1, device=device), torch.ones(2, device=device)
    for gradients in ([first, second], [first, second], [second], [first, second]):
        xla_replicas.total(gradients, 0.25)
    assert len(met) == 2, "once for each set of gradients"
    assert amounts == [[3, -3], [2, -2]]

    def nobody_comes(limit: timedelta) -> None:
        raise RuntimeError("timeout")

    World.host.monitored_barrier = nobody_comes  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match=r"did not come within 7 s.*find_unused_parameters=True"):
        xla_replicas.total([first], 0.25)
    assert len(reductions.calls) == 4
