"""Attaching what records the details of a run, as its plan says."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from ..plan import RunPlan
from ..process.patching import Patches
from . import batches, calls, inputs, modules, operations, replay, suspect, updates


def install(patches: Patches, plan: RunPlan, tap: Any, redirected: bool) -> None:
    """Watch data and inputs of models, and in a run with details modules and updates.

    Args:
        patches: what is changed here is taken back by them.
        plan: of the run.
        tap: of the optimizer steps (`observe.training.steps.Tap`).
        redirected: CUDA calls are sent to the CPU.
    """
    if not plan.batches:
        return
    batches.install(patches, plan.batches, lambda: tap.events)
    if not plan.inputs:
        return
    on_cuda = plan.side == "reference" and not redirected and torch.cuda.is_available()
    inputs.use_full_precision(on_cuda and plan.precision == "float32")
    entered: list[calls.Entered] = [inputs.entered]
    if plan.store is not None:
        entered.append(_store(Path(plan.store), tap))
    if plan.replay is not None:
        feed = replay.Feed(Path(plan.replay))
        batches.drawn.append(feed.drawn)
        entered.append(feed.entered)
    if plan.details:
        inside = _install_modules(patches, plan.details, tap)
        entered.append(inside.entered)
        around = _install_operations(patches, plan, inside, tap, redirected)
        calls.install(patches, entered, [inside.left], around)
    else:
        calls.install(patches, entered, [])
    tap.at_events.append(inputs.step_over)


def _store(folder: Path, tap: Any) -> calls.Entered:
    store = replay.Store(folder, lambda: max(tap.done.values()))
    batches.drawn.append(store.drawn)
    tap.at_events.append(store.step_over)
    tap.at_end.append(store.end)
    return store.entered


def _install_modules(patches: Patches, steps: int, tap: Any) -> modules.Recorder:
    inside, update = modules.Recorder(), updates.Recorder()
    modules.watch_construction(patches)

    def step_over(event: int) -> None:
        inside.step_over(event)
        if event + 1 >= steps * max(len(tap.live), 1):
            inside.active = update.active = False

    tap.before_steps.append(update.before_step)
    tap.after_steps.append(update.after_step)
    tap.at_events.append(step_over)
    return inside


def _install_operations(
    patches: Patches, plan: RunPlan, inside: modules.Recorder, tap: Any, redirected: bool
) -> calls.Around:
    """Record the operations of one module's call, or of each optimizer's first step in the original."""
    recorder = operations.Recorder(inside)
    if not redirected:  # there, torch.compile compiles nothing
        operations.note_compilation(patches)
    if plan.suspect is not None:
        watch = suspect.Watch(inside, recorder, plan.suspect)
        tap.at_events.append(watch.step_over)
        return watch.around
    steps_over: list[int] = []

    def around(*_: Any) -> AbstractContextManager[Any]:
        is_first = len(steps_over) < max(len(tap.live), 1)
        is_outermost = not calls.running
        is_on = plan.side == "reference" and is_first and is_outermost and operations.can_record()
        return recorder if is_on else nullcontext()

    def step_over(event: int) -> None:
        steps_over.append(event)
        recorder.step_over(event)

    tap.at_events.append(step_over)
    return around
