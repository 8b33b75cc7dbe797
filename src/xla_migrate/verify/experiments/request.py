"""The options of one verification."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..observe.plan import Dropout


@dataclass(frozen=True)
class Request:
    """The settings of a verification for both sides.

    Attributes:
        script: the original.
        args: its command-line arguments.
        steps: optimizer steps after which both are stopped.
        precision: what both compute in.
        dropout: off, or the same masks in both.
        tolerance: relative, of losses in float32.
        amplification: take each step from the original's weights in any case.
        metric: a regular expression whose first group is a number that both print, or None.
        nproc: processes.
        data_shim: Python executed before the script trains, or None.
        timeout: seconds for each run, or None.
        max_graphs: the largest number of graphs that is accepted, or None.
        keep: a folder that keeps the copies, outputs and records, or None.
        with_weights: a recording holds the initial weights and the first batches, too.
        replay: the migrated script trains with the recording's weights and batches.
    """

    script: Path
    args: tuple[str, ...] = ()
    steps: int = 20
    precision: Literal["float32", "bfloat16"] = "float32"
    dropout: Dropout = "off"
    tolerance: float = 1e-5
    amplification: bool = False
    metric: str | None = None
    nproc: int = 1
    data_shim: str | None = None
    timeout: float | None = None
    keep: str | None = None
    with_weights: bool = False
    replay: bool = False
    max_graphs: int | None = None
