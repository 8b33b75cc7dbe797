"""Attaching everything, in the order in which the script imports what it hooks into."""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import sys
import traceback
from types import TracebackType
from typing import Any

from ....verify.observe.process import guard, imports, where
from .. import plan as plans
from . import records


def attach() -> None:
    """Prepare this process according to the plan of its tracing, if there is one."""
    plan = plans.current()
    if plan is None:
        return
    records.open_in(plan.records)
    where.set_project(plan.project)
    faulthandler.enable(records.crash_file())
    guard.install(plan.original, plan.project)
    _tell_errors(plan.project)
    if plan.explain:
        from . import unreached

        unreached.watch()
    imports.after(
        {
            "torch": lambda torch: _torch(torch, plan),
            "torch_xla": lambda torch_xla: _torch_xla(torch_xla, plan),
        }
    )


def _torch(torch: Any, plan: plans.Plan) -> None:
    from . import loaders, phases

    phases.watch(torch)
    if plan.steps:
        loaders.shorten(plan.steps)


def _torch_xla(torch_xla: Any, plan: plans.Plan) -> None:
    from ....verify.observe.device import counters, shapes
    from . import cuts, loaders, phases, reads, saves, unreached

    tracer = cuts.install(torch_xla, plan)
    reads.install(torch_xla, tracer, plan.execute)
    saves.install(tracer, plan.execute)
    if plan.explain:
        shapes.install()
        counters.install(importlib.import_module("torch_xla.debug.metrics"))
        phases.after_steps(unreached.forget_preparation)
        atexit.register(unreached.tell)
    if plan.ops:
        from . import kernels

        kernels.watch(torch_xla, plan.ops, plan.listed)
    phases.after_steps(tracer.stop_when_nothing_is_new)
    atexit.register(tracer.end)
    atexit.register(loaders.tell_left_out)


def _tell_errors(project: str) -> None:
    report = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        frames = [f for f in traceback.extract_tb(trace) if f.filename.startswith(project)]
        place = f"{frames[-1].filename[len(project) + 1 :]}:{frames[-1].lineno}" if frames else ""
        records.write("error", type=kind.__name__, message=str(value), place=place)
        report(kind, value, trace)

    sys.excepthook = hook
