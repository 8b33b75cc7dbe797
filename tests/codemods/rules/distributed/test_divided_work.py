"""Work of a training step that is divided between processes."""

from __future__ import annotations

import pytest

from ...helpers import findings

SCRIPT = """
import torch
import torch.distributed as dist
from xla_migrate import runtime as xla

def owner(i):
    return i % dist.get_world_size()

def train(model, optimizer, loader, local_rank, owners):
    model = xla.DistributedDataParallel(model)
    rank = dist.get_rank()
    for i, (x, y) in enumerate(xla.MpDeviceLoader(loader)):
        model(x, y).backward()
        {part}
        xla.optimizer_step(optimizer)
        xla.mark_step()
"""
# Only some processes compute.
DIVIDED = {
    "index": "for i, p in enumerate(model.parameters()):\n            if i % 8 == rank:\n                p.grad.mul_(2)",
    "swapped": "for i, p in enumerate(model.parameters()):\n            if rank == i % 8:\n                p.grad.mul_(2)",
    "called": "for i, p in enumerate(model.parameters()):\n            if owner(i) == dist.get_rank():\n                p.grad.mul_(2)",
    "others go on": "for i, p in enumerate(model.parameters()):\n            if owners[i] != rank:\n                continue\n            p.grad.mul_(2)",
    "last": "if rank == dist.get_world_size() - 1:\n            model(x, y).backward()\n            extra = model.weight.grad",
    "both": "if i > 10 and i % 8 == rank:\n            noise = torch.randn(3, device=xla.xla_device())",
}
# All processes compute the same on the device.
SAME = {
    "host": "if i % 8 == rank:\n            owners.append(i)",
    "several processes": "if dist.get_world_size() == 1:\n            model.weight.grad.mul_(2)",
    "unknown rank": "if local_rank != -1:\n            model.weight.grad.mul_(2)",
    "first": "if rank == 0:\n            owners.append(i)",
    "another index": "if i % 8 == 3:\n            model.weight.grad.mul_(2)",
}


def codes(part: str) -> list[str]:
    return [code for _, code in findings(SCRIPT.format(part=part)) if code == "XLA619"]


@pytest.mark.parametrize("part", DIVIDED.values(), ids=DIVIDED)
def test_computations_of_some_processes(part: str) -> None:
    assert codes(part) == ["XLA619"]


@pytest.mark.parametrize("part", SAME.values(), ids=SAME)
def test_all_processes_compute_the_same(part: str) -> None:
    assert codes(part) == []


def test_one_process_needs_no_other() -> None:
    script = SCRIPT.replace("xla.DistributedDataParallel(model)", "model")
    found = findings(script.format(part=DIVIDED["index"]))
    assert "XLA619" not in {code for _, code in found}


def test_marks_around_it() -> None:
    marked = f"xla.mark_step()\n        {DIVIDED['index']}\n        xla.mark_step()"
    assert codes(marked) == []
