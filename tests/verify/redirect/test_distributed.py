"""Collectives of a redirected run."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from xla_migrate.verify.observe.training import fingerprints
from xla_migrate.verify.redirect.distributed import _averaging


@pytest.fixture
def group(cuda: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_tensors_of_several_numbers_are_reduced_and_averaged() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    dist.all_reduce(x)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    dist.all_reduce(x, op=dist.ReduceOp.AVG)
    assert x.tolist() == [1, 2, 3]


@pytest.mark.usefixtures("group")
def test_gathering_leaves_autograd_out() -> None:
    """As NCCL does; gloo alone refuses tensors that require gradients."""
    weight = torch.ones(2, requires_grad=True)
    gathered = weight * 0
    dist.all_gather_into_tensor(gathered, weight * 2)
    assert gathered.tolist() == [2, 2]
    dist.all_gather_into_tensor(output_tensor=gathered, input_tensor=weight * 3)
    assert gathered.tolist() == [3, 3]


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("shape", [(2, 3), (6,), (1, 2, 3)])
def test_gathering_leaves_shapes_out(shape: tuple[int, ...]) -> None:
    """accelerate gathers rows into a flat tensor."""
    gathered = torch.empty(6)
    dist.all_gather_into_tensor(gathered, torch.arange(6.0).reshape(shape))
    assert gathered.tolist() == list(range(6))


@pytest.mark.usefixtures("group")
def test_groups_outlive_their_destruction() -> None:
    """DDP, dropped later, would else wait for gloo's threads, which may wait for Python's lock."""
    made: list[Any] = [dist.group.WORLD, dist.new_group([0], backend="nccl")]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), device_ids=[0])
    kept = [weakref.ref(group) for group in made]
    made.clear()
    dist.destroy_process_group()
    del model
    gc.collect()
    assert all(group() is not None for group in kept)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("mesh", [True, False])
def test_fully_shard_divides_over_processes_on_the_cpu(mesh: bool) -> None:
    model = torch.nn.Linear(3, 2).cuda()
    whole = fingerprints.weights(list(model.parameters()))
    options = {"mesh": dist.init_device_mesh("cuda", (1,))} if mesh else {}
    fully_shard(model, **options)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(4, 3).cuda()).sum().backward()
    parameters = list(model.parameters())
    assert all(isinstance(p, DTensor) for p in parameters)
    assert torch.equal(fingerprints.weights(parameters), whole)
    before = fingerprints.copies(parameters)
    found = fingerprints.gradients(parameters)
    assert before is not None
    assert found is not None
    assert found.tolist() == pytest.approx([4 * 6**0.5, 4 * 2**0.5])
    optimizer.step()
    moved = fingerprints.moved(parameters, before)
    assert moved.tolist() == pytest.approx([0.4 * 6**0.5, 0.4 * 2**0.5])


@pytest.mark.parametrize(
    ("args", "kwargs"), [((dist.ReduceOp.AVG,), {}), ((), {"op": dist.ReduceOp.AVG})]
)
def test_an_average_is_a_sum_that_is_divided_by_the_processes(
    monkeypatch: pytest.MonkeyPatch, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    asked: list[Any] = []

    def sum_of_four(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        asked.extend([*args, *kwargs.values()])
        tensor.mul_(4)

    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 4)
    tensor = torch.arange(6.0).reshape(2, 3)
    _averaging(sum_of_four, "tensor")(tensor, *args, **kwargs)
    assert torch.equal(tensor, torch.arange(6.0).reshape(2, 3))
    assert asked == [dist.ReduceOp.SUM]
