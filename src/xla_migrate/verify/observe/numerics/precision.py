"""Run a script in another precision than it uses, without changing it.

The float32 criterion wants both sides in float32; the bf16 criterion R = |target - fp32| / |bf16 -
fp32| wants the reference three times. "float32" turns autocast off and lower casts into none;
"bfloat16" turns float16 into bfloat16, which is what the migrated script runs in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..process import clock, where
from ..process.patching import Patches

CHOICES = ("as written", "float32", "bfloat16")
_MAPS = {
    "float32": {torch.float16: torch.float32, torch.bfloat16: torch.float32},
    "bfloat16": {torch.float16: torch.bfloat16},
}
_HALVES = (torch.float16, torch.bfloat16)
_FACTORIES = (
    "arange asarray as_tensor empty empty_like eye full full_like linspace normal ones ones_like"
    " rand rand_like randn randn_like tensor zeros zeros_like"
).split()
_METHODS = "new_empty new_full new_ones new_tensor new_zeros type".split()


asked: set[torch.dtype] = set()  # half precisions that the script asked for
lowered: list[str] = []  # file:line where the script first asked for half precision
_chosen = ["as written"]  # the choice of this run


def is_bfloat16() -> bool:
    """Return True if the run compares half precision."""
    return _chosen[0] == "bfloat16"


def note(dtype: torch.dtype) -> None:
    """Remember that the script asks for a half precision, on the line that is running."""
    if clock.inside():
        return
    asked.add(dtype)
    if not lowered:
        lowered.append(where.caller())


def install(patches: Patches, precision: str) -> None:
    """Make `precision` (one of CHOICES) the script's lowest."""
    _chosen[0] = precision
    if precision == "as written":
        return
    if precision not in _MAPS:
        raise ValueError(f"precision must be one of {', '.join(CHOICES)}, not {precision!r}")
    to = _MAPS[precision]
    _autocast(patches, to)
    for name in _FACTORIES:
        patches.put(torch, name, _mapped(getattr(torch, name), to))
    for owner, names in ((torch.Tensor, (*_METHODS, "to")), (torch.nn.Module, ("to", "type"))):
        for name in names:
            patches.put(owner, name, _mapped(getattr(owner, name), to))
    for owner in (torch.Tensor, torch.nn.Module):
        patches.put(owner, "half", _cast(torch.float16, to[torch.float16]))
        if torch.bfloat16 in to:
            patches.put(owner, "bfloat16", _cast(torch.bfloat16, to[torch.bfloat16]))
    patches.put(torch, "set_default_dtype", _mapped(torch.set_default_dtype, to))


def _mapped(fn: Callable[..., Any], to: dict[torch.dtype, torch.dtype]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wide(*args: Any, **kwargs: Any) -> Any:
        for a in (*args, kwargs.get("dtype")):
            if isinstance(a, torch.dtype) and a in _HALVES:
                note(a)
        args = tuple(to.get(a, a) if isinstance(a, torch.dtype) else a for a in args)
        if isinstance(kwargs.get("dtype"), torch.dtype):
            kwargs["dtype"] = to.get(kwargs["dtype"], kwargs["dtype"])
        return fn(*args, **kwargs)

    return wide


def _cast(dtype: torch.dtype, other: torch.dtype) -> Callable[..., Any]:
    def wide(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(dtype)
        return self.to(other)

    return wide


def _autocast(patches: Patches, to: dict[torch.dtype, torch.dtype]) -> None:
    autocast = torch.amp.autocast_mode.autocast
    init = autocast.__init__

    @functools.wraps(init)
    def construct(
        self: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        wanted = dtype or torch.get_autocast_dtype(device_type)
        if enabled and wanted in _HALVES:
            note(wanted)
        chosen = to.get(wanted, wanted)
        lower = chosen in (torch.float16, torch.bfloat16)
        init(self, device_type, chosen if lower else wanted, enabled and lower, cache_enabled)

    patches.put(autocast, "__init__", construct)
