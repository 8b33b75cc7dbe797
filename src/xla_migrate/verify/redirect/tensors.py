"""`torch.Tensor` as a CUDA script sees it: `.cuda()`, `.to(...)`, `.device`, `.is_cuda`, `new_*`, types.

Where CUDA would copy, a copy is made (`x.cuda()` and `x` never share memory), so that in-place
updates have the same effect as on the GPU. `nn.Module.to/cuda/cpu/to_empty` need nothing of their
own: they call these methods per parameter and, as on CUDA, keep the Parameter objects and their ties
(on XLA they do not: facts 3.1, 3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..observe.process.patching import Patches
from .devices import cuda_index, device, is_spec, state
from .marks import index_of, mark, mark_storage, unmark

_base: Any = torch._C.TensorBase
_PINNED = "_xla_migrate_pinned"


def is_cpu_spec(spec: Any) -> bool:
    """True if `spec` names the host."""
    return (isinstance(spec, str) and spec.split(":")[0] == "cpu") or (
        isinstance(spec, torch.device) and spec.type == "cpu"
    )


def plain() -> Any:
    """Torch functions without modes: torch hands modes the *patched* method, which would recurse."""
    return torch._C.DisableTorchFunction()  # type: ignore[no-untyped-call]


def move(
    tensor: torch.Tensor,
    index: int | None,
    dtype: torch.dtype | None = None,
    *,
    copy: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """The tensor on CUDA `index` or on the host (None); a copy where the device changes."""
    before = index_of(tensor)
    dtype = tensor.dtype if dtype is None else dtype
    with plain():
        if _base.device.__get__(tensor).type != "cpu":  # meta: raises as on a GPU
            return _base.to(tensor, "cpu", dtype)  # type: ignore[no-any-return]
        out: torch.Tensor = _base.to(tensor, dtype, copy=copy, memory_format=memory_format)
        if out is tensor and before != index:
            out = _base.to(tensor, dtype, copy=True, memory_format=memory_format)
    if index is None:
        return out if before is None else unmark(out)
    return mark(out, index)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The device and the other arguments of `.to()`, in any of its spellings."""
    given = dict(kwargs)
    rest: tuple[Any, ...] = args
    names: tuple[str, ...] = ("non_blocking", "copy")
    if args and (args[0] is None or is_spec(args[0])):
        given["device"], rest = args[0], args[1:]
        names = ("dtype", *names)
    elif args and isinstance(args[0], torch.dtype):
        given["dtype"], rest = args[0], args[1:]
    elif args and isinstance(args[0], torch.Tensor):
        given["other"], rest = args[0], args[1:]
    given.update(zip(names, rest, strict=False))
    given.pop("non_blocking", None)
    if "other" in given:
        other = given.pop("other")
        given["device"], given["dtype"] = other.device, other.dtype
    return given.pop("device", None), given


def _to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    spec, rest = _arguments(args, kwargs)
    index = cuda_index(spec)
    if index is None and spec is not None and not is_cpu_spec(spec):
        with plain():
            return _base.to(self, spec, **rest)  # type: ignore[no-any-return]
    if spec is None:
        index = index_of(self)
        if index is None:
            with plain():
                return _base.to(self, **{"dtype": self.dtype, **rest})  # type: ignore[no-any-return]
    return move(self, index, **rest)


def _cuda(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    index = cuda_index("cuda" if device is None else device)
    if index is None:
        raise RuntimeError(f"Invalid device, must be cuda device: {device}")
    return move(self, index, memory_format=memory_format)


def _cpu(
    self: torch.Tensor, memory_format: torch.memory_format = torch.preserve_format
) -> torch.Tensor:
    return move(self, None, memory_format=memory_format)


def _device(self: torch.Tensor) -> torch.device:
    index = index_of(self)
    if index is not None:
        return device(index)
    with plain():
        return _base.device.__get__(self)  # type: ignore[no-any-return]


def _is_cuda(self: torch.Tensor) -> bool:
    return index_of(self) is not None


def _is_cpu(self: torch.Tensor) -> bool:
    with plain():
        return index_of(self) is None and bool(_base.is_cpu.__get__(self))


def _get_device(self: torch.Tensor) -> int:
    index = index_of(self)
    with plain():
        return _base.get_device(self) if index is None else index


def _type(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    index = index_of(self)
    if dtype is None:
        with plain():
            name: str = _base.type(self)
        return name if index is None else name.replace("torch.", "torch.cuda.", 1)
    if isinstance(dtype, torch.dtype):
        return move(self, index, dtype)
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    scalar = getattr(torch, name.rpartition(".")[2], None)
    if scalar is None or not hasattr(scalar, "dtype"):
        with plain():
            return _base.type(self, dtype)
    return move(self, state.current if name.startswith("torch.cuda.") else None, scalar.dtype)


def _type_as(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return move(self, index_of(other), other.dtype)


def _pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    # Real pinned memory needs a driver; what a script can observe of it is a
    # copy that says is_pinned().
    if index_of(self) is not None:
        raise RuntimeError(f"cannot pin '{_type(self)}' only dense CPU tensors can be pinned")
    if _is_pinned(self):
        return self
    return pin(self.detach().clone())


def pin(tensor: torch.Tensor) -> torch.Tensor:
    """Mark the tensor's memory as pinned."""
    setattr(tensor.untyped_storage(), _PINNED, True)
    return tensor


def _is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    return getattr(self.untyped_storage(), _PINNED, False) is True


def _record_stream(self: torch.Tensor, stream: Any) -> None:
    """Do nothing: the CPU frees no memory asynchronously."""


def _new(self: torch.Tensor, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
    index = index_of(self) if device is None else cuda_index(device)
    with plain():
        out: torch.Tensor = _base.new(self, *args, **kwargs)
    return out if index is None else mark(out, index)


def factory_method(base: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A `tensor.new_*` that accepts CUDA devices; without a device, the tensor's own."""

    def method(self: torch.Tensor, *args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
        kwargs.pop("pin_memory", None)
        index = index_of(self) if device is None else cuda_index(device)
        if device is not None and index is None:
            kwargs["device"] = device
        with plain():
            out = base(self, *args, **kwargs)
        return out if index is None else mark(out, index)

    method.__name__ = base.__name__
    return method


NEW_METHODS = (
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_tensor",
    "new_zeros",
)


def install(patches: Patches) -> None:
    """Put the CUDA-like methods and properties on torch.Tensor."""
    for name, method in {
        "to": _to,
        "cuda": _cuda,
        "cpu": _cpu,
        "device": property(_device),
        "is_cuda": property(_is_cuda),
        "is_cpu": property(_is_cpu),
        "get_device": _get_device,
        "type": _type,
        "type_as": _type_as,
        "pin_memory": _pin_memory,
        "is_pinned": _is_pinned,
        "record_stream": _record_stream,
        "new": _new,
        **{name: factory_method(getattr(_base, name)) for name in NEW_METHODS},
    }.items():
        patches.put(torch.Tensor, name, method)
    _storages(patches)


def _storages(patches: Patches) -> None:
    """`storage.cuda()` in `torch.load(map_location=lambda storage, loc: storage.cuda(0))`."""

    def cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        out = self.clone()
        return mark_storage(out, cuda_index("cuda" if device is None else device))

    patches.put(torch.UntypedStorage, "cuda", cuda)
