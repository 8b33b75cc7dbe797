"""Attaching what records the details of a run, as its plan says."""

from __future__ import annotations

from typing import Any

import torch

from ..plan import RunPlan
from ..process.patching import Patches
from . import batches, calls, inputs, modules, updates


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
    batches.install(patches, plan.batches)
    on_cuda = plan.side == "reference" and not redirected and torch.cuda.is_available()
    inputs.use_full_precision(on_cuda and plan.precision == "float32")
    if not plan.details:
        calls.install(patches, inputs.entered, lambda module, output: None)
    else:
        _install_details(patches, plan.details, tap)
    tap.at_events.append(inputs.step_over)


def _install_details(patches: Patches, steps: int, tap: Any) -> None:
    inside, update = modules.Recorder(), updates.Recorder()
    modules.watch_construction(patches)

    def entered(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs.entered(module, args, kwargs)
        inside.entered(module, args, kwargs)

    def step_over(event: int) -> None:
        inside.step_over(event)
        if event + 1 >= steps * max(len(tap.live), 1):
            inside.active = update.active = False

    calls.install(patches, entered, inside.left)
    tap.before_steps.append(update.before_step)
    tap.after_steps.append(update.after_step)
    tap.at_events.append(step_over)
