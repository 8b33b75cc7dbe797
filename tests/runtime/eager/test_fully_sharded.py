"""``fully_shard`` on eager devices: torch's own, whose parameters the runtime leaves as torch needs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from xla_migrate.runtime import _gradients
from xla_migrate.runtime.eager.fully_sharded import fully_shard
from xla_migrate.runtime.eager.meshes import init_device_mesh


@pytest.fixture
def group(eager: None) -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    _gradients._sharded.clear()
    dist.destroy_process_group()


def test_weights_get_memory_behind_it(group: None) -> None:
    """torch swaps what is in the parameters for that, and refuses where somebody holds weak references to them."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    fully_shard(model[0])
    fully_shard(model)
    model.to_empty(device="cpu")
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    assert _gradients.to_average(optimizer) == []
    assert _gradients.wrapper_exists()
    other = nn.Linear(1, 1)
    other(torch.ones(1, 1)).sum().backward()
    assert len(_gradients.to_average(torch.optim.SGD(other.parameters(), lr=0.1))) == 2


def test_a_mesh_is_torchs_of_the_devices_in_use(group: None) -> None:
    mesh = init_device_mesh("cuda", (1,), mesh_dim_names=("dp",))
    assert mesh.device_type == "cpu"
    model = nn.Linear(3, 4)
    fully_shard(model, mesh=mesh["dp"])
    assert isinstance(model.weight, DTensor)
