"""Which tensors are "on CUDA" in a run without CUDA.

All tensors of a redirected run are CPU tensors. What the script believes to be on its GPU carries a
mark, and the mark sits on the *memory* (the storage), as a device does: views, `detach()`, `.data`
and saved tensors share it without our help. Results of operations are new memory, so a
`TorchFunctionMode` passes the mark from the arguments on to them. The mark decides what `.device`
and `.is_cuda` answer, which reads are host reads, and which random numbers are device random
numbers; it never changes what is computed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..observe.process.patching import Patches

_MARK = "_xla_migrate_cuda"
_storage = torch._C.TensorBase.untyped_storage
# What CUDA's kernels give on the host, whatever they are given: the place of it among the results.
_ON_THE_HOST = {"_pack_padded_sequence": 1, "_pad_packed_sequence": 1}


def index_of(tensor: torch.Tensor) -> int | None:
    """Return the CUDA index that the tensor claims, or None if it claims none."""
    try:
        holder: Any = _storage(tensor)
    except RuntimeError:  # sparse, or inside of a transform: no storage
        inner = _transformed(tensor)
        if inner is not tensor:
            return index_of(inner)
        holder = tensor
    mark: int | None = getattr(holder, _MARK, None)
    return mark


def mark(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """Mark the tensor's memory as that of CUDA device `index`."""
    return _set(tensor, index)


def unmark(tensor: torch.Tensor) -> torch.Tensor:
    """Mark the tensor's memory as the host's."""
    return _set(tensor, None)


def mark_storage(storage: Any, index: int | None) -> Any:
    """Mark the storage as that of CUDA device `index`, or as the host's (None)."""
    setattr(storage, _MARK, index)
    return storage


def storage_index(storage: Any) -> int | None:
    """The CUDA index that the storage claims."""
    index: int | None = getattr(storage, _MARK, None)
    return index


def _set(tensor: torch.Tensor, index: int | None) -> torch.Tensor:
    try:
        mark_storage(_storage(tensor), index)
    except RuntimeError:
        inner = _transformed(tensor)
        if inner is tensor:
            setattr(tensor, _MARK, index)
        else:
            _set(inner, index)
    return tensor


def _transformed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor inside of one that `torch.func.vmap` or `grad` hands to its function; others as they are."""
    functorch = torch._C._functorch
    if functorch.is_functorch_wrapped_tensor(tensor):
        inner: torch.Tensor = functorch.get_unwrapped(tensor)
        return inner
    return tensor


def first_index(values: Iterable[Any]) -> int | None:
    """The index of the first marked tensor among arguments, lists of tensors included."""
    for value in values:
        if isinstance(value, torch.Tensor):
            index = index_of(value)
            if index is not None:
                return index
        elif isinstance(value, (list, tuple)):
            index = first_index(value)
            if index is not None:
                return index
    return None


class PassMarksOn(TorchFunctionMode):
    """Marks the result of every torch call that has a marked argument.

    A mode sees calls from Python only, with itself switched off inside: cheap (2 us a call), and
    enough, because inner results are either returned or forgotten.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call `func`; mark what comes out."""
        out = func(*args, **kwargs) if kwargs else func(*args)
        if isinstance(out, torch.Tensor):
            # In-place operations and out= do not move memory.
            if (args and out is args[0]) or (kwargs and out is kwargs.get("out")):
                return out
            outs: Iterable[Any] = (out,)
        elif isinstance(out, (tuple, list)) and out:
            host = _ON_THE_HOST.get(getattr(func, "__name__", ""))
            outs = out if host is None else (*out[:host], *out[host + 1 :])
        else:
            return out
        index = first_index(args)
        if index is None and kwargs:
            index = first_index(kwargs.values())
        if index is not None:
            for one in outs:
                if isinstance(one, torch.Tensor) and index_of(one) is None:
                    mark(one, index)
        return out


def _with_marks(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Pass marks on inside as well: `loss.backward()` is a torch function, the mode is off in it.

    Hooks, custom functions and recomputation run in there, and compare devices with the forward pass. `fn` is what
    runs the engine, not `torch.autograd.grad`: that hands itself, as it is found in its module, to every mode.
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with PassMarksOn():
            return fn(*args, **kwargs)

    return wrapped


def install(patches: Patches) -> None:
    """Pass marks on in this thread and in every thread started from now on (modes are per thread)."""
    mode = PassMarksOn()
    mode.__enter__()  # type: ignore[no-untyped-call]
    patches.on_undo(lambda: mode.__exit__(None, None, None))  # type: ignore[no-untyped-call]
    engine = "_engine_run_backward"
    patches.put(torch.autograd, engine, _with_marks(getattr(torch.autograd, engine)))
    bootstrap: Callable[[threading.Thread], None] = vars(threading.Thread)["_bootstrap_inner"]

    def bootstrap_with_marks(self: threading.Thread) -> None:
        with PassMarksOn():
            bootstrap(self)

    patches.put(threading.Thread, "_bootstrap_inner", bootstrap_with_marks)
