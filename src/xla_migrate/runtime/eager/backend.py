"""The eager backend: an ordinary torch device. CUDA, the native TPU and Neuron devices, the CPU.

There is no graph to cut, so marks are nothing. On CUDA everything does what the original script's
own calls did.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist

from .. import _host, _launchers, patches
from .._backend import METRICS, Sender, memory_figures
from ..loading.batches import move
from ..replicas.flat import flattened
from ..saving.replaced import torch_checkpoint
from . import native
from .cuda_sender import CudaSender

# Devices


def device_type() -> str:
    if not torch.accelerator.is_available():
        return "cpu"
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        return "cpu"
    if accelerator.type not in _SHARES_TYPES:
        patches.apply_one("parameter_identity")
    return accelerator.type


def is_initialized() -> bool:
    kind = device_type()
    module = None if kind == "cpu" else torch.get_device_module(kind)
    started = getattr(module, "is_initialized", None)
    return kind != "cpu" if started is None else bool(started())


# Where torch keeps Parameter objects that move there. Elsewhere, on a native TPU or Neuron device, it
# makes new ones: an optimizer that was built before would train nothing, and tied weights come apart.
_SHARES_TYPES = frozenset({"cuda", "mps", "xpu", "hpu", "mtia"})

# Whether the script has chosen its device itself.
_chosen = False


def device(index: int | None = None) -> torch.device:
    kind = device_type()
    if kind == "cpu":
        return torch.device("cpu")
    if index is None or native.is_one_per_process(kind):
        if not _chosen:
            _use_own_device()
        index = torch.accelerator.current_device_index()
    return torch.device(kind, index)


def _use_own_device() -> None:
    """Processes of one host take one device each; scripts said so with ``set_device``."""
    _, local_rank, world_size = replica()
    if native.is_one_per_process(device_type()):
        return
    if world_size > 1 and local_rank < torch.accelerator.device_count():
        torch.accelerator.set_device_index(local_rank)


def set_device(index: int) -> None:
    global _chosen
    kind = device_type()
    if kind != "cpu" and not native.is_one_per_process(kind):
        torch.accelerator.set_device_index(index)
        _chosen = True


def device_index(index: int) -> AbstractContextManager[Any]:
    kind = device_type()
    if kind == "cpu" or native.is_one_per_process(kind):
        return nullcontext()
    if native.is_native(kind):
        return torch.accelerator.device_index(index)
    chosen: AbstractContextManager[Any] = torch.get_device_module(kind).device(index)
    return chosen


def device_count() -> int:
    """On the CPU as many as processes were asked for: torchrun's, or a rehearsal's of ``launch``."""
    if device_type() == "cpu":
        return int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
    return max(1, torch.accelerator.device_count())


def device_name(device: torch.device) -> str:
    if device.type == "cpu":
        return platform.processor() or platform.machine()
    name: str = torch.get_device_module(device).get_device_name(device)
    return name


# Steps


def mark_step(*, unless_empty: bool = False) -> None:
    return


def synchronize() -> None:
    if device_type() != "cpu":
        torch.accelerator.synchronize()


def use_spmd() -> int:
    raise RuntimeError(
        "use_spmd() works only on XLA: on eager devices start one process per device (torchrun, "
        "xla.launch)"
    )


# Data


def reads_ahead(workers: int) -> bool:
    """Return True if worker processes read: a script cannot notice that they read ahead."""
    kind = device_type()
    return (kind == "cuda" or native.is_native(kind)) and workers > 0


def prefetch_sizes() -> tuple[int, int]:
    return 2, 1


def sender(device: torch.device, sharding: Any, reused: bool) -> Sender:
    if sharding is not None and not _is_of_one_device(sharding):
        raise ValueError("input_sharding is for SPMD on XLA; this is an eager device")
    if device.type == "cuda":
        return CudaSender(device)
    return _PlainSender(device)


def _is_of_one_device(sharding: Any) -> bool:
    """True for what ``xla.spmd.ShardingSpec`` makes on this backend: its mesh has the one device."""
    from ..compat.by_hand.meshes import ShardingSpec

    given = sharding.values() if isinstance(sharding, dict) else (sharding,)
    return all(each is None or isinstance(each, ShardingSpec) for each in given)


class _PlainSender:
    def __init__(self, device: torch.device) -> None:
        self._device = device

    def send(self, batch: Any) -> Any:
        return move(batch, self._device, lambda tensor: tensor.to(self._device))

    def receive(self, sent: Any) -> Any:
        return sent


# Precision


def autocast_dtype(dtype: torch.dtype | None) -> torch.dtype:
    if dtype not in (None, torch.float16):
        return dtype
    if is_bf16_supported():
        return torch.bfloat16
    warnings.warn("float16 autocast without loss scaling: gradients may underflow", stacklevel=3)
    return torch.float16


def is_bf16_supported() -> bool:
    return device_type() != "cuda" or torch.cuda.is_bf16_supported(including_emulation=False)


def set_matmul_precision(precision: str) -> None:
    """Torch's own setting, which the caller has made, is all there is."""


# Randomness


def seed(seed: int) -> None:
    kind = device_type()
    if kind == "cpu":
        torch.manual_seed(seed)
    else:
        torch.get_device_module(kind).manual_seed_all(seed)


def rng_devices() -> int:
    kind = device_type()
    return 1 if kind == "cpu" or native.is_one_per_process(kind) else device_count()


def rng_state_bytes() -> int:
    return rng_state(0).numel()


def rng_state(index: int) -> torch.Tensor:
    kind = device_type()
    if kind == "cpu":
        return torch.get_rng_state()
    if native.is_native(kind):
        return native.rng_state(kind, _own_index(kind, index))
    state: torch.Tensor = torch.get_device_module(kind).get_rng_state(index)
    return state


def set_rng_state(state: torch.Tensor, index: int) -> None:
    kind = device_type()
    if kind == "cpu":
        torch.set_rng_state(state)
    elif native.is_native(kind):
        native.set_rng_state(kind, state, _own_index(kind, index))
    else:
        torch.get_device_module(kind).set_rng_state(state, index)


def _own_index(kind: str, index: int) -> int:
    return torch.accelerator.current_device_index() if native.is_one_per_process(kind) else index


def fork_rng(devices: Any, enabled: bool) -> AbstractContextManager[Any]:
    kind = device_type()
    if kind == "cpu":
        return torch.random.fork_rng(devices=[], enabled=enabled)
    if native.is_one_per_process(kind):
        devices = [torch.accelerator.current_device_index()]
    return torch.random.fork_rng(devices=devices, enabled=enabled, device_type=kind)


def generator(index: int | None) -> torch.Generator:
    return torch.Generator(device(index))


# Checkpoint files


def loads_natively() -> bool:
    return device_type() == "cuda"


def clones(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


# Graphs


def compile(function: Any, options: Mapping[str, Any]) -> Any:
    kind = device_type()
    if native.is_native(kind):
        return native.compile(kind, function, options)
    return function if kind == "cpu" else torch.compile(function, **options)


def checkpoint(
    function: Callable[..., Any], args: Any, kwargs: Any, options: Mapping[str, Any]
) -> Any:
    return torch_checkpoint(function, *args, **options, **kwargs)


def inference_mode(mode: bool) -> AbstractContextManager[Any]:
    return torch.inference_mode(mode)


def narrow(tensor: torch.Tensor, dim: int, start: Any, length: int) -> torch.Tensor:
    return torch.narrow(tensor, dim, start, length)


def put(tensor: torch.Tensor, dim: int, start: Any, value: Any, length: int | None) -> None:
    where: Any = start if length is None else slice(start, start + length)
    tensor[(slice(None),) * (dim % tensor.dim()) + (where,)] = value


# Services


def event(options: Mapping[str, Any]) -> Any:
    if device_type() != "cuda":
        return None
    return torch.cuda.Event(**options)  # type: ignore[no-untyped-call]


def memory_info(device: torch.device) -> dict[str, int | None]:
    if device.type == "cpu":
        return _host.memory_info()
    module = torch.get_device_module(device)
    if not hasattr(module, "max_memory_allocated"):
        return native.memory_info(device)
    return memory_figures(
        used=module.memory_allocated(device),
        peak=module.max_memory_allocated(device),
        limit=getattr(module.get_device_properties(device), "total_memory", None),
        reserved=module.memory_reserved(device),
        peak_reserved=module.max_memory_reserved(device),
    )


def mem_get_info(device: torch.device) -> tuple[int, int]:
    if device.type == "cpu":
        return _host.mem_get_info()
    module = torch.get_device_module(device)
    if not hasattr(module, "mem_get_info"):
        return native.mem_get_info(device)
    free, total = module.mem_get_info(device)
    return free, total


def reset_peak_memory_stats(device: torch.device) -> None:
    if device.type == "cpu":
        _host.reset_peak()
        return
    module = torch.get_device_module(device)
    if hasattr(module, "reset_peak_memory_stats"):
        module.reset_peak_memory_stats(device)
    else:
        native.reset_peak_memory_stats(device)


def metrics() -> dict[str, int | None]:
    return dict.fromkeys(METRICS)


# Processes


def replica() -> tuple[int, int, int]:
    return _launchers.replica_of_environment()


def spawn(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
    return torch.multiprocessing.spawn(_Process(function), args, **options)  # type: ignore[attr-defined,no-untyped-call]


class _Process:
    """Run in a started process, which knows its own device."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, local_rank: int, *args: Any) -> None:
        os.environ["LOCAL_RANK"] = str(local_rank)
        self._function(local_rank, *args)


_started_unasked = False


def _ensure_group() -> None:
    """Start a process group for scripts written for torch_xla, which start none themselves."""
    global _started_unasked
    if not dist.is_initialized() and replica()[2] > 1:
        init_process_group({"backend": None})
        _started_unasked = True


def init_process_group(options: dict[str, Any]) -> None:
    global _started_unasked
    if _started_unasked and dist.is_initialized():
        _started_unasked = False  # The group that the script requests exists already.
        return
    kind = device_type()
    if kind == "cpu":
        options["backend"] = "gloo"
    elif native.is_native(kind) and "nccl" in (options["backend"] or "nccl").lower():
        options["backend"] = native.process_group_backend(kind)
    elif kind != "cuda" and "nccl" in (options["backend"] or "").lower():
        options["backend"] = None  # Torch knows which fits the device.
    dist.init_process_group(**options)


def rendezvous(tag: str) -> None:
    _ensure_group()
    dist.barrier()


def settle() -> None:
    """Nothing waits to be launched."""


def collective(name: str, *args: Any, **kwargs: Any) -> Any:
    _ensure_group()
    return getattr(dist, name)(*args, **kwargs)


def total(tensors: Sequence[torch.Tensor], scale: float, group: Any = None) -> None:
    _ensure_group()
    for flat in flattened(tensors):
        dist.all_reduce(flat.values, group=group)
        flat.give_back(scale)


def broadcast(tensors: Sequence[torch.Tensor], src: int, group: Any = None) -> None:
    _ensure_group()
    for flat in flattened(tensors):
        dist.broadcast(flat.values, src, group=group)
        flat.give_back(1)
