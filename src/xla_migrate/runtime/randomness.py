"""Seeds and the state of the device's random number generator."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import torch

from ._backend import backend
from .devices import DeviceSpec, parse_spec, xla_device
from .processes import local_rank

State: TypeAlias = "torch.Tensor | int"


def manual_seed(seed: int, *, device_only: bool = False) -> torch.Generator:
    """``torch.manual_seed``, which alone does not reach XLA (fact 1.30).

    A process that never calls this draws from ``torch.initial_seed()`` on XLA too, as on CUDA;
    torch_xla by itself would give every process the same numbers (1.31).

    Args:
        seed: Any seed that torch takes. Replicas that are given the same one draw the same numbers.
        device_only: Leave the CPU's generator alone, as ``torch.cuda.manual_seed`` does.

    Returns:
        The CPU's default generator, as ``torch.manual_seed`` does.

    Example:
        >>> generator = xla.manual_seed(1)
        >>> first = torch.rand(2, device=device).tolist()
        >>> generator = xla.manual_seed(1)
        >>> torch.rand(2, device=device).tolist() == first
        True
    """
    if not device_only:
        torch.manual_seed(seed)
    backend().seed(seed % 2**64)
    return torch.default_generator


def generator(device: DeviceSpec = None) -> torch.Generator:
    """``torch.Generator(device)``: the accelerator's generator if it has one, else a generator of the CPU.

    XLA has none. A random function with an XLA tensor takes one of the CPU: the numbers are drawn on the CPU and
    uploaded (fact 1.33).

    Args:
        device: What the CUDA script had.

    Returns:
        A generator, not seeded.

    Example:
        >>> order = torch.randperm(4, generator=xla.generator().manual_seed(0))
    """
    kind, index = parse_spec(device)
    return torch.Generator() if kind == "cpu" else backend().generator(index)


def fork_rng(devices: Any = None, enabled: bool = True) -> AbstractContextManager[Any]:
    """``torch.random.fork_rng``: a context after which the random streams are where they were.

    Args:
        devices: As for torch; on XLA it is this process's device whatever it says.
        enabled: As for torch.

    Returns:
        A context manager.

    Example:
        >>> with xla.fork_rng():
        ...     noise = torch.rand(2, device=device)
    """
    return backend().fork_rng(devices, enabled)


def get_rng_state(device: DeviceSpec = None) -> torch.Tensor:
    """The state of the accelerator's generator, as a CPU tensor of bytes.

    On XLA this marks a step: the state is whole only between two graphs (fact 1.32).

    Args:
        device: As for ``xla_device``.

    Returns:
        A tensor of type uint8 on the CPU, for ``set_rng_state`` and for checkpoints.

    Example:
        >>> state = xla.get_rng_state()
        >>> first = torch.rand(2, device=device).tolist()
        >>> xla.set_rng_state(state)
        >>> torch.rand(2, device=device).tolist() == first
        True
    """
    return backend().rng_state(xla_device(device).index or 0)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the generators of all accelerators that this process has.

    Returns:
        One state, as of ``get_rng_state``, for each.

    Example:
        >>> len(xla.get_rng_state_all())
        1
    """
    return [backend().rng_state(index) for index in range(backend().rng_devices())]


def set_rng_state(state: State, device: DeviceSpec = None) -> None:
    """Put the accelerator's generator into a state.

    Args:
        state: From ``get_rng_state``. That of another kind of device, from its checkpoint, cannot
            be continued: the generator is seeded from it, with a warning.
        device: As for ``xla_device``.

    Example:
        >>> xla.set_rng_state(xla.get_rng_state())
    """
    _restore(state, xla_device(device).index or 0)


def set_rng_state_all(states: Sequence[State]) -> None:
    """Put the generators of all accelerators that this process has into these states.

    Args:
        states: From ``get_rng_state_all``. Of several devices' states, a process with one device
            takes that of its local rank. An empty list, which CUDA writes if it has no device,
            restores nothing, with a warning.

    Example:
        >>> xla.set_rng_state_all(xla.get_rng_state_all())
    """
    if len(states) == 0:
        warnings.warn("the list of random states is empty: nothing is restored", stacklevel=2)
    elif backend().rng_devices() == 1:
        _restore(states[min(local_rank(), len(states) - 1)], 0)
    else:
        for index, state in enumerate(states[: backend().rng_devices()]):
            _restore(state, index)


def _restore(state: State, index: int) -> None:
    if isinstance(state, int):
        state = torch.tensor([state % 2**64], dtype=torch.uint64).view(torch.uint8)
    state = state.cpu().to(torch.uint8)
    if state.numel() == backend().rng_state_bytes():
        backend().set_rng_state(state, index)
        return
    warnings.warn(
        "the random state comes from another device and cannot be restored here: the generator is "
        "seeded from it instead",
        stacklevel=4,
    )
    backend().seed(
        int.from_bytes(hashlib.blake2b(bytes(state.tolist()), digest_size=8).digest(), "big")
    )
