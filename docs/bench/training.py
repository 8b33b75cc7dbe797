"""How fast migrated scripts train on XLA:CPU, beside the same scripts written by hand for torch_xla.

    python docs/bench/training.py [FIXTURE ...]

Each training script of fixtures/train is migrated and run in turns with its `hand_xla.py`, under the same taps.
A step's time is the median over the steps after warm-up; of several runs the best counts. Prints the ratio
hand-written / migrated: 1.00 is as fast, more is faster. It needs what the tests need.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median

from xla_migrate.verify import Run, run

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.e2e.fixtures import SINGLE, Fixture, migrated  # noqa: E402

ROUNDS = 3
WARMUP = 6


def observe(fixture: Fixture, name: str) -> Run:
    with tempfile.TemporaryDirectory() as place:
        return run(
            fixture.script if name == "migrated" else fixture.hand,
            fixture.args("float32", Path(place)),
            side="target",
            steps=None,
            precision="float32",
            cwd=fixture.folder,
            replace=migrated(fixture) if name == "migrated" else None,
            folder=Path(place, "run"),
        )


def step_seconds(seen: Run) -> float:
    """The median time of an iteration after warm-up, without what the taps take."""
    if seen.failure is not None:
        raise SystemExit(f"{seen.script}: {seen.failure.message}")
    iterations = seen.traces[0].iterations()[WARMUP:]
    return median(sum(step.seconds - step.harness for step in steps) for steps in iterations)


def main() -> None:
    chosen = sys.argv[1:]
    for fixture in SINGLE:
        if (chosen and fixture.name not in chosen) or fixture.missing():
            continue
        times: dict[str, list[float]] = {"migrated": [], "hand": []}
        for _ in range(ROUNDS):
            for name, seconds in times.items():
                seconds.append(step_seconds(observe(fixture, name)))
        ours, theirs = min(times["migrated"]), min(times["hand"])
        print(
            f"{fixture.name:<14} {1000 * ours:8.1f} ms {1000 * theirs:8.1f} ms {theirs / ours:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
