"""A script traced in a fork of a warm interpreter, which spares the imports of torch and torch_xla."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xla_migrate.target.compile import tracing

from ... import warm


def traced(script: Path, args: Sequence[str], folder: Path, **options: Any) -> tracing.Tracing:
    """Return the graphs of `script`; `options` are those of `tracing.trace`."""
    return tracing.trace(script, args, folder, python=warm.for_side("target"), **options)
