"""The device loader's speed: ours against torch_xla's own, on XLA:CPU; or, with --cuda, the eager
backend against a hand-tuned CUDA loop.

Each pair of epochs runs back to back in one process, in turns of order; what is reported is the
median of the pairs' ratios (above 1: ours is faster), since a machine's own speed wanders.

    python docs/bench/loader.py [--pairs 7] [--cuda]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 64


class Images(Dataset[Any]):
    """Small random images; ``work`` makes a sample as dear as decoding would."""

    def __init__(self, batches: int, work: int) -> None:
        self.size, self.work = batches * BATCH, work

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = torch.full((3, 32, 32), index / self.size)
        for _ in range(self.work):
            image = image * 0.999 + 0.001
        return image, index % 10


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 15 * 15, 10)
    )


def seconds(batches: Iterable[Any], step: Callable[..., None], finish: Callable[[], None]) -> float:
    start = time.perf_counter()
    for batch in batches:
        step(*batch)
    finish()
    return time.perf_counter() - start


def training_step(
    model: nn.Module, read_loss: bool, mark: Callable[[], None]
) -> Callable[..., None]:
    optimizer = torch.optim.AdamW(model.parameters())
    criterion = nn.CrossEntropyLoss()

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if read_loss:
            mark()
            loss.item()

    return step


def ratio(
    pairs: int, ours: Callable[[], float], theirs: Callable[[], float]
) -> tuple[float, float]:
    """Median of theirs / ours, and the median seconds of theirs."""
    ours(), theirs()  # Warm-up: compile.
    ratios, times = [], []
    for number in range(pairs):
        if number % 2:
            their_time, our_time = theirs(), ours()
        else:
            our_time, their_time = ours(), theirs()
        ratios.append(their_time / our_time)
        times.append(their_time)
    return statistics.median(ratios), statistics.median(times)


def xla_loaders(data: DataLoader[Any]) -> tuple[Iterable[Any], Iterable[Any], Any, Any, Any]:
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as pl

    from xla_migrate import runtime as xla

    def finish() -> None:
        torch_xla.sync()
        xm.wait_device_ops()

    device = xla.xla_device()
    ours, theirs = xla.MpDeviceLoader(data, device), pl.MpDeviceLoader(data, device)
    return ours, theirs, device, torch_xla.sync, finish


def cuda_loaders(data: DataLoader[Any]) -> tuple[Iterable[Any], Iterable[Any], Any, Any, Any]:
    from xla_migrate import runtime as xla

    device = xla.xla_device()
    tuned = DataLoader(
        data.dataset,
        BATCH,
        num_workers=data.num_workers,
        persistent_workers=data.persistent_workers,
        pin_memory=True,
    )

    class ByHand:
        def __iter__(self) -> Any:
            for batch in tuned:
                yield [tensor.to(device, non_blocking=True) for tensor in batch]

    return xla.MpDeviceLoader(data, device), ByHand(), device, lambda: None, xla.synchronize


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    if options.cuda:
        if not torch.cuda.is_available():
            sys.exit("--cuda: no CUDA device here")
        os.environ["XLA_MIGRATE_BACKEND"] = "eager"
    loaders = cuda_loaders if options.cuda else xla_loaders
    print("model  workers  sample  loss read   ours/theirs   theirs, s per epoch")
    all_ratios = []
    for make in (mlp, cnn):
        for workers in (0, 1):
            for work in (0, 20):
                for read_loss in (False, True):
                    data = DataLoader(
                        Images(options.batches, work),
                        BATCH,
                        num_workers=workers,
                        persistent_workers=workers > 0,
                    )
                    ours, theirs, device, mark, finish = loaders(data)
                    step = training_step(make().to(device), read_loss, mark)
                    found, their_time = ratio(
                        options.pairs,
                        partial(seconds, ours, step, finish),
                        partial(seconds, theirs, step, finish),
                    )
                    all_ratios.append(found)
                    print(
                        f"{make.__name__:6} {workers:7}  {'dear' if work else 'cheap':6}  "
                        f"{'each' if read_loss else 'never':9}   {found:11.3f}   {their_time:.3f}",
                        flush=True,
                    )
    print(f"geometric mean: {statistics.geometric_mean(all_ratios):.3f}")


if __name__ == "__main__":
    main()
