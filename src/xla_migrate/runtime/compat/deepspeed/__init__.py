"""DeepSpeed's engine for data parallelism, without DeepSpeed: for XLA devices, and wherever the runtime is.

`from xla_migrate.runtime.compat import deepspeed` takes the place of `import deepspeed`. Tried beside DeepSpeed 0.19 on
the CPU: losses and learning rates of its ZeRO stages 0 to 3 are equal to rounding.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from ... import init_process_group
from ...processes import in_group, local_rank, rank, world_size
from . import checkpointing, zero
from .accelerator import get_accelerator
from .engine import DeepSpeedEngine, initialize

__all__ = [
    "DeepSpeedEngine",
    "add_config_arguments",
    "checkpointing",
    "get_accelerator",
    "init_distributed",
    "initialize",
    "zero",
]


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"deepspeed.{name} has no counterpart in the runtime: `xla-migrate explain XLA804` has the alternatives"
    )


def init_distributed(dist_backend: str | None = None, **options: Any) -> None:
    """``deepspeed.init_distributed``: start the process group, unless there is one.

    As with DeepSpeed, ``RANK``, ``LOCAL_RANK`` and ``WORLD_SIZE`` are in the environment afterwards.

    Args:
        dist_backend: What the CUDA script had; the device's own is taken.
        options: DeepSpeed's other options. Only ``timeout``, ``init_method``, ``rank``, ``world_size`` have an effect.

    Example:
        >>> deepspeed.init_distributed("nccl")
    """
    if not in_group():
        names = ("timeout", "init_method", "rank", "world_size")
        given = {k: options[k] for k in names if options.get(k) is not None}
        init_process_group(dist_backend, **given)
    ranks = {"RANK": rank(), "LOCAL_RANK": local_rank(), "WORLD_SIZE": world_size()}
    for name, value in ranks.items():
        os.environ.setdefault(name, str(value))


def add_config_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """``deepspeed.add_config_arguments``: the options ``--deepspeed`` and ``--deepspeed_config``.

    Args:
        parser: Gets the options.

    Returns:
        ``parser``.
    """
    group = parser.add_argument_group("DeepSpeed", "DeepSpeed configurations")
    for name in ("deepspeed", "deepscale"):
        group.add_argument(f"--{name}", default=False, action="store_true")
        group.add_argument(f"--{name}_config", default=None, type=str)
    return parser
