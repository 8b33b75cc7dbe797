"""Compiler options by the names of `[tool.xla-migrate.target]`, set by the script itself."""

from __future__ import annotations

import os
import sys
import warnings

from ...compiler.environment import plan
from ...compiler.machines import CPU, MACHINES, NEURON, TPU
from ...compiler.profile import Given, machine, of_keywords
from .._backend import uses_torch_xla


def compiler_options(machine_name: str = "", /, **options: bool | int | str) -> dict[str, str]:
    """Set compiler and runtime options for this process, before it first touches a device.

    Sets environment variables that the compilers read when the device is opened, so that processes started from
    here on have them, too. Where torch_xla is not used, nothing is set.

    Args:
        machine_name: one of the table's machines ("trn1", "v5e", "cpu" ...); by default what PJRT_DEVICE names,
            or what is there.
        options: by the names of the table, with underscores: ``optimization=1, auto_cast="matmult"``. One that
            means nothing on this machine is left out, with a warning.

    Returns:
        The variables that were set.

    Raises:
        RuntimeError: torch_xla has opened its device already, and options would have no effect.
        ValueError: an option is unknown, or contradicts another or the environment.

    Example:
        >>> xla.compiler_options("trn1", optimization=1)  # doctest: +SKIP
    """
    profile = {
        key: Given(given.value, given.origin)  # not own: one script for every machine
        for key, given in of_keywords(options, "compiler_options").items()
    }
    if not uses_torch_xla():
        return {}
    if _is_open():
        raise RuntimeError(
            "compiler_options: torch_xla has already opened its device, so the options have no "
            "effect: call it before other functions of the runtime"
        )
    found = plan(MACHINES[machine(machine_name or _here(), "machine")], profile, os.environ)
    for note in found.notes:
        warnings.warn(f"compiler_options: {note}", stacklevel=2)
    settings = found.environment(os.environ)
    os.environ.update(settings)
    return settings


def _is_open() -> bool:
    torch_xla = sys.modules.get("torch_xla")
    return torch_xla is not None and bool(torch_xla._XLAC._xla_runtime_is_initialized())


def _here() -> str:
    """The machine that PJRT_DEVICE names, or that is there."""
    named = os.environ.get("PJRT_DEVICE", "").lower()
    if named:
        return named
    if any(os.path.exists(f"/dev/neuron{k}") for k in range(16)):
        return NEURON
    from torch_xla._internal import tpu

    return TPU if tpu.num_available_chips() else CPU
