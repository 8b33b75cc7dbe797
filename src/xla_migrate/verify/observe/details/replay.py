"""The initial weights and the first batches themselves: stored by the original's run, fed to the migrated script's.

So another initialisation, or another order of the data, does not hide if the training itself is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ..device.device_values import real_device
from ..process import clock, records
from ..training.names import bare
from . import calls, samples
from .modules import wrapped
from .quietly import off_mode

MOST_BYTES = 1 << 30  # of batches, in each process

notes: set[str] = set()
_load, _save = torch.load, torch.save  # before the script's are watched
State = dict[str, torch.Tensor]


class Store:
    """Writes the weights of each model before its first call in training, and the batches of the loaders."""

    def __init__(self, folder: Path, steps_done: Callable[[], int]) -> None:
        self.folder, self.steps_done = folder, steps_done
        self.seen: list[Any] = []
        self.bytes = 0
        self.complete = True  # so far, all batches are stored
        self.batches = self.models = self.steps = 0

    def entered(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Store the weights of a model that is called for the first time."""
        with clock.harness():
            state = _state_of_new(module, self.seen)
            if state and records.rank() == 0:
                _save({n: _on_host(t) for n, t in state.items()}, self.folder / _model(self.models))
                self.models += 1

    def drawn(self, loader: int, index: int, batch: Any) -> None:
        """Store a batch."""
        tensors = [t for _, t in samples.tensors_in(batch)]
        self.bytes += sum(t.numel() * t.element_size() for t in tensors)
        self.complete &= bool(tensors) and self.bytes <= MOST_BYTES
        self.complete &= all(real_device(t).type == "cpu" for t in tensors)
        if self.complete:
            found = [_on_host(t) for t in tensors]
            off_mode(_save, found, self.folder / _batch(records.rank(), loader, index))
            self.batches += 1

    def step_over(self, event: int) -> None:
        """Note up to which step all batches are stored."""
        if self.complete:
            self.steps = self.steps_done()

    def end(self) -> None:
        """Write how much is stored."""
        records.write("stored", models=self.models, batches=self.batches, steps=self.steps)


class Feed:
    """Sets models and batches to what was stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[Any] = []
        files = sorted(folder.glob(_model("*")), key=lambda f: int(f.suffixes[-2][1:]))
        self.states: list[State] = [_load(f, map_location="cpu", weights_only=True) for f in files]

    def entered(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Set the weights of a model that is called for the first time."""
        with clock.harness():
            state = _state_of_new(module, self.seen)
            if not state:
                return
            stored = next((one for one in self.states if _shapes(one) == _shapes(state)), None)
            if stored is None:
                notes.add(
                    f"the weights of {type(module).__name__} were not recorded in these shapes"
                )
                return
            self.states = [one for one in self.states if one is not stored]
            off_mode(_set, state, stored)

    def drawn(self, loader: int, index: int, batch: Any) -> None:
        """Replace the tensors of a batch."""
        file = self.folder / _batch(records.rank(), loader, index)
        if not file.is_file():
            return  # drawn ahead, after the last recorded one
        stored = _load(file, map_location="cpu", weights_only=True)
        tensors = [t for _, t in samples.tensors_in(batch)]
        if [t.dtype for t in tensors] != [t.dtype for t in stored]:
            notes.add(f"batch {index + 1} holds other tensors than the recorded one")
            return
        for tensor, value in zip(tensors, stored, strict=True):
            tensor.data = value


def _state_of_new(module: Any, seen: list[Any]) -> State:
    """Return the parameters and buffers of an outermost module that was not called before."""
    if calls.running or any(module is one for one in seen):
        return {}
    seen.append(module)
    while (inner := wrapped(module)) is not None:
        module = inner
    named = (*module.named_parameters(), *module.named_buffers())
    return {bare(name): tensor for name, tensor in named if not is_lazy(tensor)}


def _shapes(state: State) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in state.items()}


def _set(state: State, stored: State) -> None:
    for name, tensor in state.items():
        tensor.detach().copy_(torch._C.TensorBase.to(stored[name], real_device(tensor)))


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a separate copy: a batch may be a view of the whole data."""
    return off_mode(lambda: torch._C.TensorBase.cpu(tensor.detach()).clone())  # type: ignore[no-any-return]


def _model(number: int | str) -> str:
    return f"model.{number}.pt"


def _batch(rank: int, loader: int, index: int) -> str:
    return f"rank{rank}.loader{loader}.batch{index}.pt"
