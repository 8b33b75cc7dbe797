"""In the script's process: when each step ended, its loss and how many samples it took.

Nothing is read from the device before the last step. Losses are kept as tensors until then.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

from ...verify.observe.process import imports
from ...verify.observe.process.stop import TrainingStopped
from ...verify.observe.start import at_exit

VARIABLE = "XLA_MIGRATE_TUNE"
_began = time.time()


def attach() -> None:
    """Wait for torch."""
    if os.environ.get(VARIABLE):
        random.seed(0)
        imports.after({"numpy": lambda numpy: numpy.random.seed(0), "torch": _watch})


class _Watch:
    def __init__(self, told: dict[str, Any]) -> None:
        self.path, self.stop_after = told["path"], told["steps"]
        self.ends: list[float] = []
        self.samples: list[int] = []
        self.losses: list[Any] = []
        self.compiled: list[float] = []
        self.first_step = 0.0
        self.primary: Any = None
        self.loss: Any = None
        self.seen = 0
        self.fresh = True
        self.written = False

    def forward(self, module: Any, args: Any, kwargs: Any) -> None:
        """The first module that is called for a backward pass has the batch among its arguments."""
        import torch

        if not (self.fresh and module.training and torch.is_grad_enabled()):
            return
        from torch.utils._pytree import tree_leaves

        leaves = tree_leaves((args, kwargs))
        batch = next((x for x in leaves if isinstance(x, torch.Tensor) and x.dim() > 0), None)
        if batch is not None:
            self.fresh = False
            self.seen += int(batch.shape[0])

    def backward(self, roots: Any) -> None:
        """Its losses are summed, over the micro-batches of a step too."""
        import torch

        self.fresh = True
        with torch.no_grad():
            for root in [roots] if isinstance(roots, torch.Tensor) else roots:
                value = root.detach().float()
                value = value if value.dim() == 0 else value.sum()
                self.loss = value if self.loss is None else self.loss + value

    def step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Steps of the first optimizer to step count."""
        if self.primary is None:
            self.primary = optimizer
        if self.primary is not optimizer:
            return
        if len(self.ends) == 1:  # the first step is compiled and launched by the mark behind it
            self.first_step = time.time() - _began
        self.ends.append(time.perf_counter())
        self.compiled.append(_compiling())
        self.samples.append(self.seen)
        self.losses.append(self.loss)
        self.seen, self.loss = 0, None
        if len(self.ends) == self.stop_after:
            self.write()
            raise TrainingStopped

    def write(self) -> None:
        """Once: what was seen."""
        if self.written or not self.ends:
            return
        self.written = True
        from ...runtime import _tuned, device_name, synchronize

        synchronize()
        losses = [None if loss is None else float(loss) for loss in self.losses]
        told = {"ends": self.ends, "samples": self.samples, "losses": losses}
        told |= {"compiling": self.compiled, "first_step": self.first_step}
        told |= {"device": device_name(), "used": sorted(_tuned.used)}
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(told, file)


def _compiling() -> float:
    met = sys.modules.get("torch_xla.debug.metrics")
    data = met.metric_data("CompileTime") if met is not None else None
    return float(data[1]) * 1e-9 if data else 0.0


def _watch(torch: Any) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    told = json.loads(os.environ[VARIABLE])
    watch = _Watch(told)
    torch.manual_seed(0)
    if told["dropout"]:
        from ...verify.observe.numerics import dropout
        from ...verify.observe.process.patching import Patches

        dropout.install(Patches(), told["dropout"])
    register_optimizer_step_post_hook(watch.step)
    call = torch.nn.Module.__call__

    def called(module: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.fresh:
            watch.forward(module, args, kwargs)
        return call(module, *args, **kwargs)

    torch.nn.Module.__call__ = called
    backward = torch.autograd.backward

    def noted(tensors: Any, *args: Any, **kwargs: Any) -> None:
        watch.backward(tensors)
        backward(tensors, *args, **kwargs)

    torch.autograd.backward = noted
    at_exit(watch.write)
