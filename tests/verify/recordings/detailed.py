"""One training step in this process, with the details that a recording holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from xla_migrate.verify.judge.details import READERS, Details
from xla_migrate.verify.observe.details import calls, modules, updates
from xla_migrate.verify.observe.process import records
from xla_migrate.verify.observe.process.patching import Patches

Training = Callable[[], tuple[torch.nn.Module, torch.optim.Optimizer, Callable[[], Any]]]


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        return given[0] * ctx.factor, None


def scaled(factor: float) -> Callable[[Any], Any]:
    """The same numbers; gradients times `factor`."""
    return lambda x: _Scaled.apply(x, factor)  # type: ignore[no-untyped-call]


def recorded(
    train: Callable[[], None],
    folder: Path,
    entered: list[calls.Entered],
    left: list[calls.Left],
    end: Callable[[], None],
    around: calls.Around = calls.nothing,
) -> Details:
    """The details that a training step's listeners record.

    Args:
        train: the step.
        folder: for the record.
        entered: called before each call of a module.
        left: called after it.
        end: called after the step.
        around: returns the context of a call.
    """
    folder.mkdir(parents=True, exist_ok=True)
    patches = Patches()
    patches.put(records, "_folder", folder)
    patches.put(records, "_file", None)
    calls.install(patches, entered, left, around)
    try:
        train()
        end()
    finally:
        patches.undo()
    out = Details()
    for file in folder.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            record: dict[str, Any] = json.loads(line)
            READERS[record.pop("kind")](out, record)
    return out


def details_of(train: Training, folder: Path, steps: int = 1) -> tuple[Details, list[str]]:
    """The details of some steps, read from the record, and the names of the parameters.

    Args:
        train: makes model, optimizer, and a function that computes the loss and its gradients.
        folder: for the record.
        steps: how many.
    """
    folder.mkdir(parents=True, exist_ok=True)
    patches = Patches()
    patches.put(records, "_folder", folder)
    patches.put(records, "_file", None)
    inside, update = modules.Recorder(), updates.Recorder()
    modules.watch_construction(patches)
    calls.install(patches, [inside.entered], [inside.left])
    try:
        model, optimizer, backward = train()
        for event in range(steps):
            optimizer.zero_grad()
            backward()
            with torch.no_grad():
                update.before_step(optimizer, event)
            optimizer.step()
            with torch.no_grad():
                update.after_step(optimizer, event)
            inside.step_over(event)
    finally:
        patches.undo()
    out = Details()
    for file in folder.glob("*.jsonl"):
        for line in file.read_text().splitlines():
            record: dict[str, Any] = json.loads(line)
            READERS[record.pop("kind")](out, record)
    own = {id(p): name for name, p in model.named_parameters()}
    return out, [own[id(p)] for group in optimizer.param_groups for p in group["params"]]
