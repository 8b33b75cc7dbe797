"""Run every setting several times, in turns, each run in a separate process and copy of the project."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...verify.experiments.process import end
from .. import copies
from .child import VARIABLE
from .settings import Setting

_CHILD = "xla_migrate.target.tune.child"


@dataclass(frozen=True)
class Trial:
    """One run of one setting.

    Attributes:
        samples: per step, from the first on.
        losses: likewise; None if the step had none.
        seconds: from the last step of the warm-up on, per step, without what was spent compiling.
        compiled: seconds of compiling that were left out of them.
        first_step: seconds from the process's start until its second step is over, so that the first is compiled.
        used: variables of the runtime that something has asked for.
        failure: why it is worth nothing, or "".
    """

    setting: Setting
    samples: list[int] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    compiled: float = 0.0
    first_step: float = 0.0
    device: str = ""
    used: tuple[str, ...] = ()
    failure: str = ""

    @property
    def measured(self) -> list[int]:
        """The samples of the steps that `seconds` are of."""
        return self.samples[len(self.samples) - len(self.seconds) :]

    @property
    def throughput(self) -> float:
        """Samples per second; 0 for a run that failed."""
        total = sum(self.seconds)
        return sum(self.measured) / total if total > 0 else 0.0


@dataclass(frozen=True)
class TuneOptions:
    """The command that every trial runs.

    Attributes:
        replaced: the migrated files, by path in the project.
        warmup: steps before those that are measured.
        timeout: seconds for one run.
        gated: steps of the run that is for its losses alone, without dropout.
    """

    script: Path
    args: Sequence[str]
    replaced: Mapping[str, str | bytes]
    warmup: int = 8
    steps: int = 32
    timeout: float = 1800.0
    gated: int = 16


def all_trials(
    settings: Sequence[Setting],
    repeats: int,
    order: TuneOptions,
    base: Path,
    tell: Callable[[int, Trial], None],
) -> tuple[list[list[Trial]], list[Trial]]:
    """(timed trials by setting, the trial of each for its losses), in the order of `settings`.

    Losses come first. In every round each setting has a turn, in an order drawn anew (by a fixed seed), so that a machine that
    grows slower is no setting's fault. A setting that has failed has no more turns.
    """
    out: list[list[Trial]] = [[] for _ in settings]
    gates: list[Trial] = []
    for place, setting in enumerate(settings):
        gates.append(one(setting, order, base / f"gate-{place}", gate=True))
        tell(0, gates[-1])
    draw = random.Random(0)
    for turn in range(repeats):
        places = list(range(len(settings)))
        draw.shuffle(places)
        for place in places:
            if any(trial.failure for trial in [gates[place], *out[place]]):
                continue
            trial = one(settings[place], order, base / f"{turn}-{place}")
            out[place].append(trial)
            tell(turn + 1, trial)
    return out, gates


def one(setting: Setting, order: TuneOptions, folder: Path, gate: bool = False) -> Trial:
    """Run the script once with a setting, for its time or, as a `gate`, for its losses."""
    folder.mkdir(parents=True)
    args = setting.arguments(order.args)
    copy = copies.copied(order.script, args, order.replaced, folder / "project")
    found, output = folder / "found.json", folder / "output.txt"
    steps = order.gated if gate else order.warmup + order.steps
    told = {"path": str(found), "steps": steps, "dropout": "off" if gate else ""}
    env = copies.attached(_CHILD, {**os.environ, VARIABLE: json.dumps(told)})
    env |= {"PYTHONHASHSEED": "0", **setting.environment(env)}
    with output.open("wb") as file:
        process = subprocess.Popen(
            copy.command,
            cwd=copy.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(order.timeout)
        except subprocess.TimeoutExpired:
            return Trial(setting, failure=f"not finished after {order.timeout:g} s")
        finally:
            end(process)
    warmup = 1 if gate else order.warmup
    trial = _read(setting, found, process.returncode, output, warmup)
    shutil.rmtree(folder, ignore_errors=True)
    return trial


def _read(setting: Setting, found: Path, code: int, output: Path, warmup: int) -> Trial:
    if code:
        lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return Trial(setting, failure=f"exit code {code}: {lines[-1][:200] if lines else ''}")
    if not found.exists():
        return Trial(setting, failure="no optimizer step was taken")
    told = json.loads(found.read_text(encoding="utf-8"))
    ends, compiling = told["ends"], told["compiling"]
    if len(ends) < warmup + 2:
        return Trial(setting, failure=f"{len(ends)} steps: too few (warm-up {warmup})")
    first = warmup - 1
    both = list(zip(ends[first:], compiling[first:], strict=True))
    seconds = [
        max(end - begin - (after - before), 1e-9)
        for (begin, before), (end, after) in itertools.pairwise(both)
    ]
    return Trial(
        setting,
        told["samples"],
        told["losses"],
        seconds,
        compiled=compiling[-1] - compiling[first],
        first_step=told["first_step"],
        device=told["device"],
        used=tuple(told["used"]),
    )
