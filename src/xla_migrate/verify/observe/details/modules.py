"""Inputs, outputs and gradients of each module's call in a step.

A tensor that one module returns and the next one takes is summarised once. Gradients come from hooks on the
tensors: unlike backward hooks of modules, they leave the graph and in-place operations alone.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ..process import clock, packing, records, where
from ..process.patching import Patches
from ..training.names import bare
from . import calls, samples
from .fetching import fetch_later
from .numbered import Numbered
from .quietly import off_mode

MOST_CALLS = 2_000  # of a step
MOST_OF_A_MODULE = 4
MOST_TENSORS = 2  # of the inputs, or of the outputs, of a call

_BUILT = "_xla_migrate_built"  # of a module: the line that made it
_WRAPPED = ("module", "_orig_mod")


class Recorder:
    """The calls of the step that is running."""

    def __init__(self) -> None:
        self.active = True
        self.names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._begin()

    def _begin(self) -> None:
        self.calls: list[list[Any]] = []  # [name, class, line, number of the call around it]
        self.stack: list[int] = []
        self.times: dict[str, int] = {}
        self.uses: list[list[int]] = []  # [call, 0 for an input or 1 for an output, place, tensor]
        self.numbered = Numbered()
        self.tensors: list[torch.Tensor] = []
        self.backward: list[int] = []
        self.gradients: list[torch.Tensor] = []

    def entered(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call begins."""
        if not self.active:
            return
        with clock.harness():
            self.stack.append(self._call(module))
            if self.stack[-1] >= 0:
                given = [*samples.tensors_in(list(args)), *samples.tensors_in(kwargs)]
                self._use(self.stack[-1], 0, [t for _, t in given])

    def left(self, module: Any, output: Any) -> None:
        """A call ends."""
        if not self.active or not self.stack:
            return
        with clock.harness():
            while len(self.stack) > len(calls.running) + 1:  # calls that raised
                self.stack.pop()
            number = self.stack.pop()
            if number >= 0:
                self._use(number, 1, [t for _, t in samples.tensors_in(output)])

    def current(self) -> int:
        """Return the number of the call that is running, or -1."""
        return self.stack[-1] if self.stack else -1

    def _call(self, module: Any) -> int:
        """Return the number of a new call, or -1 if there are enough."""
        if not calls.running:
            self._name_all(module)
        while len(self.stack) > len(calls.running):
            self.stack.pop()
        name = self.names.get(module, type(module).__name__)
        self.times[name] = self.times.get(name, 0) + 1
        if len(self.calls) >= MOST_CALLS or self.times[name] > MOST_OF_A_MODULE:
            return -1
        around = next((n for n in reversed(self.stack) if n >= 0), -1)
        kind, line = type(module).__name__, module.__dict__.get(_BUILT, "")
        self.calls.append([name, kind, line, around])
        return len(self.calls) - 1

    def _name_all(self, root: Any) -> None:
        """Name the modules of a model as its state dict does, whatever wraps the model."""
        while (inner := wrapped(root)) is not None:
            self.names[root] = ""
            root = inner
        kind = type(root).__name__
        if root not in self.names:
            for name, module in root.named_modules():
                self.names[module] = f"{kind}:{bare(name)}" if name else kind

    def _use(self, call: int, side: int, tensors: list[torch.Tensor]) -> None:
        for place, tensor in enumerate(tensors[:MOST_TENSORS]):
            self.uses.append([call, side, place, self._number(tensor)])

    def _number(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor as it is now; a new one is summarised and watched."""
        known = self.numbered.find(tensor)
        if known is not None:
            return known
        number = len(self.tensors)
        self.tensors.append(off_mode(samples.summary, tensor))
        self.numbered.put(tensor, number)
        if tensor.requires_grad:
            tensor.register_hook(self._gradient_hook(number))  # type: ignore[no-untyped-call]
        return number

    def _gradient_hook(self, number: int) -> Any:
        owner = self.tensors  # of this step

        def hook(gradient: torch.Tensor | None) -> None:
            # None for an output that is not used, of a function that leaves such gradients out (cuDNN's LSTM).
            if self.active and self.tensors is owner and gradient is not None:
                with clock.harness():
                    self.backward.append(number)
                    self.gradients.append(off_mode(samples.summary, gradient))

        return hook

    def step_over(self, event: int) -> None:
        """Write the calls of the step that is over."""
        found, uses, backward = self.calls, self.uses, self.backward
        tensors, gradients = self.tensors, self.gradients
        self._begin()
        if not found or not self.active:
            return
        middle = len(tensors) * samples.WIDTH

        def write(values: list[float]) -> None:
            records.write(
                "modules",
                event=event,
                width=samples.WIDTH,
                calls=found,
                uses=uses,
                backward=backward,
                tensors=packing.pack(values[:middle]),
                gradients=packing.pack(values[middle:]),
            )

        fetch_later([*tensors, *gradients], write)


def wrapped(root: Any) -> Any:
    """Return the module that DDP or torch.compile wraps, or None."""
    children = dict(root.named_children())
    only = next(iter(children), "") if len(children) == 1 else ""
    own = type(root).__module__.startswith(("torch.nn.parallel", "torch._dynamo", "xla_migrate"))
    return children[only] if only in _WRAPPED and own else None


def watch_construction(patches: Patches) -> None:
    """Note for each module the line of the project that made it."""
    init = torch.nn.Module.__init__

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.__dict__.setdefault(_BUILT, where.caller())

    patches.put(torch.nn.Module, "__init__", construct)
