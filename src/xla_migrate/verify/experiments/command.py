"""The command that runs a script: alone, under torchrun, or as a module of its package; and its environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ...script_environment import QUIET, free_port
from ..observe.plan import VARIABLE, RunPlan
from .starting import starts_processes

BOOT = Path(__file__).parent.parent / "observe" / "boot"

# A reference must not meet torch_xla (fact 1.106); these libraries look for it by themselves.
_WITHOUT_XLA = {"USE_TORCH_XLA": "0", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def command(python: str, script: Path, root: Path, args: list[str], nproc: int) -> list[str]:
    source = script.read_text(encoding="utf-8", errors="replace")
    program = _program(script, root, source)
    if nproc == 1 or starts_processes(script, root):
        return [python, *program, *args]
    port = free_port()
    launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={nproc}", f"--master_port={port}"]
    return [python, *launcher, *program, *args]


def _program(script: Path, root: Path, source: str) -> list[str]:
    """Return the arguments for Python: the script's path, or its module name if it uses relative imports."""
    if not re.search(r"^\s*from\s+\.", source, re.MULTILINE) or script.parent == root:
        return [str(script)]
    return ["-m", ".".join(script.relative_to(root).with_suffix("").parts)]


def environment(plan: RunPlan, base: Path, more: Mapping[str, str] | None) -> dict[str, str]:
    env = {**QUIET, **os.environ, **(more or {})}
    env[VARIABLE] = str(base / "plan.json")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(BOOT), env.get("PYTHONPATH")]))
    env["PYTHONHASHSEED"] = "0"
    if plan.side == "target":
        env.setdefault("PJRT_DEVICE", "CPU")
        env["PT_XLA_DEBUG_LEVEL"] = "1"
        env["PT_XLA_DEBUG_FILE"] = str(base / "compilations.txt")  # each process has its own
        if plan.device_count > 1 and env["PJRT_DEVICE"] == "CPU":
            env["CPU_NUM_DEVICES"] = str(plan.device_count)  # how many a launch starts
        env["PT_XLA_DEBUG_MAX_FRAME"] = "24"
    else:
        env.update(_WITHOUT_XLA)
    return env
