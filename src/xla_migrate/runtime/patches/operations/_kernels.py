"""Kernels of ours for operations of torch, before torch_xla's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

# The libraries of each module: their kernels are in place as long as they are.
_kept: dict[str, list[Any]] = {}


def put(
    module: str,
    kernels: Mapping[Any, Callable[..., Any]],
    *keys: str,
    with_keyset: bool = False,
) -> None:
    """Put kernels before those that are registered.

    Args:
        module: the patch that they belong to, its `__name__`.
        kernels: by the operation, or by its name and overload.
        keys: dispatch keys: "XLA", or "AutogradXLA" for what autograd does not record itself.
        with_keyset: kernels take the dispatch keys as their first argument, to call the kernel that they replace.
    """
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    _kept.setdefault(module, []).append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that others are overridden
        for operation, kernel in kernels.items():
            for key in keys:
                library.impl(operation, kernel, key, with_keyset=with_keyset)


def original(name: str) -> Callable[..., Any]:
    """Return torch_xla's kernel of that name, called with the dispatch keys first. Asked before ours is put."""
    kernel: Any = torch.library.get_kernel(f"aten::{name}", "XLA")
    return kernel.call_boxed  # type: ignore[no-any-return]


def take_back(module: str) -> None:
    """Remove the kernels of a patch, so that those before them are in place again."""
    for library in _kept.pop(module, ()):
        library._destroy()
