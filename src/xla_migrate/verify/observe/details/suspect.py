"""One call of a module, looked at closely: the original stores its inputs, the migrated script is given them.

The operations inside are recorded on both sides. So a difference comes from the module itself, and the first operation
that differs is known.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from ..device.device_values import real_device
from ..plan import Suspect
from ..process import clock, records
from . import modules, operations, samples
from .quietly import off_mode

_load, _save = torch.load, torch.save  # before the script's are watched


class Watch:
    """Watches one call of a module."""

    def __init__(
        self, inside: modules.Recorder, recorder: operations.Recorder, asked: Suspect
    ) -> None:
        self.inside, self.recorder, self.asked = inside, recorder, asked
        self.events = 0
        self.is_done = False

    def around(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AbstractContextManager[Any]:
        """Return the context of a call that begins, which `inside` knows of."""
        name = self.inside.names.get(module, "")
        call = name, self.inside.times.get(name), self.events
        if self.is_done or call != (self.asked.name, self.asked.number, self.asked.event):
            return nullcontext()
        self.is_done = True
        if self.asked.folder:
            with clock.harness():
                off_mode(self._exchange, module, args, kwargs)
        return self.recorder if operations.can_record() else nullcontext()

    def step_over(self, event: int) -> None:
        """A step is over."""
        self.events = event + 1
        self.recorder.step_over(event)

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
