"""The torch_xla backend: lazy tensors on TPU, Trainium or the CPU.

Nothing here touches the device at import; ``device`` does (fact 1.9).
"""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist

from .. import _host, _tuned, patches
from .._backend import METRICS, Sender, memory_figures
from ..loading.batches import move
from . import debug, groups, replicas, spmd
from .checkpoint import checkpoint as checkpoint
from .marks import forked, mark, seeded, uploads
from .modules import matmul, met, torch_xla, xm, xr
from .replicas import broadcast as broadcast
from .replicas import collective as collective
from .replicas import rendezvous as rendezvous
from .replicas import replica as replica
from .replicas import settle as settle
from .replicas import total as total

patches.apply("torch_xla")

# The seed that torch_xla gives to every process (fact 1.31).
_UNSEEDED = 101
_first_use = True
_pending_seed: int | None = None

# Devices


def device_type() -> str:
    return "xla"


def is_initialized() -> bool:
    return replicas.is_initialized()


def device(index: int | None = None) -> torch.device:
    """The one of this process, whatever the index."""
    global _first_use
    was_used = _pending_seed is not None and replicas.is_initialized()
    own: torch.device = torch_xla.device()
    if _first_use:
        _first_use = False
        patches.apply("device")
        if _pending_seed is not None:
            if was_used:
                warnings.warn(
                    "the device was used without xla.xla_device(): its random numbers until now do "
                    "not follow the seed of xla.manual_seed",
                    stacklevel=4,
                )
            seed(_pending_seed)
        elif xm.get_rng_state() == _UNSEEDED:
            # As on CUDA: the seed of torch.manual_seed, otherwise different numbers in each process.
            seed(torch.initial_seed())
        if os.environ.get("XLA_MIGRATE_DEBUG") == "1":
            debug.watch()
    return own


def device_count() -> int:
    """Return the number of processes that torch_xla.launch would start, without starting the runtime."""
    if xr.is_spmd():
        return 1
    started = os.environ.get("LOCAL_WORLD_SIZE")
    if started:
        return int(started)
    kind = xr.device_type()
    if kind == "TPU":
        tpu: Any = importlib.import_module("torch_xla._internal.tpu")
        return max(1, int(tpu.num_local_processes()))
    if kind == "NEURON":
        return int(os.environ.get("NEURONCORE_NUM_DEVICES", "1"))
    return replicas.own_count()


def device_name(device: torch.device) -> str:
    hardware, kind = xm.xla_device_hw(device), xm.xla_device_kind(device)
    if hardware == "CPU":
        return "XLA:CPU"
    return kind if hardware in kind else f"{hardware} {kind}"


def set_device(index: int) -> None:
    """There is one."""


def device_index(index: int) -> AbstractContextManager[Any]:
    return nullcontext()


# Steps


def mark_step(*, unless_empty: bool = False) -> None:
    if _first_use:
        device()  # A script that writes `device="xla"` gets the seed and the patches here.
    mark(unless_empty=unless_empty)


def synchronize() -> None:
    mark()
    xm.wait_device_ops()


# Data


def use_spmd() -> int:
    return spmd.use()


def reads_ahead(workers: int) -> bool:
    return True


def prefetch_sizes() -> tuple[int, int]:
    return 16, 8


def sender(device: torch.device, sharding: Any, reused: bool) -> Sender:
    return _XlaSender(device, sharding, reused)


class _XlaSender:
    def __init__(self, device: torch.device, sharding: Any, reused: bool) -> None:
        self._device = device
        self._sharding = sharding
        self._reused = reused
        self._lacks_float64 = xr.device_type() == "NEURON"

    def send(self, batch: Any) -> Any:
        if not isinstance(self._sharding, Mapping):
            return self._send(batch, self._sharding)
        if not isinstance(batch, Mapping):
            raise ValueError("input_sharding is a dict, so batches have to be dicts")
        missing = [key for key in batch if key not in self._sharding]
        if missing:
            raise KeyError(f"no input_sharding for {missing}")
        return {key: self._send(value, self._sharding[key]) for key, value in batch.items()}

    def _send(self, batch: Any, sharding: Any) -> Any:
        def to_device(tensor: torch.Tensor) -> torch.Tensor:
            if type(tensor) is not torch.Tensor:
                return tensor.to(self._device)  # Keeps the subclass.
            if self._reused:
                # The transfer may still be reading while the loader writes its next batch.
                tensor = tensor.clone()
            if self._lacks_float64 and tensor.dtype is torch.float64:
                tensor = tensor.float()  # as scripts do before they move: `x.float().to(device)`
            split = sharding or spmd.along_the_batch(tensor)
            with uploads.one():
                sent: torch.Tensor = xm.send_cpu_data_to_device([tensor], self._device, split)[0]
            return sent

        return move(batch, self._device, to_device)

    def receive(self, sent: Any) -> Any:
        return sent


# Precision


def autocast_dtype(dtype: torch.dtype | None) -> torch.dtype:
    return torch.bfloat16 if dtype in (None, torch.float16) else dtype


def is_bf16_supported() -> bool:
    return True


def set_matmul_precision(precision: str) -> None:
    wanted = {"highest": "highest", "high": "high", "medium": "default"}[precision]
    if matmul.get_mat_mul_precision() == wanted:
        return
    # It warns against being called more than once, at every call.
    logger = logging.getLogger("torch_xla.backends")
    disabled, logger.disabled = logger.disabled, True
    try:
        matmul.set_mat_mul_precision(wanted)
    finally:
        logger.disabled = disabled


# Randomness


def seed(seed: int) -> None:
    """Seed the device, or keep the seed for its first use if this process may launch others.

    Seeding initialises the device, and then the processes could not start (fact 1.9).
    """
    global _pending_seed
    if replicas.may_launch(device_count):
        _pending_seed = seed
        return
    _pending_seed = None
    torch_xla.manual_seed(seed)
    seeded()


def rng_devices() -> int:
    return 1


def rng_state_bytes() -> int:
    return 8


def rng_state(index: int) -> torch.Tensor:
    """The state is one number at the beginning of a graph, so one begins here."""
    mark()
    return torch.tensor(list(xm.get_rng_state().to_bytes(8, "little")), dtype=torch.uint8)


def set_rng_state(state: torch.Tensor, index: int) -> None:
    xm.set_rng_state(int.from_bytes(bytes(state.tolist()), "little"))
    seeded()


@contextmanager
def fork_rng(devices: Any, enabled: bool) -> Iterator[None]:
    with torch.random.fork_rng([], enabled), forked(), xm.fork_rng(enabled=enabled):
        yield


def generator(index: int | None) -> torch.Generator:
    """Return a CPU generator, since XLA has none (fact 1.33)."""
    return torch.Generator()


# Checkpoint files


def loads_natively() -> bool:
    return False


def clones(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    copies = [tensor.detach().clone() for tensor in tensors]
    # A clone alone is another name for the same buffer (fact 3.12). After a barrier it is a
    # separate result, bit for bit.
    on_device = [clone for clone in copies if clone.device.type == "xla"]
    if on_device:
        xm.optimization_barrier_(on_device)
    return copies


# Graphs. checkpoint is in _xla_checkpoint.py.


def compile(function: Any, options: Mapping[str, Any]) -> Any:
    return torch.compile(function, backend="openxla") if _tuned.compiles() else function


def inference_mode(mode: bool) -> AbstractContextManager[Any]:
    return torch.no_grad() if mode else torch.enable_grad()  # type: ignore[no-untyped-call]


def narrow(tensor: torch.Tensor, dim: int, start: Any, length: int) -> torch.Tensor:
    return tensor.index_select(dim, _positions("narrow", tensor, dim, start, length))


def put(tensor: torch.Tensor, dim: int, start: Any, value: Any, length: int | None) -> None:
    at = _positions("put", tensor, dim, start, 1 if length is None else length)
    dim %= tensor.dim()
    before, after = tensor.shape[:dim], tensor.shape[dim + 1 :]
    value = torch.as_tensor(value).to(tensor.device, tensor.dtype)
    if length is None:  # `value` has no such dimension
        value = value.expand(before + after).unsqueeze(dim)
    tensor.index_copy_(dim, at, value.expand(before + at.shape + after))


def _positions(name: str, tensor: torch.Tensor, dim: int, start: Any, length: int) -> torch.Tensor:
    """Return the position of the slice as data on the device: an int would be a constant of the graph."""
    if isinstance(start, torch.Tensor) and start.device.type == "xla":
        return torch.arange(length, device=tensor.device) + start
    size = tensor.shape[dim]
    first = int(start) + (size if start < 0 else 0)
    if length < 0 or first < 0 or first + length > size:
        raise IndexError(
            f"{name}: start {start}, length {length} is outside dimension {dim} of size {size}"
        )
    return torch.arange(first, first + length).to(tensor.device)


# Services


def event(options: Mapping[str, Any]) -> Any:
    return None


def memory_info(device: torch.device) -> dict[str, int | None]:
    if device.type == "cpu" or xr.device_type() == "CPU":
        return _host.memory_info()
    info = xm.get_memory_info(device)
    used, peak = info.get("bytes_used"), info.get("peak_bytes_used")
    return memory_figures(used=used, peak=peak, limit=info.get("bytes_limit"))


def mem_get_info(device: torch.device) -> tuple[int, int]:
    if device.type == "cpu" or xr.device_type() == "CPU":
        return _host.mem_get_info()
    info = xm.get_memory_info(device)
    return info["bytes_limit"] - info["bytes_used"], info["bytes_limit"]


def reset_peak_memory_stats(device: torch.device) -> None:
    if device.type == "cpu" or xr.device_type() == "CPU":
        _host.reset_peak()
    else:
        warnings.warn(
            "XLA cannot reset the peak of memory: it counts from the start of the process",
            stacklevel=3,
        )


def metrics() -> dict[str, int | None]:
    compiles = met.counter_value("UncachedCompile") or 0
    # A value that is read is counted like an operation without a lowering.
    fallbacks = [name for name in met.counter_names() if name.startswith("aten::")]
    fallbacks = [name for name in fallbacks if name != "aten::_local_scalar_dense"]
    counted = (
        compiles,
        compiles + (met.counter_value("CachedCompile") or 0),
        _samples("TransferFromDeviceTime"),
        _samples("TransferToDeviceTime"),
        sum(met.counter_value(name) for name in fallbacks),
        met.counter_value("MarkStep") or 0,
    )
    return dict(zip(METRICS, counted, strict=True))


def _samples(metric: str) -> int:
    data = met.metric_data(metric)
    return int(data[0]) if data else 0


# Processes. What they tell each other is in replicas.py.


def spawn(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
    if xr.is_spmd():
        raise RuntimeError(
            f"launch(nprocs={options['nprocs']}) after use_spmd(): one process drives all devices; "
            "use nprocs=xla.device_count(), which is 1"
        )
    return replicas.spawn(function, args, device_count(), options)


def init_process_group(options: dict[str, Any]) -> None:
    if options.get("world_size") != 1:
        replicas.init_process_group(options)
        return
    # The collectives of processes.py have nothing to do; libraries' collectives use the group.
    groups.register()
    options["backend"] = groups.NAME
    options.pop("device_id", None)
    options.pop("pg_options", None)
    dist.init_process_group(**options)
