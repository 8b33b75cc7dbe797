"""What `xla.profile` costs a training step on XLA:CPU, or, with --eager, on the eager backend.

Blocks of steps with and without an open profile follow each other in one process, in turns of order;
what is reported is the median of the pairs' ratios (above 1: the profile costs), since a machine's own
speed wanders: of time per step, and of the processor's time per step, of the training thread and of all
threads, which other programs on the machine disturb less. Beginning a profile and writing its trace are outside of the blocks; what
take is reported, too.

    python docs/bench/profiling.py [--pairs 40] [--steps 10] [--eager]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

CLOCKS = (time.perf_counter, time.thread_time, time.process_time)
NAMES = ("time", "training thread's processor time", "processor time")
BATCH, LENGTH, WIDTH, BLOCKS, CLASSES = 8, 64, 128, 4, 100


def training(xla: Any) -> Any:
    """A function that trains so many steps of a transformer; each reads its loss, as scripts with a log do."""
    import torch
    from torch import nn

    device = xla.xla_device()
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, BLOCKS, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(CLASSES, WIDTH), encoder, nn.Linear(WIDTH, CLASSES))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = (torch.randint(0, CLASSES, (BATCH, LENGTH)).to(device) for _ in range(2))

    def train(steps: int) -> tuple[float, ...]:
        xla.synchronize()
        start = [clock() for clock in CLOCKS]
        for step in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            xla.mark_step()
            if step % 10 == 9:
                loss.item()
        xla.synchronize()
        return tuple((c() - began) / steps for c, began in zip(CLOCKS, start, strict=True))

    return train


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    if args.eager:
        os.environ["XLA_MIGRATE_BACKEND"] = "eager"
    from xla_migrate import runtime as xla

    train = training(xla)
    train(10)
    plain: list[tuple[float, ...]] = []
    ratios: list[list[float]] = [[] for _ in CLOCKS]
    around: list[float] = []

    def profiled() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            with xla.profile(folder):
                spent = train(args.steps)
            around.append(time.perf_counter() - start - spent[0] * args.steps)
        return spent

    for pair in range(args.pairs):
        if pair % 2:
            one = profiled()
            other = train(args.steps)
        else:
            other = train(args.steps)
            one = profiled()
        plain.append(other)
        for own, with_profile, without in zip(ratios, one, other, strict=True):
            own.append(with_profile / without)
    step = 1000 * statistics.median(spent[0] for spent in plain)
    print(f"step without: {step:.1f} ms (median of {args.pairs} blocks)")
    for name, own in zip(NAMES, ratios, strict=True):
        low, middle, high = statistics.quantiles(own, n=4)
        print(f"with a profile, {name}: {middle:.3f} of that ({low:.3f} to {high:.3f})")
    print(f"beginning and writing: {statistics.median(around):.2f} s per profile")


if __name__ == "__main__":
    main()
