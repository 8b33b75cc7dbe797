"""A loop that ends before its loader does gets the same batches in later passes as from the plain loader."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    WeightedRandomSampler,
)

from xla_migrate import runtime as xla
from xla_migrate.runtime._host_random import own_generators
from xla_migrate.runtime.loading.limits import batches_ahead

SIZE = 100  # many more batches than are read ahead


class Numbers(Dataset[torch.Tensor]):
    """Indices, with what `draw` adds."""

    def __init__(self, draw: Callable[[], float] = lambda: 0.0) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index + self.draw(), dtype=torch.float64)


class Augmented(Numbers):
    """Draws from a generator of its own, which a transform holds."""

    def __init__(self, generator: Any, draw: str) -> None:
        self.transforms = [getattr(generator, draw)]

    def draw(self) -> float:
        return float(self.transforms[0]())


class Stream(IterableDataset[torch.Tensor]):
    """Each pass goes on where the one before has ended."""

    def __init__(self) -> None:
        self.numbers = iter(range(100_000))

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor(number) for number in self.numbers)


class Shuffled(Sampler[int]):
    """A user's sampler, whose state nobody knows how to copy."""

    def __init__(self) -> None:
        self.random = random.Random(5)

    def __iter__(self) -> Iterator[int]:
        order = list(range(SIZE))
        self.random.shuffle(order)
        yield from order
        self.random.random()

    def __len__(self) -> int:
        return SIZE


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(2)


def sampled(sampler: Any, **options: Any) -> DataLoader[torch.Tensor]:
    return DataLoader(Numbers(), batch_size=4, sampler=sampler, **options)


LOADERS: dict[str, Callable[[], DataLoader[torch.Tensor]]] = {
    "shuffled": lambda: DataLoader(Numbers(), 4, shuffle=True),
    "own generator": lambda: DataLoader(Numbers(), 4, shuffle=True, generator=seeded()),
    "smaller last batch": lambda: DataLoader(Numbers(), 7, shuffle=True, generator=seeded()),
    "no last batch": lambda: DataLoader(Numbers(), 7, True, generator=seeded(), drop_last=True),
    "sampler's generator": lambda: sampled(RandomSampler(range(SIZE), generator=seeded())),
    "with replacement": lambda: sampled(RandomSampler(range(SIZE), True, generator=seeded())),
    "twice as many": lambda: sampled(RandomSampler(range(SIZE), False, 2 * SIZE, seeded())),
    "fewer": lambda: sampled(RandomSampler(range(SIZE), False, SIZE - 3, seeded())),
    "weighted": lambda: sampled(WeightedRandomSampler([1.0] * SIZE, SIZE, generator=seeded())),
    "user's sampler": lambda: sampled(Shuffled()),
    "user's batches": lambda: DataLoader(
        Numbers(), batch_sampler=BatchSampler(Shuffled(), 4, False)
    ),
    "numpy in the data set": lambda: DataLoader(Augmented(np.random.default_rng(3), "random"), 4),
    "random in the data set": lambda: DataLoader(Augmented(random.Random(3), "random"), 4),
    "stream": lambda: DataLoader(Stream(), 4),
}


def broken_off(loader: Any, count: int) -> Iterator[Any]:
    for index, batch in enumerate(loader):
        yield batch
        if index + 1 == count:
            break


def ended_by_an_error(loader: Any, count: int) -> Iterator[Any]:
    try:
        for index, batch in enumerate(loader):
            yield batch
            if index + 1 == count:
                raise KeyError
    except KeyError:
        return


ENDS: dict[str, Callable[[Any, int], Any]] = {
    "break": broken_off,
    "error": ended_by_an_error,
    "islice": islice,
    "zip": lambda loader, count: (batch for batch, _ in zip(loader, range(count), strict=False)),
}


def passes(loader: Any, end: Callable[[Any, int], Any], count: int) -> list[Any]:
    torch.manual_seed(0)
    found: list[Any] = []
    for _ in range(3):
        found += [batch.tolist() for batch in end(loader, count)]
        found.append(torch.rand(()).item())
    return found


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
@pytest.mark.parametrize("make", LOADERS.values(), ids=list(LOADERS))
def test_a_pass_that_ends_early_draws_no_more_than_the_plain_loader(
    device: torch.device, make: Callable[[], Any], end: Callable[[Any, int], Any]
) -> None:
    moved = xla.MpDeviceLoader(make(), device)
    assert passes(moved, end, 3) == passes(make(), end, 3)


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("name", [name for name in LOADERS if name != "stream"])
def test_a_pass_that_ends_just_before_its_end_draws_no_more(
    device: torch.device, name: str, before: int
) -> None:
    make = LOADERS[name]
    count = len(make()) - before
    assert passes(xla.MpDeviceLoader(make(), device), broken_off, count) == passes(
        make(), broken_off, count
    )


@pytest.mark.parametrize("name", ["own generator", "user's sampler"])
def test_worker_processes_get_no_more_indices(device: torch.device, name: str) -> None:
    def make() -> Any:
        loader = LOADERS[name]()
        options = {"shuffle": True, "generator": seeded()} if name == "own generator" else {}
        sampler = {} if options else {"sampler": loader.sampler}
        return DataLoader(Numbers(), 4, num_workers=2, **options, **sampler)  # type: ignore[arg-type]

    gc.collect()  # a forked worker that collects a tensor of XLA crashes
    count = SIZE // 4 - 5
    assert passes(xla.MpDeviceLoader(make(), device), broken_off, count) == passes(
        make(), broken_off, count
    )


def test_most_of_a_shuffled_pass_is_read_ahead() -> None:
    assert batches_ahead(LOADERS["shuffled"]()) is None
    assert batches_ahead(LOADERS["own generator"]()) == SIZE // 4 - 1
    workers = DataLoader(Numbers(), 4, True, generator=seeded(), num_workers=2)
    assert batches_ahead(workers) == SIZE // 4 - 1 - 4
    assert batches_ahead(LOADERS["user's sampler"]()) == 0


def test_generators_are_found_wherever_a_data_set_holds_them() -> None:
    generators = [np.random.default_rng(0), random.Random(0), seeded(), np.random.RandomState(0)]
    first, second, third, fourth = generators

    def closure() -> Any:
        return fourth

    data = Augmented(first, "random")
    data.more = {"augment": [second.random], "closure": closure}  # type: ignore[attr-defined]
    data.default = lambda generator=third: generator  # type: ignore[attr-defined]
    found = own_generators(data)
    for generator in generators[1:]:
        assert any(each is generator for each in found)
