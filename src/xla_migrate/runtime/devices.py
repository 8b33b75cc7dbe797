"""The device of this process, whatever the CUDA script called it."""

from __future__ import annotations

import itertools
import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from torch import nn

from ._backend import backend

DeviceSpec: TypeAlias = "str | int | torch.device | None"

# Devices that are kept; every other device that a script can name is the accelerator.
_NOT_ACCELERATORS = ("cpu", "meta")


def parse_spec(spec: DeviceSpec) -> tuple[str, int | None]:
    """Kind and index of what the script wrote; ``"accelerator"`` where it named none."""
    if spec is None:
        return "accelerator", None
    if isinstance(spec, bool):
        raise ValueError(f"{spec} is not a device: pass None, an index, a string or a torch.device")
    if isinstance(spec, int):
        if spec < 0:
            raise ValueError(f"device index {spec} is negative; use 'cpu' for the CPU")
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
            script means that one, except on eager machines with several devices: there it is
            honoured. ``"cpu"`` and ``"meta"`` are kept.

    Returns:
        The device with its index (``xla:0``, ``cuda:0``); the CPU if there is no accelerator.

    Raises:
        ValueError: if ``spec`` names no device.

    Example:
        >>> model = model.to(xla.xla_device())
        >>> xla.xla_device("cuda:0") == xla.xla_device()
        True
        >>> xla.xla_device("cpu")
        device(type='cpu')
    """
    kind, index = parse_spec(spec)
    if kind in _NOT_ACCELERATORS:
        return torch.device(kind)
    return backend().device(index)


def set_device(device: DeviceSpec) -> None:
    """``torch.cuda.set_device``: choose among several devices of an eager process.

    An XLA process has one device, so there it does nothing.

    Args:
        device: As for ``xla_device``.

    Raises:
        ValueError: if ``device`` names no device.

    Example:
        >>> xla.set_device(xla.local_rank())
    """
    index = parse_spec(device)[1]
    if index is not None:
        backend().set_device(index)


def device_index(device: DeviceSpec) -> AbstractContextManager[Any]:
    """``torch.cuda.device``: a context in which ``device`` is the current one of its kind.

    Args:
        device: As for ``xla_device``. On XLA a process has one device, and the context does
            nothing.

    Returns:
        A context manager.

    Example:
        >>> with xla.device_index(0):
        ...     y = torch.ones(2, device=xla.xla_device())
    """
    kind, index = parse_spec(device)
    if index is None or kind in _NOT_ACCELERATORS:
        return nullcontext()
    return backend().device_index(index)


def device_type(spec: DeviceSpec = None) -> str:
    """The accelerator's kind, for ``autocast`` and the like: ``"xla"``, ``"cuda"``, ``"cpu"``...

    Does not initialise the device.

    Args:
        spec: What a user chose in a CUDA script's words, as for ``xla_device``; so it is also the
            ``type=`` of an option. ``"cpu"`` and ``"meta"`` are kept. An index is kept if
            a process has several devices: ``"cuda:1"``. Other text (``"auto"``) is kept.

    Returns:
        The word that ``torch.device(...)`` begins with.

    Example:
        >>> xla.device_type("cuda") == xla.xla_device().type
        True
        >>> xla.device_type("cpu")
        'cpu'
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
    """True if ``xla_device()`` is an accelerator. XLA:CPU counts: it is reached in the same way.

    Returns:
        True or False; True on XLA:CPU.

    Example:
        >>> xla.is_available()
        True
    """
    return device_type() != "cpu"


def is_initialized() -> bool:
    """True if this process has used the accelerator, as ``torch.cuda.is_initialized()``.

    A process that has may not fork another one that uses it, and on XLA may not call ``launch``.

    Returns:
        True or False. Asking starts no device.

    Example:
        >>> method = "spawn" if xla.is_initialized() else "fork"
    """
    return backend().is_initialized()


def is_accelerator(x: DeviceSpec | torch.Tensor | nn.Module) -> bool:
    """True if ``x`` is on, or names, the accelerator.

    In place of ``x.is_cuda``, ``device.type == "cuda"``, ``"cuda" in device``, ``device != "cpu"``.

    Args:
        x: A tensor; a module (its first parameter or buffer decides, none is False); or a device
            as ``xla_device`` takes it, in the old spellings too, which is True if there is an
            accelerator that it would mean.

    Returns:
        True or False.

    Example:
        >>> xla.is_accelerator(model), xla.is_accelerator(torch.ones(2))
        (True, False)
        >>> xla.is_accelerator("cuda:0")
        True
    """
    if isinstance(x, torch.Tensor):
        return x.device.type not in _NOT_ACCELERATORS
    if isinstance(x, nn.Module):
        held = next(itertools.chain(x.parameters(), x.buffers()), None)
        return held is not None and is_accelerator(held)
    return parse_spec(x)[0] not in _NOT_ACCELERATORS and is_available()


def device_count() -> int:
    """Return the number of processes that ``launch`` starts on this host: one per device, at least 1.

    Does not initialise the device, so it can be called before ``launch`` (fact 1.9).

    Returns:
        The number of processes.

    Example:
        >>> xla.device_count() >= 1
        True
    """
    return backend().device_count()


def device_name(spec: DeviceSpec = None) -> str:
    """The device's model, such as ``"TPU v4"`` or ``"NVIDIA H200"``.

    Args:
        spec: As for ``xla_device``.

    Returns:
        The name, as the backend gives it.

    Example:
        >>> print(f"training on {xla.device_name()}")
        training on ...
    """
    return backend().device_name(xla_device(spec))


class NotAvailable(str):
    """The text "n/a", for a fact of CUDA devices that another device does not have.

    It can be displayed in each way: ``"%d"`` shows -1 and ``"%f"`` shows nan, all other formats the text.
    """

    def __format__(self, spec: str) -> str:
        """Return the text, whatever the number's format would be."""
        return str(self)

    def __int__(self) -> int:
        """Return -1, which no device has."""
        return -1

    def __float__(self) -> float:
        """Return nan."""
        return math.nan

    def __round__(self, number: float | None = None) -> NotAvailable:
        """Return the text: it has no digits, and is not known in GiB (``total_memory / 2**30``) either."""
        return self

    __truediv__ = __floordiv__ = __round__


# What functions of torch.cuda measure.
_READINGS = frozenset({"clock_rate", "memory_usage", "power_draw", "temperature", "utilization"})


class DeviceProperties:
    """The facts of a device, under the names of ``torch.cuda.get_device_properties``."""

    def __init__(self, device: torch.device) -> None:
        """Describe ``device``."""
        self._device = device

    def __getattr__(self, name: str) -> Any:
        """Return CUDA's own value on CUDA; elsewhere the name and the memory are known."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self._device.type == "cuda":
            properties = torch.cuda.get_device_properties(self._device)
            if name in _READINGS and not hasattr(properties, name):
                return getattr(torch.cuda, name)(self._device)
            return getattr(properties, name)
        if name == "name":
            return backend().device_name(self._device)
        limit = (
            backend().memory_info(self._device)["bytes_limit"] if name == "total_memory" else None
        )
        return NotAvailable("n/a") if limit is None else limit

    def __repr__(self) -> str:
        """Return the text that is printed for the device."""
        if self._device.type == "cuda":
            return repr(torch.cuda.get_device_properties(self._device))
        return f"DeviceProperties(name={self.name!r}, total_memory={self.total_memory})"


def device_properties(spec: DeviceSpec = None) -> DeviceProperties:
    """The facts of a device, to be displayed.

    Compute capability, multiprocessors and the like read ``"n/a"`` except on CUDA: code that prints or logs them
    runs everywhere. Don't compute with them.

    Args:
        spec: As for ``xla_device``.

    Returns:
        An object with the attributes of ``torch.cuda.get_device_properties``.

    Example:
        >>> properties = xla.device_properties()
        >>> print(f"{properties.name}, capability {properties.major}.{properties.minor}")
        XLA:CPU, capability n/a.n/a
    """
    return DeviceProperties(xla_device(spec))


def device_capability(spec: DeviceSpec = None) -> tuple[Any, Any]:
    """A CUDA device's compute capability, to be displayed; two texts ``"n/a"`` for other devices.

    To test for bfloat16 use ``is_bf16_supported``.

    Args:
        spec: As for ``xla_device``.

    Returns:
        Major and minor version.

    Example:
        >>> major, minor = xla.device_capability()
    """
    device = xla_device(spec)
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)
    return NotAvailable("n/a"), NotAvailable("n/a")


def supports_fused() -> bool:
    """True if the accelerator has torch's fused optimizers: ``AdamW(..., fused=supports_fused())``.

    They raise on XLA parameters (fact 3.26); there one graph holds the whole step anyway.

    Returns:
        True or False; False on XLA.

    Example:
        >>> optimizer = torch.optim.AdamW(model.parameters(), fused=xla.supports_fused())
    """
    return device_type() == "cuda"
