"""Values as they are now, to be used later: what calls that wait are given."""

from __future__ import annotations

import collections
import copy
from typing import Any

import torch

from .._backend import uses_torch_xla
from .number import Number
from .waiting import Snapshot, queue

_CONTAINERS = (dict, list, set, bytearray, collections.deque)  # and what is derived of them

_DICTS = (dict, collections.defaultdict, collections.OrderedDict)


filling: dict[int, int] = {}  # the number of deferred elements of an array


def waits(value: Any) -> bool:
    """True if `value` is a tensor that can be read later."""
    return (
        type(value) is not Number  # which would be asked what it is
        and isinstance(value, torch.Tensor)
        and value.device.type == "xla"
        and uses_torch_xla()
        and queue.is_ours()
    )


def has_waiting(value: Any) -> bool:
    """True if `value` is, or holds, what comes from the device."""
    if type(value) is Number:
        return value.waits
    if type(value) in (list, tuple, collections.deque):
        return any(map(has_waiting, value))
    if type(value) in _DICTS:
        return any(map(has_waiting, value.values()))
    return waits(value) or id(value) in filling


def held(value: Any) -> Any:
    """`value` as it is now: copies of what can be changed in place, snapshots of what is on the device."""
    if type(value) is Number:
        return value
    if id(value) in filling:
        queue.settle_at_once()
    if waits(value):
        return queue.snapshot(value)
    if type(value) in (list, tuple):
        return type(value)([held(part) for part in value])
    if type(value) is dict:
        return {key: held(part) for key, part in value.items()}
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value).__module__ == "numpy" and hasattr(value, "copy"):
        return value.copy()
    if isinstance(value, _CONTAINERS):
        return _copied(value)
    return value


def _copied(value: Any) -> Any:
    """Counters, defaultdicts, deques, sets; what cannot be copied stays itself."""
    try:
        copied = copy.copy(value)
        if isinstance(copied, dict):
            for key, part in value.items():  # a Counter's `update` counts
                copied[key] = held(part)
    except Exception:  # a class of the user's
        return value
    return copied


def resolved(value: Any) -> Any:
    """Return `value` with deferred numbers resolved; lists, tuples and dicts are new only if they hold one."""
    if type(value) is Number:
        return value.wait()
    if type(value) in (list, tuple):
        parts = [resolved(part) for part in value]
        is_same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if is_same else type(value)(parts)
    if type(value) in _DICTS:
        found = {key: resolved(part) for key, part in value.items()}
        changed = {key: part for key, part in found.items() if part is not value[key]}
        if changed:
            value = copy.copy(value)
            value.update(changed)
    return value


def here(value: Any) -> Any:
    """`value` as it is on the host. Lists, deques and dicts are filled in."""
    if type(value) is Number:
        return value.wait()
    if type(value) is Snapshot:
        return value.read()
    if type(value) in (list, collections.deque):
        for index, part in enumerate(value):
            value[index] = here(part)
    elif type(value) in _DICTS:
        for key, part in value.items():
            value[key] = here(part)
    elif type(value) is tuple:
        return tuple(map(here, value))
    return value
