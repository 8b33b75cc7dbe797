"""Loggers, trackers and other objects of deferred calls: pending calls run before any other use of them.

Their class is watched, and not the object, whose attributes, copies and pickles stay what they were.
"""

from __future__ import annotations

import functools
import sys
from types import FunctionType, MethodType, ModuleType
from typing import Any

from .output import WATCHED, watched
from .waiting import queue

# Special methods that read an object's contents; Python calls others at any time.
_SPECIAL = frozenset(
    "__call__ __contains__ __enter__ __exit__ __getitem__ __iter__ __len__ __repr__ __setitem__ __str__".split()
)
# Objects that do more than store what they receive: the methods that are watched.
_ALONE = {
    "accelerate": frozenset({"end_training", "get_tracker", "log", "log_images", "log_table"}),
    "lightning": frozenset({"log", "log_dict"}),
    "lightning_fabric": frozenset({"log", "log_dict"}),
    "pytorch_lightning": frozenset({"log", "log_dict"}),
}
_OTHERS, _OF_TORCH = ("torch.", "collections"), "torch.utils.tensorboard"  # bases of much else


def watch_object(owner: Any) -> bool:
    """Have what waits done before `owner`, an object or a module, does anything else; whether that could be done."""
    if isinstance(owner, ModuleType):
        return _watch_functions(owner)
    kind = type(owner)
    if kind.__module__ == "loguru._logger":
        return _watch_loguru()
    known = _kinds.get(kind)
    if known is None:
        known = _kinds[kind] = _watch_class(kind)
    package = sys.modules.get(kind.__module__.partition(".")[0])
    if known and package is not None and package not in _packages:
        _packages.append(package)
        _watch_functions(package, owner)
    return known


_kinds: dict[type, bool] = {}
_packages: list[ModuleType] = []


def _watch_class(kind: type) -> bool:
    """The methods and properties that classes written in Python give to `kind`; False if there are none."""
    found = False
    for base in kind.__mro__:
        if base.__module__.startswith(_OTHERS) and not base.__module__.startswith(_OF_TORCH):
            continue
        alone = _ALONE.get(base.__module__.partition(".")[0])
        for name, value in list(vars(base).items()):
            special = name.startswith("__")
            if (name not in _SPECIAL) if special else (alone is not None and name not in alone):
                continue
            member = _watched_member(value)
            if member is not None:
                setattr(base, name, member)
                found = True
            found = found or getattr(value, WATCHED, False)
    return found


def _watched_member(value: Any) -> Any:
    if isinstance(value, FunctionType) and not getattr(value, WATCHED, False):
        return watched(value)
    if type(value) is property and isinstance(value.fget, FunctionType):
        if not getattr(value.fget, WATCHED, False):
            return value.getter(watched(value.fget))
    return None


def _watch_functions(module: ModuleType, owner: Any = None) -> bool:
    """`wandb.log` and its like, which `wandb.init` sets anew; of an `owner` those that are its methods."""
    for name, value in list(vars(module).items()):
        if not name.startswith("_") and isinstance(value, (FunctionType, MethodType)):
            if owner is not None and getattr(value, "__self__", None) is not owner:
                continue
            if not getattr(value, WATCHED, False):
                setattr(module, name, watched(value))
    return True


def _watch_loguru() -> bool:
    """Watch loguru by its clock: its records name the calling frame, so no wrapper may stand between."""
    home = sys.modules["loguru._logger"]
    now = getattr(home, "aware_now", None)
    if now is None:
        return False
    if not getattr(now, WATCHED, False):

        @functools.wraps(now)
        def written() -> Any:
            queue.before_output()
            time = now()
            return time.fromtimestamp(queue.written, time.tzinfo) if queue.written else time

        setattr(written, WATCHED, True)
        home.aware_now = written  # type: ignore[attr-defined]
        for name in ("add", "configure", "disable", "enable", "remove"):
            setattr(home.Logger, name, watched(getattr(home.Logger, name)))
    return True
