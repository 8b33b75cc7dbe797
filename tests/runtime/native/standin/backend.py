"""The Python side of the stand-in: torch loads it as a backend of its own (entry point ``load``).

STANDIN_NAME says how the device is called. "tpu" is as ``torch_tpu`` 0.2.0 is: a process has one device, bound to
its local rank, which ``set_device`` cannot change; the functions of ``torch.tpu`` that ``torch.accelerator`` has too
are for torch alone; inductor is refused. "neuron" has devices to choose from, as CUDA has. STANDIN_MEMORY_FIGURES=0
takes the memory figures away.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from typing import Any

NAME = os.environ.get("STANDIN_NAME", "")
LIKE_TORCH_TPU = NAME == "tpu"


def load() -> None:
    """Called at the end of ``import torch``."""
    if not NAME:
        return
    os.environ["STANDIN_OWN_DEVICE"] = str(int(LIKE_TORCH_TPU))
    os.environ.setdefault("STANDIN_MEMORY_FIGURES", "1")
    import torch
    from torch_standin import standin_device as device

    device.start()
    torch.utils.rename_privateuse1_backend(NAME)
    torch.utils.generate_methods_for_privateuse1_backend()
    module = _module(device)
    torch._register_device_module(NAME, module)
    sys.modules[module.__name__] = module
    from torch_standin import kernels

    kernels.register(device.host)
    _register_group(device)
    _register_compiler()


def _index(given: Any, device: Any) -> int:
    import torch

    if isinstance(given, str):
        given = torch.device(given)
    index = given.index if isinstance(given, torch.device) else given
    return device.current() if index is None else index


def _for_torch_alone(function: Any) -> Any:
    """What torch_tpu calls internal: a RuntimeError for every caller but torch."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if LIKE_TORCH_TPU and caller.partition(".")[0] not in ("torch", "torch_standin"):
            raise RuntimeError(f"{function.__name__} is internal: use torch.accelerator")
        return function(*args, **kwargs)

    return checked


_INTERNAL = (
    "device",
    "is_available",
    "device_count",
    "current_device",
    "set_device",
    "synchronize",
)
_INTERNAL += ("get_rng_state", "current_stream")


class _Module(types.ModuleType):
    """``torch.tpu`` or ``torch.neuron``."""

    @property
    def default_generators(self) -> Any:
        if not LIKE_TORCH_TPU:
            raise AttributeError("default_generators")
        return tuple(self._generator(index) for index in range(self._count()))


def _module(device: Any) -> types.ModuleType:
    import torch

    def set_device(given: Any) -> None:
        index = _index(given, device)
        if LIKE_TORCH_TPU and index != device.current():
            raise ValueError(
                f"cannot set the device to {index}: this process is bound to {device.current()}"
            )
        device.use(index)

    class chosen:  # as torch.cuda.device
        def __init__(self, given: Any) -> None:
            self._index = _index(given, device)

        def __enter__(self) -> None:
            self._before = device.current()
            set_device(self._index)

        def __exit__(self, *error: Any) -> None:
            set_device(self._before)

    def manual_seed_all(seed: int) -> None:
        for index in range(device.count()):
            device.seed(index, seed % 2**64)

    def get_rng_state(given: Any = None) -> torch.Tensor:
        index = _index(given, device)
        if LIKE_TORCH_TPU and index != device.current():
            raise ValueError(f"device {index} is not this process's, {device.current()}")
        return device.state(index)

    def set_rng_state(state: torch.Tensor, given: Any = None) -> None:
        device.set_state(_index(given, device), state)

    def placed(given: Any) -> torch.device:
        return torch.device(NAME, _index(given, device))

    names: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "_lazy_init": lambda: None,
        "_generator": device.generator,
        "_count": device.count,
        "device": chosen,
        "device_count": device.count,
        "current_device": device.current,
        "set_device": set_device,
        "synchronize": lambda given=None: None,
        "manual_seed": lambda seed: device.seed(device.current(), seed % 2**64),
        "manual_seed_all": manual_seed_all,
        "get_rng_state": get_rng_state,
        "set_rng_state": set_rng_state,
        "get_amp_supported_dtype": lambda: [torch.bfloat16, torch.float16],
        "get_device_name": lambda given=None: f"stand-in for {NAME}",
        "Stream": lambda device=None, priority=0: torch.Stream(placed(device), priority=priority),
        "Event": functools.partial(torch.Event, NAME),
        "current_stream": lambda given=None: torch.accelerator.current_stream(placed(given)),
        "stream": lambda stream: stream or contextlib.nullcontext(),
    }
    names |= {name: _for_torch_alone(names[name]) for name in _INTERNAL}
    made = _Module(f"torch.{NAME}")
    made.__dict__.update(names)
    return made


def _register_group(device: Any) -> None:
    import torch.distributed as dist

    def create(store: Any, rank: int, size: int, timeout: Any) -> Any:
        return device.Group(dist.ProcessGroupGloo(store, rank, size, timeout=timeout), rank, size)

    dist.Backend.register_backend(f"{NAME}_dist", create, devices=[NAME])


def _register_compiler() -> None:
    """A compiler of this name, which runs the graph as it is; inductor is refused, as torch_tpu does.

    As `neuron` it refuses shapes that are not known, as TorchNeuron does.
    """
    import torch
    from torch._dynamo.backends import registry

    def compiler(graph: Any, inputs: Any) -> Any:
        if NAME == "neuron" and any(isinstance(value, torch.SymInt) for value in inputs):
            raise RuntimeError("dynamic shapes are not compiled")
        compiled.append(graph)
        return graph.forward

    registry.register_backend(compiler, name=NAME)
    if LIKE_TORCH_TPU:
        refused: Any = torch._TorchCompileInductorWrapper

        def refuse(self: Any, graph: Any, inputs: Any) -> Any:
            if any(isinstance(x, torch.Tensor) and x.device.type == NAME for x in inputs):
                raise RuntimeError("inductor does not compile for this device")
            return inductor(self, graph, inputs)

        inductor = refused.__call__
        refused.__call__ = refuse


compiled: list[Any] = []
