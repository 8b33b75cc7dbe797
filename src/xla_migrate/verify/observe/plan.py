"""The plan for a run's processes: one JSON file, found by an environment variable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Side = Literal["reference", "target"]
Dropout = Literal["off", "same"]
Precision = Literal["as written", "float32", "bfloat16"]
Arithmetic = Literal["as it is", "float64"]

# Packages that compute nothing without CUDA. `redirect.packages` has reference implementations of them.
CUDA_ONLY = ("apex", "amp_C", "bitsandbytes", "deepspeed", "flash_attn", "pynvml")
VARIABLE = "XLA_MIGRATE_VERIFY"
INPUT = "input"  # in records of operations: a tensor that the module was called with


@dataclass(frozen=True)
class Suspect:
    """A call of a module to look at closely (`observe.details.suspect`).

    Attributes:
        name: of the module, as records name it.
        number: of the call among all calls of the module in the step, from 1.
        event: the step.
        folder: of the call's inputs; "" if they stay as they are.
        is_given: the inputs are read from there, not written.
    """

    name: str
    number: int
    event: int
    folder: str
    is_given: bool


@dataclass(frozen=True)
class RunPlan:
    """Settings of one run, as its processes read them.

    Attributes:
        side: "reference" (the original) or "target" (the migrated script).
        project: the copy of the user's folder that the run works in.
        original: the folder it was copied from, which must not be written; "" for no guard.
        records: the folder that records go to.
        steps: optimizer steps to take, or None for the whole script.
        seed: what every random generator starts from.
        dropout: "off" or "same".
        precision: "as written", "float32" or "bfloat16".
        redirect: send CUDA calls to the CPU; None: if there is no CUDA.
        keep: a folder to write the weights to, after each step.
        follow: a folder that they were kept in, to go on from them after each step.
        arithmetic: "as it is", or "float64" (`observe.numerics.arithmetic`).
        roughness: relative errors to make in every operation.
        shake: change the weights a little after the first step, by this seed; 0: do not.
        device_count: how many CUDA devices a redirected script sees.
        shim: a Python file to execute before the script trains (the user's stand-in for data).
        explain: note what the script calls, to find what made it compile again.
        watch: whether to tap at all; without, the script only runs (benchmarks of the harness).
        batches: how many batches of each data loader to summarise; 0: no details at all.
        inputs: whether to summarise the inputs of models too, and record the further details.
        details: steps of which to record modules and updates (`observe.details`); of the original, also the
            operations of each optimizer's first step.
        clock_rate: how fast the script's clocks run (`observe.process.other_clock`).
        suspect: a call of a module to look at closely, in a run with details.
        store: a folder to write the initial weights and the first batches to (`observe.details.replay`).
        replay: such a folder, to train with what it holds.
    """

    side: Side
    project: str
    records: str
    original: str = ""
    steps: int | None = None
    seed: int = 0
    dropout: Dropout = "off"
    precision: Precision = "as written"
    redirect: bool | None = False
    keep: str | None = None
    follow: str | None = None
    arithmetic: Arithmetic = "as it is"
    roughness: float = 0.0
    shake: int = 0
    device_count: int = 1
    shim: str | None = None
    explain: bool = False
    watch: bool = True
    batches: int = 0
    inputs: bool = True
    details: int = 0
    clock_rate: int = 1
    suspect: Suspect | None = None
    store: str | None = None
    replay: str | None = None

    def save(self, path: Path) -> None:
        """Write it for the children."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> RunPlan:
        """Read it."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        if plain["suspect"] is not None:
            plain["suspect"] = Suspect(**plain["suspect"])
        return cls(**plain)


def current() -> RunPlan | None:
    """The plan of the run that this process belongs to."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    return RunPlan.load(Path(path))
