"""What watching a run costs: step times of one script with and without the harness's hooks, on both sides.

Each pair of processes runs back to back, in turns of order; what is reported is the median of the
pairs' ratios (1.05: watching adds 5 %) of processors' time, all threads together, since a machine's
own speed and its other users wander; the ratio of wall-clock times stands beside it.

    PYTHONPATH=src:codemods python docs/bench/verify.py [--pairs 5] [--model gpt|cnn|mlp|deep] [--details N] [--side SIDE]

`--side reference` measures the original alone, which needs no torch_xla: on a GPU, for example.

With `--details N` the watched run records batches, and modules and updates of its first N steps, as
`xla-migrate verify --record` does (N = 2 there), and the size of a recording of 100 steps is printed. `deep` has
1,000 parameter tensors.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from pathlib import Path

from xla_codemods.engine import migrate
from xla_migrate.verify.experiments.recorded import BATCHES, record
from xla_migrate.verify.experiments.request import Request
from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.observed import ObservedRun

STEPS = 24

SCRIPT = """
import sys
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

kind, steps = sys.argv[1], int(sys.argv[2])


class GPT(nn.Module):
    def __init__(self, vocabulary=256, width=256, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.body = nn.TransformerEncoder(block, layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.body(self.embed(x)))


def cnn(width=32):
    parts = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(6):
        parts += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def deep(width=64):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(3072, width), *(nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()) for _ in range(249)), nn.Linear(width, 10)
    )


count = 16 * (steps + 1)
if kind == "gpt":
    model, data = GPT(), TensorDataset(torch.randint(0, 256, (count, 64)), torch.randint(0, 256, (count, 64)))
else:
    model = {"cnn": cnn, "mlp": mlp, "deep": deep}[kind]()
    data = TensorDataset(torch.randn(count, 3, 32, 32), torch.randint(0, 10, (count,)))
model = model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, (x, y) in enumerate(DataLoader(data, batch_size=16)):
    x, y = x.cuda(), y.cuda()
    out = model(x)
    loss = nn.functional.cross_entropy(out.flatten(0, -2), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == steps // 4:
        loss.item()
        start = time.perf_counter(), time.process_time()
    if step == steps:
        loss.item()
        spent = time.perf_counter() - start[0], time.process_time() - start[1]
        print("seconds per step:", *[s / (steps - steps // 4) for s in spent], flush=True)
"""


def seconds(model: str, side: str, watch: bool, details: int) -> tuple[float, float]:
    """Return (wall-clock, processor) seconds of one step of one run, in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "project", "train.py")
        script.parent.mkdir()
        script.write_text(SCRIPT)
        replace = {"train.py": migrate(SCRIPT.encode()).data} if side == "target" else None
        done: ObservedRun = run(
            script,
            [model, str(STEPS)],
            side=side,
            steps=None,
            cwd=script.parent,
            replace=replace,
            folder=Path(folder, "run"),
            watch=watch,
            batches=BATCHES if watch and details else 0,
            details=details if watch else 0,
        )
    found = re.search(r"seconds per step: (\S+) (\S+)", done.output)
    if found is None:
        sys.exit(f"{side} of {model} did not run: {done.failure}\n{done.output[-2000:]}")
    return float(found.group(1)), float(found.group(2))


def size_of_recording(model: str, details: int, steps: int = 100) -> int:
    """Return the bytes of a recording of the model's training."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "project", "train.py")
        script.parent.mkdir()
        script.write_text(SCRIPT)
        request = Request(script, (model, str(steps)), steps=steps)
        done = record(request, Path(folder, "run.rec"), (), lambda name: lambda how: None, details)
    if done.failure is not None:
        sys.exit(f"{model} was not recorded: {done.failure}")
    return done.size


def ratios(
    model: str, side: str, pairs: int, details: int
) -> tuple[list[float], list[float], float]:
    """(ratios watched / alone of processors' time, of wall-clock time, median seconds alone)."""
    wall, processors, alone = [], [], []
    for number in range(pairs):
        order = (False, True) if number % 2 else (True, False)
        times = {watch: seconds(model, side, watch, details) for watch in order}
        wall.append(times[True][0] / times[False][0])
        processors.append(times[True][1] / times[False][1])
        alone.append(times[False][1])
    return processors, wall, statistics.median(alone)


def main() -> None:
    """Measure and print a row per model and side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--model", choices=("gpt", "cnn", "mlp", "deep"))
    parser.add_argument("--details", type=int, default=0)
    parser.add_argument("--side", choices=("reference", "target"))
    asked = parser.parse_args()
    print(
        "| model | side | processors' ms per step alone | watched / alone | all pairs | wall-clock |"
    )
    print("|---|---|---|---|---|---|")
    for model in [asked.model] if asked.model else ["gpt", "cnn", "mlp"]:
        for side in [asked.side] if asked.side else ["reference", "target"]:
            processors, wall, alone = ratios(model, side, asked.pairs, asked.details)
            middle, shown = statistics.median(processors), ", ".join(f"{r:.3f}" for r in processors)
            row = f"{alone * 1e3:.1f} | {middle:.3f} | {shown} | {statistics.median(wall):.3f}"
            print(f"| {model} | {side} | {row} |", flush=True)
        if asked.details:
            size = size_of_recording(model, asked.details)
            print(f"{model}: a recording of 100 steps has {size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
