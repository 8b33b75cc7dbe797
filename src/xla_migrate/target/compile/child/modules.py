"""Find the running module: the innermost forward pass of this thread."""

from __future__ import annotations

import threading
from typing import Any

import torch


class _Running(threading.local):
    def __init__(self) -> None:
        self.stack: list[torch.nn.Module] = []


_running = _Running()


def follow() -> None:
    """Note each forward pass from now on."""
    hooks: Any = torch.nn.modules.module
    hooks.register_module_forward_pre_hook(lambda module, inputs: _running.stack.append(module))
    hooks.register_module_forward_hook(_left, always_call=True)


def _left(module: torch.nn.Module, inputs: Any, output: Any) -> None:
    while _running.stack and _running.stack.pop() is not module:
        pass  # one that raised


def innermost() -> str:
    """Its path from the outermost module that runs, and its class: "encoder.pool (Pool)"; "" where none runs."""
    if not _running.stack:
        return ""
    first, last = _running.stack[0], _running.stack[-1]
    path = next((name for name, module in first.named_modules() if module is last), "")
    kind = type(last).__name__
    return f"{path} ({kind})" if path else kind
