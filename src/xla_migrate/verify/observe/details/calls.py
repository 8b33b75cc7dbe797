"""Calls of modules in training, as they begin and end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..process.patching import Patches

Entered = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
Left = Callable[[Any, Any], None]

running: list[Any] = []  # the modules that are running, outermost first


def install(patches: Patches, entered: Sequence[Entered], left: Sequence[Left]) -> None:
    """Call each of `entered` with (module, args, kwargs) before and each of `left` with (module, output) after each call in training.

    Calls without gradients (evaluation, recomputation) and calls that are traced are left out.
    """
    original = torch.nn.Module.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or _is_traced():
            return original(self, *args, **kwargs)
        for listener in entered:
            listener(self, args, kwargs)
        running.append(self)
        try:
            output = original(self, *args, **kwargs)
        finally:
            running.pop()
        for ended in left:
            ended(self, output)
        return output

    patches.put(torch.nn.Module, "__call__", call)


def _is_traced() -> bool:
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
