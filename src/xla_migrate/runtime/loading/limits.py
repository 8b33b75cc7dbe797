"""Decide how far ahead of the loop a loader may read without changing the data that the loop gets.

A loop that ends before its loader does (``break``, ``islice``, ``zip``, an exception) leaves generators and samplers
where it stopped. The next pass goes on from there. So what a loader draws must not be drawn before the loop asks.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

# Samplers that draw random numbers only for their first sample. Others may keep a state that cannot be restored.
_DRAW_FIRST = (SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)


def batches_ahead(loader: Any) -> int | None:
    """Return how many batches may be read before the loop requests them, counted from the first; None for all.

    Args:
        loader: A ``torch.utils.data.DataLoader``.
    """
    if isinstance(loader.dataset, IterableDataset):
        return None if loader.num_workers > 0 else 0
    sampler = sampler_of(loader)
    if type(sampler) in _DRAW_FIRST:
        return None
    if type(sampler) is not RandomSampler:
        return 0
    if sampler.generator is None:
        return None  # It draws a seed with the first sample, then from a private generator.
    if sampler.replacement or sampler.num_samples > len(sampler.data_source):
        return 0
    if sampler.num_samples < len(sampler.data_source):
        return None
    # It draws once more, behind its last sample. Workers are given their indices ahead of the loop.
    given = (loader.prefetch_factor or 0) * loader.num_workers
    most: int = len(loader) - 1 - given
    return max(0, most)


def sampler_of(loader: Any) -> Any:
    """Return the sampler of samples; None if the batches are made by code that is not torch's."""
    batches = loader.batch_sampler
    if type(batches) not in (BatchSampler, type(None)):
        return None
    return loader.sampler if batches is None else batches.sampler
