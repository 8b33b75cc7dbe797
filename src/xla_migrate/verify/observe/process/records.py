"""The run's record: one JSON object per line, appended as the run goes.

Several processes of one run write several files, `rank<r>.<pid>.jsonl`. A file is opened at the
first event, so that processes which do not train (loader workers, launchers) leave none.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import IO, Any

_folder: Path | None = None
_file: IO[str] | None = None


def open_in(folder: str) -> None:
    """Records of this process go to `folder`."""
    global _folder
    _folder = Path(folder)


def is_open() -> bool:
    """True if this process has written a record: it trains, or has failed."""
    return _file is not None


def rank() -> int:
    """The process's place among the run's processes."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0"))


def write(kind: str, **fields: Any) -> None:
    """Append one record."""
    global _file
    if _folder is None:
        return
    if _file is None:
        name = f"rank{rank()}.{os.getpid()}.jsonl"
        _file = (_folder / name).open("w", encoding="utf-8")
    _file.write(json.dumps({"kind": kind, **fields}, default=str) + "\n")
    _file.flush()


def numbers(values: list[float]) -> list[float | str]:
    """JSON has no inf and nan: they are written as strings."""
    return [v if math.isfinite(v) else str(v) for v in values]
