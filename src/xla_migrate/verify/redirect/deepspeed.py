"""An installed DeepSpeed trains on the redirected CUDA, without its kernels, ZeRO and half precision.

The engine then updates the model's own parameters with an optimizer of torch, so that each of them can be compared.
ZeRO's stages change where states are kept, not what is computed. Tried with DeepSpeed 0.19.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import os
import socket
from collections.abc import Callable
from typing import Any

import torch

from ..observe.numerics import precision
from ..observe.process.imports import after
from ..observe.process.patching import Patches
from .services import refuse

_HALVES = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "amp": torch.float16,
}
_OF_TORCH = ("adam", "adamw")  # the names of optimizers that torch's can replace, in small letters


def install(patches: Patches) -> None:
    """Let DeepSpeed take the redirected CUDA, with what it can compute there."""
    if importlib.util.find_spec("deepspeed") is None:
        return
    _set_environment(patches, {"DS_ACCELERATOR": "cuda"})
    actions: dict[str, Callable[[Any], None]] = {
        "deepspeed.runtime.config": lambda module: _simplify_configurations(patches, module),
        "deepspeed.comm.comm": lambda module: patches.put(
            module, "mpi_discovery", lambda **_: _set_environment(patches, _one_process())
        ),
        "deepspeed.runtime.zero": lambda module: patches.put(module, "Init", _NoPartitions),
    }
    patches.on_undo(after(actions))


def simplified(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return a copy that requests float32, no ZeRO, and torch's optimizers in place of kernels."""
    found = {k: copy.deepcopy(v) for k, v in configuration.items() if k not in _HALVES}
    found.pop("zero_optimization", None)
    optimizer = found.get("optimizer")
    if optimizer and str(optimizer.get("type")).lower() in _OF_TORCH:
        optimizer["params"] = {**(optimizer.get("params") or {}), "torch_adam": True}
    return found


def half_precisions(configuration: dict[str, Any]) -> list[torch.dtype]:
    """Return the half precisions that a configuration enables."""
    sections = {name: configuration.get(name) or {} for name in _HALVES}
    return [_HALVES[name] for name, section in sections.items() if section.get("enabled")]


def _simplify_configurations(patches: Patches, module: Any) -> None:
    hjson = importlib.import_module("hjson")  # what DeepSpeed reads its files with

    kind = module.DeepSpeedConfig
    begin = kind.__init__

    def init(self: Any, config: Any, *args: Any, **options: Any) -> None:
        if isinstance(config, (str, os.PathLike)) and os.path.exists(config):
            with open(config, encoding="utf-8") as file:
                config = hjson.load(file)
        if isinstance(config, dict):
            halves = half_precisions(config)
            if halves and precision.is_bfloat16():
                refuse("DeepSpeed's half precision", "compare in float32, without `--precision`")()
            for dtype in halves:
                precision.note(dtype)
            config = simplified(config)
        begin(self, config, *args, **options)

    patches.put(kind, "__init__", init)


class _NoPartitions(contextlib.nullcontext[None]):
    """Replaces ``deepspeed.zero.Init``: parameters stay whole."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


def _one_process() -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    of_this = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    return {**of_this, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def _set_environment(patches: Patches, values: dict[str, str]) -> None:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)

    def restore() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    patches.on_undo(restore)
