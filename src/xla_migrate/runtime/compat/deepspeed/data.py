"""The loader that `deepspeed.initialize` and `engine.deepspeed_io` make of a dataset: its samples, in DeepSpeed's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from ... import rank, world_size
from ...loading.loader import MpDeviceLoader

_WORKERS = 2  # DeepSpeed's default for a process: random augmentations are drawn in them


def loader(
    dataset: Any,
    batch_size: int,
    *,
    route: str = "train",
    sampler: Any = None,
    collate_fn: Callable[..., Any] | None = None,
    workers: int | None = None,
    drop_last: bool = False,
) -> MpDeviceLoader:
    """Return a loader of this replica's part of `dataset`.

    Args:
        dataset: with indices, or iterable.
        batch_size: samples of a batch.
        route: "train" shuffles, in the same order in each epoch; "eval" and "predict" do not shuffle.
        sampler: in place of that order.
        collate_fn: makes a batch of samples.
        workers: processes that load; None for DeepSpeed's default, 0 for none.
        drop_last: leave out a last batch that is smaller.
    """
    if sampler is None and not isinstance(dataset, IterableDataset):
        sampler = DistributedSampler(dataset, world_size(), rank(), shuffle=route == "train")
    return MpDeviceLoader(
        DataLoader(
            dataset,
            batch_size=batch_size,
            sampler=sampler,
            collate_fn=collate_fn,
            num_workers=_WORKERS if workers is None else workers,
            drop_last=drop_last,
        )
    )
