"""XLA_MIGRATE_DEBUG=1: the checks that CUDA makes and XLA does not.

XLA clamps indices that are out of range, and uploads CPU operands at every call, both silently
(fact 3.4, 3.5); CUDA raises. The checks read indices back from the device, so training is
slow while they run. They see what runs in the thread that asked for the device first.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_leaves

_watching: _Watch | None = None

# What CUDA lets take a CPU tensor beside one on the device.
_MAY_MIX = {
    Tensor.to,
    Tensor.copy_,
    Tensor.type_as,
    Tensor.__getitem__,
    Tensor.__setitem__,
}


def watch() -> None:
    """Check every call of torch that this thread makes from now on."""
    global _watching
    if _watching is None:
        _watching = _Watch()
        _watching.__enter__()  # type: ignore[no-untyped-call]


class _Watch(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not any(tensor.device.type == "xla" for tensor in tensors):
            return func(*args, **kwargs)
        if func in _INDEXED:
            _check_indices(func, _INDEXED[func](*args, **kwargs))
        result = func(*args, **kwargs)
        if any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
            _check_operands(func, tensors)
        return result


def _check_operands(func: Any, tensors: list[Tensor]) -> None:
    stray = next((t for t in tensors if t.device.type == "cpu" and t.dim() > 0), None)
    if stray is None or func in _MAY_MIX:
        return
    filename, line = _caller()
    message = f"{_name(func)} takes a CPU tensor of shape {tuple(stray.shape)} together with XLA tensors. torch_xla uploads it at every call, and CUDA would raise an exception: move it to the device once"
    warnings.warn_explicit(message, UserWarning, filename, line)


def _check_indices(func: Any, indices: Iterable[tuple[Tensor, int]]) -> None:
    for index, size in indices:
        if index.numel() == 0 or index.dtype.is_floating_point or index.dtype is torch.bool:
            continue
        low, high = int(index.min()), int(index.max())
        if low < -size or high >= size or (low < 0 and func is not Tensor.__getitem__):
            filename, line = _caller()
            raise IndexError(
                f"{filename}:{line}: {_name(func)}: index {high if high >= size else low} is out of "
                f"range for size {size}; XLA would clamp it"
            )


def _of_embedding(
    input: Tensor, weight: Tensor, *_: Any, **__: Any
) -> Iterator[tuple[Tensor, int]]:
    yield input, weight.shape[0]


def _of_classes(
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    *_: Any,
    **__: Any,
) -> Iterator[tuple[Tensor, int]]:
    if not target.dtype.is_floating_point:
        kept = torch.where(target == ignore_index, 0, target)
        yield kept, input.shape[1 if input.dim() > 1 else 0]


def _along_dim(
    input: Tensor, dim: int, index: Tensor, *_: Any, **__: Any
) -> Iterator[tuple[Tensor, int]]:
    yield index, input.shape[dim]


def _of_item(input: Tensor, index: Any) -> Iterator[tuple[Tensor, int]]:
    """Integer tensors among the indices, up to the first that is not one dimension for one."""
    positions = index if isinstance(index, tuple) else (index,)
    for dim, position in enumerate(positions):
        if position is None or position is Ellipsis or getattr(position, "dtype", 0) is torch.bool:
            return
        if isinstance(position, Tensor):
            yield position, input.shape[dim]


_INDEXED: dict[Any, Callable[..., Iterator[tuple[Tensor, int]]]] = {
    functional.embedding: _of_embedding,
    functional.cross_entropy: _of_classes,
    functional.nll_loss: _of_classes,
    torch.gather: _along_dim,
    Tensor.gather: _along_dim,
    torch.index_select: _along_dim,
    Tensor.index_select: _along_dim,
    Tensor.__getitem__: _of_item,
}


def _name(func: Any) -> str:
    return str(resolve_name(func) or getattr(func, "__name__", func))


def _caller() -> tuple[str, int]:
    """The line of the user's that led here."""
    inside = tuple(os.path.dirname(path) + os.sep for path in (torch.__file__, __file__))
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
