"""The collectives of one replica."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.nn

from xla_migrate import runtime as xla
from xla_migrate.runtime import _backend


@pytest.fixture(params=["device", "eager"])
def here(request: pytest.FixtureRequest) -> torch.device:
    request.getfixturevalue(request.param)
    return xla.xla_device()


IN_PLACE: list[Callable[[torch.Tensor], Any]] = [
    lambda x: xla.all_reduce(x),
    lambda x: xla.all_reduce(x, op=dist.ReduceOp.AVG),
    lambda x: xla.all_reduce(x, dist.ReduceOp.MAX, None, False),
    lambda x: xla.reduce(x, dst=0),
    lambda x: xla.broadcast(x, src=0),
    lambda x: xla.broadcast(x, 0, group=None),
]

# Called with where the result goes and what is given.
COPIES: list[Callable[..., Any]] = [
    lambda out, x, **kw: xla.all_gather([out], x, **kw),
    lambda out, x, **kw: xla.all_gather_into_tensor(out, x, **kw),
    lambda out, x, **kw: xla.gather(x, [out], dst=0, **kw),
    lambda out, x, **kw: xla.scatter(out, [x], src=0, **kw),
    lambda out, x, **kw: xla.reduce_scatter(out, [x], **kw),
    lambda out, x, **kw: xla.reduce_scatter_tensor(out, x, op=dist.ReduceOp.SUM, **kw),
    lambda out, x, **kw: xla.all_to_all([out], [x], **kw),
    lambda out, x, **kw: xla.all_to_all_single(out, x, [3], [3], **kw),
]


@pytest.mark.parametrize("collective", IN_PLACE)
def test_one_replica_has_the_result_already(
    here: torch.device, collective: Callable[..., Any]
) -> None:
    x = torch.arange(3.0).to(here)
    assert collective(x) is None
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize("collective", COPIES)
def test_one_replica_is_handed_its_own(here: torch.device, collective: Callable[..., Any]) -> None:
    x, out = torch.arange(3.0).to(here), torch.zeros(3).to(here)
    handle = collective(out, x, async_op=True)
    assert handle.wait()
    assert handle.is_completed()
    assert collective(out, x) is None
    xla.mark_step()
    x.add_(1)
    xla.mark_step()
    assert out.tolist() == [0, 1, 2], "memory of its own (fact 3.12)"
    assert x.tolist() == [1, 2, 3]


def test_stacked_results_take_their_shape(here: torch.device) -> None:
    out = torch.zeros(1, 3).to(here)
    xla.all_gather_into_tensor(out, torch.arange(3.0).to(here))
    assert out.tolist() == [[0, 1, 2]]


def test_objects(here: torch.device) -> None:
    out: list[Any] = [None]
    xla.all_gather_object(out, "a")
    assert out == ["a"]
    xla.gather_object("b", out, dst=0)
    assert out == ["b"]
    xla.scatter_object_list(out, ["c"], src=0)
    assert out == ["c"]
    xla.broadcast_object_list(out, src=0)
    assert out == ["c"]


def test_what_the_one_replica_must_give_is_asked_for(here: torch.device) -> None:
    x = torch.ones(1)
    with pytest.raises(ValueError, match="gather_list"):
        xla.gather(x)
    with pytest.raises(ValueError, match="scatter_list"):
        xla.scatter(x)
    with pytest.raises(ValueError, match="object_gather_list"):
        xla.gather_object(x)


def test_barrier_and_groups(here: torch.device) -> None:
    assert xla.barrier() is None
    assert xla.barrier(async_op=True).wait()
    group = xla.new_group([0])
    x = torch.ones(1).to(here)
    xla.all_reduce(x, group=group)
    assert x.item() == 1


def test_several_replicas_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Several:
        def __init__(self) -> None:
            self.called: list[tuple[Any, ...]] = []

        def device_type(self) -> str:
            return "xla"

        def replica(self) -> tuple[int, int, int]:
            return 0, 0, 2

        def collective(self, name: str, *args: Any, **kwargs: Any) -> str:
            self.called.append((name, args, kwargs))
            return name

    backend = Several()
    monkeypatch.setattr(_backend, "_chosen", backend)
    x = torch.ones(2)
    assert xla.all_reduce(x, op=dist.ReduceOp.MAX) == "all_reduce"
    options = {"op": dist.ReduceOp.MAX, "group": None, "async_op": False}
    assert backend.called == [("all_reduce", (x,), options)]
    for collective in COPIES:
        assert isinstance(collective(x, x), str)
    for name in ("all_gather_object", "gather_object", "scatter_object_list"):
        getattr(xla, name)([], [])
    xla.broadcast_object_list([])
    xla.new_group([0, 1])
    assert len(backend.called) == 1 + len(COPIES) + 5
    for name, args, kwargs in backend.called:
        inspect.signature(getattr(dist, name)).bind(*args, **kwargs)  # Torch takes them.


_COLLECTIVES = (
    "all_reduce reduce broadcast all_gather all_gather_into_tensor gather scatter reduce_scatter "
    "reduce_scatter_tensor all_to_all all_to_all_single barrier all_gather_object gather_object "
    "broadcast_object_list scatter_object_list"
).split()


@pytest.mark.parametrize("name", _COLLECTIVES)
def test_each_takes_all_that_torchs_takes(name: str) -> None:
    torchs = inspect.signature(getattr(dist, name)).parameters
    ours = inspect.signature(getattr(xla, name)).parameters
    assert list(ours)[: len(torchs)] == list(torchs)


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (lambda x, g: xla.broadcast(x, group_src=1, group=g), 11),
        (lambda x, g: xla.broadcast(x, group_src=1), 1),
        (lambda x, g: xla.broadcast(x, 3, g), 3),
        (lambda x, g: xla.broadcast(x), 0),
        (lambda x, g: xla.reduce(x, group_dst=2, group=g), 12),
        (lambda x, g: xla.gather(x, [x], group_dst=1, group=g), 11),
        (lambda x, g: xla.scatter(x, [x], group_src=1, group=g), 11),
        (lambda x, g: xla.gather_object(x, [x], group_dst=1, group=g), 11),
        (lambda x, g: xla.broadcast_object_list([x], group_src=1, group=g), 11),
        (lambda x, g: xla.scatter_object_list([x], [x], group_src=1, group=g), 11),
    ],
)
def test_a_rank_in_its_group_is_one_among_all(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any], sent: int
) -> None:
    class Several:
        def __init__(self) -> None:
            self.roots: list[int] = []

        def replica(self) -> tuple[int, int, int]:
            return 0, 0, 2

        def collective(self, name: str, *args: Any, **kwargs: Any) -> None:
            self.roots += [a for a in args if isinstance(a, int)]

    backend = Several()
    monkeypatch.setattr(_backend, "_chosen", backend)
    monkeypatch.setattr(dist, "get_global_rank", lambda group, rank: rank + 10)
    call(torch.ones(2), object())
    assert backend.roots == [sent]


@pytest.fixture
def group_of_one(device: torch.device) -> Iterator[torch.device]:
    xla.init_process_group("nccl")
    yield device
    xla.destroy_process_group()


def test_a_librarys_collectives_of_one_replica_give_what_it_has(group_of_one: torch.device) -> None:
    """Those of torch.distributed itself, with gradients too: gloo would refuse XLA tensors, or do nothing."""
    x = torch.arange(4.0, device=group_of_one, requires_grad=True)
    out = [torch.zeros(4, device=group_of_one)]
    dist.all_gather(out, x.detach())
    whole = torch.zeros(4, device=group_of_one)
    dist.all_gather_into_tensor(whole, x.detach())
    total = x.detach().clone()
    dist.all_reduce(total)
    assert [t.tolist() for t in (*out, whole, total)] == [[0, 1, 2, 3]] * 3
    out[0].add_(1)  # has a buffer of its own
    xla.mark_step()
    assert x.tolist() == [0, 1, 2, 3]
    (gathered,) = torch.distributed.nn.all_gather(x)  # type: ignore[attr-defined]
    gathered.square().sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 2, 4, 6]
    objects: list[Any] = [None]
    dist.all_gather_object(objects, {"n": 1})
    assert objects == [{"n": 1}]
    host = torch.ones(2)
    dist.all_reduce(host)
    assert host.tolist() == [1, 1]
