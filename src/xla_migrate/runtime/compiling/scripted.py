"""Functions of torch that are replaced, in what ``torch.jit.script`` compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def scripted_as(torchs: Any, ours: F) -> F:
    """``ours``, which a script takes for the operation that ``torchs`` is, if it is one.

    Without this ``torch.jit.script`` fails for functions that call it.
    """
    builtins: Any = torch.jit._builtins
    operation = builtins._find_builtin(torchs)
    if operation is not None:
        builtins._register_builtin(ours, operation)
    return ours
