"""Results of torch's functions inside modules, their gradients, and the functions that take them.

Recorded are the functions that are called, not those that they call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..plan import INPUT
from ..process import clock, packing, records, where
from ..process.patching import Patches
from . import calls, modules, samples
from .fetching import fetch_later
from .numbered import Numbered
from .quietly import off_mode

MOST = 4_000  # results of a step
MOST_RESULTS = 4  # of one call
WIDTH = 3 + 16  # norm, largest, mean, and values at fixed indices

_compiled: list[Any] = []  # what `torch.compile` was called with


def note_compilation(patches: Patches) -> None:
    """From now on, note calls of `torch.compile`: compiled code must not see another mode."""
    original = torch.compile

    def compile(*args: Any, **kwargs: Any) -> Any:
        _compiled.append(args[:1])
        return original(*args, **kwargs)

    patches.put(torch, "compile", compile)


def can_record() -> bool:
    """Return False if parts of the script are compiled, which calls no functions of torch."""
    return not _compiled


class Recorder(TorchFunctionMode):
    """The operations of the step that is running; it records while it is entered."""

    def __init__(self, inside: modules.Recorder) -> None:
        super().__init__()
        self.inside = inside  # knows the module that is running
        self._begin()

    def _begin(self) -> None:
        self.numbered = Numbered()
        self.calls: list[list[Any]] = []  # as `judge.details.Operation` names the fields
        self.results: list[torch.Tensor] = []
        self.backward: list[int] = []
        self.gradients: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if clock.inside():
            return func(*args, **(kwargs or {}))
        with clock.harness():
            takes = self._takes(args, kwargs or {})  # now: the function may change it
        out = func(*args, **(kwargs or {}))
        with clock.harness():
            self._note(getattr(func, "__name__", str(func)), takes, out)
        return out

    def _takes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int | str]:
        given = [t for _, t in (*samples.tensors_in(list(args)), *samples.tensors_in(kwargs))]
        return [name for name in map(self._name, given) if name is not None]

    def _name(self, tensor: torch.Tensor) -> int | str | None:
        number = self.numbered.find(tensor)
        if number is not None:
            return number
        if self.inside.numbered.find(tensor) is not None:
            return INPUT
        own = calls.running[-1]._parameters if calls.running else {}
        return next((name for name, p in own.items() if p is tensor), None)

    def _note(self, name: str, takes: list[int | str], result: Any) -> None:
        tensors = [t for _, t in samples.tensors_in(result) if t.is_floating_point()]
        for tensor in tensors[:MOST_RESULTS]:
            if len(self.calls) >= MOST:
                return
            number = len(self.calls)
            self.numbered.put(tensor, number)
            self.calls.append(
                [name, where.caller(), self.inside.current(), takes, tensor.requires_grad]
            )
            self.results.append(off_mode(_brief, tensor))
            if tensor.requires_grad:
                tensor.register_hook(self._gradient_hook(number))  # type: ignore[no-untyped-call]

    def _gradient_hook(self, number: int) -> Any:
        owner = self.results  # of this step

        def hook(gradient: torch.Tensor | None) -> None:
            if self.results is owner and gradient is not None:
                with clock.harness():
                    self.backward.append(number)
                    self.gradients.append(off_mode(_brief, gradient))

        return hook

    def step_over(self, event: int) -> None:
        """Write the operations of the step that is over."""
        found, backward = self.calls, self.backward
        results, gradients = self.results, self.gradients
        self._begin()
        if not found:
            return
        middle = len(results) * WIDTH

        def write(values: list[float]) -> None:
            records.write(
                "operations",
                event=event,
                width=WIDTH,
                calls=found,
                backward=backward,
                results=packing.pack(values[:middle]),
                gradients=packing.pack(values[middle:]),
            )

        fetch_later([*results, *gradients], write)


def _brief(tensor: torch.Tensor) -> torch.Tensor:
    return samples.summary(tensor)[:WIDTH]
