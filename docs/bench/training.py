"""How fast migrated scripts train on XLA:CPU, beside the same scripts written by hand for torch_xla.

    python docs/bench/training.py [FIXTURE ...]

Each training script of fixtures/train is migrated and run in turns with its `hand_xla.py`, under the same taps.
So is the script migrated with `--unsafe`, where that is another one: it keeps running sums on the device. A step's time
is the median over the steps after warm-up; of several runs the best counts. Prints the ratios hand-written / migrated
(1.00 is as fast, more is faster), and how often a step reads from the device. It needs what the tests need.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import mean, median

from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.observed import ObservedRun

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.e2e.fixtures import SINGLE, Fixture, migrated  # noqa: E402

ROUNDS = 3
WARMUP = 6


KINDS = ("migrated", "unsafe", "hand")


def observe(fixture: Fixture, kind: str) -> ObservedRun:
    with tempfile.TemporaryDirectory() as place:
        return run(
            fixture.hand if kind == "hand" else fixture.script,
            fixture.args("float32", Path(place)),
            side="target",
            steps=None,
            precision="float32",
            cwd=fixture.folder,
            replace=None if kind == "hand" else migrated(fixture, kind == "unsafe"),
            folder=Path(place, "run"),
        )


def per_step(seen: ObservedRun) -> tuple[float, float]:
    """After warm-up: the median time of an iteration, without what the taps take, and its mean number of reads."""
    if seen.failure is not None:
        raise SystemExit(f"{seen.script}: {seen.failure.message}")
    iterations = seen.traces[0].iterations()[WARMUP:]
    seconds = median(sum(step.seconds - step.harness for step in steps) for steps in iterations)
    return seconds, mean(sum(step.host_reads for step in steps) for steps in iterations)


def main() -> None:
    chosen = sys.argv[1:]
    for fixture in SINGLE:
        if (chosen and fixture.name not in chosen) or fixture.missing():
            continue
        same = migrated(fixture) == migrated(fixture, unsafe=True)
        kinds = [kind for kind in KINDS if kind != "unsafe" or not same]
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind, figures in found.items():
                figures.append(per_step(observe(fixture, kind)))
        hand = min(found["hand"])[0]
        cells = [
            f"{kind} {1000 * seconds:.1f} ms, {reads:.2f} reads, {hand / seconds:.2f}"
            for kind, (seconds, reads) in ((kind, min(found[kind])) for kind in kinds)
        ]
        print(f"{fixture.name:<14}", " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
