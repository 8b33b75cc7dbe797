"""Factory functions with `device="cuda"`: `torch.zeros(..., device=...)` and all its siblings.

Every public torch function with a `device` argument is wrapped; which ones those are is read off
the operator schemas, not listed. The wrapped function computes on the CPU and marks its result.
Layers built with `device="cuda"` and modules under `with torch.device("cuda"):` come here too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device as default_device

from ..observe.process.patching import Patches
from .devices import cuda_index, device, state
from .marks import index_of, mark, unmark
from .tensors import move, pin

_KEEP_INPUT = ("as_tensor", "asarray")  # these share memory with their input if they can
_NOT_IN_SCHEMAS = ("asarray",)


def _names(module: Any, prefix: str = "") -> list[str]:
    found = []
    for name in dir(module):
        if name.startswith("_") or not callable(getattr(module, name)):
            continue
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{name}")
        if any(a.name == "device" for schema in schemas for a in schema.arguments):
            found.append(name)
    return found


def factories() -> list[tuple[Any, str]]:
    """All (module, function name) with a device argument."""
    out = [(torch, name) for name in (*_names(torch), *_NOT_IN_SCHEMAS)]
    out += [(torch.fft, name) for name in _names(torch.fft, "fft_")]
    return [*out, (torch.nested, "nested_tensor"), (torch.nested, "as_nested_tensor")]


def on_cuda(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with a device argument that accepts CUDA devices."""
    keeps_input = fn.__name__ in _KEEP_INPUT

    @functools.wraps(fn)
    def factory(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        pinned = bool(kwargs.pop("pin_memory", False))  # needs a driver, as tensors.pin_memory
        if device is None and not any(isinstance(a, torch.Tensor) for a in args):
            device = state.default
        index = cuda_index(device)
        if device is not None and index is None:
            kwargs["device"] = device
        out = fn(*args, **kwargs)
        if device is not None and isinstance(out, torch.Tensor):
            if keeps_input:
                return move(out, index)
            if index is not None:
                return mark(out, index)
            if index_of(out) is not None:  # zeros_like(cuda_tensor, device="cpu")
                unmark(out)
        if pinned:
            pin(out)
        return out

    return factory


def install(patches: Patches) -> None:
    """Wrap the factories and the default-device machinery."""
    constructors = default_device._device_constructors()  # cached here with torch's own functions
    for module, name in factories():
        patches.put(module, name, on_cuda(getattr(module, name)))
    _defaults(patches, constructors)


def _forget_default() -> None:
    """No default device, as at the start; after `set_default_device(None)` torch's `get_default_device` fails."""
    torch.set_default_device(None)
    vars(torch._GLOBAL_DEVICE_CONTEXT).pop("device_context", None)


def _defaults(patches: Patches, constructors: set[Any]) -> None:
    """`torch.set_default_device("cuda")`, `with torch.device("cuda")`, default tensor types."""
    context = default_device.DeviceContext
    set_default, get_default = torch.set_default_device, torch.get_default_device
    set_type = torch.set_default_tensor_type

    def function(
        self: Any, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in constructors or kwargs.get("device") is not None:
            return func(*args, **kwargs)
        index = cuda_index(self.device)
        if index is None:
            return func(*args, **{**kwargs, "device": self.device})
        out = func(*args, **kwargs)
        return move(out, index) if func.__name__ in _KEEP_INPUT else mark(out, index)

    def set_default_device(spec: Any) -> None:
        index = cuda_index(spec)
        set_default(None if index is not None else spec)
        state.default = None if index is None else device(index)

    def get_default_device() -> torch.device:
        return state.default if state.default is not None else get_default()

    def set_default_tensor_type(t: Any) -> None:
        name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
        plain = name.replace("torch.cuda.", "torch.", 1)
        state.default = device(state.current) if plain != name else None
        set_type(plain)

    patches.put(context, "__torch_function__", function)
    patches.put(torch, "set_default_device", set_default_device)
    patches.put(torch, "get_default_device", get_default_device)
    patches.put(torch, "set_default_tensor_type", set_default_tensor_type)
    patches.on_undo(lambda: setattr(state, "default", None))
    patches.on_undo(_forget_default)
