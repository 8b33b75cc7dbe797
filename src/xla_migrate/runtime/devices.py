"""The device of this process, whatever the CUDA script called it."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import nn

from ._backend import backend

DeviceSpec: TypeAlias = "str | int | torch.device | None"

# What stays where it is; everything else that a script can name is the accelerator.
_NOT_ACCELERATORS = ("cpu", "meta")


def parse_spec(spec: DeviceSpec) -> tuple[str, int | None]:
    """Kind and index of what the script wrote; ``"accelerator"`` where it named none."""
    if spec is None:
        return "accelerator", None
    if isinstance(spec, bool):
        raise ValueError(f"{spec} is no device: give None, an index, a string or a torch.device")
    if isinstance(spec, int):
        if spec < 0:
            raise ValueError(f"device index {spec} is negative; for the CPU say 'cpu'")
        return "accelerator", spec
    if isinstance(spec, str):
        if spec.isdecimal():  # `--gpu 1`, of an option whose type is str
            return "accelerator", int(spec)
        kind, _, index = spec.partition(":")
        if kind == "gpu" and (not index or index.isdigit()):
            return "accelerator", int(index) if index else None
        try:
            spec = torch.device(spec)
        except RuntimeError:
            raise ValueError(f"{spec!r} names no device") from None
    return spec.type, spec.index


def xla_device(spec: DeviceSpec = None) -> torch.device:
    """The accelerator of this process.

    Args:
        spec: What the CUDA script had: None, an index (``"1"``, too), ``"cuda"``, ``"cuda:3"``, ``"gpu"``,
            ``"xla"``, a ``torch.device``. Each process has one accelerator, so an index of the
            script means that one, except on eager machines with several devices, where it is
            honoured. ``"cpu"`` and ``"meta"`` are what they say.

    Returns:
        The device with its index (``xla:0``, ``cuda:0``); the CPU where there is no accelerator.

    Raises:
        ValueError: if ``spec`` names no device.
    """
    kind, index = parse_spec(spec)
    if kind in _NOT_ACCELERATORS:
        return torch.device(kind)
    return backend().device(index)


def set_device(device: DeviceSpec) -> None:
    """``torch.cuda.set_device``: choose among several devices of an eager process.

    An XLA process has one device, so there it does nothing.
    """
    index = parse_spec(device)[1]
    if index is not None:
        backend().set_device(index)


def device_index(device: DeviceSpec) -> AbstractContextManager[Any]:
    """``torch.cuda.device``: a context in which ``device`` is the current one of its kind."""
    kind, index = parse_spec(device)
    if index is None or kind in _NOT_ACCELERATORS:
        return nullcontext()
    return backend().device_index(index)


def device_type(spec: DeviceSpec = None) -> str:
    """The accelerator's kind, for ``autocast`` and the like: ``"xla"``, ``"cuda"``, ``"cpu"``...

    Does not initialise the device.

    Args:
        spec: What a user chose in a CUDA script's words, as for ``xla_device``; so it is also the
            ``type=`` of an option. ``"cpu"`` and ``"meta"`` are what they say. An index stays where
            a process has several devices: ``"cuda:1"``. What names no device (``"auto"``) stays.
    """
    try:
        kind, index = parse_spec(spec)
    except ValueError:
        return str(spec)
    if kind in _NOT_ACCELERATORS:
        return kind
    own = backend().device_type()
    return own if index is None or own in ("xla", "cpu") else f"{own}:{index}"


def is_available() -> bool:
    """Whether ``xla_device()`` is an accelerator. XLA:CPU counts: it is reached in the same way."""
    return device_type() != "cpu"


def is_accelerator(x: DeviceSpec | torch.Tensor | nn.Module) -> bool:
    """Whether ``x`` is on, or names, the accelerator.

    In place of ``x.is_cuda``, ``device.type == "cuda"``, ``"cuda" in device``, ``device != "cpu"``.

    Args:
        x: A tensor; a module (its first parameter or buffer decides, none is False); or a device
            as ``xla_device`` takes it, in the old spellings too, which is True where there is an
            accelerator that it would mean.
    """
    if isinstance(x, torch.Tensor):
        return x.device.type not in _NOT_ACCELERATORS
    if isinstance(x, nn.Module):
        held = next(itertools.chain(x.parameters(), x.buffers()), None)
        return held is not None and is_accelerator(held)
    return parse_spec(x)[0] not in _NOT_ACCELERATORS and is_available()


def device_count() -> int:
    """How many processes ``launch`` starts on this host, one for each device; at least 1.

    Does not initialise the device, so it can be called before ``launch`` (xla-facts 1.9).
    """
    return backend().device_count()


def device_name(spec: DeviceSpec = None) -> str:
    """The device's model, such as ``"TPU v4"`` or ``"NVIDIA H200"``."""
    return backend().device_name(xla_device(spec))
