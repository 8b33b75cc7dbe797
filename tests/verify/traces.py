"""Runs made up from numbers, for tests of what judges them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xla_migrate.verify.judge.observed import ObservedRun
from xla_migrate.verify.judge.trace import Optimizer, OptimizerStep, Parameter, Trace

PARAMETERS = [Parameter("0.weight", (8, 4)), Parameter("0.bias", (8,))]


def step(number: int, loss: float | None = 1.0, **changes: Any) -> OptimizerStep:
    """OptimizerStep `number` (from 1) of the first optimizer, of a model with PARAMETERS, as on the CPU."""
    fields: dict[str, Any] = {
        "event": number - 1,
        "optimizer": 0,
        "step": number,
        "where": "train.py:20",
        "backwards": ["train.py:18"],
        "left": 0,
        "skipped": False,
        "seconds": 0.01,
        "harness": 0.001,
        "reads": [],
        "counts": {},
        "with_gradient": [True, True],
        "losses": [] if loss is None else [loss],
        "gradients": [1.0, 0.5],
        "norms": [4.0, 1.0],
        "projections": [2.0, 0.5],
        "moved": [0.1, 0.1],
        "options": [{"lr": 0.1, "weight_decay": 0.01}],
    }
    return OptimizerStep(**{**fields, **changes})


def counts(**changes: float) -> dict[str, float]:
    """What torch_xla counts in a good step."""
    good = {"compiles": 0, "launches": 1, "marks": 1, "reads": 0, "uploads": 1, "graph": 100}
    times = dict.fromkeys(("compile_s", "execute_s", "wait_s", "read_s", "upload_s"), 0.0)
    return {**good, **times, "debug_bytes": 0, **changes}


def trace(steps: Sequence[OptimizerStep], **changes: Any) -> Trace:
    """One process that took these steps."""
    out = Trace(
        rank=0,
        parameters={0: PARAMETERS},
        optimizers={0: Optimizer("SGD", "train.py:9")},
        initial={0: ([4.0, 1.0], [2.0, 0.5])},
        steps=list(steps),
        devices=["cpu"],
    )
    for name, value in changes.items():
        setattr(out, name, value)
    return out


def run(
    losses: Sequence[float | None] = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5),
    side: str = "reference",
    change: Callable[[OptimizerStep], None] | None = None,
    **changes: Any,
) -> ObservedRun:
    """A run of these losses; a target's steps are counted as good ones are.

    Args:
        change: called with each step, to spoil it.
        changes: of the trace.
    """
    steps = [step(n, loss) for n, loss in enumerate(losses, 1)]
    for one in steps:
        if side == "target":
            one.counts = counts(compiles=1 if one.step <= 2 else 0)
        if change is not None:
            change(one)
    out = ObservedRun(side, Path("train.py"), [], "as written", Path("/project"))
    where = {"devices": ["xla" if side == "target" else "cuda"]}
    out.traces = [trace(steps, **{**where, **changes})]
    return out
