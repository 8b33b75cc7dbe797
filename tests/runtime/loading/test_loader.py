"""The device loader on XLA, against torch_xla's own and against plain PyTorch."""

from __future__ import annotations

import copy
import gc
import itertools
import multiprocessing
import os
import pickle
import threading
import time
import traceback
import warnings
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_xla.distributed.parallel_loader as pl
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, TensorDataset

from xla_migrate import runtime as xla
from xla_migrate.runtime.loading.loader import DeviceIterator

Pair = namedtuple("Pair", "x y")


class Numbers(Dataset[Any]):
    """0, 1, 2... and an exception at ``bad``."""

    def __init__(self, size: int = 12, bad: int = -1) -> None:
        self.size, self.bad = size, bad

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad:
            raise LookupError(f"sample {index} is broken")
        return torch.tensor(float(index))


def values(batches: Any) -> list[list[float]]:
    return [batch.tolist() for batch in batches]


def loader_threads() -> list[threading.Thread]:
    """Those that are left after a while in which each could have ended."""
    found = [t for t in threading.enumerate() if t.name == "xla-migrate loader"]
    for thread in found:
        thread.join(5)
    return [thread for thread in found if thread.is_alive()]


@pytest.fixture
def pending(device: torch.device) -> Callable[[], int]:
    """How many operations wait to be launched: the marks of the loader leave none."""
    import torch_xla

    def count() -> int:
        before = xla.metrics()["launches"]
        torch_xla.sync()
        after = xla.metrics()["launches"]
        assert before is not None
        assert after is not None
        return after - before

    return count


# Attributes (1.81)


def test_fact_1_81_torch_xla_forwards_nothing(device: torch.device) -> None:
    with pytest.raises(AttributeError):
        pl.MpDeviceLoader(DataLoader(Numbers()), device).dataset  # noqa: B018


def test_fact_1_81_attributes_and_len_are_the_loaders(device: torch.device) -> None:
    dataset = Numbers(12)
    plain = DataLoader(dataset, batch_size=4, drop_last=True)
    loader = xla.MpDeviceLoader(plain, device)
    assert loader.dataset is dataset
    assert (loader.batch_size, loader.drop_last, loader.num_workers) == (4, True, 0)
    assert loader.sampler is plain.sampler
    assert loader.collate_fn is plain.collate_fn
    assert len(loader) == 3
    assert isinstance(loader, DataLoader)
    assert isinstance(loader, xla.MpDeviceLoader)
    with pytest.raises(AttributeError, match="nonsense"):
        loader.nonsense  # noqa: B018
    with pytest.raises(TypeError):
        len(xla.MpDeviceLoader(iter([]), device))


def test_fact_1_81_set_epoch_reaches_the_sampler(device: torch.device) -> None:
    dataset = Numbers(8)
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0)
    loader = xla.MpDeviceLoader(DataLoader(dataset, batch_size=8, sampler=sampler), device)
    loader.sampler.set_epoch(5)
    assert sampler.epoch == 5


def test_fact_1_81_attributes_are_set_on_the_loader(device: torch.device) -> None:
    plain = DataLoader(Numbers())
    loader = xla.MpDeviceLoader(plain, device)
    loader.epoch = 3
    assert plain.epoch == 3  # type: ignore[attr-defined]
    del loader.epoch
    assert not hasattr(plain, "epoch")


def test_copies_and_pickles(device: torch.device) -> None:
    loader = xla.MpDeviceLoader(
        DataLoader(Numbers(4), batch_size=2), device, loader_prefetch_size=3
    )
    for twin in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert type(twin) is xla.MpDeviceLoader
        assert values(twin) == [[0, 1], [2, 3]]
        assert twin._tuning == loader._tuning
    assert copy.deepcopy(loader).dataset is not loader.dataset


def test_from_the_last_batch_to_the_first(device: torch.device) -> None:
    """Scripts go through lists of batches backwards, and wrapping stands inside of `reversed`."""
    batches = [torch.tensor([1.0]), torch.tensor([2.0])]
    found = list(reversed(xla.MpDeviceLoader(batches, device)))
    assert [batch.item() for batch in found] == [2, 1]
    assert {batch.device.type for batch in found} == {device.type}
    with pytest.raises(TypeError):
        reversed(xla.MpDeviceLoader(DataLoader(Numbers(4)), device))


def test_wrapping_twice_is_wrapping_once(device: torch.device) -> None:
    loader = xla.MpDeviceLoader(DataLoader(Numbers(4)), device)
    assert xla.MpDeviceLoader(loader, device) is loader
    retuned = xla.MpDeviceLoader(loader, device, batches_per_execution=2)
    assert retuned._loader is loader._loader


def test_fact_1_80_unknown_arguments_are_refused_at_construction(device: torch.device) -> None:
    pl.MpDeviceLoader([], device, nonsense=1)  # torch_xla waits for the first iteration.
    with pytest.raises(TypeError, match="nonsense"):
        xla.MpDeviceLoader([], device, nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="batches_per_execution=0"):
        xla.MpDeviceLoader([], device, batches_per_execution=0)


# Exceptions (1.82) and None (1.83)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_fact_1_82_torch_xla_ends_the_epoch(device: torch.device) -> None:
    loader = pl.MpDeviceLoader(DataLoader(Numbers(12, bad=5), batch_size=2), device)
    assert len(list(loader)) == 2
    loader._parallel_loader.close()


@pytest.mark.parametrize("tuning", [{}, {"loader_prefetch_size": 0}], ids=["ahead", "in step"])
def test_fact_1_82_an_exception_of_the_dataset_is_raised_in_the_loop(
    device: torch.device, tuning: dict[str, int]
) -> None:
    loader = xla.MpDeviceLoader(DataLoader(Numbers(12, bad=5), batch_size=2), device, **tuning)
    seen = []

    def loop() -> None:
        for batch in loader:
            seen.append(batch.tolist())

    with pytest.raises(LookupError, match="sample 5 is broken") as caught:
        loop()
    assert seen == [[0, 1], [2, 3]]
    assert "__getitem__" in [frame.name for frame in traceback.extract_tb(caught.tb)]
    assert not loader_threads()


def test_fact_1_82_an_exception_in_a_worker_is_raised_in_the_loop(device: torch.device) -> None:
    plain = DataLoader(Numbers(12, bad=5), batch_size=2, num_workers=1)
    with pytest.raises(LookupError, match="sample 5 is broken"):
        list(xla.MpDeviceLoader(plain, device))


def test_after_an_exception_the_next_batch_can_be_had(device: torch.device) -> None:
    """As with a plain DataLoader, whose iterator goes on."""
    iterator = iter(xla.MpDeviceLoader(DataLoader(Numbers(6, bad=2), batch_size=2), device))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(LookupError):
        next(iterator)
    assert next(iterator).tolist() == [4, 5]
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_exception_of_the_transfer_is_raised_in_the_loop(device: torch.device) -> None:
    class Immovable:
        def __init__(self) -> None:
            self.x = torch.ones(1)

        def to(self, device: torch.device) -> None:
            raise ValueError("not there")

    plain = DataLoader([Immovable()], collate_fn=lambda items: items[0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not there"):
        list(xla.MpDeviceLoader(plain, device))


def _nothing_of_the_second(items: list[torch.Tensor]) -> Any:
    return None if items[0] == 2 else torch.stack(items)


def test_fact_1_83_torch_xla_ends_the_epoch_at_none_or_drops_it(device: torch.device) -> None:
    """Which of the two depends on whether its thread had a batch before it in hand."""
    plain = DataLoader(Numbers(8), batch_size=2, collate_fn=_nothing_of_the_second)
    assert len(list(pl.MpDeviceLoader(plain, device))) in (1, 3)


def test_fact_1_83_a_none_batch_is_handed_through(device: torch.device) -> None:
    plain = DataLoader(Numbers(8), batch_size=2, collate_fn=_nothing_of_the_second)
    batches = list(xla.MpDeviceLoader(plain, device))
    assert [None if batch is None else batch.tolist() for batch in batches] == [
        [0, 1],
        None,
        [4, 5],
        [6, 7],
    ]


# Types (1.84); test_batches.py has them all


def test_fact_1_84_torch_xla_changes_types(device: torch.device) -> None:
    batches: list[Any] = [Pair(torch.ones(1), nn.Parameter(torch.ones(1)))]
    (batch,) = pl.MpDeviceLoader(batches, device)
    assert type(batch) is list
    assert batch[1].device.type == "cpu"


def test_fact_1_84_types_are_kept_on_the_device(device: torch.device) -> None:
    class Sub(torch.Tensor):
        pass

    source = Pair(
        torch.ones(1), {"p": nn.Parameter(torch.ones(1)), "s": torch.ones(1).as_subclass(Sub)}
    )
    (batch,) = xla.MpDeviceLoader([source], device)
    assert type(batch) is Pair
    assert type(batch.y["p"]) is nn.Parameter
    assert type(batch.y["s"]) is Sub
    assert {batch.x.device, batch.y["p"].device, batch.y["s"].device} == {device}
    for dtype in (torch.int64, torch.float64, torch.bool, torch.uint8, torch.bfloat16):
        (moved,) = xla.MpDeviceLoader([torch.ones(2).to(dtype)], device)
        assert moved.dtype is dtype


# Threads (1.85)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("CPU", torch.float64), ("TPU", torch.float64), ("NEURON", torch.float32)]
)
def test_float64_is_sent_as_float32_to_devices_without_it(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, kind: str, dtype: torch.dtype
) -> None:
    monkeypatch.setattr("torch_xla.runtime.device_type", lambda: kind)
    (batch,) = xla.MpDeviceLoader([(torch.ones(2, dtype=torch.float64), torch.arange(2))])
    assert [part.dtype for part in batch] == [dtype, torch.int64]


def test_fact_1_85_torch_xla_leaves_threads_after_break(device: torch.device) -> None:
    before = set(threading.enumerate())
    loader = pl.MpDeviceLoader(DataLoader(Numbers(200)), device)
    for _ in loader:
        break
    time.sleep(0.2)
    assert set(threading.enumerate()) - before
    loader._parallel_loader.close()


def _break(loader: Any) -> None:
    for _ in loader:
        break


def _raise(loader: Any) -> None:
    def loop() -> None:
        for _ in loader:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()


def _drop(loader: Any) -> None:
    iterator = iter(loader)
    next(iterator)
    del iterator


def _next_once(loader: Any) -> None:
    next(iter(loader))


def _abandon_in_a_cycle(loader: Any) -> None:
    holder: dict[str, Any] = {"iterator": iter(loader)}
    next(holder["iterator"])
    holder["me"] = holder
    is_left = weakref.ref(holder["iterator"])
    del holder
    for _ in range(100):  # it does nothing while another thread collects
        gc.collect()
        if is_left() is None:
            return
        time.sleep(0.01)


def _never_start(loader: Any) -> None:
    iter(loader)


def _to_the_end(loader: Any) -> None:
    assert len(list(loader)) == 200


@pytest.mark.parametrize(
    "leave", [_break, _raise, _drop, _next_once, _abandon_in_a_cycle, _never_start, _to_the_end]
)
def test_fact_1_85_no_thread_is_left(device: torch.device, leave: Callable[[Any], None]) -> None:
    leave(xla.MpDeviceLoader(DataLoader(Numbers(200)), device))
    assert not loader_threads()


@pytest.mark.parametrize("leave", [_break, _to_the_end])
def test_fact_1_85_no_thread_or_worker_process_is_left(
    device: torch.device, leave: Callable[[Any], None]
) -> None:
    leave(xla.MpDeviceLoader(DataLoader(Numbers(200), num_workers=1), device))
    assert not loader_threads()
    assert not multiprocessing.active_children()


# Reading ahead (1.86)


class Counting:
    """A source that counts what was asked of it."""

    def __init__(self, size: int = 50) -> None:
        self.size, self.asked = size, 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(self.size):
            self.asked += 1
            yield torch.tensor([index])


class CountingDataset(IterableDataset[torch.Tensor]):
    def __init__(self) -> None:
        self.source = Counting()

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.source)


def _settled(source: Counting) -> int:
    asked = -1
    while asked != source.asked:
        asked = source.asked
        time.sleep(0.1)
    return asked


def test_fact_1_86_torch_xla_reads_many_batches_ahead(device: torch.device) -> None:
    source = Counting()
    loader = pl.MpDeviceLoader(source, device)
    next(iter(loader))
    assert _settled(source) > 20
    loader._parallel_loader.close()


def test_fact_1_86_a_data_loader_is_read_ahead_as_far_as_it_is_told(device: torch.device) -> None:
    dataset = CountingDataset()
    iterator = iter(
        xla.MpDeviceLoader(
            DataLoader(dataset), device, loader_prefetch_size=2, device_prefetch_size=1
        )
    )
    next(iterator)
    # One taken, one on the device, one being sent, two read, one being read.
    assert 4 <= _settled(dataset.source) <= 6


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_fact_1_86_reading_ahead_can_be_turned_off(
    device: torch.device, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = {"loader_prefetch_size": 0} if how == "argument" else {}
    if how == "environment":
        monkeypatch.setenv("XLA_MIGRATE_READ_AHEAD", "0")
    dataset = CountingDataset()
    iterator = iter(xla.MpDeviceLoader(DataLoader(dataset), device, **tuning))
    next(iterator)
    assert not loader_threads()
    assert dataset.source.asked == 1


def test_fact_1_86_any_other_iterable_is_read_when_asked(device: torch.device) -> None:
    source = Counting()
    for batch in xla.MpDeviceLoader(source, device):
        assert source.asked == batch.item() + 1
    generator = iter(Counting(6))
    loader = xla.MpDeviceLoader(generator, device)
    for _ in loader:
        break
    assert [batch.item() for batch in loader] == [1, 2, 3, 4, 5], (
        "it goes on where the loop left it"
    )


def test_fact_1_86_any_iterable_is_read_ahead_when_told(device: torch.device) -> None:
    source = Counting()
    iterator = iter(xla.MpDeviceLoader(source, device, loader_prefetch_size=4))
    next(iterator)
    assert _settled(source) > 4


def test_a_buffer_that_the_source_uses_again_is_not_read_again(device: torch.device) -> None:
    def reusing() -> Iterator[torch.Tensor]:
        buffer = torch.empty(1000)
        for index in range(20):
            yield buffer.fill_(index)

    loader = xla.MpDeviceLoader(reusing(), device)
    kept = list(loader)
    assert [batch[0].item() for batch in kept] == list(range(20))


@pytest.mark.parametrize(
    ("make", "copied"),
    [
        (lambda: iter([torch.ones(2)]), True),
        (lambda: [torch.ones(2)], True),
        (lambda: DataLoader(Numbers(1), collate_fn=lambda items: items[0]), True),
        (lambda: DataLoader(Numbers(1), batch_size=None), True),
        (lambda: DataLoader(Numbers(1)), False),
        (lambda: DataLoader(Numbers(1), num_workers=1, collate_fn=torch.stack), False),
    ],
)
def test_what_may_be_a_used_buffer_is_copied_before_an_asynchronous_transfer(
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], Any],
    copied: bool,
) -> None:
    copies: list[int] = []
    clone = torch.Tensor.clone
    monkeypatch.setattr(torch.Tensor, "clone", lambda tensor: (copies.append(1), clone(tensor))[1])
    list(xla.MpDeviceLoader(make(), device))
    assert copies == [1] * copied


# Marks (1.87-1.89)


def _accumulate(loader: Any, state: torch.Tensor, until: int = 1000) -> None:
    for index, batch in enumerate(loader):
        state.add_(batch.sum())
        if index + 1 == until:
            break


def test_fact_1_87_torch_xla_leaves_the_last_step_pending_after_break(
    device: torch.device, pending: Callable[[], int]
) -> None:
    state = torch.zeros((), device=device)
    loader = pl.MpDeviceLoader([torch.ones(2)] * 4, device)
    _accumulate(loader, state, until=2)
    assert pending() == 1
    loader._parallel_loader.close()


@pytest.mark.parametrize("until", [2, 1000])
@pytest.mark.parametrize("every", [1, 3])
def test_fact_1_87_nothing_is_pending_after_the_loop(
    device: torch.device, pending: Callable[[], int], until: int, every: int
) -> None:
    state = torch.zeros((), device=device)
    loader = xla.MpDeviceLoader([torch.ones(2)] * 4, device, batches_per_execution=every)
    _accumulate(loader, state, until)
    assert pending() == 0
    assert state.item() == 2 * min(until, 4)


def test_fact_1_87_nothing_is_pending_while_an_exhausted_iterator_is_kept(
    device: torch.device, pending: Callable[[], int]
) -> None:
    state = torch.zeros((), device=device)
    iterator = iter(xla.MpDeviceLoader([torch.ones(2)], device, batches_per_execution=3))
    state.add_(next(iterator).sum())
    assert next(iterator, None) is None
    assert pending() == 0


def test_fact_1_87_what_was_pending_before_the_loop_is_not_part_of_the_first_step(
    device: torch.device, pending: Callable[[], int]
) -> None:
    state = torch.zeros((), device=device) + 5
    iterator = iter(xla.MpDeviceLoader([torch.ones(2)], device))
    next(iterator)
    assert pending() == 0
    assert state.item() == 5


def test_fact_1_88_a_mark_of_the_scripts_own_adds_no_launch(device: torch.device) -> None:
    state = torch.zeros((), device=device)
    xla.mark_step()

    def launches(marked: bool) -> int:
        before = xla.metrics()["launches"] or 0
        for batch in xla.MpDeviceLoader([torch.ones(3)] * 5, device):
            state.add_(batch.sum())
            if marked:
                xla.mark_step()
        return (xla.metrics()["launches"] or 0) - before

    assert launches(marked=True) == launches(marked=False) == 5


def _launches_by_batch(loader: Any, state: torch.Tensor) -> list[int]:
    counts = []
    for batch in loader:
        counts.append(xla.metrics()["launches"] or 0)
        state.add_(batch.sum())
    counts.append(xla.metrics()["launches"] or 0)
    return [after - before for before, after in itertools.pairwise(counts)]


def test_fact_1_89_torch_xla_counts_the_first_execution_short(device: torch.device) -> None:
    loader = pl.MpDeviceLoader([torch.ones(4)] * 6, device, batches_per_execution=2)
    launches = _launches_by_batch(loader, torch.zeros((), device=device))
    assert launches == [1, 0, 1, 0, 1, 1]


def test_fact_1_89_executions_are_aligned_with_the_first_batch(device: torch.device) -> None:
    for every, expected in (
        (2, [0, 1, 0, 1, 0, 1]),
        (3, [0, 0, 1, 0, 0, 1]),
        (4, [0, 0, 0, 1, 0, 1]),
    ):
        state = torch.zeros((), device=device)
        xla.mark_step()
        loader = xla.MpDeviceLoader([torch.ones(4)] * 6, device, batches_per_execution=every)
        assert _launches_by_batch(loader, state) == expected


def test_a_forked_worker_does_not_touch_the_device(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterator = iter(xla.MpDeviceLoader([torch.ones(2)] * 4, device))
    next(iterator)
    marks = xla.metrics()["step_marks"]
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    del iterator
    assert xla.metrics()["step_marks"] == marks


def test_closing_from_another_thread_marks_nothing_there(device: torch.device) -> None:
    state = torch.zeros((), device=device)
    held = [iter(xla.MpDeviceLoader([torch.ones(2)] * 4, device))]
    state.add_(next(held[0]).sum())
    marks = xla.metrics()["step_marks"]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert xla.metrics()["step_marks"] == marks


# Ways to iterate (1.90, 1.91)


@pytest.mark.parametrize("workers", [0, 1])
def test_every_pass_starts_anew(device: torch.device, workers: int) -> None:
    plain = DataLoader(
        Numbers(6), batch_size=2, num_workers=workers, persistent_workers=workers > 0
    )
    loader = xla.MpDeviceLoader(plain, device)
    for _ in range(2):
        assert values(loader) == values(plain) == [[0, 1], [2, 3], [4, 5]]
    for _ in loader:
        break
    assert values(loader) == [[0, 1], [2, 3], [4, 5]]


def test_fact_1_90_nested_and_zipped_passes(device: torch.device) -> None:
    loader = xla.MpDeviceLoader(DataLoader(Numbers(3)), device)
    pairs = [(a.item(), b.item()) for a in loader for b in loader]
    assert pairs == [(a, b) for a in range(3) for b in range(3)]
    other = xla.MpDeviceLoader(DataLoader(Numbers(2)), device)
    assert [(a.item(), b.item()) for a, b in zip(loader, other)] == [(0, 0), (1, 1)]
    assert not loader_threads()


def test_fact_1_91_lists_of_batches_stay_as_they_were(device: torch.device) -> None:
    batches = [{"x": torch.ones(2)}, {"x": torch.zeros(2)}]
    loader = xla.MpDeviceLoader(batches, device)
    for _ in range(2):
        assert [batch["x"].device for batch in loader] == [device, device]
    assert all(batch["x"].device.type == "cpu" for batch in batches)
    assert len(loader) == 2


def test_shuffled_order_is_the_plain_loaders(device: torch.device) -> None:
    plain = DataLoader(Numbers(32), batch_size=4, shuffle=True)
    torch.manual_seed(3)
    expected = values(plain)
    torch.manual_seed(3)
    assert values(xla.MpDeviceLoader(plain, device)) == expected


def test_order_is_kept_by_several_transfer_threads(device: torch.device) -> None:
    loader = xla.MpDeviceLoader(
        DataLoader(Numbers(60)), device, host_to_device_transfer_threads=4, device_prefetch_size=3
    )
    assert [batch.item() for batch in loader] == list(range(60))
    assert not loader_threads()


def test_iterators_have_a_length(device: torch.device) -> None:
    assert len(iter(xla.MpDeviceLoader(DataLoader(Numbers(6), batch_size=2), device))) == 3


def test_a_generator_can_be_taken_from_by_next(device: torch.device) -> None:
    loader = xla.MpDeviceLoader((torch.tensor([n]) for n in range(4)), device)
    assert next(loader).device == device  # type: ignore[call-overload]
    assert next(loader).item() == 1  # type: ignore[call-overload]
    assert [batch.item() for batch in loader] == [2, 3]
    assert xla.MpDeviceLoader(loader, device) is loader
    with pytest.raises(TypeError, match="not an iterator"):
        next(xla.MpDeviceLoader([], device))  # type: ignore[call-overload]


def test_no_loader_stays_none_and_truth_is_the_loaders(device: torch.device) -> None:
    assert xla.MpDeviceLoader(None, device) is None  # type: ignore[arg-type]
    assert xla.MpDeviceLoader(iter([]), device)
    assert not xla.MpDeviceLoader([], device)


def test_an_exhausted_iterator_stays_so(device: torch.device) -> None:
    iterator = iter(xla.MpDeviceLoader(DataLoader(Numbers(1)), device))
    next(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)


def test_infinite_loaders_can_be_started_again(device: torch.device) -> None:
    """The usual way to train by steps and not by epochs."""
    loader = xla.MpDeviceLoader(DataLoader(Numbers(4), batch_size=2), device)
    iterator, seen = iter(loader), []
    for _ in range(5):
        try:
            batch = next(iterator)
        except StopIteration:
            iterator = iter(loader)
            batch = next(iterator)
        seen.append(batch[0].item())
    assert seen == [0, 2, 0, 2, 0]


def test_a_second_pass_over_persistent_workers_ends_the_first(device: torch.device) -> None:
    plain = DataLoader(Numbers(40), num_workers=1, persistent_workers=True)
    loader = xla.MpDeviceLoader(plain, device)
    first = iter(loader)
    next(first)
    assert [batch.item() for batch in loader] == list(range(40))
    with pytest.raises(RuntimeError, match="persistent_workers"):
        next(first)


def test_fact_3_36_worker_processes_work_after_the_device_is_in_use(device: torch.device) -> None:
    torch.ones(1, device=device).item()
    plain = DataLoader(Numbers(8), batch_size=4, num_workers=2)
    assert values(xla.MpDeviceLoader(plain, device)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_grad_mode_of_the_loop_is_that_of_the_dataset(device: torch.device) -> None:
    modes: list[bool] = []

    class Looks(Numbers):
        def __getitem__(self, index: int) -> torch.Tensor:
            modes.append(torch.is_grad_enabled())
            return super().__getitem__(index)

    with torch.no_grad():
        list(xla.MpDeviceLoader(DataLoader(Looks(2)), device))
    list(xla.MpDeviceLoader(DataLoader(Looks(1)), device))
    assert modes == [False, False, True]


def test_input_sharding_by_key_wants_every_key(device: torch.device) -> None:
    loader = xla.MpDeviceLoader(
        [{"x": torch.ones(2), "y": torch.ones(2)}], device, input_sharding={"x": None}
    )
    with pytest.raises(KeyError, match="'y'"):
        list(loader)
    loader = xla.MpDeviceLoader([torch.ones(2)], device, input_sharding={"x": None})
    with pytest.raises(ValueError, match="batches have to be dicts"):
        list(loader)


# Other devices


def test_on_the_cpu_it_is_the_plain_loader(eager: None) -> None:
    plain = DataLoader(Numbers(4), batch_size=2)
    iterator = iter(xla.MpDeviceLoader(plain))
    assert not isinstance(iterator, DeviceIterator)
    assert values(iterator) == [[0, 1], [2, 3]]


def test_a_cpu_device_on_xla_is_the_plain_loader(device: torch.device) -> None:
    (batch,) = xla.MpDeviceLoader([torch.ones(2)], "cpu")
    assert batch.device.type == "cpu"


def test_the_devices_old_names_are_understood(device: torch.device) -> None:
    for spec in ("cuda", "cuda:0", 0, None, torch.device("cuda", 1)):
        (batch,) = xla.MpDeviceLoader([torch.ones(2)], spec)
        assert batch.device == device


def test_no_warnings_of_our_own(device: torch.device) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = xla.MpDeviceLoader(
            DataLoader(TensorDataset(torch.ones(4, 2), torch.ones(4))), device
        )
        for x, y in loader:
            assert x.device == y.device == device
