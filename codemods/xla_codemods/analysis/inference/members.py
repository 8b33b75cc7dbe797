"""The value of an attribute, by the kind of its owner."""

from __future__ import annotations

from . import library_types
from .values import (
    ACCEL,
    ACCELERATOR,
    ARGUMENTS,
    DATASET,
    DEVICE,
    DEVICE_LOADER,
    DISTRIBUTION,
    GIVEN,
    HOST,
    LOADER,
    MODULE,
    NUMBER,
    SAMPLER,
    SETTINGS,
    STRING,
    TENSOR,
    UNKNOWN,
    WEIGHT,
    Value,
    of,
)


def is_settings(base: Value) -> bool:
    """Parsed options, settings, or a section of them: `args`, `config`, `config.train`."""
    return base.has(ARGUMENTS) or (base.has(GIVEN) and not base.kinds - {GIVEN, SETTINGS})


def section(base: Value) -> Value:
    """One entry of settings."""
    return Value(frozenset({GIVEN, *(base.kinds & {SETTINGS})}))


def attribute_of(base: Value, name: str) -> Value:
    """An attribute by the kind of its owner."""
    if name == "shape" and (base == UNKNOWN or base.has(TENSOR)):
        return Value(frozenset({NUMBER}), element=of(NUMBER))
    if base.has(LOADER) or base.has(DEVICE_LOADER):
        return {"dataset": of(DATASET), "sampler": of(SAMPLER)}.get(name, UNKNOWN)
    if base.has(MODULE):
        if name == "module":
            return base
        if name in {"bias", "weight"} and base.definition is None:
            return of(TENSOR, WEIGHT)
        return of(MODULE) if base.definition is None and name.startswith("model") else UNKNOWN
    if base.has(TENSOR):
        return _tensor_attribute(base, name)
    if base.has(DISTRIBUTION):
        return Value(base.kinds - {DISTRIBUTION} | {TENSOR})
    if base.has(ACCELERATOR):
        return of(DEVICE, ACCEL) if name == "device" else UNKNOWN
    if is_settings(base):
        return section(base)
    if base.has(DEVICE) and name == "type":
        return Value(frozenset({STRING, DEVICE, *(base.kinds & {ACCEL, HOST})}))
    return base if library_types.is_of_others(base) else UNKNOWN


def _tensor_attribute(base: Value, name: str) -> Value:
    if name in {"ndim", "is_cuda", "requires_grad"}:
        return of(NUMBER)
    if name == "device":
        return Value(frozenset({DEVICE, *(base.kinds & {ACCEL, HOST})}))
    if name in {"dtype", "grad_fn", "size"}:
        return UNKNOWN
    return Value(base.kinds)
