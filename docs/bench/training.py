"""How fast migrated scripts train on XLA:CPU, beside the same scripts written by hand for torch_xla.

    python docs/bench/training.py [--rate | --processors] [--default] [FIXTURE ...]

Each training script of fixtures/train is migrated and run in turns with its `hand_xla.py`, with the same hooks.
So is the script migrated with `--unsafe`, if that differs: it keeps running sums on the device. A step's time
is the median over the steps after warm-up; of several runs the best counts. Prints the ratios hand-written / migrated
(1.00 is as fast, more is faster), and how often a step reads from the device. It needs what the tests need.

`--default` leaves out the options by which the tests' runs log at each step, so that both scripts log as often as they do by default.
With `--rate` the scripts run without hooks, on data of their default sizes, for five times as many epochs. It compares
steps per second over the second half of the run, evaluations, log lines and files included, until the device has done
all of it. A median step does not show this for a script that
launches steps asynchronously: it is the host's time alone, and the device's time appears at the epoch's end.
With `--processors` the scripts run without hooks. It compares the processor time per step of the training thread,
evaluation included, over the second half of the run. On a busy machine this repeats to a few
per cent, which the clock does not. It omits the host's waits. Both report a step's launches, reads, uploads and compilations.
"""

from __future__ import annotations

import json
import os
import re
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
from tests.e2e.fixtures import SINGLE, Fixture, migrated, tomllib  # noqa: E402

from xla_codemods.engine import Options  # noqa: E402

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
            replace=None if kind == "hand" else migrated(fixture, Options(unsafe=kind == "unsafe")),
            folder=Path(place, "run"),
        )


def per_step(seen: ObservedRun) -> tuple[float, float]:
    """After warm-up: the median time of an iteration, without what the taps take, and its mean number of reads."""
    if seen.failure is not None:
        raise SystemExit(f"{seen.script}: {seen.failure.message}")
    iterations = seen.traces[0].iterations()[WARMUP:]
    seconds = median(sum(step.seconds - step.harness for step in steps) for steps in iterations)
    return seconds, mean(sum(step.host_reads for step in steps) for steps in iterations)


# Runs a script, and prints how many steps it made, and for each of those behind the first `START` the seconds, the processors'
# seconds of all threads and of the one that trains, and the launches, reads, uploads and compilations. A step is one of the
# optimizer, or a backward pass if there is no optimizer.
_COUNTED = """
import atexit, json, os, runpy, sys, time
import torch, torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met
from torch.optim import optimizer
sys.path.insert(0, os.path.dirname(sys.argv[1]))
start, made, begun = int(os.environ["START"]), {"steps": 0, "passes": 0}, {}
METRICS = "ExecuteTime", "TransferFromDeviceTime", "TransferToDeviceTime", "CompileTime"
def now():
    xm.wait_device_ops()
    counts = [(met.metric_data(name) or [0])[0] for name in METRICS]
    return [time.perf_counter(), time.process_time(), time.thread_time(), *counts]
def count(kind):
    if made[kind] == start:
        begun[kind] = now()
    made[kind] += 1
backward = torch.Tensor.backward
def counted(*args, **kwargs):
    count("passes")
    return backward(*args, **kwargs)
torch.Tensor.backward = counted
optimizer.register_optimizer_step_pre_hook(lambda *_: count("steps"))
def told():
    kind = "steps" if made["steps"] else "passes"
    steps = made[kind]
    print("COUNTED", json.dumps([steps, *((b - a) / (steps - start) for a, b in zip(begun[kind], now()))]))
atexit.register(told)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def alone(fixture: Fixture, kind: str, words: list[str], start: int = 0) -> list[float]:
    """What `_COUNTED` tells of a run of the script, without taps; `words` may say where it writes as `{out}`."""
    with tempfile.TemporaryDirectory() as place:
        script = fixture.hand
        if kind != "hand":
            for name, data in migrated(fixture, Options(unsafe=kind == "unsafe")).items():
                Path(place, name).write_bytes(data if isinstance(data, bytes) else data.encode())
            script = Path(place, fixture.script.name)
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                _COUNTED,
                str(script),
                *(w.replace("{out}", place) for w in words),
            ],
            cwd=place,
            env={
                **os.environ,
                "PJRT_DEVICE": "CPU",
                "PYTHONPATH": f"{ROOT}/src:{ROOT}/codemods",
                "START": str(start),
            },
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    told = next(line for line in done.stdout.splitlines() if line.startswith("COUNTED"))
    found: list[float] = json.loads(told.partition(" ")[2])
    return found


# An option with a number, which has a default.
_NUMBER = re.compile(r"-?\d[\d.e-]*$")
LONGER = 5


def longer(fixture: Fixture) -> list[str]:
    """The arguments without numbers, so that there is as much to train on as by default, and as often a log line; for more epochs."""
    told = tomllib.loads((fixture.folder / "fixture.toml").read_text(encoding="utf-8"))
    words: list[str] = []
    for word in [*told["args"], *told["float32"]]:
        if _NUMBER.match(word):
            words.pop()
        elif not _NUMBER.match(word.partition("=")[2]):
            words.append(word.replace("{units}", str(LONGER * told["units"])))
    return words


def compare_alone(fixture: Fixture) -> None:
    """In turns; the least of each counts. The first run counts the steps."""
    by_clock = "--rate" in sys.argv
    words = longer(fixture) if by_clock else arguments(fixture, Path("{out}"))
    kinds = ("migrated", "hand")
    starts = {kind: int(alone(fixture, kind, words)[0]) // 2 for kind in kinds}
    runs = [
        {kind: alone(fixture, kind, words, starts[kind])[1:] for kind in kinds}
        for _ in range(ROUNDS)
    ]
    column = 0 if by_clock else 2
    found = {
        kind: [min(values) for values in zip(*(each[kind] for each in runs))] for kind in kinds
    }
    cells = [
        f"{kind} {1000 * clock:.1f} ms ({1000 * thread:.1f} of the thread that trains, {1000 * cpu:.1f} of all),"
        f" {launches:.2f} launches, {reads:.2f} reads, {uploads:.2f} uploads, {compiled:.2f} compiled"
        for kind, (clock, cpu, thread, launches, reads, uploads, compiled) in found.items()
    ]
    ratios = [each["hand"][column] / each["migrated"][column] for each in runs]
    ratio = found["hand"][column] / found["migrated"][column]
    seen = ", ".join(f"{r:.2f}" for r in ratios)
    print(f"{fixture.name:<14}", " | ".join(cells), f"| {ratio:.2f} ({seen})", flush=True)


def main() -> None:
    chosen = [word for word in sys.argv[1:] if not word.startswith("--")]
    for fixture in SINGLE:
        if (chosen and fixture.name not in chosen) or fixture.missing():
            continue
        if {"--rate", "--processors"} & set(sys.argv):
            compare_alone(fixture)
            continue
        same = migrated(fixture) == migrated(fixture, Options(unsafe=True))
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
