"""Attaching what records the details of a run, as its plan says."""

from __future__ import annotations

from typing import Any

import torch

from ..plan import RunPlan
from ..process.patching import Patches
from . import batches, calls, inputs


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
    calls.install(patches, inputs.entered, lambda module, output: None)
    tap.at_events.append(inputs.step_over)
