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
    running = profile(
        asked["folder"], skip=asked["skip"], steps=asked["steps"], finished=lambda: _told(asked)
    )
    _state["profile"] = running
    running.__enter__()
    at_exit(_leave)
    atexit.register(lambda: _state.update(exiting=True))  # first of these to run


def _leave() -> None:
    """The script ends before the steps are done."""
    _state["exiting"] = True
    _state["profile"].__exit__(None, None, None)


def _told(asked: dict[str, Any]) -> None:
    """The profile has ended: say what was found, and end the script where that was asked for."""
    folder = _state["profile"].folder
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, SUMMARY), "w", encoding="utf-8") as file:
        file.write(_state["profile"].summary() + "\n")
    if asked["stop"] and not _state["exiting"]:
        raise TrainingStopped
