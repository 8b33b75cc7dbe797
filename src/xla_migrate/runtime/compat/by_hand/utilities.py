"""Utilities that scripts take from torch_xla: the same on eager backends, or of the device at hand."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import torch
from torch import nn

from ... import devices as _devices
from ..._backend import uses_torch_xla
from ...loading.batches import move
from ...precision import is_bf16_supported as is_bf16_supported
from ...processes import rank, rendezvous, world_size


def do_on_ordinals(
    target: Callable[..., Any], data: Any = (), ordinals: int | Iterable[int] = (0,)
) -> Any:
    """``target(*data)``, on the CPU, by these processes alone; all wait for each other."""
    result = None
    if rank() in ([ordinals] if isinstance(ordinals, int) else ordinals):
        cpu = torch.device("cpu")
        result = target(*move(data, cpu, lambda tensor: tensor.cpu()))
    rendezvous("xla.helpers.do_on_ordinals")
    return result


def process_index() -> int:
    runtime = _torch_xlas_runtime()
    return rank() if runtime is None else int(runtime.process_index())


def process_count() -> int:
    runtime = _torch_xlas_runtime()
    return world_size() if runtime is None else int(runtime.process_count())


def _torch_xlas_runtime() -> Any:
    """The module of torch_xla that counts processes; None if it takes each for the only one, in rehearsals."""
    if not uses_torch_xla():
        return None
    from ...torch_xla import groups, modules

    return None if groups.rehearses() else modules.xr


# Devices


def devices() -> list[torch.device]:
    return [_devices.xla_device()]


def get_xla_supported_devices(max_devices: int | None = None) -> list[str]:
    return [str(device) for device in devices()]


def real_devices() -> list[str]:
    return [f"{device_type()}:{device.index or 0}" for device in devices()]


def xla_real_devices(devices: Any = None) -> list[str]:
    return real_devices()


def xla_device_hw(device: Any) -> str:
    return device_type()


def xla_device_kind(device: Any = None) -> str:
    return _devices.device_name()


def device_type() -> str:
    return _devices.device_type().upper()


def set_device_type(pjrt_device: str) -> None:
    """The backend knows its device."""


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Nothing is compiled ahead, and nothing to be kept."""


def send_cpu_data_to_device(datas: Any, device: Any, input_sharding: Any = None) -> Any:
    if type(datas) is torch.Tensor:
        datas = [datas]
    return move(datas, _devices.xla_device(device), lambda tensor: tensor.to(device))


def optimization_barrier_(tensors: list[torch.Tensor]) -> None:
    """Nothing is fused that this could keep apart."""


def unlazy(tensors: list[torch.Tensor]) -> None:
    """Nothing waits to be computed."""


def host_index() -> int:
    return rank() // int(os.environ.get("LOCAL_WORLD_SIZE") or world_size())


def eager_mode(enable: bool) -> None:
    """It is always on."""


def is_eager_mode() -> bool:
    return True


@contextlib.contextmanager
def eager_mode_context(enable: bool) -> Iterator[bool]:
    yield True


# Processes


class MpModelWrapper:
    """A model that processes move one after another."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._lock = torch.multiprocessing.Lock()

    def to(self, device: Any) -> nn.Module:
        with self._lock:
            self._model.to(device)
        return self._model


class MpSerialExecutor:
    """Runs a function in one process after the other."""

    def __init__(self) -> None:
        self._lock = torch.multiprocessing.Lock()

    def run(self, fn: Callable[[], Any]) -> Any:
        with self._lock:
            return fn()


# Data and rates


class RateTracker:
    """The rate per second: smoothed, and from the start."""

    def __init__(self, smooth_factor: float | None = None) -> None:
        given = float(os.environ.get("RATE_TRACKER_SMOOTHING", 0.4))
        self._smooth = given if smooth_factor is None else smooth_factor
        self._start = self._since = time.time()
        self._before = self._count = 0.0
        self._rate: float | None = None

    def add(self, count: float) -> None:
        self._count += count

    def rate(self) -> float:
        now = time.time()
        if now <= self._since:
            return 0.0
        rate = self._count / (now - self._since)
        if self._rate is not None:
            rate = (1 - self._smooth) * rate + self._smooth * self._rate
        self._before += self._count
        self._count, self._since, self._rate = 0.0, now, rate
        return rate

    def global_rate(self) -> float:
        passed = time.time() - self._start
        return (self._before + self._count) / passed if passed > 0 else 0.0


class SampleGenerator:
    """The same batch again and again."""

    def __init__(self, data: Any, sample_count: int) -> None:
        self._data, self._sample_count, self._count = data, sample_count, 0

    def __iter__(self) -> SampleGenerator:
        return SampleGenerator(self._data, self._sample_count)

    def __len__(self) -> int:
        return self._sample_count

    def __next__(self) -> Any:
        if self._count >= self._sample_count:
            raise StopIteration
        self._count += 1
        return self._data

    next = __next__


class FnDataGenerator:
    """Batches that are drawn, with what a function makes of them."""

    def __init__(
        self, func: Any, batch_size: int, gen_tensor: Any, dims: Any = None, count: int = 1
    ) -> None:
        self._given = (func, batch_size, gen_tensor, list(dims) if dims else [1], count)
        self._emitted = 0

    def __len__(self) -> int:
        return self._given[4]

    def __iter__(self) -> FnDataGenerator:
        return FnDataGenerator(*self._given)

    def __next__(self) -> tuple[Any, Any]:
        function, size, draw, dims, count = self._given
        if self._emitted >= count:
            raise StopIteration
        self._emitted += 1
        data = draw(size, *dims)
        return data, function(data)

    next = __next__


# The environment, and logs


def getenv_as(name: str, type: Callable[[str], Any], defval: Any = None) -> Any:
    value = os.environ.get(name)
    if value is None:
        return defval
    return bool(int(value)) if type is bool else type(value)


def check_env_flag(name: str, default: str = "") -> bool:
    flag = os.environ.get(name, default)
    return flag == "true" or (flag.isdigit() and int(flag) > 0)


def eprint(*args: Any, **kwargs: Any) -> None:
    print(*args, file=sys.stderr, **kwargs)


def parallel_work(num_workers: int, fn: Callable[..., Any], *args: Any) -> list[Any]:
    with ThreadPoolExecutor(max_workers=num_workers) as pool:
        return list(pool.map(fn, *args))


def now(format: str = "%H:%M:%S") -> str:
    return datetime.now().strftime(format)


def get_summary_writer(logdir: str | None) -> Any:
    if not logdir:
        return None
    from tensorboardX import SummaryWriter  # type: ignore[import-not-found,unused-ignore]

    writer = SummaryWriter(log_dir=logdir)
    write_to_summary(writer, 0, {"TensorboardStartTimestamp": time.time()})
    return writer


def write_to_summary(
    summary_writer: Any,
    global_step: int | None = None,
    dict_to_write: dict[str, Any] | None = None,
    write_xla_metrics: bool = False,
) -> None:
    """The scalars; torch_xla's metrics are none here."""
    if summary_writer is not None:
        for key, value in (dict_to_write or {}).items():
            summary_writer.add_scalar(key, value, global_step)


def close_summary_writer(summary_writer: Any) -> None:
    if summary_writer is not None:
        summary_writer.flush()
        summary_writer.close()


def print_training_update(
    device: Any,
    step: int,
    loss: float,
    rate: float,
    global_rate: float,
    epoch: int | None = None,
    summary_writer: Any = None,
) -> None:
    told = [f"Epoch={epoch}"] if epoch is not None else []
    told += [f"Step={step}", f"Loss={loss:.5f}", f"Rate={rate:.2f}"]
    told += [f"GlobalRate={global_rate:.2f}", f"Time={now()}"]
    print("|", "Training", f"Device={device}/{rank()}", *told, flush=True)
    if summary_writer:
        rates = {"examples/sec": rate, "average_examples/sec": global_rate}
        write_to_summary(summary_writer, dict_to_write=rates)


def print_test_update(
    device: Any, accuracy: float | None, epoch: int | None = None, step: int | None = None
) -> None:
    told = [f"Step={step}"] if step is not None else []
    told += [f"Epoch={epoch}"] if epoch is not None else []
    told += [f"Accuracy={accuracy:.2f}"] if accuracy is not None else []
    print("|", "Test", f"Device={device}/{rank()}", *told, f"Time={now()}", flush=True)
