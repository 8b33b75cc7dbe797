"""XLA114: more than one device in one process, also where each process has set its own."""

from __future__ import annotations

import pytest

from xla_codemods.engine import check, migrate

HEAD = """
import os
import torch
import torch.distributed as dist
from torch import nn

def setup(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    torch.cuda.set_device(rank)

def train(model, loader, rank, local_rank):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        model(x.cuda()).sum().backward()
        optimizer.step()

"""


def codes(source: str) -> list[str]:
    return [f.code for f in check((HEAD + source).encode()) if f.code == "XLA114"]


@pytest.mark.parametrize(
    "source",
    [
        "def build(rank):\n    dev0, dev1 = rank * 2, rank * 2 + 1\n    return nn.Linear(2, 2).to(dev0), nn.Linear(2, 2).to(dev1)",
        "def build(local_rank):\n    gpu1 = 2 * local_rank + 1\n    return nn.Linear(2, 2).cuda(gpu1)",
        "def build(rank, world):\n    dev1 = (rank * 2 + 1) % world\n    return nn.Linear(2, 2).to(dev1)",
        "def build(rank):\n    return nn.Linear(2, 2).to(f'cuda:{rank * 4 + 3}')",
        "def build(args):\n    return nn.Linear(2, 2).to(torch.device('cuda', args.local_rank * 2 + 1))",
        "def build():\n    return nn.Linear(2, 2).cuda(), nn.Linear(2, 2).to('cuda:1')",
        "class Two(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Linear(2, 2).to('cuda:0')\n        self.b = nn.Linear(2, 2).to('cuda:1')",
    ],
)
def test_two_devices_in_each_process(source: str) -> None:
    assert codes(source) == ["XLA114"]
    assert "XLA114" in {f.code for f in migrate((HEAD + source).encode()).left}


@pytest.mark.parametrize(
    "source",
    [
        "def build(rank):\n    torch.manual_seed(rank * 2 + 1)",
        "def build(rank):\n    port = 29500 + rank * 2 + 1\n    return port",
        "def build(rank):\n    device = torch.device('cuda', rank % 8)\n    return nn.Linear(2, 2).to(device)",
        "def build(rank):\n    if rank == 0:\n        return nn.Linear(2, 2).to('cuda:0')\n    return nn.Linear(2, 2).to('cuda:1')",
        "def build(rank):\n    return nn.Linear(2, 2).to('cuda:0' if rank == 0 else 'cuda:1')",
        "def one():\n    return nn.Linear(2, 2).to('cuda:0')\n\ndef other():\n    return nn.Linear(2, 2).to('cuda:1')",
    ],
)
def test_one_device_in_each_process(source: str) -> None:
    assert codes(source) == []
