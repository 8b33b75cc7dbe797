"""How fast migrated scripts train on XLA:CPU, beside the same scripts written by hand for torch_xla.

    python docs/bench/training.py [--processors] [--default] [FIXTURE ...]

Each training script of fixtures/train is migrated and run in turns with its `hand_xla.py`, under the same taps.
So is the script migrated with `--unsafe`, where that is another one: it keeps running sums on the device. A step's time
is the median over the steps after warm-up; of several runs the best counts. Prints the ratios hand-written / migrated
(1.00 is as fast, more is faster), and how often a step reads from the device. It needs what the tests need.

`--default` leaves out the options by which the tests' runs log at each step, so that both scripts log as often as they do by default.
With `--processors` the scripts run without taps, and what is compared is the processors' time that a step takes, all threads
counted, evaluation included, from the third optimizer step to the last: on a machine that does other work, too, that is the same in each run to a few
per cent, where the clock is not. It does not see what the host waits for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

from xla_migrate.verify.experiments.run import run
from xla_migrate.verify.judge.observed import ObservedRun

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from printed import by_default  # noqa: E402
from tests.e2e.fixtures import SINGLE, Fixture, migrated  # noqa: E402

ROUNDS = 3
WARMUP = 6


KINDS = ("migrated", "unsafe", "hand")


def arguments(fixture: Fixture, place: Path) -> list[str]:
    found = fixture.args("float32", place)
    return by_default(found) if "--default" in sys.argv else found


def observe(fixture: Fixture, kind: str) -> ObservedRun:
    with tempfile.TemporaryDirectory() as place:
        return run(
            fixture.hand if kind == "hand" else fixture.script,
            arguments(fixture, Path(place)),
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


# Runs a script, and prints its processors' seconds a step.
_METERED = """
import atexit, json, os, runpy, sys, time
from torch.optim import optimizer
sys.path.insert(0, os.path.dirname(sys.argv[1]))
at = []
optimizer.register_optimizer_step_post_hook(lambda *_: at.append(time.process_time()))
def told():
    print("METERED", json.dumps((at[-1] - at[2]) / (len(at) - 3)))
atexit.register(told)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def processors(fixture: Fixture, kind: str) -> float:
    """Seconds a step."""
    with tempfile.TemporaryDirectory() as place:
        script = fixture.hand
        if kind != "hand":
            for name, data in migrated(fixture, kind == "unsafe").items():
                Path(place, name).write_bytes(data if isinstance(data, bytes) else data.encode())
            script = Path(place, fixture.script.name)
        done = subprocess.run(
            [sys.executable, "-c", _METERED, str(script), *arguments(fixture, Path(place))],
            cwd=place,
            env={**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": f"{ROOT}/src:{ROOT}/codemods"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found = next(line for line in done.stdout.splitlines() if line.startswith("METERED"))
    return float(json.loads(found.partition(" ")[2]))


def compare_processors(fixture: Fixture) -> None:
    """In turns; the least of each counts."""
    kinds = ("migrated", "hand")
    rounds = [{kind: processors(fixture, kind) for kind in kinds} for _ in range(ROUNDS)]
    found = {kind: min(each[kind] for each in rounds) for kind in kinds}
    cells = [f"{kind} {1000 * seconds:.1f} ms" for kind, seconds in found.items()]
    ratio = found["hand"] / found["migrated"]
    print(f"{fixture.name:<14}", " | ".join(cells), f"| {ratio:.2f}", flush=True)


def main() -> None:
    chosen = [word for word in sys.argv[1:] if not word.startswith("--")]
    for fixture in SINGLE:
        if (chosen and fixture.name not in chosen) or fixture.missing():
            continue
        if "--processors" in sys.argv:
            compare_processors(fixture)
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
