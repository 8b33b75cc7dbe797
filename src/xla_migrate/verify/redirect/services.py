"""The services of `torch.cuda`: devices, waiting, memory, seeds, NVTX, graphs.

Every function that needs a driver (data/cuda_without_gpu: most of them raise, the silent ones return
0, None or False) gets an answer that is true of this run, or a clear refusal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from ..observe.numerics import device_random
from ..observe.process.patching import Patches
from . import memory, streams
from .devices import cuda_index, state
from .marks import index_of

# Ampere: scripts that ask get bfloat16, as on the machines that they are written for.
CAPABILITY = (8, 0)
NAME = "redirected CUDA device (CPU)"


class Unsupported(RuntimeError):
    """A call that a redirected run cannot make; the message names the call and what to do."""


def refuse(what: str, advice: str) -> Callable[..., Any]:
    """A callable that raises `Unsupported`."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise Unsupported(f"{what} cannot run on the CPU in place of CUDA: {advice}")

    return refused


def refuse_class(what: str, advice: str) -> type:
    """A class that cannot be made; annotations and isinstance still work with it."""
    return type(what.rpartition(".")[2], (), {"__init__": refuse(what, advice)})


def nothing(*args: Any, **kwargs: Any) -> None:
    """For waits and hints that are moot on the CPU."""


def _index(spec: Any = None) -> int:
    index = cuda_index("cuda" if spec is None else spec)
    if index is None:
        raise ValueError(f"Expected a cuda device, but got: {spec}")
    return index


def set_device(spec: Any) -> None:
    """torch.cuda.set_device; negative numbers are ignored, as there."""
    if not (type(spec) is int and spec < 0):
        state.current = _index(spec)


class DeviceContext(contextlib.ContextDecorator):
    """`with torch.cuda.device(i):`; a negative index or None changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or device == -1 else _index(device)

    def __enter__(self) -> None:
        self.prev_idx = state.current
        state.current = self.idx if self.idx >= 0 else self.prev_idx

    def __exit__(self, *exc: object) -> None:
        state.current = self.prev_idx


class DeviceOf(DeviceContext):
    """`with torch.cuda.device_of(tensor):`."""

    def __init__(self, obj: Any) -> None:
        super().__init__(index_of(obj) if isinstance(obj, torch.Tensor) else None)


def properties(spec: Any = None) -> SimpleNamespace:
    """torch.cuda.get_device_properties."""
    _index(spec)
    return SimpleNamespace(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=memory.total(),
        multi_processor_count=os.cpu_count() or 1,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="sm_80",
    )


def get_rng_state(device: Any = "cuda") -> torch.Tensor:
    """The state of the run's device generator."""
    return device_random.generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
    """Restore the run's device generator; a state saved on a real GPU has another layout."""
    if new_state.numel() != device_random.generator.get_state().numel():
        raise Unsupported(
            f"an RNG state of {new_state.numel()} bytes comes from a real GPU and cannot be restored"
            " on the CPU: verify a run that starts from a seed"
        )
    device_random.generator.set_state(new_state.cpu())


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """torch.cuda.set_rng_state_all: one generator serves every device."""
    if new_states:
        set_rng_state(new_states[0])


def _seed() -> int:
    # "Random" seeds too must agree between the two runs.
    return device_random.generator.initial_seed()


def range_(msg: str, *args: Any, **kwargs: Any) -> Any:
    """torch.cuda.nvtx.range as context manager and decorator."""

    @contextlib.contextmanager
    def span() -> Iterator[None]:
        yield

    return span()


_DEVICES: dict[str, Any] = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "init": nothing,
    "_lazy_init": nothing,
    "_lazy_call": nothing,
    "_is_in_bad_fork": lambda: False,
    "device_count": lambda: state.count,
    "_device_count_nvml": lambda: state.count,
    "_raw_device_count_nvml": lambda: state.count,
    "current_device": lambda: state.current,
    "set_device": set_device,
    "device": DeviceContext,
    "device_of": DeviceOf,
    "_exchange_device": lambda index: _exchange(index),
    "_maybe_exchange_device": lambda index: _exchange(index),
    "get_device_name": lambda device=None: properties(device).name,
    "get_device_capability": lambda device=None: (_index(device), CAPABILITY)[1],
    "get_device_properties": properties,
    "_get_device_properties": properties,
    "get_arch_list": lambda: ["sm_80"],
    "get_gencode_flags": lambda: "",
    "is_bf16_supported": lambda including_emulation=True: True,
    "is_tf32_supported": lambda: True,
    "can_device_access_peer": lambda device, peer_device: device != peer_device,
    "synchronize": nothing,
    "empty_cache": nothing,
    "ipc_collect": nothing,
    "Stream": streams.Stream,
    "ExternalStream": streams.Stream,
    "Event": streams.RedirectedEvent,
    "StreamContext": streams.StreamContext,
    "stream": streams.StreamContext,
    "current_stream": streams.current_stream,
    "default_stream": streams.current_stream,
    "set_stream": nothing,
    "is_current_stream_capturing": lambda: False,
    "set_sync_debug_mode": nothing,
    "get_sync_debug_mode": lambda: 0,
    "current_blas_handle": refuse("torch.cuda.current_blas_handle()", "there is no cuBLAS here"),
    "cudart": refuse("torch.cuda.cudart()", "profile the original on a GPU"),
}

_GRAPHS = (
    "turn CUDA graphs off for the verification; on XLA every step is one compiled graph anyway"
)
_CAPTURE: dict[str, Any] = {
    "CUDAGraph": refuse_class("torch.cuda.CUDAGraph", _GRAPHS),
    "graph": refuse_class("torch.cuda.graph", _GRAPHS),
    "make_graphed_callables": refuse("torch.cuda.make_graphed_callables", _GRAPHS),
}

_NVML = "NVML needs a GPU; the call only informs: remove it from the verified run"
_FIGURES: dict[str, Any] = {
    name: refuse(f"torch.cuda.{name}()", _NVML)
    for name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage")
}

_MEMORY: dict[str, Any] = {
    **dict.fromkeys(("memory_allocated", "memory_reserved", "memory_cached"), memory.used),
    **dict.fromkeys(
        ("max_memory_allocated", "max_memory_reserved", "max_memory_cached"), memory.peak
    ),
    **dict.fromkeys(
        (
            "reset_peak_memory_stats",
            "reset_max_memory_allocated",
            "reset_max_memory_cached",
            "reset_accumulated_memory_stats",
        ),
        memory.reset_peak,
    ),
    "memory_stats": memory.stats,
    "memory_summary": memory.summary,
    "memory_snapshot": lambda *args, **kwargs: [],
    "mem_get_info": memory.info,
    "device_memory_used": memory.used,
    "list_gpu_processes": memory.summary,
    "set_per_process_memory_fraction": nothing,
    "_record_memory_history": nothing,
}

_SEEDS: dict[str, Any] = {
    "manual_seed": device_random.seed,
    "manual_seed_all": device_random.seed,
    "seed": nothing,
    "seed_all": nothing,
    "initial_seed": _seed,
    "get_rng_state": get_rng_state,
    "get_rng_state_all": lambda: [get_rng_state() for _ in range(state.count)],
    "set_rng_state": set_rng_state,
    "set_rng_state_all": set_rng_state_all,
    "default_generators": (device_random.generator,),
}

_NVTX: dict[str, Any] = {
    "range_push": lambda msg: 0,
    "range_pop": lambda: 0,
    "range_start": lambda msg: 0,
    "range_end": nothing,
    "mark": nothing,
    "range": range_,
}

_ACCELERATOR: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: state.count,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_device_index": lambda: state.current,
    "current_device_idx": lambda: state.current,
    "set_device_index": set_device,
    "set_device_idx": set_device,
    "device_index": DeviceContext,
    "current_stream": streams.current_stream,
    "set_stream": nothing,
    "synchronize": nothing,
    "empty_cache": nothing,
    "memory_allocated": memory.used,
    "memory_reserved": memory.used,
    "max_memory_allocated": memory.peak,
    "max_memory_reserved": memory.peak,
    "memory_stats": memory.stats,
    "reset_peak_memory_stats": memory.reset_peak,
    "reset_accumulated_memory_stats": memory.reset_peak,
}


def _exchange(index: int) -> int:
    before = state.current
    if index >= 0:
        state.current = index
    return before


def _put_all(patches: Patches, module: Any, names: dict[str, Any]) -> None:
    for name, value in names.items():
        if hasattr(module, name):
            patches.put(module, name, value)


def install(patches: Patches) -> None:
    """Answer for torch.cuda, its submodules, torch.accelerator and the flags of torch.backends."""
    everything = {**_DEVICES, **_CAPTURE, **_FIGURES, **_MEMORY, **_SEEDS}
    for module in (
        torch.cuda,
        torch.cuda.memory,
        torch.cuda.random,
        torch.cuda.streams,
        torch.cuda.graphs,
    ):
        _put_all(patches, module, everything)
    _put_all(patches, torch.cuda.nvtx, _NVTX)
    _put_all(patches, torch.accelerator, _ACCELERATOR)
    if hasattr(torch.accelerator, "memory"):  # since torch 2.9
        _put_all(patches, torch.accelerator.memory, _ACCELERATOR)
    patches.put(torch, "Stream", streams.Stream)
    patches.put(torch, "Event", streams.RedirectedEvent)
    _profiler(patches)
    _backends(patches)
    before = state.current
    patches.on_undo(lambda: setattr(state, "current", before))


def _profiler(patches: Patches) -> None:
    from torch.cuda import profiler

    @contextlib.contextmanager
    def profile() -> Iterator[None]:
        yield

    for name, value in {"start": nothing, "stop": nothing, "profile": profile}.items():
        patches.put(profiler, name, value)


def _backends(patches: Patches) -> None:
    # cuDNN's kernels are what the CPU cannot take; asking for and setting its flags is harmless.
    patches.put(torch.backends.cudnn, "is_available", lambda: True)
    patches.put(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    # With these switches CUDA picks a kernel; on the CPU they could forbid the only one there is.
    attention = torch.backends.cuda
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        chosen = {"on": True}
        patches.put(attention, f"enable_{name}_sdp", lambda on, c=chosen: c.update(on=bool(on)))
        patches.put(attention, f"{name}_sdp_enabled", lambda c=chosen: c["on"])

    @contextlib.contextmanager
    def any_kernel(*args: Any, **kwargs: Any) -> Iterator[None]:
        yield

    patches.put(attention, "sdp_kernel", any_kernel)
    from torch.nn import attention as nn_attention

    patches.put(nn_attention, "sdpa_kernel", any_kernel)
    for cache in ("cufft_plan_cache",):
        patches.put(attention, cache, SimpleNamespace(clear=nothing, size=0, max_size=0))
