"""Host reads: every place where the script fetches values from its device.

On CUDA such a read waits for the GPU; on XLA it cuts the graph. The same
functions are watched in both runs, so the migrated script can be held to what the original asked for.
One call counts once, whatever it reads inside. On XLA, transfers that no watched call explains are
found by the counters and reported as unattributed.
"""

from __future__ import annotations

import ctypes
import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from ..process import clock, where
from ..process.patching import Patches

_METHODS = (
    "item tolist __bool__ __float__ __int__ __index__ __complex__ __contains__ cpu numpy __array__"
    " __repr__ __str__ __format__ nonzero argwhere unique unique_consecutive masked_select bincount"
    " equal allclose is_nonzero"
).split()
_FUNCTIONS = (
    "nonzero argwhere unique unique_consecutive masked_select bincount equal allclose is_nonzero"
).split()

_sites: Counter[tuple[str, str]] = Counter()
_depth = 0


def on_device(value: Any) -> bool:
    """True if it is a tensor on the script's device."""
    return isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta")


def take() -> list[list[Any]]:
    """[[file:line, what, times], ...] since the last call."""
    out = [[place, what, n] for (place, what), n in _sites.items()]
    _sites.clear()
    return out


def _watched(fn: Callable[..., Any], what: str, reads: Callable[..., bool]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def watched(*args: Any, **kwargs: Any) -> Any:
        global _depth
        if _depth or clock.inside() or not reads(*args, **kwargs):
            return fn(*args, **kwargs)
        _sites[where.caller(), what] += 1
        _depth += 1
        try:
            return fn(*args, **kwargs)
        finally:
            _depth -= 1

    return watched


def _first(*args: Any, **kwargs: Any) -> bool:
    return any(on_device(a) and a.numel() > 0 for a in args[:1])  # an empty tensor has no values


def _to_host(self: Any, *args: Any, **kwargs: Any) -> bool:
    spec = kwargs.get("device", args[0] if args else None)
    if isinstance(spec, torch.Tensor):
        spec = spec.device
    kind = spec.type if isinstance(spec, torch.device) else str(spec).split(":")[0]
    return kind == "cpu" and on_device(self) and self.numel() > 0


def _copies_to_host(self: Any, source: Any, *args: Any, **kwargs: Any) -> bool:
    return on_device(source) and not on_device(self)


def _mask(self: Any, index: Any) -> bool:
    indices = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(i, torch.Tensor) and on_device(i) and (i.dtype == torch.bool or i.dim() == 0)
        for i in indices
    )


def _assigned_mask(self: Any, index: Any, value: Any) -> bool:
    # CUDA fills a mask with one number without looking at it; XLA reads the mask's size.
    if not isinstance(value, torch.Tensor) and on_device(self) and self.device.type == "cuda":
        return False
    return _mask(self, index)


def _sizes_from_data(*args: Any, **kwargs: Any) -> bool:
    repeats = args[1] if len(args) > 1 else kwargs.get("repeats")
    return on_device(repeats) and kwargs.get("output_size") is None


def _one_hot(tensor: Any, num_classes: int = -1) -> bool:
    return num_classes == -1 and on_device(tensor)


def _where(*args: Any, **kwargs: Any) -> bool:
    return len(args) + len(kwargs) == 1 and _first(*args)


def _always(*args: Any, **kwargs: Any) -> bool:
    """A checkpoint fetches all that it holds, on either side."""
    return True


def install(patches: Patches) -> None:
    """Watch the readers. Last of all patches, so that a call counts where the script makes it."""
    t = torch.Tensor
    _bool_index(patches)
    for name in _METHODS:
        what = name.strip("_") + ("()" if not name.startswith("__") else "")
        patches.put(t, name, _watched(getattr(t, name), _WORDS.get(name, what), _first))
    for name in _FUNCTIONS:
        patches.put(torch, name, _watched(getattr(torch, name), f"{name}()", _first))
    for owner, name, what, reads in (
        (t, "to", "to('cpu')", _to_host),
        (t, "copy_", "copy_() to the host", _copies_to_host),
        (t, "repeat_interleave", "repeat_interleave(tensor)", _sizes_from_data),
        (torch, "repeat_interleave", "repeat_interleave(tensor)", _sizes_from_data),
        (torch, "where", "where(condition)", _where),
        (torch.nn.functional, "one_hot", "one_hot() without num_classes", _one_hot),
        (torch, "save", "save()", _always),
    ):
        patches.put(owner, name, _watched(getattr(owner, name), what, reads))


_WORDS = {
    "__bool__": "truth value",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "index",
    "__contains__": "in",
    "__repr__": "print",
    "__str__": "print",
    "__format__": "format",
    "__array__": "numpy()",
}


def _bool_index(patches: Patches) -> None:
    t = torch.Tensor
    patches.on_undo(lambda: _be_no_sequence(t))  # CPython fills the slots as well when it goes
    patches.put(t, "__getitem__", _watched(t.__getitem__, "mask index", _mask))
    patches.put(t, "__setitem__", _watched(t.__setitem__, "mask assignment", _assigned_mask))
    _be_no_sequence(t)


def _be_no_sequence(cls: type) -> None:
    """`__getitem__` in Python makes tensors sequences to C: `torch.tensor([loss, 4])` then asks a number for its length.

    CPython fills two slots of the class with it, and by the one for sequences torch tells lists from numbers.
    """
    word = ctypes.sizeof(ctypes.c_void_p)
    methods = ctypes.c_void_p.from_address(id(cls) + object.__basicsize__ + 11 * word)
    if methods.value:
        ctypes.c_void_p.from_address(methods.value + 3 * word).value = None  # sq_item
    subclasses: list[type] = type.__subclasses__(cls)
    for derived in subclasses:
        if "__getitem__" not in vars(derived):
            _be_no_sequence(derived)
