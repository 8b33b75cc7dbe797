"""The plan for the traced script's process: one JSON file, found by an environment variable."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "XLA_MIGRATE_COMPILE"


@dataclass(frozen=True)
class Plan:
    """Settings of one tracing.

    Attributes:
        project: the copy of the user's folder that the script works in.
        original: the folder it was copied from, which must not be written.
        records: the folder that graphs and events go to.
        steps: batches that each pass over a DataLoader gives; 0 for all.
        patience: optimizer steps without a new graph after which the script is stopped.
        execute: let torch_xla compile and run the graphs on the CPU, too, so that values are real.
        explain: find out why each graph differs from earlier ones.
        ops: the target whose kernels are looked up for each operation, or "".
        listed: operators that this target's list names.
    """

    project: str
    original: str
    records: str
    steps: int = 4
    patience: int = 16
    execute: bool = False
    explain: bool = False
    ops: str = ""
    listed: Sequence[str] = ()

    def save(self, path: Path) -> None:
        """Write it for the script's process."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def current() -> Plan | None:
    """The plan of the tracing that this process belongs to."""
    path = os.environ.get(VARIABLE)
    return Plan(**json.loads(Path(path).read_text(encoding="utf-8"))) if path else None
