"""One call of a module, looked at closely: the original stores its inputs, the migrated script is given them.

The results of its operations are recorded on both sides. So a difference comes from the module itself, and the first
operation that differs is known.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..device.device_values import real_device
from ..plan import Suspect
from ..process import clock, packing, records, where
from . import samples
from .fetching import fetch_later
from .modules import Recorder
from .quietly import off_mode

MOST = 2_000  # operations
_load, _save = torch.load, torch.save  # before the script's are watched


class Watch:
    """Watches one call of a module."""

    def __init__(self, recorder: Recorder, asked: Suspect) -> None:
        self.recorder, self.asked = recorder, asked  # the recorder sees each call first
        self.events = 0
        self.module: Any = None
        self.operations: _Operations | None = None

    def entered(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A call begins, which the recorder knows of."""
        if self.events != self.asked.event or self.operations is not None:
            return
        name = self.recorder.names.get(module, "")
        if (name, self.recorder.times.get(name)) != (self.asked.name, self.asked.number):
            return
        with clock.harness():
            off_mode(self._exchange, module, args, kwargs)
        self.module, self.operations = module, _Operations()
        self.operations.__enter__()  # type: ignore[no-untyped-call]

    def left(self, module: Any, output: Any) -> None:
        """A call has ended."""
        if self.operations is None or module is not self.module:
            return
        self.operations.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self.module = None
        with clock.harness():
            self.operations.note("output", output)

    def step_over(self, event: int) -> None:
        """Write the operations, once the step is over."""
        self.events = event + 1
        if event != self.asked.event or self.operations is None:
            return
        found = self.operations.found

        def write(values: list[float]) -> None:
            records.write(
                "operations",
                event=event,
                calls=found,
                width=samples.WIDTH,
                values=packing.pack(values),
            )

        fetch_later(self.operations.results, write)

    def _exchange(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = [t for _, t in (*samples.tensors_in(list(args)), *samples.tensors_in(kwargs))]
        tensors = [*given, *module.parameters(), *module.buffers()]
        file = Path(self.asked.folder) / f"rank{records.rank()}.pt"
        if not self.asked.is_given:
            _save([torch._C.TensorBase.cpu(t.detach()) for t in tensors], file)
            return
        stored = _load(file, map_location="cpu", weights_only=True)
        if [t.shape for t in tensors] != [t.shape for t in stored]:
            return
        for tensor, value in zip(tensors, stored, strict=True):
            with torch.autograd._unsafe_preserve_version_counter(tensor):  # type: ignore[attr-defined]
                tensor.detach().copy_(torch._C.TensorBase.to(value, real_device(tensor)))


class _Operations(TorchFunctionMode):
    """The functions of torch that are called, not those that they call."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[str]] = []  # [name, line]
        self.results: list[torch.Tensor] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not clock.inside():
            with clock.harness():
                self.note(getattr(func, "__name__", str(func)), out)
        return out

    def note(self, name: str, result: Any) -> None:
        """Note what an operation has returned."""
        tensors = [t for _, t in samples.tensors_in(result) if t.is_floating_point()]
        if tensors and len(self.found) < MOST:
            self.found.append([name, where.caller()])
            self.results.append(off_mode(samples.summary, tensors[0]))
