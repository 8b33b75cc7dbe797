"""Classes that stand for torch's have all that torch's show, and count as torch's where they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

from xla_migrate import runtime as xla


@pytest.fixture
def torchs() -> Iterator[nn.Module]:
    """Torch's own wrapper, in a group of gloo's."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    try:
        yield nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    finally:
        xla.destroy_process_group()


def _public(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_distributed_data_parallel(torchs: nn.Module, device: torch.device) -> None:
    layer = nn.BatchNorm1d(2).to(device)
    ours = xla.DistributedDataParallel(layer, device_ids=[0], output_device=0)
    assert _public(torchs) <= _public(ours)
    assert isinstance(ours, nn.parallel.DistributedDataParallel)
    assert (ours.device_ids, ours.output_device, ours.dim) == ([0], 0, 0)
    assert ours.device_type == "xla"
    assert ours.named_module_buffers.keys() == dict(layer.named_buffers()).keys()
    for name in _public(torchs):
        getattr(ours, name)


def test_eager_distributed_data_parallel(
    torchs: nn.Module, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_MIGRATE_BACKEND", "eager")
    ours = xla.DistributedDataParallel(nn.Linear(2, 2))
    assert _public(torchs) <= _public(ours)
    assert isinstance(ours, nn.parallel.DistributedDataParallel)


def test_work(device: torch.device) -> None:
    x = torch.ones(2, device=device)
    work = xla.all_reduce(x, async_op=True)
    assert _public(dist.Work) <= _public(work)
    assert work.get_future().wait()[0] is x
    assert work.result() == [x]
    assert work.is_success()
    assert work.exception() is None
    for refused in (work.boxed, work.unbox):
        with pytest.raises(NotImplementedError, match="TorchScript"):
            refused()


def test_events(device: torch.device) -> None:
    event = xla.Event(enable_timing=True)
    assert _public(torch.cuda.Event) <= _public(event)
    assert event.device == device
    with pytest.raises(NotImplementedError, match="ipc"):
        event.ipc_handle()


def test_fully_sharded(device: torch.device) -> None:
    assert _public(FullyShardedDataParallel) <= _public(xla.FullyShardedDataParallel)
    kind = xla.FullyShardedDataParallel.get_state_dict_type(nn.Linear(2, 2)).state_dict_type
    assert kind.name == "FULL_STATE_DICT"


@pytest.mark.parametrize("name", ["DataParallel", "SyncBatchNorm"])
def test_subclasses(name: str, device: torch.device) -> None:
    assert issubclass(getattr(xla, name), getattr(nn, name))
