"""Which backend this process trains on, and what a backend has to offer.

A backend is a module with the functions of :class:`Backend`. There are two: ``torch_xla.backend``,
lazy tensors on TPU, Trainium or the CPU, and ``eager.backend``, an ordinary device of torch. A target
that needs different operations is one more such module; an ordinary torch device needs none.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

# Where torchrun's agent listens. Scripts that were made for mp.spawn set these themselves later.
AGENT = {name: os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")}
METRICS = ("compiles", "launches", "host_reads", "uploads", "fallbacks", "step_marks")


class Sender(Protocol):
    """How a device loader brings batches to the device."""

    def send(self, batch: Any) -> Any:
        """Start the transfer; runs in any thread."""

    def receive(self, sent: Any) -> Any:
        """The batch, usable by what is launched next; runs in the thread that trains."""


class Backend(Protocol):
    """The verbs that differ between targets. The rooms that call them say what they mean."""

    # devices.py
    def device_type(self) -> str: ...
    def is_initialized(self) -> bool: ...
    def device(self, index: int | None = None) -> torch.device: ...
    def device_count(self) -> int: ...
    def device_name(self, device: torch.device) -> str: ...
    def set_device(self, index: int) -> None: ...
    def device_index(self, index: int) -> AbstractContextManager[Any]: ...

    # step.py
    def mark_step(self, *, unless_empty: bool = False) -> None: ...
    def synchronize(self) -> None: ...

    # spmd.py
    def use_spmd(self) -> int: ...

    # loader.py
    def reads_ahead(self, workers: int) -> bool: ...
    def prefetch_sizes(self) -> tuple[int, int]: ...
    def sender(self, device: torch.device, sharding: Any, reused: bool) -> Sender: ...

    # precision.py
    def autocast_dtype(self, dtype: torch.dtype | None) -> torch.dtype: ...
    def is_bf16_supported(self) -> bool: ...
    def set_matmul_precision(self, precision: str) -> None: ...

    # randomness.py
    def seed(self, seed: int) -> None: ...
    def rng_devices(self) -> int: ...
    def rng_state_bytes(self) -> int: ...
    def rng_state(self, index: int) -> torch.Tensor: ...
    def set_rng_state(self, state: torch.Tensor, index: int) -> None: ...
    def fork_rng(self, devices: Any, enabled: bool) -> AbstractContextManager[Any]: ...
    def generator(self, index: int | None) -> torch.Generator: ...

    # checkpoints.py
    def loads_natively(self) -> bool: ...
    def clones(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]: ...

    # graphs.py
    def compile(self, function: Any, options: Mapping[str, Any]) -> Any: ...
    def checkpoint(
        self, function: Callable[..., Any], args: Any, kwargs: Any, options: Mapping[str, Any]
    ) -> Any: ...
    def inference_mode(self, mode: bool) -> AbstractContextManager[Any]: ...
    def narrow(self, tensor: torch.Tensor, dim: int, start: Any, length: int) -> torch.Tensor: ...
    def put(
        self, tensor: torch.Tensor, dim: int, start: Any, value: Any, length: int | None
    ) -> None: ...

    # services.py
    def event(self, options: Mapping[str, Any]) -> Any: ...
    def memory_info(self, device: torch.device) -> dict[str, int | None]: ...
    def mem_get_info(self, device: torch.device) -> tuple[int, int]: ...
    def reset_peak_memory_stats(self, device: torch.device) -> None: ...
    def metrics(self) -> dict[str, int | None]: ...

    # processes.py
    def replica(self) -> tuple[int, int, int]: ...
    def spawn(self, function: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any: ...
    def init_process_group(self, options: dict[str, Any]) -> None: ...
    def rendezvous(self, tag: str) -> None: ...
    def settle(self) -> None: ...
    def collective(self, name: str, *args: Any, **kwargs: Any) -> Any: ...
    def total(self, tensors: Sequence[torch.Tensor], scale: float, group: Any = None) -> None: ...
    def broadcast(self, tensors: Sequence[torch.Tensor], src: int, group: Any = None) -> None: ...


_chosen: Backend | None = None


def uses_torch_xla() -> bool:
    """True if this process trains through torch_xla. Imports nothing."""
    asked = os.environ.get("XLA_MIGRATE_BACKEND", "")
    if asked not in ("", "eager", "torch_xla"):
        raise ValueError(f"XLA_MIGRATE_BACKEND={asked}: must be 'torch_xla' or 'eager'")
    if asked:
        return asked == "torch_xla"
    return importlib.util.find_spec("torch_xla") is not None


def backend() -> Backend:
    """The backend of this process, chosen at the first call.

    Importing torch_xla takes seconds and touching its device makes a later launch impossible
    (fact 1.9), so neither happens before something needs it.
    """
    global _chosen
    if _chosen is None:
        room = "torch_xla" if uses_torch_xla() else "eager"
        # By name: backends import this module.
        _chosen = importlib.import_module(f"{__package__}.{room}.backend")
        assert _chosen is not None
        if room == "eager":
            choice = importlib.import_module(f"{__package__}._choice")
            choice.warn_if_absent()
            choice.warn_of_precision()
    return _chosen


def memory_figures(
    used: int | None,
    peak: int | None,
    limit: int | None,
    reserved: int | None = None,
    peak_reserved: int | None = None,
) -> dict[str, int | None]:
    """All figures. If the allocator reserves nothing beyond use, reserved equals used."""
    return {
        "bytes_used": used,
        "peak_bytes_used": peak,
        "bytes_reserved": used if reserved is None else reserved,
        "peak_bytes_reserved": peak if peak_reserved is None else peak_reserved,
        "bytes_limit": limit,
    }
