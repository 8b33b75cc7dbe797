"""In the script's process: the profile begins with its first optimizer, or its first backward pass."""

from __future__ import annotations

import atexit
import json
import os
from typing import Any

from ...verify.observe.process import imports
from ...verify.observe.process.stop import TrainingStopped
from ...verify.observe.start import at_exit

VARIABLE = "XLA_MIGRATE_PROFILE"
PROJECT = "XLA_MIGRATE_PROFILED_PROJECT"
SUMMARY = "summary.txt"
_state: dict[str, Any] = {"profile": None, "exiting": False}


def attach() -> None:
    """Wait for torch."""
    if os.environ.get(VARIABLE):
        imports.after({"torch": _wait_for_training})


def _wait_for_training(torch: Any) -> None:
    """Not before: what launches processes must not have touched a device."""
    construct, backward = torch.optim.Optimizer.__init__, torch.autograd.backward

    def begin() -> None:
        torch.optim.Optimizer.__init__, torch.autograd.backward = construct, backward
        _begin()

    def constructing(this: Any, *args: Any, **kwargs: Any) -> None:
        begin()
        construct(this, *args, **kwargs)

    def first_backward(*args: Any, **kwargs: Any) -> None:
        begin()
        torch.autograd.backward(*args, **kwargs)

    torch.optim.Optimizer.__init__, torch.autograd.backward = constructing, first_backward


def _begin() -> None:
    from ...runtime import profile

    if _state["profile"] is not None:
        return
    asked = json.loads(os.environ[VARIABLE])
    if asked["graphs"]:
        _count_graphs(asked["graphs"])
    running = profile(
        asked["folder"],
        skip=asked["skip"],
        steps=asked["steps"],
        finished=lambda: _end_of_profile(asked),
    )
    _state["profile"] = running
    running.__enter__()
    at_exit(_leave)
    atexit.register(lambda: _state.update(exiting=True))  # first of these to run


def _count_graphs(folder: str) -> None:
    """Record why each graph is new, as verify does."""
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as metrics
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from ...verify.observe.device import counters, shapes
    from ...verify.observe.process import records, where

    records.open_in(folder)
    where.set_project(os.environ[PROJECT])
    counters.install(metrics)
    closures = xm._run_step_closures

    def then_note() -> Any:
        out = closures()
        shapes.after_mark()
        return out

    xm._run_step_closures = then_note
    register_optimizer_step_post_hook(lambda *_: records.write("stepped"))
    shapes.install()


def _leave() -> None:
    """The script ends before the steps are done."""
    _state["exiting"] = True
    _state["profile"].__exit__(None, None, None)


def _end_of_profile(asked: dict[str, Any]) -> None:
    """Report the finished profile, and end the script if that was requested."""
    folder = _state["profile"].folder
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, SUMMARY), "w", encoding="utf-8") as file:
        file.write(_state["profile"].summary() + "\n")
    if asked["stop"] and not _state["exiting"]:
        raise TrainingStopped
