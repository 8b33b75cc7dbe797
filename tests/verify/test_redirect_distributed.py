"""Collectives of a redirected run."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist


@pytest.fixture
def group(cuda: None, monkeypatch: pytest.MonkeyPatch) -> None:
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
