"""What gloo's threads hold on to when a collective is over: nothing that Python knows."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import AllgatherOptions  # type: ignore[attr-defined]

from xla_migrate import runtime as xla
from xla_migrate.runtime.replicas import gloo as room
from xla_migrate.runtime.replicas.gloo import Gloo

TIMES = 500


@pytest.fixture(scope="module")
def gloo() -> Gloo:
    return Gloo(dist.HashStore(), 0, 1, timedelta(seconds=60))  # type: ignore[attr-defined]


def held(tensor: torch.Tensor) -> int:
    return tensor._use_count() - 1  # type: ignore[attr-defined,no-any-return]


def test_gloo_by_itself_holds_on_to_tensors_for_a_moment(gloo: Gloo) -> None:
    """The fact that the next tests rest on, seen in about 1 of 10; enough for a job to hang at its exit."""
    seen = 0
    for _ in range(100 * TIMES):
        x, parts = torch.ones(3), [torch.zeros(3)]
        gloo._group.allgather([parts], [x]).wait()
        seen += held(x)
        if seen:
            return
    pytest.fail("gloo has let go each time: `Gloo._run` needs not wait any more")


def test_nothing_is_held_after_a_collective(gloo: Gloo) -> None:
    options = dist.AllreduceOptions()
    for _ in range(TIMES):
        x, parts, whole = torch.ones(3), [torch.zeros(3)], torch.zeros(3)
        gloo.call("allgather", [parts], [x], AllgatherOptions())
        gloo.call("_allgather_base", whole, x)
        gloo.call("allreduce", [x], options)
        assert parts[0].tolist() == whole.tolist() == x.tolist() == [1, 1, 1]
        assert [held(t) for t in (x, parts[0], whole)] == [0, 0, 0]
    assert not room._given_up


def test_what_gloo_keeps_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_LENT_FOR", 0.01)
    monkeypatch.setattr(room, "_given_up", [])
    lent: list[torch.Tensor] = []
    x = torch.ones(3)
    other = room._lent([x, 3], lent)
    assert other[0].data_ptr() == x.data_ptr()
    assert other[1] == 3
    monkeypatch.setattr(torch.Tensor, "_use_count", lambda tensor: 2)
    room._take_back(lent)
    assert room._given_up == lent, "and never dropped"


@pytest.fixture
def group(eager: None) -> Iterator[Any]:
    store = dist.HashStore()  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield weakref.ref(dist.group.WORLD)
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_group_of_gloos_outlives_its_destruction(group: Any) -> None:
    """So that a DDP that is dropped later does not end its threads with Python's lock in its hands."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    xla.destroy_process_group()
    assert not dist.is_initialized()
    del model
    gc.collect()
    assert group() is not None
