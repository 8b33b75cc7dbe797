"""Training scripts on CUDA, as they are and migrated: the same losses bit for bit, and no slower?

    python docs/bench/cuda.py [--rounds 5] [--longer 20] [--jobs 1] [--mode float32] [FIXTURE ...]

Runs each fixture of fixtures/train with deterministic kernels in float32 (`--mode bf16`, `--mode dropout`: those that
have it): the original twice, to see whether it repeats itself, and the migrated script (eager backend) once. Then, in
float32, both without, several times in turns, with `--longer` times as many steps: the ratio is the median over the
rounds of original / migrated seconds a step, after warm-up (1.00 is as fast, more is faster; the goal is 0.98).
`--rounds 0` leaves the times out; `--jobs` runs as many fixtures at a time, which then share the GPU. Needs torch with
CUDA, libcst, and what the fixtures import; a fixture of several processes needs as many GPUs.

Exit code 0: all equal and fast enough; 1: not all; 2: there is no CUDA device. `--rehearse` runs on the CPU with
the migrated script on both sides: it tries this program, and says nothing of CUDA.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from tests.e2e.fixtures import ALL, Fixture  # noqa: E402
from tests.runtime.native.building import recorder  # noqa: E402
from tests.runtime.native.training import (  # noqa: E402
    Environment,
    Training,
    difference,
    seconds,
    train,
)

GOAL = 0.98
DETERMINISTIC = {"RECORD_DETERMINISTIC": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


@dataclass(frozen=True)
class Verdict:
    """A cell of the table, and whether it is as it should be."""

    text: str
    good: bool


def same_losses(original: Training, again: Training, migrated: Training, device: str) -> Verdict:
    """Compare bit for bit, on that device; undecided if the original does not repeat itself."""
    for run, name in ((original, "the original"), (again, "the original"), (migrated, "migrated")):
        if run.failure:
            return Verdict(f"{name} fails: {run.failure}", False)
        if run.devices != {device}:
            return Verdict(
                f"{name} computed on {', '.join(sorted(run.devices)) or 'nothing'}", False
            )
    if original.losses == again.losses == migrated.losses:
        return Verdict(f"equal, {sum(map(len, original.losses))} losses", True)
    own, off = difference(original, again), difference(migrated, original)
    if own is None:
        return Verdict("not decided: the original's two runs are of different lengths", False)
    if off is None:
        return Verdict("NOT equal: another number of losses", False)
    if own:
        text = f"the original differs from itself by {own:.1e}, the migrated from it by {off:.1e}"
        return Verdict(f"not decided: {text}", False)
    pairs = [
        pair
        for mine, theirs in zip(original.losses, migrated.losses, strict=True)
        for pair in zip(mine, theirs, strict=True)
    ]
    first = next(i for i, (a, b) in enumerate(pairs) if a != b)
    return Verdict(f"NOT equal: from loss {first} on, by {off:.1e}", False)


def speed(pairs: Sequence[tuple[float, float]]) -> Verdict:
    """Of seconds a step, original and migrated, of each round."""
    ratio = median(original / migrated for original, migrated in pairs)
    own = [1000 * median(side) for side in zip(*pairs, strict=True)]
    slow = "" if ratio >= GOAL else " TOO SLOW"
    return Verdict(f"{own[0]:.2f} ms | {own[1]:.2f} ms | {ratio:.3f}{slow}", ratio >= GOAL)


def measured(
    fixture: Fixture,
    first: str,
    where: Environment,
    folder: Path,
    rounds: int,
    longer: int,
    calls: int,
) -> Verdict:
    """Both sides in turns, the order changing from round to round."""
    pairs = []
    for number in range(rounds):
        kinds = [("a", first), ("b", "migrated")]
        took = {}
        for side, kind in reversed(kinds) if number % 2 else kinds:
            place = folder / f"{side}{number}"
            took[side], failure = seconds(fixture, kind, where, place, calls=calls, longer=longer)
            if failure:
                return Verdict(f"{kind} fails: {failure} | | ", False)
        pairs.append((took["a"], took["b"]))
    return speed(pairs)


def row(
    fixture: Fixture,
    mode: str,
    first: str,
    device: str,
    where: Environment,
    rounds: int,
    longer: int,
) -> tuple[str, bool]:
    """A line of the table; `first` is the kind of the left side."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = [
            train(fixture, mode, kind, where, folder / str(i), env=DETERMINISTIC)
            for i, kind in enumerate((first, first, "migrated"))
        ]
        same = same_losses(runs[0], runs[1], runs[2], device)
        if any(run.failure for run in runs):
            return f"| {fixture.name} | {same.text} | | | |", False
        if not rounds:
            return f"| {fixture.name} | {same.text} | | | |", same.good
        calls = len(runs[0].losses[0])
        fast = measured(fixture, first, where, folder, rounds, longer, calls)
    return f"| {fixture.name} | {same.text} | {fast.text} |", same.good and fast.good


def missing(fixture: Fixture, gpus: int, mode: str = "float32") -> str:
    """What keeps it from being run here; or ""."""
    if mode not in dict(fixture.modes):
        return f"has no mode {mode}"
    absent = [name for name in fixture.needs if importlib.util.find_spec(name) is None]
    if absent:
        return f"not run: needs {', '.join(absent)}"
    return f"not run: needs {fixture.processes} GPUs" if fixture.processes > gpus else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--longer", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--mode", default="float32", choices=("float32", "bf16", "dropout"))
    parser.add_argument("--rehearse", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("fixtures", nargs="*", metavar="FIXTURE")
    options = parser.parse_args()
    import torch

    if not options.rehearse and not torch.cuda.is_available():
        print("no CUDA device here: nothing was compared", file=sys.stderr)
        raise SystemExit(2)
    device, first, gpus = "cuda", "original", torch.cuda.device_count()
    title = torch.cuda.get_device_name() if not options.rehearse else ""
    if options.rehearse:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        device, first, gpus = "cpu", "migrated", len(os.sched_getaffinity(0))
        title = "REHEARSAL on the CPU, the migrated script on both sides"
    rounds = options.rounds if options.mode == "float32" else 0
    loaded = f", {options.jobs} fixtures at a time" if options.jobs > 1 else ""
    print(f"{title}, torch {torch.__version__}, {date.today()}, {options.mode}{loaded}\n")
    print("| fixture | losses, deterministic kernels | original | migrated | original / migrated |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    chosen = [f for f in ALL if not options.fixtures or f.name in options.fixtures]
    why = {f: "" if options.rehearse else missing(f, gpus, options.mode) for f in chosen}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        where = Environment(sys.executable, recorder(Path(folder)), {})

        def line(fixture: Fixture) -> tuple[str, bool]:
            if why[fixture]:
                return f"| {fixture.name} | {why[fixture]} | | | |", True
            return row(fixture, options.mode, first, device, where, rounds, options.longer)

        all_good = True
        for text, good in pool.map(line, chosen):
            print(text, flush=True)
            all_good &= good
    compared = sum(not reason for reason in why.values())
    print(f"\n{compared} compared")
    raise SystemExit(int(not (all_good and compared)))


if __name__ == "__main__":
    main()
