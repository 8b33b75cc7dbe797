"""Support for XLA devices that Lightning lacks. Looks up Lightning's modules when called.

Tried with Lightning 2.6 and torch_xla 2.9.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from .._backend import uses_torch_xla
from ..precision import autocast
from ..step import mark_step, optimizer_step, reduce_gradients

_FABRICS = ("lightning.fabric", "lightning_fabric")
_TRAINERS = ("lightning.pytorch", "pytorch_lightning")
_MIXED = "bf16-mixed"
# In place of float16's, by all its names.
_INSTEAD = {16: _MIXED, "16": _MIXED, "16-mixed": _MIXED}
_OF_GPUS = ("gpu", "cuda")
_REPLICATED = ("DDPStrategy", "DataParallelStrategy")
# What Lightning's own half precision does, and its precision for XLA leaves to an environment variable.
_OF_HALF = (
    "convert_module convert_input convert_output tensor_init_context module_init_context "
    "forward_context"
).split()


def patch_lightning() -> None:
    """Let Lightning's Trainer and Fabric train on every XLA device, and in bfloat16.

    - ``accelerator="auto"`` takes the XLA device that torch_xla has. Lightning looks for a TPU alone, so on
      Trainium and on XLA:CPU it trains on the CPU, without torch_xla. There it gets one device.
    - A request for CUDA in a call, on the command line or in a settings file becomes a request for XLA:
      ``accelerator="gpu"``, ``devices=-1``, ``strategy="ddp"`` or a ``DDPStrategy`` with its order of samples, and
      ``precision="16-mixed"``, which becomes bfloat16's.
    - ``precision="bf16-mixed"`` is bfloat16 autocast, as on CUDA. Lightning raises on XLA.
    - ``precision="bf16-true"`` makes weights and inputs bfloat16, as on CUDA. Lightning sets ``XLA_USE_BF16``, with which
      nothing is computed in float32, whatever the script says.
    - Each batch of an evaluation is a separate graph. On one device Lightning marks only the optimizer's steps.
    - Clipping that the script calls itself sees gradients that are averaged over the processes.

    Call it before the ``Trainer`` or ``Fabric`` is made. It changes nothing where torch_xla is not the backend, and
    a second call does nothing.

    Example:
        >>> xla.patch_lightning()
    """
    if not uses_torch_xla():
        return
    for package in _FABRICS:
        if package in sys.modules:
            _every_device(importlib.import_module(f"{package}.accelerators.xla").XLAAccelerator)
            _marks_turns(importlib.import_module(f"{package}.wrappers")._FabricDataLoader)
            _as_on_cuda(importlib.import_module(f"{package}.connector")._Connector, package)
    for package in _TRAINERS:
        if package in sys.modules:
            home = f"{package}.trainer.connectors.accelerator_connector"
            connector = importlib.import_module(home)._AcceleratorConnector
            if not hasattr(connector._check_config_and_set_final_flags, "of_xla_migrate"):
                trainer = importlib.import_module(f"{package}.trainer.trainer").Trainer
                _samples_as_ddp(connector, trainer)
                strategy = importlib.import_module(f"{package}.strategies.single_xla")
                _marks_evaluations(strategy.SingleDeviceXLAStrategy)
                _seeds_as_ddp(strategy.SingleDeviceXLAStrategy, package)
            _as_on_cuda(connector, package)
    for package in (*_FABRICS, *_TRAINERS):
        if package in sys.modules:
            precisions = f"{package}.plugins.precision"
            half = importlib.import_module(f"{precisions}.half").HalfPrecision
            xla_precision = importlib.import_module(f"{precisions}.xla").XLAPrecision
            _in_bfloat16(xla_precision, half)
            _averages_once(xla_precision)


def _every_device(accelerator: Any) -> None:
    count = accelerator.auto_device_count
    if hasattr(count, "of_xla_migrate"):
        return

    @functools.lru_cache(maxsize=1)
    def auto_device_count() -> int:
        # Not asked of torch_xla's runtime: a TPU's must not begin before Lightning starts its processes.
        try:
            return int(count()) or 1
        except (ValueError, AssertionError, OSError):
            return 1

    auto_device_count.of_xla_migrate = True  # type: ignore[attr-defined]
    accelerator.auto_device_count = staticmethod(auto_device_count)
    accelerator.is_available = staticmethod(lambda: True)


def _as_on_cuda(connector: Any, package: str) -> None:
    """Wrap the connector, which derives accelerator, strategy and precision from a Trainer's arguments."""
    choose, count = (
        connector._check_config_and_set_final_flags,
        connector._check_device_config_and_set_final_flags,
    )
    if hasattr(choose, "of_xla_migrate"):
        return

    @functools.wraps(choose)
    def chosen(self: Any, **given: Any) -> None:
        taken = _on_xla(given)
        self.of_ddp = taken["strategy"] != given["strategy"]
        choose(self, **taken)

    @functools.wraps(count)
    def counted(self: Any, devices: Any, **given: Any) -> None:
        if self._accelerator_flag in ("auto", "tpu"):
            if devices in (-1, "-1") or _is_more_than_there_are(devices, package):
                devices = "auto"
        count(self, devices=devices, **given)

    chosen.of_xla_migrate = True  # type: ignore[attr-defined]
    connector._check_config_and_set_final_flags = chosen
    connector._check_device_config_and_set_final_flags = counted


def _is_more_than_there_are(devices: Any, package: str) -> bool:
    """Return True, with a warning, for a number of devices that Lightning refuses on this host."""
    accelerator = importlib.import_module(f"{_fabric_of(package)}.accelerators.xla").XLAAccelerator
    there = accelerator.auto_device_count()
    if type(devices) is not int or devices <= there:
        return False
    warnings.warn(
        f"Lightning uses devices='auto', not {devices}: this host gives it {there}", stacklevel=2
    )
    return True


def _fabric_of(package: str) -> str:
    return "lightning.fabric" if package.startswith("lightning.") else "lightning_fabric"


def _on_xla(given: dict[str, Any]) -> dict[str, Any]:
    """Translate the accelerator, strategy and precision in `given` to their equivalents on XLA."""
    accelerator, strategy, precision = (
        given.get(name) for name in ("accelerator", "strategy", "precision")
    )
    if accelerator in _OF_GPUS or type(accelerator).__name__ == "CUDAAccelerator":
        accelerator = "auto"
    if accelerator not in ("auto", "tpu") and type(accelerator).__name__ != "XLAAccelerator":
        return given
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        raise RuntimeError(
            "Lightning starts one process per XLA device itself; under another launcher each would train a separate model: "
            "start the script once, with `python`"
        )
    name = strategy.lower() if isinstance(strategy, str) else type(strategy).__name__
    if name == "dp" or name.startswith("ddp") or name in _REPLICATED:
        strategy = "auto"
    if precision in _INSTEAD:
        warnings.warn(f"float16 is bfloat16 on XLA: {precision!r} is {_MIXED!r}", stacklevel=2)
        precision = _INSTEAD[precision]
    return {**given, "accelerator": accelerator, "strategy": strategy, "precision": precision}


def _marks_evaluations(strategy: Any) -> None:
    """On one device Lightning marks the optimizer's steps alone: all batches of an evaluation would be one graph."""
    for name in ("validation_step", "test_step", "predict_step"):
        setattr(strategy, name, _then_marked(getattr(strategy, name)))


def _then_marked(step: Any) -> Any:
    @functools.wraps(step)
    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = step(self, *args, **kwargs)
        mark_step()
        return result

    return marked


def _marks_turns(loader: Any) -> None:
    """The same of the loops over Fabric's loaders, which the script writes."""
    iterate = loader.__iter__
    if hasattr(iterate, "of_xla_migrate"):
        return

    @functools.wraps(iterate)
    def marked(self: Any) -> Iterator[Any]:
        is_on_xla = (
            getattr(self._device, "type", "") == "xla"
        )  # None where the strategy's loader marks
        for batch in iterate(self):
            yield batch
            if is_on_xla:
                mark_step()

    marked.of_xla_migrate = True  # type: ignore[attr-defined]
    loader.__iter__ = marked


def _samples_as_ddp(connector: Any, trainer: Any) -> None:
    """Use the sampler of Lightning's DDP, which shuffles the training data, even for a single device."""
    is_distributed, kwargs = connector.is_distributed, trainer.distributed_sampler_kwargs

    def get_is_distributed(self: Any) -> bool:
        return self.of_ddp or bool(is_distributed.fget(self))

    def get_kwargs(self: Any) -> Any:
        found = kwargs.fget(self)
        if found is None and self._accelerator_connector.of_ddp:
            return {"num_replicas": 1, "rank": 0}
        return found

    connector.is_distributed = property(get_is_distributed)
    trainer.distributed_sampler_kwargs = property(get_kwargs)


def _seeds_as_ddp(strategy: Any, package: str) -> None:
    """Seed again when the training starts, as Lightning's DDP does, so that the random numbers of the host are the same."""
    prepare = strategy.setup_environment

    @functools.wraps(prepare)
    def seeded(self: Any) -> None:
        prepare(self)
        module = self.lightning_module
        if module is not None and module.trainer._accelerator_connector.of_ddp:
            importlib.import_module(f"{_fabric_of(package)}.utilities.seed").reset_seed()

    strategy.setup_environment = seeded


def _in_bfloat16(precision: Any, half: Any) -> None:
    init = precision.__init__
    if hasattr(init, "of_xla_migrate"):
        return

    @functools.wraps(init)
    def with_bfloat16(self: Any, precision: str = "32-true") -> None:
        bfloat16 = precision in (_MIXED, "bf16-true")
        init(self, "32-true" if bfloat16 else precision)
        self.precision = precision
        self._half = half(precision) if precision == "bf16-true" else None

    with_bfloat16.of_xla_migrate = True  # type: ignore[attr-defined]
    precision.__init__ = with_bfloat16
    precision.forward_context = _forward_context(precision.forward_context)
    for name in _OF_HALF:
        setattr(precision, name, _as_half(getattr(precision, name), name))


def _as_half(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._half is not None:
            return getattr(self._half, name)(*args, **kwargs)
        return plain(self, *args, **kwargs)

    return method


def _forward_context(plain: Callable[[Any], AbstractContextManager[None]]) -> Any:
    @contextmanager
    def forward_context(self: Any) -> Iterator[None]:
        with plain(self):
            if self.precision != _MIXED:
                yield
                return
            with autocast(dtype=torch.bfloat16):
                yield

    return forward_context


def _averages_once(precision: Any) -> None:
    """Average gradients before the script clips, because Lightning averages later, in the step."""
    parameters = precision.main_params  # every kind of clipping in Lightning calls this
    if hasattr(parameters, "of_xla_migrate"):
        return

    @functools.wraps(parameters)
    def main_params(self: Any, optimizer: Any) -> Any:
        reduce_gradients(optimizer)
        return parameters(self, optimizer)

    main_params.of_xla_migrate = True  # type: ignore[attr-defined]
    precision.main_params = main_params
    if hasattr(precision, "_xla_wrap_closure"):
        precision._xla_wrap_closure = _trainers_closure
    else:
        precision.optimizer_step = _fabrics_step


def _trainers_closure(precision: Any, optimizer: Any, closure: Callable[[], Any]) -> Any:
    result = closure()
    reduce_gradients(optimizer)
    return result


def _fabrics_step(precision: Any, optimizer: Any, **kwargs: Any) -> Any:
    result = optimizer_step(optimizer, average=True, **kwargs)
    mark_step()
    return result
