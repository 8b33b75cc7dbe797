"""Loaders that the device loader reads when asked: what they draw, and how far they are, is in checkpoints."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Sampler

from xla_migrate import runtime as xla
from xla_migrate.runtime import _host_random


class Samples(Dataset[torch.Tensor]):
    """Their numbers, and what is drawn for each."""

    def __init__(self, draw: Callable[[], Any] = lambda: 0.0) -> None:
        self.draw = draw
        self.asked = 0
        self.readers: list[str] = []  # threads, by name

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> torch.Tensor:
        self.asked += 1
        self.readers.append(threading.current_thread().name)
        return torch.tensor([float(index), float(self.draw())])


DRAWS = {"python": random.random, "numpy": np.random.rand, "torch": lambda: torch.rand(()).item()}


def seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


AHEAD = "xla-migrate loader"


@pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
def test_random_states_are_those_of_the_loops_step(
    device: torch.device, draw: Callable[[], Any]
) -> None:
    def drawn(loader: Any) -> Iterator[Any]:
        seed()
        for batch in loader:
            yield batch.tolist(), draw(), _host_random.states()

    plain = DataLoader(Samples(draw), batch_size=4, shuffle=True)
    moved = xla.MpDeviceLoader(DataLoader(Samples(draw), batch_size=4, shuffle=True), device)
    assert list(drawn(moved)) == list(drawn(plain))


def test_a_loader_that_draws_nothing_is_read_ahead(device: torch.device) -> None:
    samples = Samples()
    batches = iter(xla.MpDeviceLoader(DataLoader(samples, batch_size=4, shuffle=True), device))
    assert samples.asked == 0
    next(batches)
    assert len(list(batches)) == 9
    assert AHEAD not in samples.readers[:4]
    assert samples.readers[4:] == [AHEAD] * 36


def test_a_size_that_is_given_holds(device: torch.device) -> None:
    samples = Samples(random.random)
    loader = DataLoader(samples, batch_size=4)
    assert len(list(xla.MpDeviceLoader(loader, device, loader_prefetch_size=2))) == 10
    assert samples.readers == [AHEAD] * 40


class Counted(Sampler[int]):
    """Tells how far it is."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Iterator[int]:
        for self.place in range(1, 41):
            yield self.place - 1

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}


def test_a_sampler_that_tells_its_place_is_where_the_loop_is(device: torch.device) -> None:
    sampler = Counted()
    loader = xla.MpDeviceLoader(DataLoader(Samples(), batch_size=4, sampler=sampler), device)
    for step, _ in enumerate(loader, start=1):
        assert sampler.state_dict() == {"place": 4 * step}


class Stateful(DataLoader[torch.Tensor]):
    """As torchdata's: with workers too it tells which batch was handed out last."""

    handed_out = 0

    def __iter__(self) -> Any:
        for batch in super().__iter__():
            self.handed_out += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"batches": self.handed_out}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_tells_its_place_is_where_the_loop_is(
    device: torch.device, workers: int
) -> None:
    loader = xla.MpDeviceLoader(Stateful(Samples(), batch_size=4, num_workers=workers), device)
    for step, _ in enumerate(loader, start=1):
        assert loader.state_dict() == {"batches": step}
        if step == 4:
            break


def test_what_a_sampler_draws_with_its_first_batch_is_no_reason(device: torch.device) -> None:
    samples = Samples()
    loader = DataLoader(samples, batch_size=4, sampler=RandomSampler(samples, replacement=True))
    assert len(list(xla.MpDeviceLoader(loader, device))) == 10
    assert samples.readers[4:] == [AHEAD] * 36


class Drawing(Sampler[int]):
    """Draws for each sample, or for none."""

    def __init__(self, draw: Callable[[], Any]) -> None:
        self.draw = draw

    def __iter__(self) -> Iterator[int]:
        for index in range(40):
            self.draw()
            yield index


@pytest.mark.parametrize("is_in_batches", [False, True])
def test_a_sampler_of_ones_own_is_never_read_ahead(
    device: torch.device, is_in_batches: bool
) -> None:
    for draw in (random.random, int):
        samples, sampler = Samples(), Drawing(draw)
        given: Any = {"batch_sampler": BatchSampler(sampler, 4, False)}
        if not is_in_batches:
            given = {"sampler": sampler, "batch_size": 4}
        assert len(list(xla.MpDeviceLoader(DataLoader(samples, **given), device))) == 10
        assert AHEAD not in samples.readers


def test_a_data_set_is_looked_at_in_each_pass(device: torch.device) -> None:
    """Augmentation may begin in a later epoch."""
    samples = Samples()
    loader = xla.MpDeviceLoader(DataLoader(samples, batch_size=4, shuffle=True), device)
    list(loader)
    samples.draw, before = random.random, samples.readers.count(AHEAD)
    list(loader)
    assert samples.readers.count(AHEAD) == before


def test_an_exception_does_not_tell_whether_samples_draw(device: torch.device) -> None:
    def failing() -> float:
        value = random.random()
        if samples.asked == 5:
            raise LookupError("the fifth sample")
        return value

    samples = Samples(failing)
    batches = iter(xla.MpDeviceLoader(DataLoader(samples, batch_size=4), device))
    next(batches)
    with pytest.raises(LookupError, match="fifth"):
        next(batches)
    assert len(list(batches)) == 8
    assert AHEAD not in samples.readers
