"""What a step costs that a condition may skip: `if torch.isfinite(norm)`, which waits, beside `where=`, which does not.

    python docs/bench/skipped_steps.py

Milliseconds a step of a perceptron of four layers with gradients that are clipped, and nothing else read; the three in turns,
the least of several rounds. On XLA:CPU the device shares the processors with the host.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
from torch import nn

from xla_migrate import runtime as xla

STEPS, ROUNDS = 20, 5

Step = Callable[[torch.optim.Optimizer, torch.Tensor], Any]


def always(optimizer: torch.optim.Optimizer, norm: torch.Tensor) -> None:
    xla.optimizer_step(optimizer)


def read(optimizer: torch.optim.Optimizer, norm: torch.Tensor) -> None:
    if torch.isfinite(norm):
        xla.optimizer_step(optimizer)


def where(optimizer: torch.optim.Optimizer, norm: torch.Tensor) -> None:
    xla.optimizer_step(optimizer, where=torch.isfinite(norm))


def training(width: int, batch: int, step: Step) -> Callable[[], None]:
    """Run one step of an independent training."""
    device = xla.xla_device()
    layers = [part for _ in range(4) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(width, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x = torch.randn(batch, width).to(device)
    y = torch.randint(0, 10, (batch,)).to(device)

    def train() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        step(optimizer, nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        xla.mark_step()

    return train


def main() -> None:
    for width, batch in ((128, 64), (512, 256), (1024, 512)):
        trainings = [training(width, batch, step) for step in (always, read, where)]
        least = [float("inf")] * len(trainings)
        for round_ in range(ROUNDS + 1):
            for k, train in enumerate(trainings):
                xla.flush()
                xla.synchronize()
                begin = time.perf_counter()
                for _ in range(STEPS):
                    train()
                xla.synchronize()
                if round_:  # the first compiles
                    least[k] = min(least[k], (time.perf_counter() - begin) / STEPS * 1e3)
        times = " | ".join(f"{value:.1f}" for value in least)
        print(f"| {width} wide, batch {batch} | {times} |", flush=True)


if __name__ == "__main__":
    main()
