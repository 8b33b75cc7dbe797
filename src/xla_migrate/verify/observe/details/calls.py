"""Calls of modules in training, as they begin and end."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from ..process.patching import Patches

Entered = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
Left = Callable[[Any, Any], None]
Around = Callable[[Any, tuple[Any, ...], dict[str, Any]], AbstractContextManager[Any]]

running: list[Any] = []  # the modules that are running, outermost first


def nothing(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a context that changes nothing."""
    return nullcontext()


def install(
    patches: Patches,
    entered: Sequence[Entered],
    left: Sequence[Left],
    around: Around = nothing,
) -> None:
    """Watch each call of a module in training.

    Calls without gradients (evaluation, recomputation) and calls that are traced are left out.

    Args:
        patches: what is changed here is taken back by them.
        entered: are called with (module, args, kwargs) before the call.
        left: are called with (module, output) after it, unless it raises.
        around: returns the context that the call runs in; called after `entered`.
    """
    original = torch.nn.Module.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or _is_traced():
            return original(self, *args, **kwargs)
        for listener in entered:
            listener(self, args, kwargs)
        context = around(self, args, kwargs)
        running.append(self)
        try:
            with context:
                output = original(self, *args, **kwargs)
        finally:
            running.pop()
        for ended in left:
            ended(self, output)
        return output

    patches.put(torch.nn.Module, "__call__", call)


def _is_traced() -> bool:
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
